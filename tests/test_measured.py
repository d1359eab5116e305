"""Which recipes have no row in a published table, and why; and every published folder is verified."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from benchmark.checking.verify import verify
from zoo.recipes import all_recipes

ROOT = Path(__file__).resolve().parent.parent
REASONS = {
    "needs a file of one's own": "fasttext gensen infersent-2 skipthought use vectors word2vec wordvectors",
    "needs RoBERTa's weights": """promptbert-roberta promptbert-sup-roberta promptbert-sup-roberta-repo
        promptbert-sup-roberta-transfer""",
    "needs a decoder-only model of one's own": """angle-llama causal-mean echo geneol llm2vec llm2vec-bi llm2vec-repo
        metaeol pretended-cot prompteol prompteol-repo prompteol-sup prompteol-sup-repo token-prepending""",
    "needs scored pairs, STS-B's, whose test part is in the tables": "angle",
    "ten epochs, an hour of one core": "consert-repo consert-sup consert-target",
    "its plain recipe is measured": "infersent-glove-repo rankcse-repo rankcse-listnet-repo",
    "a part of a method that is measured": "rankcse-listnet",
    "its table is measured with other positives": "static-contrastive-crops static-contrastive-halves",
    "its package's vectors are compared with it": "model2vec",
    "hours of a core": "infersent-glove",
    "came after the tables": "gcse infocse",
}


def test_every_recipe_has_a_row_or_a_reason() -> None:
    measured = set()
    for path in ROOT.glob("leaderboards/*/*.csv"):
        with path.open(encoding="utf-8", newline="") as lines:
            rows = [row for row in csv.DictReader(lines) if row.get("method") and row.get("rank")]
        measured |= {row["method"].split(":")[0] for row in rows}
    listed = [name for names in REASONS.values() for name in names.split()]
    assert len(listed) == len(set(listed))
    assert set(all_recipes()) - measured == set(listed)


FOLDERS = sorted(path.parent for path in (Path(__file__).parents[1] / "leaderboards").glob("*/records.parquet"))
FEWEST = {  # cells of which each score follows from what is kept; the others keep no item scores, or need an encoder
    "all-MiniLM-L6-v2": 0,
    "words": 79,
    "zoo-mini": 6_537,
    "zoo-mini-float32": 126,
    "zoo-mini-pieces": 280,
    "zoo-small": 1_211,
    "zoo-small-course": 0,
    "zoo-small-curve": 252,
    "zoo-small-looks": 210,
    "zoo-small-rates": 196,
    "zoo-small-tuned": 966,
}


def test_every_published_folder_is_verified() -> None:
    assert [folder.name for folder in FOLDERS] == sorted(FEWEST)


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_published_cell_differs(folder: Path, request: pytest.FixtureRequest) -> None:
    """As `zoo-bench verify FOLDER --no-encode --allow-unverified` does, without network and without any training.

    Where the data is not beside the project, scores are computed from the kept items, and gold scores not compared.
    """
    try:
        data: str | None = str(request.getfixturevalue("data_dir"))
    except pytest.skip.Exception:
        data = None
    verified = verify(folder, data, encode=False)
    counts = Counter(one.word for one in verified.verdicts)
    assert [f"{one.cell}: {one.why}" for one in verified.verdicts if one.word == "differs"] == []
    assert verified.exit_code(allow_unverified=True) == 0
    assert data is None or counts["verified"] >= FEWEST[folder.name]
