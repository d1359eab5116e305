"""`zoo-bench pack`: joins the loose records of a results folder into one file."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchmark.cli.complete import METHODS_LIST, SUITES_LIST, TASKS_LIST
from benchmark.cli.options import Listed, complain, results_only_option, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmark.records.pack import PairForm
    from benchmark.records.schema import Record


@click.command("pack")
@results_only_option
@click.option(
    "--methods", cls=Listed, type=METHODS_LIST, help="Only records of these methods: names or globs, comma-separated."
)
@click.option(
    "--tasks", cls=Listed, type=TASKS_LIST, help="Only records of these tasks: names or globs, comma-separated."
)
@click.option(
    "--suite",
    "suites",
    cls=Listed,
    type=SUITES_LIST,
    help="Only records of the tasks of these suites, comma-separated.",
)
@click.option(
    "--pairs",
    type=click.Choice(["scores", "order", "none"]),
    default="scores",
    help="What is kept of pair scores. order: each pair's place among the row's scores, which is all that Spearman's"
    " correlation, intervals and marks need, in less than half the space. none: nothing; such rows cannot be compared."
    " It also applies to chosen rows that are packed already; what they lose cannot be restored.",
)
@click.option("--replace", is_flag=True, help="A loose record takes the place of a packed one with another score.")
@click.option("--keep", is_flag=True, help="Leave the loose files where they are.")
def command(
    results: Path,
    methods: str | None,
    tasks: str | None,
    suites: str | None,
    pairs: PairForm,
    replace: bool,
    keep: bool,
) -> None:
    """Join the loose records of a results folder, and the scores of their pairs, into one file: records.zip.

    Every command reads packed and loose records alike. Loose files are removed once the pack was read back from the
    disk; a record that is damaged, or of a cell that is packed with another score, stays where it is and is named.
    Packing again adds what is new.
    """
    from benchmark.records.pack import pack
    from benchmark.records.packed import RECORDS
    from benchmark.records.remote import refuse_address

    refuse_address(results, "pack")
    done = pack(results, _chooser(methods, tasks, suites), pairs=pairs, keep=keep, replace=replace)
    for reason in done.left:
        complain(f"left as it is: {reason}")
    say(f"{results / RECORDS}: {done.records:,} records, {done.added:,} of them new")
    if done.lessened:
        say(f"{done.lessened:,} rows of pair scores that were packed before now keep less (--pairs {pairs})")
    say(f"{done.removed:,} loose records removed")


def _chooser(methods: str | None, tasks: str | None, suites: str | None) -> Callable[[Record], bool]:
    from benchmark.tasks import TASKS
    from benchmark.tasks.suites import suites_named

    named = None if suites is None else {task for suite in suites_named(suites) for task in suite.tasks}
    globs = [None if given is None else [one.strip() for one in given.split(",")] for given in (methods, tasks)]
    globs[1] = globs[1] and [TASKS.canonical(one) for one in globs[1]]

    def chosen(record: Record) -> bool:
        names = (record["method"]["name"], record["task"]["name"])
        matched = (
            patterns is None or any(name == one or fnmatch.fnmatchcase(name, one) for one in patterns)
            for name, patterns in zip(names, globs, strict=True)
        )
        return (named is None or names[1] in named) and all(matched)

    return chosen
