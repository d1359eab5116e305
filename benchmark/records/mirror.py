"""The mirror of an address, such as s3://BUCKET/PATH, in a local folder, and what passes between the two.

The folder is an ordinary results folder; `.mirror.json` in it states which files equal their objects.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from benchmark.records.record import Record, pairs_of, parse_record
from zoo.errors import CorruptError, MissingError, UsageError, ZooError, said
from zoo.files import TEMPORARY_NAME, atomic_path, read_json, write_json

_NAME = r"[A-Za-z0-9_=-][A-Za-z0-9._=-]*"  # no dot first: whoever writes to the address must not choose other folders
_RECORDS = re.compile(rf"records/{_NAME}/{_NAME}\.(json|pairs\.safetensors\.gz)|(records|pairs)\.parquet|SHA256SUMS")
_ENCODER = re.compile(rf"encoders/({_NAME}/)+{_NAME}")
_TABLES = (".md", ".csv", ".json", ".tex", ".html")
_VERSIONS = ("ETag", "etag", "md5Hash", "blob_id", "created", "LastModified", "updated", "mtime")  # of a listed object
_AT_ONCE = 128  # objects that are fetched together
# A run must not stand still for a store that is away: it has its own attempts.
_S3 = {"config_kwargs": {"connect_timeout": 5, "read_timeout": 20, "retries": {"total_max_attempts": 2}}}
_OPTIONS: dict[str, dict[str, Any]] = {"s3": _S3, "s3a": _S3, "file": {"auto_mkdir": True}}


class _Known(NamedTuple):
    """A file of the mirror as it was when it equalled its object."""

    size: int
    mtime_ns: int
    sha256: str
    version: str  # of the object as listed; "": it was sent and not listed since


class Mirror:
    """A folder and the address that it mirrors; methods raise whatever the store's client raises."""

    def __init__(self, folder: Path, address: str) -> None:
        from filelock import FileLock

        self.folder, self.address = folder, address
        self.fs, self.root = _filesystem(address)
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(folder / ".mirror.lock")  # one process at a time compares the mirror with the address
        with self._lock:
            self._save(self._state())

    def fetch(self, under: str = "", *, first: bool = False) -> None:
        """Bring what is new at the address into the mirror: all records, those in a folder, or a trained encoder.

        `first`, at the begin of a command: a record that a user has removed at the address is renamed to *.gone.
        """
        wanted = _ENCODER if under.startswith("encoders/") else _RECORDS
        with self._lock:
            files = self._state()
            versions = {place: _version(info) for place, info in self.listed(under).items() if wanted.fullmatch(place)}
            new = [place for place, version in versions.items() if self._outdated(place, version, files)]
            new.sort(key=lambda place: place.endswith(".json"))  # last what makes the others count
            try:
                for start in range(0, len(new), _AT_ONCE):
                    for place, content in self.read(new[start : start + _AT_ONCE]).items():
                        self._keep(place, content, files, versions[place])
                gone = [place for place in files if _RECORDS.fullmatch(place) and place not in versions]
                for place in gone if first else ():
                    if not self._changed(place, files):
                        with suppress(FileNotFoundError):
                            (self.folder / place).replace(self.folder / f"{place}.gone")
                    del files[place]
            finally:
                self._save(files)

    def send(self, places: Iterable[str] | None = None) -> None:
        """Send these files, or all that the address lacks, pair scores before their record.

        Where another run has sent a score of the same cell meanwhile, that one is kept, and fetched.
        """
        with self._lock:
            files = self._state()
            before = dict(files)
            try:
                if places is None:  # also what somebody has removed there since it was sent
                    there = self.listed("")
                    for place in [place for place in files if place not in there]:
                        del files[place]
                for place in self._own() if places is None else places:
                    if self._changed(place, files):
                        self._send(place, files)
            finally:
                if files != before:
                    self._save(files)

    def unsent(self) -> int:
        """Return the number of files that the address lacks, without pair scores, which go with their record."""
        files = self._state()
        return sum(self._changed(place, files) for place in self._own())

    def listed(self, under: str) -> dict[str, dict[str, Any]]:
        """Return the objects in a folder of the address, by their place in it."""
        self.fs.invalidate_cache()
        try:
            found = self.fs.find(f"{self.root}/{under}".rstrip("/"), detail=True)
        except FileNotFoundError:
            return {}
        return {self._place(path): info for path, info in found.items()}

    def read(self, places: list[str]) -> dict[str, bytes]:
        """Return the content of those objects that exist."""
        found = self.fs.cat([f"{self.root}/{place}" for place in places], on_error="return") if places else {}
        for error in found.values():
            if isinstance(error, Exception) and not isinstance(error, FileNotFoundError):
                raise error
        return {self._place(path): content for path, content in found.items() if isinstance(content, bytes)}

    @contextmanager
    def told(self, what: str) -> Iterator[None]:
        """Turn the store's errors into a sentence; `what`: the address was to be read, or written."""
        try:
            yield
        except ZooError:
            raise
        except Exception as error:  # each client has its own
            kind, reason, remedy = ZooError, "", f"Try again later; what was fetched before is in {self.folder}."
            if isinstance(error, PermissionError):
                reason, remedy = "no rights: ", "Check the credentials, or name another address."
            elif isinstance(error, FileNotFoundError):
                kind, reason, remedy = MissingError, "no such bucket: ", "Create it, or name another address."
            text = f"{reason}{said(error):.300}".rstrip(".")
            raise kind(f"{self.address} cannot be {what} ({text}). {remedy}") from error

    def _own(self) -> Iterator[str]:
        """Yield the places of records, tables and the files of trained encoders; a pair file goes with its record."""
        paths = [
            *sorted((self.folder / "records").glob("*/*.json")),
            *(path for path in sorted(self.folder.glob("[!.]*")) if path.suffix in _TABLES),
        ]
        yield from (path.relative_to(self.folder).as_posix() for path in paths if path.is_file())
        for fit in sorted((self.folder / "encoders").glob("*/fit.json")):
            yield from self.encoder_files(fit.parent)

    def encoder_files(self, folder: Path) -> list[str]:
        """Return the places of a finished encoder's files, last the one that says that it is finished."""
        fit = folder / "fit.json"
        paths = (path for path in folder.rglob("*") if path.is_file() and path != fit)
        whole = sorted(path for path in paths if not TEMPORARY_NAME.fullmatch(path.name))  # of a killed training
        return [path.relative_to(self.folder).as_posix() for path in (*whole, fit)] if fit.is_file() else []

    def _send(self, place: str, files: dict[str, _Known]) -> None:
        changed = [place]
        if place.startswith("records/"):
            try:
                mine = parse_record((self.folder / place).read_bytes(), place)
            except (OSError, CorruptError):  # what reads it next says so; a damaged record is not passed on
                return
            theirs = self.read([place]).get(place)
            if theirs is not None and (place not in files or _sha256(theirs) != files[place].sha256):
                with suppress(CorruptError):
                    other = parse_record(theirs, place)
                    if other["status"] == "ok" or mine["status"] != "ok":
                        for one, content in {**self.read(_pairs(place, other)), place: theirs}.items():
                            self._keep(one, content, files)
                        return
            changed = [*(one for one in _pairs(place, mine) if self._changed(one, files)), place]
        for one in changed:
            content, state = (self.folder / one).read_bytes(), (self.folder / one).stat()
            self.fs.pipe_file(f"{self.root}/{one}", content)
            files[one] = _Known(state.st_size, state.st_mtime_ns, _sha256(content), "")

    def _outdated(self, place: str, version: str, files: dict[str, _Known]) -> bool:
        """Return whether an object is to be fetched: it is new, and the mirror has nothing unsent in its place."""
        if not (self.folder / place).exists():
            return True
        return not self._changed(place, files) and files[place].version != version

    def _changed(self, place: str, files: dict[str, _Known]) -> bool:
        """Return whether a file is another than the one that equalled its object."""
        try:
            state, known = (self.folder / place).stat(), files.get(place)
            if known is None or known[:2] == (state.st_size, state.st_mtime_ns):
                return known is None
            return _sha256((self.folder / place).read_bytes()) != known.sha256
        except FileNotFoundError:
            return False

    def _keep(self, place: str, content: bytes, files: dict[str, _Known], version: str = "") -> None:
        with atomic_path(self.folder / place) as new:
            new.write_bytes(content)
        state = (self.folder / place).stat()
        files[place] = _Known(state.st_size, state.st_mtime_ns, _sha256(content), version)

    def _place(self, path: str) -> str:
        return str(path).removeprefix(self.root).lstrip("/")

    def _state(self) -> dict[str, _Known]:
        """Return the files of this mirror that equal their objects."""
        try:
            return {place: _Known(*known) for place, known in read_json(self.folder / ".mirror.json").items()}
        except (MissingError, CorruptError, LookupError, TypeError, AttributeError):  # all is compared again
            return {}

    def _save(self, files: dict[str, _Known]) -> None:
        write_json(self.folder / ".mirror.json", files)


