"""EvalRank (Wang et al. 2022): the place of a sentence's paraphrase among all sentences of the STS sets.

As in the released code, vectors are centred on the mean of all sentences, the query included, and ties are won. Its
pairs are different (docs/protocol.md); here they are the test pairs of STS12-16 and STS-B.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from benchmark.data.catalog import Dataset
from benchmark.data.sources import DataSource, Located
from benchmark.metrics.items import accuracy_of, ranked_part
from benchmark.reasons import reason
from benchmark.tasks.base import Lookup, PairsData, Scores, TaskData, TaskRow
from benchmark.tasks.sts import ROWS as STS
from zoo.errors import MissingError
from zoo.files import sha256_json

Measure = Literal["cosine", "l2"]

POSITIVE = 4.0
"""The least gold score of a paraphrase: the 75th percentile of STS pairs; the released list has the best quarter."""

_MEASURES: dict[str, Measure] = {"evalrank-cosine": "cosine", "evalrank-l2": "l2"}
_SETS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B")
_BLOCK, _TIE = 256, 1e-9
# More than products of float32 vectors of length 1 are off.
_ROUNDING = 1e-5


def partner_ranks(
    vectors: NDArray[np.floating], queries: NDArray[np.intp], partners: NDArray[np.intp], measure: Measure
) -> NDArray[np.int64]:
    """Return the rank (pairs,) of each query's partner among all rows of vectors (n, dim), the query aside.

    A tie is won, as in the released code. A row of zeros, an uncovered text, is nobody's neighbour; a pair with such a
    row has the last rank.
    """
    points, known = vectors.astype(np.float64), np.asarray(vectors.any(axis=1))
    points -= points.sum(axis=0) / max(known.sum(), 1)
    points[~known] = 0
    lengths = np.sqrt(np.einsum("nd,nd->n", points, points))
    points /= np.where(lengths > 0, lengths, 1)[:, None] if measure == "cosine" else max(lengths.max(), _TIE)
    # The nearer in l2, the larger q.x - x.x / 2.
    penalty = np.zeros(len(points)) if measure == "cosine" else np.einsum("nd,nd->n", points, points) / 2
    penalty[~known] = np.inf
    ranks, rounded, cost = np.empty(len(queries), np.int64), points.astype(np.float32), penalty.astype(np.float32)
    # A query of several pairs is compared with all rows once.
    order = np.argsort(queries, kind="stable")
    for start in range(0, len(queries), _BLOCK):
        block = order[start : start + _BLOCK]
        distinct, which = np.unique(queries[block], return_inverse=True)
        nearness = rounded[distinct] @ rounded.T
        nearness -= cost
        nearness[np.arange(len(distinct)), distinct] = -np.inf
        nearness, asked = nearness[which], points[queries[block]]
        of_partner = np.einsum("qd,qd->q", asked, points[partners[block]]) - penalty[partners[block]]
        low, high = ((of_partner + side).astype(np.float32)[:, None] for side in (-_ROUNDING, _ROUNDING))
        nearer = np.count_nonzero(nearness > high, axis=1)
        # What float32 leaves open, few rows beside the partner itself, is computed again.
        row, column = np.divmod(np.flatnonzero((nearness > low) & (nearness <= high)), len(points))
        if len(row) > _BLOCK * len(asked):
            again = (asked @ points.T)[row, column]
        else:
            again = np.empty(len(row))
            for i in range(0, len(row), 4096):
                some = slice(i, i + 4096)
                again[some] = np.einsum("nd,nd->n", asked[row[some]], points[column[some]])
        more = again - penalty[column] > of_partner[row] + _TIE
        ranks[block] = nearer + np.bincount(row[more], minlength=len(asked)) + 1
    ranks[~(known[queries] & known[partners])] = len(points)
    return ranks


class EvalRankScores(Scores, total=False):
    """Shares of partners among the first and the first three; their mean rank among `sentences`."""

    hits_1: float
    hits_3: float
    mean_rank: float
    sentences: int


class EvalRankData(TaskData):
    metrics = ("items",)

    def __init__(
        self, located: Located, pairs: list[tuple[str, str]], sentences: list[str], measure: Measure = "cosine"
    ) -> None:
        self.located, self.pairs, self.measure = located, pairs, measure
        self.sentences = list(dict.fromkeys(sentences))
        self.rows = len(pairs)

    def texts(self) -> list[str]:
        return self.sentences

    def score(self, vectors: Lookup) -> EvalRankScores:
        """Return the mean reciprocal rank (`main`), and the shares at the top."""
        place = {sentence: number for number, sentence in enumerate(self.sentences)}
        queries, partners = np.array([(place[first], place[second]) for first, second in self.pairs]).T
        matrix = vectors(self.sentences)
        if not (finite := np.isfinite(matrix).all()) or not np.ptp(matrix, axis=0).any():
            # Nothing is nearer than a partner at NaN, or at the same place as all: each rank would be the first.
            why = reason("constant" if finite else "sentence not finite")
            return {"main": None, "main_metric": "mrr", "reason": why}
        ranks = partner_ranks(matrix, queries, partners, self.measure)
        items = ranked_part(ranks, self.pairs)
        return {
            "main": accuracy_of(items),
            "main_metric": "mrr",
            "reason": None,
            "items": items,
            "mrr": accuracy_of(items),
            "hits_1": float(np.mean(ranks == 1)),
            "hits_3": float(np.mean(ranks <= 3)),
            "mean_rank": float(np.mean(ranks)),
            "sentences": len(self.sentences),
        }


def paraphrases(row: TaskRow, data: DataSource, limit: int | None, *, measure: Measure) -> EvalRankData:
    """Read the test pairs of STS12-16 and STS-B, once in either order; STS-B's other sentences are only searched."""
    sets = {task.name: cast(PairsData, task.load(data, limit)) for task in STS if task.name in _SETS}
    positive: dict[frozenset[str], tuple[str, str]] = {}
    sentences: list[str] = []
    for of_set in sets.values():
        for pairs in of_set.subsets.values():
            for first, second, gold in zip(pairs.first, pairs.second, pairs.gold, strict=True):
                if gold >= POSITIVE and first != second:
                    positive.setdefault(frozenset((first, second)), (first, second))
        others = [pairs.head(limit).texts() for pairs in (of_set.dev, of_set.train) if pairs]
        sentences += [text for texts in (of_set.texts(), *others) for text in texts]
    if not positive:
        raise MissingError(f"{row.name}: none of the first pairs is a paraphrase; take a larger limit.")
    located, entry = sets["STS-B"].located, Dataset(row.dataset, row.title, "", rows={"test": len(positive)})
    digest = sha256_json([POSITIVE, *(of_set.located.sha256 for of_set in sets.values())])
    located = dataclasses.replace(located, dataset=entry, sha256=digest)
    return EvalRankData(located, list(positive.values()), sentences, measure)


class _EvalRank(TaskRow):
    licence = "that of STS12-16 and the STS Benchmark"
    citation = "Wang, Kuo and Li 2022, Just Rank: Rethinking Evaluation with Word and Sentence Similarities"


ROWS = tuple(
    _EvalRank(
        name,
        f"EvalRank built from STS12-16 and STS-B, {measure}",
        "EvalRank-STS",
        partial(paraphrases, measure=measure),
        "tokenised",
        "mean reciprocal rank",
    )
    for name, measure in _MEASURES.items()
)
