"""`zoo-bench data`: list, verify or fetch the data sets."""

from __future__ import annotations

from pathlib import Path

import click

from benchmark.cli.options import complain, data_option, print_rows, say
from benchmark.data.catalog import catalog, dataset
from benchmark.data.overview import data_rows
from benchmark.data.sources import DataSource
from benchmark.run.options import RESULTS
from benchmark.tasks import TASKS
from benchmark.tasks.suites import choose_tasks, merged, suites_named
from zoo.errors import MissingError, UsageError, ZooError
from zoo.files import check_writable, write_text


@click.group("data")
def command() -> None:
    """List, verify or fetch the data sets, or write their texts."""


@command.command("list")
@data_option
def list_command(data: str | None) -> None:
    """Show every data set, its rows, licence, and where it is found here."""
    print_rows(["DATA SET", "TEXT", "ROWS", "FOUND", "LICENCE"], data_rows(data))


def _chosen_data(names: tuple[str, ...]) -> list[str]:
    return [dataset(name).name for name in names] or list(catalog())


@command.command("verify")
@data_option
@click.argument("names", nargs=-1)
def verify_command(data: str | None, names: tuple[str, ...]) -> int:
    """Check sha256 and row counts of what is found; exit 1 when something is missing or wrong."""
    source = DataSource.from_options(data, hub=False)
    chosen = _chosen_data(names)
    problems = 0
    readers = {(task.dataset, task.form): task for _, task in TASKS.load_all() if task is not None}
    for name in chosen:
        for form in dataset(name).forms:
            try:
                located = source.locate(name, form)
                reader = readers.get((name, form))
                read = f", {reader.load(source).rows:,} rows scored" if reader else ""
                say(f"ok       {name} ({form}): {len(located.files)} file(s), {located.source}, sha256 right{read}")
            except ZooError as error:
                problems += 1
                say(f"{'missing' if isinstance(error, MissingError) else 'WRONG  '}  {error}")
    return 1 if problems else 0


@command.command("texts")
@click.option("--suite", "suites", default="sts", show_default=True, help="Lists of tasks, comma-separated.")
@click.option("--tasks", help="Only these tasks (names or globs, comma-separated).")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File to write, one text a line.")
@data_option
def texts_command(suites: str, tasks: str | None, out: Path, data: str | None) -> int:
    """Write the texts that tasks need vectors of, each once: what another encoder has to encode for `vectors:path=`."""
    source = DataSource.from_options(data)
    texts: dict[str, None] = {}
    missing = 0
    for name in choose_tasks(merged(suites_named(suites)), tasks):
        try:
            texts |= dict.fromkeys(TASKS.get(name).load(source).texts())
        except MissingError as error:
            missing += 1
            complain(f"{name}: {error}")
    broken = [text for text in texts if "\n" in text or "\r" in text]
    if broken:
        raise UsageError(
            f"{len(broken)} texts have a line end within, first {broken[0][:80]!r}: no line can hold them."
        )
    write_text(out, "".join(f"{text}\n" for text in texts))
    say(f"written: {out}, {len(texts):,} texts")
    return 1 if missing else 0


@command.command("fetch")
@click.argument("names", nargs=-1)
def fetch_command(names: tuple[str, ...]) -> int:
    """Download data sets (all, or those named) from the hub into the cache."""
    source = DataSource(None)
    check_writable(source.cache)
    problems = 0
    for name in _chosen_data(names):
        for form, wanted in dataset(name).forms.items():
            if wanted.hub is None:
                if names:
                    say(f"skipped  {name} ({form}): on no hub {wanted.hub_note}".rstrip())
                continue
            try:
                located = source.locate(name, form)
                say(f"ok       {name} ({form}): {located.source}")
            except ZooError as error:
                problems += 1
                say(f"FAILED   {error}")
    return 1 if problems else 0


@command.command("overlap")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, show_default=True, help="Results folder.")
@data_option
def overlap_command(results: Path, data: str | None) -> int:
    """Name the test texts in the training texts of records that do not: overlap.json, which the tables read."""
    from benchmark.run.overlap import write_overlap

    path, problems = write_overlap(results, DataSource.from_options(data, hub=False))
    for problem in problems:
        complain(f"left out: {problem}")
    say(f"written: {path}")
    return 1 if problems else 0
