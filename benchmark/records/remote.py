"""Results at an address, such as s3://BUCKET/PATH: read what is there, send each record when it is written.

Everything else of the project works on the address's mirror, as on any results folder. Records are named by what they
measure, so that two runs at one address send equal ones; `--shard` divides the work. fsspec is imported for an address
only.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import quote

from benchmark.records.mirror import Mirror
from zoo.errors import UsageError, ZooError, said
from zoo.paths import MIRRORS, address_of, cache_folder

_LONGEST = 240  # characters of a mirror's name
_WAIT = 300.0  # seconds that the end of a command tries to send what is left
_PAUSE = 5.0  # seconds between two such attempts
_AWAY = 30.0  # seconds in which a run does not try again after a failure


def mirrored(address: str) -> Path:
    """Return the mirror of an address with what is new there; raises ZooError where it cannot be read."""
    address = address.rstrip("/")
    name = quote(address, safe="")
    if len(name) > _LONGEST:
        raise UsageError(f"{address}: an address may have {_LONGEST} characters, with signs such as / counted thrice.")
    folder = cache_folder() / MIRRORS / name
    remote = remote_of(folder)
    with remote.told("read"):
        remote.fetch(first=True)
    return folder


def refuse_address(folder: Path, what: str) -> None:
    """Raise UsageError if the folder is the mirror of an address."""
    if address := address_of(folder):
        raise UsageError(f"{what} works on a folder of this machine, not on {address}; name one with --results.")


def remote_of(folder: Path) -> Remote:
    """Return what a mirror mirrors, one object for each process."""
    return _remote(folder.absolute())


@cache
def _remote(folder: Path) -> Remote:
    return Remote(folder, str(address_of(folder)))


def fetch_encoder(folder: Path) -> None:
    """Fetch a trained encoder that its folder, in the mirror of an address, lacks; raises ZooError where that fails."""
    if address_of(folder.parent.parent) and not (folder / "fit.json").is_file():
        remote = remote_of(folder.parent.parent)
        with remote.told("read"):
            remote.fetch(f"encoders/{folder.name}")


def send_written(folder: Path, record: Path, encoder: Path) -> None:
    """Send a record that was written to a mirror, and its finished encoder; what fails is sent by `finish`."""
    if address_of(folder):
        remote_of(folder).send_soon([*remote_of(folder).encoder_files(encoder), record.relative_to(folder).as_posix()])


@contextmanager
def sending(folder: Path, say: Callable[[str], None]) -> Iterator[list[tuple[str, str]]]:
    """Send, after the block, what the address of a mirror lacks.

    The list that is yielded has then the address and a sentence if something could not be sent in `ZOO_BENCH_WAIT`
    seconds. Raises ZooError before the block if the address cannot be written.
    """
    unsent: list[tuple[str, str]] = []
    remote = remote_of(folder)
    with remote.told("written"):
        remote.fs.pipe_file(f"{remote.root}/.zoo-bench", b"")
    wait = 0.0  # after an interruption the next run sends what cannot be sent now
    try:
        yield unsent
        wait = seconds("ZOO_BENCH_WAIT", _WAIT)
    finally:
        remote.finish(wait, unsent)
        for one in unsent:
            say(": ".join(one))


def send_now(folder: Path) -> None:
    """Send what a mirror has in addition, such as tables; raises ZooError where that fails."""
    unsent: list[tuple[str, str]] = []
    remote_of(folder).finish(seconds("ZOO_BENCH_WAIT", _WAIT), unsent)
    for address, reason in unsent:
        raise ZooError(f"{address}: {reason}")


def seconds(variable: str, default: float) -> float:
    """Return the seconds in an environment variable; raises UsageError if it is no positive number."""
    text = os.environ.get(variable) or str(default)
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise UsageError(f"{variable} is {text!r}; give seconds, such as {default:.0f}.")


class Remote(Mirror):
    """A mirror that sends during a run."""

    _away_until = 0.0

    def send_soon(self, places: list[str]) -> None:
        """Send these files, unless the store has just failed; the end of the command sends what is left."""
        if time.monotonic() < self._away_until:
            return
        try:
            self.send(places)
        except Exception:  # any client's: the run goes on, and `finish` says what could not be sent
            self._away_until = time.monotonic() + _AWAY

    def finish(self, wait: float, unsent: list[tuple[str, str]]) -> None:
        """Try for `wait` seconds to send what is unsent; if that fails, add the address and a sentence to `unsent`."""
        end = time.monotonic() + wait
        while True:
            try:
                self.send()
                self.fetch()  # what other runs have measured
                return
            except Exception as error:  # any client's
                if time.monotonic() > end:
                    if count := self.unsent():
                        why = (
                            f"{count} file{'s' * (count > 1)} could not be sent ({said(error):.300}); the same command"
                        )
                        unsent.append((self.address, f"{why} sends what is in {self.folder}"))
                    return
            time.sleep(min(_PAUSE, wait))
