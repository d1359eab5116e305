"""`zoo-bench compare A B`: two methods on the same pairs, with intervals and p-values. Imports no torch."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TextIO

import click

from benchmark.analysis.worst import differing_pairs
from benchmark.cli.options import data_option, results_option
from benchmark.data.sources import DataSource
from benchmark.leaderboard.comparison import Comparison, compare, seeds_of, suites_in_common
from benchmark.metrics.significance import LEVEL
from benchmark.records.query import Texts, label, read_kept, row_named
from benchmark.records.schema import Record, plain
from benchmark.records.store import Records, read_records
from benchmark.tasks.suites import suites_named
from zoo.errors import MissingError, UsageError, ZooError
from zoo.progress import fit_to, print_safe


def compare_command(options: dict[str, Any]) -> int:
    """`zoo-bench compare`: print, as a table or as JSON, how two methods of a results folder differ."""
    store = Records(options["results"])
    found = read_records(store)
    asked = _asked(options["suite"], options["task"])
    tasks = {task for _, names in asked for task in names}
    a, b = (row_named(found, name, options["results"], tasks) for name in (options["a"], options["b"]))
    names = [label(records) for records in (a, b)]
    results, left_out = [], []
    for title, of_suite in asked or suites_in_common(a, b):
        try:
            results.append(compare(title, of_suite, a, b, store, options["resamples"]))
        except ZooError as error:
            if asked:
                raise
            left_out.append(f"{title}: left out: {error}")
    if not results:
        reasons = " ".join(left_out) or "they have no suite in common; name tasks with --task."
        raise MissingError(f"{names[0]} and {names[1]} cannot be compared: {reasons}")
    differing = _differing([line.task for one in results for line in one.lines], a, b, store, options)
    if options["as_json"]:
        content: dict[str, Any] = {"a": names[0], "b": names[1], "resamples": options["resamples"], "level": LEVEL}
        content["seeds"] = {"a": seeds_of(a), "b": seeds_of(b)}
        content["comparisons"] = plain([asdict(one) for one in results])
        content |= {"pairs": differing} if differing else {}
        print_safe(json.dumps(content, indent=1), sys.stdout)
    else:
        for one in results:
            print_comparison(one)
        for side, records in (("A", a), ("B", b)):
            print_safe(f"{side}: {label(records)}, {_seeds_text(records)}", sys.stdout)
        _print_notes(results, options["resamples"])
        for task, lines in differing.items():
            _print_pairs(task, lines)
    for text in left_out:
        print_safe(f"zoo-bench: {text}", sys.stderr)
    return 0


def _differing(
    tasks: Sequence[str], a: list[Record], b: list[Record], store: Records, options: dict[str, Any]
) -> dict[str, list[dict[str, Any]]]:
    """Return the pairs of each task on which both differ most, with texts where these are wanted and here."""
    if not options["pairs"]:
        return {}
    texts = Texts(None if options["no_texts"] else DataSource.from_options(options["data"], hub=False))
    found = {}
    for task in dict.fromkeys(tasks):
        first, second = (read_kept(label(records), records, task, store) for records in (a, b))
        found[task] = differing_pairs(first, second, options["pairs"])
        if texts.data is not None:
            try:
                pairs = texts.of(first.record)
            except ZooError as error:
                print_safe(f"zoo-bench: no texts: {error}", sys.stderr)
                continue
            for line in found[task]:
                line["texts"] = [pairs.first[line["row"] - 1], pairs.second[line["row"] - 1]]
    return found


def _print_pairs(task: str, lines: list[dict[str, Any]]) -> None:
    print_safe(f"\n{task}: pairs whose places (0 to 100 of the task) differ most", sys.stdout)
    for line in lines:
        places = f"A {line['a_place']:.1f}, B {line['b_place']:.1f}, gold {line['gold_place']:.1f} ({line['gold']:g})"
        print_safe(f"row {line['row']}: {places}", sys.stdout)
        for text in line.get("texts", ()):
            print_safe(f"    {text}", sys.stdout)


def _asked(suites: str | None, tasks: str | None) -> list[tuple[str, tuple[str, ...]]]:
    """Return title and tasks of each comparison that was asked for; none: all that can be made."""
    if tasks is not None:
        names = tuple(dict.fromkeys(name.strip() for name in tasks.split(",") if name.strip()))
        if not names:
            raise UsageError("--task names no task.")
        return [(", ".join(names), names)]
    return [] if suites is None else [(one.title, one.tasks) for one in suites_named(suites)]


_SEEDS = {
    "none": "no seed",
    "one": "one seed: what other seeds would give is not known, and not in the intervals",
}


def _seeds_text(records: Sequence[Record]) -> str:
    return _SEEDS.get(seeds_of(records), f"{len({record['seed'] for record in records})} seeds")


def print_comparison(comparison: Comparison, stream: TextIO | None = None) -> None:
    """Print a comparison as a table; numbers stay whole however narrow the terminal is."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    stream = stream or sys.stdout
    utf8 = (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"
    shape = box.SIMPLE_HEAD if utf8 else box.ASCII
    table = Table(title=fit_to(comparison.title, stream), box=shape, title_justify="left")
    table.add_column("Task")
    for column in ("Pairs", "A", "B", "A - B", "95% interval", "p", "Williams' p, pairs alone"):
        table.add_column(column, justify="right", no_wrap=True)
    for line in [*comparison.lines, *([comparison.average] if comparison.average else [])]:
        table.add_row(
            line.task,
            f"{line.pairs:,}",
            f"{line.a:.2f}",
            f"{line.b:.2f}",
            f"{line.difference:+.2f}",
            f"{line.low:+.2f} to {line.high:+.2f}",
            _p_text(line.p),
            "" if line.williams is None else _p_text(line.williams.p),
        )
    needed = Console(file=stream, width=10_000).measure(table).maximum
    width = max(Console(file=stream).width, needed)
    Console(file=stream, width=width, highlight=False, markup=False).print(table)


def _p_text(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


def _print_notes(results: Sequence[Comparison], resamples: int) -> None:
    shared = {line.task: line.shared for one in results for line in one.lines if line.shared}
    parts = [
        "Spearman x100, mean over seeds. Intervals and p (two-sided): noise of the pairs (paired bootstrap,"
        f" {resamples:,} resamples) and of the seeds (their sample variance), Welch-Satterthwaite."
    ]
    if shared:
        parts.append(
            "Pairs of several tasks are drawn together: "
            + ", ".join(f"{count:,} of {task}" for task, count in shared.items())
            + "."
        )
    print_safe(" ".join(parts), sys.stdout)


@click.command("compare")
@click.argument("a")
@click.argument("b")
@results_option
@click.option("--suite", help="Only these suites, comma-separated [default: all that both were measured on].")
@click.option("--task", help="Instead of suites: these tasks, comma-separated.")
@click.option("--resamples", type=click.IntRange(100), default=10_000, show_default=True, help="Of the pairs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--pairs",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Also the N pairs of each task that differ most.",
)
@click.option("--no-texts", is_flag=True, help="Their row numbers only.")
@data_option
def command(**options: Any) -> int:
    """Compare methods A and B pair by pair: differences, bootstrap intervals, p-values, Williams' test."""
    return compare_command(options)
