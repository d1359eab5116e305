"""Solves many logistic regressions together to convergence, by L-BFGS in float64.

Each fit minimises the mean cross-entropy of its rows + penalty/2 ‖W‖², with W for all classes and no penalty on the
intercept. This is the loss of SentEval's fits (which also penalise the intercept), without early stopping. It equals
scikit-learn's LogisticRegression with C = 1/(rows · penalty), or C = 2/(rows · penalty) for two classes, where
scikit-learn fits the difference of the two weight vectors.

L-BFGS starts from an estimate of the curvature: here the covariance of the vectors times the mean covariance of the
predicted classes, plus the penalty, which is inverted directly in the principal axes of both. With a multiple of the
identity instead, most fits on real vectors need hundreds of iterations, and some are not finished after 2000.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmark.metrics.probe.batch import Fold, Rows
from zoo.errors import TrainingError

_HISTORY = 10  # pairs of steps and gradient changes that approximate the curvature
_ITERATIONS = 2000
_ROTATED = 2048  # dimensions up to which principal axes are used; finding them takes time cubic in the dimensions


@dataclass
class Solved:
    """Coefficients (n, outputs, dim) and intercepts (n, outputs); two classes have one output, the second's score."""

    coefficients: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    gradients: NDArray[np.float64]  # (n,) largest entry of the gradient where the solver stopped
    iterations: int
    dev: NDArray[np.float64]  # (n,) accuracy on the fold's development rows; NaN without
    vectors: NDArray[np.float32]

    def predict(self, fit: int, rows: Rows) -> NDArray[np.int64]:
        """Return the classes (len(rows),) that a fit gives to rows."""
        scores = self.vectors[rows].astype(np.float64) @ self.coefficients[fit].T + self.intercepts[fit]
        found = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(1)
        return np.asarray(found, dtype=np.int64)


def solve_fits(
    vectors: NDArray[np.float32],
    labels: NDArray[np.int64],
    folds: Sequence[Fold],
    fold_of: Rows,
    penalties: NDArray[np.float64],
    *,
    device: str = "cpu",
    tolerance: float = 1e-4,
) -> Solved:
    """Solve one regression for every entry of `fold_of` and `penalties`, on `vectors` (rows, dim).

    Stops when the gradient's norm is below `tolerance` x penalty; the error of coefficients is then about `tolerance`.
    Raises TrainingError when some fit has not converged after 2000 iterations.
    """
    x = torch.from_numpy(np.asarray(vectors, dtype=np.float64)).to(device)
    centre = x.mean(0)  # changes only the intercept, which has no penalty, and improves the conditioning greatly
    x, axes = _in_principal_axes(x - centre)
    x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype, device=x.device)], 1)
    classes = int(labels.max()) + 1
    y = torch.from_numpy(labels).to(device)
    target = (y == 1)[None] if classes == 2 else y == torch.arange(classes, device=device)[:, None]
    weight = torch.zeros(len(folds), len(x), dtype=x.dtype, device=x.device)
    for row, fold in zip(weight, folds, strict=True):
        row[torch.from_numpy(fold.train).to(device)] = 1 / len(fold.train)
    ridge = torch.from_numpy(penalties).to(device) / (2 if classes == 2 else 1)
    solver = _Solver(x, target.to(x.dtype), weight[torch.from_numpy(fold_of).to(device)], ridge)
    w, largest, iterations = solver.run(tolerance)
    coefficients = w[:, :, :-1] if axes is None else w[:, :, :-1] @ axes.T
    intercepts = (w[:, :, -1] - coefficients @ centre).cpu().numpy()
    dev_accuracies = np.full(len(fold_of), np.nan)
    solved = Solved(coefficients.cpu().numpy(), intercepts, largest, iterations, dev_accuracies, vectors)
    for fit, number in enumerate(fold_of):
        dev = folds[number].dev
        if dev is not None:
            solved.dev[fit] = np.mean(solved.predict(fit, dev) == labels[dev])
    return solved


