"""SentEval's transfer tasks: the accuracy of a linear classifier on frozen vectors (docs/protocol.md).

Each task stands under three names: `MR` is SentEval's full setting, `MR-fast` its fast one (5 folds, RMSprop), both
under protocol `senteval`; `MR-exact` solves the same regressions to convergence. They are never averaged together.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from benchmark.data.readers import transfer as readers
from benchmark.data.readers.transfer import Labelled
from benchmark.data.sources import DataSource, Located
from benchmark.tasks.base import Lookup, Scores, Task, TaskData
from benchmark.tasks.sts import check_rows

if TYPE_CHECKING:
    from benchmark.metrics.probe.protocol import Measured, Setting

_LEAST = 20  # rows of a class that --limit leaves: nested folds need some of every class


class TransferData(TaskData):
    """Labelled rows in parts, in SentEval's order: all of them, or train and test, or train, dev and test."""

    def __init__(self, located: Located, parts: list[Labelled], setting: str, f1: bool, limit: int | None) -> None:
        each = None if limit is None else max(limit, _LEAST)
        self.located, self.setting, self.f1 = located, setting, f1
        self.parts = [part.head(each).ordered() for part in parts]
        self.rows = len(self.parts[-1])

    def texts(self) -> list[str]:
        """All texts of all parts: the classifier trains on their vectors."""
        return [text for part in self.parts for text in part.texts()]

    def tested(self) -> list[str]:
        """The texts of the last part; of one part all, for each of its rows is tested in one of the folds."""
        return self.parts[-1].texts()

    def score(self, vectors: Lookup) -> Scores:
        """Return the accuracy (MRPC: and F1) with its protocol, development accuracy and the penalties chosen."""
        import time

        from sklearn.metrics import f1_score

        from benchmark.metrics.probe import protocol as probe

        features = np.concatenate([self._features(part, vectors) for part in self.parts])
        setting: Setting = {s.name: s for s in (probe.FULL, probe.FAST, probe.EXACT)}[self.setting]
        if not np.ptp(features, axis=0).any():
            return {
                "main": None,
                "main_metric": "accuracy",
                "reason": "constant_vectors",
                "protocol": setting.protocol,
                "setting": setting.name,
            }
        labels = np.concatenate([part.labels for part in self.parts])
        started = time.perf_counter()
        measured = self._measure(features, labels, setting)
        accuracy = measured.accuracy / 100
        scores: Scores = {
            "main": accuracy,
            "main_metric": "accuracy",
            "reason": None,
            "accuracy": accuracy,
            "dev_accuracy": measured.dev_accuracy / 100,
            "protocol": setting.protocol,
            "setting": setting.name,
            "penalties": list(measured.penalties),
            "part_accuracies": [part / 100 for part in measured.parts],
            "probe_seconds": time.perf_counter() - started,
        }
        if self.f1:
            value = float(f1_score(self.parts[-1].labels, measured.predicted))
            scores["f1"] = round(value, 4) if setting.protocol == "senteval" else value
        return scores

    @staticmethod
    def _features(part: Labelled, vectors: Lookup) -> np.ndarray:
        from benchmark.metrics.probe.protocol import pair_features

        if part.second is None:
            return vectors(part.first)
        return pair_features(vectors(part.first), vectors(part.second))

    def _measure(self, features: np.ndarray, labels: np.ndarray, setting: Setting) -> Measured:
        from benchmark.metrics.probe import protocol as probe

        counts = [len(part) for part in self.parts]
        if len(counts) == 1:
            return probe.nested(features, labels, setting, self.device)
        if len(counts) == 2:
            return probe.cross_validated(features, labels, counts[0], setting, self.device)
        return probe.split(features, labels, counts[0], counts[1], setting, self.device)


class _Transfer(Task):
    form = "tokenised"
    metric = "accuracy, SentEval's full setting"
    setting: ClassVar[str] = "full"
    f1: ClassVar[bool] = False
    splits: ClassVar[tuple[str, ...]]  # the parts' names in the catalog, training first

    @abstractmethod
    def read(self, located: Located) -> list[Labelled]:
        """Return the parts, as they stand in the files."""

    def load(self, data: DataSource, limit: int | None = None) -> TransferData:
        """Read every part and check its rows (with `limit`, that many of each class, and at least 20 for the folds)."""
        located = data.locate(self.dataset, self.form)
        parts = self.read(located)
        for split, part in zip(self.splits, parts, strict=True):
            check_rows(located, split, len(part))
        return TransferData(located, parts, self.setting, self.f1, limit)


class _Polar(_Transfer):
    splits = ("test",)
    names: ClassVar[tuple[str, str]]  # the files of class 1 and class 0

    def read(self, located: Located) -> list[Labelled]:
        return [readers.read_polar(*(located.files[name] for name in self.names))]


class MR(_Polar):
    """Movie reviews, positive or negative; nested folds."""

    title = "Movie reviews"
    dataset, names = "MR", ("rt-polarity.pos", "rt-polarity.neg")


class CR(_Polar):
    """Customer reviews, positive or negative; nested folds."""

    title = "Customer reviews"
    dataset, names = "CR", ("custrev.pos", "custrev.neg")


