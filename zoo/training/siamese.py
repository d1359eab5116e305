"""Siamese training on labelled pairs: a classifier per task, batches of tasks in turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from zoo.encoder import Corpus, FitReport, Run, Runtime
from zoo.engine.batching import flat_rows, host_of
from zoo.engine.states import Pooling, pooled
from zoo.engine.tokens import TokenTable
from zoo.errors import ContractError, TrainingError
from zoo.files import hash_fraction
from zoo.training.loop import Collate, Objective, Training
from zoo.training.settings import TrainSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel


Concatenation = Literal[
    "u;v", "|u-v|", "u*v", "u;v;|u-v|", "u;v;u*v", "|u-v|;u*v", "u;v;|u-v|;u*v", "u;v;|u-v|;max(u,v)^2"
]
"""The features of a pair that a classifier gets (BURT table 4, SBERT table 6; the last one is in ConSERT's code)."""

_EVALUATED = 256

_PARTS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "u": lambda u, v: u,
    "v": lambda u, v: v,
    "|u-v|": lambda u, v: (u - v).abs(),
    "u*v": lambda u, v: u * v,
    "max(u,v)^2": lambda u, v: torch.maximum(u, v).square(),
}


def concatenated(u: torch.Tensor, v: torch.Tensor, how: Concatenation) -> torch.Tensor:
    """u, v (n, dim) -> features (n, parts * dim) by `how`."""
    return torch.cat([_PARTS[part](u, v) for part in how.split(";")], dim=-1)


def width_of(how: Concatenation) -> int:
    return len(how.split(";"))


@dataclass(frozen=True)
class PairTask:
    """Pair i is texts first[i] and second[i], of class labels[i]."""

    name: str
    classes: int
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


def labelled_task(
    name: str, corpus: Corpus | None, labels: Sequence[str], how_to_get: str, *, several: bool = True
) -> PairTask:
    """Pairs with any of `labels`; raises ContractError or TrainingError if there is none."""
    if corpus is None or corpus.labels is None:
        raise ContractError(f"{name} is trained on labelled pairs; pass {how_to_get}.")
    number = {label: i for i, label in enumerate(labels)}
    rows = np.array([i for i, label in enumerate(corpus.labels) if label in number], dtype=np.int64)
    if not len(rows):
        raise TrainingError(f"no pair of {corpus.name} is labelled {' or '.join(labels)}: {name} needs {how_to_get}.")
    classes = np.array([number[corpus.labels[i]] for i in rows], dtype=np.int64)
    # Pairs without labels count as equal in meaning.
    if several and len({*classes}) == 1:
        raise TrainingError(f"every pair of {corpus.name} is labelled {labels[classes[0]]}: {name} needs {how_to_get}.")
    return PairTask(name, len(labels), 2 * rows, 2 * rows + 1, classes)


def held_out_by_first(task: PairTask, corpus: Corpus, share: float) -> tuple[PairTask, PairTask]:
    """Split into trained and held out by sha256 of the first text; raises TrainingError for one text."""
    texts = sorted({corpus.sentences[i] for i in task.first}, key=lambda text: (hash_fraction(text), text))
    if len(texts) < 2:
        raise TrainingError(f"{corpus.name} has a single premise; {task.name} holds one out to measure its accuracy.")
    held_out = set(texts[: math.ceil(share * len(texts))])
    out = np.array([corpus.sentences[i] in held_out for i in task.first])

    def part(rows: NDArray[np.bool_]) -> PairTask:
        return replace(task, first=task.first[rows], second=task.second[rows], labels=task.labels[rows])

    return part(~out), part(out)


class PooledStates(nn.Module):
    """Ids and mask (n, length) -> pooled states (n, dim), float32."""

    def __init__(self, model: PreTrainedModel, how: Pooling) -> None:
        super().__init__()
        self.model, self.how = model, how

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return pooled(self.model, input_ids, attention_mask, self.how)


class FastLinear(nn.Linear):
    """A linear map with `rate` times the learning rate of Adam."""

    def __init__(self, width: int, classes: int, *, bias: bool, rate: float) -> None:
        super().__init__(width, classes, bias=bias)
        self.rate = rate
        with torch.no_grad():
            for parameter in self.parameters():
                # So rate * weight has the usual initial values.
                parameter.div_(rate)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.rate * super().forward(features)


class PairObjective(Objective):
    """Cross-entropy of softmax(head([u; v; |u - v|])), a head per task, one encoder."""

    def __init__(self, encoder: nn.Module, heads: Sequence[nn.Module], how: Concatenation) -> None:
        super().__init__()
        self.encoder, self.heads, self.how = encoder, nn.ModuleList(heads), how

    def logits(self, ids: torch.Tensor, mask: torch.Tensor, task: int) -> torch.Tensor:
        """Ids and mask (n, 2, length) -> logits (n, classes), float32."""
        u, v = self.encoder(ids.flatten(0, 1), flat_rows(mask)).unflatten(0, ids.shape[:2]).unbind(1)
        with torch.autocast(u.device.type, enabled=False):
            result: torch.Tensor = self.heads[task](concatenated(u.float(), v.float(), self.how))
        return result

    def forward(self, *collated: torch.Tensor, **_: object) -> torch.Tensor:
        """Ids and mask (n, 2, length), labels (n,), task (n,), equal in all rows -> loss."""
        ids, mask, labels, task = collated
        return F.cross_entropy(self.logits(ids, mask, int(host_of(task)[0])), labels)


