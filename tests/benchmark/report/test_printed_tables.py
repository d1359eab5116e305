"""Tables as they are printed: columns, the terminal, conditions."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest
from fakes import Cli, make_record
from page_fakes import SEVEN, data_of, method_records
from test_leaderboard import complete, table_of

from benchmark.records.folder import Records
from benchmark.records.record import MethodPart
from benchmark.report.columns import COLUMNS, Column, columns_of
from benchmark.report.conditions import changed_settings, recipe_of_method
from benchmark.report.latex import latex
from benchmark.report.leaderboard import make_leaderboard, suites_of
from benchmark.report.page import page
from benchmark.report.rows import About, score_text, signed
from benchmark.report.show import frame_of, print_table
from benchmark.report.signature import conditions_of
from benchmark.report.table import build_tables
from benchmark.report.terminal import Field, fitted, folded
from benchmark.report.write import markdown
from benchmark.tasks.suites import suite
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

# The columns of a leaderboard: one list for all outputs, and a choice of them.


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


# A table in a terminal: as wide as it, with whole numbers, the mean and the file's path, in the characters it has.


@pytest.mark.parametrize("name", ["sts", "pocket"])
@pytest.mark.parametrize("width", [80, 120])
def test_a_table_fits_the_terminal(
    name: str, width: int, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is longer, each row is a line with its mean, and the file that has the rest is named."""
    store, names = Records(tmp_path), ("simcse", "ptbert", "promptbert-sup-roberta")
    for record in (one for row in names for one in complete(row, range(3), suite(name).tasks)):
        store.write(record)
    monkeypatch.setenv("COLUMNS", str(width))
    answer = cli("leaderboard", "--results", tmp_path, "--suite", name)
    table = table_of(store.all(), name)
    lines = answer.out.splitlines()
    assert all(len(line) <= width for line in lines if " " in line.strip())
    for row in table.rows:
        (line,) = (one for one in lines if row.average.text() in one)
        assert f"{row.rank}  {row.name[:8]}" in line
    assert str(tmp_path / f"{name}.md") in answer.out
    fits = name == "pocket" and width == 120
    assert ("Not shown at this width, but in the files: the spread over seeds of each task" in answer.out) != fits


@pytest.mark.parametrize("names", [("simcse", "ptbert"), ("promptbert-sup-roberta", "cls", "whitening-target")])
def test_a_mean_of_some_tasks_gives_way_where_all_tasks_of_the_average_then_stand_beside_it(
    names: Sequence[str],
) -> None:
    """From wide to narrow: all columns, then all tasks and the average, then fewer tasks beside the means."""
    table = table_of([record for name in names for record in complete(name, range(3))])
    seen: list[tuple[str, ...]] = []
    for width in range(140, 55, -1):
        stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        print_table(table, stream, width=width)
        stream.seek(0)
        heads = next(line for line in stream if "Method" in line).split()
        assert "Avg." in heads
        seen.append(tuple(name for name in (*suite("sts").tasks, *suite("sts").means) if name not in heads))
    assert list(dict.fromkeys(seen))[:4] == [(), ("STS12-16",), ("STS15", "STS16"), ("STS14", "STS15", "STS16")]


def test_a_terminal_without_utf8_gets_ascii() -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="ascii", write_through=True)
    table = table_of(complete("méthode", range(3)))
    table.rows[0].mark = "≈"
    print_table(table, stream)
    text = written.getvalue().decode("ascii")
    assert "+-" in text and re.search(r"^1  m\?thode .*  ~$", text, re.MULTILINE)


@pytest.mark.parametrize("width", [30, 80, 100, 160])
def test_the_least_important_columns_go_first_and_names_keep_both_ends(width: int) -> None:
    """What is left out is named; a name that is cut stays another one than its neighbours."""
    names = [f"sentence-transformers/all-MiniLM-L6-v2 dims={dims}" for dims in (64, 128, 384)]
    columns = [
        ("score [95 %]", ["71.2 [70.1, 72.3]"] * 3),
        ("ms", ["7.1"] * 3),
        *((f"c{i}", ["1" * 9] * 3) for i in range(9)),
    ]
    fields = [Field("", names, right=False, name=True)]
    fields += [Field(head, cells, priority=place) for place, (head, cells) in enumerate(columns)]
    lines, left_out = fitted(fields, width)
    assert all(len(line) <= width for line in lines)
    heads = [head for head, _ in columns]
    assert left_out == heads[len(heads) - len(left_out) :]
    assert len({line.partition("71.2 [70.1, 72.3]")[0] for line in lines[2:]}) == len(names)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_prose_is_broken_at_blanks_alone(width: int) -> None:
    """Words stay whole, what continues a line begins where it does, and a pipe gets each line as it is."""
    text = "  differs: simcse on STS-B: 64.44 is recorded, and 64.45 when its pairs are encoded again; " * 2
    lines = folded([text], width)
    assert len(lines) > 1 and all(len(line) <= width and line.startswith("  ") for line in lines)
    assert " ".join(lines).split() == text.split()
    assert folded([text], None) == [text]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_last_column_is_broken_beside_the_others_or_below_them(width: int) -> None:
    licence = "not stated; commonly taken to be for research alone, as its authors answered"
    fields = [Field("SET", ["MPQA"], right=False), Field("ROWS", ["train 4,076, test 1,725, dev 500"], right=False)]
    lines, left_out = fitted([*fields, Field("LICENCE", [licence], right=False, prose=True)], width, rule=False)
    assert not left_out and all(len(line) <= width for line in lines)
    assert " ".join(" ".join(lines).split()).endswith(licence) or width > 60
    assert licence.split()[-1] in lines[-1]


@pytest.mark.parametrize(
    ("value", "score", "gap"), [(-0.004, "0.00", "0.00"), (0.004, "0.00", "+0.00"), (-0.006, "-0.01", "-0.01")]
)
def test_a_zero_has_no_minus(value: float, score: str, gap: str) -> None:
    assert score_text(value) == score and signed(value) == gap
    assert signed(value, 1) == ("+0.0" if value > 0 else "0.0")


# Conditions of rows: what a record's recipe was, beside what its name says today.


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
