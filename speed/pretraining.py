"""Measures pretraining with full softmax and last layer against the recipe's shortcuts, alternating in one run.

python -m speed.pretraining --text FILE [--recipe zoo-mini] [--steps 50] [--rounds 6] [--profile]

Both sides start from the same weights and train on the same rows in the same order, in the project's own loop. `before`
is the recipe with vocabulary_loss=full:last_layer=everywhere. Each round trains each side for some more steps; CPU time
is printed beside wall time, for a machine that others use too. At the end the medians, their ratio, and the held-out
scores of both sides after the same number of tokens are printed.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from benchmark.data.readers.pairs import iterate_text
from speed.script import run
from speed.table import conditions, write_csv
from zoo.encoder import Run, Runtime
from zoo.hardware import choose_device, choose_precision
from zoo.paths import cache_folder
from zoo.pretraining.models import load_model, new_model
from zoo.pretraining.phases import Phase
from zoo.pretraining.recipe import PretrainRecipe, read_pretrain_recipe
from zoo.pretraining.run import PretrainTraining
from zoo.pretraining.setting import PlainTexts, Setting
from zoo.pretraining.starts import start_weights
from zoo.training.checkpoint import random_state, set_random_state


class Side:
    """One way to train, which continues from round to round as if it were trained alone."""

    def __init__(self, name: str, recipe: PretrainRecipe, texts: PlainTexts, runtime: Runtime) -> None:
        import torch

        self.name, self.recipe, self.runtime = name, recipe, runtime
        self.setting = Setting(recipe, texts, runtime)
        torch.manual_seed(recipe.seed)
        if recipe.begin_from is None:
            model = new_model(recipe, len(self.setting.tokenizer), self.setting.tokenizer)
            start_weights(model, self.setting.stream.ids, self.setting.tokenizer, recipe, recipe.seed)
        else:
            model = load_model(recipe.begin_from, recipe.dropout)
        self.objective = self.setting.objective(model)
        self.training = PretrainTraining(
            self.objective,
            recipe,
            Phase(recipe.decay_from, recipe.steps),
            self.setting.batch,
            self.setting.training_rows,
            lambda length: 0.0,
            runtime,
            Run(seed=recipe.seed),
            lambda: self.setting.score(self.objective),
        )
        self.state = random_state()

    def steps(self, count: int) -> dict[str, Any]:
        """Train `count` more steps; returns their time and speed."""
        set_random_state(self.state)
        training = self.training
        self.objective.train()
        before = training.tokens_after(training.step)
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(count):
            loss = training.one_step(training.batch(training.step))  # reading the loss waits until a GPU has finished
            training.step += 1
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        self.state = random_state()
        tokens = training.tokens_after(training.step) - before
        return {
            "side": self.name,
            "step": training.step,
            "loss": loss,
            "tokens": tokens,
            "tokens_per_second": tokens / wall,
            "tokens_per_processor_second": tokens / processor,
        }

    def profile(self, count: int = 3) -> str:
        """Return a table of the operations that take most of the time of `count` steps."""
        import torch

        activities = [torch.profiler.ProfilerActivity.CPU]
        if self.runtime.device.startswith("cuda"):
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        with torch.profiler.profile(activities=activities) as profiler:
            self.steps(count)
        table = profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=12, max_name_column_width=40)
        return f"{self.name}:\n{table}"


@click.command(help=__doc__)
@click.option("--text", type=click.Path(exists=True, path_type=Path), required=True, help="One sentence per line.")
@click.option("--recipe", "name", default="zoo-mini:held_out_rows=512", show_default=True)
@click.option("--steps", default=50, show_default=True, help="Of a round.")
@click.option("--rounds", default=6, show_default=True)
@click.option("--profile", is_flag=True, help="Also print where the time of each side goes.")
@click.option("--device", default="auto", show_default=True)
@click.option("--precision", type=click.Choice(["auto", "bf16", "fp32"]), default="auto", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="CSV file for every single measurement.")
def main(
    text: Path, name: str, steps: int, rounds: int, profile: bool, device: str, precision: str, out: Path | None
) -> None:
    """Measure and print medians, the ratio, and the held-out scores."""
    device = choose_device(device)
    runtime = Runtime(device=device, precision=choose_precision(precision, device))
    texts = PlainTexts([text], iterate_text, cache_folder() / "tokens")
    recipe = replace(read_pretrain_recipe(name), steps=steps * rounds + 3, decay_steps=None)
    before = replace(recipe, vocabulary_loss="full", last_layer="everywhere")
    sides = [Side("before", before, texts, runtime), Side("after", recipe, texts, runtime)]
    for side in sides:
        side.steps(3)  # warms up memory, kernels and caches
    rows: list[dict[str, Any]] = []
    for number in range(1, rounds + 1):
        for side in sides if number % 2 else sides[::-1]:
            rows.append({**side.steps(steps), "round": number})
            print(", ".join(f"{k} {v:,.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in rows[-1].items()))
    for unit in ("tokens_per_second", "tokens_per_processor_second"):
        medians = {s.name: statistics.median(row[unit] for row in rows if row["side"] == s.name) for s in sides}
        ratio = medians["after"] / medians["before"]
        print(f"{unit}: before {medians['before']:,.0f}, after {medians['after']:,.0f}, ratio {ratio:.2f}")
    for side in sides:
        found = side.setting.score(side.objective)
        tokens = side.training.tokens_after(side.training.step)
        print(
            f"{side.name}: held out after {tokens:,} tokens: loss {math.log(found.pseudo_perplexity):.3f}, accuracy"
            f" {100 * found.accuracy:.2f} %, pseudo-perplexity {found.pseudo_perplexity:.1f}"
        )
    if profile:
        for side in sides:
            print(side.profile())
    if out is not None:
        write_csv(out, rows, {"recipe": name, "precision": runtime.precision, **conditions(device, "transformers")})


if __name__ == "__main__":
    run(main)
