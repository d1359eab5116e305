"""Marks of what a process works on: where one stays, that process died without a word, and the next run tells.

A mark is a file beside a lock; the system lets go of the lock of a process that ends, however it ends.
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

_ANSWER = 0.3  # seconds: another process looks at a lock for a moment only, one that works holds it on


def mark_of(folder: Path) -> Path:
    """Return the mark of an encoder's folder; its lock is the encoder's."""
    return folder.with_name(folder.name + ".begun")


@contextmanager
def marked(mark: Path, what: str) -> Iterator[None]:
    """Keep a mark that names `what` while the block lasts; only a process that dies in the block leaves it.

    Whoever enters holds the lock.
    """
    begun = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with suppress(ZooError):  # a full disk is told by what is written next, and not for the sake of a mark
        write_json(mark, {"encoder": what, "process": os.getpid(), "begun": begun})
    try:
        yield
    finally:
        with suppress(OSError):
            mark.unlink(missing_ok=True)


def begun(mark: Path) -> str:
    """Return when a mark was made, as a part of a sentence; nothing where it does not say."""
    try:
        return f" (begun {read_mapping(mark)['begun']!s:.40})"
    except (ZooError, KeyError):
        return ""


@dataclass
class Asked:
    """Marks of the methods that are asked what they are while a run is planned.

    A method that a process died in meanwhile is not asked again before a run has ended: no plan would ever be made.
    """

    folder: Path  # of the marks
    write: bool = True  # False: those of other processes are looked at
    left: list[Path] = field(default_factory=list)  # marks of dead processes

    @contextmanager
    def asking(self, name: str) -> Iterator[str | None]:
        """Keep a mark while the block lasts; yields the sentence on a process that died there before, else None."""
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
            with suppress(Timeout, OSError, NotImplementedError), FileLock(_lock_of(mark), timeout=_ANSWER):
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
    """Delete marks of dead processes and their locks, once what they mean was said."""
    for mark in marks:
        for path in (mark, _lock_of(mark)):
            with suppress(OSError):
                path.unlink(missing_ok=True)
