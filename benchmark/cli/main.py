"""zoo-bench: the group of commands. Each is a file of this folder or another package, imported when called."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

from benchmark.cli.examples import EXAMPLES, GROUPS
from benchmark.cli.options import complain
from zoo import __version__
from zoo.errors import UsageError, ZooError, did_you_mean, error_text

# Name: its line in --help. The command itself is in benchmark.cli.NAME.
COMMANDS = {
    "ablation": "Compare rows with one base, in one table.",
    "choose": "Rank encoders on texts of your own, with intervals and costs.",
    "adapt": "Train methods on texts of your own: what they gain, what they forget, and which to train.",
    "cite": "Print the sentence and the BibTeX entry for a paper that shows a table.",
    "compare": "Compare methods A and B pair by pair.",
    "data": "List, verify or fetch the data sets; write the texts of tasks.",
    "diff": "Show what changed between two results folders, and by what.",
    "doctor": "Say whether this machine is well, or a method or a task.",
    "export": "Write a trained METHOD as a new sentence-transformers FOLDER with a model card.",
    "leaderboard": "Make the tables and the page from the records.",
    "methods": "List the recipes that --methods takes.",
    "new": "Write a file for a method or a task of your own, which runs as it is.",
    "others": "Say which ranks of others' results are separated (mteb, EuroEval, a table).",
    "pack": "Join the records of a results folder into one file.",
    "run": "Train, evaluate and record methods; then print the table.",
    "tune": "Tune the settings of methods, the same budget for each, on development pairs.",
    "verify": "Verify a results folder: scores, gold scores, and vectors again.",
    "tasks": "List the tasks that --tasks takes, and the suites.",
}
# Commands of the package above this one, in the same distribution.
ABOVE = ("adapt", "choose", "tune")
PAPERS = ("analyze", "claims", "pretrain", "reproduce", "search-templates")
"""The commands of the package zoo-bench-papers; `zoo-bench` names it where it is not installed."""
# What people type instead of a command -> what they want.
OTHER_NAMES = {
    **dict.fromkeys(
        ("train", "evaluate", "eval", "test", "bench", "benchmark"), "run --methods NAMES` trains and scores"
    ),
    **dict.fromkeys(("list", "ls"), "methods` and `zoo-bench tasks` list what there is"),
    **dict.fromkeys(
        ("show", "info", "describe"), "methods NAME --show` prints a recipe, and `zoo-bench leaderboard` the tables"
    ),
    "check": "doctor NAME` tests a method or a task",
    **dict.fromkeys(("table", "results", "report"), "leaderboard` makes the tables and the page"),
}


class Place(NamedTuple):
    """The module and name of a click command."""

    module: str
    attribute: str = "command"


OURS = {name: Place(f"{'choose.commands' if name in ABOVE else 'benchmark.cli'}.{name}") for name in COMMANDS}


@functools.cache
def commands() -> dict[str, Place]:
    """Return the commands by name: those of other packages, then ours, which take precedence.

    A package adds a command by an entry point of the group `zoo_bench.commands`: NAME = "MODULE:COMMAND".
    """
    from importlib.metadata import entry_points

    points = entry_points(group="zoo_bench.commands")
    others = {point.name: Place(point.module, point.attr or "command") for point in points}
    return {**others, **OURS}


def help_line(name: str) -> str:
    """Return a command's line in --help: for another package, its docstring's first, read without an import."""
    if name in COMMANDS:
        return COMMANDS[name]
    place = commands()[name]
    try:
        source = source_of(place.module)
        body = ast.parse(source.read_text(encoding="utf-8")).body if source else []
    except (OSError, SyntaxError, ValueError):
        body = []
    functions = (node for node in body if isinstance(node, ast.FunctionDef) and node.name == place.attribute)
    return next(((ast.get_docstring(node) or "").partition("\n")[0] for node in functions), "") or place.module


def source_of(module: str) -> Path | None:
    """Return a module's file without importing it or its package."""
    package, *inner = module.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None:
        return None
    if not inner:
        return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    *folders, last = inner
    roots = [Path(root).joinpath(*folders) for root in spec.submodule_search_locations or ()]
    files = [root / name for root in roots for name in (f"{last}.py", f"{last}/__init__.py")]
    return next(filter(Path.is_file, files), None)


class LazyGroup(click.Group):
    """A group with commands imported when called or asked for help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(commands())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        # Only another package's command is worth the look through all installed packages.
        place = OURS.get(name) or commands().get(name)
        if place is None:
            # A shell asks for completions.
            if ctx.resilient_parsing:
                return None
            if name in PAPERS:
                raise UsageError(
                    f"`zoo-bench {name}` is a command of zoo-bench-papers, which is not installed:"
                    " `pip install ./papers` in a clone of zoo-bench."
                )
            wanted = f" `zoo-bench {OTHER_NAMES[name]}." if name in OTHER_NAMES else did_you_mean(name, commands())
            ctx.fail(f"There is no command {name!r}.{wanted}")
        try:
            command: click.Command = getattr(importlib.import_module(place.module), place.attribute)
        except Exception as error:
            # The boundary to other packages: what one of them raises while it is imported concerns its command alone.
            if name in COMMANDS:
                raise
            where = f"{place.module}:{place.attribute}"
            raise UsageError(f"the command {name!r} ({where}) cannot be loaded: {error_text(error)}.") from error
        if command.epilog is None and name in EXAMPLES:
            # click keeps the lines of a paragraph that begins with \b.
            command.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[name])
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands without importing any."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [
            CompletionItem(name, help=help_line(name)) for name in sorted(commands()) if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands without importing any."""
        there = commands()
        grouped = {name for names in GROUPS.values() for name in names}
        groups = {**GROUPS, "Other packages": tuple(sorted(there.keys() - grouped))}
        width = max(map(len, there))
        for title, names in groups.items():
            if shown := [(name.ljust(width), help_line(name)) for name in names if name in there]:
                with formatter.section(title):
                    formatter.write_dl(shown)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, prog_name="zoo-bench")
