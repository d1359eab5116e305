"""Records: whole or absent, standard JSON, checked when written and when read; a damaged one harms no other."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli, failed, hexes, make_record

from benchmark.records.folder import Records
from benchmark.records.packed import RecordParser
from benchmark.records.record import check_record, parse_record, plain
from zoo.errors import CorruptError
from zoo.files import write_json

FAST = ("--precision", "fp32", "--limit", "20")


@pytest.mark.usefixtures("fakes")
def test_a_real_record_is_valid_and_says_what_was_measured(cli: Cli, tmp_path: Path) -> None:
    """What the runner writes follows the schema and states recipe, data, versions and command."""
    assert cli("run", "--methods", "bag:salt=3", "--tasks", "pocket-words", "--results", tmp_path, *FAST).code == 0
    (path,) = (tmp_path / "records").rglob("*.json")
    record = json.loads(path.read_text(encoding="utf-8"))
    check_record(record, str(path))
    assert record["method"]["recipe"] == {"width": 64, "salt": 3}
    assert record["task"]["form"] == "plain"
    assert record["task"]["rows"] == 20
    assert record["limit"] == 20
    assert record["command"][:4] == ["zoo-bench", "run", "--methods", "bag:salt=3"]
    assert record["environment"]["packages"]["numpy"] == np.__version__


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("schema",), 2),
        (("protocol",), "1"),
        (("key",), "abc"),
        (("status",), "done"),
        (("method", "name"), None),
        (("task", "version"), 1.5),
        (("seed",), "0"),
        (("precision",), "fp8"),
        (("scores", "main"), "0.5"),
        (("environment",), None),
        (("started",), "2026-01-02T03:04:05+09:00"),
        (("seconds",), -1),
        (("command",), "zoo-bench run"),
    ],
)
def test_each_wrong_field_is_refused_by_name(place: tuple[str, ...], value: Any) -> None:
    """A wrong type or value is refused, naming the file and the place."""
    record = make_record()
    inner = record
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(CorruptError, match=f"^somewhere: .*{place[-1]}"):
        check_record(record, "somewhere")


def test_nan_cannot_be_written(tmp_path: Path) -> None:
    """No file holds a NaN or Infinity token; an undefined number is null."""
    for value in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(ValueError, match="JSON"):
            write_json(tmp_path / "x.json", {"value": value})
        assert not (tmp_path / "x.json").exists()
        path = Records(tmp_path).write(make_record(encoding={"texts_per_second": value, "deep": [{"x": value}]}))
        encoding = json.loads(path.read_text(), parse_constant=lambda token: pytest.fail(token))["encoding"]
        assert encoding == {"texts_per_second": None, "deep": [{"x": None}]}
    assert list(tmp_path.glob(".*")) == []


def test_numpy_numbers_are_plain() -> None:
    """Whatever a method reports becomes standard JSON."""
    value = plain({1: np.float32(0.5), "n": np.int64(3), "t": (np.bool_(True), None), "x": np.float64("nan")})
    assert value == {"1": 0.5, "n": 3, "t": [True, None], "x": None}
    assert json.loads(json.dumps(value, allow_nan=False)) == value


DAMAGE = {
    "cut": lambda text: text[: len(text) // 2],
    "nan": lambda text: text.replace('"main": 0.5', '"main": NaN'),
    "ok without scores": lambda text: json.dumps({**json.loads(text), "scores": None}),
    "binary": lambda text: "\x00\x01" + text,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_record_is_named_and_the_others_stay(kind: str, tmp_path: Path, cli: Cli) -> None:
    """The leaderboard names it and leaves it where it is; exit 1 under --strict only."""
    store = Records(tmp_path)
    bad = store.write(make_record("one"))
    good = store.write(make_record("two", main=0.25))
    content = DAMAGE[kind](bad.read_text(encoding="utf-8"))
    for strict, code in (((), 0), (("--strict",), 1)):
        bad.write_text(content, encoding="utf-8")
        answer = cli("leaderboard", "--results", tmp_path, *strict)
        assert answer.code == code
        assert bad.read_text(encoding="utf-8") == content
        assert str(bad) in answer.err
        assert good.exists()
        assert "25.00" in answer.out
    bad.replace(bad.with_name(bad.name + ".corrupt"))  # as a run does, which was stopped before it measured it again
    answer = cli("leaderboard", "--results", tmp_path, "--strict")
    assert answer.code == 1 and f"{bad}.corrupt was set aside" in answer.err


@pytest.mark.slow
@pytest.mark.usefixtures("fakes")
def test_a_damaged_record_is_measured_again(cli: Cli, tmp_path: Path) -> None:
    """The next run measures that cell, only that cell, with the same score, and says so."""
    arguments = ("run", "--methods", "bag", "--results", tmp_path, *FAST)
    assert cli(*arguments).code == 0
    paths = sorted((tmp_path / "records").rglob("*.json"))
    before = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    paths[0].write_text(paths[0].read_text(encoding="utf-8")[:200], encoding="utf-8")
    answer = cli(*arguments)
    assert answer.code == 0
    assert "1 cell measured, 3 kept" in answer.err
    assert f"{paths[0]}.corrupt" in answer.err
    after = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    assert after[0]["scores"] == before[0]["scores"]
    assert after[1:] == before[1:]


NAMES = [
    "/",
    "..",
    ".",
    "../../escape",
    "/etc/passwd",
    "a/b\\c",
    "con:x=1",
    "x" * 300,
    "имя 名前 🙂",
    "new\nline",
    "nul\x00byte",
    "Upper",
    "upper",
    "pretrained:model=/a/b/c",
    "pretrained:model=/a/b_c",
    " ",
    "-rf",
    "~",
]


def test_odd_names_stay_inside_the_folder_and_apart(tmp_path: Path) -> None:
    """Every name has a file of its own below the folder, portable to any file system."""
    folder = tmp_path / "out"
    store = Records(folder)
    for name in NAMES:
        store.write(make_record(name))
    outside = [p for p in tmp_path.rglob("*") if p.is_file() and folder not in p.parents]
    assert outside == []
    files = [p for p in folder.rglob("*") if p.is_file()]
    assert len(files) == len(NAMES)
    assert {p.parent.parent for p in files} == {folder / "records"}
    assert len({str(p).lower() for p in files}) == len(NAMES)
    for path in files:
        for part in path.relative_to(folder).parts:
            assert len(part) <= 120
            assert part.isascii()
            assert not set(part) & set('<>:"/\\|?*\n\x00 ')
            assert not part.endswith(".")
    assert sorted(record["method"]["name"] for record in store.all()) == sorted(NAMES)
    assert all(store.finished(name, "pocket-pairs", make_record(name)["key"]) for name in NAMES)


def test_a_record_of_another_key_is_not_taken(tmp_path: Path) -> None:
    """The file name holds a part of the key; the whole key decides."""
    store = Records(tmp_path)
    record = make_record()
    store.write(record)
    assert store.finished("bag", "pocket-pairs", record["key"])
    other = record["key"][:16] + hexes("other")[16:]
    assert store.finished("bag", "pocket-pairs", other) is None
    store.write(failed(record, "no"))
    assert store.finished("bag", "pocket-pairs", record["key"]) is None


@pytest.mark.slow
def test_no_flipped_bit_of_a_record_changes_what_it_says(tmp_path: Path) -> None:
    """Bits all over the file: the record as it was written, or left out and named."""
    store = Records(tmp_path)
    path = store.write(make_record(main=0.7125))
    intact, (wanted,) = path.read_bytes(), store.all()
    left_out = 0
    for bit in range(0, 8 * len(intact), 31):
        content = bytearray(intact)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        store = Records(tmp_path)
        stored = store.all()
        assert stored == [wanted] or (not stored and len(store.corrupt) == 1), (bit, stored)
        left_out += not stored
    assert left_out > 0.9 * 8 * len(intact) / 31


def test_a_record_without_a_sum_is_left_out_and_named(tmp_path: Path, cli: Cli) -> None:
    path = Records(tmp_path).write(make_record())
    Records(tmp_path).write(make_record("other"))
    path.write_text(re.sub(r',\s*"sha256": "\w+"', "", path.read_text(encoding="utf-8")), encoding="utf-8")
    assert f"record left out: {path} has no sha256" in cli("leaderboard", "--results", tmp_path).err


def fractions(value: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The places of a record's scores."""
    if isinstance(value, float):
        yield above
    for key, below in value.items() if isinstance(value, dict) else ():
        yield from fractions(below, (*above, key))


