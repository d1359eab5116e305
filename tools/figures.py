"""Figures in running text from the records of published folders, as `zoo-bench compare` prints them.

In a page, `<!-- made: compare zoo-small sts ptbert simcse -->` stands before a verdict on two rows with its figures,
`mean zoo-small sts ptbert` before a mean with its spread, and `corrected zoo-small sts simcse ptbert moco ...` before
the verdict on the first two by Holm's procedure over all that are compared with the first.
`within zoo-small sts ptbert moco 0.5` stands before the test for a difference below 0.5, and `needed`, with the same
but for the margin, before the number of seeds that would show the measured difference.
`first zoo-small sts ptbert simcse 3` stands before the verdict by the first three seeds.
`comparisons zoo-small sts` stands before a table: each further line of the mark names two rows, and a note behind `|`.
`<!-- end -->` ends each. A suite may be named, or tasks with commas. `python -m tools.findings` writes them all.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmark.records.folder import Records, read_records
from benchmark.records.query import of_task, row_named
from benchmark.records.record import Record
from benchmark.report.markdown import markdown_row
from benchmark.stats.compare import compare
from benchmark.stats.draws import by_seed, compared
from benchmark.stats.marks import beyond_noise
from benchmark.stats.mcb import LEVEL, Differences, differences, equivalence
from benchmark.tasks.suites import all_suites

ROOT = Path(__file__).parents[1]
ASKING = ("compare", "corrected", "comparisons", "within")
MARK = re.compile(r"(<!-- made: (\w+)(?:[ \n](.*?))?\s*-->)(.*?)(<!-- end -->)", re.S)


@dataclass(frozen=True)
class Difference:
    """A row's mean less another's, with the 95% interval that holds the noise of items and of seeds."""

    a: str
    b: str
    value: float
    low: float
    high: float
    p: float

    @property
    def verdict(self) -> str:
        """The word that the interval decides."""
        return "above" if self.low > 0 else "below" if self.high < 0 else "not told apart"

    def words(self) -> str:
        """Return the verdict with its figures: "0.58 (0.01 to 1.15) above `simcse`"."""
        if self.verdict == "not told apart":
            return f"not told apart from `{self.b}` ({self.value:+.2f}, {self.low:.2f} to {self.high:.2f})"
        low, high = sorted((abs(self.low), abs(self.high)))
        return f"{abs(self.value):.2f} ({low:.2f} to {high:.2f}) {self.verdict} `{self.b}`"


Table = tuple[str, tuple[str, ...]]  # a folder and tasks


def table_of(folder: str, tasks: str) -> Table:
    """Return a folder with the tasks of a suite, or those that commas separate."""
    known = all_suites().get(tasks)
    return folder, tuple(tasks.split(",")) if known is None else known.tasks


class Figures:
    """The differences that some pages ask for; the rows of one table are drawn once."""

    def __init__(self, pages: Iterable[str]) -> None:
        self._names: dict[Table, list[str]] = {}
        for page in pages:
            for _, kind, args, *_ in MARK.findall(page):
                if kind in ASKING:
                    table, pairs = _asked(kind, args)
                    self._names.setdefault(table, []).extend(name for a, b, _ in pairs for name in (a, b))

    @functools.cached_property
    def _results(self) -> Mapping[Table, tuple[list[str], Differences]]:
        return {table: _compared(table, [*dict.fromkeys(names)]) for table, names in self._names.items()}

    def difference(self, table: Table, a: str, b: str) -> Difference:
        """Return A - B; raises ValueError where a row has no interval."""
        names, result = self._results[table]
        at = names.index(a), names.index(b)
        value, low, high, p = (float(part[at]) for part in (result.value, result.low, result.high, result.p))
        if np.isnan(low):
            raise ValueError(f"{a} less {b} has no interval in {table[0]}: a row has one seed.")
        return Difference(a, b, value, low, high, p)

    def compare(self, args: str) -> str:
        """Return the verdict on two rows in words."""
        table, ((a, b, _),) = _asked("compare", args)
        return self.difference(table, a, b).words()

    def within(self, args: str) -> str:
        """Two one-sided tests for a difference below a margin, in words."""
        table, ((a, b, margin),) = _asked("within", args)
        names, result = self._results[table]
        p = float(equivalence(result, float(margin))[names.index(a), names.index(b)])
        return f"{'shown' if p < LEVEL else 'not shown'} to differ by less than {margin} (p {p:.2g})"

    def corrected(self, args: str) -> str:
        """Return the verdict on the first of several rows beside a base, by Holm's procedure over all of them."""
        table, pairs = _asked("corrected", args)
        every = [self.difference(table, a, b) for a, b, _ in pairs]
        beyond = beyond_noise({place: of.p for place, of in enumerate(every)})[0]
        return f"{every[0].verdict if beyond else 'not told apart'} (Holm's procedure over {len(every)} rows)"

    def comparisons(self, args: str) -> str:
        """Return a table with a line for each couple of rows."""
        table, pairs = _asked("comparisons", args)
        noted = any(note for *_, note in pairs)
        heads = ["A", "B", "A - B", "95 % interval", "A is", *(["Note"] if noted else [])]
        lines = [heads, [":--", ":--", "--:", "--:", ":--", *([":--"] if noted else [])]]
        for a, b, note in pairs:
            of = self.difference(table, a, b)
            cells = [f"`{a}`", f"`{b}`", f"{of.value:+.2f}", f"{of.low:+.2f} to {of.high:+.2f}", of.verdict]
            lines.append([*cells, *([note] if noted else [])])
        return "\n".join(map(markdown_row, lines))