def main_group() -> None:
    """Train and score sentence-embedding methods under one protocol."""


def read_words(words: Sequence[str]) -> list[str]:
    """Return a command line's words; a list typed with blanks beside its commas becomes a single word.

    Raises UsageError for an empty word, otherwise silently the default or this folder.
    """
    read: list[str] = []
    for word in words:
        if not word.strip() or (word.startswith("--") and word.endswith("=")):
            named = word or (read[-1] if read and read[-1].startswith("--") else "an argument")
            raise UsageError(f"{named.rstrip('=')} is empty; give it a value, or leave it out.")
        before = read[-1] if read else "-"
        if not word.startswith("-") and (
            before.endswith(",") or (word[0] == "," and (before[0] != "-" or "=" in before))
        ):
            read[-1] += word
        else:
            read.append(word)
    return read


# What people type instead of an option of `run` or of a method's setting -> what it is here.
OTHER_OPTIONS = {
    **dict.fromkeys(("lr", "rate"), "learning_rate"),
    **dict.fromkeys(("batch", "bs", "train_batch_size", "per_device_train_batch_size"), "batch_size"),
    **dict.fromkeys(("epoch", "num_epochs", "num_train_epochs"), "epochs"),
    **dict.fromkeys(("temp", "tau"), "temperature"),
    **dict.fromkeys(("max_len", "max_seq_length"), "max_length"),
    **dict.fromkeys(("pooler", "pooler_type", "pooling_mode"), "pooling"),
    **dict.fromkeys(("model", "model_name", "model_name_or_path"), "--methods (a model to measure) and --backbone"),
    **dict.fromkeys(("output", "output_dir"), "--results"),
    **dict.fromkeys(("dataset", "datasets", "benchmark"), "--suite and --tasks"),
}


def meant(error: click.NoSuchOption) -> str:
    """Return the likely meaning of an unknown option: a setting of methods, another option; "" for neither."""
    options = [name for param in error.ctx.command.params for name in param.opts] if error.ctx else []
    typed = error.option_name.lstrip("-").replace("-", "_").lower()
    name = OTHER_OPTIONS.get(typed, typed)
    # Of another command, `--out` may be a place to write to.
    if "--methods" not in options:
        return ""
    if name.startswith("--") and name.split()[0] in options:
        return f"No such option {error.option_name}; here it is {name}"
    from zoo.recipes import all_recipes

    if any(name in recipe.parameters for recipe in all_recipes().values()):
        return f"{error.option_name} is a setting of a method, and follows its name: --methods NAME:{name}=VALUE"
    return ""


def answer_question(error: ZooError, words: list[str]) -> None:
    """Ask which reading of a table is right, and run the command with it; another error is no question."""
    from benchmark.data.readers.roles import Question

    if isinstance(error, Question):
        number = click.prompt("number", type=click.IntRange(1, len(error.readings)), err=True)
        main([*words, *error.answer(error.readings[number - 1])])


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; an error is a sentence on standard error and a non-zero exit code."""
    if "_ZOO_BENCH_COMPLETE" in os.environ:
        from benchmark.cli.complete import prepare_shells

        prepare_shells()
    try:
        words = read_words(sys.argv[1:] if arguments is None else arguments)
        code = main_group.main(args=words, prog_name="zoo-bench", standalone_mode=False)
    except ZooError as error:
        complain(str(error))
        if sys.stdin.isatty() and sys.stderr.isatty() and "--json" not in words:
            answer_question(error, words)
        code = error.exit_code
    except click.ClickException as error:
        code = error.exit_code
        text = " ".join(error.format_message().split())
        if isinstance(error, click.NoSuchOption):
            text = meant(error) or text
        # click before 8.2 has no such class.
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:
            text = text.replace("valid integer range", "whole number").replace("valid float range", "number")
            context = getattr(error, "ctx", None)
            where = context.command_path if context else "zoo-bench"
            if "extra argument" in text and any(Path(word).is_dir() for word in words):
                text += ". Folders are named with options, as in --results FOLDER"
            complain(f"{text}{'' if text.endswith(('.', '?')) else '.'} See `{where} --help`.")
    except SystemExit:
        # click ends so where the reader left, as `head` does; that is no mistake.
        if type(sys.stdout).__name__.endswith("PacifyFlushWrapper"):
            sys.exit(0)
        raise
    except (click.Abort, KeyboardInterrupt):
        complain("interrupted; finished cells are kept and the same command goes on.")
        code = 130
    except BrokenPipeError:
        code = 0
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        full = "Free space or choose another folder; what is finished is kept."
        denied = "Its permissions deny that to you: change them (chmod), or name another place."
        complain(f"{place}{error.strerror or error}. {denied if isinstance(error, PermissionError) else full}")
        code = 1
    except MemoryError:
        complain("out of memory; what is finished is kept. Use a smaller batch or a machine with more memory.")
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
