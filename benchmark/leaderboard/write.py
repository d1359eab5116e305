"""Tables to files (Markdown, CSV, JSON, LaTeX, published values beside ours) and to the terminal."""

from __future__ import annotations

import dataclasses
import functools
import sys
from pathlib import Path
from typing import Any, TextIO

from benchmark.leaderboard import published
from benchmark.leaderboard.latex import latex
from benchmark.leaderboard.markdown import markdown_row
from benchmark.leaderboard.published_page import published_markdown
from benchmark.leaderboard.table import Row, Table
from zoo.files import atomic_path, write_json, write_text
from zoo.progress import fit_to
from zoo.recipe import all_recipes


def write_tables(tables: list[Table], folder: Path) -> list[Path]:
    """Write <suite>.md, .csv, .json and .tex for every table; returns the Markdown paths.

    Where any row has a published counterpart, <suite>-published.md stands beside them.
    """
    written = []
    for table in tables:
        stem = table.suite.name + ("-trial" if table.partial else "")
        write_text(folder / f"{stem}.md", markdown(table))
        _write_csv(table, folder / f"{stem}.csv")
        write_json(folder / f"{stem}.json", as_dict(table))
        write_text(folder / f"{stem}.tex", latex(table))
        written.append(folder / f"{stem}.md")
        comparisons = published.compare(table)
        if comparisons:
            written.append(folder / f"{stem}-published.md")
            write_text(written[-1], published_markdown(table, comparisons))
    return written


CONTROL, UNTRAINED = "control", "untrained backbone"
_POOLED = ("zoo.methods.pooled.Cls", "zoo.methods.pooled.Average")  # a backbone's own states and nothing else


@functools.cache
def _controls() -> frozenset[str]:
    return frozenset(name for name, spec in all_recipes().items() if spec.control)


def role(row: Row) -> str:
    """Return CONTROL where the recipe says `control: true`, UNTRAINED for a plainly pooled backbone, else ""."""
    if published.recipe_of(row.name)[0] in _controls():
        return CONTROL
    return UNTRAINED if row.about["class"] in _POOLED else ""


def _missing_controls(table: Table) -> list[str]:
    """Return the recipes of the controls that every table should have and this one has not."""
    there = {published.recipe_of(row.name)[0] for row in table.rows}
    backbone = [] if any(role(row) == UNTRAINED for row in table.rows) else ["avg-last"]
    return [*(name for name in ("random", "bag-of-words") if name not in there), *backbone]


def conditions(row: Row) -> str:
    """Return a row's backbone, precision, training text, caveats and seeds on one line."""
    about = row.about
    parts = [*filter(None, [role(row)]), str(about["backbone"] or "no backbone"), about["precision"]]
    if about["corpus"]:
        pairs, sentences = about["corpus_pairs"], about["corpus_sentences"]
        size = f"{sentences:,} sentences" if pairs is None else f"{pairs:,} labelled pairs"
        supervised = "supervised: " if about["setting"] == "supervised" else ""
        parts.append(f"{supervised}{size} of {about['corpus']}")
    if about["transductive"]:
        parts.append("transductive: fitted on the test texts")
    if overlap := about["corpus_sentences_in_test"]:
        these = (
            "1 training sentence is a test sentence"
            if overlap == 1
            else f"{overlap} training sentences are test sentences"
        )
        parts.append(f"⚠ {these}")
    if about["seeds"] > 1:
        parts.append(f"{about['seeds']} seeds")
    return ", ".join(parts)


def markdown(table: Table) -> str:
    """Return the table as Markdown; below it costs, the reasons for every n/a, and the commands that made it."""
    trial = " — TRIAL on cut data (--limit), not comparable with anything" if table.partial else ""
    lines = [f"# {table.suite.title}{trial}", ""]
    lines += [
        table.suite.note,
        "Mean ± sample standard deviation over seeds; Avg. is the mean of the tasks, per seed.",
        "",
    ]
    header = ["#", "Method", *table.suite.columns, "Avg.", "Conditions"]
    lines.append(markdown_row(header))
    lines.append("|" + "|".join(["--:", ":--", *["--:"] * (len(table.suite.columns) + 1), ":--"]) + "|")
    for row in table.rows:
        values = [row.values[task].text() for task in table.suite.tasks]
        average = row.average.text() if row.average.mean is not None else f"n/a ({row.average.reason})"
        lines.append(markdown_row([row.place(), row.name, *values, average, conditions(row)]))
    if table.ties:
        lines += ["", table.ties]
    missing = _missing_controls(table)
    if missing:
        lines += ["", f"Controls not here: `--methods {','.join(missing)}` adds what the others are measured against."]
    lines += ["", *_cost(table)]
    notes = [f"- {row.name}: {note}" for row in table.rows for note in row.notes]
    if notes:
        lines += ["", "Not available:", "", *notes]
    lines += ["", "## Made by", "", "```", *table.commands, "```", "", *environment_lines(table)]
    return "\n".join(lines) + "\n"


