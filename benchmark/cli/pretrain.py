"""`zoo-bench pretrain`: text without any sentence that a task tests, then the training of zoo.pretraining."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from benchmark.cli.options import data_option, device_option, precision_option, say
from benchmark.data.catalog import catalog
from benchmark.data.corpora import normalised
from benchmark.data.readers.pairs import iterate_text
from benchmark.data.sources import DataSource
from benchmark.run.runtime import make_runtime
from benchmark.run.stop import Stop
from benchmark.tasks import TASKS
from zoo.encoder import Run
from zoo.errors import MissingError, UsageError, did_you_mean
from zoo.files import check_writable, write_json
from zoo.paths import cache_folder, resource_folder
from zoo.pretraining.pretrain import PretrainRecipe, Texts, pretrain, score_checkpoint
from zoo.progress import Progress
from zoo.recipe import build, read_yaml, split_overrides
from zoo.training.processes import own_process


def read_pretrain_recipe(name: str) -> PretrainRecipe:
    """Return a recipe by name or YAML file, with `:key=value` overrides; raises UsageError with suggestions."""
    name, overrides = split_overrides(name, "pretrain")
    folder = resource_folder("zoo", "configs") / "pretrain"
    path = Path(name) if name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
    known = [file.stem for file in sorted(folder.glob("*.yaml"))]
    if not path.is_file():
        raise UsageError(f"unknown pretraining recipe {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}.")
    return build(PretrainRecipe, {**(read_yaml(path) or {}), **overrides}, str(path))


def tested_sentences(data: DataSource) -> tuple[frozenset[str], list[str]]:
    """Return the normalised texts of every task that is found here, and the data sets that are not here."""
    texts: set[str] = set()
    missing: set[str] = set()
    for _, cls in TASKS.load_all():
        if cls is None:
            continue
        try:
            texts |= {normalised(text) for text in cls().load(data).unlabelled()}
        except MissingError:
            missing.add(cls.dataset)
    return frozenset(texts - {""}), sorted(missing)


def pretrain_command(options: dict[str, Any]) -> int:
    """Run the pretraining; a killed run goes on when the same command is given again."""
    recipe = read_pretrain_recipe(options["recipe"])
    if options["steps"]:
        recipe = dataclasses.replace(recipe, steps=options["steps"])
    out: Path | None = options["out"]
    if (out is None) == (options["score"] is None):
        raise UsageError("pretrain needs either --out FOLDER, or --score CHECKPOINT.")
    if out is not None:
        check_writable(out)
    data = DataSource.from_options(options["data"], hub=False)
    paths = []
    for name in options["texts"] or ("wiki", "books"):
        entry = catalog().get(name)
        paths.append(next(iter(data.locate(name, "plain").files.values())) if entry is not None else Path(name))
    runtime = make_runtime(options["device"], options["precision"])
    main_process = own_process(runtime).is_main_process
    if not main_process:
        runtime = dataclasses.replace(runtime, progress=Progress.silent())
    exclude, missing = tested_sentences(data)
    runtime.progress.say(f"{len(exclude):,} tested sentences are left out of the text")
    if missing:
        runtime.progress.say(f"not found, so not left out: {', '.join(missing)}")
    texts = Texts(paths, iterate_text, cache_folder() / "tokens", exclude, normalised)
    if out is None:
        held_out = score_checkpoint(recipe, texts, options["score"], runtime=runtime)
        say(
            f"{options['score']}: held-out masked-token accuracy {100 * held_out.accuracy:.2f} %, pseudo-perplexity"
            f" {held_out.pseudo_perplexity:.1f} ({held_out.tokens:,} masked tokens)"
        )
        return 0
    with Stop().listening() as stop:
        run = Run(out / "training", recipe.seed, stop_signal=stop)
        facts = pretrain(recipe, texts, out, runtime=runtime, run=run)
    if not main_process:
        return 0
    write_json(out / "overlap.json", {"excluded": facts["excluded_sentences"], "data_sets_not_found": missing})
    for path in (out / "training").glob("*.safetensors"):
        path.unlink()
    say(
        f"held-out masked-token accuracy {100 * facts['held_out_accuracy']:.2f} %, "
        f"pseudo-perplexity {facts['held_out_pseudo_perplexity']:.1f}; written: {out}"
    )
    return 0


@click.command("pretrain")
@click.argument("recipe")
@click.option(
    "--text", "texts", multiple=True, help="Text file, one sentence a line (.gz, .xz too), or a catalog corpus."
)
@data_option
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the finished model.")
@click.option(
    "--score", metavar="CHECKPOINT", help="Train nothing: score this checkpoint on the recipe's held-out text."
)
@click.option("--steps", type=click.IntRange(1), help="Instead of the recipe's number.")
@device_option
@precision_option
def command(**options: Any) -> int:
    """Pretrain a small masked language model: RECIPE is a name (zoo-mini, zoo-small, tiny) or a YAML file.

    `tiny:tie_embeddings=false` changes a value of it.
    """
    return pretrain_command(options)
