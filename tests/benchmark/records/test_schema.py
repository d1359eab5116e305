"""A record that is not as it should be is named and left out; no record stops a command; reading changes nothing."""

from __future__ import annotations

import copy
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli, hexes, make_record

from benchmark.records.schema import NewerRecordError, check_record, parse_record, plain
from benchmark.records.store import Records
from zoo.errors import CorruptError, UsageError

RAW = {
    "infinite score": ('"main": 0.5', '"main": 1e999'),
    "huge score": ('"main": 0.5', '"main": 1e300'),
    "huge whole number": ('"threads": 2', '"threads": ' + "9" * 400),
    "number of 5,000 digits": ('"threads": 2', '"threads": ' + "9" * 5000),
    "infinite elsewhere": ('"seconds": 0.5', '"seconds": -1e400'),
    "no facts": ('"facts": {},', ""),
    "half a surrogate pair in the name": ('"name": "bad"', '"name": "b\\ud800d"'),
    "half a surrogate pair as a key": ('"width": 64', '"\\udfff": 64'),
    "5,000 deep": ('"width": 64', '"width": ' + "[" * 5000 + "]" * 5000),
    "500,000 deep": ('"width": 64', '"width": ' + '{"x":' * 500_000 + "1" + "}" * 500_000),
    "50 deep": ('"width": 64', '"width": ' + "[" * 50 + "]" * 50),
    "no such day": ("2026-01-02T03", "2026-02-30T03"),
    "steps that are none": ('"training": null', '"training": {"dev_scores": {"first": 1.0}}'),
    "parameters that are none": ('"facts": {}', '"facts": {"parameters": "many"}'),
    "true as a schema": ('"schema": 1', '"schema": true'),
    "backbone that is none": ('"backbone": {', '"backbone": [], "x": {'),
    "packages without torch": ('"torch": "2.10.0",', ""),
    "no rows": ('"rows": 280', '"rows": "280"'),
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


def rich(name: str = "odd", task: str = "STS12", seed: int = 0) -> Any:
    """A record with every field that a run writes."""
    both = {"spearman": 0.5, "pearson": 0.4}
    subsets = {"a": {"n": 3, **both}, "b": {"n": 3, **both}}
    training = {
        "fitted": True, "steps": 3, "sentences": 4, "seconds": 1.5, "sentences_per_second": 2.5, "final_loss": 0.5,
        "dev_scores": {"1": 50.0, "3": 51.0}, "dev_curves": {"alignment": {"1": 0.5}}, "best_step": 3,
        "peak_memory_mb": 10.5, "peak_from_mb": 1.0, "facts": {"x": 1, "y": {"z": [1]}}, "dev_task": "STS-B",
        "corpus": {"name": "wiki", "sentences": 4, "sha256": hexes("c")}, "overlap": {"texts": 3, "digests": ["ab"]},
    }  # fmt: skip
    encoding = {
        "texts": 5, "tokens": 6, "truncated": 0, "seconds": 1.0, "token_budget": 7, "halvings": 0, "cached": 2,
        "texts_per_second": 5.0, "tokens_per_second": 6.0, "peak_memory_mb": 3.0, "peak_from_mb": 1.0,
    }  # fmt: skip
    return make_record(
        name,
        task,
        seed,
        scores={"main": 0.5, "main_metric": "all_spearman", "reason": None, "subsets": subsets}
        | dict.fromkeys(("all", "mean", "wmean"), both),
        coverage={"texts": 4, "covered": 3, "missing": ["w"]},
        training=training,
        encoding=encoding,
        adapt={"seconds": 1.0, "texts": 3, "rank": 2},
        facts={"dimensions": 4, "parameters": 5, "rank": 3, "k": 2, "w": "t"},
        code={"commit": "abc", "digest": hexes("d")},
    )


VALUES: list[Any] = [
    None, True, 0, -1, 2**60, 1.5, -1e99, 1e99, "", "x", "é🙂", "\x1b[31m", "<b>", "../..", "a" * 5000, "=1+1",
    [], [None], [1], ["x"], {}, {"x": 1}, {"1": 1}, {"x": None}, {"x": {}},
]  # fmt: skip


def _changed(record: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    def places(value: Any, place: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        if place:
            yield place
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            yield from places(inner, (*place, key))

    for place in places(record, ()):
        for value in [*VALUES, ...]:
            changed = copy.deepcopy(record)
            inner = changed
            for key in place[:-1]:
                inner = inner[key]
            if value is ...:
                del inner[place[-1]]
            else:
                inner[place[-1]] = value
            yield (*place, value), changed


@pytest.mark.slow
def test_whatever_passes_the_schema_can_be_shown(tmp_path: Path, cli: Cli) -> None:
    """Any field of a record gone or another: it is refused by name, or every command can read it. No traceback."""
    folder = tmp_path / "results"
    store, gold = Records(folder), np.arange(20) / 4
    for task in ("STS12", "STS13"):
        store.write(rich("good", task))
        store.write(make_record("pairs", task), (gold[::-1], gold))
    path = store.write(rich())
    changes = list(_changed(rich()))
    kinds = {True: 0, False: 0}
    for place, record in random.Random(int(os.environ.get("FUZZ_SEED", "0"))).sample(changes, 150):
        path.write_text(json.dumps(record))
        found = Records(folder)
        names = {r["method"]["name"] for r in found.all()} - {"pairs"}
        kinds[bool(found.corrupt)] += 1
        if found.corrupt:
            assert str(path) in found.corrupt[0][1] and "\n" not in found.corrupt[0][1], place
            continue
        name = (names - {"good"} or names).pop()
        out = ("--out", tmp_path / "out")
        for arguments in (
            ("leaderboard", "--results", folder, *out, "--suite", "sts,other", "--mteb", tmp_path / "mteb"),
            ("compare", "pairs", name, "--results", folder, "--resamples", 100),
        ):
            answer = cli(*arguments)  # anything but an error of this project ends the test
            assert answer.code in (0, 1, 2) and "Traceback" not in answer.err, place
    assert min(kinds.values()) > 20


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
        ("compare", "bag", "bag", "--results", folder, "--tasks", "pocket-pairs"),
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


@pytest.mark.slow
def test_what_cannot_be_json_is_not_written(tmp_path: Path) -> None:
    """A method may say anything; the record is refused by a sentence, and no file of pair scores is left behind."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for facts in ({"x": {1, 2}}, {"x": object()}, {"x": deep}, {"x": 10**400}):
        with pytest.raises(CorruptError):
            Records(tmp_path).write(make_record(facts=None) | {"facts": facts}, (np.ones(3), np.ones(3)))
    assert list(tmp_path.rglob("*.*")) == []
    while deep:
        deep = deep.pop()


def test_texts_of_any_kind_are_read_again() -> None:
    """Escaped, beyond the basic plane, with a backslash and u: the same text."""
    for text in ("é🙂\u2028", "\\ud800 as it is typed", 'quote " and \\', "\x00\x1f"):
        for ascii_only in (False, True):
            content = json.dumps(make_record(text), ensure_ascii=ascii_only).encode()
            assert parse_record(content, "here")["method"]["name"] == text
    assert plain("caf\udce9") == "caf\ufffd"


@pytest.mark.slow
def test_many_records_are_read_quickly(tmp_path: Path) -> None:
    """Loose or packed, in a few times what parsing their JSON takes: ten thousand in about a second."""
    from benchmark.records.pack import pack

    record, folder = rich("many"), tmp_path / "records" / "many"
    text = json.dumps(record, indent=1)
    folder.mkdir(parents=True)
    for number in range(2_000):
        (folder / f"{number}.json").write_text(text.replace(record["key"], hexes("many", number)))
    parsing = _seconds(lambda: [json.loads(text) for _ in range(2_000)])
    loose = _seconds(lambda: Records(tmp_path).all())
    pack(tmp_path)
    packed = _seconds(lambda: Records(tmp_path).all())
    assert len(Records(tmp_path).all()) == 2_000
    assert max(loose, packed) < 12 * parsing, (parsing, loose, packed)


def _seconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started
