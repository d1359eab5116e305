"""The comparison of two rows by name."""

from __future__ import annotations

import io
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from benchmark.data.sources import DataSource
from benchmark.records.folder import Records, read_records
from benchmark.records.query import PairTexts, keeps_items, label, row_named, row_scores
from benchmark.records.record import Record, plain, scores_of
from benchmark.report.conditions import tuned
from benchmark.report.rows import signed
from benchmark.report.signature import differing
from benchmark.report.terminal import Field, fitted, folded, width_of
from benchmark.stats.compare import (
    AVERAGE,
    Comparison,
    Line,
    compare,
    differing_pairs,
    have_mean,
    seeds_of,
    suites_in_common,
    without_items,
)
from benchmark.stats.contained import NO_SEEDS, NOT_TUNED, ONE_STUDY, ONE_TRAINING, contained
from benchmark.stats.draws import changed_settings, origin_of
from benchmark.stats.intervals import NO_INTERVAL
from benchmark.stats.mcb import LEVEL
from benchmark.stats.power import POWER
from benchmark.tasks.suites import known_suites, suites_named, tasks_named
from zoo.errors import MissingError, ZooError
from zoo.progress import print_safe

if TYPE_CHECKING:
    import pandas


_SEEDS = {
    "none": "no seed",
    "one": "one seed: its noise is not known, so that there is no interval and no p; run --seeds 3",
}


