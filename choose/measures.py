"""Scores of encoders on a user's own texts, and in resamples of their units."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.metrics.correlation import undefined
from benchmark.metrics.ties import Exact, first_places
from benchmark.stats.bootstrap import measured, statistic_of
from benchmark.stats.clusters import Clusters
from benchmark.stats.intervals import of_alike
from benchmark.stats.mcb import LEVEL, Sample, best_set, differences, own_noise, sample, with_width
from benchmark.tasks.phrases import unit
from choose.data import LEAST, Texts, Values
from zoo.errors import ZooError
from zoo.roles import pair_similarities, similarities

RESAMPLES = 2_000
# A text's neighbours, and how many of them are kept, so that each half of the texts has enough.
_TOP, _NEIGHBOURS, _NEAREST, SPLITS = 10, 5, 32, 500
_WORDS = re.compile(r"[^\W\d_]+")
# Equal similarities differ behind these, as in benchmark/metrics/correlation.py.
_DECIMALS = 9
# Similarities of float32 that differ by less, as a share of the largest possible, are equal but for rounding.
_FLAT = 1e-6
# Products of float32 neither overflow nor vanish between these scales.
_IN_FLOAT32 = (1e-18, 1e30)
# Similarities at a time; more than any table has documents.
_AT_ONCE, _SPAN = 1 << 24, 1 << 40


def measure(
    data: Texts, vectors: NDArray[Any], similarity: str = "cosine", at_precision: float | None = None
) -> tuple[Values, dict[str, float | None]]:
    """Return each unit's value (units,) from vectors (texts, dim), and further measures.

    A value is a pair's similarity, a query's nDCG, or 1 if a text's nearest neighbours have its label. Raises ZooError
    for constant similarities.
    """
    if data.kind in ("label", "retrieval"):
        sides = [vectors] if data.kind == "label" else [vectors[: data.queries], vectors[data.queries :]]
        if any(not side.any() for side in sides) or np.ptp(sides[-1], axis=0).max() == 0:
            raise ZooError(f"all its values of {similarity} are equal.")
    if data.kind == "label":
        return _neighbours(data, vectors, similarity)
    if data.kind == "retrieval":
        differing: list[bool] = []

        def watched(scores: NDArray[Any]) -> NDArray[Any]:
            differing.extend((np.ptp(scores, axis=1) > scale * _FLAT).tolist())
            return scores

        if (near := _near_in_float32(data, vectors, similarity)) is not None:
            products, scale, exact, error = near
            result = search(data, lambda some: watched(products(some)), at_precision, scale, exact, error)
        else:
            points, kind, scale = _points(vectors, similarity)
            documents = points[data.queries :]
            result = search(
                data, lambda some: watched(similarities(points[some], documents, kind)), at_precision, scale
            )
        if 2 * sum(differing) < len(differing):
            raise ZooError(f"all its values of {similarity} are equal for most queries.")
        return result
    of_pairs = pair_similarities(vectors[data.first], vectors[data.second], similarity).round(_DECIMALS)
    if undefined(of_pairs, data.gold):
        raise ZooError(f"all its values of {similarity} are equal.")
    if data.kind == "score":
        return of_pairs, {}
    more = threshold(of_pairs, data.gold, data.clusters)
    if at_precision is not None:
        more |= threshold_at(at_precision, of_pairs, data.gold, data.clusters)
    return of_pairs, more


def _neighbours(data: Texts, vectors: NDArray[Any], similarity: str) -> tuple[Values, dict[str, float | None]]:
    """Return each text's verdict with the samples of `_halves`, and the accuracy without near-duplicates.

    A neighbour's votes are its average share of the first five places; classes of equal votes share the verdict.
    """
    points, kind, scale = _points(vectors[data.first], similarity)
    gold, n, generator = np.unique(data.gold, return_inverse=True)[1], len(points), np.random.default_rng(0)
    words = [frozenset(_WORDS.findall(data.texts[place].casefold())) for place in data.first]
    right, alike, nearest = np.empty(n), np.zeros(n, np.bool_), np.empty((n, min(_NEAREST, n - 1)), np.intp)
    step = max(1, _AT_ONCE // 4 // n)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        scores = similarities(points[rows], points, kind)
        scores[np.arange(len(rows)), rows] = -np.inf
        places = first_places(scores, nearest.shape[1], scale)
        shares = places.mean(np.ones(_NEIGHBOURS))
        right[rows] = _verdict(places.row, gold[places.column], shares, gold[rows])
        for row, column in zip(rows[places.row[shares > 0]], places.column[shares > 0], strict=True):
            alike[row] = alike[row] or _nearly_equal(words[row], words[column])
        order = np.lexsort((generator.random(len(places.row)), places.before, places.row))
        starts = np.searchsorted(places.row, np.arange(len(rows)))
        nearest[rows] = places.column[order][starts[:, None] + np.arange(nearest.shape[1])]
    others = np.nan if alike.all() else 100 * float(right[~alike].mean())
    more: dict[str, float | None] = {"near_duplicates": float(alike.sum()), "accuracy_without_them": others}
    return np.concatenate([right, _halves(nearest, gold, generator)]), more


def _halves(nearest: NDArray[np.intp], gold: NDArray[np.intp], generator: np.random.Generator) -> Values:
    """Return half the difference (splits,) of the accuracies of random halves without neighbours in each other.

    Its mean square is the variance of all texts' accuracy; a bootstrap's is too small, since neighbours are dependent.
    """
    drawn, rows = np.empty(SPLITS), np.broadcast_to(np.arange(len(gold))[:, None], nearest.shape)
    for split in range(SPLITS):
        side = generator.permutation(len(gold)) < len(gold) // 2
        same = side[nearest] == side[:, None]
        same &= np.cumsum(same, axis=1) <= _NEIGHBOURS
        right = _verdict(rows[same], gold[nearest[same]], None, gold)
        drawn[split] = (right[side].mean() - right[~side].mean()) / 2
    return drawn


def _verdict(row: NDArray[np.intp], label: NDArray[np.intp], votes: Values | None, gold: NDArray[np.intp]) -> Values:
    """Return the chance (n,) of each text's own class to have the most votes."""
    classes = int(gold.max()) + 1
    sums = np.bincount(row * classes + label, votes, minlength=len(gold) * classes).reshape(-1, classes)
    first = sums >= sums.max(axis=1, keepdims=True) - 1e-9
    shares: Values = first[np.arange(len(gold)), gold] / first.sum(axis=1)
    return shares


