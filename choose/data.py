"""The user's own texts as a test of encoders, divided once so that no text is in two parts."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmark.data.readers.frames import Table
from benchmark.data.readers.roles import Wanted
from benchmark.data.readers.search import is_search, read_search
from benchmark.data.readers.tables import read
from benchmark.stats.clusters import Clusters, clusters_of
from zoo.encoder import Corpus
from zoo.errors import MissingError, UsageError

Kind = Wanted

MEASURES: dict[Kind, str] = {
    "score": "Spearman",
    "binary": "AUC",
    "retrieval": "nDCG@10",
    "label": "5-NN accuracy",
}
# The least value of a measure, x100; the most is 100.
LEAST: dict[Kind, float] = {"score": -100.0, "binary": 0.0, "retrieval": 0.0, "label": 0.0}
UNITS: dict[Kind, str] = {"score": "pairs", "binary": "pairs", "retrieval": "queries", "label": "texts"}
# With fewer units, no interval covers what it claims; of unrelated ones, and of a label's, with fewer than these.
FEWEST, FEWEST_UNRELATED, FEW_UNRELATED = 20, 5, 10
_KINDS: dict[str, Kind] = {
    "scored pairs": "score",
    "binary pairs": "binary",
    "pairs": "retrieval",
    "triples": "retrieval",
    "judged pairs": "retrieval",
    "labelled texts": "label",
}
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Texts:
    """Texts and their relations.

    Args:
        first: Places (n,) in `texts`.
        second: Places (n,) in `texts` of the other side.
        gold: Scores, 0 and 1, numbers of labels, or grades of relevance (n,); grade 0 is not relevant.
        queries: In retrieval, the number of queries, before all documents.
        same: The place of the document with a query's own text, else -1 (queries,).
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
        return len(self.asked) if self.kind == "retrieval" else len(self.first)

    @functools.cached_property
    def asked(self) -> NDArray[np.intp]:
        return np.unique(self.first[self.gold > 0])

    @property
    def unrelated(self) -> tuple[float, str]:
        """The least number of unrelated units on which a comparison rests, and what they are."""
        if self.kind == "retrieval":
            return self.clusters.effective, "queries with unrelated documents"
        if self.kind == "binary":
            sides = [np.flatnonzero(self.gold == label) for label in (0, 1)]
            counts = [_disjoint(self.first[rows], self.second[rows]) for rows in sides]
            return min(counts), f"unrelated pairs labelled {int(np.argmin(counts))}"
        usual = np.unique(self.gold, return_counts=True)[1].max()
        others = float(self.units - usual), "texts outside the largest class" if self.kind == "label" else (
            "pairs with another score than the commonest"
        )  # fmt: skip
        return others if self.kind == "label" else min(others, (_disjoint(self.first, self.second), "unrelated pairs"))

    @property
    def alone(self) -> float:
        """The number of units whose values say nothing of one another."""
        if self.kind == "binary":
            return self.unrelated[0]
        halves = _disjoint(self.first, self.second) if self.kind == "score" else self.clusters.effective
        return halves if self.kind == "retrieval" else halves / 2

    @property
    def notes(self) -> list[str]:
        """What is said beside a verdict: few unrelated units, and the share of the largest class."""
        notes, (count, unit) = [], self.unrelated
        if count < FEW_UNRELATED:
            notes.append(
                f"The table has as much as {count:.0f} {unit}: intervals of fewer than {FEW_UNRELATED} are too narrow."
            )
        if self.kind in ("label", "binary"):
            share = 100 * np.unique(self.gold, return_counts=True)[1].max() / self.units
            what = "class" if self.kind == "label" else "label"
            notes.append(f"Always naming the largest {what} is right in {share:.1f} %.")
        return notes

    @functools.cached_property
    def clusters(self) -> Clusters:
        """The units resampled together: pairs with a common text, queries with equal relevant documents."""
        if self.kind == "label":
            return clusters_of(np.arange(self.units))
        if self.kind != "retrieval":
            return clusters_of(self.first, self.second)
        relevant = self.gold > 0
        answers = pd.Series(self.second[relevant]).groupby(self.first[relevant]).agg(frozenset)
        return clusters_of(pd.factorize(answers)[0].astype(np.intp))