@dataclass(frozen=True)
class Compared:
    """The difference of rows A and B, suite by suite; prints as tables, shows as HTML in a notebook.

    `pairs` has the most different pairs of each task, if requested. `left_out` has the reasons for missing suites.
    """

    a: list[Record]
    b: list[Record]
    comparisons: list[Comparison]
    pairs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    borrowed: dict[str, str] = field(default_factory=dict)  # by side of one seed: whose noise of seeds stands in
    margin: float | None = None  # below which A and B were asked to differ

    def to_frame(self) -> pandas.DataFrame:
        """Return a row per task (and mean of a suite): scores x100, difference, 95% interval, p-values."""
        import pandas

        rows = [
            {
                "Suite": comparison.title,
                "Task": line.task,
                "Pairs": line.pairs,
                "A": line.a,
                "B": line.b,
                "A - B": line.difference,
                "Low": line.low,
                "High": line.high,
                "p": line.p,
                "Williams' p": None if line.williams is None else line.williams.p,
            }
            for comparison in self.comparisons
            for line in _lines(comparison)
        ]
        return pandas.DataFrame(rows).set_index(["Suite", "Task"])

    def as_dict(self) -> dict[str, Any]:
        content: dict[str, Any] = {"a": label(self.a), "b": label(self.b), "level": LEVEL}
        content["seeds"] = {"a": seeds_of(self.a), "b": seeds_of(self.b)}
        content["noise"] = self.noise(self._unit())
        content |= {"borrowed_seed_noise": self.borrowed} if self.borrowed else {}
        content["comparisons"] = plain([asdict(comparison) for comparison in self.comparisons])
        return content | ({"pairs": self.pairs} if self.pairs else {})

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), indent=1)

    def show(self, stream: TextIO | None = None, *, wide: bool = False) -> None:
        """Print the tables (`wide`: all columns), A and B, the meaning of the numbers, and the requested pairs."""
        stream = stream or sys.stdout
        width = width_of(stream)
        lines = []
        for comparison in self.comparisons:
            table, left_out = fitted(_fields(comparison), None if wide else width)
            lines += [*folded([comparison.title], width), *table]
            lines += [*folded([f"--wide: {', '.join(left_out)}"] if left_out else [], width), ""]
        lines += folded(self._notes(), width)
        for task, pairs in self.pairs.items():
            lines += folded(_pair_lines(task, pairs), width)
        print_safe("\n".join(lines), stream)

    def _unit(self) -> str:
        return "items" if any(comparison.unit == "items" for comparison in self.comparisons) else "pairs"

    def noise(self, unit: str) -> str:
        """Return which noise the intervals and p-values contain."""
        seeds = [seeds_of(rows) for rows in (self.a, self.b)]
        alone = "one" in seeds and not self.borrowed
        without = ONE_TRAINING if alone else NO_SEEDS if seeds == ["none", "none"] else ""
        any_tuned = any(tuned(rows[0]["method"]) for rows in (self.a, self.b))
        return contained(unit, seeds=without, tuning=ONE_STUDY if any_tuned else NOT_TUNED)

    def _notes(self) -> list[str]:
        sides = [
            f"{side}: {label(rows)}, {self.borrowed.get(side.lower()) or _seeds_text(rows)}"
            for side, rows in (("A", self.a), ("B", self.b))
        ]
        shared = {line.task: line.shared for comparison in self.comparisons for line in comparison.lines if line.shared}
        unit = self._unit()
        compared = {line.task for comparison in self.comparisons for line in comparison.lines}
        measures = {scores_of(r)["main_metric"] for r in (*self.a, *self.b) if r["task"]["name"] in compared}
        scores = ", ".join(sorted(measure.removeprefix("all_").replace("_", " ") for measure in measures))
        parts = [
            f"{scores[:1].upper()}{scores[1:]} x100, mean over seeds. Intervals and p (two-sided): noise of the {unit},"
            " which both rows share, and of the seeds (their sample variance),"
            " t with degrees of freedom by Satterthwaite and Cochran."
        ]
        # The average, or the tasks where they have none.
        last = [line for of in self.comparisons for line in ([of.average] if of.average else of.lines)]
        spreads = [_spreads(line) for line in last if line.seeds_error]
        paired = any(line.seed_by_seed for line in last)
        if origin_of(self.a[0]) == origin_of(self.b[0]) and self.a[0]["training"]:
            parts += _kinship(changed_settings(self.a[0], self.b[0]), paired=paired)
        if paired:
            parts.append("The noise of seeds is that of the difference of each seed.")
            parts += [
                f"{comparison.title}: over {comparison.correlation[1]} such pairs of rows in this folder, seeds"
                f" correlate by {comparison.correlation[0]:.2f} on average."
                for comparison in self.comparisons
                if comparison.correlation is not None
            ]
        if unlike := differing(self.a, self.b):
            parts.append(f"Not like with like, A and B: {'; '.join(unlike)}.")
        parts.append(self.noise(unit))
        parts += [f"Standard deviations over seeds: {'; '.join(spreads)}."] if spreads else []
        needed = [f"{abs(line.difference):.2f} on {_place(line)} takes {line.needed}" for line in last if line.needed]
        if needed:
            parts.append(
                f"To be shown (p < {LEVEL:g}) in {POWER:.0%} of repetitions, if it is the true difference, "
                f"{'; '.join(needed)}."
            )
        parts += [text for text in map(self._verdict, last) if text]
        if shared:
            counts = ", ".join(f"{count:,} of {task}" for task, count in shared.items())
            parts.append(f"Pairs of several tasks are drawn together: {counts}.")
        parts += _about_texts([line for comparison in self.comparisons for line in comparison.lines])
        return [*sides, " ".join(parts)]

    def _verdict(self, line: Line) -> str:
        if line.p is None:
            return ""
        apart = line.p < LEVEL
        words = f"A is {'above' if line.difference > 0 else 'below'} B" if apart else "not told apart"
        shown = "" if line.within is None else "shown to differ" if line.within < LEVEL else "not shown to differ"
        less = f"; {shown} by less than {self.margin:g} (p {_p_text(line.within)})" if line.within is not None else ""
        return f"On {_place(line)}: {words}: {_interval(line)}{less}."

    def __str__(self) -> str:
        stream = io.StringIO()
        self.show(stream)
        return stream.getvalue().rstrip()

    def _repr_html_(self) -> str:
        from html import escape

        table = self.to_frame().to_html(float_format="{:z.2f}".format, na_rep="")
        return "\n".join([table, *(f"<p>{escape(text)}</p>" for text in [*self._notes(), *self.left_out])])


