"""The columns of a leaderboard: one list for all outputs, and a choice of them."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from fakes import Cli, make_record
from page_fakes import SEVEN, data_of, method_records

from benchmark.records.folder import Records
from benchmark.report.columns import COLUMNS, Column, columns_of
from benchmark.report.leaderboard import make_leaderboard
from benchmark.report.rows import About
from benchmark.report.show import frame_of
from benchmark.report.table import build_tables
from benchmark.tasks.suites import suite


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two rows, one with three seeds, and the code that measured each."""
    for record in [*method_records("alpha", 0.4, range(3)), *method_records("beta", 0.6)]:
        record["code"] = {"digest": f"{record['method']['name']:0<64}"}
        record["encoding"] = {"texts_per_second": 1234.0}
        Records(tmp_path / "results").write(record)
    return tmp_path / "results"


def heads(text: str) -> list[str]:
    """The heads of the first Markdown table."""
    line = next(line for line in text.splitlines() if line.startswith("| "))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_columns_are_chosen_and_ordered_in_every_output(results: Path, cli: Cli) -> None:
    """Names and heads in any spelling; the rank, the method and its conditions stay, and JSON has everything."""
    answer = cli("leaderboard", "--results", results, "--columns", "STS-B,texts per second", "--columns", "Avg.")
    assert answer.code == 0, answer.err
    wanted = ["STS-B", "Texts/s", "Avg."]
    assert heads((results / "sts.md").read_text(encoding="utf-8")) == ["#", "Method", *wanted, "Conditions"]
    with (results / "sts.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    spread = [f"{name}{end}" for name in ("STS-B", "Avg") for end in ("", " sd", " min", " max")]
    named = [*spread[:4], "texts_per_second", *spread[4:]]
    assert list(lines[0]) == ["rank", "method", "backbone", *named, "conditions"]
    assert lines[0]["texts_per_second"] == "1234.0000"
    latex = (results / "sts.tex").read_text(encoding="utf-8")
    assert "Method & STS-B & Texts/s & Avg. \\\\" in latex and "1,234" in latex
    assert re.search(r"#\s+Method\s+STS-B\s+Texts/s\s+Avg\. *\n", answer.out)
    (table,) = data_of((results / "index.html").read_text(encoding="utf-8"))["tables"]
    assert [column["title"] for column in table["columns"]] == ["#", "Method", "Condition", "Backbone", *wanted]
    assert set(table["rows"][0]["scores"]) == set(SEVEN)


def test_scores_stand_for_all_tasks_and_their_means(results: Path) -> None:
    (table,) = build_tables(Records(results).all(), [suite("sts")])
    table.chosen = ("average", "scores")
    assert [column.name for column in columns_of(table, "latex")] == ["method", "average", *SEVEN, *table.suite.means]
    heads = [head for head in frame_of([table]).columns if not head.endswith(" sd")]
    assert heads == ["Avg.", *SEVEN, *table.suite.means, "Conditions"]


def test_the_page_reads_the_json(results: Path, cli: Cli) -> None:
    """What `leaderboard --json` prints is in the file, and on the page, less what is empty or not drawn there."""
    (printed,) = json.loads(cli("leaderboard", "--results", results, "--json").out)["tables"]
    assert json.loads((results / "sts.json").read_text(encoding="utf-8")) == printed
    (drawn,) = data_of((results / "index.html").read_text(encoding="utf-8"))["tables"]
    assert {name for name in printed if printed[name] != drawn[name]} == {"rows"}
    for row, full in zip(drawn["rows"], printed["rows"], strict=True):
        assert set(row) <= set(full)
        for name, value in row.items():
            if name in ("scores", "means"):
                cells = [(cell, full[name][task]) for task, cell in value.items()]
                assert all(cell.items() <= given.items() for cell, given in cells if "by_seed" not in cell)
            elif name not in ("average", "published"):
                assert value == full[name]
        unread = {column.key for column in COLUMNS if not {"page", "details"} & set(column.outputs)}
        assert {name for name in set(full) - set(row) if full[name]} <= unread


def test_every_condition_and_cost_has_a_column() -> None:
    """Those of `About` are all in JSON, and all but the lines of environments in CSV."""
    columns = {column.name: column for column in COLUMNS}
    assert set(About.__annotations__) <= set(columns)
    assert {name for name in About.__annotations__ if "csv" not in columns[name].outputs} == {"environments"}
    assert {one.name for one in fields(Column)} >= {"name", "value", "title", "format", "outputs"}


def test_no_cost_and_no_record_of_it_differ() -> None:
    """–: nothing was trained; n/a: the time is not known."""
    (table,) = build_tables([make_record("m", task) for task in SEVEN], [suite("sts")])
    (row,) = table.rows
    texts = {column.name: column.text(row) for column in COLUMNS}
    assert (texts["train_seconds"], texts["adapt_seconds"], texts["lowest"]) == ("–", "–", "")
    row.about["corpus"] = "wiki"
    assert next(column for column in COLUMNS if column.name == "train_seconds").text(row) == "n/a"


def test_the_lowest_and_the_highest_seed_stand_under_their_names(tmp_path: Path) -> None:
    """Of 50, 53 and 59: the mean is 54, and the deviations -4, -1 and 5 have the root of 42 / 2."""
    for seed, score in enumerate((0.53, 0.59, 0.5)):
        Records(tmp_path).write(make_record("m", "STS-B", seed, main=score))
    (line,) = csv.DictReader(io.StringIO(make_leaderboard(tmp_path).files["sts.csv"]))
    assert [line[f"STS-B{end}"] for end in ("", " sd", " min", " max")] == ["54.0000", "4.5826", "50.0000", "59.0000"]
