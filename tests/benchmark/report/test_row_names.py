"""Two rows of one method that differ in a single condition have two names, in every output and for every command."""

from __future__ import annotations

import copy
import csv
import io
import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from fakes import failed, hexes, make_record
from page_fakes import data_of, training

from benchmark.records.query import row_named
from benchmark.report.conditions import described
from benchmark.report.latex import latex
from benchmark.report.page import page
from benchmark.report.rows import Row
from benchmark.report.show import text_of
from benchmark.report.table import build_tables
from benchmark.report.write import csv as csv_of
from benchmark.report.write import markdown
from benchmark.tasks.suites import Suite, suite

BASE = make_record("simcse", "pocket-pairs", 0, training=training({"250": 50.0}))
BASE["training"]["corpus"]["name"] = "own.txt"


def change(*path: str, to: Any) -> Callable[[Any], None]:
    def apply(record: Any) -> None:
        part = record
        for step in path[:-1]:
            part = part[step]
        part[path[-1]] = to

    return apply


# Every condition on which a row's key depends and a record states.
CONDITIONS: dict[str, Callable[[Any], None]] = {
    "weights of one name": change("method", "sources", "backbone", "sha256", to=hexes("other")),
    "backbone": change("method", "sources", "backbone", "name", to="runB/final"),
    "revision": change("method", "sources", "backbone", "revision", to="9f8e7d6c5b4a"),
    "precision": change("precision", to="bf16"),
    "text": change("training", "corpus", "name", to="books"),
    "text of one name and size": change("training", "corpus", "sha256", to="1" * 64),
    "size of the text": change("training", "corpus", "sentences", to=512),
    "development pairs": change("training", "dev_task", to="stsb-dev-disjoint"),
    "a setting": change("method", "recipe", "width", to=65),
    "version of the method, in the key alone": lambda record: None,
}


def changed(*names: str) -> Any:
    record = copy.deepcopy(BASE)
    for name in names:
        CONDITIONS[name](record)
    record["row_key"] = hexes("row", *names)
    record["encoder_key"], record["key"] = hexes("encoder", *names), hexes("key", *names)
    return record


PAIRS = [((name,), ()) for name in CONDITIONS] + [((a, b), (a,)) for a, b in combinations(CONDITIONS, 2)]


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=str)
def test_a_single_condition_tells_two_rows_apart(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    records = [changed(*first), changed(*second)]
    (table,) = build_tables(records, [suite("pocket")])
    names = [row.name for row in table.rows]
    assert len(set(names)) == 2 and all(name.startswith("simcse [") for name in names)
    for row in table.rows:
        assert row_named(records, row.name, Path("results"))[0]["row_key"] == row.row_key
    lines = {
        "md": [line for line in markdown(table).splitlines() if re.match(r"\| \d+ \| simcse ", line)],
        "tex": [line for line in latex(table).splitlines() if line.startswith("SimCSE")],
        "terminal": [line for line in text_of([table]).splitlines() if re.match(r"\s*\d\s+simcse ", line)],
        "csv": [row["method"] for row in csv.DictReader(io.StringIO(csv_of(table)))],
        "html": [row["method"] for row in data_of(page([table]))["tables"][0]["rows"]],
    }
    for form, of_rows in lines.items():
        assert len(of_rows) == 2 and len(set(of_rows)) == 2, (form, of_rows)


@pytest.mark.parametrize("name", [name for name in CONDITIONS if "setting" not in name and "version" not in name])
def test_conditions_say_which_row_is_which(name: str) -> None:
    (table,) = build_tables([changed(name), changed()], [suite("pocket")])
    assert len({described(row) for row in table.rows}) == 2


def test_rows_of_several_names_keep_them() -> None:
    other = make_record("cls", "pocket-pairs")
    (table,) = build_tables([changed(), changed("precision"), other], [suite("pocket")])
    assert {row.name for row in table.rows} == {"simcse [fp32]", "simcse [bf16]", "cls"}


PAIR = Suite(name="two", title="Two", tasks=("MEN", "RG-65"), columns=("MEN", "RG-65"), dev="", corpus="")


def rows_of(*records: Any) -> list[Row]:
    (table,) = build_tables(records, [PAIR])
    return table.rows


def measured(name: str, main: float, row: str = "row", version: int = 1) -> list[Any]:
    records = [make_record(name, task, main=main, row=row) for task in PAIR.tasks]
    for record in records:
        record["method"]["version"] = version
    return records


def test_equal_averages_share_a_rank() -> None:
    rows = rows_of(*measured("a", 0.5), *measured("b", 0.5), *measured("c", 0.4))
    assert [row.rank for row in rows] == [1, 1, 3]


def test_a_row_without_a_score_gives_way_to_one_of_its_name_that_has_some() -> None:
    lost = [failed(record, "weights are missing") for record in measured("a", 0.5, "lost")]
    assert [row.row_key for row in rows_of(*measured("a", 0.5, "kept"), *lost)] == [
        measured("a", 0, "kept")[0]["row_key"]
    ]
    assert [row.name for row in rows_of(*measured("b", 0.5), *lost)] == ["b", "a"]


def test_of_two_versions_of_a_method_the_older_row_is_left_out() -> None:
    rows = rows_of(*measured("a", 0.5, "old", 1), *measured("a", 0.6, "new", 2))
    assert [row.average.mean for row in rows] == [60]
