"""What encoders score on a user's own texts: a value for each unit, and the scores in resamples of the units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmark.choosing.data import Texts, Values
from benchmark.metrics.correlation import undefined
from benchmark.stats.bootstrap import Metric, measured, statistic_of
from benchmark.stats.clusters import Clusters
from benchmark.stats.mcb import LEVEL, Sample, differences, not_told_apart, sample
from zoo.errors import ZooError
from zoo.roles import pair_similarities, similarities

RESAMPLES = 2_000
_TOP, _NEIGHBOURS = 10, 5
_AT_ONCE = 1 << 24  # similarities in memory


def measure(data: Texts, vectors: NDArray[Any], similarity: str = "cosine") -> tuple[Values, dict[str, float | None]]:
    """Return what vectors (texts, dim) give each unit (units,), and further measures.

    That is the similarity of a pair, nDCG of a query, or 1 where a text's nearest neighbours have its label. Raises
    ZooError where similarities are constant.
    """
    if data.kind == "label":
        return _neighbours(vectors[data.first], data.gold, similarity), {}
    if data.kind == "retrieval":
        return _retrieval(data, vectors, similarity)
    of_pairs = pair_similarities(vectors[data.first], vectors[data.second], similarity)
    if undefined(of_pairs, data.gold):
        raise ZooError(f"all its values of {similarity} are equal.")
    return of_pairs, {} if data.kind == "score" else threshold(of_pairs, data.gold, data.clusters)


def _neighbours(vectors: NDArray[Any], labels: Values, similarity: str) -> Values:
    from scipy import stats

    near = np.empty((len(vectors), min(_NEIGHBOURS, len(vectors) - 1)), np.intp)
    step = max(1, _AT_ONCE // len(vectors))
    for start in range(0, len(vectors), step):
        rows = np.arange(start, min(start + step, len(vectors)))
        scores = similarities(vectors[rows], vectors, similarity)
        scores[np.arange(len(rows)), rows] = -np.inf
        near[rows] = np.argpartition(-scores, near.shape[1] - 1, axis=1)[:, : near.shape[1]]
    right: Values = (stats.mode(labels[near], axis=1).mode == labels).astype(np.float64)
    return right


def _retrieval(data: Texts, vectors: NDArray[Any], similarity: str) -> tuple[Values, dict[str, float | None]]:
    """Return nDCG of each query among all documents but its own text, and the mean recall at 1 and at 10.

    The gain of a document is its grade, as in trec_eval and mteb. A query's own text is a candidate if it is relevant.
    """
    documents = np.arange(data.queries, len(vectors))
    relevant = data.gold > 0
    queries = np.unique(data.first[relevant])
    discount = 1 / np.log2(np.arange(2, _TOP + 2))
    grades = {query: dict(zip(rows["second"], rows["gold"], strict=True)) for query, rows in pd.DataFrame(
        {"first": data.first[relevant], "second": data.second[relevant], "gold": data.gold[relevant]}
    ).groupby("first")}  # fmt: skip
    ndcg, recall = np.empty(len(queries)), np.empty((len(queries), 2))
    step = max(1, _AT_ONCE // len(documents))
    for start in range(0, len(queries), step):
        some = queries[start : start + step]
        near = similarities(vectors[some], vectors[documents], similarity)
        if data.same is not None:
            for row, query in enumerate(some):
                if data.same[query] >= 0 and data.same[query] not in grades[query]:
                    near[row, data.same[query] - data.queries] = -np.inf
        best = documents[np.argsort(-near, axis=1, kind="stable")[:, :_TOP]]
        for row, (query, top) in enumerate(zip(some, best, strict=True), start):
            gains = np.array([grades[query].get(place, 0.0) for place in top])
            ideal = np.sort([*grades[query].values()])[::-1][:_TOP]
            ndcg[row] = discount[: len(top)] @ gains / (discount[: len(ideal)] @ ideal)
            recall[row] = (gains[0] > 0) / len(grades[query]), (gains > 0).sum() / len(grades[query])
    return ndcg, {"recall@1": 100 * float(recall[:, 0].mean()), f"recall@{_TOP}": 100 * float(recall[:, 1].mean())}


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
    inside = np.concatenate([[True], ordered[1:] != ordered[:-1], [True]])  # equal cosines cannot be parted

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
    return {"threshold": at, "threshold low": low, "threshold high": high, "accuracy": accuracy}


def sampled(data: Texts, values: list[Values]) -> Sample:
    """Return the scores x100 of encoders with their resampled ones, from the values (units,) of each."""
    rows, clusters = np.stack(values), data.clusters
    if data.kind in ("score", "binary"):
        metric: Metric = "spearman" if data.kind == "score" else "auc"
        score, statistic = measured(rows, data.gold, metric), statistic_of(rows, data.gold, metric)
        drawn = np.concatenate([statistic(counts) for counts in clusters.counts(RESAMPLES, [0])], axis=1)
    else:
        score, parts = rows.mean(axis=1), clusters.counts(RESAMPLES, [0])
        drawn = np.concatenate([rows @ counts.T / counts.sum(axis=1) for counts in parts], axis=1)
    return sample([[100 * one] for one in score], 100 * clusters.unbiased(drawn), round(clusters.effective))


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
