"""The user's own texts as a test of encoders: what kind they are, and what each encoder scores on each unit of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmark.data.readers.tables import read
from benchmark.metrics.correlation import cosine, undefined
from benchmark.stats.bootstrap import Metric, drawn_counts
from benchmark.stats.mcb import LEVEL, Sample, differences, not_told_apart, sample, sample_pairs
from zoo.errors import MissingError, UsageError, ZooError

Kind = Literal["score", "binary", "retrieval", "label"]

MEASURES: dict[Kind, str] = {
    "score": "Spearman",
    "binary": "AUC",
    "retrieval": "nDCG@10",
    "label": "5-NN accuracy",
}
UNITS: dict[Kind, str] = {"score": "pairs", "binary": "pairs", "retrieval": "queries", "label": "texts"}
FEWEST = 20  # units: with fewer, no interval covers what it claims
RESAMPLES = 2_000
_KINDS: dict[str, Kind] = {
    "scored pairs": "score",
    "binary pairs": "binary",
    "pairs": "retrieval",
    "triples": "retrieval",
    "labelled texts": "label",
}
_TOP, _NEIGHBOURS = 10, 5
_AT_ONCE = 1 << 24  # cosines in memory

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Texts:
    """Distinct texts, and what is known of them.

    `first` and `second` are places (n,) in `texts`; `gold` are scores, 0 and 1, or numbers of labels (n,). In
    retrieval, `first` are queries and `second` their documents, and `extra` are documents of no query.
    """

    kind: Kind
    report: str
    texts: list[str]
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    gold: Values
    extra: NDArray[np.intp]

    @property
    def units(self) -> int:
        """The number of what is resampled: pairs, queries or texts."""
        return len(np.unique(self.first)) if self.kind == "retrieval" else len(self.first)


def read_texts(path: Path, columns: str | None = None, kind: Kind | None = None) -> Texts:
    """Read pairs with scores or with 0 and 1, queries with documents, or texts with labels.

    `columns` and `kind` replace what the table itself shows. Raises UsageError for other tables, for fewer than
    `FEWEST` units, and where all scores or labels are equal; CorruptError for a table that cannot be read.
    """
    if not path.is_file():
        raise MissingError(f"--pairs {path}: there is no such file.")
    table = read(path, columns, take={"score": "scores", "retrieval": "texts"}.get(kind or "", "all"))  # type: ignore[arg-type]
    frame = table.frame
    meant = _KINDS.get(table.kind)
    if kind == "score" and meant == "binary":  # a score may have two values
        meant = "score"
    if meant is None or kind not in (None, meant):
        shown = {"texts": "one column of texts", "labelled pairs": "pairs with labels of inference"}
        raise UsageError(
            f"{path} has {shown.get(table.kind, table.kind)}{f', not --kind {kind}' if kind and meant else ''}; give"
            " two texts and a score or 0 and 1, a query and a document, or a text and a label (name them: --columns)."
        )
    if meant == "label":
        frame = frame.drop_duplicates("first")  # an equal text would lend its label
    sides = [frame[role] for role in ("first", "second", "negative") if role in frame]
    texts, place = np.unique(np.concatenate([side.to_numpy(str) for side in sides]), return_inverse=True)
    places = np.split(place.astype(np.intp), len(sides))
    gold = np.zeros(len(frame))
    if meant in ("score", "binary"):
        gold = frame["score"].to_numpy(np.float64)
    elif meant == "label":
        gold = pd.factorize(frame["label"])[0].astype(np.float64)
    negatives = places[2:] or [np.empty(0, np.intp)]
    found = Texts(meant, table.report, [str(text) for text in texts], places[0], places[:2][-1], gold, negatives[0])
    if found.units < FEWEST:
        raise UsageError(
            f"{path} has {found.units} {UNITS[meant]}; with fewer than {FEWEST} nothing can be told. Give more."
        )
    if meant != "retrieval" and np.ptp(gold) == 0:
        raise UsageError(
            f"{path}: all {'labels' if meant == 'label' else 'scores'} are equal, so no encoder can agree."
        )
    return found


def measure(data: Texts, vectors: NDArray[Any]) -> tuple[Values, dict[str, float | None]]:
    """Return what vectors (texts, dim) give each unit (units,), and further measures.

    That is the cosine of a pair, nDCG of a query, or 1 where a text's nearest neighbours have its label. Raises
    ZooError where cosines are constant.
    """
    if data.kind == "label":
        right = _neighbours(vectors[data.first], data.gold)
        return right, {}
    if data.kind == "retrieval":
        return _retrieval(data, vectors)
    cosines = cosine(vectors[data.first], vectors[data.second])
    if undefined(cosines, data.gold):
        raise ZooError("all its cosines are equal.")
    return cosines, {} if data.kind == "score" else threshold(cosines, data.gold)


def _neighbours(vectors: NDArray[Any], labels: Values) -> Values:
    from scipy import stats
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=_NEIGHBOURS, metric="cosine").fit(vectors).kneighbors(return_distance=False)
    found: Values = (stats.mode(labels[near], axis=1).mode == labels).astype(np.float64)
    return found


def _retrieval(data: Texts, vectors: NDArray[Any]) -> tuple[Values, dict[str, float | None]]:
    """Return nDCG of each query among all documents but its own text, and the mean recall at 1 and at 10."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    documents, queries = np.unique(np.concatenate([data.second, data.extra])), np.unique(data.first)
    discount = 1 / np.log2(np.arange(2, _TOP + 2))
    relevant = pd.Series(data.second).groupby(data.first).agg(set)
    ndcg, recall = np.empty(len(queries)), np.empty((len(queries), 2))
    step = max(1, _AT_ONCE // len(documents))
    for start in range(0, len(queries), step):
        some = queries[start : start + step]
        near = unit[some] @ unit[documents].T
        near[some[:, None] == documents] = -np.inf
        best = documents[np.argsort(-near, axis=1, kind="stable")[:, :_TOP]]
        for row, (query, top) in enumerate(zip(some, best, strict=True), start):
            hits = np.isin(top, list(relevant[query]))
            wanted = len(relevant[query])
            ndcg[row] = discount[: len(top)] @ hits / discount[:wanted].sum()
            recall[row] = hits[0] / wanted, hits.sum() / wanted
    return ndcg, {"recall@1": 100 * float(recall[:, 0].mean()), f"recall@{_TOP}": 100 * float(recall[:, 1].mean())}


def threshold(cosines: Values, gold: Values, seed: int = 0, resamples: int = RESAMPLES) -> dict[str, float | None]:
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

    drawn = np.concatenate([best(counts) for _, counts in drawn_counts(len(ordered), resamples, [seed])])
    at = float(best(np.ones((1, len(ordered)), np.int32))[0])
    low, high = map(float, np.quantile(drawn, (0.025, 0.975)))
    accuracy = 100 * float(((cosines > at) == (gold > 0)).mean())
    return {"threshold": at, "threshold low": low, "threshold high": high, "accuracy": accuracy}


def sampled(data: Texts, values: list[Values]) -> Sample:
    """Return the scores x100 of encoders with their resampled ones, from the values (units,) of each."""
    if data.kind in ("score", "binary"):
        metric: Metric = "spearman" if data.kind == "score" else "auc"
        found = sample_pairs(values, data.gold, metric=metric, resamples=RESAMPLES)
        return sample([[100 * one] for one in found.value], 100 * found.drawn, len(data.gold))
    n, rows = len(values[0]), 100 * np.stack(values)
    drawn = np.concatenate([rows @ counts.T / n for _, counts in drawn_counts(n, RESAMPLES, [0])], axis=1)
    return sample([[one] for one in rows.mean(axis=1)], drawn, n)


def may_be_best(of_all: Sample) -> NDArray[np.bool_]:
    """Return which encoders (methods,) may be the best: the familywise set, and those whose gap may be 0.

    The second part keeps a winner from being named between two equally good encoders, in either direction, in more than
    5 % of samples.
    """
    best = int(of_all.value.argmax())
    found: NDArray[np.bool_] = not_told_apart(of_all) | (differences(of_all).p[best] >= LEVEL)
    return found
