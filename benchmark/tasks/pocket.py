"""The pocket tasks: small data written for this project, so that everything runs anywhere. Ours, no real data set."""

from __future__ import annotations

import numpy as np

from benchmark.data.readers.pairs import Pairs, read_table
from benchmark.data.sources import DataSource, Located
from benchmark.tasks.base import Lookup, PairsData, Scores, Task, TaskData
from benchmark.tasks.sts import check_rows


class PocketPairs(Task):
    """Graded sentence pairs of five kinds, made hard for word overlap."""

    title = "Pocket: sentence pairs"
    dataset = "pocket-pairs"

    def load(self, data: DataSource, limit: int | None = None) -> PairsData:
        """Read both splits; the kinds are the subsets."""
        located = data.locate(self.dataset, self.form)
        rows = read_table(located.files["pairs.tsv"], ["kind", "split", "score", "sentence1", "sentence2"])
        dev = [row[2:] for row in rows if row[1] == "dev"]
        test = [row for row in rows if row[1] == "test"]
        check_rows(located, "dev", len(dev))
        check_rows(located, "test", len(test))
        kinds = {kind: _pairs([row[2:] for row in test if row[0] == kind]) for kind in located.dataset.subsets}
        return PairsData(located, kinds, _pairs(dev), limit=limit)


def _pairs(rows: list[list[str]]) -> Pairs:
    return Pairs([r[1] for r in rows], [r[2] for r in rows], np.array([float(r[0]) for r in rows]))


class PocketWords(Task):
    """Word pairs graded for similarity."""

    title = "Pocket: word pairs"
    dataset = "pocket-words"

    def load(self, data: DataSource, limit: int | None = None) -> PairsData:
        """Read all pairs."""
        located = data.locate(self.dataset, self.form)
        rows = read_table(located.files["words.tsv"], ["score", "word1", "word2"])
        check_rows(located, "test", len(rows))
        return PairsData(located, {"test": _pairs(rows)}, limit=limit)


class PocketPhrases(Task):
    """Phrase pairs graded for similarity."""

    title = "Pocket: phrase pairs"
    dataset = "pocket-phrases"

    def load(self, data: DataSource, limit: int | None = None) -> PairsData:
        """Read all pairs."""
        located = data.locate(self.dataset, self.form)
        rows = read_table(located.files["phrases.tsv"], ["score", "phrase1", "phrase2"])
        check_rows(located, "test", len(rows))
        return PairsData(located, {"test": _pairs(rows)}, limit=limit)


class _LabelledData(TaskData):
    def __init__(self, located: Located, labels: list[str], sentences: list[str]) -> None:
        self.located, self.labels, self.sentences = located, labels, sentences
        self.rows = len(sentences)

    def texts(self) -> list[str]:
        """All sentences."""
        return self.sentences

    def score(self, vectors: Lookup) -> Scores:
        """Return the accuracy of a logistic regression, five stratified folds."""
        from benchmark.metrics.classification import fold_accuracy

        matrix = vectors(self.sentences)
        if not np.ptp(matrix, axis=0).any():
            return {"main": None, "main_metric": "accuracy", "reason": "constant_vectors"}
        accuracy = fold_accuracy(matrix, self.labels)
        return {"main": accuracy, "main_metric": "accuracy", "reason": None, "accuracy": accuracy}


class PocketTopics(Task):
    """Sentences of six topics, told apart by a logistic regression on the vectors."""

    title = "Pocket: six topics"
    dataset = "pocket-topics"
    metric = "accuracy, logistic regression, 5 folds"

    def load(self, data: DataSource, limit: int | None = None) -> TaskData:
        """Read all sentences (with `limit`, that many of each topic, and at least 5 for the folds)."""
        located = data.locate(self.dataset, self.form)
        rows = read_table(located.files["labelled.tsv"], ["label", "sentence"])
        check_rows(located, "test", len(rows))
        if limit is not None:
            seen: dict[str, int] = {}
            kept = []
            for row in rows:
                seen[row[0]] = seen.get(row[0], 0) + 1
                if seen[row[0]] <= max(limit, 5):
                    kept.append(row)
            rows = kept
        return _LabelledData(located, [row[0] for row in rows], [row[1] for row in rows])
