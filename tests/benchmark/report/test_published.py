"""Published values: every one kept, compared within one protocol and backbone only, with the reason elsewhere."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes import failed, make_record

from benchmark.records.names import recipe_of, typed_recipe
from benchmark.report.published import (
    AVERAGE,
    BesidePublished,
    beside_published,
    published,
)
from benchmark.report.table import build_tables
from benchmark.report.write import as_dict, published_markdown, table_files
from benchmark.tasks import TASKS
from benchmark.tasks.suites import all_suites, suite
from zoo.recipes import all_recipes

ROOT = Path(__file__).parents[3]
FILE = ROOT / "leaderboards" / "published.yaml"
REFERENCE = ROOT.parent / "shared" / "reference" / "published.yaml"
BERT = "google-bert/bert-base-uncased"


@pytest.fixture(scope="module")
def reference() -> Any:
    if not REFERENCE.is_file():
        pytest.skip(f"the reference numbers are not at {REFERENCE}")
    return yaml.safe_load(REFERENCE.read_text(encoding="utf-8"))


def records(name: str, tasks: Sequence[str], backbone: str = BERT, main: float = 0.5, **changes: Any) -> list[Any]:
    entries = [make_record(name, task, main=main, **changes) for task in tasks]
    for record in entries:
        record["method"]["sources"] = {"backbone": {"name": backbone, "revision": None, "sha256": "0" * 64}}
    return entries


def comparisons(name: str, suite_name: str = "sts", **changes: Any) -> dict[str, BesidePublished]:
    """Our row beside each printed row, by "source: printed name"."""
    (table,) = build_tables(records(name, suite(suite_name).tasks, **changes), [suite(suite_name)])
    beside_rows = beside_published(table)
    return {f"{c.line.table.source()}: {c.line.row.method} on {c.line.row.backbone}": c for c in beside_rows}


def comparison_at(name: str, place: str, suite_name: str = "sts", **changes: Any) -> BesidePublished:
    (row,) = [c for key, c in comparisons(name, suite_name, **changes).items() if key.startswith(place)]
    return row


@pytest.mark.slow
def test_every_number_of_the_reference_is_kept_with_all_it_says(reference: Any) -> None:
    ours = []
    papers = {entry["paper"] for entry in reference["rows"]}
    for line in published().lines:
        row, table = line.row, line.table
        if table.paper not in papers:
            continue
        for column, value in line.scores.items():
            more = {
                "reported_from": row.reported_from,
                "ablation": row.ablation,
                "subset": row.subset,
                "aggregation": None if row.cited else row.aggregation,
                "max_seq_length": row.max_seq_length,
                "seeds": row.seeds,
                "std": line.std.get(column),
                "not_in_paper": row.not_in_paper or None,
            }
            about = {"method": row.method, "backbone": row.backbone, "setting": row.setting, "metric": row.metric}
            entry = {"paper": table.paper, "table": table.table, **about, "task": column, "value": value}
            ours.append({**entry, **{k: v for k, v in more.items() if v is not None}})
    key = lambda entry: json.dumps(entry, sort_keys=True)  # noqa: E731
    assert sorted(ours, key=key) == sorted(reference["rows"], key=key)
    assert len(ours) == 947


def test_the_spread_of_fifty_seeds() -> None:
    """Of unsupervised SimCSE: beside our row of the same backbone, compared by mean; the ends are of more seeds."""
    mean, best, worst = (one for one in published().lines if one.table.paper == "simple-simcse")
    assert (mean.scores[AVERAGE], mean.std[AVERAGE], mean.row.seeds) == (75.11, 0.84, 50)
    assert (worst.scores[AVERAGE], best.scores[AVERAGE]) == (73.16, 76.7)
    (table,) = build_tables(records("simcse", suite("sts").tasks), [suite("sts")])
    beside = [one for one in beside_published(table) if one.line.table.paper == "simple-simcse"]
    assert [one.line for one in beside] == [mean, best, worst]
    assert beside[0].verdict() == "compared (theirs: mean of 50 seeds)" and AVERAGE in beside[0].compared
    assert not beside[1].compared and not beside[2].compared


@pytest.mark.parametrize("name", ["sts", "sts-raw"])
def test_people_stand_below_the_rows_without_a_rank(name: str) -> None:
    """On the three tasks of which HUME had pairs scored; a trial's table has none."""
    (table,) = build_tables(records("simcse", suite(name).tasks), [suite(name)])
    lines = table_files(table)[f"{name}.md"].splitlines()
    last = max(at for at, line in enumerate(lines[: lines.index("## Cost")]) if line.startswith("|"))
    cells = [cell.strip() for cell in lines[last].strip("|").split("|")]
    assert cells[:2] == ["", "people (HUME)"] and cells[-1] == "50 pairs (SICK-R 40)"
    scores = dict(zip(suite(name).columns, cells[2:], strict=False))
    assert {task: value for task, value in scores.items() if value} == {
        "STS12": "91.21",
        "STS-B": "80.35",
        "SICK-R": "82.65",
    }
    (trial,) = build_tables(records("simcse", suite(name).tasks, limit=20), [suite(name)])
    assert "people" not in table_files(trial)[f"{name}-trial.md"]


