"""The index of records: the same records and tables as without it, and only new and changed files are opened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes import Cli, make_record

from benchmark.leaderboard.files import write_leaderboard
from benchmark.records import store
from benchmark.records.store import Records


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The names of the record files that reading opens; folders of any size have an index, in a cache of the test."""
    names: list[str] = []
    read = store._read

    def note(path: Path) -> object:
        names.append(path.name)
        return read(path)

    monkeypatch.setattr(store, "_read", note)
    monkeypatch.setattr(store, "LEAST_INDEXED", 1)
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))
    return names


def _text(records: object) -> str:
    return json.dumps(records)  # with keys in their order


def _index(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "cache" / "records").glob("*.jsonl")
    return path


def test_only_new_and_changed_files_are_opened(results: Path, opened: list[str]) -> None:
    """Unchanged files stay closed; a new, a rewritten and a removed record are seen, and each reading is complete."""

    def read() -> tuple[str, int]:
        opened.clear()
        found = Records(results).all()
        count = len(opened)
        assert _text(found) == _text(Records(results, indexed=False).all())
        return _text(found), count

    loose = sorted((results / "records").glob("*/*.json"))
    first, count = read()
    assert count == len(loose) > 1
    assert read() == (first, 0)
    writer = Records(results)
    added = writer.write(make_record("new", main=0.25))
    after, count = read()
    assert (count, after != first) == (1, True)
    writer.write(make_record("new", main=0.75))
    changed, count = read()
    assert (count, changed != after) == (1, True)
    added.unlink()
    assert read() == (first, 0)
    assert read() == (first, 0)


def test_a_damaged_index_is_made_again(results: Path, opened: list[str], tmp_path: Path) -> None:
    """A changed byte, a cut file and a missing sum: every record is opened again, and the index is whole again."""
    expected, path = _text(Records(results).all()), _index(tmp_path)
    whole = path.read_bytes()

    def flip() -> None:
        path.write_bytes(whole.replace(b'"ok"', b'"no"', 1))

    for damage in (flip, lambda: path.write_bytes(whole[:-9]), path.with_suffix(".sha256").unlink):
        damage()
        opened.clear()
        assert _text(Records(results).all()) == expected
        assert opened
        assert path.read_bytes() == whole


def test_a_damaged_record_is_named_every_time(results: Path, opened: list[str]) -> None:
    """The index keeps no record that cannot be read."""
    damaged = next((results / "records").glob("*/*.json"))
    damaged.write_text("{", encoding="utf-8")
    for _ in range(2):
        records = Records(results)
        records.all()
        assert [path for path, _ in records.corrupt] == [damaged]
    assert opened.count(damaged.name) == 2


def test_strict_opens_what_the_index_holds(
    results: Path, opened: list[str], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte that the disk lost leaves size, times and inode as they were: `--strict` finds it."""
    monkeypatch.setattr(store, "state_of", lambda path: [0])
    Records(results).all()
    rotten = next((results / "records").glob("*/*.json"))
    rotten.write_bytes(rotten.read_bytes().replace(b'"protocol"', b'"protocoI"', 1))
    assert cli("leaderboard", "--results", results).code == 0
    answer = cli("leaderboard", "--results", results, "--strict")
    assert answer.code == 1
    assert str(rotten) in answer.err


def test_tables_are_the_same_with_and_without_an_index(
    results: Path, opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files of a leaderboard, byte by byte: without an index, while it is made, and from it."""
    made = []
    for least in (10**9, 1, 1):
        monkeypatch.setattr(store, "LEAST_INDEXED", least)
        opened.clear()
        write_leaderboard(results, tmp_path / "out")
        made.append({path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()})
    assert not opened
    assert made[0] == made[1] == made[2]
