"""all-MiniLM-L6-v2 measured from its released weights gives its published scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fakes import Cli

# The model card's MTEB results (cosine Spearman x100, test splits), which were measured on untokenised text.
PUBLISHED = {
    "STS12-raw": 72.37,
    "STS13-raw": 80.60,
    "STS15-raw": 85.39,
    "STS16-raw": 78.99,
    "STS-B-raw": 82.03,
}


def records(out: Path) -> dict[str, dict[str, Any]]:
    """Every record of a folder by task."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in (out / "records").rglob("*.json")]
    return {record["task"]["name"]: record for record in found}


@pytest.fixture
def measure(cli: Cli, data_dir: Path, minilm: Path, tmp_path: Path) -> Any:
    """Measure the released weights on tasks of a suite."""

    def run(suite: str, *tasks: str) -> dict[str, dict[str, Any]]:
        method = f"pretrained:model={minilm}"
        common = ("--data", data_dir, "--out", tmp_path, "--precision", "fp32")
        answer = cli("run", "--methods", method, "--suite", suite, "--tasks", ",".join(tasks), *common)
        assert answer.code == 0, answer.err
        return records(tmp_path)

    return run


def test_the_published_scores_are_reproduced(measure: Any) -> None:
    """Five tasks to the second decimal; STS14 within one unit of it. The record says that the text was raw."""
    found = measure("sts-raw", *PUBLISHED, "STS14-raw")
    measured = {task: 100 * found[task]["scores"]["main"] for task in PUBLISHED}
    assert {task: f"{score:.2f}" for task, score in measured.items()} == {
        task: f"{score:.2f}" for task, score in PUBLISHED.items()
    }
    # Published 75.59, measured 75.5997: 58 of STS14's rows hold non-ASCII characters, and how the hub's copy spells
    # them is not known.
    assert 100 * found["STS14-raw"]["scores"]["main"] == pytest.approx(75.59, abs=0.011)
    assert {record["task"]["form"] for record in found.values()} == {"raw"}
    assert {record["precision"] for record in found.values()} == {"fp32"}


def test_tokenised_text_is_another_measurement(measure: Any) -> None:
    """SentEval's spelling of the same pairs gives other numbers, under another name, and the record says so."""
    record = measure("sts", "STS-B")["STS-B"]
    assert record["task"]["form"] == "tokenised"
    assert abs(100 * record["scores"]["main"] - PUBLISHED["STS-B-raw"]) > 0.05
