"""Results at an address (s3://, gs://, hf:// ...): a mirror of them in the cache folder, and leases instead of locks.

Everything else of the project works on the mirror as on any results folder. While a run is at work, a thread sends its
finished records to the address. A lease is an object `leases/ENCODER.json` with its owner and the time at which it
ends. fsspec is imported for an address only.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from benchmark.records.schema import Record, pairs_of, parse_record
from zoo.errors import CorruptError, MissingError, UsageError, ZooError, said
from zoo.files import atomic_path, read_json, write_json
from zoo.paths import cache_folder

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.")
_MIRRORS = "addresses"  # in the cache folder; a mirror's name is its address with % for what a file name cannot have
_LONGEST = 240  # characters of such a name
_FETCHED = re.compile(r"records/[^/\\.][^/\\]*/[^/\\.][^/\\]*\.(json|pairs\.safetensors\.gz)|records\.zip")
_TABLES = (".md", ".csv", ".json", ".tex", ".html")
_VERSIONS = ("ETag", "etag", "md5Hash", "blob_id", "created", "LastModified", "updated", "mtime")  # of a listed object
_EXCLUSIVE = ("s3", "s3a", "gs", "gcs", "memory", "file")  # schemes that create an object only if there is none
_AT_ONCE = 128  # objects that are fetched together
# Attempts and waiting are this script's, not the client's: a run must not stand still for a store that is away.
_CLIENT = {"connect_timeout": 5, "read_timeout": 20, "retries": {"total_max_attempts": 2}}
_OPTIONS: dict[str, dict[str, Any]] = {scheme: {"config_kwargs": _CLIENT} for scheme in ("s3", "s3a")}


class _Known(NamedTuple):
    """A file of the mirror as it was when it equalled its object."""

    size: int
    mtime_ns: int
    sha256: str
    version: str  # of the object as listed; "": it was sent and not listed since


def is_address(text: object) -> bool:
    """Return whether a text names a place by a scheme, as s3://BUCKET/PATH does."""
    return isinstance(text, str) and _ADDRESS.match(text) is not None


def results_folder(results: str | Path) -> Path:
    """Return the path of a results folder; for an address, that of its mirror, with what is new at the address.

    Raises ZooError where the address cannot be read.
    """
    if not is_address(results):
        return Path(results)
    address = str(results).rstrip("/")
    name = quote(address, safe="")
    if len(name) > _LONGEST:
        raise UsageError(f"{address}: an address may have {_LONGEST} characters, with signs such as / counted thrice.")
    folder = cache_folder() / _MIRRORS / name
    folder.mkdir(parents=True, exist_ok=True)
    mirror = mirror_of(folder)
    assert mirror is not None
    with mirror.told("read"):
        mirror.fetch()
    return folder


def address_of(folder: Path) -> str | None:
    """Return the address of which a folder is the mirror, None for any other folder."""
    return unquote(folder.name) if folder.parent.name == _MIRRORS and "%3A%2F%2F" in folder.name else None


def refuse_address(folder: Path, what: str) -> None:
    """Raise UsageError if the folder is the mirror of an address."""
    if address := address_of(folder):
        raise UsageError(f"{what} works on a folder of this machine, not on {address}; name one with --results.")


def mirror_of(folder: Path) -> Mirror | None:
    """Return the mirror in a folder, one for each process; None for any other folder."""
    return None if address_of(folder) is None else _mirror(folder.absolute())


@contextmanager
def sending(folder: Path, say: Callable[[str], None]) -> Iterator[list[tuple[str, str]]]:
    """Send what the block adds to the mirror of an address; for any other folder do nothing.

    The list that is yielded has, after the block, the address and a sentence if something could not be sent in
    `ZOO_BENCH_WAIT` seconds. Raises ZooError before the block if the address cannot be written.
    """
    unsent: list[tuple[str, str]] = []
    mirror = mirror_of(folder)
    if mirror is None:
        yield unsent
        return
    with mirror.told("written"):
        mirror.renew()
    with mirror.at_work(say, seconds("ZOO_BENCH_WAIT", 300), unsent):
        yield unsent


