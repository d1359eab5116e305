"""The two classifiers of SentEval's probes, with its initial weights, many fits at a time and explicit gradients.

Shapes: folds F, fits per fold R, classes C, rows of a minibatch B, padded width D (a 1 follows each vector).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor


def _drawn(outputs: int, inputs: int, padded: int, generator: torch.Generator) -> Tensor:
    """Return a linear layer's weights by torch's initialisation, then its bias: (outputs, padded)."""
    layer = torch.zeros(outputs, padded)
    weight, bias = torch.empty(outputs, inputs), torch.empty(outputs)
    torch.nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
    bound = 1 / math.sqrt(inputs)
    torch.nn.init.uniform_(bias, -bound, bound, generator=generator)
    layer[:, :inputs], layer[:, inputs] = weight, bias
    return layer


def _weigh(error: Tensor, scale: Tensor | float) -> float:
    """Weight errors (F, ..., B) in place; a common weight is returned as a factor instead."""
    if isinstance(scale, float):
        return scale
    error.mul_(scale.view(len(scale), *[1] * (error.dim() - 2), -1))
    return 1.0


Gradients = Callable[[Tensor, Tensor | float], None]
"""(targets, scale): `scale` is 1/B, or the weights (F, B) of the rows."""


class Classifier(ABC):
    """Softmax by mean cross-entropy plus a penalty on all weights, including biases."""

    def __init__(self, classes: int) -> None:
        self.classes = classes

    @abstractmethod
    def initial(self, dim: int, padded: int, seed: int) -> list[Tensor]:
        """Return initial weights, equal for all fits; the global random state is unchanged."""

    @abstractmethod
    def scores(self, weights: list[Tensor], x: Tensor) -> Tensor:
        """Return the class scores (F, R, C, B) of x (F, B, D)."""

    @abstractmethod
    def gradients(self, weights: list[Tensor], x: Tensor, penalties: Tensor, out: list[Tensor]) -> Gradients:
        """Return a function of x (F, B, D) at the time of the call; it writes in place, without new views."""

    def targets(self, labels: Tensor) -> Tensor:
        """Return one-hot targets (steps, F, 1, C, B) of labels (steps, F, B)."""
        classes = torch.arange(self.classes, device=labels.device)[:, None]
        return (labels[:, :, None, None, :] == classes).to(torch.float32)


class Linear(Classifier):
    """Logistic regression: weights (F, R, C, D).

    With two classes, the first class's weights have the opposite sign: both then have the same gradient apart from the
    penalty; Adam and RMSprop take the same steps under either sign.
    """

    def initial(self, dim: int, padded: int, seed: int) -> list[Tensor]:
        layer = _drawn(self.classes, dim, padded, torch.Generator().manual_seed(seed))
        if self.classes == 2:
            layer[0].neg_()
        return [layer]

    def scores(self, weights: list[Tensor], x: Tensor) -> Tensor:
        (w,) = weights
        folds, fits, classes, width = w.shape
        scores = torch.bmm(w.view(folds, fits * classes, width), x.transpose(1, 2)).view(folds, fits, classes, -1)
        if classes == 2:
            scores[:, :, 0].neg_()
        return scores

    def targets(self, labels: Tensor) -> Tensor:
        """Return 1 for the second of two labels (steps, F, 1, B), else one-hot targets."""
        return labels[:, :, None].to(torch.float32) if self.classes == 2 else super().targets(labels)

    def gradients(self, weights: list[Tensor], x: Tensor, penalties: Tensor, out: list[Tensor]) -> Gradients:
        """Use half the width for two classes, because only the score difference matters."""
        (w,), (g,) = weights, out
        folds, fits, classes, width = w.shape
        transposed, penalties = x.transpose(1, 2), penalties[:, :, None, None]
        if classes == 2:
            no, yes = w.unbind(2)
            apart, towards = torch.empty_like(yes), torch.empty_like(g[:, :, :1])
            error, sums = x.new_empty(folds, fits, x.shape[1]), towards.squeeze(2)

            def of_two(targets: Tensor, scale: Tensor | float) -> None:
                torch.add(yes, no, out=apart)
                torch.bmm(apart, transposed, out=error).sigmoid_().sub_(targets)
                torch.baddbmm(sums, error, x, beta=0, alpha=_weigh(error, scale), out=sums)
                torch.addcmul(towards, w, penalties, out=g)

            return of_two
        flat, flat_g = w.view(folds, fits * classes, width), g.view(folds, fits * classes, width)

        def of_many(targets: Tensor, scale: Tensor | float) -> None:
            scores = torch.bmm(flat, transposed).view(folds, fits, classes, -1)
            error = scores.softmax(2).sub_(targets)
            torch.mul(w, penalties, out=g)
            flat_g.baddbmm_(error.view(folds, fits * classes, -1), x, alpha=_weigh(error, scale))

        return of_many


class Hidden(Classifier):
    """A sigmoid layer, then a linear layer: weights (F, R, H, D), (F, R, C, H) and biases (F, R, C, 1)."""

    def __init__(self, classes: int, units: int) -> None:
        super().__init__(classes)
        self.units = units

    def initial(self, dim: int, padded: int, seed: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        below = _drawn(self.units, dim, padded, generator)
        above = _drawn(self.classes, self.units, self.units + 1, generator)
        return [below, above[:, :-1].contiguous(), above[:, -1:].contiguous()]

    def _layers(self, weights: list[Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
        below, above, bias = weights
        folds, fits, units, width = below.shape
        units_on = torch.bmm(below.view(folds, fits * units, width), x.transpose(1, 2)).sigmoid_()
        units_on = units_on.view(folds * fits, units, -1)
        scores = torch.baddbmm(bias.view(folds * fits, -1, 1), above.view(folds * fits, -1, units), units_on)
        return units_on, scores.view(folds, fits, self.classes, -1)

    def scores(self, weights: list[Tensor], x: Tensor) -> Tensor:
        return self._layers(weights, x)[1]

    def gradients(self, weights: list[Tensor], x: Tensor, penalties: Tensor, out: list[Tensor]) -> Gradients:
        below, above, _ = weights
        folds, fits, units, width = below.shape
        penalties = penalties[:, :, None, None]

        def of_both(targets: Tensor, scale: Tensor | float) -> None:
            for w, g in zip(weights, out, strict=True):
                torch.mul(w, penalties, out=g)
            units_on, scores = self._layers(weights, x)
            error = scores.softmax(2).sub_(targets)
            error.mul_(_weigh(error, scale))
            out[2].add_(error.sum(3, keepdim=True))
            error = error.view(folds * fits, self.classes, -1)
            out[1].view(folds * fits, -1, units).baddbmm_(error, units_on.transpose(1, 2))
            back = torch.bmm(above.view(folds * fits, -1, units).transpose(1, 2), error)
            back.mul_(units_on).mul_(1 - units_on)
            out[0].view(folds, fits * units, width).baddbmm_(back.view(folds, fits * units, -1), x)

        return of_both