def _nearly_equal(first: frozenset[str], second: frozenset[str]) -> bool:
    """True if four fifths of the words are common; digits do not count."""
    return 5 * len(first & second) >= 4 * len(first | second) > 0


def _near_in_float32(
    data: Texts, vectors: NDArray[Any], similarity: str
) -> tuple[Callable[[NDArray[np.intp]], NDArray[Any]], float, Exact, float] | None:
    """Return products of queries and documents in float32, their scale, those in float64, and how far they are apart.

    None for a distance, and for vectors whose products float32 cannot hold.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    longest = float(lengths.max())
    shortest = float(lengths[lengths > 0].min(initial=longest)) if similarity == "cosine" else longest
    if similarity not in ("cosine", "dot") or not _IN_FLOAT32[0] < shortest**2 <= longest**2 < _IN_FLOAT32[1]:
        return None
    divisors = np.where(lengths > 0, lengths, 1) if similarity == "cosine" else np.ones(len(lengths))
    scale = 1.0 if similarity == "cosine" else longest**2
    few = vectors.astype(np.float32)
    few /= divisors.astype(np.float32)[:, None]

    def exact(queries: NDArray[np.intp], documents: NDArray[np.intp]) -> Values:
        sides = [
            vectors[some].astype(np.float64) / divisors[some, None] for some in (queries, data.queries + documents)
        ]
        products: Values = np.einsum("ij,ij->i", *sides)
        return products

    # Each of the products' roundings is at most half of eps, and so are those of the vectors themselves.
    error = float(np.finfo(np.float32).eps) * (vectors.shape[1] + 4) * scale
    return lambda some: few[some] @ few[data.queries :].T, scale, exact, error


def _points(vectors: NDArray[Any], similarity: str) -> tuple[Values, str, float]:
    """Return vectors in float64: rounding stays far below a tie."""
    if similarity == "cosine":
        return unit(vectors), "dot", 1.0
    points = vectors.astype(np.float64)
    length = float(np.linalg.norm(points, ord=1 if similarity == "manhattan" else 2, axis=1).max())
    return points, similarity, length**2 if similarity == "dot" else length


def search(
    data: Texts,
    near: Callable[[NDArray[np.intp]], NDArray[Any]],
    at_precision: float | None = None,
    scale: float = 1.0,
    exact: Exact | None = None,
    error: float = 0.0,
) -> tuple[Values, dict[str, float | None]]:
    """Return nDCG@10 of each query among all documents but its own text, and the means of recall and MRR.

    `near` gives the similarities (queries, documents) of some queries, at most `scale`; -inf is not retrieved. With
    `exact`, of queries and documents, these are at most `error` away, and decide only what is beyond that. As in
    sentence-transformers' InformationRetrievalEvaluator, recall@k is the share of a query's relevant documents among
    the first k, MRR@10 is 1 / rank of the first relevant document of ten. A document's gain is its grade, as in
    trec_eval and mteb. A query's own text is a candidate if it is relevant. Tied documents share their places.
    """
    queries, discount = data.asked, 1 / np.log2(np.arange(2, _TOP + 2))
    place = np.full(max(data.queries, 1), -1)
    place[queries] = np.arange(len(queries))
    judged = data.gold > 0
    keys = place[data.first[judged]] * _SPAN + data.second[judged] - data.queries
    # Of several judgements the highest counts.
    order = np.lexsort((-data.gold[judged], keys))
    keys, first = np.unique(keys[order], return_index=True)
    grades, asked = data.gold[judged][order][first], keys // _SPAN
    count = np.bincount(asked)
    best = np.lexsort((-grades, asked))
    rank = np.arange(len(best)) - np.repeat(np.cumsum(count) - count, count)
    ideal = np.bincount(asked, np.where(rank < _TOP, grades[best] * discount[np.minimum(rank, _TOP - 1)], 0.0))
    same = np.full(len(queries), -1) if data.same is None else data.same[queries] - data.queries
    apart = (same >= 0) & ~np.isin(np.arange(len(queries)) * _SPAN + same, keys)
    values, hits = np.empty((4, len(queries))), np.empty((2, len(queries)))
    step = max(1, _AT_ONCE // max(len(data.texts) - data.queries, 1))
    for start in range(0, len(queries), step):
        rows = np.arange(start, min(start + step, len(queries)))
        scores = near(queries[rows])
        scores[np.flatnonzero(apart[rows]), same[rows][apart[rows]]] = -np.inf
        of_rows = None if exact is None else partial(_of_block, exact, queries[rows])
        places = first_places(scores, _TOP, scale, of_rows, error)
        of_places = (start + places.row) * _SPAN + places.column
        at = np.minimum(np.searchsorted(keys, of_places), len(keys) - 1)
        hit = keys[at] == of_places
        of_one, of_ten = (places.mean(np.ones(k)) * hit for k in (1, _TOP))
        sums = (
            np.bincount(places.row, of, len(rows)) for of in (places.mean(discount) * grades[at] * hit, of_one, of_ten)
        )
        values[:, rows] = [*sums, places.first_hit(hit, len(rows), _TOP)]
        hits[0, rows], hits[1, rows] = 0.0, values[1, rows]
        some, top = np.unique(places.row, return_index=True)
        nearest = places.column[top]
        similarity = scores[some, nearest] if of_rows is None else of_rows(some, nearest)
        hits[0, rows[some]] = similarity.round(_DECIMALS)
    values[:3] /= np.stack([ideal, count, count])
    names = ("recall_at_1", f"recall_at_{_TOP}", f"mrr_at_{_TOP}")
    more: dict[str, float | None] = dict(zip(names, 100 * values[1:].mean(axis=1), strict=True))
    if at_precision is not None:
        more |= threshold_at(at_precision, hits[0], hits[1], data.clusters, of_all=True)
    return values[0], more


def _of_block(exact: Exact, queries: NDArray[np.intp], rows: NDArray[np.intp], places: NDArray[np.intp]) -> Values:
    return exact(queries[rows], places)


def threshold(
    cosines: Values, gold: Values, clusters: Clusters, seed: int = 0, resamples: int = RESAMPLES
) -> dict[str, float | None]:
    """Return the cosine above which "equal" is most often right, its 95 % interval, and its accuracy.

    Percentiles in resamples of the pairs give the interval; simulated, it covers the population's best threshold
    (docs/choose.md).
    """
    order = np.argsort(cosines)
    ordered, steps = cosines[order], 1 - 2 * gold[order].astype(np.int32)
    between = np.concatenate([ordered[:1], (ordered[1:] + ordered[:-1]) / 2, ordered[-1:]])
    # Equal cosines cannot be parted.
    inside = np.concatenate([[True], ordered[1:] != ordered[:-1], [True]])

    def best(counts: NDArray[Any]) -> Values:
        """Return the middle of the best thresholds (resamples,) for counts (resamples, n)."""
        right = np.zeros((len(counts), len(ordered) + 1), np.int32)
        np.cumsum(counts * steps, axis=1, out=right[:, 1:])
        right[:, ~inside] = np.iinfo(np.int32).min
        top = right == right.max(axis=1, keepdims=True)
        last = top.shape[1] - 1 - top[:, ::-1].argmax(axis=1)
        middle: Values = (between[top.argmax(axis=1)] + between[last]) / 2
        return middle

    drawn = np.concatenate([best(counts[:, order]) for counts in clusters.counts(resamples, [seed])])
    at = float(best(np.ones((1, len(ordered)), np.int32))[0])
    low, high = map(float, with_width(*np.quantile(drawn, (0.025, 0.975))))
    accuracy = 100 * float(((cosines > at) == (gold > 0)).mean())
    return {"threshold": at, "threshold_low": low, "threshold_high": high, "accuracy": accuracy}


def threshold_at(
    precision: float,
    similarity: Values,
    right: Values,
    clusters: Clusters,
    *,
    of_all: bool = False,
    resamples: int = RESAMPLES,
) -> dict[str, float | None]:
    """Return the lowest threshold with at least `precision` of its pairs right, and its recall, with 95 % intervals.

    Recall counts equal pairs accepted; with `of_all`, queries with a right and accepted best hit. None if no threshold
    is so precise; an upper end of None: many resamples have none.
    """
    order = np.argsort(-similarity, kind="stable")
    ordered, correct = similarity[order], right[order]
    below = np.append(ordered[1:], ordered[-1])
    parted = np.append(ordered[1:] != ordered[:-1], True)

    def lowest(counts: NDArray[Any]) -> NDArray[np.float64]:
        """Return thresholds and recalls (2, resamples) for counts (resamples, n); infinity and 0 for none."""
        accepted, hits = np.cumsum(counts, axis=1), np.cumsum(counts * correct, axis=1)
        good = parted & (accepted > 0) & (hits >= precision * accepted)
        last = good.shape[1] - 1 - good[:, ::-1].argmax(axis=1)
        rows, reached = np.arange(len(counts)), good.any(axis=1)
        recall = hits[rows, last] / np.maximum((accepted if of_all else hits)[:, -1], 1)
        return np.stack([np.where(reached, (ordered + below)[last] / 2, np.inf), np.where(reached, recall, 0.0)])

    drawn = np.concatenate([lowest(counts[:, order]) for counts in clusters.counts(resamples, [0])], axis=1)
    at, recall = lowest(np.ones((1, len(ordered)), np.int64))[:, 0]
    ends = np.quantile(drawn, (0.025, 0.975), axis=1, method="closest_observation")
    if ends[0, 1] == ends[1, 1]:
        ends[:, 1] = of_alike(recall, clusters.effective * (1 if of_all else right.mean()), 0, 1)
    ends = np.stack([with_width(*ends)[0], ends[1]])
    values_by_name: dict[str, float | None] = {}
    names = ("threshold_at_precision", "recall_at_precision")
    for name, scale, value, (low, high) in zip(names, (1, 100), (at, recall), ends.T, strict=True):
        for end, number in (("", value), ("_low", low), ("_high", high)):
            values_by_name[name + end] = scale * float(number) if np.isfinite([at, number]).all() else None
    return values_by_name


def score(data: Texts, rows: Values) -> Values:
    """Return scores (encoders,), at most 1, of values (encoders, units)."""
    if data.kind in ("score", "binary"):
        return measured(rows, data.gold, "spearman" if data.kind == "score" else "auc")
    means: Values = rows[:, : data.units].mean(axis=1)
    return means


def sampled(data: Texts, values: list[Values]) -> Sample:
    """Return scores x100 of values (units,), or (seeds, units) with seeds from 0."""
    every, clusters = [np.atleast_2d(value) for value in values], data.clusters
    rows, ends = np.concatenate(every), np.cumsum([*map(len, every)])[:-1]
    if data.kind in ("score", "binary"):
        statistic = statistic_of(rows, data.gold, "spearman" if data.kind == "score" else "auc")
        drawn = np.concatenate([statistic(counts) for counts in clusters.counts(RESAMPLES, [0])], axis=1)
    elif rows.shape[1] > data.units:
        halves = rows[:, data.units :]
        drawn = score(data, rows)[:, None] + np.concatenate([halves, -halves], axis=1)
    else:
        parts = clusters.counts(RESAMPLES, [0])
        drawn = np.concatenate([rows @ counts.T / counts.sum(axis=1) for counts in parts], axis=1)
    means = np.stack([part.mean(axis=0) for part in np.split(drawn, ends)])
    by_seed = np.split(100 * score(data, rows), ends)
    # Halves tell the variance of half as many texts, and an AUC's noise is that of the rarer label.
    alone = data.alone if data.kind == "binary" else clusters.effective / (2 if rows.shape[1] > data.units else 1)
    return sample(by_seed, 100 * clusters.unbiased(means, alone), round(alone))


def intervals(data: Texts, of_all: Sample) -> tuple[Values, Values]:
    """Return 95 % percentiles (methods,), widened to t's quantiles and by the noise of seeds, within the range.

    An AUC has the interval of its logit, whose noise is as large on both sides (Pepe 2003). Where no resample differs,
    it is the exact one of units that are all alike. Of an AUC a unit is a couple of a pair alike and one that is not;
    of Spearman's correlation it is two pairs with an order, whose share gives Kendall's tau, and (3 tau - 1) / 2 is its
    least value (Durbin and Stuart 1951).
    """
    from scipy.special import expit, logit, ndtri

    value, (error, quantile) = of_all.value, own_noise(of_all)
    sides = np.quantile(of_all.drawn, (LEVEL / 2, 1 - LEVEL / 2), axis=1) - value
    # Seeds have no percentiles: their normal noise is added to both sides.
    of_seeds = np.sqrt(of_all.seed_variance)
    sides = np.where(of_seeds > 0, np.array([[-1], [1]]) * np.hypot(sides, of_seeds * ndtri(1 - LEVEL / 2)), sides)
    ends = value + quantile / ndtri(1 - LEVEL / 2) * sides
    if data.kind == "binary":
        with np.errstate(divide="ignore", invalid="ignore"):
            half = quantile * np.hypot(error, of_seeds) / (value * (1 - value / 100))
            ends = 100 * expit(logit(value / 100) + np.stack([-half, half]))
    for place in np.flatnonzero(np.isnan(with_width(*sides)[0])):
        ends[:, place] = of_alike(value[place], data.alone, 2 * LEAST[data.kind], 100 - LEAST[data.kind])
    low, high = np.clip(ends, LEAST[data.kind], 100)
    return low, high


def may_be_best(of_all: Sample) -> NDArray[np.bool_]:
    """Return which encoders (methods,) may be the best: the familywise set, and those whose gap may be 0.

    The latter limit wrong winners between two equally good encoders to 5 % of samples.
    """
    best = int(of_all.value.argmax())
    marks: NDArray[np.bool_] = best_set(of_all) | (differences(of_all).p[best] >= LEVEL)
    return marks
