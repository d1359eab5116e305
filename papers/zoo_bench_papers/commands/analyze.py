"""`zoo-bench analyze ...`: only options; heavy modules are imported inside the commands."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchmark.cli.complete import METHODS_LIST, SUITE, TASKS_LIST
from benchmark.cli.options import (
    PATH,
    Listed,
    allow_pickle_option,
    data_option,
    device_option,
    load_plugins,
    methods_option,
    option,
    options,
    plugin_option,
    precision_option,
    results_only_option,
)
from benchmark.data.corpora import load_corpus
from benchmark.data.sources import DataSource
from benchmark.records.folder import Records, read_records
from benchmark.records.names import printed_names, with_recipe
from benchmark.records.query import PairTexts, label, rows_named, scored_pairs
from benchmark.records.record import Record
from benchmark.tasks.loaded import load_tasks
from benchmark.tasks.suites import suite, tasks_named
from zoo.engine.hub_models import DEFAULT_BACKBONE
from zoo.errors import UsageError
from zoo.files import check_writable
from zoo.machine import environment, make_runtime
from zoo.progress import print_safe
from zoo_bench_papers.analysis.result import Analysis, check_plots, markdown, write_analysis

if TYPE_CHECKING:
    from zoo.encoder import Runtime

OUT = "zoo-bench-analysis"

_no_plots = click.option("--no-plots", is_flag=True, help="Numbers only (md, csv, json): no PNG.")
_common = options(
    data_option,
    click.option("--out", type=PATH, default=Path(OUT), help="Output folder."),
    _no_plots,
    device_option,
    precision_option,
    allow_pickle_option,
)
_BACKBONES = "Bundled name, folder or hub id; may be given several times [default: zoo-small]."
_backbone = click.option("--backbone", "backbones", multiple=True, help=_BACKBONES)
_encoders = options(
    methods_option,
    _backbone,
    click.option("--results", type=PATH, help="Results folder of `run`, for trained methods."),
    plugin_option,
)
_suite = click.option(
    "--suite", "suite_name", default="sts", type=SUITE, help="Tasks that are scored: sts, sts-raw or pocket."
)
_corpus = click.option("--corpus", help="Sentences: a catalog name or a file, one sentence per line [default: wiki].")


@click.group("analyze")
def command() -> None:
    """Look into encoders, token embeddings and scored pairs: PromptBERT's tables 1, 2, 7, 9, PT-BERT's table 5c."""


def _start(options: dict[str, Any]) -> Runtime:
    if not options["no_plots"]:
        check_plots()
    check_writable(options["out"])
    load_plugins(options.get("plugins", ()))
    return make_runtime(options["device"], options["precision"], allow_pickle=options["allow_pickle"])


def _finish(analysis: Analysis, options: dict[str, Any], runtime: Runtime) -> None:
    conditions = {**analysis.conditions, "precision": runtime.precision, "environment": environment(runtime.device)}
    _write(replace(analysis, conditions=conditions), options)


def _write(analysis: Analysis, options: dict[str, Any]) -> None:
    command = shlex.join(["zoo-bench", *sys.argv[1:]])
    written = write_analysis(analysis, options["out"], command=command, plots=not options["no_plots"])
    print_safe(markdown(analysis, command), sys.stdout)
    print_safe(f"written: {', '.join(map(str, written))}", sys.stdout)


@command.command()
@_encoders
@_suite
@_corpus
@click.option("--sentences", type=click.IntRange(2), default=100_000, help="Draw N sentences, always the same.")
@_common
def anisotropy(**options: Any) -> None:
    """Sentence anisotropy beside the Spearman correlation (table 1)."""
    runtime = _start(options)
    from zoo_bench_papers.analysis.alignment import analyse_anisotropy
    from zoo_bench_papers.analysis.encoders import choose_encoders

    chosen = suite(options["suite_name"])
    encoders = choose_encoders(options["methods"], options["backbones"], options["results"], runtime)
    data = DataSource.from_options(options["data"])
    corpus = load_corpus(options["corpus"] or chosen.corpus, data, options["sentences"])
    tasks = load_tasks(chosen.tasks, data, None)
    _finish(analyse_anisotropy(encoders, chosen, tasks, corpus, runtime), options, runtime)


@command.command()
@_backbone
@_corpus
@click.option("--sentences", type=click.IntRange(1), default=1_000_000, help="Draw N sentences, always the same.")
@click.option(
    "--matrix",
    type=click.Choice(["input", "output"]),
    default="input",
    help="The token embeddings, or the rows of the MLM head.",
)
@click.option("--neighbours", type=click.IntRange(1, 1000), default=5, help="k of purity and neighbour distance.")
@_common
def bias(**options: Any) -> None:
    """Token embeddings by frequency, subword and case (table 2, figures 1 and 2)."""
    runtime = _start(options)
    from zoo_bench_papers.analysis.bias import analyse_bias

    corpus = load_corpus(options["corpus"] or "wiki", DataSource.from_options(options["data"]), options["sentences"])
    backbones = options["backbones"] or [DEFAULT_BACKBONE]
    analysis = analyse_bias(backbones, options["matrix"], corpus, options["neighbours"], runtime)
    _finish(analysis, options, runtime)


@command.command("top-tokens")
@_backbone
@click.option("--text", "texts", multiple=True, help="A sentence; may be given several times [default: table 7's].")
@click.option(
    "--sentences",
    type=click.IntRange(2),
    help="Instead: what the first N of STS-B's development sentences have in common, without their texts.",
)
@click.option("--template", help="Template with [X] and [MASK]; the manual template, unless given.")
@click.option("--period", is_flag=True, help="End every sentence in a period, as PromptBERT's evaluation does.")
@click.option("--top", type=click.IntRange(1), default=5, help="Tokens shown for each sentence.")
@click.option(
    "--suite", "suite_name", help="Also score the average of the top tokens and the [MASK] state: sts ... (table 9)."
)
@click.option("--words", type=click.IntRange(1), default=200, help="Tokens in that average.")
@_common
def top_tokens(**options: Any) -> None:
    """Tokens predicted at [MASK], with and without template denoising (tables 7 and 9)."""
    runtime = _start(options)
    from zoo.methods.prompt import PromptRecipe
    from zoo_bench_papers.analysis.top_tokens import SENTENCES, analyse_top_tokens

    data = DataSource.from_options(options["data"])
    tasks = load_tasks(suite(options["suite_name"]).tasks, data, None) if options["suite_name"] else []
    texts = options["texts"] or SENTENCES
    if options["sentences"] is not None:
        (dev,) = load_tasks(["STS-B"], data, None)
        texts = list(dict.fromkeys(scored_pairs(dev, "dev").texts()))[: options["sentences"]]
    analysis = analyse_top_tokens(
        options["backbones"] or [DEFAULT_BACKBONE],
        options["template"] or PromptRecipe().template,
        texts,
        options["top"],
        runtime,
        words=options["words"],
        period=options["period"],
        tasks=tasks,
        listed=options["sentences"] is None,
    )
    _finish(analysis, options, runtime)


@command.command()
@_encoders
@_suite
@click.option(
    "--split",
    type=click.Choice(["all", "train", "dev", "test"]),
    default="all",
    help="Which pairs of the suite's development task (STS-B).",
)
@click.option("--above", default=4.0, help="A pair is positive when scored above this.")
@_common
def alignment(**options: Any) -> None:
    """Alignment and uniformity on STS-B."""
    runtime = _start(options)
    from zoo_bench_papers.analysis.alignment import analyse_alignment
    from zoo_bench_papers.analysis.encoders import choose_encoders

    encoders = choose_encoders(options["methods"], options["backbones"], options["results"], runtime)
    (task,) = load_tasks([suite(options["suite_name"]).dev], DataSource.from_options(options["data"]), None)
    _finish(analyse_alignment(encoders, task, options["split"], options["above"], runtime), options, runtime)


@command.command("pseudo-tokens")
@methods_option
@_backbone
@_corpus
@click.option("--train-sentences", type=click.IntRange(1), default=20_000, help="Train on N of them.")
@option("seeds", default=1, help="Seeds 0..N-1.")
@click.option("--sentences", type=click.IntRange(1), default=500, help="First N of STS-B's dev split.")
@click.option("--suite", "suite_name", type=SUITE, help="Also score what was trained at [CLS] and at the mean: sts ...")
@plugin_option
@_common
def pseudo_tokens(**options: Any) -> None:
    """PT-BERT's attention over pseudo tokens, before and after a training."""
    runtime = _start(options)
    from zoo_bench_papers.analysis.pseudo_tokens import analyse_pseudo_tokens

    data = DataSource.from_options(options["data"])
    chosen = suite(options["suite_name"] or "sts")
    corpus = load_corpus(options["corpus"] or chosen.corpus, data, options["train_sentences"])
    (dev,) = load_tasks([chosen.dev], data, None)
    texts = list(dict.fromkeys(scored_pairs(dev, "dev").texts()))[: options["sentences"]]
    tasks = load_tasks(chosen.tasks, data, None) if options["suite_name"] else []
    backbones = options["backbones"] or (DEFAULT_BACKBONE,)
    analysis = analyse_pseudo_tokens(options["methods"], backbones, options["seeds"], corpus, texts, tasks, runtime)
    _finish(analysis, options, runtime)