def read_texts(source: Any, columns: str | None = None, kind: Kind | None = None) -> Texts:
    """Read pairs with scores or with 0 and 1, queries with documents, or texts with labels.

    `columns` and `kind` replace guesses from the table. Raises UsageError for a table of no kind, with fewer than
    `FEWEST` units, or with constant scores or labels, CorruptError for an unreadable table.
    """
    path = Path(source) if isinstance(source, str | Path) else Path(type(source).__name__)
    if isinstance(source, str | Path):
        source = path
        if not path.exists():
            raise MissingError(f"{path}: there is no such file.")
        if path.is_dir() and is_search(path):
            return _enough(_of_folder(path, kind), path)
    table = read(source, columns, kind)
    frame = table.frame
    meant = _KINDS.get(table.kind)
    if kind == "score" and meant == "binary":
        meant = "score"
    if meant is None or kind not in (None, meant):
        if table.kind == "labelled pairs":
            raise UsageError(
                f"{path} has pairs with labels of inference; write 1 for entailment and 0 for the other labels, which"
                " makes them pairs that are alike or not."
            )
        shown = "one column of texts" if table.kind == "texts" else table.kind
        raise UsageError(
            f"{path} has {shown}{f', not --kind {kind}' if kind and meant else ''}; give"
            " two texts and a score or 0 and 1, a query and a document, or a text and a label (name them: --columns)."
        )
    report = table.report
    if meant == "retrieval":
        _check_negatives(table, path)
        data = _search(table)
    else:
        if meant == "label":
            # An equal text would lend its label.
            frame = frame.drop_duplicates("first")
        else:
            frame, several = _averaged(frame, labels=meant == "binary")
            done = "labels, and are left out" if meant == "binary" else "scores, which are averaged"
            report += f"; {several:,} pairs have several {done}" if several else ""
        sides = [frame[role] for role in ("first", "second") if role in frame]
        place, texts = pd.factorize(pd.concat(sides))
        places = np.split(place.astype(np.intp), len(sides))
        labels = pd.factorize(frame["label"])[0] if meant == "label" else frame["score"]
        gold = np.asarray(labels, dtype=np.float64)
        data = Texts(meant, report, texts.tolist(), places[0], places[-1], gold)
    return _enough(data, path)


def _averaged(frame: pd.DataFrame, *, labels: bool) -> tuple[pd.DataFrame, int]:
    """Return one row a pair with the mean of its scores, and how many pairs have different ones; no labels differ."""
    sides = frame[["first", "second"]]
    turned = sides["first"] > sides["second"]
    pair = [sides["first"].where(~turned, sides["second"]), sides["second"].where(~turned, sides["first"])]
    groups = frame["score"].groupby(pair, sort=False)
    frame = frame.assign(score=groups.transform("mean"), several=groups.transform("nunique") > 1)
    frame = frame[~pd.concat(pair, axis=1, keys=["first", "second"]).duplicated()]
    several = int(frame["several"].sum())
    return (frame[~frame["several"]] if labels else frame).drop(columns="several"), several


def _disjoint(first: NDArray[np.intp], second: NDArray[np.intp]) -> float:
    """Return how many pairs have no text in common, those of the rarest texts taken first."""
    often = np.bincount(np.concatenate([first, second]), minlength=1)
    used: set[int] = set()
    count = 0
    for row in np.argsort(often[first] + often[second], kind="stable"):
        texts = {int(first[row]), int(second[row])}
        if not texts & used:
            used |= texts
            count += 1
    return float(count)