def pair_batches(tasks: Sequence[PairTask], table: TokenTable, pad_id: int) -> Collate:
    ends = np.cumsum([len(task) for task in tasks])

    def batch(rows: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
        number = int(np.searchsorted(ends, rows[0], side="right"))
        task = tasks[number]
        local_rows = rows - (ends[number] - len(task))
        ids, mask = table.padded(np.stack([task.first[local_rows], task.second[local_rows]], axis=1).ravel(), pad_id)
        labels = torch.from_numpy(task.labels[local_rows])
        return (
            ids.view(len(local_rows), 2, -1),
            mask.view(len(local_rows), 2, -1),
            labels,
            torch.full_like(labels, number),
        )

    return batch


def classified_right(objective: PairObjective, batch: Collate, rows: int, device: str) -> NDArray[np.bool_]:
    """Correct pairs (rows,) of the first task; leaves the objective in eval mode."""
    objective.eval()
    right = []
    with torch.inference_mode():
        for some in np.array_split(np.arange(rows), math.ceil(rows / _EVALUATED)):
            ids, mask, labels, _ = (tensor.to(device) for tensor in batch(some))
            right.append((objective.logits(ids, mask, 0).argmax(1) == labels).cpu().numpy())
    return np.concatenate(right)


def accuracy(objective: PairObjective, batch: Collate, rows: int, device: str) -> float:
    return 100 * int(classified_right(objective, batch, rows, device).sum()) / rows


def task_of_step(step: int, tasks: int) -> tuple[int, int]:
    """Task 0, 1, 0, 2, 0, 1 ... (BURT section 3.3), and its number of earlier batches."""
    if tasks == 1:
        return 0, step
    half, odd = divmod(step, 2)
    if not odd:
        return 0, half
    others_before, other = divmod(half, tasks - 1)
    return 1 + other, others_before


class _AlternatingTraining(Training):
    sizes: tuple[int, ...]
    _orders: dict[int, tuple[int, NDArray[np.int64]]]

    def batch(self, step: int) -> NDArray[np.int64]:
        task, before = task_of_step(step, len(self.sizes))
        size, of_batch = self.sizes[task], self.settings.batch_size
        epoch, index = divmod(before, math.ceil(size / of_batch))
        if self._orders.get(task, (-1,))[0] != epoch:
            order = np.random.default_rng([self.run_.seed, epoch, task]).permutation(size)
            self._orders[task] = epoch, order + sum(self.sizes[:task])
        return self._orders[task][1][index * of_batch : (index + 1) * of_batch]

    def pairs_seen(self) -> int:
        batches = [0] * len(self.sizes)
        # These steps contain each task's last batch.
        for step in range(max(self.step - 2 * len(self.sizes), 0), self.step):
            task, before = task_of_step(step, len(self.sizes))
            batches[task] = before + 1
        of_batch, total = self.settings.batch_size, 0
        for size, count in zip(self.sizes, batches, strict=True):
            passes, rest = divmod(count, math.ceil(size / of_batch))
            total += passes * size + rest * of_batch
        return total


def train_in_turn(
    objective: PairObjective,
    tasks: Sequence[PairTask],
    table: TokenTable,
    pad_id: int,
    settings: TrainSettings,
    *,
    runtime: Runtime,
    run: Run,
    backbone: nn.Module,
    dev_score: Callable[[], float | Mapping[str, float]] | None,
) -> FitReport:
    """`train` in the order of `task_of_step`; the report counts both texts of a pair."""
    rows, collate = sum(len(task) for task in tasks), pair_batches(tasks, table, pad_id)
    training = _AlternatingTraining(objective, collate, rows, settings, runtime, run, backbone, dev_score)
    training.sizes, training._orders = tuple(len(task) for task in tasks), {}
    report = training.run()
    texts = 2 * training.pairs_seen()
    rate = round(texts / report.seconds, 1) if report.seconds > 0 else None
    return replace(report, sentences=texts, sentences_per_second=rate)


RateAfter = Callable[[Sequence[float]], float]
"""The accuracies of the epochs so far -> the learning rate of the next epoch."""


class _ByAccuracy(Training):
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
    """`train` with dev score `accuracy` x100, and a rate by the dev scores; set `eval_every` to an epoch.

    It ends after the epochs, or once the rate is below `least_rate`. The report counts `units_per_row` for each
    row: both texts of a pair.
    """
    arguments = (objective, collate, rows, settings, runtime, run, backbone, accuracy)
    report = _ByAccuracy(rate_after, least_rate, *arguments).run()
    units, rate = settings.units_per_row, report.sentences_per_second
    return replace(report, sentences=units * report.sentences, sentences_per_second=rate and units * rate)
