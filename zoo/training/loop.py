"""The training loop of one process on one device.

A killed training resumes from its last checkpoint, on a CPU in float32 bit-equal to an uninterrupted run: the data
order is a function of (seed, epoch), and a checkpoint has weights, optimiser, schedule and random state.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from zoo.encoder import FitReport, Run, Runtime, score_of
from zoo.engine.batching import autocast, out_of_memory, pinned
from zoo.engine.dropout import cheapen_dropout
from zoo.engine.narrow import NarrowWeights
from zoo.errors import CorruptError, Interrupted, TrainingError, ZooError
from zoo.machine import forget_peak_memory, keep_freed_memory, peak_memory_mb
from zoo.tensors import copied
from zoo.training.checkpoint import TrainingFolder, at_rest, changing, checkpoint_of, restore_checkpoint, undisturbed
from zoo.training.graphs import UNSTATED, Part, gradients, graphs_for, needed
from zoo.training.optimizers import make_optimizer, make_scheduler
from zoo.training.settings import TrainSettings


class Objective(nn.Module):
    """A module with forward(*collated) -> loss; all its state is in parameters and buffers."""

    def embed(self, *collated: Any, **_: Any) -> tuple[torch.Tensor, ...]:
        """Encoder outputs (n, ...), for the gradient cache only."""
        raise TypeError(f"{type(self).__name__} must define embed and contrast, or forward")

    def contrast(self, *vectors: Any, **_: Any) -> torch.Tensor:
        raise TypeError(f"{type(self).__name__} must define embed and contrast, or forward")

    def forward(self, *collated: Any, **_: Any) -> torch.Tensor:
        return self.contrast(*self.embed(*collated))

    def after_step(self) -> None:
        """Hook after each optimiser step."""

    @property
    def ungraphed(self) -> str | None:
        """Why no CUDA graph can hold a step; None: no host reads, shapes by the ids and masks (..., length)."""
        return UNSTATED

    def is_steady(self) -> bool:
        """True once later steps keep the coming step's shapes, as with a full queue."""
        return True


Collate = Callable[[NDArray[np.int64]], tuple[torch.Tensor, ...]]
"""Row numbers of a batch -> the tensors for the objective's forward; on a GPU it is called in a thread, in order."""


def train(
    objective: Objective,
    collate: Collate,
    rows: int,
    settings: TrainSettings,
    *,
    runtime: Runtime,
    run: Run,
    backbone: nn.Module,
    dev_score: Callable[[], float | Mapping[str, float]] | None,
) -> FitReport:
    """Train on `rows` sentences; `backbone` ends with the weights of the best dev score.

    Raises TrainingError if the loss or gradient is not finite, ZooError if memory runs out, Interrupted after a signal.
    """
    return Training(objective, collate, rows, settings, runtime, run, backbone, dev_score).run()


