"""A record that is not as it should be is named and left out; no record stops a command; reading changes nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fakes import Cli, make_record

from benchmark.records.folder import Records
from benchmark.records.record import NewerRecordError, check_record, parse_record, plain
from zoo.errors import UsageError

RAW = {
    "infinite score": ('"main": 0.5', '"main": 1e999'),
    "huge score": ('"main": 0.5', '"main": 1e300'),
    "half a surrogate pair in the name": ('"name": "bad"', '"name": "b\\ud800d"'),
    "5,000 deep": ('"width": 64', '"width": ' + "[" * 5000 + "]" * 5000),
    "not utf-8": ('"bad"', '"b\xff"'),
    "17 megabytes": ('"width": 64', '"width": "' + "x" * (17 << 20) + '"'),
}


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Names, times and contents of the files below a folder."""
    return {str(p): (p.stat().st_mtime_ns, p.read_bytes()) for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", RAW)
def test_one_bad_record_stops_no_table(kind: str, tmp_path: Path, cli: Cli) -> None:
    """It is named in one sentence, and the table of the others is made; the file stays as it is."""
    store = Records(tmp_path / "results")
    store.write(make_record("good", main=0.25))
    path = store.write(make_record("bad"))
    before, after = RAW[kind]
    text = path.read_text("utf-8")
    assert before in text
    path.write_bytes(text.replace(before, after).encode("latin-1" if kind == "not utf-8" else "utf-8"))
    there = snapshot(store.folder)
    answer = cli("leaderboard", "--results", store.folder, "--out", tmp_path / "out")
    assert answer.code == 0 and "25.00" in answer.out
    (line,) = answer.err.splitlines()
    assert str(path) in line and len(line) < len(str(path)) + 300
    assert cli("leaderboard", "--results", store.folder, "--out", tmp_path / "out", "--strict").code == 1
    assert snapshot(store.folder) == there


def test_a_later_schema_is_left_alone(tmp_path: Path, cli: Cli) -> None:
    """Reading names the version that reads it, a run does not write over it; the file stays as it is."""
    store = Records(tmp_path / "results", set_aside=True)
    store.write(make_record("good"))
    record = make_record("new", "pocket-words")
    path = store.path("new", "pocket-words", record["key"])
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**record, "schema": 2, "version": "3.1.4", "more": {}}))
    there = snapshot(store.folder)
    answer = cli("leaderboard", "--results", store.folder, "--out", tmp_path / "out")
    assert answer.code == 0 and f"{path}: a record of schema 2" in answer.err and "zoo-bench 3.1.4" in answer.err
    with pytest.raises(UsageError, match=r"3\.1\.4.*another results folder"):
        store.finished("new", "pocket-words", record["key"])
    assert snapshot(store.folder) == there
    for version in (None, 3, "x" * 500):
        with pytest.raises(NewerRecordError, match="schema 2"):
            check_record({"schema": 2, "version": version}, "here")


@pytest.mark.slow
@pytest.mark.usefixtures("fakes")
def test_reading_commands_change_nothing(tmp_path: Path, cli: Cli) -> None:
    """Beside a damaged record: no reader renames, writes or removes anything below the results."""
    folder, out = tmp_path / "results", tmp_path / "out"
    fast = ("--precision", "fp32", "--limit", "20", "--out", folder)
    assert cli("run", "--methods", "bag", *fast).code == 0
    damaged = next((folder / "records").rglob("*words*.json"))
    damaged.write_text("{")
    there = snapshot(folder)
    for arguments in (
        ("leaderboard", "--results", folder, "--out", out),
        ("report", "bag", "--results", folder, "--out", out / "page.html"),
        ("compare", "bag", "bag", "--results", folder, "--task", "pocket-pairs"),
        ("export", "bag", out / "exported", "--results", folder),
        ("analyze", "worst", "--methods", "bag", "--tasks", "pocket-pairs", "--results", folder, "--out", out,
         "--no-plots"),
        ("run", "--methods", "bag", "--dry-run", *fast),
    ):  # fmt: skip
        cli(*arguments)
        assert snapshot(folder) == there, arguments[0]
    assert cli("run", "--methods", "bag", *fast).code == 0
    assert damaged.with_name(damaged.name + ".corrupt").read_text() == "{" and damaged.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    """A folder, a pipe and a link to itself under a record's name, and one that may not be read."""
    store = Records(tmp_path)
    store.write(make_record("good"))
    place = tmp_path / "records" / "odd"
    (place / "folder.json").mkdir(parents=True)
    os.mkfifo(place / "pipe.json")
    (place / "loop.json").symlink_to(place / "loop.json")
    (place / "gone.json").symlink_to(place / "nowhere")
    assert [r["method"]["name"] for r in store.all()] == ["good"]
    assert [path.name for path, _ in store.corrupt] == ["folder.json", "loop.json", "pipe.json"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_record_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    store = Records(tmp_path, set_aside=True)
    path = store.write(make_record())
    path.chmod(0)
    assert store.all() == [] and "Permission denied" in store.corrupt[0][1]
    with pytest.raises(UsageError, match="Permission denied"):
        store.finished("bag", "pocket-pairs", make_record()["key"])
    assert path.exists()


def test_texts_of_any_kind_are_read_again() -> None:
    """Escaped, beyond the basic plane, with a backslash and u: the same text."""
    for text in ("é🙂\u2028", "\\ud800 as it is typed", 'quote " and \\', "\x00\x1f"):
        for ascii_only in (False, True):
            content = json.dumps(make_record(text), ensure_ascii=ascii_only).encode()
            assert parse_record(content, "here")["method"]["name"] == text
    assert plain("caf\udce9") == "caf\ufffd"
