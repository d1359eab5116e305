"""SentEval's supervised relatedness: a linear layer and softmax over the scores 1 to 5 (docs/protocol.md).

The target of a score between r and r + 1 is shared between these two classes; the loss is the squared error to this
target; the prediction is the expected score. As in SentEval, targets of scores below 1 add up to less than 1, and to 0
for a score of 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmark.metrics.correlation import correlations
from benchmark.metrics.probe.batch import pad
from benchmark.metrics.probe.models import Linear

_CLASSES = 5
_SEED = 1111
_BATCH = 64
_RATE = 1e-3
_BETAS, _EPSILON = (0.9, 0.999), 1e-8
# Between two evaluations, and the most: SentEval checks the limit before it trains on, so that one more follows.
_PASSES = 50
_MOST_PASSES = 1000
# Evaluations without gain (in total, not in a row) before the next one ends the fit.
_TENACITY = 3


@dataclass(frozen=True)
class Regression:
    """Predicted scores (test rows,), the best dev Pearson, and the number of evaluations."""

    predicted: NDArray[np.float64]
    dev_pearson: float
    evaluations: int


def score_targets(gold: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return targets (n, 5) of scores (n,): class floor(y) gets floor(y) - y + 1, the next the rest."""
    low = np.floor(gold)[:, None]
    rest = gold[:, None] - low
    classes = np.arange(1, _CLASSES + 1)
    targets: NDArray[np.float64] = np.where(classes == low, 1 - rest, 0) + np.where(classes == low + 1, rest, 0)
    return targets.astype(np.float32)


def regress(
    features: NDArray[np.float32], train: NDArray[np.float64], dev: NDArray[np.float64], device: str = "cpu"
) -> Regression:
    """Fit on the first rows of features (n, dim), stop early on the next, and predict the rest.

    `train` and `dev` are the gold scores. Adam, learning rate 1e-3, batches of 64.
    """
    x = pad(features, device)
    targets = torch.from_numpy(score_targets(train)).to(device)
    (weights,) = (w.to(device) for w in Linear(_CLASSES).initial(features.shape[1], x.shape[1], _SEED))
    moments = [torch.zeros_like(weights), torch.zeros_like(weights)]
    # SentEval's generator.
    random = np.random.RandomState(_SEED)
    held = slice(len(train), len(train) + len(dev))
    best, best_pearson = weights, -1.0
    steps = passes = evaluations = idle = 0
    threads = torch.get_num_threads()
    # The steps are too small to gain from several threads.
    torch.set_num_threads(1)
    try:
        while idle <= _TENACITY and passes <= _MOST_PASSES:
            for _ in range(_PASSES):
                order = torch.from_numpy(random.permutation(len(train))).to(device)
                steps = _one_pass(x, targets, order, weights, moments, steps)
            passes += _PASSES
            evaluations += 1
            pearson = correlations(_expected(x[held], weights), dev)["pearson"] or 0.0
            if pearson > best_pearson:
                best, best_pearson = weights.clone(), pearson
            else:
                idle += 1
    finally:
        torch.set_num_threads(threads)
    return Regression(_expected(x[held.stop :], best), best_pearson, evaluations)


def _expected(x: Tensor, weights: Tensor) -> NDArray[np.float64]:
    probabilities = (x @ weights.T).softmax(1).cpu().numpy()
    return np.asarray(probabilities @ np.arange(1.0, _CLASSES + 1), dtype=np.float64)


@torch.no_grad()
def _one_pass(x: Tensor, targets: Tensor, order: Tensor, weights: Tensor, moments: list[Tensor], steps: int) -> int:
    """Train weights (5, padded dim) and moments in place; returns the steps so far."""
    first, second = moments
    for rows in torch.split(order, _BATCH):
        batch = x.index_select(0, rows)
        probabilities = (batch @ weights.T).softmax(1)
        error = probabilities - targets.index_select(0, rows)
        # Through the softmax; the mean is over rows and classes.
        towards = error.sub_((error * probabilities).sum(1, keepdim=True)).mul_(probabilities)
        gradient = (towards.T @ batch).mul_(2 / towards.numel())
        # Adam written out: calling torch's own takes longer than all the rest of such a small step.
        steps += 1
        first.lerp_(gradient, 1 - _BETAS[0])
        second.mul_(_BETAS[1]).addcmul_(gradient, gradient, value=1 - _BETAS[1])
        scale = second.sqrt().div_(math.sqrt(1 - _BETAS[1] ** steps)).add_(_EPSILON)
        weights.addcdiv_(first, scale, value=-_RATE / (1 - _BETAS[0] ** steps))
    return steps