def _check_negatives(table: Table, path: Path) -> None:
    """Raise UsageError if most negatives are the positive itself."""
    if "negative" in table.frame:
        share = float((table.frame["negative"] == table.frame["second"]).mean())
        if share > 0.5:
            raise UsageError(
                f"{path}: {100 * share:.0f} % of the negatives equal the positive of their row; mend them."
            )


def _enough(data: Texts, path: Path) -> Texts:
    meant = data.kind
    if data.units < FEWEST:
        what = UNITS[meant] + " with a relevant document" * (meant == "retrieval")
        raise UsageError(
            f"{path} has {data.units} {what}; with fewer than {FEWEST} nothing can be told. Give more."
            f" Read: {data.report}."
        )
    if meant != "retrieval" and np.ptp(data.gold) == 0:
        raise UsageError(
            f"{path}: all {'labels' if meant == 'label' else 'scores'} are equal, so no encoder can agree."
        )
    count, unit = data.unrelated
    if count < FEWEST_UNRELATED:
        raise UsageError(
            f"{path}: {data.units:,} {UNITS[meant]} have as much as {count:.0f} {unit}, and with fewer than"
            f" {FEWEST_UNRELATED} no interval covers. Give more that are unrelated. Read: {data.report}."
        )
    if not data.clusters.repeated:
        return data
    what = "queries with the same documents" if meant == "retrieval" else "pairs that share a text"
    say = f"{what} are drawn together: as much as {data.clusters.effective:,.0f} unrelated {UNITS[meant]}"
    return replace(data, report=f"{data.report}; {say}")


def _search(table: Table) -> Texts:
    """Read judgements; a row without a grade is relevant, a negative is not."""
    frame = table.frame
    grades = frame["score"] if "score" in frame else pd.Series(1.0, frame.index)
    rows = frame.assign(grade=grades.clip(lower=0)).groupby(["first", "second"], sort=False)["grade"].max()
    asked, queries = pd.factorize(rows.index.get_level_values(0))
    others = [rows.index.get_level_values(1), *([frame["negative"]] if "negative" in frame else [])]
    answer, documents = pd.factorize(np.concatenate([np.asarray(other, dtype=object) for other in others]))
    judged, same = answer[: len(rows)], pd.Index(documents).get_indexer(queries)
    return searched(table.report, list(queries), list(documents), asked, judged, rows.to_numpy(float), same)


def _of_folder(path: Path, kind: Kind | None) -> Texts:
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
    """Build texts in which row i judges document `judged[i]` for query `asked[i]` (n,)."""
    n = len(queries)
    without = n - len(np.unique(asked[grades > 0]))
    report += f"; {n - without:,} queries, {len(documents):,} documents"
    report += f", {without:,} queries without a relevant document left out" if without else ""
    repeated = int((same >= 0).sum())
    report += f", a query's own text is no candidate ({repeated:,})" if repeated else ""
    same = np.where(same < 0, -1, same + n)
    return Texts("retrieval", report, queries + documents, asked, judged + n, grades, n, same)


# Where a larger share of the rows hangs together by texts, some are left out.
_MOST = 0.6


