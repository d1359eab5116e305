"""Options of several commands, and their printing. Imports nothing heavy."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Any, TypeVar

import click

from benchmark.cli.complete import METHODS_LIST
from benchmark.report.terminal import Field, fitted, folded, width_of
from benchmark.run.options import OPTIONS, RESULTS
from zoo.errors import UsageError
from zoo.progress import print_safe

F = TypeVar("F", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)


def options(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """Join option decorators; --help lists them in this order."""

    def add(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return add


def joined(ctx: click.Context, param: click.Parameter, lists: tuple[str, ...]) -> str | None:
    return ",".join(lists) if lists else None


class Listed(click.Option):
    """An option of comma-separated values; repeated options add up."""

    def __init__(self, names: Sequence[str], **more: Any) -> None:
        if "default" in more:
            more["default"] = [more["default"]]
        super().__init__(names, multiple=True, callback=joined, **more)


class _Several(click.ParamType[Any]):
    name = "list"

    def __init__(self, of: click.ParamType[Any]) -> None:
        self.of = of

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        parts = value.split(",") if isinstance(value, str) else value
        return [self.of.convert(str(part).strip(), param, ctx) for part in parts]


sizes_options = options(
    click.option(
        "--dims", type=_Several(click.IntRange(1)), default=(), metavar="N,N,...", help="Cut vectors to these widths."
    ),
    click.option(
        "--bytes",
        "formats",
        type=_Several(click.Choice(["float32", "int8", "binary"])),
        default="float32",
        metavar="FORMAT,...",
        help="Store the numbers of vectors as float32, int8, binary.",
    ),
)

plugin_option = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    type=PATH,
    help="Python file that registers methods or tasks.",
)


# Of a command that reads results, which needs the plugins' names alone.
names_plugin_option = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    type=PATH,
    expose_value=False,
    callback=lambda ctx, param, plugins: load_plugins(plugins),
    help="Python file that registers methods or tasks.",
)


class AutoCount(click.IntRange):
    """A whole number, or None for `auto`."""

    name = "integer or auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if value == "auto" else super().convert(value, param, ctx)


def option(name: str, **changes: Any) -> Callable[[F], F]:
    """Return an option of `RunOptions` for a command; `changes` are keywords of click."""
    field = OPTIONS[name]
    stated, kind = field.metadata, str(field.type).removesuffix(" | None")
    more: dict[str, Any] = {"help": stated["help"] or None}
    if field.default is not MISSING and (field.default is not None):
        more["default"] = field.default
    if stated["several"]:
        more["cls"] = Listed
    if kind == "bool":
        more["is_flag"] = True
    elif stated["bounds"]:
        counted = AutoCount if stated["of_command"].get("default") == "auto" else click.IntRange
        more["type"] = (counted if kind == "int" else click.FloatRange)(*stated["bounds"])
    elif stated["choices"]:
        more["type"] = click.Choice(stated["choices"])
    elif name == "results" or kind == "Path":
        more["type"] = PATH
    spelled = stated["spelled"] or f"--{name.replace('_', '-')}"
    return click.option(*spelled.split(), name, **{**more, **stated["of_command"], **changes})


results_option, data_option, device_option = option("results"), option("data"), option("device")
precision_option, limit_option, columns_option = option("precision"), option("limit"), option("columns")
train_pairs_option, allow_pickle_option = option("train_pairs"), option("allow_pickle")
methods_option = option("methods", type=METHODS_LIST, required=True)
results_only_option = click.option("--results", type=PATH, default=RESULTS, help=OPTIONS["results"].metadata["help"])
# Of a command about one results folder, which is named by its place or by --results; see `results_of`.
results_by_place = options(
    click.argument("folder", required=False, type=PATH),
    click.option("--results", type=PATH, help=f"FOLDER by another way [default: {RESULTS}]."),
)
wide_option = click.option("--wide", is_flag=True, help="Print all columns, not those that fit.")
json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON document instead; progress goes to standard error.",
)
text_option = click.option(
    "--text",
    "texts",
    multiple=True,
    help="Text file, one sentence per line (.gz, .xz too), or a catalog corpus; repeatable [default: wiki, books].",
)


def results_of(folder: Path | None, results: Path | None) -> Path:
    """Return the results folder named by place or by --results; raises UsageError if both are."""
    if folder is not None and results is not None:
        raise UsageError(f"{folder} and --results {results} are two folders; name one.")
    return folder or results or RESULTS


def say(text: str = "") -> None:
    """Print a line; characters outside the output's encoding are replaced."""
    print_safe(text, sys.stdout)


def say_prose(text: str) -> None:
    say("\n".join(folded(text.splitlines(), width_of(sys.stdout))))


def complain(text: str) -> None:
    """Print a line on standard error after the program's name."""
    print_safe(f"zoo-bench: {text}", sys.stderr)


def typed_command() -> list[str]:
    """Return the typed command line; the program's name has no path."""
    # Records are UTF-8.
    typed = (argument.encode("utf-8", "replace").decode() for argument in sys.argv[1:])
    return ["zoo-bench", *typed]


def load_plugins(plugins: Sequence[Path]) -> None:
    """Run plugin files; raises UsageError for a broken file, because the user named it."""
    from benchmark.run.cluster import load_plugins as load

    for path, reason in load(plugins).items():
        raise UsageError(f"plugin {path} is broken: {reason}. Mend it, or leave --plugin out.")


def say_json(value: object) -> None:
    """Print JSON; paths and tuples become texts and lists."""
    say(json.dumps(value, indent=1, default=str))


def terminal_width() -> int:
    """Return the columns of the terminal; 100 if there is none."""
    return shutil.get_terminal_size((100, 24)).columns


def line_width() -> int:
    return max(60, min(100, terminal_width()))


def matches(pattern: str, name: str, *texts: str) -> bool:
    """Match a glob with a name, or find a word in the name or the texts; case is ignored."""
    import fnmatch

    pattern = pattern.lower()
    if any(sign in pattern for sign in "*?["):
        return fnmatch.fnmatchcase(name.lower(), pattern)
    return any(pattern in text.lower() for text in (name, *texts))


def print_rows(header: list[str], rows: list[list[str]]) -> None:
    """Print aligned columns; a terminal breaks the last at blanks below itself."""
    columns = [*zip(header, zip(*rows, strict=True) if rows else [()] * len(header), strict=True)]
    fields = [Field(head, cells, right=False, prose=head == header[-1]) for head, cells in columns]
    say("\n".join(fitted(fields, terminal_width() if sys.stdout.isatty() else None, rule=False)[0]))
