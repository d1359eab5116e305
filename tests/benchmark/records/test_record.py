"""A record that is not as it should be is named and left out; no record stops a command; reading changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes import Cli, failed, make_record

from benchmark.records.folder import Records
from benchmark.records.packed import RecordParser
from benchmark.records.record import NewerRecordError, check_record, parse_record
from zoo.errors import CorruptError, UsageError


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Names, times and contents of the files below a folder."""
    return {str(p): (p.stat().st_mtime_ns, p.read_bytes()) for p in sorted(folder.rglob("*")) if p.is_file()}


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


def test_the_parser_of_many_records_reads_as_that_of_one(tmp_path: Path) -> None:
    """The same values, with equal parts kept once, and the same sentence for each kind of damage."""
    good = json.loads(Records(tmp_path).write(make_record("good", seed=1, training={"steps": 3})).read_text())
    good.pop("sha256")
    other = {**good, "key": "f" * 64, "seed": 2}
    parse = RecordParser()
    first, second = (parse(json.dumps(record), "here") for record in (good, other))
    assert (first, second) == (good, other)
    assert first["method"] is second["method"] and first["training"] is second["training"]
    missing = {name: {key: value for key, value in good.items() if key != name} for name in good}
    damaged: list[object] = [
        *missing.values(),
        {**good, "schema": 2},
        {**good, "key": "short"},
        {**good, "more": 1},
        {**good, "seed": -1},
        {**good, "scores": None},
        {**good, "scores": {**good["scores"], "main": None}},
        {**good, "scores": {**good["scores"], "main": "high"}},
        {**good, "method": {**good["method"], "recipe": []}},
        {**good, "training": {"steps": "many"}},
        {**good, "training": []},
        {**good, "sha256": "0" * 64},
        [good],
    ]
    for content in [*map(json.dumps, damaged), "", "{", json.dumps(good)[:-9]]:
        messages = []
        for read in (parse, parse_record):
            try:
                messages.append(repr(read(content, "here")))
            except CorruptError as error:
                messages.append(f"{type(error)} {error}")
        assert messages[0] == messages[1]
    assert parse(json.dumps(good), "here") == good
    zero = {**good, "scores": {**good["scores"], "main": 0.0}}
    assert parse(json.dumps(zero), "here") == zero


@pytest.mark.parametrize("scores", [None, {"main": None, "main_metric": "all_spearman", "reason": "none"}])
def test_a_measured_record_has_a_score(scores: object) -> None:
    """One that was not measured needs none."""
    record = make_record("bag", scores=scores)
    with pytest.raises(CorruptError, match="its status is ok, and it has no score"):
        check_record(record, "here")
    assert check_record(failed(record, "the optimiser exploded"), "here")


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
