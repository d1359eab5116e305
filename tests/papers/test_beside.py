"""Theirs beside ours: rows of tables and of analyses' files under the printed rows that they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes import make_record

from benchmark.records.folder import Records
from benchmark.tasks.suites import suite
from zoo.files import write_json
from zoo_bench_papers.analysis.encoders import average
from zoo_bench_papers.beside import Ours, _with_values, lines_of, markdown, printed_beside
from zoo_bench_papers.items import PaperOptions, all_items, item

BERT = "google-bert/bert-base-uncased"


def written(folder: Path, name: str, tasks: Sequence[str], backbone: str = BERT, **more: Any) -> None:
    store = Records(folder)
    for task in tasks:
        record = make_record(name, task, **more)
        record["method"]["sources"] = {"backbone": {"name": backbone, "revision": None, "sha256": "0" * 64}}
        store.write(record)


@pytest.mark.slow
def test_rows_stand_under_the_printed_rows_of_their_settings(tmp_path: Path) -> None:
    """PT-BERT table 2: three lengths, three printed averages; a row of another table's method is not there."""
    for length, main in ((None, 0.7), (64, 0.6), (9, 0.5)):
        name = "simcse" if length is None else f"simcse:train_max_length={length}"
        written(tmp_path, name, suite("sts").tasks, main=main, row=str(length))
    written(tmp_path, "moco", suite("sts").tasks)
    rows = printed_beside(item("ptbert-table2"), PaperOptions(results=tmp_path))
    assert [(row.name, row.values) for row in rows] == [
        ("SimCSE_32", {"Avg": "76.25"}),
        ("SimCSE_64", {"Avg": "75.20"}),
        ("SimCSE_128", {"Avg": "75.29"}),
    ]
    rows_of_ours = [[(ours.name, ours.values["Avg"]) for ours in row.ours] for row in rows]
    assert rows_of_ours == [[("simcse", "70.00")], [("simcse:train_max_length=64", "60.00")], []]
    assert rows[0].ours[0].verdict.startswith("compared")
    lines = lines_of(rows)
    assert lines[0][:3] == ["SimCSE_32", "theirs", "76.25"] and lines[1][1:3] == ["ours", "70.00"]
    assert "none measured here" in lines[-1][-1]
    page = markdown(item("ptbert-table2"), rows, ["zoo-bench run ..."])
    assert "| **SimCSE_32** | theirs | 76.25 |" in page and "| simcse | ours | 70.00 |" in page


def test_another_backbone_is_left_out_or_told(tmp_path: Path) -> None:
    written(tmp_path, "simcse", suite("sts").tasks, row="a")
    written(tmp_path, "simcse", suite("sts").tasks, backbone="zoo-mini", main=0.4, row="b")
    chosen = PaperOptions(results=tmp_path, options={"backbone": "zoo-mini"})
    (ours,) = printed_beside(item("ptbert-table2"), chosen)[0].ours
    assert ours.values == {"Avg": "40.00"} and "other backbone" in ours.verdict
    assert len(printed_beside(item("ptbert-table2"), PaperOptions(results=tmp_path))[0].ours) == 2


def test_rows_of_several_suites_are_told_apart(tmp_path: Path) -> None:
    """BURT table 3: SemEval on frozen vectors and by fine-tuning; no table of phrases has a word similarity."""
    written(tmp_path, "cls", suite("words").tasks, main=0.3)
    written(tmp_path, "cls", ["SemEval2013-5a"], main=0.5)
    written(tmp_path, "cls", ["semeval2013-5a-finetune"], main=0.6)
    rows = printed_beside(item("burt-table3"), PaperOptions(results=tmp_path))
    similarity, accuracy = [row for row in rows if row.name.startswith("BERT_CLS")]
    assert [(one.measured.split(":")[0], one.values["MEN"]) for one in similarity.ours] == [("words", "30.00")]
    assert {one.measured.split(":")[0]: one.values["SemEval13-5a"] for one in accuracy.ours} == {
        "phrases": "50.00",
        "finetune": "60.00",
    }
    written(tmp_path, "max", ["SemEval2013-5a"], main=0.5)
    rows = printed_beside(item("burt-table3"), PaperOptions(results=tmp_path))
    assert not next(row for row in rows if row.name == "BERT_MAX").ours, "measured, but nothing of this row"


