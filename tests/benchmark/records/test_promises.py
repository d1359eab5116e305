"""What commands of shards promise: a lost shard is said whichever it is, and a whole plan says nothing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from benchmark.records.promises import absent, asked


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
