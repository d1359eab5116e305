"""SGD whose learning rate depends on the accuracy after each epoch, until it falls below a limit (InferSent)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from zoo.encoder import FitReport, Run, Runtime
from zoo.training.loop import Collate, Objective, Training
from zoo.training.settings import TrainSettings

RateAfter = Callable[[Sequence[float]], float]
"""The accuracies of the epochs so far -> the learning rate of the next epoch."""


class _ByAccuracy(Training):
    """A training whose rate is a function of the dev scores, which a checkpoint holds; resuming needs no more."""

    def __init__(self, rate_after: RateAfter, least_rate: float, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.rate_after, self.least_rate = rate_after, least_rate
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda _: self._rate() / self.settings.learning_rate
        )

    def _rate(self) -> float:
        return self.rate_after(list(self.dev_scores.values()))

    def one_step(self, rows: NDArray[np.int64]) -> float:
        # The schedule set it before the epoch's accuracy was known.
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate()
        return super().one_step(rows)

    def after_step(self) -> None:
        super().after_step()
        self._stop_below_least_rate()

    def resume(self) -> None:
        super().resume()
        self._stop_below_least_rate()

    def _stop_below_least_rate(self) -> None:
        if self._rate() < self.least_rate:
            self.total_steps = self.step


def train_by_accuracy(
    objective: Objective,
    collate: Collate,
    rows: int,
    settings: TrainSettings,
    rate_after: RateAfter,
    least_rate: float,
    accuracy: Callable[[], float],
    *,
    runtime: Runtime,
    run: Run,
    backbone: nn.Module,
) -> FitReport:
    """Train as `train` does, with `accuracy` x100 as the dev score; set `eval_every` to the steps of one epoch.

    It ends after the epochs, or once the rate is below `least_rate`; `backbone` ends with the weights of the best
    accuracy. The report counts `units_per_row` for each row, which for pairs are both texts.
    """
    arguments = (objective, collate, rows, settings, runtime, run, backbone, accuracy)
    report = _ByAccuracy(rate_after, least_rate, *arguments).run()
    units, rate = settings.units_per_row, report.sentences_per_second
    return replace(report, sentences=units * report.sentences, sentences_per_second=rate and units * rate)
