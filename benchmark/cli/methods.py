"""`zoo-bench methods`: the recipes that --methods takes."""

from __future__ import annotations

from pathlib import Path

import click

from benchmark.cli.options import load_plugins, plugin_option, print_rows, say
from zoo.recipe import all_recipes
from zoo.registry import METHODS


@click.command("methods")
@plugin_option
def command(plugins: tuple[Path, ...]) -> None:
    """List the recipes that --methods takes."""
    load_plugins(plugins)
    rows = [[spec.name, spec.method, spec.summary, spec.paper] for spec in all_recipes().values()]
    print_rows(["RECIPE", "METHOD", "WHAT", "SOURCE"], rows)
    for name, reason in METHODS.broken().items():
        say(f"broken: {name}: {reason}")
