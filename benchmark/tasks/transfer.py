"""SentEval's transfer tasks: the accuracy of a linear classifier on frozen vectors (docs/protocol.md).

Each task has two names: `MR` is SentEval's full setting, `MR-fast` its fast setting (5 folds, RMSprop). No shipped
suite averages over settings.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmark.data.readers import transfer as readers
from benchmark.data.readers.transfer import Labelled
from benchmark.data.sources import DataSource, Located
from benchmark.reasons import reason
from benchmark.tasks.base import Lookup, Scores, TaskData, TaskRow, check_rows

if TYPE_CHECKING:
    from benchmark.metrics.probe.protocol import ProbeScores, ProbeSetting

PROTOCOL = "senteval"
# Rows per class that --limit keeps at least: nested folds need rows of every class.
_LEAST = 20


class TransferData(TaskData):
    """Labelled rows in SentEval's order: a single part, or train, perhaps dev, and test."""

    metrics = ("items", "probe")

    def __init__(self, located: Located, parts: list[Labelled], setting: str, f1: bool, limit: int | None) -> None:
        each = None if limit is None else max(limit, _LEAST)
        self.located, self.setting, self.f1 = located, setting, f1
        self.parts = [part.head(each).ordered() for part in parts]
        self.rows = len(self.parts[-1])

    def texts(self) -> list[str]:
        return [text for part in self.parts for text in part.texts()]

    def tested(self) -> list[str]:
        """Return the last part; a single part is tested completely, in folds."""
        return self.parts[-1].texts()

    def score(self, vectors: Lookup) -> Scores:
        """Return accuracy (MRPC: also F1) with items, protocol, dev accuracy and penalties."""
        import time

        from sklearn.metrics import f1_score

        from benchmark.metrics.items import items_part
        from benchmark.metrics.probe import protocol as probe

        features = np.concatenate([self._features(part, vectors) for part in self.parts])
        setting: ProbeSetting = {s.name: s for s in (probe.FULL, probe.FAST)}[self.setting]
        if not np.ptp(features, axis=0).any():
            return {
                "main": None,
                "main_metric": "accuracy",
                "reason": reason("constant_vectors"),
                "protocol": PROTOCOL,
                "setting": setting.name,
            }
        labels = np.concatenate([part.labels for part in self.parts])
        started = time.perf_counter()
        measured = self._measure(features, labels, setting)
        accuracy = measured.accuracy / 100
        tested = labels[np.concatenate(measured.tested)]
        items = items_part(measured.predicted == tested, tested.tolist(), list(map(len, measured.tested)), decimals=2)
        scores: Scores = {
            "main": accuracy,
            "main_metric": "accuracy",
            "reason": None,
            "accuracy": accuracy,
            "dev_accuracy": measured.dev_accuracy / 100,
            "protocol": PROTOCOL,
            "setting": setting.name,
            "penalties": list(measured.penalties),
            "part_accuracies": [part / 100 for part in measured.parts],
            "probe_seconds": time.perf_counter() - started,
            "items": items,
        }
        if self.f1:
            value = float(f1_score(self.parts[-1].labels, measured.predicted))
            scores["f1"] = round(value, 4)
        return scores

    @staticmethod
    def _features(part: Labelled, vectors: Lookup) -> np.ndarray:
        from benchmark.metrics.probe.protocol import pair_features

        if part.second is None:
            return vectors(part.first)
        return pair_features(vectors(part.first), vectors(part.second))

    def _measure(self, features: np.ndarray, labels: np.ndarray, setting: ProbeSetting) -> ProbeScores:
        from benchmark.metrics.probe import protocol as probe

        counts = [len(part) for part in self.parts]
        if len(counts) == 1:
            return probe.nested(features, labels, setting, self.device)
        if len(counts) == 2:
            return probe.cross_validated(features, labels, counts[0], setting, self.device)
        return probe.split(features, labels, counts[0], counts[1], setting, self.device)


Parts = Callable[[Located], list[Labelled]]
"""A function that reads the parts of a data set in the order of its files, training first."""


def polar(positive: str, negative: str) -> Parts:
    """Read a file for class 1 and a file for class 0."""
    return lambda located: [readers.read_polar(located.files[positive], located.files[negative])]


def one_file_per_part(read: Callable[[Path], Labelled], *names: str) -> Parts:
    return lambda located: [read(located.files[name]) for name in names]


def labelled(
    row: TaskRow,
    data: DataSource,
    limit: int | None,
    *,
    splits: tuple[str, ...],
    parts: Parts,
    setting: str,
    f1: bool = False,
) -> TransferData:
    """Read `limit` rows of each class, at least 20 for the folds."""
    located = data.locate(row.dataset, row.form)
    data_parts = parts(located)
    for split, part in zip(splits, data_parts, strict=True):
        check_rows(located, split, len(part))
    return TransferData(located, data_parts, setting, f1, limit)


# The suffix of a task's name, the probe's setting, its metric, and the suffix of the title.
_SETTINGS = (
    ("", "full", "accuracy, SentEval's full setting", ""),
    ("-fast", "fast", "accuracy, SentEval's fast setting", ", fast"),
)
_WHOLE, _TWO, _THREE = ("test",), ("train", "test"), ("train", "dev", "test")
_SST = [f"sentiment-{split}" for split in _THREE]
_MRPC = [f"msr_paraphrase_{split}.txt" for split in _TWO]
_SICK = ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt")

# Name, title, the parts in the catalog (one: nested folds; two: folds of the training part choose the penalty), and
# their reader. MRPC and SICK-E are pairs, with features [|u-v| ; u*v].
_DATA: tuple[tuple[str, str, tuple[str, ...], Parts], ...] = (
    ("MR", "Movie reviews", _WHOLE, polar("rt-polarity.pos", "rt-polarity.neg")),
    ("CR", "Customer reviews", _WHOLE, polar("custrev.pos", "custrev.neg")),
    # SentEval's class 1 is objective.
    ("SUBJ", "Subjectivity", _WHOLE, polar("subj.objective", "subj.subjective")),
    ("MPQA", "Opinion polarity (MPQA)", _WHOLE, polar("mpqa.pos", "mpqa.neg")),
    # Phrases are in the training part.
    ("SST2", "Stanford Sentiment Treebank, 2 classes", _THREE, one_file_per_part(readers.read_sst_binary, *_SST)),
    ("SST5", "Stanford Sentiment Treebank, 5 classes", _THREE, one_file_per_part(readers.read_sst_fine, *_SST)),
    # Six coarse classes.
    ("TREC", "Question types (TREC)", _TWO, one_file_per_part(readers.read_trec, "train_5500.label", "TREC_10.label")),
    ("MRPC", "Microsoft Research Paraphrase Corpus", _TWO, one_file_per_part(readers.read_mrpc, *_MRPC)),
    # Three classes.
    ("SICK-E", "SICK entailment", _THREE, one_file_per_part(readers.read_sick_entailment, *_SICK)),
)

ROWS = tuple(
    TaskRow(
        name + behind,
        title + variant_title,
        "SICK" if name == "SICK-E" else name,
        partial(labelled, splits=splits, parts=parts, setting=setting, f1=name == "MRPC"),
        "tokenised",
        metric,
        aliases=(f"SICKEntailment{behind}",) if name == "SICK-E" else (),
    )
    for behind, setting, metric, variant_title in _SETTINGS
    for name, title, splits, parts in _DATA
)
