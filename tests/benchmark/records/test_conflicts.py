"""Records that contradict each other are named, and none of them wins in silence."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli, failed, make_record

from benchmark.records.conflicts import StoredRecord, command_of, one_digest, settle
from benchmark.records.folder import Records
from benchmark.records.query import row_named
from benchmark.report.table import build_tables
from benchmark.tasks.suites import suite
from zoo.files import sha256_json


def loose(folder: Path, record: Any, name: str) -> Path:
    """Write a record under a file name of its own, as copying two folders into one does."""
    path = folder / "records" / "copied" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**record, "sha256": sha256_json(record)}))
    return path


@pytest.mark.slow
def test_a_second_score_of_a_cell_is_named(tmp_path: Path, cli: Cli) -> None:
    """The cell has no score in the table, whichever file is read first; the other cells have theirs."""
    for first, second in ((0.25, 0.75), (0.75, 0.25)):
        store = Records(tmp_path / str(first))
        store.write(make_record("m", "pocket-pairs", main=first))
        store.write(make_record("m", "pocket-words", main=0.5))
        loose(store.folder, make_record("m", "pocket-pairs", main=second), "second")
        answer = cli("leaderboard", "--results", store.folder, "--strict")
        assert answer.code == 1
        assert "m on pocket-pairs: conflict: records of one cell" in answer.err
        content = json.loads((store.folder / "pocket.json").read_text("utf-8"))
        scores = content["rows"][0]["scores"]
        assert scores["pocket-pairs"]["mean"] is None and scores["pocket-words"]["mean"] == 50
        assert "records/copied/second.json" in scores["pocket-pairs"]["reason"]
        assert "25.00" not in answer.out and "75.00" not in answer.out
        answer = cli("compare", "m", "m", "--tasks", "pocket-pairs", "--results", store.folder)
        assert answer.code == 1 and "conflict" in answer.err


def test_which_record_counts() -> None:
    """Measured before failed, of equal scores the first, of failures the last; a replaced one never; in any order."""
    first, later = (StoredRecord(make_record(started=f"2026-01-0{day}T00:00:00Z"), str(day)) for day in (1, 2))
    other = StoredRecord(make_record(main=0.75), "other")
    no = StoredRecord(failed(make_record(started="2025-01-01T00:00:00Z"), "a"), "no")
    no_later = StoredRecord(failed(make_record(started="2027-01-01T00:00:00Z"), "b"), "no later")
    packed = StoredRecord(other.record, "packed", "d" * 64)
    instead = StoredRecord(make_record(replaces=["d" * 64]), "instead")
    broken = StoredRecord(failed(make_record(replaces=["d" * 64]), "c"), "broken")
    for several, expected in (
        ([first], [first]),
        ([first, first], [first]),
        ([first, later], [first]),
        ([no, first, no_later], [first]),
        ([no, no_later], [no_later]),
        ([packed, instead], [instead]),
        ([packed, broken], [broken]),
        ([packed, instead, no], [instead]),
    ):
        for ordered in itertools.permutations(several):
            assert settle(ordered) == expected
    # A text that sorts before the first one's is no earlier measurement; equal scores of other data are no equal ones.
    sorts_first = StoredRecord({**later.record, "command": ["a"]}, "sorts first")
    first = StoredRecord({**first.record, "command": ["b"]}, "1")
    elsewhere = StoredRecord({**later.record, "task": {**later.record["task"], "sha256": "f" * 64}}, "elsewhere")
    for ordered in itertools.permutations([first, sorts_first, no]):
        assert settle(ordered) == [first]
    for ordered in itertools.permutations([first, elsewhere]):
        assert {stored.place for stored in settle(ordered)} == {"1", "elsewhere"}
    for ordered in itertools.permutations([first, other, no]):
        assert {stored.place for stored in settle(ordered)} == {"1", "other"}


@pytest.mark.parametrize("change", ["sha256", "version", "protocol"])
def test_a_column_of_two_data_sets_names_the_other(change: str, tmp_path: Path, cli: Cli) -> None:
    """Rows measured on the data of most rows are ranked; another has no score there, and says which data is its own."""
    store = Records(tmp_path)
    for number, name in enumerate(("a", "b", "odd", "c")):
        for task in ("pocket-pairs", "pocket-words", "pocket-phrases", "pocket-topics"):
            record = make_record(name, task, main=0.5 + number / 10)
            if name == "odd" and task == "pocket-words":
                changed = record if change == "protocol" else record["task"]
                changed[change] = "f" * 64 if change == "sha256" else 2
                record["key"] = sha256_json(record)
            store.write(record)
    assert cli("leaderboard", "--results", tmp_path).code == 0
    rows = {row["method"]: row for row in json.loads((tmp_path / "pocket.json").read_text("utf-8"))["rows"]}
    assert [rows[name]["rank"] for name in ("c", "b", "a", "odd")] == [1, 2, 3, None]
    assert rows["odd"]["scores"]["pocket-pairs"]["mean"] == pytest.approx(70)
    reason = rows["odd"]["scores"]["pocket-words"]["reason"]
    assert reason.startswith("conflict: pocket-words was measured on other data (sha256 ")
    assert reason in (tmp_path / "pocket.md").read_text("utf-8")


def test_other_gold_scores_are_other_data(tmp_path: Path) -> None:
    """Known by the pair scores; records without them are with either. Trials are not compared with whole data."""
    gold, other = np.arange(20) / 5, np.arange(20) / 4
    store = Records(tmp_path)
    for name, of_row in {"a": gold, "b": gold, "odd": other, "before": None}.items():
        store.write(make_record(name), None if of_row is None else (of_row[::-1], of_row))
    store.write(make_record("trial", limit=20), (other[::-1], other))
    shown = {r["method"]["name"]: r for r in one_digest(store.all())}
    assert {name: r["status"] for name, r in shown.items()} == {
        "a": "ok", "b": "ok", "odd": "n/a", "before": "ok", "trial": "ok"
    }  # fmt: skip
    assert "other gold scores (sha256 " in str(shown["odd"]["reason"])
    assert one_digest([r for r in store.all() if r["method"]["name"] != "odd"]) == [
        r for r in store.all() if r["method"]["name"] != "odd"
    ]


def test_the_choice_does_not_depend_on_order() -> None:
    """With as many rows on either data, the data measured last counts; a row of both is left to the table."""
    old, new = "1" * 64, "2" * 64
    records = [
        make_record("a", data_sha256=old),
        make_record("b", data_sha256=new, started="2026-05-01T00:00:00Z"),
        make_record("both", data_sha256=old),
        make_record("both", data_sha256=new),
    ]
    for ordered in itertools.permutations(records):
        kept = {(r["method"]["name"], r["task"]["sha256"]) for r in one_digest(ordered) if r["status"] == "ok"}
        assert kept == {("b", new), ("both", old), ("both", new)}


def test_a_row_states_all_its_environments(tmp_path: Path, cli: Cli) -> None:
    """Versions, torch and devices of every record, in each form of the table."""
    store = Records(tmp_path)
    base = make_record()["environment"]
    store.write(make_record("m", "pocket-pairs", 0))
    gpu = {**base, "gpu": "a gpu"}
    store.write(make_record("m", "pocket-pairs", 1, environment=gpu, version="0.2.0", started="2026-02-01T00:00:00Z"))
    torch = {**base, "packages": {**base["packages"], "torch": "3"}}
    store.write(make_record("m", "pocket-words", 0, environment=torch, started="2026-03-01T00:00:00Z"))
    assert cli("leaderboard", "--results", tmp_path).code == 0
    lines = [
        "zoo-bench 0.1.0, protocol 1, torch 2.10.0, transformers 5.0.0, Python 3.11.0; a cpu, 2 threads.",
        "zoo-bench 0.2.0, protocol 1, torch 2.10.0, transformers 5.0.0, Python 3.11.0; a gpu.",
        "zoo-bench 0.1.0, protocol 1, torch 3, transformers 5.0.0, Python 3.11.0; a cpu, 2 threads.",
    ]
    text = (tmp_path / "pocket.md").read_text("utf-8")
    assert all(line in text for line in lines) and "a cpu, 2 threads; a gpu" in text
    (row,) = json.loads((tmp_path / "pocket.json").read_text("utf-8"))["rows"]
    assert row["environments"] == lines
    assert row["code"] == "not stated" and "Rows of several versions 0.1.0, 0.2.0." in text
    assert (row["device"], row["version"]) == ("a cpu, 2 threads; a gpu", "0.1.0, 0.2.0")
    assert "a cpu, 2 threads; a gpu" in (tmp_path / "pocket.csv").read_text("utf-8")


def test_a_table_of_several_codes_says_so(tmp_path: Path, cli: Cli) -> None:
    """Its foot, its JSON and the rows of its CSV name them; a table of one code has no such line."""
    store = Records(tmp_path)
    store.write(make_record("a", code={"digest": "0123456789ab"}))
    assert cli("leaderboard", "--results", tmp_path).code == 0
    assert "of several" not in (tmp_path / "pocket.md").read_text("utf-8")
    store.write(make_record("b", code={"digest": "ba98765432101a2b3c4d"}))
    assert cli("leaderboard", "--results", tmp_path).code == 0
    line = "Rows of several states of the code 0123456789ab, ba9876543210."
    assert line in (tmp_path / "pocket.md").read_text("utf-8")
    assert line in json.loads((tmp_path / "pocket.json").read_text("utf-8"))["environments"]
    assert "ba9876543210" in (tmp_path / "pocket.csv").read_text("utf-8")


WORDS = "pocket-words"


def of_version(seed: int, name: str = "m", **versions: Any) -> Any:
    """A cell of a row, measured by these versions; the bytes of the code are others for each seed."""
    record = make_record(name, WORDS, seed, main=0.5 + seed / 10, code={"digest": f"{seed:064}"})
    record["method"] |= {"version": versions.pop("method", 1)}
    record["row_key"] = sha256_json([record["row_key"], record["method"]["version"]])
    record["task"] |= versions
    record |= {"key": sha256_json([record["key"], record["row_key"], versions])}
    record |= {"command": ["zoo-bench", "run", "--seeds", str(seed + 1)]}
    return {**record, "seeds": seed + 1}


@pytest.mark.parametrize("raised", [{"version": 2}, {"metrics": {"correlation": 2}}])
def test_versions_decide_what_a_mean_is_of(raised: dict[str, Any], tmp_path: Path) -> None:
    """Seeds of two versions have no mean, and a command; it measures the others again, and then the row is whole."""
    store = Records(tmp_path)

    def value() -> Any:
        (table,) = build_tables(one_digest(store.all()), [suite("pocket")])
        (row,) = table.rows
        return row.values[WORDS]

    for seed in (0, 1):
        store.write(of_version(seed))
    assert value().mean == pytest.approx(55)
    store.write(of_version(2, **raised))
    assert value().mean is None
    assert value().reason.endswith("two versions of its task or metric; measure it again: zoo-bench run --seeds 3")
    for seed in (0, 1):
        store.write(of_version(seed, **raised))
    assert value().mean == pytest.approx(60) and len(list((tmp_path / "records").rglob("*.json"))) == 5
    store.write(failed(of_version(0, version=3), "no"))
    assert value().mean == pytest.approx(60), "a failed cell takes the place of none"


def test_a_row_of_an_older_version_of_its_method_leaves_the_table(tmp_path: Path) -> None:
    """The newer row lists the cells that it lacks, with a command; with them the note goes. No row is ranked twice."""
    store = Records(tmp_path)

    def row() -> Any:
        (table,) = build_tables(store.all(), [suite("pocket")])
        (row,) = table.rows
        assert row.rank == 1 and " [" not in row.name
        return row

    for seed in (0, 1):
        store.write(of_version(seed, method=1))
    assert row().values[WORDS].seeds == 2 and row().notes == []
    store.write(of_version(2, method=2))
    (note,) = row().notes
    assert row().values[WORDS].seeds == 1
    assert note == (
        "left out: 2 cells of version 1 of the method, beside version 2; measure again: zoo-bench run --seeds 3"
    )
    for seed in (0, 1):
        store.write(of_version(seed, method=2))
    assert row().values[WORDS].seeds == 3 and row().notes == []
    assert {record["method"]["version"] for record in row_named(store.all(), row().name, tmp_path)} == {2}
    other = of_version(0, method=1)
    store.write(other | {"precision": "bf16", "key": sha256_json("bf16"), "row_key": sha256_json("a row in bf16")})
    (table,) = build_tables(store.all(), [suite("pocket")])
    assert len(table.rows) == 2, "a row of other conditions stays"


def test_the_command_of_a_refusal_measures_every_seed() -> None:
    records = [
        {**of_version(seed), "seeds": 3 - seed, "started": f"2026-01-0{seed + 1}T00:00:00Z"} for seed in range(3)
    ]
    records[0]["command"] = ["zoo-bench", "run", "--shard", "1/2", "--remeasure", "--seeds", "3"]
    assert command_of(records) == "zoo-bench run --seeds 3"