def _filesystem(address: str) -> tuple[Any, str]:
    """Return fsspec's file system of an address, and the address without its scheme."""
    from fsspec.core import url_to_fs

    scheme = address.partition("://")[0]
    try:
        fs, root = url_to_fs(address, **_OPTIONS.get(scheme, {}))
    except ImportError as error:
        with_extra = ": `pip install 'zoo-bench[cloud]'`" if scheme in ("s3", "s3a", "gs", "gcs") else ""
        raise MissingError(f"{address}: the package for {scheme}:// is missing ({error}){with_extra}.") from error
    except Exception as error:  # an unknown scheme, or no credentials
        raise UsageError(
            f"{address} cannot be opened ({said(error):.300}). Addresses are s3://BUCKET/PATH, gs://BUCKET/PATH,"
            " hf://buckets/OWNER/NAME/PATH."
        ) from error
    fs.retries = 1  # of s3fs and gcsfs, beside those of their clients
    return fs, str(root).rstrip("/")


def _version(info: dict[str, Any]) -> str:
    return f"{info.get('size')} {next((str(info[key]) for key in _VERSIONS if info.get(key)), '')}"


def _pairs(place: str, record: Record) -> list[str]:
    """Return the place of a record's pair file, in a list that is empty if it has none."""
    return [f"{place.rpartition('/')[0]}/{pairs_of(record)['file']}"] if record.get("pairs") else []


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
