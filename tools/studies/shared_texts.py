"""How often `choose` errs where rows share texts: `python -m tools.studies.shared_texts [DRAWS]`."""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmark.stats.bootstrap import Scored, measured, resample_together
from benchmark.stats.clusters import Clusters, clusters_of, independent
from benchmark.stats.mcb import differences, sample

# name -> queries, documents of each, whether documents are the same for all queries
TABLES = {
    "300 unrelated rows": (300, 1, False),
    "10 queries x 30 documents": (10, 30, False),
    "30 queries x 10 documents": (30, 10, False),
    "10 queries x the same 30 documents": (10, 30, True),
}


def clusters_in(table: str) -> Clusters:
    """Return which rows of a table share a query or a document."""
    queries, each, crossed = TABLES[table]
    first = np.repeat(np.arange(queries), each)
    return clusters_of(first, queries + (np.tile(np.arange(each), queries) if crossed else np.arange(queries * each)))


def predictions(
    table: str, shared: float, generator: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return scores (2, rows) of equally good encoders, and gold scores (rows,).

    An encoder's own errors are in part those of a query, and of a document that all queries share: `shared` times as
    large as those of the row.
    """
    queries, each, crossed = TABLES[table]
    n = queries * each
    query, document = np.repeat(np.arange(queries), each), np.tile(np.arange(each), queries)
    truth, alike, errors = generator.normal(size=n), generator.normal(size=n), generator.normal(size=(2, n))
    if each > 1:
        errors += shared * generator.normal(size=(2, queries))[:, query]
    if crossed:
        errors += shared * generator.normal(size=(2, each))[:, document]
    return truth + alike + errors, truth


def p_of(predicted: NDArray[np.float64], gold: NDArray[np.float64], clusters: Clusters) -> float:
    """Return the p of two rows without seeds, as `choose` computes it from 1,000 resamples."""
    (drawn,) = resample_together([Scored(predicted, gold)], resamples=1_000, clusters=clusters)
    by_seed = [*measured(predicted, gold)[:, None]]
    sampled = sample(by_seed, clusters.unbiased(drawn), round(clusters.effective))
    return float(differences(sampled).p[0, 1])


def wrong_share(table: str, shared: float, draws: int, *, together: bool = True) -> float:
    """Return the share of draws in which equally good encoders differ (p < 0.05)."""
    clusters, wrong = clusters_in(table), 0
    for seed in range(draws):
        predicted, gold = predictions(table, shared, np.random.default_rng([seed, len(table)]))
        wrong += p_of(predicted, gold, clusters if together else independent(len(gold))) < 0.05
    return wrong / draws


if __name__ == "__main__":
    number = int(sys.argv[1]) if sys.argv[1:] else 2_000
    for table, (_, each, _) in TABLES.items():
        for shared in (1.0, 0.0) if each > 1 else (0.0,):
            share, before = (wrong_share(table, shared, number, together=together) for together in (True, False))
            low, high = stats.binomtest(round(share * number), number).proportion_ci()
            print(
                f"{table}, errors of the query {shared:g}: p < 0.05 in {share:.1%} ({low:.1%} to {high:.1%}) of"
                f" {number:,} draws, {before:.1%} as if unrelated",
                flush=True,
            )