def _cost(table: Table) -> list[str]:
    """Return what each row with a score cost, as Markdown."""
    header = ["Method", "Training, s", "Sentences/s", "Texts/s", "Parameters", "Dim.", "Peak MB", "Device"]
    lines = ["## Cost", "", markdown_row(header), "|:--|" + "--:|" * 6 + ":--|"]
    for row in table.rows:
        if all(value.mean is None for value in row.values.values()):
            continue
        about = row.about
        trained = about["train_seconds"] is not None
        speeds = [
            number(about[name], "n/a" if trained else "–") for name in ("train_seconds", "train_sentences_per_second")
        ]
        names = ("texts_per_second", "parameters", "dimensions", "peak_memory_mb")
        cells = [row.name, *speeds, *(number(about[name], "n/a") for name in names), about["device"]]
        lines.append(markdown_row(cells))
    note = "Times and speeds: means over seeds. Peak: the most of training and measuring. n/a: not in the records."
    return [*lines, "", note]


def number(value: float | None, without: str) -> str:
    """Return a number in full, with digits behind the point below 10 only."""
    return (
        without
        if value is None
        else f"{value:,.1f}"
        if 0 < abs(value) < 10 and value != int(value)
        else f"{value:,.0f}"
    )


def environment_lines(table: Table) -> list[str]:
    """Return each different environment of the rows on one line."""
    seen = []
    for row in table.rows:
        environment = row.about["environment"]
        packages = environment["packages"]
        line = (
            f"zoo-bench {row.about['version']}, protocol {row.about['protocol']}, torch {packages['torch']}, "
            f"transformers {packages['transformers']}, Python {environment['python']}; {row.about['device']}."
        )
        if line not in seen:
            seen.append(line)
    return seen


def _write_csv(table: Table, path: Path) -> None:
    import csv  # pandas takes longer to import than everything here together

    rows = []
    for row in table.rows:
        line: dict[str, Any] = {"rank": row.rank, "tied": row.tied, "method": row.name, "control": role(row)}
        for task, column in zip(table.suite.tasks, table.suite.columns, strict=True):
            line |= {column: row.values[task].mean, f"{column} sd": row.values[task].sd}
        line |= {"Avg": row.average.mean, "Avg sd": row.average.sd}
        line |= {key: value for key, value in row.about.items() if key != "environment"}
        line["not available"] = "; ".join(row.notes)
        rows.append(line)
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for line in rows:
            writer.writerow({k: f"{v:.4f}" if isinstance(v, float) else v for k, v in line.items()})


def as_dict(table: Table) -> dict[str, Any]:
    """Return the table as plain values, the published ones with them."""
    beside: dict[str, list[dict[str, Any]]] = {row.name: [] for row in table.rows}
    for comparison in published.compare(table):
        beside[comparison.ours.name].append(published.entry(comparison))
    return {
        "suite": table.suite.name,
        "title": table.suite.title,
        "trial": table.partial,
        "tasks": list(table.suite.tasks),
        "commands": table.commands,
        "rows": [
            {
                "rank": row.rank,
                "tied": row.tied,
                "method": row.name,
                "row_key": row.row_key,
                "scores": {task: dataclasses.asdict(value) for task, value in row.values.items()},
                "average": dataclasses.asdict(row.average),
                **row.about,
                "control": role(row),
                "published": beside[row.name],
            }
            for row in table.rows
        ],
        "cited": [] if table.partial else published.cited_entries(table.suite),
    }


def print_table(table: Table, stream: TextIO | None = None) -> None:
    """Print the table; on a narrow or plain terminal it stays readable, in ASCII where UTF-8 is not known."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    stream = stream or sys.stdout
    utf8 = (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"
    title = table.suite.title + (" — TRIAL (--limit)" if table.partial else "")
    rich_table = RichTable(
        title=fit_to(title, stream), box=box.SIMPLE_HEAD if utf8 else box.ASCII, title_justify="left"
    )
    rich_table.add_column("#", justify="right")
    rich_table.add_column("Method", overflow="fold")
    for column in (*table.suite.columns, "Avg."):
        rich_table.add_column(column, justify="right", no_wrap=True)
    for row in table.rows:
        average = row.average.text() if row.average.mean is not None else f"n/a ({row.average.reason})"
        values = [row.values[task].text() for task in table.suite.tasks]
        cells = [str(row.rank or ""), row.name, *values, average]
        rich_table.add_row(*(fit_to(cell, stream) for cell in cells))
    # A table squeezed to fit loses its numbers; wider than the terminal, it wraps but is whole.
    needed = Console(file=stream, width=10_000).measure(rich_table).maximum
    width = max(Console(file=stream).width, needed)
    Console(file=stream, width=width, highlight=False, markup=False).print(rich_table)
    if table.suite.note:
        print(fit_to(table.suite.note, stream), file=stream)
    for row in table.rows:
        for note in row.notes:
            print(fit_to(f"n/a: {row.name}: {note}", stream), file=stream)
