"""What a backbone is before training: `python -m tools.start_figures TEXT BACKBONE ...` prints a row for each.

A card states these figures, because a method that puts new maps, biases or attention behind an encoder with small
states meets another regime than in its paper.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from zoo.api import create
from zoo.encoder import Corpus, Run

SENTENCES = 2_000
METHODS = ("simcse", "ptbert")


def figures(backbone: str, sentences: list[str]) -> list[float]:
    """Return the root mean square of [CLS]'s last state, the mean cosine of unrelated sentences, and first losses.

    Each sentence is compared with the one half the list away. A loss is InfoNCE's at the first step, with the batch,
    temperature and dropout of the recipe.
    """
    vectors = create(f"cls:backbone={backbone}").encode(sentences).astype(np.float64)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = float((unit * np.roll(unit, len(unit) // 2, axis=0)).sum(1).mean())
    losses = []
    for name in METHODS:
        encoder = create(f"{name}:backbone={backbone}:epochs=1")
        batch = Corpus("sentences", sentences[: encoder.recipe.batch_size])
        losses.append(encoder.fit(batch, run=Run(None, 0)).final_loss or np.nan)
    return [float(np.sqrt(np.square(vectors).mean())), cosine, *losses]


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()[:SENTENCES]
    print("| backbone | root mean square | mean cosine |", *(f"first loss of {name} |" for name in METHODS))
    print("|:--|" + "--:|" * (2 + len(METHODS)))
    for name in sys.argv[2:]:
        print(f"| {name} | " + " | ".join(f"{value:.2f}" for value in figures(name, text)) + " |")
