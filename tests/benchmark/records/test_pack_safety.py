"""Packing that is stopped loses nothing; a pack that is damaged or hostile gives the right result or one sentence."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import lzma
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli, make_record
from pack_fakes import PAIRS_EACH, TASKS, contents, files

from benchmark.records import pack as packing
from benchmark.records.pack import pack
from benchmark.records.packed import LINES, RECORDS, unpack
from benchmark.records.store import Records
from zoo.errors import CorruptError, ZooError


class Killed(BaseException):
    """Stops packing where a kill would; nothing catches it."""


def _killing(patch: pytest.MonkeyPatch, at: int, after: bool) -> list[int]:
    """Let the operation on files with this number be the last, or the first that does not happen."""
    count = [0]

    def last(place: Any, name: str) -> None:
        real = getattr(place, name)

        def operation(*arguments: Any, **options: Any) -> Any:
            count[0] += 1
            if count[0] == at and not after:
                raise Killed
            if count[0] > at:
                raise Killed  # the clean-up of a living process is not done either
            answer = real(*arguments, **options)
            if count[0] == at:
                raise Killed
            return answer

        patch.setattr(place, name, operation)

    for name in ("rename", "replace", "unlink", "rmdir"):
        last(Path, name)
    last(os, "link")
    return count


@pytest.mark.slow
def test_stopped_at_each_operation_nothing_is_lost(tmp_path: Path) -> None:
    """Before and after every rename and removal; then packing again gives what packing at once gives."""
    small, whole = tmp_path / "small", tmp_path / "whole"
    store = Records(small)
    gold = np.arange(10) / 2
    for name in ("one", "two"):
        store.write(make_record(name), (gold[::-1], gold))
    pack(small, lambda r: r["method"]["name"] == "one")
    store.write(make_record("three"), (gold[::2].repeat(2), gold))
    expected = contents(small)
    shutil.copytree(small, whole)
    pack(whole)
    number, total = 0, 2
    while (number := number + 1) < total:
        for after in (False, True):
            folder = shutil.copytree(small, tmp_path / f"{number}{after}")
            with pytest.MonkeyPatch.context() as patch:
                count = _killing(patch, number, after)
                try:
                    pack(folder)
                except Killed:
                    total = number + 2
            assert count[0] >= number or total == number + 1
            shown = Records(folder).all()
            assert {r["method"]["name"] for r in shown} >= {"one"} and contents_or_leftovers(folder) == expected
            pack(folder)
            assert {name: content for name, content in files(folder).items() if not name.endswith(".tmp")} == files(
                whole
            )
    assert number > 10


def contents_or_leftovers(folder: Path) -> dict[str, Any]:
    """What the records say once a next packing has given the file that was just to be removed its name back."""
    packing._Packer(folder, "scores", False, False)._put_back()
    return contents(folder)


@pytest.mark.slow
def test_sigkill_at_random_moments(loose: Path, tmp_path: Path) -> None:
    """Another process packs and is killed; every record is there, and the next packing ends it."""
    moments, expected = random.Random(5), contents(loose)
    script = "import sys; from pathlib import Path; from benchmark.records.pack import pack; print('go', flush=True);"
    script += "pack(Path(sys.argv[1]))"
    killed = 0
    for number in range(8):
        folder = shutil.copytree(loose, tmp_path / str(number))
        with subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"go\n"
            time.sleep(moments.random() / 10)
            process.send_signal(signal.SIGKILL)
        killed += process.returncode == -signal.SIGKILL
        assert contents_or_leftovers(folder) == expected
        pack(folder)
        assert contents(folder) == expected and not (folder / "records").exists()
    assert killed


def test_what_a_run_writes_meanwhile_stays(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that is measured again between packing and removing keeps its new file."""
    store, real = Records(results), packing._Packer._verify
    again = make_record("one", TASKS[0], 0, main=0.123, started="2026-02-02T00:00:00Z")
    gold = np.arange(PAIRS_EACH) / 4

    def verify(self: Any, *arguments: Any) -> None:
        real(self, *arguments)
        store.write(again, (gold, gold))

    monkeypatch.setattr(packing._Packer, "_verify", verify)
    pack(results)
    (path,) = (results / "records").rglob("*.json")
    assert json.loads(path.read_text())["scores"]["main"] == 0.123
    (record,) = [r for r in store.all() if r["key"] == again["key"]]
    assert record["scores"] == again["scores"]
    assert np.array_equal(store.pair_scores(record)[0], gold.astype(np.float32))