def test_an_average_that_is_not_its_rows_mean_is_marked() -> None:
    """By our own arithmetic; the reference's tolerance is half a unit of the last printed digit."""
    wrong = 0
    for line in published().lines:
        average = next((a for a in (AVERAGE, "Avg words") if a in line.scores), None)
        if average is None or not set(line.table.average_of) <= set(line.scores):
            continue
        printed, mean = line.scores[average], statistics.fmean(line.scores[c] for c in line.table.average_of)
        if abs(printed - mean) > 0.5 * 10**-line.decimals + 1e-9:
            wrong += 1
            match = re.search(r"printed (?:average )?([\d.]+), mean of the row ([\d.]+)", line.row.slip or "")
            assert match, (line.table.source(), line.row.method, mean)
            assert (float(match[1]), float(match[2])) == (printed, pytest.approx(mean, abs=0.06))
    assert wrong == 16


def test_named_recipes_exist_other_rows_say_why_none_does() -> None:
    recipes, tasks = all_recipes(), set(TASKS.names())
    book = published()
    for line in book.lines:
        for name in line.row.recipes:
            assert typed_recipe(name)[0] in recipes
        assert (
            not line.row.cited or not line.row.recipes or {recipes[n].method for n in line.row.recipes} == {"vectors"}
        )
        assert all(typed_recipe(name)[0] in recipes and name not in line.row.recipes for name in line.row.unlike)
        why = " ".join(filter(None, (line.row.cited, line.row.differs, line.row.slip, *line.row.unlike.values())))
        assert "no recipe" not in why or not (line.row.recipes or line.row.unlike), (line.source(), line.row.method)
    assert {task for place in book.places.values() for task in (*place.same, *place.other)} <= tasks
    systems = {line.row.method for line in book.lines if line.row.cited}
    assert systems == {
        "CLEAR", "SkipThought", "InferSent-2", "GenSen_LAST", "Universal Sentence Encoder", "people",
    }  # fmt: skip


def test_maps_on_sbert_stand_beside_rows_that_pool_alike() -> None:
    """PromptBERT copies SimCSE's runs, in which first-last begins with the embedding layer."""
    for name in ("sbert-flow", "sbert-whitening"):
        assert comparison_at(f"{name}-h0", "PromptBERT, table 6: SBERT").compared == [*suite("sts").tasks, AVERAGE]
        assert "begins with the first layer" in comparison_at(name, "PromptBERT, table 6: SBERT").verdict()


def test_the_same_protocol_and_backbone_are_compared() -> None:
    compared_row = comparison_at("simcse", "PT-BERT, table 3", main=0.75)
    assert compared_row.compared == [*suite("sts").tasks, AVERAGE]
    assert compared_row.verdict() == "compared (theirs: not stated; one checkpoint, chosen on STS-B dev)"
    (row,) = as_dict(build_tables(records("simcse", suite("sts").tasks, main=0.75), [suite("sts")])[0])["rows"]
    entry = next(e for e in row["published"] if (e["paper"], e["table"]) == ("PT-BERT", "3"))
    assert entry["scores"]["STS12"] == 68.4 and entry["scores"][AVERAGE] == 76.25
    assert entry["differences"]["STS12"] == pytest.approx(6.6)
    assert entry["differences"][AVERAGE] == pytest.approx(-1.25)
    assert entry["reported_from"] == "Gao et al. 2021"
    seeds = comparison_at("promptbert-repo", "PromptBERT, table 6: PromptBERT")
    assert seeds.verdict() == "compared (theirs: mean of 10 seeds)"