def compare_rows(
    results: Path,
    a: str,
    b: str,
    *,
    suites: str | None = None,
    tasks: str | None = None,
    pairs: int = 0,
    data: DataSource | None = None,
    texts: bool = True,
    borrow_seed_noise: bool = False,
    margin: float | None = None,
) -> Compared:
    """Compare two rows of a results folder on suites, on tasks, or on all common suites.

    Args:
        results: The results folder.
        a: The printed name of row A.
        b: The printed name of row B.
        suites: Suites, comma-separated.
        tasks: Tasks instead of suites, comma-separated.
        pairs: The number of most different pairs of each task to add.
        data: The data folder with the texts of these pairs.
        texts: Add texts.
        borrow_seed_noise: Give a row with one seed the pooled seed variance of its backbone's other trained rows.
        margin: Test for a difference below this number of points.

    Raises:
        UsageError: A name is unknown, or fits several rows.
        MissingError: Nothing can be compared.
    """
    store = Records(results)
    records = read_records(store)
    named = [] if suites is None or tasks is not None else suites_named(suites, results)
    asked = () if tasks is None else tasks_named(tasks, {record["task"]["name"] for record in records})
    wanted = {*asked, *(task for suite in named for task in suite.tasks)}
    rows = row_named(records, a, results, wanted), row_named(records, b, results, wanted)
    compared: list[Comparison] = []
    left_out: list[str] = []
    by_row: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        by_row[record["method"]["name"], record["row_key"]].append(record)
    every = [*by_row.values()]
    stand_in = [_of_its_backbone(row, every) if borrow_seed_noise and seeds_of(row) == "one" else [] for row in rows]
    together = have_mean(asked, [*rows[0], *rows[1]], known_suites(results).values())
    parts = (
        [(", ".join(asked), asked, together)]
        if asked
        else [(suite.title, suite.tasks, suite.average) for suite in suites_in_common(*rows, named, results)]
    )
    for title, of_suite, average in parts:
        names = of_suite if asked else tuple(task for task in of_suite if task not in without_items(*rows))
        try:
            of_texts = None if data is None else PairTexts(data)
            compared.append(compare(title, names or of_suite, *rows, store, stand_in, every, of_texts, margin, average))
            if names != of_suite:
                others = [task for task in of_suite if task not in names]
                again = "; --remeasure keeps them" if all(map(keeps_items, others)) else ""
                left_out.append(
                    f"{title}: {', '.join(others)} not compared, because no item scores of them are kept{again}."
                )
        except ZooError as error:
            if asked or named:
                raise
            left_out.append(f"{title}: left out: {error}")
    if not compared:
        reasons = " ".join(left_out) or "they have no suite in common; name tasks with --tasks."
        raise MissingError(f"{label(rows[0])} and {label(rows[1])} cannot be compared: {reasons}")
    differing: dict[str, list[dict[str, Any]]] = {}
    if pairs:
        shown = PairTexts(data if texts else None)
        differing, without = _differing(
            [line.task for comparison in compared for line in comparison.lines], rows, store, pairs, shown
        )
        left_out += without
    borrowed = {side: _borrowed(of_side) for side, of_side in zip("ab", stand_in, strict=True) if of_side}
    return Compared(*rows, compared, differing, left_out, borrowed, margin)


def _of_its_backbone(row: list[Record], rows: Sequence[list[Record]]) -> list[list[Record]]:
    """Rows without a backbone have none."""
    name = _backbone(row[0])
    return [other for other in rows if name and _backbone(other[0]) == name and seeds_of(other) == "several"]


def _backbone(record: Record) -> str:
    return str(record["method"]["sources"].get("backbone", {}).get("name", ""))


def _borrowed(others: Sequence[Sequence[Record]]) -> str:
    return (
        "one seed; in place of its noise stands the pooled variance over seeds of the"
        f" {len(others)} other trained rows of its backbone"
    )


