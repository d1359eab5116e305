"""The pocket tasks: small data written for this project; no published data set."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmark.data.readers.pairs import Pairs, read_table
from benchmark.data.sources import DataSource, Located
from benchmark.metrics.items import accuracy_of, fold_items
from benchmark.reasons import reason
from benchmark.tasks.base import Lookup, PairsData, Scores, TaskData, TaskRow, check_rows


def _pairs(rows: list[list[str]]) -> Pairs:
    return Pairs([r[1] for r in rows], [r[2] for r in rows], np.array([float(r[0]) for r in rows]))


def sentence_pairs(row: TaskRow, data: DataSource, limit: int | None) -> PairsData:
    located = data.locate(row.dataset, row.form)
    rows = read_table(located.files["pairs.tsv"], ["kind", "split", "score", "sentence1", "sentence2"])
    dev = [fields[2:] for fields in rows if fields[1] == "dev"]
    test = [fields for fields in rows if fields[1] == "test"]
    check_rows(located, "dev", len(dev))
    check_rows(located, "test", len(test))
    kinds = {kind: _pairs([fields[2:] for fields in test if fields[0] == kind]) for kind in located.dataset.subsets}
    return PairsData(located, kinds, _pairs(dev), limit=limit)


def graded_pairs(row: TaskRow, data: DataSource, limit: int | None, *, file: str, unit: str) -> PairsData:
    located = data.locate(row.dataset, row.form)
    rows = read_table(located.files[file], ["score", f"{unit}1", f"{unit}2"])
    check_rows(located, "test", len(rows))
    return PairsData(located, {"test": _pairs(rows)}, limit=limit)


class _LabelledData(TaskData):
    metrics = ("items",)

    def __init__(self, located: Located, labels: list[str], sentences: list[str]) -> None:
        self.located, self.labels, self.sentences = located, labels, sentences
        self.rows = len(sentences)

    def texts(self) -> list[str]:
        return self.sentences

    def score(self, vectors: Lookup) -> Scores:
        matrix = vectors(self.sentences)
        if not np.ptp(matrix, axis=0).any():
            return {"main": None, "main_metric": "accuracy", "reason": reason("constant_vectors")}
        items = fold_items(matrix, self.labels)
        accuracy = accuracy_of(items)
        return {"main": accuracy, "main_metric": "accuracy", "reason": None, "accuracy": accuracy, "items": items}


def topics(row: TaskRow, data: DataSource, limit: int | None) -> TaskData:
    """Read `limit` sentences of each topic, at least 5 for the folds."""
    located = data.locate(row.dataset, row.form)
    rows = read_table(located.files["labelled.tsv"], ["label", "sentence"])
    check_rows(located, "test", len(rows))
    if limit is not None:
        seen: dict[str, int] = {}
        first_rows = []
        for label, sentence in rows:
            seen[label] = seen.get(label, 0) + 1
            if seen[label] <= max(limit, 5):
                first_rows.append([label, sentence])
        rows = first_rows
    return _LabelledData(located, [fields[0] for fields in rows], [fields[1] for fields in rows])


# How they were written and graded: docs/pocket.md. The sentence pairs are of five kinds, which are the subsets.
ROWS = (
    TaskRow("pocket-pairs", "Pocket: sentence pairs", "pocket-pairs", sentence_pairs),
    TaskRow("pocket-words", "Pocket: word pairs", "pocket-words", partial(graded_pairs, file="words.tsv", unit="word")),
    TaskRow(
        "pocket-phrases",
        "Pocket: phrase pairs",
        "pocket-phrases",
        partial(graded_pairs, file="phrases.tsv", unit="phrase"),
    ),
    TaskRow(
        "pocket-topics",
        "Pocket: six topics",
        "pocket-topics",
        topics,
        metric="accuracy, logistic regression, 5 folds",
    ),
)