@pytest.mark.slow
def test_each_flipped_bit_is_found(tmp_path: Path) -> None:
    """A bit in any byte of any file: the right records and scores, or one sentence with the file's name."""
    store, gold = Records(tmp_path), np.arange(12) / 3
    for number, task in enumerate(TASKS):
        store.write(make_record("one", task), (np.roll(gold, number), gold))
    pack(tmp_path)
    expected, silent, told = contents(tmp_path), 0, 0
    bits = random.Random(1)
    for name, content in files(tmp_path).items():
        for place in range(len(content)):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bits.randrange(8)
            (tmp_path / name).write_bytes(damaged)
            try:
                silent += contents(tmp_path) != expected
            except CorruptError as error:
                told += 1
                assert Path(name).name in str(error) and "\n" not in str(error)
        for length in (0, 1, len(content) // 2, len(content) - 1):
            (tmp_path / name).write_bytes(content[:length])
            with pytest.raises(CorruptError, match=Path(name).name):
                contents(tmp_path)
        (tmp_path / name).write_bytes(content)
    assert (silent, told > 1000) == (0, True)
    assert contents(tmp_path) == expected


@pytest.mark.slow
def test_a_damaged_pack_stops_what_would_be_wrong(results: Path, cli: Cli, tmp_path: Path) -> None:
    """No table without the packed rows, nothing measured again, nothing packed on top; pair scores are told by row."""
    pack(results)
    whole = files(results)
    path = results / RECORDS
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    path.write_bytes(whole[RECORDS][:-5])
    for arguments in (
        ("leaderboard", "--results", results, "--out", tmp_path / "out"),
        ("run", "--methods", "random", "--tasks", TASKS[0], "--results", results),
        ("run", "--methods", "random", "--tasks", TASKS[0], "--results", results, "--dry-run"),
        ("pack", results),
        ("compare", "one", "two:x=1", "--results", results),
    ):
        answer = cli(*arguments)
        assert answer.code == 1 and f"{path} is damaged" in answer.err and "Traceback" not in answer.err
    assert files(results) == {**whole, RECORDS: whole[RECORDS][:-5]}
    (pairs,) = [name for name in members if "sts-b" in name]
    path.write_bytes(zipped({name: content for name, content in members.items() if name != pairs}))
    answer = cli("leaderboard", "--results", results, "--out", tmp_path / "out")
    assert answer.code == 0 and Path(pairs).name in (tmp_path / "out" / "relatedness.md").read_text("utf-8")
    answer = cli("leaderboard", "--results", results, "--out", tmp_path / "out", "--strict")
    assert answer.code == 1 and Path(pairs).name in answer.err
    assert cli("pack", results).code == 0  # nothing new: nothing is written
    Records(results).write(make_record("new", TASKS[1]))
    assert cli("pack", results).code == 1
    assert len(list((results / "records").rglob("*.json"))) == 1


def test_the_unfinished_pack_of_a_killed_process_is_removed(results: Path) -> None:
    orphan = results / f".{RECORDS}.abcd1234.tmp"
    orphan.write_bytes(b"half")
    pack(results)
    assert not orphan.exists() and (results / RECORDS).is_file()


@pytest.mark.parametrize("kind", ["gone", "damaged", "other gold"])
def test_a_record_without_its_pairs(kind: str, results: Path) -> None:
    """Absent pair scores are packed as absent; a record with damaged ones stays a file and is named."""
    store = Records(results)
    record = next(r for r in store.all() if store.has_pairs(r))
    path = store.pairs_file(record)
    assert path is not None
    if kind == "gone":
        path.unlink()
    elif kind == "damaged":
        path.write_bytes(path.read_bytes()[:-4])
    else:
        place = store._path_of(record)
        changed = {**record, "pairs": {**record["pairs"], "gold_sha256": "0" * 64}}  # type: ignore[dict-item]
        place.write_text(json.dumps(changed))
    done = pack(results)
    assert done.records == 38 - (kind != "gone")
    assert [path.name in reason or "gold" in reason for reason in done.left] == [True] * (kind != "gone")
    again = next(r for r in Records(results).all() if r["key"] == record["key"])
    assert again["scores"] == record["scores"]


def _xz(content: bytes) -> bytes:
    return lzma.compress(content, check=lzma.CHECK_SHA256)


def zipped(members: dict[str, bytes], form: int = zipfile.ZIP_STORED) -> bytes:
    """A zip with these members."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", form) as file:
        for name, member in members.items():
            file.writestr(name, member)
    return content.getvalue()


HEAD = b'{"zoo-bench pack":1,"version":"0.1.0","pairs":{}}\n'
EMPTY = zipped({LINES: _xz(HEAD)})
HOSTILE = {
    "no zip": b"\x00" * 100,
    "empty": b"",
    "no records": zipped({"records.json": b"{}"}),
    "compressed": zipped({LINES: _xz(HEAD)}, zipfile.ZIP_DEFLATED),
    "locked": EMPTY[:6]
    + b"\x01"
    + EMPTY[7:].replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"),
    "no xz": zipped({LINES: b"\x00" * 100}),
    "two streams": zipped({LINES: _xz(HEAD) + _xz(b"{}\n")}),
    "rubbish behind": zipped({LINES: _xz(HEAD) + b"x"}),
    "no header": zipped({LINES: _xz(b"{}\n")}),
    "not json": zipped({LINES: _xz(b"{{{\n")}),
    "deep": zipped({LINES: _xz(b"[" * 100_000 + b"\n")}),
    "a newer form": zipped({LINES: _xz(HEAD.replace(b":1,", b":2,").replace(b"0.1.0", b"9.9.9"))}),
    "no sha256": zipped({LINES: _xz(HEAD.replace(b"{}}", b'{"a":"../../x"}}'))}),
    "a line without end": zipped({LINES: _xz(HEAD + b"x" * (1 << 25))}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_pack_that_is_none(kind: str, tmp_path: Path, cli: Cli) -> None:
    """One sentence that names the file, whatever it holds; a later form says what reads it."""
    (tmp_path / RECORDS).write_bytes(HOSTILE[kind])
    answer = cli("leaderboard", "--results", tmp_path)
    assert answer.code == 1
    assert RECORDS in answer.err and answer.err.count("\n") == 1
    assert ("zoo-bench '9.9.9'" in answer.err) == (kind == "a newer form")


def test_the_form_of_before_is_named(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / LINES).write_bytes(_xz(HEAD))
    answer = cli("leaderboard", "--results", tmp_path)
    assert answer.code == 1 and "before version 0.1.0" in answer.err and answer.err.count("\n") == 1


def test_bad_lines_are_named_and_the_others_read(results: Path) -> None:
    """What no packing writes: rubbish, a key twice, a later schema."""
    pack(results)
    with zipfile.ZipFile(results / RECORDS) as file:
        content = unpack(file.read(LINES), 1 << 20, LINES)
    head, first, *lines = content.splitlines()
    newer = first.replace(b'"schema":1', b'"schema":2')
    bad = b"\n".join([head, first[:-9], newer, b"null", *lines]) + b"\n"
    (results / RECORDS).write_bytes(zipped({LINES: _xz(bad)}))
    store = Records(results)
    assert len(store.all()) == 37
    assert [f"{RECORDS}:{n}" in reason for n, (_, reason) in zip((2, 3, 4), store.corrupt, strict=True)] == [True] * 3
    assert "zoo-bench 0.1.0, which wrote it" in store.corrupt[1][1]


@pytest.mark.slow
def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file that unpacks to very much is refused while it is unpacked."""
    import gzip

    store, gold = Records(tmp_path), np.arange(30) / 10
    store.write(make_record(task=TASKS[0]), (gold, gold))
    (record,) = store.all()
    path = store.pairs_file(record)
    assert path is not None
    bomb = gzip.compress(bytes(80 << 20))
    path.write_bytes(bomb)
    assert record["pairs"] is not None
    record["pairs"]["sha256"] = hashlib.sha256(bomb).hexdigest()
    packed = lzma.compress(bytes(80 << 20), preset=0)
    monkeypatch.setattr("benchmark.records.packed.MOST_RECORDS_BYTES", 1 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptError, match="unpacks to more"):
            store.pair_scores(record)
        with pytest.raises(CorruptError, match="unpacks to more"):
            unpack(packed, 1 << 20, str(tmp_path))
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_nothing_to_pack_is_said(tmp_path: Path, cli: Cli) -> None:
    assert "no record to pack" in cli("pack", tmp_path).err
    assert "does not exist" in cli("pack", tmp_path / "absent").err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk at any of its writes: a sentence, and every record where it was."""
    before = files(results)
    real = zipfile.ZipFile.writestr
    for number in range(3):
        calls = [0]

        def full(self: Any, *arguments: Any, number: int = number, calls: list[int] = calls) -> None:
            calls[0] += 1
            if calls[0] > number:
                raise OSError(errno.ENOSPC, "No space left on device")
            real(self, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(zipfile.ZipFile, "writestr", full)
            with pytest.raises(ZooError, match="No space"):
                pack(results)
        assert files(results) == before
