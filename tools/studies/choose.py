"""How often `choose` errs, by simulation, for docs/choose.md: `python -m tools.studies.choose`."""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from benchmark.stats.clusters import clusters_of
from choose.data import MEASURES, Kind, Texts
from choose.measures import intervals, may_be_best, measure, sampled, threshold

# Cosines of unequal and of equal pairs, mean and spread of normal distributions; the share of equal pairs.
_SHAPES = {
    "equal spreads": ((0.4, 0.15), (0.7, 0.15), 0.5),
    "few equal pairs": ((0.4, 0.15), (0.7, 0.15), 0.2),
    "unequal spreads": ((0.4, 0.2), (0.75, 0.1), 0.5),
}


# name -> queries, documents of each, whether documents are the same for all queries
_TABLES = {
    "100 unrelated rows": (100, 1, False),
    "10 queries x 30 documents": (10, 30, False),
    "30 queries x 10 documents": (30, 10, False),
    "10 queries x the same 30 documents": (10, 30, True),
    "30 queries x the same 10 documents": (30, 10, True),
}


def texts_of(kind: Kind, rows: str, gold: NDArray[np.float64]) -> Texts:
    """Return rows that share texts; in retrieval, queries of which several have the same relevant document."""
    queries, each, crossed = _TABLES[rows]
    first = np.repeat(np.arange(queries), each)
    second = np.tile(np.arange(each), queries) if crossed else np.arange(queries * each)
    if kind == "retrieval":
        return Texts(kind, "", [], np.arange(len(first)), first, np.ones(len(first)))
    return Texts(kind, "", [], first, queries + second, gold)


def wrong_winners(
    kind: Kind, draws: int = 2_000, rows: str = "100 unrelated rows", encoders: int = 2, shared: float = 1.0
) -> float:
    """Return the share of draws in which one of equally good encoders is told apart from all others.

    An encoder's own errors are in part those of a query, and of a document that all queries share: `shared` times as
    large as those of the row. Without repeated texts there is no such part.
    """
    queries, each, crossed = _TABLES[rows]
    n, wrong = queries * each, 0
    query, document = np.repeat(np.arange(queries), each), np.tile(np.arange(each), queries)
    for seed in range(draws):
        generator = np.random.default_rng(seed)
        truth = generator.normal(size=n)
        gold = (truth > 0).astype(float) if kind == "binary" else truth
        alike = generator.normal(size=n)
        values = []
        for _ in range(encoders):
            errors = generator.normal(size=n)
            errors += shared * generator.normal(size=queries)[query] if each > 1 else 0
            errors += shared * generator.normal(size=each)[document] if crossed else 0
            values.append(truth + alike + errors)
        if kind == "retrieval":
            values = [1 / (1 + np.exp(-value)) for value in values]
        wrong += int(may_be_best(sampled(texts_of(kind, rows, gold), values)).sum() == 1)
    return wrong / draws


def coverage(draws: int = 2_000, pairs: int = 300) -> dict[str, float]:
    """Return how often a threshold's interval, of 400 resamples, holds the population's best one, by the shape."""
    from scipy import stats

    shares = {}
    at = np.linspace(0, 1.2, 12_001)
    for name, (low, high, share) in _SHAPES.items():
        best = at[(share * stats.norm.sf(at, *high) + (1 - share) * stats.norm.cdf(at, *low)).argmax()]
        inside = 0
        for seed in range(draws):
            generator = np.random.default_rng(seed)
            gold = (generator.random(pairs) < share).astype(float)
            cosines = np.where(gold > 0, generator.normal(*high, pairs), generator.normal(*low, pairs))
            limits = threshold(cosines, gold, clusters_of(np.arange(pairs)), seed, resamples=400)
            inside += (limits["threshold_low"] or 0) <= best <= (limits["threshold_high"] or 0)
        shares[name] = inside / draws
    return shares


