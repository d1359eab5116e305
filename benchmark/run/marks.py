"""Mark files that name what a process works on: a mark that remains shows the next run that its process was killed.

A mark is a file with a lock beside it; the operating system releases the lock of a process however it ends.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from zoo.errors import ZooError
from zoo.files import read_mapping, slug, write_json

_ANSWER = 0.3  # seconds to wait for a lock: a process that only checks it releases it sooner, one at work does not


def mark_of(folder: Path) -> Path:
    """Return the mark of an encoder's folder; the encoder's lock also guards the mark."""
    return folder.with_name(folder.name + ".begun")


@contextmanager
def marked(mark: Path, what: str) -> Iterator[None]:
    """Keep a mark that names `what` during the block; it remains only if the process dies inside the block.

    The caller must hold the lock.
    """
    begun = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with suppress(ZooError):  # a full disk is reported by the next important write, not because of a mark
        write_json(mark, {"encoder": what, "process": os.getpid(), "begun": begun})
    try:
        yield
    finally:
        with suppress(OSError):
            mark.unlink(missing_ok=True)


def begun(mark: Path) -> str:
    """Return " (begun TIME)" of a mark, for use in a sentence; "" where the mark does not state the time."""
    try:
        return f" (begun {read_mapping(mark)['begun']!s:.40})"
    except (ZooError, KeyError):
        return ""


@dataclass
class MethodMarks:
    """Marks of the plugin methods whose code runs while a plan is made, to find out their properties.

    If a process died in such a method, it is not asked again until a run has ended; else no plan could ever be made.
    """

    folder: Path  # where the marks are
    write: bool = True  # False: only the marks of other processes are read
    left: list[Path] = field(default_factory=list)  # marks of dead processes that were found

    @contextmanager
    def asking(self, name: str) -> Iterator[str | None]:
        """Keep a mark during the block; yields a sentence if a process died in this method before, else None."""
        sentence = self._death(name)
        if sentence is not None or not self.write:
            yield sentence
            return
        from filelock import FileLock

        mark = self.folder / f"{slug(name)}.{secrets.token_hex(4)}.asked"
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(_lock_of(mark))
        try:
            with lock, marked(mark, name):
                yield None
        finally:
            with suppress(OSError):
                _lock_of(mark).unlink(missing_ok=True)

    def _death(self, name: str) -> str | None:
        from filelock import FileLock, Timeout

        for mark in sorted(self.folder.glob(f"{slug(name)}.????????.asked")):
            with suppress(Timeout, OSError), FileLock(_lock_of(mark), timeout=_ANSWER):
                if mark.is_file():
                    when = begun(mark)
                    self.left.append(mark)
                    return (
                        f"the process died while it asked this method for its vectors of a few fixed texts{when},"
                        " without a word; the next run asks again."
                    )
        return None


def _lock_of(mark: Path) -> Path:
    return mark.with_name(mark.name + ".lock")


def forget(marks: Iterable[Path]) -> None:
    """Delete marks of dead processes and their locks, once these deaths were reported."""
    for mark in marks:
        for path in (mark, _lock_of(mark)):
            with suppress(OSError):
                path.unlink(missing_ok=True)
