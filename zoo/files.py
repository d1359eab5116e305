"""Files that are whole or absent: atomic writes, checksums, safe names, standard JSON."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import re
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.errors import CorruptError, MissingError, ZooError

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; on success fsync it and rename it to `path`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".tmp", dir=path.parent)
    except OSError as error:
        raise ZooError(f"cannot write {path}: {error.strerror or error}. Choose another folder or free it.") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o644)  # mkstemp makes files private; results are meant to be shared
        temporary.replace(path)
        _fsync_folder(path.parent)
    except OSError as error:
        raise ZooError(
            f"cannot write {path}: {error.strerror or error}. Free space or choose another folder."
        ) from error
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
    """Write UTF-8 text atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Any) -> None:
    """Write standard JSON atomically (NaN and infinity are refused with ValueError)."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON; raises CorruptError naming the file when it is not valid, MissingError when absent."""
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except FileNotFoundError as error:
        raise MissingError(f"{path} does not exist.") from error
    except OSError as error:
        raise MissingError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, UnicodeDecodeError) as error:
        raise CorruptError(f"{path} is not valid JSON ({error}); delete it to have it made again.") from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not standard JSON")


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file atomically; tensors are made contiguous and unshared."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    unshared = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    with atomic_path(path) as temporary:
        try:
            save_file(unshared, str(temporary), metadata=dict(metadata or {}))
        except SafetensorError as error:
            raise ZooError(f"cannot write {path}: {error}. Free space or choose another folder.") from error


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Read a safetensors file and its metadata; raises CorruptError when truncated or damaged."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except FileNotFoundError as error:
        raise MissingError(f"{path} does not exist.") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise CorruptError(f"{path} is not a whole safetensors file ({error}).") from error


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write numpy arrays atomically as a gzip-compressed safetensors file; imports no torch."""
    from safetensors.numpy import save

    with atomic_path(path) as temporary:
        temporary.write_bytes(gzip.compress(save(dict(arrays)), mtime=0))  # no time: equal arrays, equal bytes


def read_arrays(path: Path, sha256: str | None = None) -> dict[str, NDArray[Any]]:
    """Read what write_arrays wrote; raises MissingError, or CorruptError when damaged or not of the given sha256."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        content = path.read_bytes()
        if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
            raise CorruptError(f"{path} is damaged or another run's (its sha256 is not the recorded one).")
        return dict(load(gzip.decompress(content)))
    except FileNotFoundError as error:
        raise MissingError(f"{path} does not exist.") from error
    except (SafetensorError, OSError, EOFError, ValueError, zlib.error) as error:
        raise CorruptError(f"{path} is not a whole compressed safetensors file ({error}).") from error


def sha256_file(path: Path) -> str:
    """Return the hex sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_json(value: Any) -> str:
    """Return the hex sha256 of a value's canonical JSON (sorted keys, no blanks)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def slug(name: str, limit: int = 60) -> str:
    """Return a file name for any string: safe characters, plus a hash whenever anything had to be changed."""
    safe = re.sub(r"[^a-z0-9._=-]+", "_", name.lower()).strip("._")[:limit]
    if safe and safe == name:
        return safe
    return f"{safe}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def check_writable(folder: Path) -> None:
    """Prove that `folder` can be written, before any work; raises ZooError naming it."""
    probe = folder / f".write-test-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"\0" * 65536)
    except OSError as error:
        raise ZooError(
            f"cannot write to {folder}: {error.strerror or error}. Choose another folder with --out or ZOO_BENCH_CACHE."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
