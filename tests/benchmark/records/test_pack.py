"""Packed results: every reader reads them as it reads loose ones; nothing is lost whenever packing stops."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli, failed, make_record
from pack_fakes import TASKS, contents, files

from benchmark.leaderboard.files import leaderboard_files
from benchmark.records.pack import pack
from benchmark.records.packed import RECORDS, member_of, read_pack
from benchmark.records.store import Records
from zoo.errors import CorruptError, MissingError


def mixed(folder: Path) -> None:
    pack(folder, lambda r: r["method"]["name"] != "two:x=1" and r["seed"] != 1)


FORMS: dict[str, Callable[[Path], Any]] = {
    "packed": pack,
    "packed and loose": lambda folder: pack(folder, keep=True),
    "mixed": mixed,
    "by order": lambda folder: pack(folder, pairs="order"),
    "twice": lambda folder: (mixed(folder), pack(folder)),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_tables_are_the_same_bytes(form: str, loose: Path, results: Path) -> None:
    """Whatever form records have, and wherever they lie, the files made of them are the same."""
    expected = leaderboard_files(loose)[1]
    assert "≈: may truly be" in expected["relatedness.md"]  # pair scores are looked at
    FORMS[form](results)
    assert leaderboard_files(results)[1] == expected


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_commands_read_it(form: str, loose: Path, results: Path, cli: Cli, tmp_path: Path) -> None:
    """compare, analyze and the MTEB files say the same of packed records as of loose ones."""
    FORMS[form](results)
    for folder in (loose, results):
        out = tmp_path / "said" / ("loose" if folder == loose else "packed")
        compared = cli(
            "compare",
            "one",
            "two:x=1",
            "--tasks",
            ",".join(TASKS),
            "--results",
            folder,
            "--json",
            "--resamples",
            100,
            "--pairs",
            2,
            "--no-texts",
        )
        assert compared.code == 0
        out.mkdir(parents=True)
        (out / "compare.json").write_text(compared.out)
        assert cli("analyze", "worst", "--methods", "one", "--tasks", TASKS[0], "--results", folder, "--out",
                   out / "worst", "--no-plots").code == 0  # fmt: skip
    said = files(tmp_path / "said" / "packed")
    assert said.keys() == files(tmp_path / "said" / "loose").keys()
    for name, content in files(tmp_path / "said" / "loose").items():
        for folder in (loose, results):  # the command stands in some
            said[name] = said[name].replace(str(folder).encode(), b"RESULTS").replace(b"said/packed", b"OUT")
            content = content.replace(str(folder).encode(), b"RESULTS").replace(b"said/loose", b"OUT")
        if not (name.startswith("worst/") and form == "by order"):  # where the predictions themselves are shown
            assert said[name] == content, name


def test_what_is_packed_is_what_was_there(results: Path) -> None:
    """Each record with all its fields, pair scores bit for bit; one file is left."""
    before = contents(results)
    done = pack(results)
    assert (done.records, done.added, done.removed, done.left) == (38, 38, 38, [])
    assert contents(results) == before
    assert list(files(results)) == [RECORDS]
    rows = read_pack(results)
    assert rows is not None
    assert len(rows.file(TASKS[0]).golds) == 1  # type: ignore[union-attr]
    assert pack(results).added == 0


def test_equal_records_give_equal_bytes(loose: Path, results: Path, tmp_path: Path) -> None:
    """In one go, in stages, in another order: the same files."""
    pack(results)
    for number, stages in enumerate((("one", "two:x=1"), ("drei/ß", "one"), ("broken",))):
        other = shutil.copytree(loose, tmp_path / f"stages{number}")
        for name in stages:
            pack(other, lambda r, name=name: r["method"]["name"] == name)
            assert contents(other) == contents(loose)
        pack(other)
        assert files(other) == files(results)


def test_only_what_is_chosen(loose: Path, results: Path, cli: Cli) -> None:
    """Names, globs and suites choose; the rest stays as it is."""
    assert cli("pack", results, "--methods", "two*,nobody", "--tasks", "SICK*,pocket-p*").code == 0
    kept = read_pack(results)
    assert kept is not None
    chosen = {(r["method"]["name"], r["task"]["name"]) for r in (kept.record(i) for i in range(len(kept.lines)))}
    assert chosen == {("two:x=1", TASKS[0]), ("two:x=1", "pocket-phrases")}
    assert contents(results) == contents(loose)
    answer = cli("pack", results, "--suite", "pocket,relatedness", "--keep")
    assert "38 records, 32 of them new" in answer.out and "0 loose records removed" in answer.out
    assert len(list((results / "records").rglob("*.json"))) == 32
    assert cli("pack", results, "--suite", "nothing").code == 2


def test_order_and_none(loose: Path, results: Path, tmp_path: Path) -> None:
    """order: the place of each pair among the distinct scores. none: the record, and no pair scores."""
    pack(results, lambda r: r["task"]["name"] == TASKS[0], pairs="order")
    pack(results, lambda r: r["task"]["name"] != TASKS[0], pairs="none")
    before, store = Records(loose), Records(results)
    for old, new in zip(before.all(), store.all(), strict=True):
        assert old == new
        if not before.has_pairs(old) or old["task"]["name"] != TASKS[0]:
            assert not store.has_pairs(new)
            continue
        expected = np.unique(before.pair_scores(old)[0], return_inverse=True)[1]
        assert np.array_equal(store.pair_scores(new)[0], expected)
        assert np.array_equal(store.pair_scores(new)[1], before.pair_scores(old)[1])
    with pytest.raises(MissingError, match="no pair scores"):
        store.pair_scores(next(r for r in store.all() if r["task"]["name"] == TASKS[1]))


def test_packed_rows_keep_less_when_asked(loose: Path, results: Path, cli: Cli, tmp_path: Path) -> None:
    """What is packed as scores can be kept by order, what is packed at all as nothing; never more than was there."""
    at_once = shutil.copytree(loose, tmp_path / "at once")
    pack(at_once, pairs="order")
    pack(results)
    answer = cli("pack", "--results", results, "--methods", "one", "--pairs", "order")
    assert "6 rows of pair scores" in answer.out
    forms = [{kind for kind, _, _ in file.rows.values()} for file in map(read_pack(results).file, TASKS)]  # type: ignore
    assert forms == [{"scores", "order"}] * 2
    assert "12 rows" in cli("pack", "--results", results, "--pairs", "order").out
    assert files(results) == files(at_once)
    assert "rows of pair scores" not in cli("pack", "--results", results).out and files(results) == files(at_once)
    before = contents(results)
    assert "9 rows" in cli("pack", "--results", results, "--tasks", TASKS[0], "--pairs", "none").out
    expected = {
        cell: (record, None if record["task"]["name"] == TASKS[0] else pairs)
        for cell, (record, pairs) in before.items()
    }
    assert contents(results) == expected


def test_records_alone_are_read_without_pair_scores(results: Path) -> None:
    """Whatever lies where the pair scores are: a reader of records does not look there."""
    pack(results)
    path, expected = results / RECORDS, len(contents(results))
    with zipfile.ZipFile(path) as file:
        first = file.infolist()[0]
    content = path.read_bytes()
    path.write_bytes(content[: first.header_offset + 100] + bytes(200) + content[first.header_offset + 300 :])
    store = Records(results)
    records = store.all()
    assert len(records) == expected and store.corrupt == []
    damaged = next(
        record for record in records if first.filename in member_of(record["task"]["name"]) and record.get("pairs")
    )
    with pytest.raises(CorruptError, match=f"{RECORDS} is damaged"):
        store.pair_scores(damaged)


@pytest.mark.slow
@pytest.mark.usefixtures("fakes")
def test_a_run_keeps_what_is_packed(cli: Cli, tmp_path: Path) -> None:
    """Measured cells are kept, dry run and estimate know of them; a failed one is measured again and replaces it."""
    fast = ("--precision", "fp32", "--limit", "20", "--out", tmp_path)
    assert cli("run", "--methods", "bag,constant", *fast).code == 1
    before = contents(tmp_path)
    assert cli("pack", tmp_path).code == 0
    assert not (tmp_path / "records").exists()
    assert "bag: 4/4 cells done, about 0:00" in cli("run", "--methods", "bag", "--dry-run", *fast).out
    assert "0 cells measured, 4 kept" in cli("run", "--methods", "bag", *fast).err
    assert contents(tmp_path) == before
    assert "4 failed" in cli("run", "--methods", "constant", *fast).err
    assert len(contents(tmp_path)) == 8
    cells = {key: record for (_, key), (record, _) in contents(tmp_path).items() if record["status"] == "failed"}
    store = Records(tmp_path)
    for record in cells.values():
        scores = {"main": 0.5, "main_metric": "accuracy", "reason": None}
        store.write({**record, "status": "ok", "reason": None, "scores": scores})
    assert {key for (_, key), (record, _) in contents(tmp_path).items() if record["status"] == "ok"} >= set(cells)
    assert "0 cells measured, 4 kept" in cli("run", "--methods", "constant", *fast).err
    assert cli("pack", tmp_path).code == 0
    assert len(contents(tmp_path)) == 8 and not (tmp_path / "records").exists()


def test_measured_again_is_no_conflict(results: Path) -> None:
    """A record that a run writes over a packed one counts in its place, better or worse or failed, and is packed."""
    pack(results)
    store = Records(results)
    record = make_record("one", "pocket-phrases", 0)
    for change in ({"main": 0.25}, {"main": 0.75}):
        store.write(make_record("one", "pocket-phrases", 0, **change))
        (found,) = [r for r in store.all() if r["key"] == record["key"]]
        assert found["scores"]["main"] == change["main"]  # type: ignore[index]
    store.write(failed(make_record("one", "pocket-phrases", 0), "out of memory"))
    assert store.finished("one", "pocket-phrases", record["key"]) is None
    assert next(r for r in store.all() if r["key"] == record["key"])["status"] == "failed"
    assert pack(results).records == 38
    assert next(r for r in store.all() if r["key"] == record["key"])["status"] == "failed"
    assert store.corrupt == []


def test_two_scores_of_a_cell_are_a_conflict(results: Path, cli: Cli) -> None:
    """A loose record beside a packed one with another score: no score, both files named, until one is chosen."""
    path = Records(results).path("one", "pocket-phrases", make_record("one", "pocket-phrases", 0)["key"])
    record = json.loads(path.read_text())
    del record["sha256"]
    pack(results)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**record, "scores": {**record["scores"], "main": 0.75}}))
    answer = cli("leaderboard", "--results", results, "--strict")
    place = path.relative_to(results).as_posix()
    assert answer.code == 1 and f"scores 0.5 and 0.75, in {RECORDS} and {place}" in answer.err
    text = (results / "pocket.md").read_text("utf-8")
    assert "conflict: records of one cell" in text
    answer = cli("pack", results)
    assert "conflict: the pack has another score" in answer.err and path.exists()
    assert cli("pack", results, "--replace").code == 0
    assert not path.exists()
    (found,) = [r for r in Records(results).all() if r["key"] == record["key"]]
    assert found["scores"]["main"] == 0.75  # type: ignore[index]


def test_equal_copies_are_no_conflict(results: Path) -> None:
    """The same record again is removed; with equal scores and another time it stays a file. Nothing is shown twice."""
    before = files(results)
    pack(results)
    for name, content in before.items():
        (results / name).parent.mkdir(parents=True, exist_ok=True)
        (results / name).write_bytes(content)
    path = Records(results).path("broken", TASKS[0], make_record("broken", TASKS[0])["key"])
    other = next(p for p in (results / "records").rglob("*.json") if p.parent.name == "one")
    later = {**json.loads(other.read_text()), "started": "2027-01-01T00:00:00Z"}
    del later["sha256"]
    other.write_text(json.dumps(later))
    assert len(contents(results)) == 38
    done = pack(results)
    assert done.added == 0 and [str(other) in reason for reason in done.left] == [True]
    assert not path.exists() and list((results / "records").rglob("*.json")) == [other]
    assert len(contents(results)) == 38