@pytest.mark.parametrize(
    ("name", "suite_name", "backbone", "place", "words"),
    [
        ("simcse", "sts", "zoo-mini", "PT-BERT, table 3", "not comparable: other backbone (bert-base-uncased)"),
        ("simcse", "sts-raw", BERT, "PT-BERT, table 3", "not comparable: untokenised text"),
        ("simcse", "sts", BERT, "PT-BERT, table 5c", "not comparable: hard subset"),
        ("simcse", "sts", BERT, "PT-BERT, table 2: SimCSE_64", "other settings (theirs: train_max_length=64)"),
        ("ct", "sts", BERT, "PT-BERT, table 3", "not comparable: a released checkpoint of an unpublished recipe"),
        ("prompt", "sts", BERT, "PromptBERT, table 5", "not comparable: no period is added at test"),
        ("promptbert-sup-repo", "transfer", BERT, "PromptBERT, table 15", "tested with head and denoising"),
        ("cls", "sts", BERT, "BURT, table 2", "not comparable: backbone bert-base (case not stated)"),
        ("promptbert-repo", "transfer-fast", BERT, "PromptBERT, table 15", "not comparable: SentEval's fast setting"),
    ],
)
def test_elsewhere_the_reason_is_told(name: str, suite_name: str, backbone: str, place: str, words: str) -> None:
    row = comparison_at(name, place, suite_name, backbone=backbone)
    assert words in row.verdict()
    assert row.compared == []


def test_dev_and_period_scores_stand_beside_their_own_kind() -> None:
    assert comparison_at("simcse-crop", "PT-BERT, table 4", "sts-dev").compared == ["STS-B-dev"]
    of_test = {key.partition(":")[0].rpartition(" ")[2] for key in comparisons("simcse") if key.startswith("PT-BERT")}
    assert "3" in of_test and "4" not in of_test, "no dev score stands beside a test score"
    assert comparison_at("prompt-repo", "PromptBERT, table 5").compared == [*suite("sts").tasks, AVERAGE]
    assert comparison_at("promptbert-sup-transfer", "PromptBERT, table 15", "transfer").compared[-1] == AVERAGE
    rows = comparisons("ptbert-repo:queue_size=384")
    assert [key for key, c in rows.items() if c.compared] == ["PT-BERT, table 5b: PT-BERT Q-320 on bert-base-uncased"]
    brought = comparison_at("use:path=mine.tsv", "PromptBERT, table 15", "transfer", backbone="use")
    assert "path=mine.tsv" in brought.verdict()  # whose file it is, no one here can know


def test_wmean_and_mean_are_not_all() -> None:
    """The log of the released checkpoint holds the three aggregations of one model."""
    rows = [c for key, c in _all("ptbert").items() if "repo log" in key and "STS12" in {x.task for x in c.cells}]
    assert [c.verdict() for c in rows] == [
        "compared (theirs: one checkpoint)",
        "not comparable: aggregation wmean",
        "not comparable: aggregation mean",
    ]


def test_tables_of_wmean_stand_beside_wmean() -> None:
    """Aggregated like the printed row, it is compared; `all` then is what cannot be."""
    entries = records("ptbert", suite("sts").tasks)
    for record in entries:
        record["scores"] |= {"wmean": {"spearman": 0.5}, "subsets": {"a": {"n": 2}, "b": {"n": 3}}}
    (table,) = build_tables(entries, [suite("sts")], aggregation="wmean")
    rows = [
        c
        for c in beside_published(table)
        if "repo log" in c.line.table.source() and "STS12" in {x.task for x in c.cells}
    ]
    assert [c.verdict() for c in rows] == [
        "not comparable: aggregation all",
        "compared (theirs: one checkpoint)",
        "not comparable: aggregation mean",
    ]


def _all(name: str) -> dict[str, BesidePublished]:
    (table,) = build_tables(records(name, suite("sts").tasks), [suite("sts")])
    return {f"{i}: {c.line.table.source()}": c for i, c in enumerate(beside_published(table))}


def seeds(count: int, place: int) -> tuple[float | None, str]:
    """Our value and the verdict beside a line of PromptBERT's table 10; ours are 40, 50, 60 ... by seed."""
    entries = []
    for seed in range(count):
        entries += records("simcse", suite("sts").tasks, main=0.4 + 0.1 * seed, seed=seed, row="r")
    (table,) = build_tables(entries, [suite("sts")])
    row = [c for c in beside_published(table) if c.line.table.table == "10"][place]
    return round(row.cells[0].ours.mean or 0.0, 6), row.verdict()