def send_now(folder: Path) -> None:
    """Send what the mirror of an address has in addition, such as tables; raises ZooError where that fails."""
    unsent: list[tuple[str, str]] = []
    if (mirror := mirror_of(folder)) is not None:
        mirror.finish(seconds("ZOO_BENCH_WAIT", 300), unsent)
    for address, reason in unsent:
        raise ZooError(f"{address}: {reason}")


def seconds(variable: str, default: float) -> float:
    """Return the seconds in an environment variable; raises UsageError if it is no positive number."""
    text = os.environ.get(variable, "")
    try:
        value = float(text or default)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise UsageError(f"{variable} is {text!r}; give seconds, such as {default:.0f}.")
    return value


class Mirror:
    """A folder that holds what is at an address, and this machine's leases there."""

    def __init__(self, folder: Path, address: str) -> None:
        from filelock import FileLock

        self.folder, self.address = folder, address
        self.lease = seconds("ZOO_BENCH_LEASE", 120)
        self.period = self.lease / 60  # between two looks for what is unsent
        self.fs, self.root = _filesystem(address)
        self.exclusive = address.partition("://")[0] in _EXCLUSIVE
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(folder / ".mirror.lock")  # one process at a time compares the mirror with the address
        with self._lock:
            state = self._state()
            name = state.setdefault("owner", secrets.token_hex(4))
            write_json(folder / ".mirror.json", state)
        self.owner = f"{socket.gethostname()}-{name}"  # of all processes of the mirror, which its file locks divide
        self._held: set[str] = set()  # leases that are renewed
        self._over: set[str] = set()  # those to be given back once all is sent
        self._seen: dict[str, str] = {}  # the owners of all leases when they were last read
        self._renewed, self._away_since, self._back_since, self._working = 0.0, 0.0, -math.inf, 0
        self._say: Callable[[str], None] = lambda text: None

    # Files

    def fetch(self, method: str = "") -> None:
        """Bring what is new at the address into the mirror, all or the records of one method (its folder's name).

        A copy whose object is no longer there is renamed to *.gone. Raises the store's errors.
        """
        with self._lock:
            state = self._state()
            self.fs.invalidate_cache()
            try:
                listed = self.fs.find(f"{self.root}/records/{method}" if method else self.root, detail=True)
            except FileNotFoundError:
                listed = {}
            there = {self._place(path): info for path, info in listed.items()}
            versions = {place: _version(info) for place, info in there.items() if _FETCHED.fullmatch(place)}
            new = [place for place, version in versions.items() if self._outdated(place, version, state["files"])]
            new.sort(key=lambda place: place.endswith(".json"))  # the pair scores before their record
            try:
                for start in range(0, len(new), _AT_ONCE):
                    for place, content in self._read(new[start : start + _AT_ONCE]).items():
                        self._keep(place, content, versions[place], state["files"])
                gone = [place for place in state["files"] if _FETCHED.fullmatch(place) and place not in there]
                for place in () if method else gone:
                    if not self._changed(place, state["files"]):
                        with suppress(FileNotFoundError):
                            (self.folder / place).replace(self.folder / f"{place}.gone")
                    del state["files"][place]
            finally:
                write_json(self.folder / ".mirror.json", state)

    def send(self) -> int:
        """Send what the address lacks, pair scores before their record; returns the number of files.

        Where another run has sent a score of the same cell meanwhile, that one is kept, and fetched. Raises the
        store's errors.
        """
        with self._lock:
            state = self._state()
            sent, before = 0, dict(state["files"])
            try:
                for path in self._own():
                    place = path.relative_to(self.folder).as_posix()
                    if self._changed(place, state["files"]):
                        sent += self._send(place, state["files"])
            finally:
                if state["files"] != before:
                    write_json(self.folder / ".mirror.json", state)
            return sent

    def unsent(self) -> int:
        """Return the number of files that the address lacks."""
        files = self._state()["files"]
        return sum(self._changed(path.relative_to(self.folder).as_posix(), files) for path in self._own())

    def forget(self, path: Path) -> None:
        """Remove the object of a file that the mirror no longer has; a store that is away keeps it."""
        with suppress(Exception), self._lock:
            self.fs.rm_file(f"{self.root}/{path.relative_to(self.folder).as_posix()}")

    def _own(self) -> Iterator[Path]:
        """Yield records and tables; a pair file goes with its record."""
        yield from sorted((self.folder / "records").glob("*/*.json"))
        yield from (path for path in sorted(self.folder.glob("[!.]*")) if path.suffix in _TABLES and path.is_file())

    def _send(self, place: str, files: dict[str, _Known]) -> int:
        path, changed = self.folder / place, [place]
        if place.startswith("records/"):
            try:
                mine = parse_record(path.read_bytes(), str(path))
            except (OSError, CorruptError):  # what reads it next says so; a damaged record is not passed on
                return 0
            their_bytes = self._read([place]).get(place)
            known = files.get(place)
            if their_bytes is not None and (known is None or _sha256(their_bytes) != known.sha256):
                with suppress(CorruptError):
                    theirs = parse_record(their_bytes, place)
                    if theirs["status"] == "ok" or mine["status"] != "ok":
                        for one, content in (*self._read(_pairs(place, theirs)).items(), (place, their_bytes)):
                            self._keep(one, content, "", files)
                        return 0
            changed = [*(one for one in _pairs(place, mine) if self._changed(one, files)), place]
        for one in changed:
            content, state = (self.folder / one).read_bytes(), (self.folder / one).stat()
            self.fs.pipe_file(f"{self.root}/{one}", content)
            files[one] = _Known(state.st_size, state.st_mtime_ns, _sha256(content), "")
        return len(changed)

    def _outdated(self, place: str, version: str, files: dict[str, _Known]) -> bool:
        """Return whether an object is to be fetched: it is new, and the mirror has nothing unsent in its place."""
        if not (self.folder / place).exists():
            return True
        return not self._changed(place, files) and files[place].version != version

    def _changed(self, place: str, files: dict[str, _Known]) -> bool:
        """Return whether a file is another than the one that equalled its object."""
        try:
            state = (self.folder / place).stat()
            known = files.get(place)
            if known is None or known[:2] == (state.st_size, state.st_mtime_ns):
                return known is None
            return _sha256((self.folder / place).read_bytes()) != known.sha256
        except FileNotFoundError:
            return False

    def _keep(self, place: str, content: bytes, version: str, files: dict[str, _Known]) -> None:
        with atomic_path(self.folder / place) as new:
            new.write_bytes(content)
        state = (self.folder / place).stat()
        files[place] = _Known(state.st_size, state.st_mtime_ns, _sha256(content), version)

    def _read(self, places: list[str]) -> dict[str, bytes]:
        """Return the content of those objects that exist."""
        found = self.fs.cat([f"{self.root}/{place}" for place in places], on_error="return") if places else {}
        for error in found.values():
            if isinstance(error, Exception) and not isinstance(error, FileNotFoundError):
                raise error
        return {self._place(path): content for path, content in found.items() if isinstance(content, bytes)}

    def _place(self, path: str) -> str:
        return str(path).removeprefix(self.root).lstrip("/")

    def _state(self) -> dict[str, Any]:
        try:
            state = read_json(self.folder / ".mirror.json")
            files = {place: _Known(*known) for place, known in state["files"].items()}
            return {"owner": str(state["owner"]), "files": files}
        except (MissingError, CorruptError, LookupError, TypeError, AttributeError):  # all is compared again
            return {"files": {}}

    # Leases

    def take(self, name: str, *, last: bool) -> bool:
        """Lease an encoder (its folder's name), and fetch the records of its method; returns False if another has it.

        The encoders are divided among the owners by their names; unless it is the `last` thing to do, one of another
        owner's is left to it. While the store is away this holds as well, and leases that were seen count until they
        must have ended.
        """
        try:
            leases, there = self._leases()
            self._back()
        except Exception as error:
            self._away(error)
            mine = self._is_mine(name) and self._seen.get(name, self.owner) == self.owner
            if mine or (last and time.monotonic() - self._away_since > self.lease):
                self._held.add(name)  # leased when the address is back
                return True
            time.sleep(self.period if last else 0)
            return False
        # After an absence, owners renew what they measured meanwhile before anybody else takes it.
        theirs = not self._is_mine(name) and not (last and time.monotonic() - self._back_since > self.lease / 6)
        if theirs or leases.get(name, self.owner) != self.owner:
            time.sleep(self.period if last else 0)
            return False
        try:
            self._write_lease(name, create=name not in there)
            if leases.get(name) is None and (name in there or not self.exclusive):
                time.sleep(self.period / 4)  # whoever saw the same ended lease has written too; the last one has it
                if self._leases()[0].get(name) != self.owner:
                    return False
            self._held.add(name)
            self.fetch(name.rpartition("-")[0])
        except FileExistsError:
            return False
        except Exception as error:
            self._away(error)
        return True

    def give_back(self, name: str, done: bool) -> None:
        """Give a lease back once all is sent; not `done`: another process of this mirror has and renews it."""
        if name in self._held:
            (self._over.add if done else self._held.discard)(name)

    def renew(self) -> None:
        """Write the object that names this owner, and renew its leases; raises the store's errors."""
        if self._renewed and time.time() - self._renewed > self.lease:  # others may have taken them
            leases = self._leases()[0]
            self._held = {name for name in self._held if leases.get(name, self.owner) == self.owner}
        for name in (f"writer.{self.owner}", *self._held):
            self._write_lease(name)
        self._renewed = time.time()

    def _is_mine(self, name: str) -> bool:
        owners = sorted({*self._seen.values(), self.owner})
        return owners[zlib.crc32(name.encode()) % len(owners)] == self.owner

    def _write_lease(self, name: str, create: bool = False) -> None:
        content = json.dumps({"owner": self.owner, "until": time.time() + self.lease}).encode()
        mode = {"mode": "create"} if create and self.exclusive else {}
        self.fs.pipe_file(f"{self.root}/leases/{name}.json", content, **mode)

    def _leases(self) -> tuple[dict[str, str], set[str]]:
        """Return the owners of the leases that have not ended, and the names of all."""
        self.fs.invalidate_cache()
        with suppress(FileNotFoundError):
            found = self._read([self._place(path) for path in self.fs.find(f"{self.root}/leases")])
            leases = {}
            for place, content in found.items():
                with suppress(ValueError, LookupError, TypeError):
                    lease = json.loads(content)
                    if lease["until"] > time.time():
                        leases[place.removeprefix("leases/").removesuffix(".json")] = str(lease["owner"])
            self._seen = leases
            return leases, {place.removeprefix("leases/").removesuffix(".json") for place in found}
        return {}, set()

    # The thread

    @contextmanager
    def at_work(
        self, say: Callable[[str], None], wait: float = 0.0, unsent: list[tuple[str, str]] | None = None
    ) -> Iterator[None]:
        """Send and renew leases in a thread during the block; after it, try for `wait` seconds to send the rest.

        If that fails, a sentence is added to `unsent`. Inside another such block this does nothing.
        """
        self._working += 1
        if self._working > 1:
            try:
                yield
            finally:
                self._working -= 1
            return
        self._say, stop = say, threading.Event()
        thread = threading.Thread(target=self._work, args=(stop,), name="zoo-bench-sending", daemon=True)
        thread.start()
        try:
            yield
        except BaseException:
            wait = 0.0  # it was interrupted: what is not sent now is sent by the next run
            raise
        finally:
            stop.set()
            thread.join()
            self._working -= 1
            self.finish(wait, unsent)

    def _work(self, stop: threading.Event) -> None:
        pause = self.period
        while not stop.wait(pause):
            try:
                self._once()
                pause = self.period
            except Exception as error:  # any client's; it is said, and what is unsent stays in the mirror
                self._away(error)
                pause = min(2 * pause, self.lease / 12)

    def _once(self) -> None:
        """Send what is unsent, give leases back that are over, and renew the others when it is time."""
        if self._away_since or time.time() - self._renewed > self.lease / 3:
            self.renew()
        over = set(self._over)  # before sending: what was measured under them is in the mirror
        sent = self.send()
        for name in over:
            with suppress(FileNotFoundError):
                self.fs.rm_file(f"{self.root}/leases/{name}.json")
            self._held.discard(name)
            self._over.discard(name)
        self._back(sent)

    def finish(self, wait: float, unsent: list[tuple[str, str]] | None = None) -> None:
        """Try for `wait` seconds to send what is unsent; if that fails, add the address and a sentence to `unsent`."""
        end = time.monotonic() + wait
        self._over |= self._held
        while True:
            try:
                self._once()
                with suppress(FileNotFoundError):
                    self.fs.rm_file(f"{self.root}/leases/writer.{self.owner}.json")
                self._renewed = 0.0
                self.fetch()  # what other runs have measured
                return
            except Exception as error:
                self._away(error)
                if time.monotonic() < end:
                    time.sleep(self.period)
                    continue
                if unsent is not None and (count := self.unsent()):
                    why = f"{count} files were not sent ({said(error):.300}): they are in {self.folder}, and the same"
                    unsent.append((self.address, f"{why} command sends them."))
                return

    def _away(self, error: Exception) -> None:
        if not self._away_since:
            self._away_since = time.monotonic()
            self._say(
                f"{self.address} is away ({said(error):.200}): the run goes on without leases, and sends its records"
                " when the address is back"
            )

    def _back(self, sent: int = 0) -> None:
        if self._away_since:
            self._away_since, self._back_since = 0.0, time.monotonic()
            self._say(f"{self.address} is back{f': {sent} files sent' if sent else ''}")

    @contextmanager
    def told(self, what: str) -> Iterator[None]:
        """Turn the store's errors into a sentence; `what`: the address was to be read, or written."""
        try:
            yield
        except ZooError:
            raise
        except PermissionError as error:
            raise ZooError(
                f"{self.address} cannot be {what}: no rights ({said(error):.300}). Check the credentials, or name"
                " another address."
            ) from error
        except FileNotFoundError as error:
            raise MissingError(
                f"{self.address} cannot be {what}: there is no such bucket ({said(error):.300}). Create it, or name"
                " another address."
            ) from error
        except Exception as error:  # each client has its own
            raise ZooError(
                f"{self.address} cannot be {what}: {said(error):.300}. Try again when it can be reached; what was"
                f" fetched before is in {self.folder}."
            ) from error


