"""`zoo-bench pretrain`: trains a small language model on plain text."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, Unpack

import click

from benchmark.cli.options import PATH, data_option, device_option, precision_option, say, text_option

OVERRIDES = """\b
Values of the recipe can be changed after its name, each after a colon:
  NAME:key=value:key=value      zoo-mini:steps=3000:learning_rate=5e-4
  null for "none"               zoo-small:begin_from=null
After a wrong key, the error lists the keys.
"""


class _Options(TypedDict):
    recipe: str
    texts: tuple[str, ...]
    data: str | None
    out: Path
    steps: int | None
    device: str
    precision: str


@click.command("pretrain", epilog=OVERRIDES)
@click.argument("recipe")
@text_option
@data_option
@click.option("--out", type=PATH, required=True, help="Folder of the finished model.")
@click.option("--steps", type=click.IntRange(1), help="Steps instead of the recipe's, on as much text as they need.")
@device_option
@precision_option
def command(**options: Unpack[_Options]) -> int:
    """Pretrain a small language model: a masked model, or with tiny-causal a model of next tokens.

    RECIPE is a name (zoo-mini, zoo-small, zoo-mini-roberta, zoo-mini-albert, tiny, tiny-causal) or a YAML file. The
    same command goes on with a stopped or killed training, from its last checkpoint.
    """
    from benchmark.data.sources import DataSource
    from zoo.files import check_writable, writing
    from zoo.machine import make_runtime
    from zoo_bench_papers.pretraining.pretrain import find_source, pretrain
    from zoo_bench_papers.pretraining.recipe import read_pretrain_recipe
    from zoo_bench_papers.pretraining.texts import clean_texts, find_texts, text_options

    recipe, out = read_pretrain_recipe(options["recipe"]), options["out"]
    name = shlex.quote(options["recipe"])
    if options["steps"]:
        recipe, name = replace(recipe, steps=options["steps"]), f"{name} --steps {options['steps']}"
    find_source(recipe)
    check_writable(out)
    data = DataSource.from_options(options["data"], hub=False)
    find_texts(options["texts"], data)
    runtime = make_runtime(options["device"], options["precision"])
    texts = clean_texts(options["texts"], data, runtime.progress)
    line = f"zoo-bench pretrain {name} {text_options(options['texts'])} --out {out.name or 'model'}"
    with writing(out):
        facts = pretrain(recipe, texts, out, runtime=runtime, command=line, read_all=not options["steps"])
    say(
        f"held-out token accuracy {100 * facts['held_out_accuracy']:.2f} %, pseudo-perplexity"
        f" {facts['held_out_pseudo_perplexity']:.1f}; written: {out}"
    )
    return 0
