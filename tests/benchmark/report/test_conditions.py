"""Conditions of rows: what a record's recipe was, beside what its name says today."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from fakes import make_record

from benchmark.records.record import MethodPart
from benchmark.report.conditions import changed_settings, recipe_of_method
from benchmark.report.latex import latex
from benchmark.report.leaderboard import suites_of
from benchmark.report.page import page
from benchmark.report.signature import conditions_of
from benchmark.report.table import build_tables
from benchmark.report.write import markdown
from benchmark.tasks.suites import suite
from zoo.recipes import all_recipes
from zoo.selection import parse_methods


def recorded(name: str, without: str = "", **changes: Any) -> Any:
    """Return a record of a recipe as it resolves today, but for some of its settings."""
    (spec,) = parse_methods(name, all_recipes())
    settings = {**asdict(spec.resolve()[1]), **changes}
    settings.pop(without, None)
    record = make_record(name)
    record["method"]["recipe"] = settings
    return record


def changed(method: MethodPart) -> list[str]:
    return changed_settings(method, recipe_of_method(method))


@pytest.mark.parametrize("name", ["ct:steps=320", "moco-reorder", "sbert-flow", "ct-st", "simcse:learning_rate=3e-5"])
def test_settings_of_today_are_not_marked(name: str) -> None:
    assert changed(recorded(name)["method"]) == []


def test_a_label_is_looked_up_by_its_recipe() -> None:
    record = recorded("moco-reorder", augment=["reorder:0.2"])
    record["method"] |= {"name": "ours", "recipe_name": "moco-reorder"}
    assert changed(record["method"]) == ["augment"]
    record["method"] |= {"name": "moco-reorder", "recipe_name": "a plugin's"}
    assert changed(record["method"]) == []


def test_every_table_says_that_a_recipe_has_changed() -> None:
    """A value that is another one today, and a setting that the record's code did not have."""
    records = [recorded("moco-reorder", augment=["reorder:0.2"]), recorded("ct", "rmsprop_epsilon"), recorded("simcse")]
    (table,) = build_tables(records, [suite("pocket")])
    pages = [markdown(table), latex(table).replace("\\_", "_"), page([table])]
    for text in pages:
        assert "measured before its recipe changed (augment)" in text
        assert "measured before its recipe changed (rmsprop_epsilon)" in text
        assert text.count("measured before") >= 2
    assert pages[0].count("measured before") == 2


@pytest.mark.parametrize(
    ("run_by", "gpu", "depend"),
    [
        (None, None, False),
        ("onnxruntime, model_qint8.onnx, each text alone", None, False),
        ("onnxruntime, model.onnx", None, True),
        ("sentence-transformers", None, True),
        ("transformers, deberta", None, True),
        (None, "a card", True),
    ],
)
def test_every_table_says_where_last_bits_depend_on_the_batch(
    run_by: str | None, gpu: str | None, depend: bool
) -> None:
    record = recorded("cls")
    record["facts"] |= {"run_by": run_by} if run_by else {}
    record["environment"]["gpu"] = gpu
    (table,) = build_tables([record], [suite("pocket")])
    for text in (markdown(table), latex(table).replace("\\_", "_"), page([table])):
        assert ("last bits depend on the batch" in text) == depend
        assert run_by is None or f"encoded by {run_by}" in text


@pytest.mark.parametrize("count", [1, 2, 3])
def test_measures_outside_every_suite_have_means_of_their_own(count: int) -> None:
    """Two measures are not averaged together; a measure of one task needs no mean."""
    accuracy = {"main": 0.5, "main_metric": "accuracy", "reason": None}
    records = [make_record("m", f"own-{n}", scores=accuracy) for n in range(count)] + [make_record("m", "own-pairs")]
    (other,) = [one for one in suites_of(records) if one.name == "other"]
    named = tuple(f"own-{n}" for n in range(count))
    assert other.means == ({"Avg. accuracy": named} if count > 1 else {}) and not other.average
    (alike,) = [one for one in suites_of(records[:-1]) if one.name == "other"]
    assert alike.average and alike.means == {}


@pytest.mark.parametrize(("names", "text"), [("a", "a"), ("ab", "a+b"), ("abc", "3 kinds@")])
def test_conditions_are_named_up_to_two_and_then_counted(names: str, text: str) -> None:
    records = [make_record("m", training={"dev_task": name}) for name in names]
    assert conditions_of(records)["dev"].startswith(text)


def test_labelled_pairs_are_counted_as_pairs() -> None:
    corpus = {"name": "nli", "sentences": 24, "pairs": 12, "sha256": "abcdef"}
    assert conditions_of([make_record("m", training={"corpus": corpus})])["pairs"] == "nli 12@abcd"