class SUBJ(_Polar):
    """Subjective or objective sentences; nested folds. SentEval's class 1 is objective."""

    title = "Subjectivity"
    dataset, names = "SUBJ", ("subj.objective", "subj.subjective")


class MPQA(_Polar):
    """Opinion polarity of short phrases; nested folds."""

    title = "Opinion polarity (MPQA)"
    dataset, names = "MPQA", ("mpqa.pos", "mpqa.neg")


class SST2(_Transfer):
    """Stanford Sentiment Treebank, two classes; fixed parts, phrases in training."""

    title = "Stanford Sentiment Treebank, 2 classes"
    dataset, splits = "SST2", ("train", "dev", "test")

    def read(self, located: Located) -> list[Labelled]:
        """Read the three parts."""
        return [readers.read_sst_binary(located.files[f"sentiment-{split}"]) for split in self.splits]


class SST5(_Transfer):
    """Stanford Sentiment Treebank, five classes; fixed parts."""

    title = "Stanford Sentiment Treebank, 5 classes"
    dataset, splits = "SST5", ("train", "dev", "test")

    def read(self, located: Located) -> list[Labelled]:
        """Read the three parts."""
        return [readers.read_sst_fine(located.files[f"sentiment-{split}"]) for split in self.splits]


class TREC(_Transfer):
    """Question types, six coarse classes; folds of the training part choose the penalty."""

    title = "Question types (TREC)"
    dataset, splits = "TREC", ("train", "test")

    def read(self, located: Located) -> list[Labelled]:
        """Read both parts."""
        return [readers.read_trec(located.files[name]) for name in ("train_5500.label", "TREC_10.label")]


class MRPC(_Transfer):
    """Paraphrase or not, on [|u-v| ; u*v]; folds of the training part choose the penalty; also F1."""

    title = "Microsoft Research Paraphrase Corpus"
    dataset, splits, f1 = "MRPC", ("train", "test"), True

    def read(self, located: Located) -> list[Labelled]:
        """Read both parts."""
        return [readers.read_mrpc(located.files[f"msr_paraphrase_{split}.txt"]) for split in self.splits]


class SickEntailment(_Transfer):
    """SICK's three entailment classes, on [|u-v| ; u*v]; fixed parts."""

    title = "SICK entailment"
    dataset, splits = "SICK", ("train", "dev", "test")

    def read(self, located: Located) -> list[Labelled]:
        """Read the three parts."""
        names = ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt")
        return [readers.read_sick_entailment(located.files[name]) for name in names]


class _Fast(_Transfer):
    metric, setting = "accuracy, SentEval's fast setting", "fast"


class _Exact(_Transfer):
    metric, setting = "accuracy, regressions solved to convergence", "exact"


class MRFast(_Fast, MR):
    """MR, fast setting."""

    title = "Movie reviews, fast"


class CRFast(_Fast, CR):
    """CR, fast setting."""

    title = "Customer reviews, fast"


class SUBJFast(_Fast, SUBJ):
    """SUBJ, fast setting."""

    title = "Subjectivity, fast"


class MPQAFast(_Fast, MPQA):
    """MPQA, fast setting."""

    title = "Opinion polarity (MPQA), fast"


class SST2Fast(_Fast, SST2):
    """SST2, fast setting."""

    title = "Stanford Sentiment Treebank, 2 classes, fast"


class SST5Fast(_Fast, SST5):
    """SST5, fast setting."""

    title = "Stanford Sentiment Treebank, 5 classes, fast"


class TRECFast(_Fast, TREC):
    """TREC, fast setting."""

    title = "Question types (TREC), fast"


class MRPCFast(_Fast, MRPC):
    """MRPC, fast setting."""

    title = "Microsoft Research Paraphrase Corpus, fast"


class SickEntailmentFast(_Fast, SickEntailment):
    """SICK entailment, fast setting."""

    title = "SICK entailment, fast"


class MRExact(_Exact, MR):
    """MR, protocol `exact`."""

    title = "Movie reviews, exact"


class CRExact(_Exact, CR):
    """CR, protocol `exact`."""

    title = "Customer reviews, exact"


class SUBJExact(_Exact, SUBJ):
    """SUBJ, protocol `exact`."""

    title = "Subjectivity, exact"


class MPQAExact(_Exact, MPQA):
    """MPQA, protocol `exact`."""

    title = "Opinion polarity (MPQA), exact"


class SST2Exact(_Exact, SST2):
    """SST2, protocol `exact`."""

    title = "Stanford Sentiment Treebank, 2 classes, exact"


class SST5Exact(_Exact, SST5):
    """SST5, protocol `exact`."""

    title = "Stanford Sentiment Treebank, 5 classes, exact"


class TRECExact(_Exact, TREC):
    """TREC, protocol `exact`."""

    title = "Question types (TREC), exact"


class MRPCExact(_Exact, MRPC):
    """MRPC, protocol `exact`."""

    title = "Microsoft Research Paraphrase Corpus, exact"


class SickEntailmentExact(_Exact, SickEntailment):
    """SICK entailment, protocol `exact`."""

    title = "SICK entailment, exact"