def _asked(kind: str, args: str) -> tuple[Table, list[tuple[str, str, str]]]:
    """Return the table that a mark names, and its couples of rows with their notes."""
    if kind in ("compare", "within"):
        folder, tasks, a, b, *margin = args.split()
        return table_of(folder, tasks), [(a, b, "".join(margin))]
    if kind == "corrected":
        folder, tasks, base, *names = args.split()
        return table_of(folder, tasks), [(name, base, "") for name in names]
    first, *lines = args.strip().splitlines()
    folder, tasks = first.split()
    pairs = []
    for line in lines:
        rows, _, note = line.partition(" |")
        a, b = re.findall(r"\S+(?: \[[^]]+\])?", rows)
        pairs.append((a, b, note.strip()))
    return table_of(folder, tasks), pairs


@functools.cache
def _records(folder: str) -> tuple[Records, list[Record]]:
    store = Records(ROOT / "leaderboards" / folder)
    return store, read_records(store)


def _row(table: Table, name: str) -> dict[str, list[Record]]:
    folder, tasks = table
    store, records = _records(folder)
    of_row = row_named(records, name, store.folder, tasks)
    return {task: of_task(of_row, task, store) for task in tasks}


def _compared(table: Table, names: Sequence[str]) -> tuple[list[str], Differences]:
    places, sample, damaged = compared([_row(table, name) for name in names], _records(table[0])[0], table[1])
    if sample is None or len(places) < len(names):
        reasons = damaged or {i: ["other data"] for i in range(len(names)) if i not in places}
        raise ValueError(f"{table[0]}: {', '.join(f'{names[i]}: {of[0]}' for i, of in reasons.items())}")
    return [*names], differences(sample)


def first(args: str) -> str:
    """Return the verdict on two rows by the first of their seeds: folder, tasks, A, B, number of seeds."""
    folder, tasks, a, b, seeds = args.split()
    table = table_of(folder, tasks)
    rows = [
        {task: [r for r in of_task if (r["seed"] or 0) < int(seeds)] for task, of_task in _row(table, name).items()}
        for name in (a, b)
    ]
    _, sample, _ = compared(rows, _records(folder)[0], table[1])
    if sample is None:
        raise ValueError(f"{folder}: {a} and {b} have no comparison.")
    of = differences(sample)
    return Difference(a, b, *(float(part[0, 1]) for part in (of.value, of.low, of.high, of.p))).words()


def needed(args: str) -> str:
    """How many seeds show the measured difference of two rows in 80% of repetitions, if it is the true one."""
    folder, tasks, *names = args.split()
    (_, of_suite), (store, records) = table_of(folder, tasks), _records(folder)
    a, b = (row_named(records, name, store.folder, of_suite) for name in names)
    average = compare("", of_suite, a, b, store).average
    if average is None or not average.needed:
        raise ValueError(f"{folder}: {names} are told apart, or of one task: no number of seeds.")
    return average.needed


def mean(args: str) -> str:
    """Return a row's mean over tasks, with the standard deviation over its seeds."""
    folder, tasks, name = args.split()
    table = table_of(folder, tasks)
    scores = [*by_seed(_row(table, name), table[1]).values()]
    spread = f" ± {np.std(scores, ddof=1):.2f}" if len(scores) > 1 else ""
    return f"{np.mean(scores):.2f}{spread}"
