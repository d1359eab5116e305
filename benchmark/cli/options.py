"""Options that several commands share, and how commands print. Imports nothing heavy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from benchmark.run.options import RESULTS
from zoo.progress import print_safe

F = TypeVar("F", bound=Callable[..., Any])


def options(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """Join several option decorators into one; --help lists them in this order."""

    def add(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return add


plugin_option = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Python file that registers methods or tasks.",
)
results_option = click.option(
    "--results",
    "--out",
    "results",
    type=click.Path(path_type=Path),
    default=RESULTS,
    show_default=True,
    help="Results folder.",
)
data_option = click.option("--data", help="Data folder (SentEval layout); default: ZOO_BENCH_DATA, cache, hub.")
methods_option = click.option(
    "--methods",
    required=True,
    help="Recipes, comma-separated: names, globs (simcse*), YAML files. NAME:key=value:key=value changes values of one:"
    " simcse:batch_size=128:learning_rate=1e-5; a list in brackets, null for none, a text with a colon or comma in"
    " quotes. `zoo-bench methods` lists the names.",
)
precision_option = click.option(
    "--precision", type=click.Choice(["auto", "bf16", "fp32"]), default="auto", show_default=True
)
device_option = click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N.")
allow_pickle_option = click.option(
    "--allow-pickle", is_flag=True, help="Load weights that exist only as pickle (with weights_only)."
)


def say(text: str = "") -> None:
    """Print a line on standard output, whatever its encoding can show."""
    print_safe(text, sys.stdout)


def complain(text: str) -> None:
    """Print a line of this program on standard error."""
    print_safe(f"zoo-bench: {text}", sys.stderr)


def typed_command() -> list[str]:
    """Return the command line as it was typed, with the program's plain name."""
    return ["zoo-bench", *sys.argv[1:]]


def load_plugins(plugins: Sequence[Path]) -> None:
    """Run plugin files; a broken one is named on standard error and left out."""
    from benchmark.tasks import TASKS
    from zoo.registry import METHODS, load_plugin_file

    for path in plugins:
        reason = load_plugin_file(path, [METHODS, TASKS])
        if reason is not None:
            complain(f"plugin {path} is broken and left out: {reason}")


def print_rows(header: list[str], rows: list[list[str]]) -> None:
    """Print aligned columns; the last one is as long as it is."""
    widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header) - 1)]
    for line in [header, *rows]:
        say("  ".join([*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[-1]]).rstrip())
