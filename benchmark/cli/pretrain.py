"""`zoo-bench pretrain`: trains a small language model on plain text."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from benchmark.cli.options import PATH, data_option, device_option, precision_option, say, text_option

if TYPE_CHECKING:
    from zoo.pretraining.recipe import PretrainRecipe

OVERRIDES = """\b
Values of the recipe can be changed after its name, each after a colon:
  NAME:key=value:key=value      zoo-mini:steps=3000:learning_rate=5e-4
  lists in brackets             zoo-mini:row_stages=[[2000,128]]
  null for "none"               zoo-small:begin_from=null
Put all of it in quotes if your shell interprets brackets. After a wrong key, the error lists the keys.
"""
_NUMBER = re.compile(r"(\d+)([KMG]?)", re.IGNORECASE)


class TokenCounts(click.ParamType[tuple[int, ...]]):
    """Numbers of tokens such as 1M,30M,500K."""

    name = "tokens"

    def convert(
        self, value: str | tuple[int, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Return the numbers in ascending order."""
        if isinstance(value, tuple):
            return value
        found = [_NUMBER.fullmatch(part.strip()) for part in value.split(",")]
        if not all(found):
            self.fail(f"{value!r}: give numbers of tokens such as 1M,30M,500K.", param, ctx)
        units = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
        return tuple(sorted({int(m[1]) * units[m[2].upper()] for m in found if m}))


class _Options(TypedDict):
    recipe: str
    texts: tuple[str, ...]
    data: str | None
    out: Path | None
    score: str | None
    steps: int | None
    finish: int | None
    keep_at: tuple[int, ...]
    keep_state: bool
    device: str
    precision: str


def pretrain_command(options: _Options) -> int:
    """Run the pretraining; if it is killed, the same command continues it."""
    from benchmark.data.sources import DataSource
    from benchmark.pretraining.texts import clean_texts, find_texts, text_options
    from benchmark.run.stop import Stop
    from zoo.encoder import Run
    from zoo.errors import UsageError
    from zoo.files import check_writable, write_json
    from zoo.hardware import make_runtime
    from zoo.pretraining.models import find_with_tokenizer
    from zoo.pretraining.pretrain import Wishes, pretrain, score_checkpoint
    from zoo.pretraining.recipe import read_pretrain_recipe, recipe_line
    from zoo.pretraining.setting import find_names

    recipe = read_pretrain_recipe(options["recipe"])
    if options["steps"]:
        recipe = replace(recipe, steps=options["steps"])
    out, scored = options["out"], options["score"]
    if (out is None) == (scored is None):
        raise UsageError("pretrain needs either --out FOLDER, or --score CHECKPOINT.")
    # All names are looked up before any text is read.
    find_names(recipe)
    if scored is not None:
        find_with_tokenizer(scored, "--score")
    if out is not None:
        check_writable(out)
    data = DataSource.from_options(options["data"], hub=False)
    find_texts(options["texts"], data)
    runtime = make_runtime(options["device"], options["precision"])
    clean = clean_texts(options["texts"], data, runtime.progress)
    if scored is not None:
        held_out = score_checkpoint(recipe, clean.texts, scored, runtime=runtime)
        say(
            f"{scored}: held-out token accuracy {100 * held_out.accuracy:.2f} %, pseudo-perplexity"
            f" {held_out.pseudo_perplexity:.1f} ({held_out.tokens:,} tokens)"
        )
        return 0
    assert out is not None

    def line(made: PretrainRecipe) -> str:
        name = shlex.quote(recipe_line(made, options["recipe"]))
        return f"zoo-bench pretrain {name} {text_options(options['texts'])} --out {out.name or 'model'}"

    wishes = Wishes(options["finish"], options["keep_at"], options["keep_state"], line)
    with Stop().listening() as stop:
        run = Run(out / "training", recipe.seed, stop_signal=stop)
        facts = pretrain(recipe, clean.texts, out, runtime=runtime, run=run, wishes=wishes)
    write_json(out / "overlap.json", {"excluded": facts["excluded_sentences"], "data_sets_not_found": clean.missing})
    say(
        f"held-out token accuracy {100 * facts['held_out_accuracy']:.2f} %, "
        f"pseudo-perplexity {facts['held_out_pseudo_perplexity']:.1f}; written: {out}"
    )
    return 0


@click.command("pretrain", epilog=OVERRIDES)
@click.argument("recipe")
@text_option
@data_option
@click.option("--out", type=PATH, help="Folder of the finished model.")
@click.option(
    "--score", metavar="CHECKPOINT", help="Train nothing: score this checkpoint on the recipe's held-out text."
)
@click.option("--steps", type=click.IntRange(1), help="Number of steps, instead of the recipe's.")
@click.option(
    "--finish",
    type=click.IntRange(0),
    is_flag=False,
    flag_value=0,
    metavar="[STEPS]",
    help="Let the learning rate fall to 0 from the last checkpoint on, over STEPS steps [the recipe's decay_steps].",
)
@click.option(
    "--keep-at",
    type=TokenCounts(),
    default=(),
    metavar="TOKENS",
    help="Keep the model after each of these numbers of tokens, below OUT/kept, such as 1M,3M,10M.",
)
@click.option(
    "--keep-state", is_flag=True, help="Keep the training's state with each of them, to finish it from there."
)
@device_option
@precision_option
def command(**options: Unpack[_Options]) -> int:
    """Pretrain a small language model: a masked one, or with tiny-causal one that predicts the next token.

    RECIPE is a name (zoo-mini, zoo-small, zoo-mini-roberta, zoo-mini-albert, zoo-text, tiny, tiny-causal) or a YAML
    file. The same command goes on with a training that was stopped or killed; with more --steps it goes on with a
    finished one, at the full rate, from where that began to fall.
    """
    return pretrain_command(options)
