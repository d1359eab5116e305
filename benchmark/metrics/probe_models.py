"""The two classifiers of SentEval's probes, many at a time, with gradients written out.

The first weights are those that SentEval draws.

Shapes: folds F, fits a fold R, classes C, rows of a minibatch B, padded width D (a 1 stands behind each vector).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor


def _drawn(outputs: int, inputs: int, padded: int, generator: torch.Generator) -> Tensor:
    """Return (outputs, padded): weights and bias of a linear layer as torch draws them, the bias behind the weights."""
    layer = torch.zeros(outputs, padded)
    weight, bias = torch.empty(outputs, inputs), torch.empty(outputs)
    torch.nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
    bound = 1 / math.sqrt(inputs)
    torch.nn.init.uniform_(bias, -bound, bound, generator=generator)
    layer[:, :inputs], layer[:, inputs] = weight, bias
    return layer


def _weigh(error: Tensor, scale: Tensor | float) -> float:
    """Weigh the errors (F, ..., B) of the rows in place; a weight that all rows share is left to the next product."""
    if isinstance(scale, float):
        return scale
    error.mul_(scale.view(len(scale), *[1] * (error.dim() - 2), -1))
    return 1.0


class Classifier(ABC):
    """Softmax classifiers under mean cross-entropy plus a penalty on all weights, biases too."""

    def __init__(self, classes: int) -> None:
        self.classes = classes

    @abstractmethod
    def initial(self, dim: int, padded: int, seed: int) -> list[Tensor]:
        """Return the first weights, the same for all fits; the global random state is left alone."""

    @abstractmethod
    def scores(self, weights: list[Tensor], x: Tensor) -> Tensor:
        """Return the class scores (F, R, C, B) of x (F, B, D)."""

    @abstractmethod
    def gradient(
        self,
        weights: list[Tensor],
        x: Tensor,
        targets: Tensor,
        scale: Tensor | float,
        penalties: Tensor,
        out: list[Tensor],
    ) -> None:
        """Write the gradients for one minibatch x (F, B, D); `scale` is 1/B or the weights (F, B) of the rows."""

    def targets(self, labels: Tensor) -> Tensor:
        """Return what `gradient` takes for labels (steps, F, B): one-hot (steps, F, 1, C, B)."""
        classes = torch.arange(self.classes, device=labels.device)[:, None]
        return (labels[:, :, None, None, :] == classes).to(torch.float32)


class Linear(Classifier):
    """Logistic regression: weights (F, R, C, D)."""

    def initial(self, dim: int, padded: int, seed: int) -> list[Tensor]:
        """One linear layer."""
        return [_drawn(self.classes, dim, padded, torch.Generator().manual_seed(seed))]

    def scores(self, weights: list[Tensor], x: Tensor) -> Tensor:
        """One batched product."""
        (w,) = weights
        folds, fits, classes, width = w.shape
        return torch.bmm(w.view(folds, fits * classes, width), x.transpose(1, 2)).view(folds, fits, classes, -1)

    def targets(self, labels: Tensor) -> Tensor:
        """With two classes: whether it is the second one (steps, F, 1, B)."""
        return labels[:, :, None].to(torch.float32) if self.classes == 2 else super().targets(labels)

    def gradient(
        self,
        weights: list[Tensor],
        x: Tensor,
        targets: Tensor,
        scale: Tensor | float,
        penalties: Tensor,
        out: list[Tensor],
    ) -> None:
        """Two batched products; with two classes they are half as wide, for only the difference of scores counts."""
        (w,), (g,) = weights, out
        torch.mul(w, penalties[:, :, None, None], out=g)
        if self.classes == 2:
            (w_no, w_yes), (g_no, g_yes) = w.unbind(2), g.unbind(2)
            error = torch.bmm(w_yes - w_no, x.transpose(1, 2)).sigmoid_().sub_(targets)
            common = _weigh(error, scale)
            towards = torch.bmm(error, x)
            g_yes.add_(towards, alpha=common)
            g_no.sub_(towards, alpha=common)
            return
        folds, fits, classes, width = w.shape
        error = self.scores(weights, x).softmax(2).sub_(targets)
        common = _weigh(error, scale)
        g.view(folds, fits * classes, width).baddbmm_(error.view(folds, fits * classes, -1), x, alpha=common)


class Hidden(Classifier):
    """One sigmoid layer before the linear one: weights (F, R, H, D), (F, R, C, H) and biases (F, R, C, 1)."""

    def __init__(self, classes: int, units: int) -> None:
        super().__init__(classes)
        self.units = units

    def initial(self, dim: int, padded: int, seed: int) -> list[Tensor]:
        """Two linear layers, drawn one after the other."""
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
        """Two batched products."""
        return self._layers(weights, x)[1]

    def gradient(
        self,
        weights: list[Tensor],
        x: Tensor,
        targets: Tensor,
        scale: Tensor | float,
        penalties: Tensor,
        out: list[Tensor],
    ) -> None:
        """Backpropagation through both layers."""
        for w, g in zip(weights, out, strict=True):
            torch.mul(w, penalties[:, :, None, None], out=g)
        below, above, _ = weights
        folds, fits, units, width = below.shape
        units_on, scores = self._layers(weights, x)
        error = scores.softmax(2).sub_(targets)
        error.mul_(_weigh(error, scale))
        out[2].add_(error.sum(3, keepdim=True))
        error = error.view(folds * fits, self.classes, -1)
        out[1].view(folds * fits, -1, units).baddbmm_(error, units_on.transpose(1, 2))
        back = torch.bmm(above.view(folds * fits, -1, units).transpose(1, 2), error)
        back.mul_(units_on).mul_(1 - units_on)
        out[0].view(folds, fits * units, width).baddbmm_(back.view(folds, fits * units, -1), x)