def divided(data: Texts, parts: Mapping[str, int], seed: int = 0) -> list[Texts]:
    """Return parts of rows without common texts, by names and shares; all have the documents of a search.

    If most rows hang together, those between two parts are left out. Raises UsageError for a small or constant part.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size, generator = len(data.texts), np.random.default_rng(seed)
    joined = data.gold > 0 if data.kind == "retrieval" else np.ones(len(data.gold), np.bool_)
    sides = data.first[joined], data.second[joined]
    group = connected_components(coo_array((np.ones(len(sides[0])), sides), (size, size)), directed=False)[1]
    rows = np.bincount(group[data.first], minlength=size)
    if rows.max() > _MOST * rows.sum():
        group, rows = np.arange(size), np.bincount(data.first, minlength=size)
    order = generator.permutation(size)
    order, part, filled = order[np.argsort(-rows[order], kind="stable")], np.zeros(size, np.intp), np.zeros(len(parts))
    shares = np.array([*parts.values()])
    for place in order[np.isin(order, group)]:
        part[place] = (filled / shares).argmin()
        filled[part[place]] += max(float(rows[place]), 1e-6)
    of_text = part[group]
    first = of_text[data.first]
    same = np.ones(len(first), np.bool_) if data.kind == "retrieval" else first == of_text[data.second]
    return [_checked(_subset(data, np.flatnonzero(same & (first == i)), name), name, data) for i, name in
            enumerate(parts)]  # fmt: skip


def arranged(data: Texts) -> Texts:
    """Order rows by their contents: batches and samples depend on an order, and the table's decides nothing."""
    texts, n = data.texts, data.queries
    order = np.array([*sorted(range(n), key=texts.__getitem__), *sorted(range(n, len(texts)), key=texts.__getitem__)])
    place = np.argsort(order)
    first, second = place[data.first], place[data.second]
    rows = np.lexsort((data.gold, second, first))
    gold = data.gold[rows]
    if data.kind == "label":
        _, begins, which = np.unique(gold, return_index=True, return_inverse=True)
        gold = np.argsort(np.argsort(begins))[which].astype(np.float64)
    same = None if data.same is None else np.where(data.same < 0, -1, place[data.same])[order[:n]]
    return replace(data, texts=[texts[i] for i in order], first=first[rows], second=second[rows], gold=gold, same=same)


def _subset(data: Texts, rows: NDArray[np.intp], name: str) -> Texts:
    first, second = data.first[rows], data.second[rows]
    asked = np.unique(first)
    used = np.concatenate([asked, np.arange(data.queries, len(data.texts))]) if data.queries else np.union1d(
        first, second
    )  # fmt: skip
    same = None
    if data.same is not None:
        same = np.where(data.same[asked] < 0, -1, np.searchsorted(used, data.same[asked]))
    return replace(
        data,
        report=name,
        texts=[data.texts[place] for place in used],
        first=np.searchsorted(used, first),
        second=np.searchsorted(used, second),
        gold=data.gold[rows],
        queries=len(asked) if data.queries else 0,
        same=same,
    )


def _checked(part: Texts, name: str, data: Texts) -> Texts:
    if len(part.gold) == 0 or part.units < FEWEST:
        raise UsageError(
            f"--pairs: {data.units} {UNITS[data.kind]} leave {part.units if len(part.gold) else 0} for the {name}, and"
            f" {FEWEST} are the least (no text is in two parts). Give more, or leave them out."
        )
    if data.kind != "retrieval" and np.ptp(part.gold) == 0:
        raise UsageError(f"all {name} {UNITS[data.kind]} have one score or label; give more of the others.")
    return part


def training_pairs(data: Texts, seed: int = 0) -> Corpus:
    """Return training pairs: with scores, else as entailment (alike) or contradiction.

    A text with a class is paired with a text of its class and another's, a relevant document's query with it and
    another document.
    """
    generator = np.random.default_rng(seed)
    if data.kind == "score":
        places = np.stack([data.first, data.second], 1).ravel()
        low = float(data.gold.min())
        return Corpus("the pairs", [data.texts[i] for i in places], scores=(data.gold - low).tolist())
    if data.kind == "binary":
        triples = [(a, b, g > 0) for a, b, g in zip(data.first, data.second, data.gold, strict=True)]
    elif data.kind == "label":
        triples = []
        for place, label in zip(data.first, data.gold, strict=True):
            for alike in (True, False):
                others = data.first[((data.gold == label) == alike) & (data.first != place)]
                triples += [(place, generator.choice(others), alike)] if len(others) else []
    else:
        triples = []
        for asked, answer in zip(data.first[data.gold > 0], data.second[data.gold > 0], strict=True):
            other = generator.integers(data.queries, len(data.texts))
            triples += [(asked, answer, True), (asked, other, False)]
    labels = ["entailment" if alike else "contradiction" for *_, alike in triples]
    return Corpus("the pairs", [data.texts[i] for a, b, _ in triples for i in (a, b)], labels)
