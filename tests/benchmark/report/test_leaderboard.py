"""The tables: right means and spreads, nothing averaged that differs, nothing hidden, readable anywhere."""

from __future__ import annotations

import csv
import io
import itertools
import json
import zlib
from typing import Any

import numpy as np
import pytest
from fakes import failed, hexes, make_record

from benchmark.records.names import brackets_of
from benchmark.report.conditions import conditions as markdown_conditions
from benchmark.report.rows import Table, score_text
from benchmark.report.table import build_tables
from benchmark.report.write import as_dict, markdown, table_files
from benchmark.tasks.suites import suite

SEVEN = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")


def complete(name: str, seeds: Any = (None,), tasks: tuple[str, ...] = SEVEN, **changes: Any) -> list[Any]:
    """Records of all tasks and seeds with scores that are random but fixed by the name."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    pairs = itertools.product(seeds, tasks)
    return [make_record(name, task, seed, main=float(generator.uniform(0.3, 0.9)), **changes) for seed, task in pairs]


def table_of(records: list[Any], name: str = "sts") -> Table:
    (table,) = build_tables(records, [suite(name)])
    return table


def score_matrix(records: list[Any], seeds: Any) -> np.ndarray:
    by_cell = {(r["seed"], r["task"]["name"]): 100 * r["scores"]["main"] for r in records}
    return np.array([[by_cell[seed, task] for task in SEVEN] for seed in seeds])


def test_mean_and_sample_deviation_over_seeds() -> None:
    """Against numpy: per task over seeds, and the average's spread over the per-seed averages."""
    records = complete("m", range(5))
    (row,) = table_of(records).rows
    expected = score_matrix(records, range(5))
    for column, task in enumerate(SEVEN):
        value = row.values[task]
        assert value.mean == pytest.approx(expected[:, column].mean(), abs=1e-9)
        assert value.sd == pytest.approx(expected[:, column].std(ddof=1), abs=1e-9)
        assert value.seeds == 5
    assert row.average.mean == pytest.approx(expected.mean(), abs=1e-9)
    assert row.average.sd == pytest.approx(expected.mean(axis=1).std(ddof=1), abs=1e-9)
    assert row.values["STS12"].text() == f"{expected[:, 0].mean():.2f} ± {expected[:, 0].std(ddof=1):.2f}"


def test_one_seed_has_no_spread() -> None:
    """A single value is printed bare: a spread of 0 would be a lie."""
    for seed in (None, 0):
        (row,) = table_of(complete("m", [seed])).rows
        assert row.values["STS12"].sd is None
        assert row.average.sd is None
        assert "±" not in row.average.text()


def test_an_incomplete_row_has_no_mean_and_no_rank() -> None:
    """ "n of 7 tasks", last, unranked, with the reason of each gap."""
    half = complete("half", tasks=SEVEN[:5])
    half += [failed(make_record("half", "STS-B"), "no data for STS-B here", "n/a")]
    low = [{**record, "scores": {**record["scores"], "main": 0.01}} for record in complete("low")]
    table = table_of(half + low)
    assert [row.name for row in table.rows] == ["low", "half"]
    assert [row.rank for row in table.rows] == [1, None]
    row = table.rows[1]
    assert (row.average.mean, row.average.reason) == (None, "5 of 7 tasks")
    text = markdown(table)
    assert "n/a (5 of 7 tasks)" in text
    assert "STS-B: no data for STS-B here" in text
    assert "SICK-R: not run" in text
    written = next(r for r in as_dict(table)["rows"] if r["method"] == "half")
    assert written["scores"]["SICK-R"]["mean"] is None
    assert written["scores"]["STS-B"]["reason"] == "no data for STS-B here"
    line = list(csv.DictReader(io.StringIO(table_files(table)["sts.csv"], newline="")))[1]
    assert (line["rank"], line["SICK-R"], line["Avg"]) == ("", "", "") and float(line["STS12"]) > 0


def test_a_missing_seed_of_one_task_is_no_mean() -> None:
    """Two of three seeds are not three."""
    records = complete("m", range(3))
    broken = next(i for i, r in enumerate(records) if (r["seed"], r["task"]["name"]) == (1, "STS14"))
    records[broken] = failed(records[broken], "the loss is nan")
    (row,) = table_of(records).rows
    assert row.values["STS14"].mean is None
    assert row.values["STS14"].reason == "2 of 3 seeds; the loss is nan"
    assert row.average.reason == "6 of 7 tasks"
    assert row.values["STS12"].mean == pytest.approx(
        np.mean([100 * r["scores"]["main"] for r in records if r["task"]["name"] == "STS12"])
    )