_kept = options(
    click.option(
        "--methods",
        cls=Listed,
        required=True,
        type=METHODS_LIST,
        help="Names in the tables of the results folder, or globs; comma-separated.",
    ),
    results_only_option,
    click.option("--suite", "suite_name", default="sts", type=SUITE, help="The tasks of this suite."),
    click.option("--tasks", cls=Listed, type=TASKS_LIST, help="Instead of a suite: these tasks, comma-separated."),
    data_option,
    click.option("--out", type=PATH, help="Output folder [default: `analysis` in the results folder]."),
    _no_plots,
    plugin_option,
)


def _start_rows(options: dict[str, Any]) -> tuple[dict[str, list[Record]], list[str], Records]:
    if not options["no_plots"]:
        check_plots()
    load_plugins(options["plugins"])
    options["out"] = options["out"] or options["results"] / "analysis"
    store = Records(options["results"])
    records = read_records(store)
    named = dict.fromkeys(name.strip() for name in options["methods"].split(",") if name.strip())
    if not named:
        raise UsageError("--methods names no method.")
    tasks = list(suite(options["suite_name"]).tasks)
    if options["tasks"] is not None:
        tasks = list(tasks_named(options["tasks"], {record["task"]["name"] for record in records}))
    rows = [row for name in named for row in rows_named(records, name, options["results"], tasks)]
    called = printed_names(record["method"]["name"] for record in records)
    names = [with_recipe(called[row[0]["method"]["name"]], row[0]["method"]) for row in rows]
    by_name = {name if names.count(name) == 1 else label(row): row for name, row in zip(names, rows, strict=True)}
    check_writable(options["out"])
    return by_name, tasks, store


