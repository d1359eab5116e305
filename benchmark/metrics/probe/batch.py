"""Trains many small classifiers together, each as in SentEval (docs/protocol.md).

A fit is a classifier: the rows of a fold and a penalty. SentEval seeds its random numbers again for every fit, so all
fits have the same initial weights, and fits of equally many rows the same order. All fits take each step together:
a gather of the minibatches of all folds, a batched product, a fused update. After every evaluation, finished fits
leave and the others are grouped again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmark.metrics.probe.models import Classifier, Hidden, Linear

Rows = NDArray[np.int64]

# The share of rows drawn for early stopping where a fit has no development rows.
_DEV_SHARE = 0.05
# Bytes of minibatches per step on a CPU: at most what stays in its cache, at least what spares two threads waiting.
_CACHED = 3 * 2**20
_SMALL = 2**18


@dataclass(frozen=True)
class Recipe:
    """The training of each fit; the defaults are SentEval's full setting."""

    hidden: int = 0
    optimiser: str = "adam"
    learning_rate: float = 1e-3
    batch_size: int = 64
    # Evaluations without gain (in total, not in a row) before the next one ends the fit; passes between evaluations.
    tenacity: int = 5
    epoch_size: int = 4
    max_epoch: int = 200
    seed: int = 1111


@dataclass(frozen=True)
class Fold:
    """A fold's rows; those for early stopping default to a sample of 5 % of the training rows."""

    train: Rows
    dev: Rows | None = None


@dataclass
class Fits:
    """Finished fits: development accuracy (n,), number of evaluations (n,), and the best weights."""

    dev: NDArray[np.float64]
    evaluations: NDArray[np.int64]
    model: Classifier
    weights: list[Tensor]
    x: Tensor

    def predict(self, fit: int, rows: Rows) -> NDArray[np.int64]:
        """Return the classes (len(rows),)."""
        batch = self.x[torch.from_numpy(rows).to(self.x.device)][None]
        scores = self.model.scores([w[fit][None, None] for w in self.weights], batch)
        return np.asarray(scores[0, 0].argmax(0).cpu().numpy(), dtype=np.int64)


class _Order:
    """The randomness shared by fits of equally many rows: the dev share, then a permutation per pass."""

    def __init__(self, count: int, draws_dev: bool, seed: int) -> None:
        # SentEval's generator.
        self.random = np.random.RandomState(seed)
        drawn = self.random.permutation(count) if draws_dev else np.arange(count)
        cut = int(_DEV_SHARE * count) if draws_dev else 0
        self.dev, self.train = drawn[:cut], drawn[cut:]

    def passes(self, number: int) -> list[Rows]:
        return [self.train[self.random.permutation(len(self.train))] for _ in range(number)]


@dataclass
class _Track:
    rows: Rows
    dev: Tensor
    key: tuple[int, bool]
    count: int
    passes: list[Rows] = field(default_factory=list)


def pad(vectors: NDArray[np.float32], device: str) -> Tensor:
    """Append a 1 for the bias, then zeros up to an aligned width: (n, padded) float32."""
    n, dim = vectors.shape
    x = torch.zeros(n, -(-(dim + 1) // 16) * 16, dtype=torch.float32, device=device)
    x[:, :dim] = torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32)).to(device)
    x[:, dim] = 1.0
    return x


