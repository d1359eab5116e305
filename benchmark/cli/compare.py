"""`zoo-bench compare A B`: two methods on the same pairs, with intervals and p-values. Imports no torch."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, TextIO

import click
import numpy as np
from numpy.typing import NDArray

from benchmark.analysis.worst import differing_pairs
from benchmark.cli.options import data_option, results_option
from benchmark.data.sources import DataSource
from benchmark.metrics.significance import LEVEL, Williams, resample, summarise, williams
from benchmark.records.query import Texts, label, of_task, read_kept, read_records, row_named
from benchmark.records.store import Record, Records, plain
from benchmark.tasks.suites import all_suites, suites_named
from zoo.errors import MissingError, UsageError, ZooError
from zoo.progress import fit_to, print_safe


@dataclass(frozen=True)
class Line:
    """Scores x100 of both methods (mean over seeds), A - B, its 95% bootstrap interval and p, Williams' test."""

    task: str
    pairs: int
    a: float
    b: float
    difference: float
    low: float
    high: float
    p: float
    williams: Williams | None  # None: an average, or fewer than four pairs


@dataclass(frozen=True)
class Comparison:
    """The lines of a suite's tasks, and of their average where there are several."""

    title: str
    lines: list[Line]
    average: Line | None


def compare_command(options: dict[str, Any]) -> int:
    """`zoo-bench compare`: print, as a table or as JSON, how two methods of a results folder differ."""
    store = Records(options["results"], set_aside=False)
    found = read_records(store)
    asked = _asked(options["suite"], options["task"])
    tasks = {task for _, names in asked for task in names}
    a, b = (row_named(found, name, options["results"], tasks) for name in (options["a"], options["b"]))
    names = [label(records) for records in (a, b)]
    results, left_out = [], []
    for title, of_suite in asked or _in_common(a, b):
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
        content["comparisons"] = plain([asdict(one) for one in results])
        content |= {"pairs": differing} if differing else {}
        print_safe(json.dumps(content, indent=1), sys.stdout)
    else:
        for one in results:
            print_comparison(one, names[0], names[1], options["resamples"])
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


def _in_common(a: list[Record], b: list[Record]) -> list[tuple[str, tuple[str, ...]]]:
    """Return title and tasks of the suites of which both rows have something."""
    measured = {r["task"]["name"] for r in a} & {r["task"]["name"] for r in b}
    kept = {r["task"]["name"] for r in (*a, *b) if r.get("pairs")}
    # Suites without pair scores are asked for only where there are no others, to say what is missing.
    return [(one.title, one.tasks) for one in all_suites().values() if (measured & kept or measured) & set(one.tasks)]


def compare(
    title: str, tasks: Sequence[str], a: list[Record], b: list[Record], store: Records, resamples: int
) -> Comparison:
    """Compare two rows on tasks; raises MissingError without scores or pair scores, UsageError where pairs differ."""
    lines, drawn = [], []
    for task in tasks:
        line, samples = _line(task, of_task(a, task, store), of_task(b, task, store), store, resamples)
        lines.append(line)
        drawn.append(samples)
    if len(lines) == 1:
        return Comparison(title, lines, None)
    scores = np.array([[line.a, line.b] for line in lines]).mean(axis=0)
    pairs = sum(line.pairs for line in lines)
    return Comparison(title, lines, _summary("Avg.", pairs, scores, np.mean(drawn, axis=0), None))


def _line(
    task: str, a: list[Record], b: list[Record], store: Records, resamples: int
) -> tuple[Line, NDArray[np.float64]]:
    """Return the comparison on one task, and the scores x100 (2, resamples) that the resamples gave."""
    from scipy.stats import rankdata

    scores = [store.pair_scores(record) for record in (*a, *b)]
    if len({(record["pairs"]["gold_sha256"], record["protocol"]) for record in (*a, *b)}) > 1:
        raise UsageError(f"{task}: {label(a)} and {label(b)} were measured on different pairs (--limit, say).")
    gold = scores[0][1]
    every = resample(np.stack([predicted for predicted, _ in scores]), gold, resamples=resamples)
    samples = 100 * np.stack([every[: len(a)].mean(axis=0), every[len(a) :].mean(axis=0)])
    measured = np.array([np.mean([r["scores"]["main"] for r in side]) for side in (a, b)])
    test = None
    if len(gold) > 3:
        ranks = np.corrcoef(rankdata([gold, *(predicted for predicted, _ in scores)], axis=1))
        # The means over all pairs of seeds are again the correlations of one matrix.
        first, second = range(1, 1 + len(a)), range(1 + len(a), 1 + len(scores))
        between = float(np.mean([ranks[i, j] for i, j in product(first, second)]))
        test = williams(float(ranks[0, list(first)].mean()), float(ranks[0, list(second)].mean()), between, len(gold))
    return _summary(task, len(gold), 100 * measured, samples, test), samples


def _summary(
    task: str, pairs: int, scores: NDArray[np.float64], samples: NDArray[np.float64], test: Williams | None
) -> Line:
    found = summarise(scores, samples)
    numbers = (found.difference, found.difference_low, found.difference_high, found.p)
    difference, low, high, p = (float(number[0, 1]) for number in numbers)
    return Line(task, pairs, float(scores[0]), float(scores[1]), difference, low, high, p, test)


def print_comparison(comparison: Comparison, a: str, b: str, resamples: int, stream: TextIO | None = None) -> None:
    """Print a comparison as a table; numbers stay whole however narrow the terminal is."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    stream = stream or sys.stdout
    utf8 = (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"
    shape = box.SIMPLE_HEAD if utf8 else box.ASCII
    table = Table(title=fit_to(comparison.title, stream), box=shape, title_justify="left")
    table.add_column("Task")
    for column in ("Pairs", "A", "B", "A - B", "95% interval", "p", "Williams' p"):
        table.add_column(column, justify="right", no_wrap=True)
    for line in [*comparison.lines, *([comparison.average] if comparison.average else [])]:
        table.add_row(
            line.task,
            f"{line.pairs:,}",
            f"{line.a:.2f}",
            f"{line.b:.2f}",
            f"{line.difference:+.2f}",
            f"{line.low:+.2f} to {line.high:+.2f}",
            f"{line.p:.4f}",
            "" if line.williams is None else f"{line.williams.p:.4f}",
        )
    needed = Console(file=stream, width=10_000).measure(table).maximum
    width = max(Console(file=stream).width, needed)
    Console(file=stream, width=width, highlight=False, markup=False).print(table)
    for text in (
        f"A: {a}",
        f"B: {b}",
        f"Spearman x100, mean over seeds; paired bootstrap of the pairs, {resamples:,} resamples; two-sided p.",
    ):
        print_safe(text, stream)


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