def neighbours(texts: int, draws: int = 1_000, classes: int = 4, dim: int = 16) -> dict[str, tuple[float, float]]:
    """Return the shares of wrong winners between two equal encoders, and of intervals that cover, by the way to draw.

    An encoder's vectors are a class's centre, what both encoders share, and as much noise of its own. What an interval
    should cover is the mean accuracy of all tables.
    """
    places, results = np.arange(texts), dict[str, list[tuple[bool, NDArray[np.float64]]]]()
    centres = 0.6 * np.random.default_rng(0).normal(size=(classes, dim))
    for seed in range(draws):
        generator = np.random.default_rng(seed)
        gold = places % classes
        shared = centres[gold] + generator.normal(size=(texts, dim)) / 2
        data = Texts("label", "", [f"text {place}" for place in places], places, places, gold.astype(float))
        values = [measure(data, shared + generator.normal(size=(texts, dim)) / 2)[0] for _ in range(2)]
        for way, some in {"halves": values, "as if independent": [of_units[:texts] for of_units in values]}.items():
            drawn = sampled(data, some)
            low, high = intervals(data, drawn)
            row = np.array([drawn.value[0], low[0], high[0]])
            results.setdefault(way, []).append((may_be_best(drawn).sum() == 1, row))
    shares = {}
    for way, rows in results.items():
        value, low, high = np.array([row for _, row in rows]).T
        covered = (low <= value.mean()) & (value.mean() <= high)
        shares[way] = float(np.mean([wrong for wrong, _ in rows])), float(covered.mean())
    return shares


def few_units(kind: Kind, units: int, draws: int = 1_000, *, easy: bool = False) -> float:
    """Return how often the interval of 60 rows covers the value of all such tables.

    Pairs and queries hang together in so many groups, and half of an error's variance is the group's. Of two labels one
    has so many rows. An easy task has 0 and 1 for queries and labels, 97 % right, so that all items are often right.
    """
    n, ends = 60, []
    for seed in range(draws):
        generator = np.random.default_rng([seed, units])
        group, rows = generator.permutation(n) % units, np.arange(n)
        errors = generator.normal(size=units)[group] + generator.normal(size=n)
        gold = (rows < units).astype(float) if kind in ("binary", "label") else generator.normal(size=n)
        first = group if kind == "score" else rows
        data = Texts(kind, "", [f"text {row}" for row in range(2 * n)], first, n + rows, gold)
        values = (3.8 if easy else 1.5) * gold + errors
        if kind == "retrieval":
            data = Texts(kind, "", [], rows, n + group, np.ones(n))
            values = (errors < 2.66).astype(float) if easy else 1 / (1 + np.exp(-errors))
        elif kind == "label":
            data = Texts(kind, "", data.texts, rows, rows, gold)
            vectors = generator.normal(size=(n, 8)) + (4 if easy else 1) * gold[:, None]
            values = measure(data, vectors, "euclidean")[0]
        drawn = sampled(data, [values])
        ends.append((drawn.value[0], *(end[0] for end in intervals(data, drawn))))
    value, low, high = np.array(ends).T
    return float(((low <= value.mean() + 1e-9) & (value.mean() <= high + 1e-9)).mean())


if __name__ == "__main__":
    number = int(sys.argv[1]) if sys.argv[1:] else 2_000
    for table in _TABLES:
        for kind in ("retrieval", "binary", "score"):
            share = wrong_winners(kind, number, table)
            print(f"{kind}, {table}: a wrong winner in {share:.2%} of {number:,} draws", flush=True)
    for name, share in coverage(number).items():
        print(f"thresholds, {name}: the interval holds the best one in {share:.1%} of {number:,} draws", flush=True)
    for count in (40, 100):
        for way, (wrong, covered) in neighbours(count, number).items():
            print(
                f"5-NN, {count} texts, {way}: a wrong winner in {wrong:.1%}, intervals cover in {covered:.1%}",
                flush=True,
            )
    for kind in MEASURES:
        for easy in (False, True):
            shares = [few_units(kind, units, number // 2, easy=easy) for units in (5, 7, 10, 15, 30)]
            print(f"{kind}{', easy' * easy}: intervals of 5, 7, 10, 15, 30 units cover {shares}", flush=True)