SCORES = {
    "main": 0.5,
    "main_metric": "all_spearman",
    "reason": None,
    **{name: {"spearman": 0.5, "pearson": -0.5} for name in ("all", "mean", "wmean")},
    "subsets": {"news": {"spearman": 0.5, "pearson": 0.1}},
    "by_seed": {"0": {"accuracy": 0.9}},
}


@pytest.mark.parametrize("metric", ["all_spearman", "pearson", "accuracy", "mrr", "synonym_nearest", "ndcg_at_10"])
def test_no_score_beyond_1_is_read(metric: str) -> None:
    """Loose or packed, at any place; what rounding adds is none. A plugin's measure may have other units."""
    for place in fractions(SCORES):
        for value, fits in ((88.0, False), (-1.001, False), (1 + 1e-9, True), (-1.0, True)):
            record = make_record(scores=json.loads(json.dumps({**SCORES, "main_metric": metric})))
            inner = record["scores"]
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = value
            for read in (RecordParser(), parse_record):
                with contextlib.nullcontext() if fits else pytest.raises(CorruptError, match=r"^here: "):
                    assert read(json.dumps(record), "here") == record
    perplexity = make_record(scores={"main": 88.0, "main_metric": "perplexity", "reason": None})
    assert parse_record(json.dumps(perplexity), "here") == RecordParser()(json.dumps(perplexity), "here") == perplexity
