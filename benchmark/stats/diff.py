"""Whether a row's move between two results folders is more than its noise of items and of seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmark.records.folder import Records
from benchmark.records.record import Record, items_identity
from benchmark.stats.mcb import LEVEL, differences, sample_pairs
from zoo.errors import CorruptError, MissingError

RESAMPLES = 2_000


def noise_of_move(
    before: Sequence[Record], after: Sequence[Record], first: Records, second: Records
) -> tuple[float | None, float | None, float | None]:
    """Return the interval of B - A and its p; None where item scores are missing or a noise of seeds is not known."""
    predicted = []
    try:
        if len({items_identity(r).gold_sha256 for r in (*before, *after)}) > 1:
            return None, None, None
        for records, store in ((before, first), (after, second)):
            scores = [store.item_scores(record) for record in records]
            rows = np.stack([one.predicted for one in scores])
            predicted.append(rows[0] if records[0]["seed"] is None else rows)
    except (MissingError, CorruptError):
        return None, None, None
    metric, _, gold = scores[0]
    result = differences(sample_pairs(predicted, gold, metric=metric, resamples=RESAMPLES))
    low, high, p = (float(one[1, 0]) for one in (result.low, result.high, result.p))
    return (None, None, None) if np.isnan(p) else (100 * low, 100 * high, p)


def beyond_noise(values: Mapping[int, float]) -> dict[int, bool]:
    """Return by place which p values are significant: Holm's procedure (1979) over all of them."""
    beyond: dict[int, bool] = {}
    still = True
    for number, (p, place) in enumerate(sorted((p, place) for place, p in values.items())):
        still = still and p * (len(values) - number) < LEVEL
        beyond[place] = still
    return beyond
