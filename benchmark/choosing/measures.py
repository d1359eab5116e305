"""What encoders score on a user's own texts: a value for each unit, and the scores in resamples of the units."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmark.choosing.data import Texts, Values
from benchmark.metrics.correlation import undefined
from benchmark.stats.bootstrap import measured, statistic_of
from benchmark.stats.clusters import Clusters
from benchmark.stats.mcb import LEVEL, Sample, differences, not_told_apart, sample
from zoo.errors import ZooError
from zoo.roles import pair_similarities, similarities

RESAMPLES = 2_000
_TOP, _NEIGHBOURS = 10, 5
_WORDS = re.compile(r"[^\W\d_]+")
_AT_ONCE = 1 << 24


def measure(
    data: Texts, vectors: NDArray[Any], similarity: str = "cosine", at_precision: float | None = None
) -> tuple[Values, dict[str, float | None]]:
    """Return what vectors (texts, dim) give each unit (units,), and further measures.

    That is the similarity of a pair, nDCG of a query, or 1 where a text's nearest neighbours have its label.
    `at_precision` adds `threshold_at`. Raises ZooError where similarities are constant.
    """
    if data.kind == "label":
        return _neighbours(data, vectors, similarity)
    if data.kind == "retrieval":
        documents = vectors[data.queries :]
        return search(data, lambda some: similarities(vectors[some], documents, similarity), at_precision)
    of_pairs = pair_similarities(vectors[data.first], vectors[data.second], similarity)
    if undefined(of_pairs, data.gold):
        raise ZooError(f"all its values of {similarity} are equal.")
    if data.kind == "score":
        return of_pairs, {}
    more = threshold(of_pairs, data.gold, data.clusters)
    if at_precision is not None:
        more |= threshold_at(at_precision, of_pairs, data.gold, data.clusters)
    return of_pairs, more


def _neighbours(data: Texts, vectors: NDArray[Any], similarity: str) -> tuple[Values, dict[str, float | None]]:
    """Return whether each text's neighbours have its label, and the accuracy where none is its near-duplicate."""
    from scipy import stats

    vectors = vectors[data.first]
    near = np.empty((len(vectors), min(_NEIGHBOURS, len(vectors) - 1)), np.intp)
    step = max(1, _AT_ONCE // len(vectors))
    for start in range(0, len(vectors), step):
        rows = np.arange(start, min(start + step, len(vectors)))
        scores = similarities(vectors[rows], vectors, similarity)
        scores[np.arange(len(rows)), rows] = -np.inf
        near[rows] = np.argpartition(-scores, near.shape[1] - 1, axis=1)[:, : near.shape[1]]
    right: Values = (stats.mode(data.gold[near], axis=1).mode == data.gold).astype(np.float64)
    words = [frozenset(_WORDS.findall(data.texts[place].casefold())) for place in data.first]
    alike = np.array([any(_nearly_equal(words[row], words[one]) for one in near[row]) for row in range(len(near))])
    others = np.nan if alike.all() else 100 * float(right[~alike].mean())
    return right, {"near_duplicates": float(alike.sum()), "accuracy_without_them": others}


def _nearly_equal(first: frozenset[str], second: frozenset[str]) -> bool:
    """Return whether at least four fifths of the words of two texts are common to both; digits do not count."""
    return 5 * len(first & second) >= 4 * len(first | second) > 0


def search(
    data: Texts, near: Callable[[NDArray[np.intp]], NDArray[Any]], at_precision: float | None = None
) -> tuple[Values, dict[str, float | None]]:
    """Return nDCG@10 of each query among all documents but its own text, and the means of recall and MRR.

    `near` gives the similarities (queries, documents) of some queries. The definitions are those of
    sentence-transformers' InformationRetrievalEvaluator: recall@k is the share of a query's relevant documents among
    the first k, MRR@10 is 1 / rank of the first relevant one of ten. The gain of a document is its grade, as in
    trec_eval and mteb. A query's own text is a candidate if it is relevant.
    """
    relevant, queries = data.gold > 0, data.asked
    discount = 1 / np.log2(np.arange(2, _TOP + 2))
    grades = {query: dict(zip(rows["second"], rows["gold"], strict=True)) for query, rows in pd.DataFrame(
        {"first": data.first[relevant], "second": data.second[relevant], "gold": data.gold[relevant]}
    ).groupby("first")}  # fmt: skip
    ndcg, means, hits = np.empty(len(queries)), np.empty((len(queries), 3)), np.empty((len(queries), 2))
    step = max(1, _AT_ONCE // max(len(data.texts) - data.queries, 1))
    for start in range(0, len(queries), step):
        some = queries[start : start + step]
        scores = near(some)
        if data.same is not None:
            for row, query in enumerate(some):
                if data.same[query] >= 0 and data.same[query] not in grades[query]:
                    scores[row, data.same[query] - data.queries] = -np.inf
        best = np.argsort(-scores, axis=1, kind="stable")[:, :_TOP]
        for row, (query, top) in enumerate(zip(some, best, strict=True)):
            gains = np.array([grades[query].get(place + data.queries, 0.0) for place in top])
            ideal = np.sort([*grades[query].values()])[::-1][:_TOP]
            ndcg[start + row] = discount[: len(top)] @ gains / (discount[: len(ideal)] @ ideal)
            first, count = int(np.argmax(gains > 0)), len(grades[query])
            means[start + row] = (gains[0] > 0) / count, (gains > 0).sum() / count, (gains[first] > 0) / (first + 1)
            hits[start + row] = scores[row, top[0]], gains[0] > 0
    names = ("recall_at_1", f"recall_at_{_TOP}", f"mrr_at_{_TOP}")
    more: dict[str, float | None] = dict(zip(names, 100 * means.mean(axis=0), strict=True))
    if at_precision is not None:
        more |= threshold_at(at_precision, hits[:, 0], hits[:, 1], data.clusters, of_all=True)
    return ndcg, more


def threshold(
    cosines: Values, gold: Values, clusters: Clusters, seed: int = 0, resamples: int = RESAMPLES
) -> dict[str, float | None]:
    """Return the cosine from which on "equal" is most often right, its 95 % interval, and its accuracy on these pairs.

    The interval is that of the percentiles of the threshold in resamples of the pairs; simulated, it covers the best
    threshold of the population (docs/choose.md).
    """
    order = np.argsort(cosines)
    ordered, steps = cosines[order], 1 - 2 * gold[order].astype(np.int32)
    between = np.concatenate([ordered[:1], (ordered[1:] + ordered[:-1]) / 2, ordered[-1:]])
    # Equal cosines cannot be parted.
    inside = np.concatenate([[True], ordered[1:] != ordered[:-1], [True]])

    def best(counts: NDArray[Any]) -> Values:
        """Return the middle of the best thresholds (resamples,) for counts (resamples, n) of the pairs."""
        right = np.zeros((len(counts), len(ordered) + 1), np.int32)
        np.cumsum(counts * steps, axis=1, out=right[:, 1:])
        right[:, ~inside] = np.iinfo(np.int32).min
        top = right == right.max(axis=1, keepdims=True)
        last = top.shape[1] - 1 - top[:, ::-1].argmax(axis=1)
        middle: Values = (between[top.argmax(axis=1)] + between[last]) / 2
        return middle

    drawn = np.concatenate([best(counts[:, order]) for counts in clusters.counts(resamples, [seed])])
    at = float(best(np.ones((1, len(ordered)), np.int32))[0])
    low, high = map(float, np.quantile(drawn, (0.025, 0.975)))
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
    """Return the lowest threshold from which on at least `precision` are right, and its recall, with 95 % intervals.

    Recall is the share of equal pairs that it accepts; `of_all`: of all queries, those whose best hit is right and
    accepted. None where no threshold is so precise; an upper end of None: many resamples have none.
    """
    order = np.argsort(-similarity, kind="stable")
    ordered, correct = similarity[order], right[order] > 0
    below = np.append(ordered[1:], ordered[-1])
    parted = np.append(ordered[1:] != ordered[:-1], True)

    def lowest(counts: NDArray[Any]) -> NDArray[np.float64]:
        """Return thresholds and recalls (2, resamples) for counts (resamples, n); infinity and 0 where none is."""
        accepted, hits = np.cumsum(counts, axis=1), np.cumsum(counts * correct, axis=1)
        good = parted & (accepted > 0) & (hits >= precision * accepted)
        last = good.shape[1] - 1 - good[:, ::-1].argmax(axis=1)
        rows, reached = np.arange(len(counts)), good.any(axis=1)
        recall = hits[rows, last] / np.maximum((accepted if of_all else hits)[:, -1], 1)
        return np.stack([np.where(reached, (ordered + below)[last] / 2, np.inf), np.where(reached, recall, 0.0)])

    drawn = np.concatenate([lowest(counts[:, order]) for counts in clusters.counts(resamples, [0])], axis=1)
    at, recall = lowest(np.ones((1, len(ordered)), np.int64))[:, 0]
    ends = np.quantile(drawn, (0.025, 0.975), axis=1, method="closest_observation")
    values_by_name: dict[str, float | None] = {}
    names = ("threshold_at_precision", "recall_at_precision")
    for name, scale, value, (low, high) in zip(names, (1, 100), (at, recall), ends.T, strict=True):
        for end, number in (("", value), ("_low", low), ("_high", high)):
            values_by_name[name + end] = scale * float(number) if np.isfinite([at, number]).all() else None
    return values_by_name


def score(data: Texts, rows: Values) -> Values:
    """Return the score (encoders,), at most 1, of the values (encoders, units) of the units."""
    if data.kind in ("score", "binary"):
        return measured(rows, data.gold, "spearman" if data.kind == "score" else "auc")
    means: Values = rows.mean(axis=1)
    return means


def sampled(data: Texts, values: list[Values]) -> Sample:
    """Return the scores x100 of encoders with their resampled ones, from the values of each.

    Values are (units,), or (seeds, units) of an encoder that was trained several times, each with seeds from 0.
    """
    every, clusters = [np.atleast_2d(one) for one in values], data.clusters
    rows, ends = np.concatenate(every), np.cumsum([len(one) for one in every])[:-1]
    if data.kind in ("score", "binary"):
        statistic = statistic_of(rows, data.gold, "spearman" if data.kind == "score" else "auc")
        drawn = np.concatenate([statistic(counts) for counts in clusters.counts(RESAMPLES, [0])], axis=1)
    else:
        parts = clusters.counts(RESAMPLES, [0])
        drawn = np.concatenate([rows @ counts.T / counts.sum(axis=1) for counts in parts], axis=1)
    means = np.stack([part.mean(axis=0) for part in np.split(drawn, ends)])
    by_seed = np.split(100 * score(data, rows), ends)
    return sample(by_seed, 100 * clusters.unbiased(means), round(clusters.effective))


def intervals(of_all: Sample) -> tuple[Values, Values]:
    """Return the 95 % interval of each score (methods,): percentiles, as much wider as t's quantile is than z's."""
    from scipy.special import ndtri, stdtrit

    wider = stdtrit(of_all.pairs_df, 1 - LEVEL / 2) / ndtri(1 - LEVEL / 2)
    sides = np.quantile(of_all.drawn, (LEVEL / 2, 1 - LEVEL / 2), axis=1) - of_all.value
    low, high = np.clip(of_all.value + wider * sides, -100, 100)
    return low, high


def may_be_best(of_all: Sample) -> NDArray[np.bool_]:
    """Return which encoders (methods,) may be the best: the familywise set, and those whose gap may be 0.

    The second part keeps a winner from being named between two equally good encoders, in either direction, in more than
    5 % of samples.
    """
    best = int(of_all.value.argmax())
    marks: NDArray[np.bool_] = not_told_apart(of_all) | (differences(of_all).p[best] >= LEVEL)
    return marks
