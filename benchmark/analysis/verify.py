"""Verifies a results folder: scores from their pair scores, gold scores from the user's data, and vectors again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmark.analysis.encoders import encoder_of
from benchmark.data.readers.pairs import Pairs
from benchmark.data.sources import DataSource
from benchmark.metrics.correlation import cosine
from benchmark.records.folder import Records
from benchmark.records.query import PairTexts, label, spearman
from benchmark.records.record import main_score, scores_of
from zoo.encoder import Encoder
from zoo.errors import CorruptError, MissingError, UsageError, ZooError, said

SAMPLE = 64  # pairs that are encoded again
SCORE, ORDER = 1e-4, 99.5  # x100: what a score may move, and the least correlation of a sample's cosines

Check = Literal["score", "data", "encoder"]


@dataclass
class Verified:
    """The checks of a folder: how many agree, and (check, cell, what differs or why it cannot be checked)."""

    agree: Counter[Check] = field(default_factory=Counter)
    differ: list[tuple[Check, str, str]] = field(default_factory=list)
    unchecked: list[tuple[Check, str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"DIFFERS {check} of {cell}: {why}" for check, cell, why in self.differ]
        reasons = Counter((check, why) for check, _, why in self.unchecked)
        lines += [f"not checked: {check} of {count} cells: {why}" for (check, why), count in reasons.items()]
        counts = ", ".join(f"{self.agree[check]:,} {what}" for check, what in _WHAT.items())
        return "\n".join([*lines, f"agree: {counts}; {len(self.differ):,} differ."])


_WHAT: dict[Check, str] = {
    "score": "scores from their pair scores",
    "data": "gold scores from the data here",
    "encoder": "samples that were encoded again",
}


def verify(folder: Path, data: str | None = None, *, encode: bool = True, device: str = "auto") -> Verified:
    """Check every finished record of a results folder.

    Its score is computed again from its pair scores; its gold scores are compared with the data here; and, with
    `encode`, a sample of its pairs is encoded again where the encoder is in the folder or needs no training. Raises
    MissingError for a folder without finished records.
    """
    store = Records(folder)
    records = [record for record in store.all() if record["status"] == "ok"]
    if not records:
        raise MissingError(f"no finished records in {folder}; name a results folder.")
    found = Verified(differ=[("score", str(path), reason) for path, reason in store.corrupt])
    texts = PairTexts(DataSource.from_options(data, hub=False))
    encoders: dict[str, Encoder | str] = {}  # by key; a text says why there is none
    for record in records:
        cell = f"{label([record])} on {record['task']['name']}, seed {record['seed']}"
        if not record.get("pairs") or scores_of(record)["main_metric"] != "all_spearman":
            found.unchecked.append(("score", cell, "no pair scores are kept of it"))
            continue
        try:
            predicted, gold = store.pair_scores(record)
        except (CorruptError, MissingError) as error:
            found.differ.append(("score", cell, str(error)))
            continue
        stated, again = 100 * main_score(record), spearman(predicted, gold)
        _note(found, "score", cell, again is not None and abs(again - stated) <= SCORE, f"{stated:.4f}, not {again}")
        try:
            pairs = texts.of(record)
        except (MissingError, UsageError, CorruptError) as error:
            found.unchecked.append(("data", cell, str(error)))
            continue
        found.agree["data"] += 1
        if encode:
            if record["encoder_key"] not in encoders:
                try:
                    encoders[record["encoder_key"]] = encoder_of(record, store, device)
                except ZooError as error:
                    encoders[record["encoder_key"]] = str(error)
            _encoded(found, cell, encoders[record["encoder_key"]], pairs, predicted)
    return found


def _note(found: Verified, check: Check, cell: str, agrees: bool, otherwise: str) -> None:
    if agrees:
        found.agree[check] += 1
    else:
        found.differ.append((check, cell, otherwise))


def _encoded(found: Verified, cell: str, encoder: Encoder | str, pairs: Pairs, predicted: NDArray[Any]) -> None:
    """Encode a sample of the pairs, spread over all, and compare the order of their cosines."""
    if isinstance(encoder, str):
        found.unchecked.append(("encoder", cell, encoder))
        return
    rows = np.unique(np.linspace(0, len(predicted) - 1, SAMPLE).astype(int))
    first, second = ([side[row] for row in rows] for side in (pairs.first, pairs.second))
    try:
        order = spearman(cosine(encoder.encode(first), encoder.encode(second)), predicted[rows])
    except Exception as error:  # of any encoder's code
        found.unchecked.append(("encoder", cell, said(error)))
        return
    agrees = order is not None and order >= ORDER
    _note(found, "encoder", cell, agrees, f"the cosines of {len(rows)} pairs have another order (Spearman {order})")
