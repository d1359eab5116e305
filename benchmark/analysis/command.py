"""`zoo-bench analyze ...`: options here, everything heavy inside the commands."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from benchmark.analysis.result import Analysis

F = TypeVar("F", bound=Callable[..., Any])
OUT = "zoo-bench-analysis"


def _options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


_common = _options(
    click.option("--data", help="Data folder (SentEval layout); default: ZOO_BENCH_DATA, cache, hub."),
    click.option("--out", type=click.Path(path_type=Path), default=Path(OUT), show_default=True, help="Output folder."),
    click.option("--no-plots", is_flag=True, help="Numbers only (md, csv, json): no PNG, no HTML page."),
    click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N."),
    click.option("--precision", type=click.Choice(["auto", "bf16", "fp32"]), default="auto", show_default=True),
    click.option("--allow-pickle", is_flag=True, help="Load weights that exist only as pickle (with weights_only)."),
)
_backbone = click.option(
    "--backbone",
    "backbones",
    multiple=True,
    help="Bundled name, folder or hub id; may be given several times [default: zoo-mini].",
)
_encoders = _options(
    click.option("--methods", required=True, help="Recipes: names, globs, files, name:key=value; comma-separated."),
    _backbone,
    click.option("--results", type=click.Path(path_type=Path), help="Results folder of `run`, for trained methods."),
    click.option(
        "--plugin",
        "plugins",
        multiple=True,
        type=click.Path(path_type=Path),
        help="Python file that registers methods or tasks.",
    ),
)
_suite = click.option(
    "--suite", "suite_name", default="sts", show_default=True, help="Tasks that are scored: sts, sts-raw or pocket."
)
_corpus = click.option("--corpus", help="Sentences: a catalog name or a file, one sentence a line [default: wiki].")


@click.group()
def analyze() -> None:
    """Look into encoders and token embeddings: PromptBERT's tables 1, 2, 7, 9 and figure 1, for any model."""


def _start(options: dict[str, Any]) -> Any:
    """Check what can be checked before any work, and return the runtime."""
    from benchmark.analysis.plots import check_plots
    from benchmark.commands import make_runtime
    from zoo.files import check_writable

    if not options["no_plots"]:
        check_plots()
    check_writable(options["out"])
    if options.get("plugins"):
        from benchmark.cli import _load_plugins

        _load_plugins(options["plugins"])
    return make_runtime(options)


def _finish(analysis: Analysis, options: dict[str, Any], runtime: Any) -> None:
    """Write the files and print the tables."""
    from dataclasses import replace

    from benchmark.analysis.result import markdown, write_analysis
    from zoo.hardware import environment
    from zoo.progress import print_safe

    conditions = {**analysis.conditions, "precision": runtime.precision, "environment": environment(runtime.device)}
    analysis = replace(analysis, conditions=conditions)
    command = shlex.join(["zoo-bench", *sys.argv[1:]])
    written = write_analysis(analysis, options["out"], command=command, plots=not options["no_plots"])
    print_safe(markdown(analysis, command), sys.stdout)
    print_safe(f"written: {', '.join(str(path) for path in written)}", sys.stdout)


@analyze.command()
@_encoders
@_suite
@_corpus
@click.option(
    "--sentences", type=click.IntRange(2), default=100_000, show_default=True, help="Draw so many (always the same)."
)
@_common
def anisotropy(**options: Any) -> None:
    """Sentence anisotropy beside the Spearman correlation (table 1)."""
    runtime = _start(options)
    from benchmark.analysis.anisotropy import analyse_anisotropy
    from benchmark.analysis.encoders import choose_encoders
    from benchmark.corpus import load_corpus
    from benchmark.data.sources import DataSource
    from benchmark.plan import load_tasks
    from benchmark.suites import suite

    chosen = suite(options["suite_name"])
    encoders = choose_encoders(options["methods"], options["backbones"], options["results"], runtime)
    data = DataSource.from_options(options["data"])
    corpus = load_corpus(options["corpus"] or chosen.corpus, data, options["sentences"])
    tasks = load_tasks(chosen.tasks, data, None)
    _finish(analyse_anisotropy(encoders, chosen, tasks, corpus, runtime), options, runtime)


@analyze.command()
@_backbone
@_corpus
@click.option(
    "--sentences", type=click.IntRange(1), default=1_000_000, show_default=True, help="Draw so many (always the same)."
)
@click.option(
    "--matrix",
    type=click.Choice(["input", "output"]),
    default="input",
    show_default=True,
    help="The token embeddings, or the rows of the MLM head.",
)
@click.option(
    "--neighbours", type=click.IntRange(1), default=5, show_default=True, help="k of purity and neighbour distance."
)
@_common
def bias(**options: Any) -> None:
    """Token embeddings by frequency, subword and case (table 2, figures 1 and 2)."""
    runtime = _start(options)
    from benchmark.analysis.bias import analyse_bias
    from benchmark.corpus import load_corpus
    from benchmark.data.sources import DataSource

    corpus = load_corpus(options["corpus"] or "wiki", DataSource.from_options(options["data"]), options["sentences"])
    backbones = options["backbones"] or ["zoo-mini"]
    analysis = analyse_bias(backbones, options["matrix"], corpus, options["neighbours"], runtime)
    _finish(analysis, options, runtime)


@analyze.command("top-tokens")
@_backbone
@click.option("--text", "texts", multiple=True, help="A sentence; may be given several times [default: table 7's].")
@click.option("--template", help="Template with [X] and [MASK] [default: the manual template].")
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="Tokens shown for each sentence.")
@click.option(
    "--suite", "suite_name", help="Also score the average of the top tokens and the [MASK] state: sts ... (table 9)."
)
@click.option("--words", type=click.IntRange(1), default=200, show_default=True, help="Tokens in that average.")
@_common
def top_tokens(**options: Any) -> None:
    """Tokens predicted at [MASK], with and without template denoising (tables 7 and 9)."""
    runtime = _start(options)
    from benchmark.analysis.top_tokens import SENTENCES, analyse_top_tokens
    from benchmark.data.sources import DataSource
    from benchmark.plan import load_tasks
    from benchmark.suites import suite
    from zoo.methods.prompt import PromptRecipe

    data = DataSource.from_options(options["data"])
    tasks = load_tasks(suite(options["suite_name"]).tasks, data, None) if options["suite_name"] else []
    analysis = analyse_top_tokens(
        options["backbones"] or ["zoo-mini"],
        options["template"] or PromptRecipe().template,
        options["texts"] or SENTENCES,
        options["top"],
        runtime,
        words=options["words"],
        tasks=tasks,
    )
    _finish(analysis, options, runtime)


@analyze.command()
@_encoders
@_suite
@click.option(
    "--split",
    type=click.Choice(["all", "train", "dev", "test"]),
    default="all",
    show_default=True,
    help="Which pairs of the suite's development task (STS-B).",
)
@click.option("--above", default=4.0, show_default=True, help="A pair is positive when scored above this.")
@_common
def alignment(**options: Any) -> None:
    """Alignment and uniformity on STS-B."""
    runtime = _start(options)
    from benchmark.analysis.alignment import analyse_alignment
    from benchmark.analysis.encoders import choose_encoders
    from benchmark.data.sources import DataSource
    from benchmark.plan import load_tasks
    from benchmark.suites import suite

    encoders = choose_encoders(options["methods"], options["backbones"], options["results"], runtime)
    data = DataSource.from_options(options["data"])
    (task,) = load_tasks([suite(options["suite_name"]).dev], data, None)
    analysis = analyse_alignment(encoders, task, options["split"], options["above"], runtime)
    _finish(analysis, options, runtime)
