"""SentEval's transfer probes: their folds, the choice of the penalty, and the accuracy (docs/protocol.md).

Schemes: `nested` (all rows in outer folds, the penalty from inner folds), `cross_validated` (a training and a test
part, the penalty from folds of the former) and `split` (training, development and test parts). Early stopping and
rounding are SentEval's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from benchmark.metrics.probe.batch import Fits, Fold, Recipe, Rows, Trainer, pad

PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
_FOLD_SEED = 1111


@dataclass(frozen=True)
class ProbeSetting:
    name: str
    folds: int = 10
    recipe: Recipe = field(default_factory=Recipe)
    penalties: tuple[float, ...] = PENALTIES


FULL = ProbeSetting("full")
FAST = ProbeSetting(
    "fast",
    folds=5,
    recipe=Recipe(optimiser="rmsprop", learning_rate=1e-2, batch_size=128, tenacity=3, epoch_size=2),
)


@dataclass(frozen=True)
class ProbeScores:
    """Accuracies x100, rounded to two decimals as in SentEval, a penalty per test part, predictions."""

    accuracy: float
    dev_accuracy: float
    penalties: tuple[float, ...]
    # Of every test part, the outer folds or the one test set: accuracy x100, predictions and rows.
    parts: tuple[float, ...]
    predicted: NDArray[np.int64]
    tested: tuple[Rows, ...]


def stratified(labels: NDArray[np.int64], folds: int) -> list[tuple[Rows, Rows]]:
    """Return SentEval's (training, held-out) rows of every fold."""
    splitter = StratifiedKFold(folds, shuffle=True, random_state=_FOLD_SEED)
    return [(train.astype(np.int64), test.astype(np.int64)) for train, test in splitter.split(labels, labels)]


def pair_features(u: NDArray[np.float32], v: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return [|u-v| ; u*v] (n, 2 dim) of sides (n, dim)."""
    return np.concatenate([np.abs(u - v), u * v], axis=1)


class _Probe:
    def __init__(
        self, vectors: NDArray[np.float32], labels: NDArray[np.int64], setting: ProbeSetting, device: str = "cpu"
    ) -> None:
        self.labels, self.setting, self.dim = labels, setting, vectors.shape[1]
        self.padded = pad(vectors, device)

    def fit(self, folds: Sequence[Fold], fold_of: Sequence[int], penalties: Sequence[float]) -> Fits:
        of, weights = np.array(fold_of, dtype=np.int64), np.array(penalties, dtype=np.float64)
        return Trainer(self.padded, self.dim, self.labels, folds, of, weights, self.setting.recipe).run()

    def grid(self, folds: Sequence[Fold]) -> tuple[Fits, NDArray[np.float64]]:
        """Return fits, fold by fold, and dev accuracies (folds, penalties)."""
        tried = self.setting.penalties
        fits = self.fit(folds, np.repeat(np.arange(len(folds)), len(tried)).tolist(), tried * len(folds))
        return fits, fits.dev.reshape(len(folds), len(tried))

    def percent(self, fraction: float) -> float:
        """Return a fraction x100, rounded as in SentEval."""
        return float(round(100 * np.float64(fraction), 2))

    def choose(self, dev: NDArray[np.float64]) -> tuple[int, float]:
        """Ties between penalties go to the smallest."""
        means = [self.percent(float(np.mean(list(column)))) for column in dev.T]
        best = int(np.argmax(means))
        return best, means[best]

    def score(self, fits: Fits, fit: int, rows: Rows) -> tuple[float, NDArray[np.int64]]:
        """Return the accuracy x100, and the predicted classes."""
        predicted = fits.predict(fit, rows)
        return self.percent(float(np.mean(predicted == self.labels[rows]))), predicted

    def mean(self, percents: Sequence[float]) -> float:
        """Round as SentEval."""
        return float(round(np.mean(list(percents)), 2))


def nested(
    vectors: NDArray[np.float32], labels: NDArray[np.int64], setting: ProbeSetting = FULL, device: str = "cpu"
) -> ProbeScores:
    """Score nested cross-validation over all rows (n, dim): MR, CR, SUBJ, MPQA."""
    probe = _Probe(vectors, labels, setting, device)
    outer = stratified(labels, setting.folds)
    inner = [
        Fold(train[some], train[held]) for train, _ in outer for some, held in stratified(labels[train], setting.folds)
    ]
    _, dev = probe.grid(inner)
    chosen = [probe.choose(part) for part in dev.reshape(len(outer), setting.folds, -1)]
    penalties = tuple(setting.penalties[best] for best, _ in chosen)
    refits = probe.fit([Fold(train) for train, _ in outer], range(len(outer)), penalties)
    tested = tuple(test for _, test in outer)
    parts, predicted = zip(*(probe.score(refits, number, test) for number, test in enumerate(tested)), strict=True)
    dev_accuracy = probe.mean([score for _, score in chosen])
    return ProbeScores(probe.mean(parts), dev_accuracy, penalties, parts, np.concatenate(predicted), tested)


def cross_validated(
    vectors: NDArray[np.float32],
    labels: NDArray[np.int64],
    train_rows: int,
    setting: ProbeSetting = FULL,
    device: str = "cpu",
) -> ProbeScores:
    """Choose the penalty in folds of the first `train_rows` rows, and test on the others: TREC, MRPC."""
    probe = _Probe(vectors, labels, setting, device)
    _, dev = probe.grid([Fold(*rows) for rows in stratified(labels[:train_rows], setting.folds)])
    best, dev_accuracy = probe.choose(dev)
    refit = probe.fit([Fold(np.arange(train_rows))], [0], [setting.penalties[best]])
    tested = np.arange(train_rows, len(labels))
    accuracy, predicted = probe.score(refit, 0, tested)
    return ProbeScores(accuracy, dev_accuracy, (setting.penalties[best],), (accuracy,), predicted, (tested,))


def split(
    vectors: NDArray[np.float32],
    labels: NDArray[np.int64],
    train_rows: int,
    dev_rows: int,
    setting: ProbeSetting = FULL,
    device: str = "cpu",
) -> ProbeScores:
    """Training, development (for penalty and stopping) and test rows in this order: SST2, SST5, SICK-E.

    SentEval trains the chosen classifier again, on the same rows from the same seed: the result is the same.
    """
    probe = _Probe(vectors, labels, setting, device)
    fold = Fold(np.arange(train_rows), np.arange(train_rows, train_rows + dev_rows))
    fits, dev = probe.grid([fold])
    best, dev_accuracy = probe.choose(dev)
    tested = np.arange(train_rows + dev_rows, len(labels))
    accuracy, predicted = probe.score(fits, best, tested)
    return ProbeScores(accuracy, dev_accuracy, (setting.penalties[best],), (accuracy,), predicted, (tested,))
