"""all-MiniLM-L6-v2 measured from its released weights gives its published scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

# The model card's MTEB results (cosine Spearman x100, test splits), which were measured on untokenised text.
PUBLISHED = {
    "STS12-raw": 72.37,
    "STS13-raw": 80.60,
    "STS15-raw": 85.39,
    "STS16-raw": 78.99,
    "STS-B-raw": 82.03,
}


@pytest.fixture(scope="module")
def records(data_dir: Path, minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The records of one run of the command line over the raw tasks and the tokenised STS-B, by task."""
    from benchmark.cli import main

    out = tmp_path_factory.mktemp("released")
    tasks = ",".join([*PUBLISHED, "STS14-raw", "STS-B"])
    words = ["run", "--methods", f"pretrained:model={minilm}", "--suite", "sts-raw", "--tasks", tasks]
    with pytest.raises(SystemExit) as leaving:
        main([*words, "--data", str(data_dir), "--out", str(out), "--precision", "fp32"])
    assert leaving.value.code == 0
    found = [json.loads(path.read_text(encoding="utf-8")) for path in (out / "records").rglob("*.json")]
    return {record["task"]["name"]: record for record in found}


def test_the_published_scores_are_reproduced(records: dict[str, dict[str, Any]]) -> None:
    """Five tasks to the second decimal; STS14 within one unit of it. The record says that the text was raw."""
    measured = {task: f"{100 * records[task]['scores']['main']:.2f}" for task in PUBLISHED}
    assert measured == {task: f"{score:.2f}" for task, score in PUBLISHED.items()}
    # Published 75.59, measured 75.5997: 58 of STS14's rows hold non-ASCII characters, and how the hub's copy spells
    # them is not known.
    assert 100 * records["STS14-raw"]["scores"]["main"] == pytest.approx(75.59, abs=0.011)
    assert {records[task]["task"]["form"] for task in PUBLISHED} == {"raw"}
    assert {record["precision"] for record in records.values()} == {"fp32"}


def test_tokenised_text_is_another_measurement(records: dict[str, dict[str, Any]]) -> None:
    """SentEval's spelling of the same pairs has a record of its own that states the form, and other scores.

    The scores are close: BERT's uncased tokenizer splits almost every text as Moses did (one text of STS-B differs, by
    too little to change a rank). tasks/test_sts.py has an encoder for which the form makes a difference.
    """
    tokenised, raw = records["STS-B"], records["STS-B-raw"]
    assert (tokenised["task"]["form"], raw["task"]["form"]) == ("tokenised", "raw")
    assert tokenised["task"]["sha256"] != raw["task"]["sha256"]
    assert tokenised["key"] != raw["key"]
    assert tokenised["scores"]["all"]["pearson"] != raw["scores"]["all"]["pearson"]
    assert tokenised["scores"]["main"] == pytest.approx(raw["scores"]["main"], abs=5e-4)
