"""What a table is: rows of values under named conditions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from benchmark.leaderboard.values import Value
from benchmark.tasks.suites import Suite

Aggregation = Literal["all", "mean", "wmean"]


@dataclass
class Row:
    """One method under one set of conditions."""

    name: str  # as it is printed, unique in its table
    row_key: str
    values: dict[str, Value]  # by task
    average: Value
    about: dict[str, Any]
    rank: int | None = None
    notes: list[str] = field(default_factory=list)
    among_best: bool | None = None  # not told apart from the best; None: not compared, for want of pair scores
    mark: str = ""  # "≈" where several rows are not told apart from the best, and this is one of them
    means: dict[str, Value] = field(default_factory=dict)  # by the suite's names for means of some of its tasks
    recipe: str = ""  # what is measured under a label (--label); "": the name says it
    untrained: bool = False  # a backbone's own states, pooled, and nothing else
    method: str = ""  # the name in the records, where `name` is a shorter one (see `printed_names`)

    @property
    def identity(self) -> str:
        """The name in the records, by which a row is known with its key."""
        return self.method or self.name

    def place(self) -> str:
        """Return "3", or "≈3" for a row that is not told apart from the best; "" without a rank."""
        return self.mark + str(self.rank or "")


@dataclass
class Table:
    """One suite's rows, ranked by average; incomplete rows come last, unranked."""

    suite: Suite
    rows: list[Row]
    commands: list[str]
    partial: bool = False  # trial run (--limit)
    legend: str = ""  # what the mark of rows not told apart from the best means; "" where none has it
    aggregation: Aggregation = "all"

    @property
    def stem(self) -> str:
        """The name of its files without their ends."""
        return self.suite.name + ("-trial" if self.partial else "")

    @property
    def columns(self) -> tuple[str, ...]:
        """The tasks' columns, then the means of some of them."""
        return (*self.suite.columns, *self.suite.means)

    def cells(self, row: Row) -> list[Value]:
        """Return a row's values in the order of `columns`."""
        return [*(row.values[task] for task in self.suite.tasks), *(row.means[name] for name in self.suite.means)]

    @property
    def seeds(self) -> bool:
        """Whether any row has a least and a largest average over seeds."""
        return any(row.average.min is not None for row in self.rows)
