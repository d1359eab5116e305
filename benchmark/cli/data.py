"""`zoo-bench data`: list, verify or fetch the data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from benchmark.cli.complete import SUITES_LIST, TASKS_LIST
from benchmark.cli.options import (
    PATH,
    Listed,
    complain,
    data_option,
    json_option,
    print_rows,
    say,
    say_json,
)
from benchmark.data.catalog import catalog, dataset
from benchmark.data.readers.shapes import rows_of_shapes
from benchmark.data.sources import DataSource, data_rows, data_sets, each_cause_once, in_one
from benchmark.tasks import TASKS, plain_name
from benchmark.tasks.suites import choose_tasks, merged, suites_named
from zoo.errors import MissingError, UsageError, ZooError
from zoo.files import check_writable, write_text

# What is not there often has one cause, which is told once.
_TOGETHER = ("missing", "FAILED")


@click.group("data", invoke_without_command=True)
@click.option("--schemas", is_flag=True, help="Print the tables of yours that are read without a question.")
@click.option("--markdown", is_flag=True, help="With --schemas: as a table of Markdown.")
@click.pass_context
def command(context: click.Context, *, schemas: bool, markdown: bool) -> None:
    """List, verify or fetch the data sets, or write their texts; list the shapes of tables."""
    if schemas:
        rows = [["shape", "columns", "value", "its form", "read as"], *rows_of_shapes()]
        if markdown:
            lines = [f"| {' | '.join(cell.replace('|', '/').replace('<', '&lt;') for cell in row)} |" for row in rows]
            say("\n".join([lines[0], "|:--" * len(rows[0]) + "|", *lines[1:]]))
        else:
            print_rows(rows[0], rows[1:])
    elif context.invoked_subcommand is None:
        say(context.get_help())


@command.command("list")
@data_option
@json_option
def list_command(data: str | None, as_json: bool) -> None:
    """Show every data set, its rows, licence, and its place on this machine."""
    if as_json:
        say_json(data_sets(data))
        return
    print_rows(["DATA SET", "TEXT", "ROWS", "FOUND", "LICENCE"], data_rows(data))


def _chosen_data(names: tuple[str, ...]) -> list[str]:
    # Sets of unknown sha256 are fetched and verified by name alone: a folder without them lacks nothing.
    known = [name for name, entry in catalog().items() if all(form.known for form in entry.forms.values())]
    return [_data_set(name) for name in names] or known


def _data_set(name: str) -> str:
    """Return the data set of this name, or of the task of this name, in any spelling."""
    spelt = {plain_name(data_set): data_set for data_set in catalog()}
    if (task := TASKS.canonical(name)) in TASKS.names() and plain_name(name) not in spelt:
        name = getattr(TASKS.get(task), "dataset", name)
    return dataset(spelt.get(plain_name(name), name)).name


class _Findings:
    """Findings on data sets: lines at once, or JSON at the end."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.findings: list[dict[str, Any]] = []

    def add(self, status: str, name: str, form: str, text: str, **more: object) -> None:
        self.findings.append({"name": name, "form": form, "status": status.lower(), "text": text, **more})
        if not self.as_json and status not in _TOGETHER:
            say(f"{status:<7}  {text}")

    def finish(self) -> int:
        """Print the JSON, or the missing data by cause; returns the exit code."""
        if self.as_json:
            say_json(self.findings)
        for status in () if self.as_json else _TOGETHER:
            texts = (finding["text"] for finding in self.findings if finding["status"] == status.lower())
            for several in each_cause_once(texts).values():
                say(f"{status:<7}  {in_one(several)}")
        return int(any(finding["status"] not in ("ok", "skipped") for finding in self.findings))


@command.command("verify")
@data_option
@json_option
@click.argument("names", nargs=-1)
def verify_command(data: str | None, as_json: bool, names: tuple[str, ...]) -> int:
    """Check sha256 and row counts of the data present; exit 1 when something is missing or wrong."""
    source = DataSource.from_options(data, hub=False)
    chosen = _chosen_data(names)
    findings = _Findings(as_json)
    readers = {(task.dataset, task.form): task for _, task in TASKS.load_all() if task is not None}
    for name in chosen:
        for form in dataset(name).forms:
            try:
                located = source.locate(name, form)
                reader = readers.get((name, form))
                scored = reader.load(source).rows if reader else None
                read = "" if scored is None else f", {scored:,} rows scored"
                right = "right" if dataset(name).form(form).known else "as first loaded"
                text = f"{name} ({form}): {len(located.files)} file(s), {located.source}, sha256 {right}{read}"
                findings.add("ok", name, form, text, found=located.source, rows=scored)
            except ZooError as error:
                findings.add("missing" if isinstance(error, MissingError) else "WRONG", name, form, str(error))
    return findings.finish()


@command.command("texts")
@click.option("--suite", "suites", cls=Listed, default="sts", type=SUITES_LIST, help="Lists of tasks, comma-separated.")
@click.option("--tasks", cls=Listed, type=TASKS_LIST, help="Only these tasks (names or globs, comma-separated).")
@click.option("--out", type=PATH, required=True, help="File to write, one text per line.")
@data_option
@json_option
def texts_command(suites: str, tasks: str | None, out: Path, data: str | None, as_json: bool) -> int:
    """Write each text of the tasks once, so that another encoder can make the vectors for `vectors:path=`."""
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder; name the file to write.")
    source = DataSource.from_options(data)
    texts: dict[str, None] = {}
    missing: list[str] = []
    for name in choose_tasks(merged(suites_named(suites)), tasks):
        try:
            texts |= dict.fromkeys(TASKS.get(name).load(source).texts())
        except MissingError as error:
            missing.append(str(error))
    for several in each_cause_once(missing).values():
        complain(in_one(several))
    broken = [text for text in texts if "\n" in text or "\r" in text]
    if broken:
        raise UsageError(
            f"{len(broken)} texts have a line end within, first {broken[0][:80]!r}: no line can hold them."
        )
    write_text(out, "".join(f"{text}\n" for text in texts))
    if as_json:
        say_json({"written": out, "texts": len(texts), "tasks_missing": len(missing)})
    else:
        say(f"written: {out}, {len(texts):,} texts")
    return 1 if missing else 0


@command.command("fetch")
@json_option
@click.argument("names", nargs=-1)
def fetch_command(as_json: bool, names: tuple[str, ...]) -> int:
    """Download data sets (all, or those named) from the hub into the cache."""
    source = DataSource(None)
    check_writable(source.cache)
    findings = _Findings(as_json)
    for name in _chosen_data(names):
        for form, wanted in dataset(name).forms.items():
            if wanted.hub is None:
                if names:
                    findings.add("skipped", name, form, f"{name} ({form}): on no hub {wanted.hub_note}".rstrip())
                continue
            try:
                located = source.locate(name, form)
                findings.add("ok", name, form, f"{name} ({form}): {located.source}", found=located.source)
            except ZooError as error:
                findings.add("FAILED", name, form, str(error))
    return findings.finish()