def _differing(
    tasks: Sequence[str], rows: tuple[list[Record], list[Record]], store: Records, count: int, texts: PairTexts
) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    without: list[str] = []
    differing = {}
    for task in dict.fromkeys(tasks):
        if any(record.get("items") for record in rows[0] if record["task"]["name"] == task):
            without.append(f"{task}: its items are right or wrong, so that no places of pairs differ.")
            continue
        first, second = (row_scores(label(records), records, task, store) for records in rows)
        differing[task] = differing_pairs(first, second, count)
        if texts.data is not None:
            try:
                pairs = texts.of(first.record)
            except ZooError as error:
                without.append(f"no texts: {error}")
                continue
            for line in differing[task]:
                line["texts"] = [pairs.first[line["row"] - 1], pairs.second[line["row"] - 1]]
    return differing, without


def _about_texts(lines: Sequence[Line]) -> list[str]:
    known = {line.task: f"{line.unrelated:,.0f} for {line.task}" for line in lines if _repeats(line)}
    unknown = dict.fromkeys(line.task for line in lines if line.unrelated is None)
    parts = []
    if known:
        as_much = ", ".join(known.values())
        parts.append(f"Pairs that share a text are drawn together, and say as much as fewer unrelated ones: {as_much}.")
    if unknown:
        parts.append(f"Rows are taken as independent, because their texts are not at hand: {', '.join(unknown)}.")
    return parts


def _repeats(line: Line) -> bool:
    return line.unrelated is not None and round(line.unrelated) < line.pairs


def _spreads(line: Line) -> str:
    sides = [f"{name} {sd:.2f}" for name, sd in zip("AB", line.seeds_sd, strict=True) if sd is not None]
    error = f", of the mean difference {line.seeds_error:.2f}"
    return f"{_place(line)}: {', '.join(sides)}{error}"


def _place(line: Line) -> str:
    return "the average" if line.task == AVERAGE else line.task


def _lines(comparison: Comparison) -> list[Line]:
    return [*comparison.lines, *([comparison.average] if comparison.average else [])]


def _kinship(settings: Sequence[str], *, paired: bool) -> list[str]:
    """Return a sentence on two rows of equal method, backbone and text; none if several settings differ."""
    if not settings:
        return ["A and B have equal recipes: one method, measured twice."]
    if not paired or len(settings) > 1:
        return []
    return [f"A and B are one method with one setting changed ({settings[0]}), and were trained with the same seeds."]


def _seeds_text(records: Sequence[Record]) -> str:
    if records[0]["method"]["traits"].get("released"):
        return "a finished encoder: one training, and the noise of its seeds is not in the interval"
    return _SEEDS.get(seeds_of(records), f"{len({record['seed'] for record in records})} seeds")


def _pair_lines(task: str, pairs: list[dict[str, Any]]) -> list[str]:
    lines = ["", f"{task}: pairs whose places (0 to 100 of the task) differ most"]
    for pair in pairs:
        places = f"A {pair['a_place']:.1f}, B {pair['b_place']:.1f}, gold {pair['gold_place']:.1f} ({pair['gold']:g})"
        lines += [f"row {pair['row']}: {places}", *(f"    {text}" for text in pair.get("texts", ()))]
    return lines


def _interval(line: Line) -> str:
    return NO_INTERVAL if line.low is None or line.high is None else f"{signed(line.low)} to {signed(line.high)}"


def _fields(comparison: Comparison) -> list[Field]:
    """The interval and p give way last."""
    rows = [
        [
            line.task,
            f"{line.pairs:,}",
            f"{line.a:z.2f}",
            f"{line.b:z.2f}",
            signed(line.difference),
            "n/a" if line.p is None else _interval(line),
            "n/a" if line.p is None else _p_text(line.p),
            "" if line.williams is None else _p_text(line.williams.p),
        ]
        for line in _lines(comparison)
    ]
    heads = ("Task", comparison.unit.capitalize(), "A", "B", "A - B", "95% interval", "p", "Williams' p, pairs alone")
    columns = zip(heads, (0, 4, 3, 3, 0, 1, 2, 5), zip(*rows, strict=True), strict=True)
    return [Field(head, cells, head != "Task", place, name=head == "Task") for head, place, cells in columns]


def _p_text(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"
