"""zoo-bench: the group of commands. Each command is a file of this folder and is imported when it is called."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from benchmark.cli.options import complain
from zoo import __version__
from zoo.errors import UsageError, ZooError, did_you_mean

COMMANDS = {  # name: its line in --help; the command itself is in benchmark.cli.NAME
    "check": "Test in seconds that a method or a task does what a run relies on.",
    "choose": "Rank encoders on texts of your own, with intervals and costs.",
    "cite": "Print the sentence and the BibTeX entry for a paper that shows a table.",
    "compare": "Compare methods A and B pair by pair.",
    "data": "List, verify or fetch the data sets; write the texts of tasks.",
    "diff": "Show what changed between two results folders, and by what.",
    "doctor": "Show versions, devices, precision, data, cache and disk.",
    "export": "Write a trained METHOD as a new sentence-transformers FOLDER with a model card.",
    "leaderboard": "Make the tables and the page from the records.",
    "methods": "List the recipes that --methods takes.",
    "new": "Write a file for a method or a task of your own, which runs as it is.",
    "pack": "Join the records of a results folder into one file.",
    "pretrain": "Pretrain a small masked language model from plain text.",
    "run": "Train, evaluate and record methods; then print the table.",
    "tune": "Tune the settings of methods, the same budget for each, on development pairs.",
    "verify": "Verify a results folder: scores, gold scores, and vectors again.",
    "tasks": "List the tasks that --tasks takes, and the suites.",
}
OTHER_NAMES = {  # what people type instead of a command -> what they want
    **dict.fromkeys(
        ("train", "evaluate", "eval", "test", "bench", "benchmark"), "run --methods NAMES` trains and scores"
    ),
    **dict.fromkeys(("list", "ls"), "methods` and `zoo-bench tasks` list what there is"),
    **dict.fromkeys(
        ("show", "info", "describe"), "methods NAME --show` prints a recipe, and `zoo-bench leaderboard` the tables"
    ),
    **dict.fromkeys(("table", "results", "report"), "leaderboard` makes the tables and the page"),
}


@functools.cache
def commands() -> dict[str, tuple[str, str]]:
    """Return the commands by name, each with its module and its line in --help: ours, then those of other packages.

    A package adds one by an entry point of the group `zoo_bench.commands`: NAME = "MODULE:A line for --help".
    """
    ours = {name: (f"benchmark.cli.{name.replace('-', '_')}", line) for name, line in COMMANDS.items()}
    points = importlib.metadata.entry_points(group="zoo_bench.commands")
    return {**{one.name: (one.module, one.module.rpartition(".")[2]) for one in points}, **ours}


class LazyGroup(click.Group):
    """A group that imports a command's module only when that command is called or asked for its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands' names."""
        return sorted(commands())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import and return a command, or None for an unknown name."""
        if name not in commands():
            if ctx.resilient_parsing:  # a shell asks for completions
                return None
            wanted = f" `zoo-bench {OTHER_NAMES[name]}." if name in OTHER_NAMES else did_you_mean(name, commands())
            ctx.fail(f"There is no command {name!r}.{wanted}")
        module = importlib.import_module(commands()[name][0])
        found: click.Command = module.command
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that a shell offers, without importing any, or the group's options."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [
            CompletionItem(name, help=commands()[name][1]) for name in sorted(commands()) if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for --help, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, commands()[name][1]) for name in sorted(commands())])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, prog_name="zoo-bench")
def main_group() -> None:
    """Train and score sentence-embedding methods under one protocol."""


def read_words(words: Sequence[str]) -> list[str]:
    """Return a command line's words; a list that was typed with blanks beside its commas becomes one word.

    Raises UsageError for an empty word, which would silently stand for the default or for this folder.
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


OTHER_OPTIONS = {  # what people type instead of an option of `run` or of a method's setting -> what it is here
    **dict.fromkeys(("lr", "rate"), "learning_rate"),
    **dict.fromkeys(("batch", "bs", "train_batch_size", "per_device_train_batch_size"), "batch_size"),
    **dict.fromkeys(("epoch", "num_epochs", "num_train_epochs"), "epochs"),
    **dict.fromkeys(("temp", "tau"), "temperature"),
    **dict.fromkeys(("max_len", "max_seq_length"), "max_length"),
    **dict.fromkeys(("pooler", "pooler_type", "pooling_mode"), "pooling"),
    **dict.fromkeys(("model", "model_name", "model_name_or_path"), "--methods (a model to measure) and --backbone"),
    **dict.fromkeys(("out", "output", "output_dir"), "--results"),
    **dict.fromkeys(("dataset", "datasets", "benchmark"), "--suite and --tasks"),
}


def meant(error: click.NoSuchOption) -> str:
    """Return what stands here for an option that is none: a setting of methods, another option; "" for neither."""
    options = [name for one in error.ctx.command.params for name in one.opts] if error.ctx else []
    typed = error.option_name.lstrip("-").replace("-", "_").lower()
    name = OTHER_OPTIONS.get(typed, typed)
    if name.startswith("--") and name.split()[0] in options:
        return f"No such option {error.option_name}; here it is {name}"
    if "--methods" not in options:
        return ""
    from zoo.recipes import all_recipes

    if any(name in recipe.parameters for recipe in all_recipes().values()):
        return f"{error.option_name} is a setting of a method, and follows its name: --methods NAME:{name}=VALUE"
    return ""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors become one sentence on standard error and a non-zero exit code."""
    if "_ZOO_BENCH_COMPLETE" in os.environ:  # a shell asks for completions
        from benchmark.cli.complete import prepare_shells

        prepare_shells()
    try:
        words = read_words(sys.argv[1:] if arguments is None else arguments)
        code = main_group.main(args=words, prog_name="zoo-bench", standalone_mode=False)
    except ZooError as error:
        complain(str(error))
        code = error.exit_code
    except click.ClickException as error:
        code = error.exit_code
        text = " ".join(error.format_message().split())
        if isinstance(error, click.NoSuchOption):
            text = meant(error) or text
        if type(error).__name__ == "NoArgsIsHelpError":  # click before 8.2 has no such class
            error.show()
        else:
            text = text.replace("valid integer range", "whole number").replace("valid float range", "number")
            context = getattr(error, "ctx", None)
            where = context.command_path if context else "zoo-bench"
            if "extra argument" in text and any(Path(word).is_dir() for word in words):
                text += ". Folders are named with options, as in --results FOLDER"
            complain(f"{text}{'' if text.endswith(('.', '?')) else '.'} See `{where} --help`.")
    except SystemExit as leaving:
        if "_ZOO_BENCH_COMPLETE" in os.environ:
            raise
        if type(sys.stdout).__name__.endswith("PacifyFlushWrapper"):  # click: the reader left, as `head` does
            sys.exit(0)
        complain(f"a method or library left by sys.exit({leaving.code!r:.200}); what is finished is kept.")
        code = 1
    except (click.Abort, KeyboardInterrupt):
        complain("interrupted; finished cells are kept and the same command goes on.")
        code = 130
    except BrokenPipeError:
        code = 0
    except OSError as error:  # for example a full disk, or a folder without write permission
        place = f"{error.filename}: " if error.filename else ""
        complain(f"{place}{error.strerror or error}. Free space or choose another folder; what is finished is kept.")
        code = 1
    except MemoryError:
        complain("out of memory; what is finished is kept. Use a smaller batch or a machine with more memory.")
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