def test_extremes_over_seeds_and_other_metrics_are_not_means() -> None:
    verdicts = [c.verdict() for c in _all("simcse").values() if c.line.table.table == "10"]
    assert verdicts == [
        "compared (theirs: mean of 10 seeds)",
        "not comparable: the best of its seeds",
        "not comparable: the worst of its seeds",
    ]
    assert [seeds(3, c) for c in (1, 2)] == [
        (60.0, "not comparable: the best of 10 seeds, ours of 3"),
        (40.0, "not comparable: the worst of 10 seeds, ours of 3"),
    ]
    assert [seeds(10, c) for c in (1, 2)] == [
        (130.0, "compared (theirs: best of 10 seeds)"),
        (40.0, "compared (theirs: worst of 10 seeds)"),
    ]
    (table,) = build_tables(records("ptbert", suite("transfer").tasks), [suite("transfer")])
    f1 = next(c for c in beside_published(table) if c.line.row.metric == "f1")
    assert f1.verdict() == "not comparable: F1, ours is accuracy"


def test_a_value_that_we_do_not_have_is_not_compared() -> None:
    entries = records("avg-last", suite("sts").tasks)
    entries[3] = failed(entries[3], "no data", "n/a")
    (table,) = build_tables(entries, [suite("sts")])
    row = next(c for c in beside_published(table) if c.line.table.table == "5")
    assert {c.task: c.reasons for c in row.cells if c.reasons} == {
        "STS15": ("ours is n/a",),
        AVERAGE: ("ours is n/a",),
    }
    assert row.verdict().endswith("STS15, Avg: ours is n/a")


def test_rows_of_one_name_and_overrides_keep_their_recipe() -> None:
    typed = "simcse:backbone=a/b:revision=x:steps=3"
    assert typed_recipe(typed) == ("simcse", {"steps": 3})
    (record,) = records(typed, ["STS-B"])
    named = {"name": "a:b=c", "recipe_name": "simcse", "overrides": {"backbone": "a/b", "steps": 3}}
    assert recipe_of({**record["method"], **named}) == ("simcse", {"steps": 3})


def test_files_stand_beside_the_table_and_hold_what_they_should() -> None:
    """Numbers as printed (78.50, not 78.5), cited rows without a rank, slips on the rows they concern."""
    entries = records("simcse", suite("sts").tasks) + records("nothing-published", suite("sts").tasks)
    (table,) = build_tables(entries, [suite("sts")])
    files = table_files(table)
    text = files["sts-published.md"]
    assert text == published_markdown(table, beside_published(table))
    assert "50.00 / 78.50" in text and "nothing-published" not in text
    assert "- BURT, table 2, BERT_CLS (bert-base (case not stated)): the averages of CLS and MEAN are swapped" in text
    lines = text.splitlines()
    columns = [len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("|")]
    assert set(columns) == {15, 13}  # compared and not; cited
    content = json.loads(files["sts.json"])
    assert {e["method"] for e in content["cited"]} == {"CLEAR", "SkipThought", "InferSent-2", "GenSen_LAST", "people"}
    assert not {e["method"] for e in content["cited"]} & {row["method"] for row in content["rows"]}
    assert [bool(row["published"]) for row in sorted(content["rows"], key=lambda r: r["method"])] == [False, True]


def test_a_table_without_counterpart_or_a_trial_has_no_file() -> None:
    plain = build_tables(records("nothing-published", suite("sts").tasks), [suite("sts")])
    trial = build_tables(records("simcse", suite("sts").tasks, limit=50), [suite("sts")])
    files = {name: text for table in (*plain, *trial) for name, text in table_files(table).items()}
    assert set(files) == {f"sts{end}.{kind}" for end in ("", "-trial") for kind in ("md", "csv", "json", "tex")}
    assert json.loads(files["sts-trial.json"])["rows"][0]["published"] == []


def test_every_suite_of_the_papers_tables_has_columns_in_it() -> None:
    """Each printed test column stands somewhere; what has no task here is known."""
    book = published()
    tasks = {task for one_suite in all_suites().values() for task in one_suite.tasks}
    placed = {
        column
        for line in book.lines
        for column in line.scores
        if tasks & {*book.place(line.table.paper, column).same, *book.place(line.table.paper, column).other}
    }
    without = {column for line in book.lines for column in line.scores} - placed
    assert without == {AVERAGE, "Avg words", "STS12-16 mean", "wiki 100k sentences", "vocabulary"}