@pytest.mark.parametrize(
    "other",
    [{"precision": "bf16"}, {"protocol": 2}, {"training": {"corpus": {"name": "books", "sentences": 5}}}],
    ids=["precision", "protocol", "corpus"],
)
def test_other_conditions_are_other_rows(other: dict[str, Any]) -> None:
    """Never averaged, and every one of the rows that share a name carries a mark of its own."""
    first = [{**r, "scores": {**r["scores"], "main": 0.4}} for r in complete("m")]
    second = [{**r, "scores": {**r["scores"], "main": 0.6}} for r in complete("m", row="other", **other)]
    table = table_of(first + second)
    assert [row.average.mean for row in table.rows] == [pytest.approx(60), pytest.approx(40)]
    parts = brackets_of({"second": second[0], "first": first[0]})
    assert [row.name for row in table.rows] == [f"m [{parts['second']}]", f"m [{parts['first']}]"]


def test_controls_supervised_and_transductive_rows_say_so() -> None:
    """What a row is may not be guessed from its name: control comes from its recipe, the others from the record."""
    pairs = {"corpus": {"name": "nli", "pairs": 4321}}
    records = complete("random:dim=64", range(2)) + complete("m")
    records += complete("sup", training=pairs) + complete("labels-unread", training=pairs) + complete("on-test")
    for record in records:
        method = record["method"]
        method["traits"]["needs_pairs"] = method["name"] in ("sup", "labels-unread")
        method["traits"]["transductive"] = method["name"] == "on-test"
        method["traits"]["ignores_labels"] = method["name"] == "labels-unread"
    rows = {row["method"]: row for row in as_dict(table_of(records))["rows"]}
    assert [name for name, row in rows.items() if row["control"]] == ["random:dim=64"]
    assert rows["random:dim=64"]["control"] == "control"
    conditions = {row.name: markdown_conditions(row) for row in table_of(records).rows}
    assert conditions["random:dim=64"].startswith("control, ") and "control" not in conditions["m"]
    assert "supervised: 4,321 labelled pairs of nli" in conditions["sup"]
    assert "4,321 labelled pairs" in conditions["labels-unread"] and "supervised" not in conditions["labels-unread"]
    assert "transductive: fitted on the test texts" in conditions["on-test"]
    assert {name for name, row in rows.items() if row["supervised"]} == {"sup"}


def test_the_untrained_backbone_is_a_control_of_its_own_kind() -> None:
    """Plainly pooled states; what takes them further is a method. A table without controls says so."""
    records = complete("avg-last") + complete("avg:layers=top2") + complete("prompt")
    for record in records:
        record["method"]["traits"]["untrained"] = record["method"]["name"] != "prompt"
    rows = {row["method"]: row["control"] for row in as_dict(table_of(records))["rows"]}
    assert rows == {"avg-last": "untrained backbone", "avg:layers=top2": "untrained backbone", "prompt": ""}
    assert "untrained backbone, tiny" in markdown(table_of(records))
    missing = "controls that other rows are measured against are not here"
    assert missing in markdown(table_of(records)) and missing in markdown(table_of(complete("m")))
    for control in ("random", "bag-of-words:lower_case=false"):
        assert missing not in markdown(table_of(records + complete(control)))


