"""The user's own texts as a test of encoders: what kind they are, and what each encoder scores on each unit of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmark.data.readers.search import is_search, read_search
from benchmark.data.readers.tables import Table, Take, read
from benchmark.metrics.correlation import undefined
from benchmark.stats.bootstrap import Metric, drawn_counts
from benchmark.stats.mcb import LEVEL, Sample, differences, not_told_apart, sample, sample_pairs
from zoo.errors import MissingError, UsageError, ZooError
from zoo.roles import pair_similarities, similarities

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
    "judged pairs": "retrieval",
    "labelled texts": "label",
}
_TAKEN: dict[Kind | None, Take] = {
    None: "measured",
    "score": "scores",
    "binary": "binary",
    "retrieval": "judged",
    "label": "labels",
}
_TOP, _NEIGHBOURS = 10, 5
_AT_ONCE = 1 << 24  # similarities in memory

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Texts:
    """Texts, and what is known of them.

    `first` and `second` are places (n,) in `texts`; `gold` are scores, 0 and 1, numbers of labels, or grades of
    relevance (n,), of which 0 is not relevant. In retrieval the first `queries` texts ask, and all others are the
    documents; `same` is the place of the document that has a query's own text, -1 without one (queries,).
    """

    kind: Kind
    report: str
    texts: list[str]
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    gold: Values
    queries: int = 0
    same: NDArray[np.intp] | None = None

    @property
    def units(self) -> int:
        """The number of what is resampled: pairs, queries with a relevant document, or texts."""
        return len(np.unique(self.first[self.gold > 0])) if self.kind == "retrieval" else len(self.first)


def read_texts(source: Any, columns: str | None = None, kind: Kind | None = None) -> Texts:
    """Read pairs with scores or with 0 and 1, queries with documents, or texts with labels.

    `source` is a table's path, a folder of BEIR or of `Dataset.save_to_disk`, a DataFrame or a Dataset. `columns` and
    `kind` are orders, which replace what the table itself shows. Raises UsageError for other tables, for fewer than
    `FEWEST` units, and where all scores or labels are equal; CorruptError for a table that cannot be read.
    """
    path = Path(source) if isinstance(source, str | Path) else Path(type(source).__name__)
    if isinstance(source, str | Path):
        source = path
        if not path.exists():
            raise MissingError(f"--pairs {path}: there is no such file.")
        if path.is_dir() and is_search(path):
            return _enough(_of_folder(path, kind), path)
    table = read(source, columns, take=_TAKEN[kind])
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
    if meant == "retrieval":
        data = _search(table)
    else:
        if meant == "label":
            frame = frame.drop_duplicates("first")  # an equal text would lend its label
        sides = [frame[role] for role in ("first", "second") if role in frame]
        place, texts = pd.factorize(pd.concat(sides))
        places = np.split(place.astype(np.intp), len(sides))
        labels = pd.factorize(frame["label"])[0] if meant == "label" else frame["score"]
        gold = np.asarray(labels, dtype=np.float64)
        data = Texts(meant, table.report, texts.tolist(), places[0], places[-1], gold)
    return _enough(data, path)


def _enough(data: Texts, path: Path) -> Texts:
    meant = data.kind
    if data.units < FEWEST:
        raise UsageError(
            f"{path} has {data.units} {UNITS[meant]}; with fewer than {FEWEST} nothing can be told. Give more."
        )
    if meant != "retrieval" and np.ptp(data.gold) == 0:
        raise UsageError(
            f"{path}: all {'labels' if meant == 'label' else 'scores'} are equal, so no encoder can agree."
        )
    return data


def _search(table: Table) -> Texts:
    """Return the queries and documents of a table; a row without a grade is relevant, a negative is not."""
    frame = table.frame
    grades = frame["score"] if "score" in frame else pd.Series(1.0, frame.index)
    rows = frame.assign(grade=grades.clip(lower=0)).groupby(["first", "second"], sort=False)["grade"].max()
    asked, queries = pd.factorize(rows.index.get_level_values(0))
    others = [rows.index.get_level_values(1), *([frame["negative"]] if "negative" in frame else [])]
    answer, documents = pd.factorize(np.concatenate([np.asarray(one, dtype=object) for one in others]))
    judged, same = answer[: len(rows)], pd.Index(documents).get_indexer(queries)
    return searched(table.report, list(queries), list(documents), asked, judged, rows.to_numpy(float), same)


def _of_folder(path: Path, kind: Kind | None) -> Texts:
    """Return the queries that are judged, and the whole corpus."""
    if kind not in (None, "retrieval"):
        raise UsageError(f"{path} has queries, a corpus and judgements, not --kind {kind}.")
    search = read_search(path)
    rows = np.array(search.judged, np.float64).reshape(-1, 3)
    asked, places = np.unique(rows[:, 0].astype(np.intp), return_inverse=True)
    queries = [search.queries[place] for place in asked]
    places_of = {text: place for place, text in enumerate(search.documents)}
    same = np.array([places_of.get(text, -1) for text in queries], np.intp)
    grades = np.clip(rows[:, 2], 0, None)
    return searched(search.report, queries, search.documents, places, rows[:, 1].astype(np.intp), grades, same)


def searched(
    report: str,
    queries: list[str],
    documents: list[str],
    asked: NDArray[Any],
    judged: NDArray[Any],
    grades: Values,
    same: NDArray[Any],
) -> Texts:
    """Return texts for retrieval: row i judges document `judged[i]` for query `asked[i]` (n,)."""
    n = len(queries)
    without = n - len(np.unique(asked[grades > 0]))
    report += f"; {n - without:,} queries, {len(documents):,} documents"
    report += f", {without:,} queries without a relevant document left out" if without else ""
    repeated = int((same >= 0).sum())
    report += f", a query's own text is no candidate ({repeated:,})" if repeated else ""
    same = np.where(same < 0, -1, same + n)
    return Texts("retrieval", report, queries + documents, asked, judged + n, grades, n, same)


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
    return of_pairs, {} if data.kind == "score" else threshold(of_pairs, data.gold)


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
        of_metric = sample_pairs(values, data.gold, metric=metric, resamples=RESAMPLES)
        return sample([[100 * one] for one in of_metric.value], 100 * of_metric.drawn, len(data.gold))
    n, rows = len(values[0]), 100 * np.stack(values)
    drawn = np.concatenate([rows @ counts.T / n for _, counts in drawn_counts(n, RESAMPLES, [0])], axis=1)
    return sample([[one] for one in rows.mean(axis=1)], drawn, n)


def may_be_best(of_all: Sample) -> NDArray[np.bool_]:
    """Return which encoders (methods,) may be the best: the familywise set, and those whose gap may be 0.

    The second part keeps a winner from being named between two equally good encoders, in either direction, in more than
    5 % of samples.
    """
    best = int(of_all.value.argmax())
    marks: NDArray[np.bool_] = not_told_apart(of_all) | (differences(of_all).p[best] >= LEVEL)
    return marks