class Training:
    def __init__(
        self,
        objective: Objective,
        collate: Collate,
        rows: int,
        settings: TrainSettings,
        runtime: Runtime,
        run: Run,
        backbone: nn.Module,
        dev_score: Callable[[], float | Mapping[str, float]] | None,
    ) -> None:
        if rows == 0:
            raise TrainingError("the training corpus is empty; pass --corpus FILE with one sentence per line.")
        self.objective, self.collate, self.rows, self.settings = objective, collate, rows, settings
        self.runtime, self.run_, self.backbone, self.dev_score = runtime, run, backbone, dev_score
        self.device = torch.device(runtime.device)
        objective.to(self.device)
        cheapen_dropout(objective)
        self.progress = runtime.progress
        self.steps_per_epoch = math.ceil(rows / settings.batch_size)
        self.total_steps = settings.steps or self.steps_per_epoch * settings.epochs
        if self.total_steps == 1:
            self.progress.say(
                f"warning: {rows:,} rows in batches of {settings.batch_size:,} are one update in all, which hardly"
                " trains; give more text, a smaller batch_size or more epochs."
            )
        self.narrow = NarrowWeights(self.device)
        trained = [(name, part) for name, part in objective.named_parameters() if part.requires_grad]
        self.optimizer = make_optimizer(trained, settings)
        self.scheduler = make_scheduler(self.optimizer, settings, self.total_steps)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=runtime.precision == "fp16")
        # The first steps are often skipped, which is no wrong order of calls.
        if self.scaler.is_enabled():
            warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step", UserWarning)
        # Steps whose gradients left float16's range.
        self.skipped = 0
        self.step = 0
        self.dev_scores: dict[str, float] = {}
        self.best_step: int | None = None
        # Whether the weights of the best dev score are in their file.
        self.best_written = True
        self.last_loss = math.nan
        # Steps whose loss and gradient's norm are still on the device: its number, sentences, rate, losses and norm.
        self._unread: list[tuple[int, list[int], float, list[torch.Tensor], torch.Tensor]] = []
        self.seconds_before = 0.0
        self.files = TrainingFolder(run.folder, self.progress.say)
        self._order: tuple[int, NDArray[np.int64]] | None = None
        self.graphs = graphs_for(self) if runtime.cuda_graphs else None
        self._thread = ThreadPoolExecutor(1)
        self._next: Future[list[Part]] | None = None
        self._writer = ThreadPoolExecutor(1)
        self._written: Future[None] | None = None

    def _note(self, rows_per_second: float) -> str:
        settings = self.settings
        return f"loss {self.last_loss:.4f}, {rows_per_second * settings.units_per_row:,.0f} {settings.unit}/s"

    @contextmanager
    def autocast(self) -> Iterator[None]:
        # On a CPU few kernels gain nothing.
        narrow = self.device.type != "cpu" and self.runtime.precision != "fp32"
        with autocast(self.runtime), self.narrow() if narrow else nullcontext():
            yield

    def run(self) -> FitReport:
        if self.runtime.device == "cpu":
            keep_freed_memory()
        self.resume()
        if self.device.type != "cpu" and self.settings.tokens:
            fixed, kept = needed(self.objective, self.optimizer, self.settings.tokens, self.runtime.precision)
            parts = f"{fixed:.2f} for weights, gradients and optimiser, at most {kept:.2f} for a batch"
            self.progress.say(f"the training needs about {fixed + kept:.2f} GB of {self.device}: {parts}")
        started = self.started = self.last_saved = time.monotonic()
        first_step = self.step
        self.objective.train()
        forget_peak_memory(self.runtime.device)
        with self._writer, self.progress.bar("training", self.total_steps) as bar:
            while self.step < self.total_steps:
                self._stop_if_asked()
                batch = self.batch(self.step)
                self.one_step(batch)
                self.step += 1
                elapsed = time.monotonic() - started
                rate = (self.step - first_step) * self.settings.batch_size / max(elapsed, 1e-9)
                bar.update(self.step, self._note(rate))
                self.after_step()
        self._wait_for_writer()
        seconds = self.seconds_before + time.monotonic() - started
        if self.best_step is not None:
            self.backbone.load_state_dict(at_rest(self.backbone) | self.best_weights)
        self.backbone.eval()
        done_epochs, rest = divmod(self.step, self.steps_per_epoch)
        sentences = done_epochs * self.rows + rest * self.settings.batch_size
        facts = {"skipped_steps": self.skipped} if self.scaler.is_enabled() else {}
        if self.graphs is not None:
            facts |= {"captured_steps": self.graphs.replayed}
            # Its memory is no one else's while it lives.
            self.graphs = None
        return FitReport(
            fitted=True,
            steps=self.step,
            sentences=sentences,
            seconds=round(seconds, 3),
            sentences_per_second=round(sentences / seconds, 1) if seconds > 0 else None,
            final_loss=self.last_loss,
            dev_scores=self.dev_scores,
            dev_curves=self._dev_curves(),
            best_step=self.best_step,
            peak_memory_mb=peak_memory_mb(self.runtime.device),
            facts=facts,
        )

    def batch(self, step: int) -> NDArray[np.int64]:
        """Row numbers of a step; an epoch is a permutation by (seed, epoch)."""
        epoch, index = divmod(step, self.steps_per_epoch)
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, np.random.default_rng([self.run_.seed, epoch]).permutation(self.rows)
        return self._order[1][index * self.settings.batch_size : (index + 1) * self.settings.batch_size]

    def _collate(self, rows: NDArray[np.int64]) -> list[Part]:
        parts = np.array_split(rows, min(self.settings.accumulate, len(rows)))
        widened = self.graphs.widened if self.graphs is not None else tuple
        batches = [(len(part) / len(rows), widened(self.collate(part))) for part in parts]
        return [(share, [pinned(tensor, self.device) for tensor in batch]) for share, batch in batches]

    def _collated(self, rows: NDArray[np.int64]) -> list[Part]:
        """Parts of a batch; on a GPU the next batch is prepared meanwhile."""
        parts = self._collate(rows) if self._next is None else self._next.result()
        self._next = None
        if self.device.type != "cpu" and self.step + 1 < self.total_steps:
            self._next = self._thread.submit(self._collate, self.batch(self.step + 1))
        return parts

    def one_step(self, rows: NDArray[np.int64]) -> float:
        """Update the weights; return the last loss read: on a CPU this step's."""
        try:
            parts = self._collated(rows)
            losses, norm = gradients(self, parts) if self.graphs is None else self.graphs.step(parts[0][1])
            self._unread.append((self.step, rows[:4].tolist(), float(self.scheduler.get_last_lr()[0]), losses, norm))
            # A GPU would have to finish the step first.
            if self.device.type == "cpu":
                self._read()
            if self.graphs is None:
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad(set_to_none=True)
            self.scheduler.step()
        except Exception as error:
            if out_of_memory(error):
                size = self.settings.batch_size
                # No TrainingError: another machine may have more.
                raise ZooError(
                    f"out of memory at step {self.step} with batch_size {size}. A smaller batch changes the contrastive"
                    " loss, so it is not made smaller silently: set chunk_rows where the recipe has it (the same loss,"
                    f" in parts), batch_size (:batch_size={max(size // 2, 1)}) or train_max_length lower, or use a"
                    " larger device."
                ) from error
            raise
        self.narrow.known = True
        if self.graphs is None:
            self.objective.after_step()
        return self.last_loss

    def wait_for_thread(self) -> None:
        """Wait for the batch in preparation: a tokenizer serves one thread, a capture excludes other GPU work."""
        if self._next is not None:
            wait([self._next])

    def _read(self) -> None:
        """Read the last losses and norms in one wait; raises TrainingError unless finite."""
        unread, self._unread = self._unread, []
        if not unread:
            return
        values = iter(torch.stack([v.float() for *_, losses, norm in unread for v in (*losses, norm)]).tolist())
        for step, rows, rate, losses, _ in unread:
            self.last_loss, norm = sum(next(values) for _ in losses), next(values)
            if math.isfinite(self.last_loss) and math.isfinite(norm):
                continue
            if math.isfinite(self.last_loss) and self.scaler.is_enabled():
                self.skipped += 1
                continue
            self.optimizer.zero_grad(set_to_none=True)
            if math.isfinite(self.last_loss):
                what, unchanged = f"the gradient's norm is {norm}", f"though the loss is {self.last_loss:.4g} "
            else:
                what, unchanged = f"the loss is {self.last_loss}", ""
            # On a CPU this step has not been made; elsewhere no checkpoint has been written since.
            kept = "no weight was changed and " if self.device.type == "cpu" else ""
            raise TrainingError(
                f"{what} at step {step} {unchanged}(batch of sentences {rows} ..., learning rate {rate:.2e});"
                f" {kept}the last good checkpoint is kept. Lower learning_rate, or use --precision fp32."
            )

    def after_step(self) -> None:
        if self.step % self.settings.log_every == 0 or self.step == self.total_steps:
            self._read()
            self._log(loss=self.last_loss, learning_rate=float(self.scheduler.get_last_lr()[0]))
        if self.dev_score is not None and self._dev_score_due():
            self._evaluate()
            patience, steps = self.settings.patience, list(self.dev_scores)
            if patience is not None and len(steps) - 1 - steps.index(str(self.best_step)) >= patience:
                self.total_steps = self.step
        run = self.run_
        if run.checkpoint_steps is not None:
            save = self.step % run.checkpoint_steps == 0
        else:
            save = time.monotonic() - self.last_saved >= run.checkpoint_seconds
        if save and self.step < self.total_steps:
            self._save()

    def _dev_score_due(self) -> bool:
        step, end, looks = self.step, self.total_steps, self.settings.looks
        if looks is not None:
            return step in {math.ceil(end * part / looks) for part in range(1, looks + 1)}
        if self.settings.eval_within_epochs:
            step, end = (self.step - 1) % self.steps_per_epoch + 1, self.steps_per_epoch
        return step % self.settings.eval_every == 0 or step == end

    def _evaluate(self) -> None:
        assert self.dev_score is not None
        self._read()
        self.wait_for_thread()
        with undisturbed(self.objective):
            self.backbone.eval()
            result = self.dev_score()
        score = score_of(result)
        others = {k: v for k, v in result.items() if k != "score"} if isinstance(result, Mapping) else {}
        self._log(dev_score=score, **others)
        if not math.isfinite(score):
            raise TrainingError(f"the dev score at step {self.step} is {score}: the encoder has collapsed.")
        best = max(self.dev_scores.values(), default=-math.inf)
        self.dev_scores[str(self.step)] = score
        if score > best:
            self.best_step = self.step
            # On the device: a copy to the host would wait for it. Only a checkpoint refers to a file of them.
            self.best_weights = {k: v.detach().clone() for k, v in changing(self.backbone).items()}
            self.best_written = False

    def _dev_curves(self) -> dict[str, dict[str, float]]:
        curves: dict[str, dict[str, float]] = {}
        for line in map(json.loads, self.files.lines):
            if "dev_score" in line:
                for name in line.keys() - {"step", "dev_score"}:
                    curves.setdefault(name, {})[str(line["step"])] = line[name]
        return dict(sorted(curves.items()))

    def _log(self, **values: float) -> None:
        self.files.log({"step": self.step, **values})
        if self.run_.log_values is not None:
            self.run_.log_values(self.step, values)

    def _save(self) -> None:
        self._read()
        self.last_saved = time.monotonic()
        if self.run_.folder is None:
            return
        facts = {
            "step": self.step,
            "dev_scores": self.dev_scores,
            "best_step": self.best_step,
            "last_loss": self.last_loss if math.isfinite(self.last_loss) else None,
            "log": self.files.lines,
            "scaler": self.scaler.state_dict(),
            "skipped": self.skipped,
            "seconds": self.seconds_before + time.monotonic() - self.started,
        }
        # One copy at a time. It is made here, as a capture excludes other work of the GPU.
        self._wait_for_writer()
        best = None if self.best_written or self.best_step is None else (self.best_step, copied(self.best_weights))
        checkpoint = checkpoint_of(self.objective, self.optimizer, self.scheduler, facts)
        self.best_written = True

        def write(best_step: int | None = self.best_step) -> None:
            if best is not None:
                self.files.write_best(*best)
            self.files.save(*checkpoint, best_step)

        self._written = self._writer.submit(write)

    def _wait_for_writer(self) -> None:
        """Raises the error of a checkpoint that could not be written."""
        written, self._written = self._written, None
        if written is not None:
            written.result()

    def resume(self) -> None:
        checkpoint = self.files.find()
        self.files.begin(checkpoint)
        if checkpoint is None:
            return
        try:
            facts = restore_checkpoint(
                checkpoint.path, checkpoint.tensors, checkpoint.metadata, self.objective, self.optimizer, self.scheduler
            )
        except CorruptError as error:
            raise CorruptError(f"{error} Delete {checkpoint.path} to train from the start.") from error
        self.step, self.best_step = facts["step"], facts["best_step"]
        self.dev_scores, self.seconds_before = facts["dev_scores"], facts["seconds"]
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(facts["scaler"])
            self.skipped = facts["skipped"]
        self.last_loss = math.nan if facts["last_loss"] is None else facts["last_loss"]
        if checkpoint.best is not None:
            self.best_weights = checkpoint.best
        self.progress.say(f"resuming at step {self.step} of {self.total_steps} from {checkpoint.path}")

    def _stop_if_asked(self) -> None:
        if signal_number := self.run_.stop_signal():
            self._save()
            self._wait_for_writer()
            where = "" if self.run_.folder is None else f" in {self.run_.folder}"
            raise Interrupted(
                f"stopped by signal {signal_number} at step {self.step}; the checkpoint{where} is complete and the same"
                " command goes on from it.",
                signal_number,
            )