def test_cost_stands_beside_quality_in_every_file() -> None:
    """Training time is the mean of the seeds, memory the most of training and measuring; what is unknown is n/a."""
    records = complete("learned", range(2)) + complete("plain")
    for record in records:
        if record["method"]["name"] == "learned":
            seconds, speed = (1000.0, 50.0) if record["seed"] else (3000.0, 30.0)
            memory = {"peak_memory_mb": 900.0, "peak_from_mb": 300.0}
            corpus = {"name": "wiki", "sentences": 10}
            record["training"] = {"seconds": seconds, "sentences_per_second": speed, "corpus": corpus, **memory}
            memory = {"peak_memory_mb": 1000.0 + record["seed"], "peak_from_mb": 300.0}
            record["encoding"] = {"texts_per_second": 812.5, **memory}
            record["facts"] = {"dimensions": 768, "parameters": 109_482_240}
    files = table_files(table_of(records))
    rows = {row["method"]: row for row in json.loads(files["sts.json"])["rows"]}
    lines = {line["method"]: line for line in csv.DictReader(io.StringIO(files["sts.csv"], newline=""))}
    wanted = {
        "train_seconds": 2000,
        "train_sentences_per_second": 40,
        "texts_per_second": 812.5,
        "parameters": 109_482_240,
        "dimensions": 768,
        "peak_memory_mb": 1001,
    }
    for name, value in wanted.items():
        assert rows["learned"][name] == float(lines["learned"][name]) == value
        assert (rows["plain"][name], lines["plain"][name]) == (None, "")
    assert rows["plain"]["device"] == lines["plain"]["device"] == "a cpu, 2 threads"
    text = files["sts.md"]
    assert "| learned | 2,000 | 40 | 812 | 109,482,240 | 768 | 1,001 | a cpu, 2 threads |" in text
    assert "| plain | – | – | n/a | n/a | n/a | n/a | a cpu, 2 threads |" in text
    nowhere = [{**record, "status": "n/a", "reason": "none", "scores": None} for record in complete("nowhere")]
    scores, _, cost = markdown(table_of(records + nowhere)).partition("## Cost")
    assert "| nowhere | n/a |" in scores and "| nowhere |" not in cost  # nothing was measured


def test_memory_of_the_whole_process_is_not_a_row_s() -> None:
    """Records that do not say from where the count began (another encoder's memory, perhaps) give no number."""
    records = complete("m")
    for record in records:
        record["encoding"] = {"peak_memory_mb": 5975.1}
    assert table_of(records).rows[0].about["peak_memory_mb"] is None
    assert "Peak MB" not in markdown(table_of(records))
    for record in records:
        record["encoding"]["peak_from_mb"] = 310.0
    assert table_of(records).rows[0].about["peak_memory_mb"] == 5975.1
    assert "| 5,975 |" in markdown(table_of(records))


def test_fits_to_the_texts_of_a_task_have_a_cost() -> None:
    """The mean time of a task's fit; without it in the records n/a, and never the dash of what costs nothing."""
    records = complete("on-test", range(2)) + complete("m")
    for record in records:
        record["method"]["traits"]["transductive"] = record["method"]["name"] == "on-test"
        if record["method"]["name"] == "on-test":
            record["adapt"] = {"seconds": 10.0 + record["seed"], "texts": 100, "rank": None}
            record["encoding"] = {"texts_per_second": 100.0}
    text = markdown(table_of(records)).partition("## Cost")[2]
    assert "| Method | Fit per task, s | Texts/s | Device |" in text
    assert "| on-test | 10 | 100 |" in text and "| m | – | n/a |" in text
    for record in records:
        record.pop("adapt", None)
    text = markdown(table_of(records)).partition("## Cost")[2]
    assert "| on-test | n/a | 100 |" in text and "| m | – | n/a |" in text


def test_a_conflict_of_data_is_shown_and_not_averaged() -> None:
    """The same row with two different data files has no value for that task."""
    records = complete("m", range(2))
    for record in records:
        if record["seed"] == 1 and record["task"]["name"] == "STS13":
            record["task"]["sha256"] = hexes("another file")
    (row,) = table_of(records).rows
    assert row.values["STS13"].mean is None
    assert "conflict" in str(row.values["STS13"].reason)
    assert row.average.mean is None
    assert "conflict" in markdown(table_of(records))


def trained_on(overlaps: dict[str, list[str]], seeds: Any = (0,)) -> list[Any]:
    """Records whose training text has these test texts (digests by task)."""
    records = complete("m", seeds)
    for record in records:
        corpus = {"name": "wiki", "sentences": 100, "sha256": hexes("wiki")}
        digests = overlaps.get(record["task"]["name"])
        overlap = {} if digests is None else {"overlap": {"texts": 50, "digests": digests}}
        record["training"] = {"corpus": corpus, **overlap}
    return records


def test_overlap_is_the_union_of_the_test_texts() -> None:
    """A test text of two tasks counts once, whatever the seeds."""
    overlaps = {task: [] for task in SEVEN} | {"STS12": ["aa", "bb"], "STS-B": ["bb", "cc"]}
    for seeds in ([0], range(5)):
        text = markdown(table_of(trained_on(overlaps, seeds)))
        assert "⚠ 3 test texts are in the training text" in text
    assert "⚠ 1 test text is in" in markdown(table_of(trained_on({**overlaps, "STS12": ["cc"], "STS-B": ["cc"]})))
    assert "⚠" not in markdown(table_of(trained_on({task: [] for task in SEVEN})))