@cache
def _mirror(folder: Path) -> Mirror:
    return Mirror(folder, str(address_of(folder)))


def _filesystem(address: str) -> tuple[Any, str]:
    """Return fsspec's file system of an address, and the address without its scheme."""
    from fsspec.core import url_to_fs

    scheme = address.partition("://")[0]
    try:
        fs, root = url_to_fs(address, **_OPTIONS.get(scheme, {}))
    except ImportError as error:
        raise MissingError(
            f"{address}: the package for {scheme}:// is not installed ({error}): `pip install 'zoo-bench[cloud]'` has"
            " those for s3:// and gs://."
        ) from error
    except Exception as error:  # an unknown scheme, or no credentials
        raise UsageError(
            f"{address} cannot be opened: {said(error):.300}. Addresses are s3://BUCKET/PATH, gs://BUCKET/PATH,"
            " hf://datasets/OWNER/NAME/PATH."
        ) from error
    return fs, str(root).rstrip("/")


def _version(info: dict[str, Any]) -> str:
    return f"{info.get('size')} {next((str(info[key]) for key in _VERSIONS if info.get(key)), '')}"


def _pairs(place: str, record: Record) -> list[str]:
    """Return the place of a record's pair file, in a list that is empty if it has none."""
    name = pairs_of(record)["file"] if record.get("pairs") else None
    return [f"{place.rpartition('/')[0]}/{name}"] if name else []


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
