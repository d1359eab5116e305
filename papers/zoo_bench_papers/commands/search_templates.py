"""`zoo-bench search-templates`: searches a prompt's template by its score on development pairs."""

from __future__ import annotations

from typing import Any

import click

from benchmark.cli.complete import TASK
from benchmark.cli.options import (
    PATH,
    allow_pickle_option,
    data_option,
    device_option,
    precision_option,
    results_option,
    typed_command,
)
from zoo.engine.hub_models import DEFAULT_BACKBONE
from zoo_bench_papers.template_search.search import search_command


@click.command("search-templates")
@click.option("--backbone", default=DEFAULT_BACKBONE, help="Bundled name, folder or hub id.")
@click.option("--revision", help="Revision of the hub backbone.")
@click.option("--dev", "task", default="STS-B", type=TASK, help="Task whose development pairs score a template.")
@click.option("--limit-pairs", type=click.IntRange(2), help="Score on the first N pairs (300, say) [default: all].")
@click.option("--lists", type=PATH, help="YAML of relationships, prefixes, quotes, endings to try.")
@click.option("--keep", type=click.IntRange(1), default=1, help="Number of best relationships to continue with.")
@click.option(
    "--templates",
    type=PATH,
    help="Score these instead: a file, one template per line, or a shipped list (promptbert-table4).",
)
@click.option("--period", is_flag=True, help="End every sentence in a period, as PromptBERT's evaluation does.")
@click.option("--generate", type=PATH, help="Score templates written from word<TAB>definition lines.")
@click.option("--seq2seq", help="The model that writes templates: folder or hub id of a T5-like model.")
@click.option("--count", type=click.IntRange(2), default=500, help="Most templates to write.")
@click.option("--definitions", type=click.IntRange(1), default=32, help="Draw N definitions.")
@data_option
@results_option
@device_option
@precision_option
@allow_pickle_option
def command(**options: Any) -> int:
    """Search a prompt's template by its score on STS-B dev: greedily, from a file, or written by T5."""
    return search_command(options, command=typed_command())