def test_a_cell_that_failed_hides_no_overlap() -> None:
    """The other seeds say it; where no record says, it is unknown and not 0."""
    records = trained_on({task: ["aa"] for task in SEVEN}, seeds=range(2))
    broken = next(i for i, r in enumerate(records) if (r["seed"], r["task"]["name"]) == (1, "STS14"))
    records[broken] = failed({**records[broken], "training": None}, "the loss is nan")
    assert table_of(records).rows[0].about["test_texts_in_training"] == 1
    assert table_of(trained_on({})).rows[0].about["test_texts_in_training"] is None


def with_subsets(name: str) -> list[Any]:
    """Records of tasks with two subsets, whose three aggregations differ."""
    records = complete(name)
    for i, record in enumerate(records):
        scores = record["scores"]
        scores |= {"all": {"spearman": scores["main"]}, "mean": {"spearman": 0.1 * i}, "wmean": {"spearman": 0.2}}
        scores["subsets"] = {"a": {"n": 3}, "b": {"n": 5}} if record["task"]["name"] in SEVEN[:5] else {"a": {"n": 9}}
    return records


def test_other_aggregations_are_tables_of_their_own() -> None:
    """Tasks without subsets keep their score; the name, the title and the note say which aggregation it is."""
    records = with_subsets("m")
    main = {r["task"]["name"]: 100 * r["scores"]["main"] for r in records}
    wanted = {"mean": [0, 10, 20, 30, 40], "wmean": [20] * 5}
    for aggregation in ("mean", "wmean"):
        (table,) = build_tables(records, [suite("sts")], aggregation=aggregation)
        (row,) = table.rows
        got = [row.values[task].mean for task in SEVEN]
        assert got == pytest.approx([*wanted[aggregation], main["STS-B"], main["SICK-R"]])
        assert row.average.mean == pytest.approx(np.mean(got))
        assert table.suite.name == f"sts-{aggregation}"
        assert f"`{aggregation}` aggregation" in table.suite.note and "`all`" not in table.suite.note
    records[2]["scores"]["mean"]["spearman"] = None
    (table,) = build_tables(records, [suite("sts")], aggregation="mean")
    assert table.rows[0].values["STS14"].reason == "a subset has no correlation"
    (plain,) = build_tables(complete("m"), [suite("sts")], aggregation="mean")
    assert plain.suite.name == "sts"  # nothing has subsets


def test_the_mean_of_some_tasks_is_a_column_of_its_own() -> None:
    """STS12-16 of BURT's table 4: the mean of five tasks per seed, in every file; n/a where one of them is missing."""
    records = complete("m", range(3))
    files = table_files(table_of(records))
    expected = score_matrix(records, range(3))[:, :5].mean(axis=1)
    (row,) = json.loads(files["sts.json"])["rows"]
    value = row["means"]["STS12-16"]
    assert [value[key] for key in ("mean", "sd", "min", "max")] == pytest.approx(
        [expected.mean(), expected.std(ddof=1), expected.min(), expected.max()]
    )
    assert "| SICK-R | STS12-16 | Avg. |" in files["sts.md"]
    (line,) = csv.DictReader(io.StringIO(files["sts.csv"], newline=""))
    assert float(line["STS12-16"]) == pytest.approx(expected.mean(), abs=5e-5)
    missing = [r for r in records if r["task"]["name"] != "STS16"]
    rows = table_of(missing + complete("whole")).rows
    assert [row.means["STS12-16"].reason for row in rows if row.name == "m"] == ["4 of 5 tasks"]


def test_a_part_of_a_suite_has_its_own_mean() -> None:
    """Three of seven tasks: their columns, and their mean, named as such, with ranks; no column of what was not run."""
    some = ("STS16", "STS-B", "SICK-R")
    records = [r for name in ("a", "b") for r in complete(name, range(2)) if r["task"]["name"] in some]
    table = table_of(records)
    files = table_files(table)
    assert "| STS16 | STS-B | SICK-R | Avg. of STS16, STS-B, SICK-R |" in files["sts.md"]
    assert [row.rank for row in table.rows][:1] == [1] and all(row.rank for row in table.rows)
    mean = np.mean([100 * r["scores"]["main"] for r in records if r["method"]["name"] == "a"])
    line = {row["method"]: row for row in csv.DictReader(io.StringIO(files["sts.csv"], newline=""))}["a"]
    assert float(line["Avg. of STS16, STS-B, SICK-R"]) == pytest.approx(mean, abs=5e-5)
    assert not {"Avg", "STS12", "STS12-16"} & line.keys()


