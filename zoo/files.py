"""Files, complete or absent: atomic writes, checksums, safe names, standard JSON."""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import secrets
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any, NoReturn

import yaml

from zoo.errors import CorruptError, MissingError, UsageError, ZooError
from zoo.paths import no_file

if sys.platform != "win32":
    import fcntl

TEMPORARY_NAME = re.compile(r"\..*\.[a-z0-9_]{8}\.tmp|\.tmp\w{6}")


def temporary_prefix(name: str) -> str:
    return f".{name[:40]}."


def lock(handle: int) -> bool:
    """Try to lock an open file, until its close or the process's death."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove_dead(folder: Path, prefix: str = ".", seconds: float = 3600) -> None:
    """Remove unlocked temporary files older than `seconds`, of killed writers."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.startswith(prefix) and TEMPORARY_NAME.fullmatch(entry.name) and entry.is_file():
                with contextlib.suppress(OSError), Path(entry).open("r+b") as file:
                    if time.time() - os.fstat(file.fileno()).st_mtime >= seconds and lock(file.fileno()):
                        Path(entry).unlink()


_FULL = (errno.ENOSPC, errno.EDQUOT)
# safetensors, pyarrow and tokenizers raise errors of their own, or plain ones, where the system refuses a write.
_WRITERS = ("safetensors", "safetensors_rust", "pyarrow")
_SYSTEM = re.compile(r"\(os error (\d+)\)|\[Errno (\d+)\]")
# torch.save, where the system took a part of a file only.
_SHORT = "inline_container.cc"
_READ_ERRORS = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)


@contextlib.contextmanager
def reading(path: Path, what: str = "") -> Iterator[None]:
    """Errors of reading as MissingError (absent, no file) or CorruptError (damaged), naming the file."""
    name = f"{what} {path}".strip()
    if kind := no_file(path):
        raise MissingError(f"{name} is {kind}.")
    try:
        yield
    except FileNotFoundError as error:
        raise MissingError(f"{name} does not exist.") from error
    except _READ_ERRORS as error:
        raise CorruptError(f"{name} cannot be read to its end: {error}.") from error
    except OSError as error:
        raise MissingError(f"{name} cannot be read: {error.strerror or error}.") from error


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Errors of writing, libraries' too, as ZooError naming file or folder."""
    try:
        yield
    except Exception as error:
        # Others than of writing, a ZooError among them, pass.
        system = _SYSTEM.search(str(error))
        number = error.errno if isinstance(error, OSError) else int(system[1] or system[2]) if system else None
        of_writer = isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _WRITERS
        short = _SHORT in str(error)
        if isinstance(error, ZooError) or not (of_writer or system or short):
            raise
        reason = os.strerror(number) if number else "a file was cut short" if short else one_line(error)
        remedy = (
            "Free space or choose another folder." if number in _FULL or short else "Choose another folder or free it."
        )
        raise ZooError(f"cannot write {path}: {reason}. {remedy}") from error


WRONG_CONTENT = (AttributeError, TypeError, ValueError, LookupError, ArithmeticError, RecursionError)
"""What Python raises when a value that was read from a file has not the type that the code expects."""


@contextlib.contextmanager
def well_formed(what: str | Path, error: type[ZooError] = CorruptError) -> Iterator[None]:
    """Errors by malformed content as `error`, naming `what`; ZooErrors pass."""
    try:
        yield
    except WRONG_CONTENT as wrong:
        detail = " ".join(str(wrong).split())[:200]
        raise error(f"{what} is not of the form it should have ({type(wrong).__name__}: {detail}).") from wrong


@contextlib.contextmanager
def open_bytes(path: Path, what: str = "") -> Iterator[IO[bytes]]:
    openers: dict[str, Callable[[Path, str], IO[bytes]]] = {".gz": gzip.open, ".xz": lzma.open}  # type: ignore[dict-item]
    with reading(path, what), openers.get(path.suffix, Path.open)(path, "rb") as file:
        yield file


def iterate_bytes(path: Path, what: str = "") -> Iterator[bytes]:
    """Yield lines, newline included, .gz and .xz unpacked."""
    with open_bytes(path, what) as file:
        # Their readers of .gz and .xz read a line in Python.
        yield from io.BufferedReader(file, 1 << 20) if path.suffix in (".gz", ".xz") else file  # type: ignore[type-var]


def iterate_lines(path: Path, encoding: str = "utf-8", what: str = "") -> Iterator[str]:
    """Lines, split only at newlines, without a BOM; raises MissingError, or CorruptError with file:line and byte."""
    for number, raw in enumerate(iterate_bytes(path, what), 1):
        if number == 1 and encoding == "utf-8":
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield line.decode(encoding)
        except UnicodeDecodeError as error:
            hint = "" if encoding != "utf-8" else " Save it as UTF-8; it may be of Windows (such as cp1252)."
            if line.startswith((b"\xff\xfe", b"\xfe\xff")):
                hint = " It is UTF-16; save it as UTF-8."
            raise CorruptError(f"{path}:{number}: byte {line[error.start]:#x} is not {encoding}.{hint}") from error