def test_hard_pairs_are_of_the_analysis_all_pairs_of_the_table(tmp_path: Path) -> None:
    tasks = suite("sts").tasks[:5]
    written(tmp_path, "simcse", tasks, main=0.7)
    chosen = PaperOptions(results=tmp_path)
    table = [
        {"Method": "simcse", "Task": task, "Pairs of": kind, "Spearman": value}
        for task, value in [*((task, 60.0) for task in tasks), ("Avg.", 61.5)]
        for kind in ("hard", "all")
    ]
    write_json(chosen.folder(item("ptbert-table1")) / "pairs.json", {"tables": {"pairs-hard": {"rows": table}}})
    hard, full = printed_beside(item("ptbert-table1"), chosen)
    assert [set(ours.values.values()) for ours in hard.ours] == [{"60.00"}]
    assert [set(ours.values.values()) for ours in full.ours] == [{"70.00"}]
    write_json(chosen.folder(item("ptbert-table5c")) / "pairs.json", {"tables": {"pairs-hard": {"rows": table}}})
    simcse, ptbert = printed_beside(item("ptbert-table5c"), chosen)
    assert simcse.values["Avg"] == "71.08" and simcse.ours[0].values["Avg"] == "61.50"
    assert set(simcse.ours[0].values) == {*tasks, "Avg"} and ptbert.ours == ()


def test_analyses_by_backbone_template_and_text_find_their_rows(tmp_path: Path) -> None:
    chosen = PaperOptions(results=tmp_path, options={"backbone": "zoo-mini"})
    rows = [{"Method": "static-avg", "Backbone": "zoo-mini", "Sentence anisotropy": 0.95}]
    write_json(chosen.folder(item("promptbert-table1")) / "anisotropy.json", {"tables": {"anisotropy": {"rows": rows}}})
    matching = [row for row in printed_beside(item("promptbert-table1"), chosen) if row.ours]
    assert {(row.backbone, row.ours[0].values["wiki 100k sentences"]) for row in matching} == {
        ("bert-base-uncased", "0.9500"),
        ("bert-base-cased", "0.9500"),
        ("roberta-base", "0.9500"),
    }
    folder = chosen.folder(item("promptbert-table4")) / "template-search" / "zoo-mini-12345678"
    write_json(folder / "listed.json", {"rows": [{"template": "[X] means [MASK] .", "spearman": 56.176}]})
    matching = [row for row in printed_beside(item("promptbert-table4"), chosen) if row.ours]
    assert [(row.name, row.values["STS-B dev"], row.ours[0].values["STS-B dev"]) for row in matching] == [
        ("[X] means [MASK] .", "63.56", "56.18")
    ]
    tokens = [{"Sentence": "i am sad.", "Backbone": "zoo-mini", "Top 5": "a, b", "Top 5 after denoising": "c"}]
    write_json(
        chosen.folder(item("promptbert-table7")) / "top-tokens.json", {"tables": {"top-tokens": {"rows": tokens}}}
    )
    first = printed_beside(item("promptbert-table7"), chosen)[0]
    assert first.values["after denoising"] == "sad,sadness,crying,grief,tears"
    assert first.ours[0].values == {"Top-5 tokens": "a, b", "after denoising": "c"}


def test_a_recipe_without_a_value_stands_once() -> None:
    rows = [Ours(name, "", {"Avg": value}, "") for name, value in (("a", "n/a"), ("b", "70.0"), ("c", "n/a"))]
    assert [one.name for one in _with_values(rows)] == ["b"]
    assert [one.name for one in _with_values([rows[0], rows[2]])] == ["a"] and _with_values([]) == []


def test_a_slip_of_a_printed_row_stands_beside_it(tmp_path: Path) -> None:
    slips = {line.row.slip for one in all_items().values() for line in one.lines() if line.row.slip}
    chosen = PaperOptions(results=tmp_path)
    notes = {note for one in all_items().values() if any(line.row.slip for line in one.lines()) for row in
            printed_beside(one, chosen) for note in row.notes}  # fmt: skip
    assert slips and {f"slip: {slip}" for slip in slips} <= notes


@pytest.mark.parametrize(("scores", "mean"), [([1.0, 3.0], 2.0), ([1.0, None], None), ([], None)])
def test_a_mean_is_of_all_tasks_or_none(scores: list[float | None], mean: float | None) -> None:
    assert average(scores) == mean
