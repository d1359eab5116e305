"""The type of a record, and what records promise."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from fakes import Cli, failed, make_record

from benchmark.records.folder import Records
from benchmark.records.packed import RecordParser
from benchmark.records.promises import absent, asked
from benchmark.records.record import NewerRecordError, check_record, parse_record
from zoo.errors import CorruptError, UsageError

# A record that is not as it should be is named and left out; no record stops a command; reading changes nothing.


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
        ("analyze", "pairs", "--methods", "bag", "--tasks", "pocket-pairs", "--results", folder, "--out", out,
         "--no-plots"),
        ("run", "--methods", "bag", "--dry-run", *fast),
    ):  # fmt: skip
        cli(*arguments)
        assert snapshot(folder) == there, arguments[0]
    assert cli("run", "--methods", "bag", *fast).code == 0
    assert damaged.with_name(damaged.name + ".corrupt").read_text() == "{" and damaged.exists()


# What commands of shards promise: a lost shard is said whichever it is, and a whole plan says nothing.


def record(command: str, name: str, seed: int | None = None) -> Any:
    method = {"name": name, "recipe_name": name}
    return {"command": ["zoo-bench", *command.split()], "method": method, "encoder_key": f"{name} {seed}"}


def sharded(draw: random.Random, rows: int, shards: int, options: str = "") -> dict[int, list[Any]]:
    """The records of an array's jobs, whose encoders are dealt out as `--shard` does: none is empty before others."""
    names = ",".join(f"row-{i}" for i in range(rows))
    parts: dict[int, list[Any]] = {}
    for place in range(rows):
        shard = place % shards + 1
        where = draw.choice(["--results a", "--out b --workers 2", "--device cpu"])
        words = ["--methods " + names, f"--shard {shard}/{shards}", where, *([options] if options else [])]
        draw.shuffle(words)
        parts.setdefault(shard, []).append(record(f"run {' '.join(words)}", f"row-{place}"))
    return parts


@pytest.mark.parametrize("seed", range(60))
def test_each_lost_shard_is_said_and_nothing_else(seed: int) -> None:
    draw = random.Random(seed)
    shards = draw.randint(2, 9)
    parts = sharded(draw, draw.randint(shards, 40), shards, draw.choice(["", "--seeds 3", "--controls"]))
    lost = set(draw.sample(sorted(parts), draw.randint(0, shards - 1)))
    here = [one for shard, records in parts.items() for one in records if shard not in lost]
    draw.shuffle(here)
    lines = absent(here)
    lost_lines = [line for line in lines if line.startswith("shard")]
    known = {one["method"]["name"] for one in here}
    gone = {one["method"]["name"] for shard in lost for one in parts[shard]} - known
    if not lost:
        assert lines == []
        return
    # Where each shard has one encoder, the last ones may be empty: then the names say it.
    certain = (
        lost
        if max(map(len, parts.values())) > 1 and any(len(parts[s]) > 1 for s in parts if s not in lost)
        else {shard for shard in lost if any(other > shard for other in parts if other not in lost)}
    )
    numbers = {int(word.strip(",")) for line in lost_lines for word in line.split(" of ")[0].split()[1:]}
    assert numbers == certain
    named = next((line for line in lines if line.startswith("no record of")), "")
    assert set(named.removeprefix("no record of ").removesuffix(", which --methods names").split(", ")) == gone


def test_a_plan_that_ran_as_a_whole_too_has_lost_nothing() -> None:
    records = [record("run --methods a,b --seeds 2 --shard 1/3", "a", 0), record("run --methods a,b --seeds 2", "b")]
    assert absent(records) == []
    other = [records[0], record("run --methods a,b,c --seeds 2", "b")]
    assert absent(other) == [], "with one encoder in the first shard, the others may be empty"
    assert absent([records[0], record("run --methods a,b --seeds 2 --shard 3/3", "b")]) == ["shard 2 of 3 is not here"]
    assert absent([record("run --methods a,b", "a")]) == [], "only shards are asked"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("run --methods a,b --shard 1/2", {"methods": "a,b", "shard": "1/2"}),
        ("run --methods=a --controls --seeds 3", {"methods": "a", "controls": "", "seeds": "3"}),
        ("run file.yaml --no-controls", {"no-controls": ""}),
    ],
)
def test_options_are_read_as_typed(words: str, expected: dict[str, str]) -> None:
    assert asked(["zoo-bench", *words.split()]) == expected


@pytest.mark.slow
def test_a_lost_shard_stands_in_the_title_and_in_verify(cli: Any, tmp_path: Path) -> None:
    """And a shard's own table is a part; with the last shard the folder is whole."""
    line = "run --methods avg-last,cls,avg-first-last,random --backbone zoo-mini --tasks pocket-words --seeds 1"
    words = [*line.split(), "--no-controls", "--precision", "fp32", "--results", tmp_path / "results", "--shard"]
    first = cli(*words, "1/3")
    assert first.code == 0 and "A PART: shards 2, 3 of 3 are not here" in first.out
    assert cli(*words, "3/3").code == 0
    table = cli("leaderboard", "--results", tmp_path / "results")
    assert "A PART: shard 2 of 3 is not here" in table.out.splitlines()[0]
    verified = cli("verify", tmp_path / "results")
    assert verified.code == 1 and "shard 2 of 3 is not here" in verified.out
    assert "A PART" not in cli(*words, "2/3").out and cli("verify", tmp_path / "results").code == 0