@command.command()
@_kept
def trajectory(**options: Any) -> None:
    """Alignment and uniformity during training, several methods in one chart (PT-BERT, figure 3)."""
    rows, _, _ = _start_rows(options)
    from zoo_bench_papers.analysis.trajectory import analyse_trajectory

    _write(analyse_trajectory(rows), options)


@command.command()
@_kept
@click.option("--positive", default=4.0, help="Lowest gold score of a hard positive pair.")
@click.option(
    "--longer-by",
    type=click.IntRange(0),
    default=5,
    help="A hard positive pair differs in length by more words than this.",
)
@click.option("--negative", default=1.0, help="Highest gold score of a hard negative pair.")
@click.option(
    "--closer-than",
    type=click.IntRange(1),
    default=2,
    help="A hard negative pair differs in length by fewer words than this.",
)
def pairs(**options: Any) -> None:
    """Scores on hard pairs (PT-BERT, table 5c), and by length, from kept pair scores."""
    rows, tasks, store = _start_rows(options)
    from zoo_bench_papers.analysis.pairs import Hard, analyse_pairs

    hard = Hard(options["positive"], options["negative"], options["longer_by"], options["closer_than"])
    texts = PairTexts(DataSource.from_options(options["data"]))
    _write(analyse_pairs(rows, tasks, store, texts, hard), options)
