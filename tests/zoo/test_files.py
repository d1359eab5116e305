"""Files are whole or absent, JSON is standard, names are safe."""

from __future__ import annotations

import errno
import gzip
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors.numpy import load
from safetensors.torch import load_file, save_file

from zoo.errors import CorruptError, MissingError, ZooError
from zoo.files import (
    TEMPORARY_NAME,
    atomic_path,
    check_writable,
    read_json,
    sha256_file,
    sha256_json,
    slug,
    write_json,
    write_text,
    writing,
)
from zoo.tensors import read_arrays, read_tensors, write_arrays, write_tensors

DTYPES = [
    torch.float32, torch.uint8, torch.float64, torch.bool, torch.float16, torch.int64, torch.bfloat16, torch.int32,
    torch.int16, torch.int8,
]  # fmt: skip


def names_in(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("error", [ValueError("half way"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_writer_that_raises_leaves_the_old_file_alone(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "x.txt"
    write_text(path, "old")
    with pytest.raises(type(error)), atomic_path(path) as temporary:
        temporary.write_text("ne", encoding="utf-8")
        raise error
    assert path.read_text(encoding="utf-8") == "old"
    assert names_in(tmp_path) == ["x.txt"]


def _write(library: str, path: Path) -> None:
    """Write 100 kB by a library's own function."""
    import tokenizers
    from matplotlib.figure import Figure
    from pyarrow import parquet, table

    numbers = np.random.default_rng(0).normal(size=12_500)
    if library == "tokenizers":
        vocabulary = {str(number): i for i, number in enumerate(numbers)}
        tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, "x")).save(str(path))
    elif library == "pyarrow":
        parquet.write_table(table({"a": numbers}), path)
    elif library == "matplotlib":
        figure = Figure(dpi=300)
        figure.subplots().scatter(numbers, numbers[::-1], c=numbers)
        figure.savefig(path, format="png")
    elif library == "safetensors":
        save_file({"a": torch.from_numpy(numbers)}, path)
    elif library == "torch":
        torch.save(torch.from_numpy(numbers), path)
    else:
        path.write_bytes(numbers.tobytes())


@pytest.mark.parametrize("library", ["safetensors", "tokenizers", "pyarrow", "matplotlib", "torch", "none"])
def test_what_no_library_can_write_is_one_sentence(library: str, tmp_path: Path) -> None:
    """A limit of a file's size stands for a full disk; what was there before stays."""
    path = tmp_path / "file"
    path.write_text("before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
    try:
        with (
            pytest.raises(
                ZooError, match=r"cannot write .*file: (File too large\. Choose|a file was cut short\. Free)"
            ),
            atomic_path(path) as new,
        ):
            _write(library, new)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == "before" and [*tmp_path.iterdir()] == [path]


def test_a_full_disk_is_told_with_the_path(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    for error in (OSError(errno.ENOSPC, "No space"), Exception("No space left on device (os error 28)")):
        with pytest.raises(ZooError, match=r"record.json: No space left on device. Free space"), writing(path):
            raise error
    with pytest.raises(KeyError), writing(path):
        raise KeyError("not of writing")


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o027, 0o640), (0o077, 0o600)])
def test_a_written_file_has_the_mode_of_the_umask(tmp_path: Path, mask: int, mode: int) -> None:
    """Written by ourselves, by numpy's and by torch's library."""
    before = os.umask(mask)
    try:
        write_text(tmp_path / "deep" / "er" / "x.txt", "é\n")
        write_arrays(tmp_path / "x.gz", {"a": np.zeros(2)})
        write_tensors(tmp_path / "x.safetensors", {"a": torch.zeros(2)})
    finally:
        os.umask(before)
    assert (tmp_path / "deep" / "er" / "x.txt").read_bytes() == "é\n".encode()
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.stat().st_mode & 0o777 for path in written] == [mode] * 3


KILLED = """
import os, signal, sys
from pathlib import Path
from zoo.files import atomic_path
with atomic_path(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("name", ["records.parquet", "checkpoint.safetensors", f"{'long' * 20}.md"])
def test_what_a_killed_writer_left_is_removed(tmp_path: Path, name: str) -> None:
    """An hour later by the next writer of the file, but never what another process is writing."""
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / name)], check=False)
    (remaining,) = tmp_path.iterdir()
    assert TEMPORARY_NAME.fullmatch(remaining.name)
    with atomic_path(tmp_path / name) as living:
        old = time.time() - 4000
        os.utime(living, (old, old))
        write_text(tmp_path / name, "young")
        assert names_in(tmp_path) == sorted([remaining.name, living.name, name])
        os.utime(remaining, (old, old))
        write_text(tmp_path / "other.txt", "of another name")
        assert remaining.exists()
        write_text(tmp_path / name, "old")
        assert names_in(tmp_path) == sorted([living.name, name, "other.txt"])


def test_json_round_trip_and_its_failures(tmp_path: Path) -> None:
    value = {"ρ": [1, 0.1, None, "\U0001f600"]}
    write_json(tmp_path / "x.json", value)
    assert read_json(tmp_path / "x.json") == value
    (tmp_path / "x.json").write_bytes((tmp_path / "x.json").read_bytes()[:-5])
    with pytest.raises(CorruptError, match=r"x\.json is not valid JSON"):
        read_json(tmp_path / "x.json")
    (tmp_path / "x.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CorruptError, match=r"x\.json"):
        read_json(tmp_path / "x.json")
    with pytest.raises(MissingError, match=r"y\.json"):
        read_json(tmp_path / "y.json")


@pytest.mark.slow
@given(st.text(max_size=80), st.text(max_size=80))
@example("simcse", "SimCSE")
@example("a/b", "a b")
@example("x" * 300, "x" * 301)
@example("é", "e\u0301")
def test_different_names_get_different_slugs_without_case(a: str, b: str) -> None:
    if a != b:
        assert slug(a).lower() != slug(b).lower()


def test_tensors_round_trip_with_metadata_and_are_unshared(tmp_path: Path) -> None:
    base = torch.arange(6.0).reshape(2, 3)
    tensors = {"a": base, "a_again": base, "turned": base.T, "bytes": torch.tensor([1, 255], dtype=torch.uint8)}
    write_tensors(tmp_path / "x.safetensors", tensors, {"step": "3"})
    again, metadata = read_tensors(tmp_path / "x.safetensors")
    assert metadata == {"step": "3"}
    for name, tensor in load_file(tmp_path / "x.safetensors").items():  # the library's own reader
        assert torch.equal(tensor, tensors[name]) and torch.equal(again[name], tensors[name])


def test_equal_tensors_give_equal_bytes_whatever_their_order(tmp_path: Path) -> None:
    tensors = {f"t{i}": torch.full((i, 2), float(i), dtype=dtype) for i, dtype in enumerate(DTYPES)}
    metadata = {f"key {i}": str(i) for i in range(9)}
    write_tensors(tmp_path / "a", tensors, metadata)
    write_tensors(tmp_path / "b", dict(reversed(tensors.items())), dict(reversed(metadata.items())))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    theirs = load_file(tmp_path / "a")  # the library's own reader
    assert theirs.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert theirs[name].dtype == tensor.dtype and torch.equal(theirs[name], tensor)


@pytest.mark.slow
def test_no_flipped_bit_of_a_tensor_file_goes_unnoticed(tmp_path: Path) -> None:
    """Each bit of a small file: the values are those written, or the file is damaged."""
    path = tmp_path / "x.safetensors"
    tensors = {"a": torch.arange(6, dtype=torch.float32), "b": torch.tensor([True, False])}
    write_tensors(path, tensors, {"step": "3"})
    intact = path.read_bytes()
    unnoticed = 0
    for bit in range(8 * len(intact)):
        content = bytearray(intact)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        try:
            again, metadata = read_tensors(path)
        except CorruptError:
            continue
        unnoticed += 1
        assert metadata.get("step") == "3" and again.keys() == tensors.keys()
        assert all(torch.equal(again[name], tensors[name]) for name in tensors)
    assert unnoticed < 8 * 7  # the name of the sha256 itself, which is then another key, and blanks


def test_arrays_round_trip_in_equal_bytes(tmp_path: Path) -> None:
    arrays = {"a": np.linspace(0, 1, 500, dtype=np.float32), "b": np.arange(6).reshape(2, 3)}
    for name in ("one", "two"):
        write_arrays(tmp_path / name, arrays)
    content = (tmp_path / "one").read_bytes()
    assert content == (tmp_path / "two").read_bytes()
    for again in (read_arrays(tmp_path / "one", sha256_file(tmp_path / "two")), load(gzip.decompress(content))):
        assert sorted(again) == ["a", "b"]
        for name, array in arrays.items():
            assert again[name].dtype == array.dtype and np.array_equal(again[name], array)


@pytest.mark.parametrize("damage", [lambda c: c[:-9], lambda c: c[:40] + b"x" + c[41:], lambda c: b"", gzip.decompress])
def test_damaged_arrays_are_corrupt_by_name(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "cut.gz"
    write_arrays(path, {"a": np.random.default_rng(0).normal(size=100)})
    sha256 = sha256_file(path)
    path.write_bytes(damage(path.read_bytes()))
    for known in (None, sha256):
        with pytest.raises(CorruptError, match=r"cut\.gz"):
            read_arrays(path, known)
    path.write_bytes(gzip.compress(b"no tensors"))
    with pytest.raises(CorruptError, match=r"cut\.gz"):
        read_arrays(path)
    with pytest.raises(MissingError, match="absent"):
        read_arrays(tmp_path / "absent")


def test_check_writable_names_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(ZooError, match="ZOO_BENCH_CACHE") as caught:
        check_writable(tmp_path / "file" / "below")
    assert str(tmp_path / "file" / "below") in str(caught.value)
    with pytest.raises(ZooError, match="file"):
        write_text(tmp_path / "file" / "x.txt", "x")


def test_what_a_killed_library_left_is_removed(tmp_path: Path) -> None:
    """The file of safetensors' own that it renames at the end."""
    old = time.time() - 4000
    for name in (".tmpAb12Cd", ".tmp0Zz9_x", ".tmpfile"):
        (tmp_path / name).write_bytes(b"half")
        os.utime(tmp_path / name, (old, old))
    (tmp_path / ".tmpYoung1").write_bytes(b"half")
    write_tensors(tmp_path / "x.safetensors", {"a": torch.zeros(2)})
    assert names_in(tmp_path) == [".tmpYoung1", ".tmpfile", "x.safetensors"]


@pytest.mark.parametrize("size", [0, 8, 70_000])
def test_check_writable_writes_through_no_link(tmp_path: Path, size: int) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "results"
    victim.write_bytes(b"x" * size)
    folder.mkdir()
    for name in (f".write-test-{os.getpid()}", ".write-test", ".pack.lock"):
        (folder / name).symlink_to(victim)
    check_writable(folder)
    assert victim.read_bytes() == b"x" * size and len(names_in(folder)) == 3


def test_checksums_are_the_standard_ones(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-4, example of SHA-256
    assert sha256_file(tmp_path / "x") == known
    assert sha256_json({"b": 1, "a": 2}) == sha256_json({"a": 2, "b": 1}) != sha256_json({"a": 2, "b": 2})