def test_rows_of_equal_scores_are_named_in_the_order_of_their_settings() -> None:
    """Numbers sort by value; a row that differs on one task is not among them."""
    rows = ["sif:a=0.1", "sif:a=0.001", "sif:a=0.01"]
    records = [make_record(name, task, main=0.5) for name in rows for task in SEVEN]
    records += [make_record("sif:a=1", task, main=0.5 + (task == SEVEN[0]) / 100) for task in SEVEN]
    table = table_of(records)
    assert [row.name for row in table.rows if row.name != "sif:a=1"] == sorted(rows, key=lambda name: float(name[6:]))
    assert table.legends[-1].endswith("changed nothing: sif:a=0.001, sif:a=0.01, sif:a=0.1.")


@pytest.mark.parametrize(
    ("name", "tasks", "note"),
    [
        ("pocket", {"pocket-words"}, "Words: Spearman x100 of cosine."),
        ("sts", {"STS12"}, "Spearman x100 of cosine, `all` aggregation (subsets concatenated), unsupervised."),
        ("phrases", {"Turney"}, "Turney: accuracy x100, five choices. The average is over unlike measures."),
    ],
)
def test_the_note_of_a_part_of_a_suite_names_its_columns_alone(name: str, tasks: set[str], note: str) -> None:
    assert suite(name).narrowed(tasks).note == note


def test_a_table_without_a_score_is_not_made() -> None:
    """All of its cells are n/a: there is nothing to show."""
    assert build_tables([failed(make_record("m", "STS12"), "no data here", "n/a")], [suite("sts")]) == []


def test_least_and_largest_seed_stand_beside_the_mean() -> None:
    """As in PromptBERT's table 10; a table whose rows have one seed each has no such columns."""
    records = complete("m", range(4)) + complete("one")
    averages = score_matrix(complete("m", range(4)), range(4)).mean(axis=1)
    text = markdown(table_of(records))
    assert "| Avg. | Min. | Max. | Conditions |" in text
    (line,) = (line for line in text.splitlines() if "| m |" in line and "4 seeds" in line)
    assert f"| {averages.min():.2f} | {averages.max():.2f} |" in line
    (alone,) = (line for line in text.splitlines() if "| one |" in line and "tiny" in line)
    assert " |  |  | tiny" in alone
    assert "Min." not in markdown(table_of(complete("one")))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (55.145, "55.15"),
        (55.14499999999999, "55.15"),
        (55.1449, "55.14"),
        (-0.125, "-0.13"),
        (0.0, "0.00"),
        (7, "7.00"),
    ],
)
def test_a_half_goes_up_whatever_the_last_bits(number: float, text: str) -> None:
    """Sums in another order differ in the sixteenth digit, and must not differ in the second."""
    assert score_text(number) == text


def test_the_device_is_that_of_what_was_measured() -> None:
    """A first attempt elsewhere, without a score, says nothing of the numbers; nor do vectors of the cache of speed."""
    records = complete("m", range(3))
    elsewhere = {**records[0]["environment"], "cpu": "another cpu"}
    attempt = failed(make_record("m", "STS12", 0, data_sha256="0" * 64, environment=elsewhere), "no data", "n/a")
    attempt["started"] = "2026-01-01T00:00:00Z"
    for record in records:
        record["encoding"] = {"texts_per_second": (None, 400.0, 600.0)[record["seed"]]}
    (row,) = table_of([attempt, *records]).rows
    assert (row.about["device"], row.about["texts_per_second"]) == ("a cpu, 2 threads", 500.0)


def test_trial_records_have_a_table_of_their_own() -> None:
    """--limit never stands beside full data, nor one limit beside another."""
    full, trial, smaller = complete("m"), complete("m", row="trial", limit=50), complete("m", row="less", limit=20)
    tables = build_tables(full + trial + smaller, [suite("sts")])
    limits = [(one.limit, one.partial, len(one.rows)) for one in tables]
    assert limits == [(None, False, 1), (50, True, 1), (20, True, 1)]
    files = {name: text for table in tables for name, text in table_files(table).items()}
    assert {name for name in files if name.endswith(".md")} == {"sts.md", "sts-trial.md", "sts-trial-20.md"}
    assert "TRIAL" in files["sts-trial.md"] and "TRIAL" not in files["sts.md"]
    assert json.loads(files["sts-trial.json"])["trial"] is True
