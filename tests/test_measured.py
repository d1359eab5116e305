"""Which recipes have no row with a score in a published table, and why: a new recipe is measured or listed here."""

from __future__ import annotations

import csv
from pathlib import Path

from zoo.recipes import all_recipes

ROOT = Path(__file__).resolve().parent.parent
REASONS = {
    "needs a file of one's own": "fasttext gensen infersent-2 skipthought use vectors word2vec wordvectors",
    "needs RoBERTa's weights": """promptbert-roberta promptbert-sup-roberta promptbert-sup-roberta-repo
        promptbert-sup-roberta-transfer""",
    "needs a decoder-only model of one's own": """causal-mean echo geneol llm2vec llm2vec-bi llm2vec-repo metaeol pretended-cot prompteol
        prompteol-repo token-prepending""",
    "needs scored pairs, STS-B's, whose test part is in the tables": "angle",
    "ten epochs, an hour of one core": "consert-joint consert-repo consert-sup consert-target",
    "its code never updates the key encoder": "moco-q320 moco-delete-q320 moco-duplicate-q320 moco-reorder-q320",
    "its plain recipe is measured": """cot-bert-repo diffcse-repo infersent-glove-repo rankcse-repo
        rankcse-listnet-repo sentence-crops-repo""",
    "a part of a method that is measured": "rankcse-listnet simcse-dcl simcse-off-dropout simcse-sif",
    "its table is measured with other positives": "static-contrastive-crops static-contrastive-halves",
    "its package's vectors are compared with it": "model2vec",
    "hours of a core": "infersent-glove",
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
