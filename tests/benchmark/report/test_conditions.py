"""Conditions of rows: what a record's recipe was, beside what its name says today."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from fakes import make_record

from benchmark.report.conditions import changed_settings
from benchmark.report.latex import latex
from benchmark.report.page import page
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


@pytest.mark.parametrize("name", ["ct:steps=320", "moco-reorder", "sbert-flow", "ct-st", "simcse:learning_rate=3e-5"])
def test_settings_of_today_are_not_marked(name: str) -> None:
    assert changed_settings(recorded(name)["method"]) == []


def test_a_label_is_looked_up_by_its_recipe() -> None:
    record = recorded("moco-reorder", augment=["reorder:0.2"])
    record["method"] |= {"name": "ours", "recipe_name": "moco-reorder"}
    assert changed_settings(record["method"]) == ["augment"]
    record["method"] |= {"name": "moco-reorder", "recipe_name": "a plugin's"}
    assert changed_settings(record["method"]) == []


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