def _in_principal_axes(x: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return centred x (rows, dim) in its principal axes, and these axes (dim, dim); None: x is left unchanged."""
    if x.shape[1] > _ROTATED:
        return x, None
    axes: Tensor = torch.linalg.eigh(x.T @ x).eigenvectors
    return x @ axes, axes


class _Solver:
    """The state of all fits: weights w (n, outputs, dim + 1) and scores z (n, outputs, rows)."""

    def __init__(self, x: Tensor, target: Tensor, weight: Tensor, ridge: Tensor) -> None:
        self.x, self.target, self.weight = x, target, weight[:, None]
        self.ridge = ridge[:, None, None] * torch.ones(x.shape[1], dtype=x.dtype, device=x.device)
        self.ridge[..., -1] = 0  # no penalty on the intercept
        self.bound = ridge
        self.variance = x.square().mean(0)

    def _scores(self, w: Tensor) -> Tensor:
        return (w.flatten(0, 1) @ self.x.T).view(*w.shape[:2], -1)

    def _error(self, z: Tensor) -> Tensor:
        """Return the derivative of the loss with respect to the scores, without the weights of the rows."""
        return (z.sigmoid() if z.shape[1] == 1 else z.softmax(1)).sub_(self.target)

    def _gradient(self, w: Tensor, error: Tensor, fits: Tensor) -> Tensor:
        weighted = error * self.weight[fits]
        loss: Tensor = (weighted.flatten(0, 1) @ self.x).view(w.shape)
        return loss + self.ridge[fits] * w

    def _inverse(self, error: Tensor, fits: Tensor) -> Callable[[Tensor], Tensor]:
        """Return a function that divides an array shaped like w by the estimated curvature at this error's scores."""
        p = error + self.target
        weighted = p * self.weight[fits]
        covariance = torch.diag_embed(weighted.sum(2)) - weighted @ p.mT  # of the classes, one of them left out if two
        values, axes = torch.linalg.eigh(covariance)
        if p.shape[1] > 1:
            values[:, 0] = 0  # adding the same to all classes changes only the penalty
        curvature = values[:, :, None] * self.variance + self.ridge[fits]
        inverse = torch.where(curvature > 0, 1 / curvature, 0)
        return lambda v: axes @ (inverse * (axes.mT @ v))

    @torch.no_grad()
    def run(self, tolerance: float) -> tuple[Tensor, NDArray[np.float64], int]:
        """Return weights, the largest gradient entry of each fit, and the iterations made."""
        count, outputs = len(self.weight), self.target.shape[0]
        final = torch.zeros(count, outputs, self.x.shape[1], dtype=self.x.dtype, device=self.x.device)
        largest = torch.zeros(count, dtype=self.x.dtype, device=self.x.device)
        fits = torch.arange(count, device=self.x.device)
        w = final.clone()
        z = self._scores(w)
        error = self._error(z)
        gradient = self._gradient(w, error, fits)
        history: list[tuple[Tensor, Tensor, Tensor]] = []
        iteration = 0
        for iteration in range(1, _ITERATIONS + 1):
            done = gradient.flatten(1).norm(dim=1) <= tolerance * self.bound[fits]
            if done.any() or iteration == _ITERATIONS:
                final[fits], largest[fits] = w, gradient.flatten(1).abs().amax(1)
                keep = ~done
                fits, w, z, error, gradient = fits[keep], w[keep], z[keep], error[keep], gradient[keep]
                history = [(s[keep], t[keep], r[keep]) for s, t, r in history]
                if not len(fits):
                    break
                if iteration == _ITERATIONS:
                    raise TrainingError(
                        f"{len(fits)} of {count} regressions of protocol exact have not converged after {iteration}"
                        f" iterations (largest gradient {gradient.abs().max():.1e}); use protocol senteval."
                    )
            direction = _direction(gradient, history, self._inverse(error, fits))
            length, z, error = self._search(w, z, direction, gradient, fits)
            step = length[:, None, None] * direction
            w = w + step
            new = self._gradient(w, error, fits)
            change = new - gradient
            curvature = (step * change).flatten(1).sum(1)
            # A pair without curvature has no information; infinite curvature leaves it out.
            curvature = torch.where(curvature > 0, curvature, torch.inf)
            history = [*history[-_HISTORY + 1 :], (step, change, curvature)]
            gradient = new
        return final, largest.cpu().numpy(), iteration

    def _search(
        self, w: Tensor, z: Tensor, direction: Tensor, gradient: Tensor, fits: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return step lengths (n,) at which the slope along each direction is close to zero, with scores and errors.

        The scores are linear in the length, so that trying a length needs no product with x. The loss is convex, so
        that the slope has one root, between the longest length that is too short and the shortest that is too long.
        """
        along = self._scores(direction)
        slope0 = (gradient * direction).flatten(1).sum(1)
        ridge = self.ridge[fits]
        bend, start = (ridge * direction**2).flatten(1).sum(1), (ridge * w * direction).flatten(1).sum(1)
        short, long = torch.zeros_like(slope0), torch.full_like(slope0, torch.inf)
        slope_short, slope_long = slope0.clone(), torch.zeros_like(slope0)
        length = torch.ones_like(slope0)
        at, error = torch.empty_like(z), torch.empty_like(z)
        open_ = torch.arange(len(fits), device=z.device)
        for _ in range(30):
            place = z[open_] + length[open_, None, None] * along[open_]
            wrong = self._error(place)
            at[open_], error[open_] = place, wrong
            slope = (wrong * self.weight[fits[open_]] * along[open_]).flatten(1).sum(1)
            slope += start[open_] + length[open_] * bend[open_]
            fine = (slope <= -0.1 * slope0[open_]) & (slope >= 0.9 * slope0[open_])
            if fine.all():
                break
            low = slope < 0
            short[open_] = torch.where(low, length[open_], short[open_])
            slope_short[open_] = torch.where(low, slope, slope_short[open_])
            long[open_] = torch.where(low, long[open_], length[open_])
            slope_long[open_] = torch.where(low, slope_long[open_], slope)
            open_ = open_[~fine]
            a, b, fa, fb = short[open_], long[open_], slope_short[open_], slope_long[open_]
            inside = a + (b - a) * (fa / (fa - fb)).clamp(0.1, 0.9)
            length[open_] = torch.where(b.isinf(), 4 * length[open_], inside)
        return length, at, error


def _direction(
    gradient: Tensor, history: list[tuple[Tensor, Tensor, Tensor]], inverse: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return the L-BFGS direction (two loops over the history), for every fit its own."""

    def dot(a: Tensor, b: Tensor) -> Tensor:
        total: Tensor = (a * b).flatten(1).sum(1)
        return total[:, None, None]

    result: Tensor = -gradient
    shares = []
    for step, change, curvature in reversed(history):
        share = dot(step, result) / curvature[:, None, None]
        result = result - share * change
        shares.append(share)
    result = inverse(result)
    if history:
        step, change, curvature = history[-1]
        scale = curvature[:, None, None] / dot(change, inverse(change))
        result = result * torch.where(scale.isfinite(), scale, 1.0)
    for (step, change, curvature), share in zip(history, reversed(shares), strict=True):
        result = result + (share - dot(change, result) / curvature[:, None, None]) * step
    return result
