"""`zoo-bench methods`: the recipes that --methods takes, and one of them with all its settings."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from benchmark.cli.options import load_plugins, plugin_option, print_rows, say
from zoo.recipe import RecipeSpec, all_recipes, parse_methods
from zoo.registry import METHODS


def shown(spec: RecipeSpec) -> str:
    """Return a recipe with every setting, as YAML; behind each setting stands which recipe states it, if one does."""
    _, recipe = spec.resolve()
    head = {"method": spec.method, "extends": spec.extends, "summary": spec.summary, "paper": spec.paper}
    lines = [f"# {spec.name} ({spec.origin})"]
    lines += [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items() if value]
    lines += ["control: true"] * spec.control + ["parameters:"]
    for field in dataclasses.fields(recipe):
        value = json.dumps(getattr(recipe, field.name), ensure_ascii=False)
        lines.append(f"  {field.name}: {value}  # {spec.stated_by.get(field.name, 'default')}")
    return "\n".join(lines)


@click.command("methods")
@click.option("--show", metavar="NAMES", help="Print these recipes (as --methods takes them) with all their settings.")
@plugin_option
def command(show: str | None, plugins: tuple[Path, ...]) -> None:
    """List the recipes that --methods takes."""
    load_plugins(plugins)
    if show is not None:
        say("\n\n".join(shown(spec) for spec in parse_methods(show, all_recipes())))
        return
    rows = [[spec.name, spec.method, spec.summary, spec.paper] for spec in all_recipes().values()]
    print_rows(["RECIPE", "METHOD", "WHAT", "SOURCE"], rows)
    for name, reason in METHODS.broken().items():
        say(f"broken: {name}: {reason}")
