"""Results at an address: runs share it by leases instead of file locks, and a thread sends what they measure.

Everything else of the project works on the address's mirror, as on any results folder. A lease is an object
`leases/ENCODER.json` with its owner and the time at which it ends; every owner has `leases/writer.OWNER.json` too.
fsspec is imported for an address only.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import quote

from benchmark.records.mirror import Mirror
from zoo.errors import UsageError, ZooError, said
from zoo.paths import MIRRORS, address_of, cache_folder

_LONGEST = 240  # characters of a mirror's name
_EXCLUSIVE = ("s3", "s3a", "gs", "gcs", "memory")  # schemes that create an object only if there is none
_WAIT, _LEASE = 300.0, 120.0  # seconds


def mirrored(address: str) -> Path:
    """Return the mirror of an address with what is new there; raises ZooError where it cannot be read."""
    address = address.rstrip("/")
    name = quote(address, safe="")
    if len(name) > _LONGEST:
        raise UsageError(f"{address}: an address may have {_LONGEST} characters, with signs such as / counted thrice.")
    folder = cache_folder() / MIRRORS / name
    remote = remote_of(folder)
    with remote.told("read"):
        remote.fetch()
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


@contextmanager
def sending(folder: Path, say: Callable[[str], None]) -> Iterator[list[tuple[str, str]]]:
    """Send what the block adds to a mirror, and renew leases.

    The list that is yielded has, after the block, the address and a sentence if something could not be sent in
    `ZOO_BENCH_WAIT` seconds. Raises ZooError before the block if the address cannot be written.
    """
    unsent: list[tuple[str, str]] = []
    remote = remote_of(folder)
    with remote.told("written"):
        remote.renew()
    with remote.at_work(say, seconds("ZOO_BENCH_WAIT", _WAIT), unsent):
        yield unsent


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
    """A mirror, and this machine's leases at its address."""

    def __init__(self, folder: Path, address: str) -> None:
        self.lease = seconds("ZOO_BENCH_LEASE", _LEASE)
        self.pause = self.lease / 24  # between two looks for what is unsent, and between two attempts
        super().__init__(folder, address)
        self._exclusive = address.partition("://")[0] in _EXCLUSIVE
        self._leasing = threading.Lock()  # one thread at a time renews leases, or gives them back
        self._held: set[str] = set()  # leases that are renewed
        self._over: set[str] = set()  # those of them that are given back once all is sent
        self._seen: dict[str, str] = {}  # the owners of all leases when they were last read
        self._renewed = 0.0
        self._away_since, self._back_since = math.inf, -math.inf
        self._working = 0
        self._say: Callable[[str], None] = lambda text: None

    def take(self, name: str, *, last: bool) -> bool:
        """Lease an encoder (its folder's name), and fetch its method's records; returns False if another run has it.

        Encoders are divided among the owners by their names; unless nothing else is left (`last`), those of others are
        left to them. While the store is away this holds too, until the leases of the others must have ended.
        """
        free = False
        if self._away_since == math.inf:  # else a thread finds out when the store is back; the run waits for no timeout
            try:
                free = self._leased(name, last)
            except Exception as error:
                self._away(error)
        if self._away_since < math.inf:
            mine = self._is_mine(name) and self._seen.get(name, self.owner) == self.owner
            free = mine or (last and time.monotonic() - self._away_since > self.lease)
        if free:
            self._over.discard(name)
            self._held.add(name)  # if the store is away, it is written when that is back
        else:
            time.sleep(self.pause if last else 0)
        return free

    def give_back(self, name: str, done: bool) -> None:
        """Give a lease back once all is sent; not `done`: another process of this mirror has and renews it."""
        if name in self._held:
            (self._over.add if done else self._held.discard)(name)

    def renew(self) -> None:
        """Write the object that names this owner, and renew its leases."""
        leases = self._leases()[0]
        if self._renewed and time.time() - self._renewed > self.lease:  # others may have taken some
            self._held.difference_update([name for name, owner in leases.items() if owner != self.owner])
        with self._leasing:
            for name in (f"writer.{self.owner}", *self._held):
                self._write(name)
        self._renewed = time.time()

    def _leased(self, name: str, last: bool) -> bool:
        """Return whether an encoder is this owner's to take and nobody has it, after its lease is written."""
        leases, there = self._leases()
        # After an absence, owners renew what they measured meanwhile before anybody else takes it.
        mine = self._is_mine(name) or (last and time.monotonic() - self._back_since > self.lease / 6)
        if not mine or leases.get(name, self.owner) != self.owner:
            return False
        try:
            self._write(name, create=name not in there and self._exclusive)
        except FileExistsError:
            return False
        if name not in leases and (name in there or not self._exclusive):
            time.sleep(self.pause / 4)  # whoever saw this too has written by now; the last one has it
            if self._leases()[0].get(name) != self.owner:
                return False
        self.fetch(f"records/{name.rpartition('-')[0]}")
        self.fetch(f"encoders/{name}")
        return True

    def _is_mine(self, name: str) -> bool:
        owners = sorted({*self._seen.values(), self.owner})
        return owners[zlib.crc32(name.encode()) % len(owners)] == self.owner

    def _write(self, name: str, create: bool = False) -> None:
        content = json.dumps({"owner": self.owner, "until": time.time() + self.lease}).encode()
        self.fs.pipe_file(f"{self.root}/leases/{name}.json", content, **({"mode": "create"} if create else {}))

    def _leases(self) -> tuple[dict[str, str], set[str]]:
        """Return the owners of the leases that have not ended, and the names of all."""
        contents = {Path(place).stem: content for place, content in self.read(list(self.listed("leases"))).items()}
        leases = {}
        for name, content in contents.items():
            with suppress(ValueError, LookupError, TypeError):  # what is no lease is overwritten
                lease = json.loads(content)
                if lease["until"] > time.time():
                    leases[name] = str(lease["owner"])
        self._seen = leases
        return leases, set(contents)

    @contextmanager
    def at_work(
        self, say: Callable[[str], None], wait: float = 0.0, unsent: list[tuple[str, str]] | None = None
    ) -> Iterator[None]:
        """Send and renew leases in threads during the block, then `finish`; inside another such block do nothing."""
        self._working += 1
        try:
            if self._working > 1:
                yield
                return
            self._say, stop = say, threading.Event()
            threads = [
                threading.Thread(target=self._repeat, args=(action, stop, pause), daemon=True)
                for action, pause in ((self._send_all, self.pause), (self.renew, self.lease / 3))
            ]
            for thread in threads:
                thread.start()
            patience = 0.0  # after an interruption the next run sends what cannot be sent now
            try:
                yield
                patience = wait
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
                self._over |= self._held
                self.finish(patience, unsent)
        finally:
            self._working -= 1

    def finish(self, wait: float, unsent: list[tuple[str, str]] | None = None) -> None:
        """Try for `wait` seconds to send what is unsent; if that fails, add the address and a sentence to `unsent`."""
        end = time.monotonic() + wait
        while True:
            try:
                self._send_all()
                with suppress(FileNotFoundError):
                    self.fs.rm_file(f"{self.root}/leases/writer.{self.owner}.json")
                self._renewed = 0.0
                self.fetch()  # what other runs have measured
                return
            except Exception as error:
                self._away(error)
                if time.monotonic() > end:
                    if unsent is not None and (count := self.unsent()):
                        why = (
                            f"{count} file{'s' * (count > 1)} could not be sent ({said(error):.300}); the same command"
                        )
                        unsent.append((self.address, f"{why} sends what is in {self.folder}"))
                        self._say(": ".join(unsent[-1]))
                    return
                time.sleep(self.pause)

    def _repeat(self, action: Callable[[], None], stop: threading.Event, pause: float) -> None:
        wait = pause
        while not stop.wait(wait):
            try:
                action()
                wait = pause
            except Exception as error:  # any client's; it is said, and what is unsent stays in the mirror
                self._away(error)
                wait = self.pause

    def _send_all(self) -> None:
        """Send what is unsent, then give back the leases under which it was measured."""
        over = tuple(self._over)
        if self._away_since < math.inf:
            self.renew()  # before others take what was measured meanwhile
        self._back(self.send())
        for name in over:
            with self._leasing, suppress(FileNotFoundError):
                self.fs.rm_file(f"{self.root}/leases/{name}.json")
                self._held.discard(name)
            self._over.discard(name)

    def _away(self, error: Exception) -> None:
        if self._away_since == math.inf:
            self._away_since = time.monotonic()
            self._say(
                f"{self.address} is away ({said(error):.200}): the run goes on without it, and sends its records when"
                " it is back"
            )

    def _back(self, sent: int = 0) -> None:
        if self._away_since < math.inf:
            self._away_since, self._back_since = math.inf, time.monotonic()
            self._say(f"{self.address} is back{f': {sent} files sent' if sent else ''}")
