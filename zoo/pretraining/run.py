"""One pretraining run: stages of row lengths, a decay that can start at any step, models written on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.encoder import Run, Runtime
from zoo.files import read_signed, write_signed
from zoo.pretraining.mlm import HeldOut, MLMObjective
from zoo.pretraining.optimizers import MuonAdamW, hidden_matrices
from zoo.pretraining.phases import DECAY, Phase, begin_decay, copy_file
from zoo.pretraining.recipe import PretrainRecipe, mask_rate_at, rate_factor, stages
from zoo.training.checkpoint import undisturbed
from zoo.training.folder import LAST
from zoo.training.loop import Training
from zoo.training.settings import TrainSettings

if TYPE_CHECKING:
    pass

Rows = Callable[[NDArray[np.int64], int], torch.Tensor]
"""Numbers of rows and their length -> token ids (n, length)."""


class PretrainTraining(Training):
    """The loop with the stages, the optimisers and the schedule of a pretraining recipe."""

    def __init__(
        self,
        objective: MLMObjective,
        recipe: PretrainRecipe,
        phase: Phase,
        rows: Rows,
        training_rows: dict[int, NDArray[np.int64]],
        flops: Callable[[int], float],
        runtime: Runtime,
        run: Run,
        score: Callable[[], HeldOut],
        keep_at: tuple[int, ...] = (),
        keep: Callable[[int, PretrainTraining], None] = lambda tokens, training: None,
    ) -> None:
        self.recipe, self.phase, self.score = recipe, phase, score
        self.stages = stages(recipe)
        self.training_rows, self.length = training_rows, recipe.row_length
        self.keep_at, self.keep = keep_at, keep
        self.resumed_at: list[int] = []
        self._pass: tuple[list[int], NDArray[np.int64]] | None = None  # the order of a pass over the text
        first = self.stages[0]
        settings = TrainSettings(
            batch_size=first.batch,
            learning_rate=recipe.learning_rate,
            epochs=1,
            steps=phase.total,
            eval_every=recipe.eval_every,
            weight_decay=recipe.weight_decay,
            adam_betas=(0.9, recipe.beta2),
            warmup_steps=recipe.warmup_steps,
            accumulate=recipe.accumulate,
            unit="tokens",
            units_per_row=first.length,
            flops_per_row=first.length * flops(first.length),
        )
        super().__init__(
            objective,
            lambda numbers: (rows(numbers, self.length),),
            len(training_rows[first.length]),
            settings,
            runtime,
            run,
            objective.model,
            lambda: 100 * score().accuracy,
        )

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Return AdamW, or Muon for the hidden matrices and AdamW for the rest."""
        if self.recipe.optimizer == "adamw":
            return super().make_optimizer()
        model = self.objective.get_submodule("model")
        matrices = hidden_matrices(model)
        chosen = {id(weight) for weight in matrices}
        return MuonAdamW(
            matrices,
            [p for p in model.parameters() if id(p) not in chosen and p.requires_grad],
            lr=self.recipe.learning_rate,
            betas=(0.9, self.recipe.beta2),
            weight_decay=self.recipe.weight_decay,
            momentum=self.recipe.momentum,
            dtype=torch.bfloat16 if self.runtime.precision == "bf16" else torch.float32,
        )

    def make_scheduler(self) -> torch.optim.lr_scheduler.LRScheduler:
        """Return the schedule: warm-up, constant rate, and the phase's decay."""
        phase, warmup = self.phase, self.recipe.warmup_steps
        return torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: rate_factor(step, warmup, phase.decay_from, phase.total)
        )

    def batch(self, step: int) -> NDArray[np.int64]:
        """Return the rows of a step and set their length; each pass over the text has its own order."""
        phase = self.phase
        if step == phase.decay_from and self.recipe.decay_steps is not None:
            folder = self.run_.folder
            begun = folder is None or (folder / DECAY).is_file()
            if not begun:
                self._save()
                if folder is not None:
                    begin_decay(folder, phase)
        number = max(i for i, stage in enumerate(self.stages) if stage.first_step <= step)
        stage = self.stages[number]
        rows = self.training_rows[stage.length]
        self.length = stage.length
        self.objective.mask_rate = mask_rate_at(self.recipe, step)  # type: ignore[assignment]
        epoch, index = divmod(step - stage.first_step, -(-len(rows) // stage.batch))
        seed = [self.run_.seed, epoch] if number == 0 else [self.run_.seed, epoch, number]
        if self._pass is None or self._pass[0] != seed:
            self._pass = seed, np.random.default_rng(seed).permutation(rows)
        return self._pass[1][index * stage.batch : (index + 1) * stage.batch]

    def tokens_after(self, step: int) -> int:
        """Return the number of tokens in the first `step` steps; the last batch of a pass may be smaller."""
        tokens = 0
        ends = [stage.first_step for stage in self.stages[1:]] + [step]
        for stage, end in zip(self.stages, ends, strict=True):
            rows = len(self.training_rows[stage.length])
            passes, rest = divmod(max(min(end, step) - stage.first_step, 0), -(-rows // stage.batch))
            tokens += stage.length * (passes * rows + min(rest * stage.batch, rows))
        return tokens

    @property
    def seconds(self) -> float:
        """The seconds of training so far, with those before a resumption."""
        return self.seconds_before + time.monotonic() - self.started

    def after_step(self) -> None:
        """Log, score and save if due, and write the model at the numbers of tokens in `keep_at`."""
        super().after_step()
        before, now = self.tokens_after(self.step - 1), self.tokens_after(self.step)
        for tokens in self.keep_at:
            if before < tokens <= now:
                self._read()
                self.keep(tokens, self)

    def _evaluate(self) -> None:
        # No best weights are kept: the last weights are the result.
        found = self.scored()
        self._log(
            step=self.step,
            tokens=self.tokens_after(self.step),
            held_out_accuracy=found.accuracy,
            held_out_pseudo_perplexity=found.pseudo_perplexity,
        )
        self.progress.say(
            f"held out: accuracy {100 * found.accuracy:.2f} %, pseudo-perplexity {found.pseudo_perplexity:.1f} after"
            f" {self.tokens_after(self.step) / 1e6:,.1f} million tokens"
        )

    def scored(self) -> HeldOut:
        """Return the held-out scores of the current weights, without changing random state or modes."""
        with undisturbed(self.objective):
            return self.score()

    def resume(self) -> None:
        """Restore the last checkpoint, and write its step to resumed.json."""
        super().resume()
        if self.run_.folder is None:
            return
        noted = self.run_.folder / "resumed.json"
        if self.step:
            before = read_signed(noted)["steps"] if noted.is_file() else []
            self.resumed_at = [*before, self.step]
            write_signed(noted, {"steps": self.resumed_at})
        else:
            noted.unlink(missing_ok=True)

    def save_at_end(self) -> None:
        """Save the last state of a training without decay, so that it can continue."""
        self._save()

    def save_state(self, folder: Path) -> None:
        """Write the training's whole state to another folder, from which it can continue too."""
        own = self.run_
        if own.folder is None:
            return
        self._save()
        for name in (LAST, DECAY):
            if (own.folder / name).is_file():
                copy_file(own.folder / name, folder / name)
