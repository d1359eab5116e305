"""IS-BERT: the head of the best dev score is kept; test_releases has its loss and gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from zoo.encoder import Corpus, Encoder, Run, Runtime
from zoo.methods.isbert import ISBert

GOLDEN = {
    "isbert": {
        "version": 2,
        "tolerance": 0.003,
        "values": [-0.3647, 1.0, 0.9337, -0.6798, 0.0249, -0.3294, 1.0, 0.1364],
    }
}


def make(folder: Path, **more: Any) -> ISBert:
    chosen = {"batch_size": 8, "learning_rate": 1e-3, "channels": 5, **more}
    return ISBert(ISBert.Recipe(backbone=str(folder), **chosen), Runtime())


def test_the_head_of_the_best_dev_score_is_kept(tiny_bert: Path, pocket_sentences: list[str]) -> None:
    encoder, seen, values = make(tiny_bert, eval_every=1), [], iter([1.0, 2.0, 0.5])

    def score(e: Encoder) -> float:
        seen.append(e.encode(["a dog"])[0])
        return next(values)

    encoder.fit(Corpus("p", pocket_sentences[:24]), dev_score=score, run=Run(seed=1))
    np.testing.assert_array_equal(encoder.encode(["a dog"])[0], seen[1])
    assert np.abs(seen[1] - seen[2]).max() > 0