class Trainer:
    """Trains a classifier for every entry of `fold_of` (the index of its fold) and `penalties` (its weight decay).

    `x` comes from `pad`, `labels` (n,) are 0 .. classes-1.
    """

    def __init__(
        self,
        x: Tensor,
        dim: int,
        labels: NDArray[np.int64],
        folds: Sequence[Fold],
        fold_of: Rows,
        penalties: NDArray[np.float64],
        recipe: Recipe,
    ) -> None:
        self.x, self.recipe, self.fold_of = x, recipe, fold_of
        self.labels = torch.from_numpy(labels).to(x.device)
        classes = int(labels.max()) + 1
        self.model: Classifier = Hidden(classes, recipe.hidden) if recipe.hidden else Linear(classes)
        self.orders: dict[tuple[int, bool], _Order] = {}
        self.tracks = [self._track(fold) for fold in folds]
        start = self.model.initial(dim, x.shape[1], recipe.seed)
        count = len(fold_of)
        self.weights = [w.to(x.device).expand(count, *w.shape).clone() for w in start]
        # Moments of the gradient; RMSprop has only the second.
        self.first = [torch.zeros_like(w) for w in self.weights]
        self.second = [torch.zeros_like(w) for w in self.weights]
        self.best = [torch.zeros_like(w) for w in self.weights]
        self.penalties = torch.from_numpy(penalties.astype(np.float32)).to(x.device)
        self.active = np.ones(count, bool)
        self.accuracy = np.full(count, -1.0)
        self.evaluations = np.zeros(count, np.int64)
        self.idle = np.zeros(count, np.int64)

    def _track(self, fold: Fold) -> _Track:
        key = (len(fold.train), fold.dev is None)
        if key not in self.orders:
            self.orders[key] = _Order(*key, self.recipe.seed)
        order = self.orders[key]
        dev = fold.train[order.dev] if fold.dev is None else fold.dev
        return _Track(fold.train, torch.from_numpy(dev).to(self.x.device), key, len(order.train))

    def run(self) -> Fits:
        epochs = 0
        threads = torch.get_num_threads()
        workers = 1 if self._launch_bound() else threads
        # Each worker runs its own small steps on one core: the steps are too small to gain from several threads.
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            try:
                while self.active.any() and epochs <= self.recipe.max_epoch:
                    drawn = {key: order.passes(self.recipe.epoch_size) for key, order in self.orders.items()}
                    for track in self.tracks:
                        track.passes = drawn[track.key]
                    packs = self._packs(workers)
                    list(pool.map(self._round, packs, repeat(epochs)))
                    epochs += self.recipe.epoch_size
                    self.active &= self.idle <= self.recipe.tenacity
            finally:
                torch.set_num_threads(threads)
        return Fits(self.accuracy, self.evaluations, self.model, self.best, self.x)

    def _launch_bound(self) -> bool:
        """True if a step's time hardly depends on the number of fits: a single block is best."""
        return self.x.device.type != "cpu"

    def _packs(self, workers: int) -> list[Rows]:
        """Folds of a block (folds, fits per fold) have equal steps per pass."""
        of_fold: dict[int, list[int]] = defaultdict(list)
        for fit in np.argsort(~self.active, kind="stable").tolist():
            of_fold[self.fold_of[fit]].append(fit)
        remaining = {fold: int(self.active[fits].sum()) for fold, fits in of_fold.items()}
        alike: dict[tuple[int, int], list[int]] = defaultdict(list)
        for fold in sorted(of_fold, key=lambda fold: remaining[fold]):
            if remaining[fold]:
                alike[len(of_fold[fold]), -(-self.tracks[fold].count // self.recipe.batch_size)].append(fold)
        packs: list[Rows] = []
        for group in alike.values():
            blocks = 1
            if not self._launch_bound():
                gathered = len(group) * self.recipe.batch_size * self.x.shape[1] * self.x.element_size()
                # The same number for each worker, because a round lasts until its last block is done.
                blocks = workers * -(-gathered // (workers * _CACHED))
                blocks = max(1, min(blocks, gathered // _SMALL, len(group)))
            for folds in np.array_split(group, blocks):
                # A fold with fewer active fits than the last one of its block is filled up with finished ones.
                packs.append(np.array([of_fold[fold][: remaining[folds[-1]]] for fold in folds], dtype=np.int64))
        return sorted(packs, key=lambda pack: -pack.size)

    @torch.no_grad()
    def _round(self, pack: Rows, epochs: int) -> None:
        tracks = [self.tracks[fold] for fold in self.fold_of[pack[:, 0]]]
        where = torch.from_numpy(pack).to(self.x.device)
        weights, first, second = ([w[where] for w in kind] for kind in (self.weights, self.first, self.second))
        self._steps(tracks, where, weights, first, second, epochs)
        for kind, values in ((self.weights, weights), (self.first, first), (self.second, second)):
            for kept, part in zip(kind, values, strict=True):
                kept[where] = part
        accuracy = self._evaluate(tracks, weights)
        active = self.active[pack]
        better = active & (accuracy > self.accuracy[pack])
        self.evaluations[pack] += active
        self.idle[pack] += active & ~better
        self.accuracy[pack] = np.where(better, accuracy, self.accuracy[pack])
        chosen = torch.from_numpy(better).to(self.x.device)
        for kept, part in zip(self.best, weights, strict=True):
            kept[where[chosen]] = part[chosen]

    def _steps(
        self,
        tracks: list[_Track],
        where: Tensor,
        weights: list[Tensor],
        first: list[Tensor],
        second: list[Tensor],
        epochs: int,
    ) -> None:
        size, device = self.recipe.batch_size, self.x.device
        batches = -(-tracks[0].count // size)
        # The array has its final layout (steps, folds, size) and int32: transposing took longer than filling it.
        rows = np.zeros((self.recipe.epoch_size * batches, len(tracks), size), np.int32)
        one_pass = np.zeros(batches * size, np.int32)
        for number, track in enumerate(tracks):
            for which, order in enumerate(track.passes):
                one_pass[: track.count] = track.rows[order]
                rows[which * batches : (which + 1) * batches, number] = one_pass.reshape(batches, size)
        index = torch.from_numpy(rows).to(device)
        targets = self.model.targets(torch.index_select(self.labels, 0, index.flatten()).view(index.shape))
        index = index.flatten(1)
        # The last batch of a pass is smaller; its padding rows have weight 0.
        filled = torch.tensor([track.count - (batches - 1) * size for track in tracks], device=device)[:, None]
        tail = (torch.arange(size, device=device) < filled) / filled.to(torch.float32)
        penalties = self.penalties[where]
        gradients = [torch.empty_like(w) for w in weights]
        steps = torch.arange(1.0, len(rows) + 1, device=device).add_(epochs * batches)
        flat = torch.empty(index.shape[1], self.x.shape[1], device=device)
        x = flat.view(len(tracks), size, -1)
        write_gradients = self.model.gradients(weights, x, penalties, gradients)
        parts = zip(index.unbind(), targets.unbind(), steps.unbind(), strict=True)
        for number, (chosen, wanted, step) in enumerate(parts, 1):
            torch.index_select(self.x, 0, chosen, out=flat)
            write_gradients(wanted, tail if number % batches == 0 else 1.0 / size)
            self._update(weights, gradients, first, second, step)

    def _update(
        self, weights: list[Tensor], gradients: list[Tensor], first: list[Tensor], second: list[Tensor], step: Tensor
    ) -> None:
        """Take a step; the penalties are in the gradients, because every fit has its own."""
        rate = self.recipe.learning_rate
        if self.recipe.optimiser == "adam":
            # The kernel under torch.optim.Adam(fused=True), whose checks take several times as long as a small step.
            torch._fused_adam_(
                weights,
                gradients,
                first,
                second,
                [],
                [step] * len(weights),
                lr=rate,
                beta1=0.9,
                beta2=0.999,
                weight_decay=0.0,
                eps=1e-8,
                amsgrad=False,
                maximize=False,
            )
            return
        for w, g, square in zip(weights, gradients, second, strict=True):
            square.mul_(0.99).addcmul_(g, g, value=0.01)
            w.addcdiv_(g, square.sqrt().add_(1e-8), value=-rate)

    def _evaluate(self, tracks: list[_Track], weights: list[Tensor]) -> NDArray[np.float64]:
        counts = []
        for number, track in enumerate(tracks):
            # Four times as fast as indexing, on a CPU.
            rows = torch.index_select(self.x, 0, track.dev)[None]
            scores = self.model.scores([w[number : number + 1] for w in weights], rows)
            # argmax(1) would find the same class (the first of equal ones), but takes twenty times as long.
            counts.append((scores[0].max(1).indices == self.labels[track.dev]).sum(1))
        correct = torch.stack(counts).cpu().numpy()
        sizes = np.array([[len(track.dev)] for track in tracks])
        return np.asarray(correct / sizes, dtype=np.float64)
