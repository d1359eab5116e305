"""The smoke row: a published row of seconds that is trained again, so that an installation can be trusted with others.

`leaderboards/smoke` has it: SimCSE on zoo-mini after 512 sentences, float32, one thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmark.api import evaluate
from benchmark.records.folder import Records
from benchmark.records.record import Record, main_score
from zoo.errors import MissingError
from zoo.paths import resource_folder

# The score (x100) may move so much between machines, whose sums round in other orders.
TOLERANCE = 0.05


@dataclass(frozen=True)
class Smoke:
    """Whether the row is equal, and the sentence that says so."""

    equal: bool
    text: str


def smoke(published: Path | None = None) -> Smoke:
    """Train the published row again and compare score and cosines; raises MissingError where it is not installed."""
    store = Records(published or resource_folder("benchmark", "leaderboards") / "smoke")
    records = store.all()
    if len(records) != 1:
        raise MissingError(f"{store.folder} has {len(records)} records in the place of the smoke row; restore it.")
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        results = evaluate(
            "simcse",
            "pocket-pairs",
            backbone="zoo-mini",
            corpus="pocket-text",
            train_sentences=512,
            precision="fp32",
            device="cpu",
            seeds=1,
            controls=False,
            quiet=True,
        )
    finally:
        torch.set_num_threads(threads)
    return compared(records[0], store, results.records[0], Records(results.folder))


def compared(theirs: Record, their_store: Records, ours: Record, our_store: Records) -> Smoke:
    """Return how the row made here stands to the published one."""
    score, published = 100 * main_score(ours), 100 * main_score(theirs)
    row = f"simcse on zoo-mini, 512 sentences, seed 0: {score:.2f} on pocket-pairs, {published:.2f} published"
    if ours["key"] != theirs["key"]:
        return Smoke(False, f"not the same row: {row}; its recipe, text, weights or pairs are others here.")
    if abs(score - published) > TOLERANCE:
        return Smoke(False, f"differs: {row}; {TOLERANCE} is allowed between machines.")
    cosines, gold = their_store.pair_scores(theirs)
    if np.array_equal(cosines, our_store.pair_scores(ours)[0]):
        return Smoke(True, f"equal: {row}, and all {len(gold)} cosines are equal.")
    return Smoke(True, f"equal within {TOLERANCE}: {row}; cosines differ by rounding, as on another machine.")