def read_text(path: Path, what: str = "") -> str:
    """UTF-8 text; CorruptError names file:line of another byte, MissingError an absent file."""
    with reading(path, what):
        content = path.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CorruptError(f"{path}:{line}: byte {content[error.start]:#x} is not utf-8.") from error


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, then fsync and rename it; a killed writer's files are removed."""
    temporary = path.with_name(f"{temporary_prefix(path.name)}{secrets.token_hex(4)}.tmp")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_dead(path.parent, temporary_prefix(path.name))
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        # Windows refuses to rename an open file.
        with writing(path), os.fdopen(handle, "wb"):
            lock(handle)
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            with contextlib.suppress(OSError):
                # A library may have put a private file in its place.
                temporary.chmod(os.fstat(handle).st_mode & 0o777)
        with writing(path):
            temporary.replace(path)
        _fsync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _fsync_folder(folder: Path) -> None:
    # The rename itself must survive a power cut; not every file system lets a folder be opened.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: object) -> None:
    """Write standard JSON atomically (ValueError for NaN and infinity)."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Raises CorruptError for invalid JSON, MissingError for an absent file."""
    with reading(path):
        content = path.read_bytes()
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError as error:
        raise CorruptError(
            f"{path} is not valid JSON (nested too deeply); restore it, or delete it if a run made it."
        ) from error
    except ValueError as error:
        raise CorruptError(f"{path} is not valid JSON ({error}); restore it, or delete it if a run made it.") from error


def read_mapping(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise CorruptError(f"{path} holds {type(value).__name__} where a JSON object belongs.")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not standard JSON")


class _UniqueKeys(yaml.constructor.SafeConstructor):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key {key.value!r}", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class _Loader(_UniqueKeys, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader (libyaml's, ten times as fast, if present) that refuses duplicate keys."""


# YAML 1.1 reads `3e-5`, without a dot, as text.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d{1,3}$"), [*"-+0123456789"]
)


# No file of settings comes near.
_DEEPEST, _MOST_PARTS = 50, 1_000_000


def _parts(value: dict[Any, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def one_line(problem: object) -> str:
    return " ".join(str(problem).split())[:300].rstrip(".")


def parse_yaml(text: str, where: str) -> Any:
    """Parse a safe YAML document; raises UsageError with `where` and the line, also for endless nesting."""
    try:
        loader: Any = _Loader
        value = loader(text).get_single_data()
        # Aliases may stand for more than their text; parts of parts are counted as they would be printed.
        level, count = [value], 0
        for _ in range(_DEEPEST):
            inner = (part for item in level if isinstance(item, dict | list) for part in _parts(item))
            level = list(islice(inner, _MOST_PARTS))
            if not level or (count := count + len(level)) >= _MOST_PARTS:
                break
        if level:
            raise UsageError(f"{where}: nested too deeply, or too large; write it flat.")
        return value
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{where}{line}: {one_line(getattr(error, 'problem', None) or error)}.") from error
    except WRONG_CONTENT as error:
        raise UsageError(f"{where}: a value cannot be read ({type(error).__name__}: {one_line(error)}).") from error


def read_yaml(path: Path) -> Any:
    try:
        return parse_yaml(read_text(path), str(path))
    except MissingError as error:
        raise UsageError(str(error)) from error
    except CorruptError as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def write_signed(path: Path, value: Mapping[str, object]) -> None:
    write_json(path, {**value, "sha256": sha256_json(value)})


def read_signed(path: Path) -> dict[str, Any]:
    value = read_mapping(path)
    expected = value.pop("sha256", None)
    with well_formed(path):
        actual = sha256_json(value)
    if expected != actual:
        raise CorruptError(f"{path} is damaged (its sha256 is not the one it was written with).")
    return value


def sha256_file(path: Path) -> str:
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


SUMS = "SHA256SUMS"


def hashes_of(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and not TEMPORARY_NAME.fullmatch(path.name))
    return {path.relative_to(folder).as_posix(): sha256_file(path) for path in files}


def write_sums(folder: Path, names: Iterable[str] | None = None) -> None:
    wanted = hashes_of(folder) if names is None else {name: sha256_file(folder / name) for name in names}
    lines = (f"{sha256}  {name}\n" for name, sha256 in wanted.items() if name != SUMS)
    write_text(folder / SUMS, "".join(lines))


def read_sums(folder: Path) -> dict[str, str]:
    if not (folder / SUMS).is_file():
        return {}
    lines = (line.partition("  ") for line in read_text(folder / SUMS).splitlines())
    return {name: sha256 for sha256, _, name in lines if name}


def sha256_json(value: object) -> str:
    """Hex sha256 of canonical JSON (sorted keys, no blanks between tokens)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def hash_fraction(text: str) -> float:
    """A number in [0, 1) by a text's sha256, for splits independent of machine and order."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    # 48 bits are exact in a float, and never rounded up to 1.
    return int.from_bytes(digest[:6], "big") / 2**48


def slug(name: str, limit: int = 60) -> str:
    """File name of any string: safe characters, and a hash if others were replaced."""
    safe = re.sub(r"[^a-z0-9._=-]+", "_", name.lower()).strip("._")[:limit]
    if safe and safe == name:
        return safe
    return f"{safe}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0" * 65536)
    except OSError as error:
        raise ZooError(
            f"cannot write to {folder}: {error.strerror or error}. Choose another folder with --results, --out or"
            " ZOO_BENCH_CACHE."
        ) from error
