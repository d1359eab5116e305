"""The data of a table: rows of values with their conditions."""

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
    among_best: bool | None = None  # may truly be the best; None: not compared, because pair scores are missing
    mark: str = ""  # "≈" if this row is one of several that may truly be the best
    means: dict[str, Value] = field(default_factory=dict)  # means of some tasks, by their names in the suite
    recipe: str = ""  # the recipe of a row with a label (--label); "": the name states it
    untrained: bool = False  # a backbone's own states, pooled, and nothing else
    method: str = ""  # the name in the records, where `name` is a shorter one (see `printed_names`)

    @property
    def identity(self) -> str:
        """The name in the records, which together with the key identifies a row."""
        return self.method or self.name

    def place(self) -> str:
        """Return the printed rank: "3", "≈3" for a row that may truly be the best, "" without a rank."""
        return self.mark + str(self.rank or "")


@dataclass
class Table:
    """One suite's rows, ranked by average; incomplete rows come last, unranked."""

    suite: Suite
    rows: list[Row]
    commands: list[str]
    partial: bool = False  # trial run (--limit)
    legend: str = ""  # the meaning of the mark "≈"; "" if no row has it
    aggregation: Aggregation = "all"

    @property
    def stem(self) -> str:
        """The name of the table's files without their suffixes."""
        return self.suite.name + ("-trial" if self.partial else "")

    @property
    def columns(self) -> tuple[str, ...]:
        """The tasks' columns, then the means of some of them."""
        return (*self.suite.columns, *self.suite.means)

    def cells(self, row: Row) -> list[Value]:
        """Return a row's values in the order of `columns`."""
        return [*(row.values[task] for task in self.suite.tasks), *(row.means[name] for name in self.suite.means)]

    def averages(self, row: Row) -> list[Value]:
        """Return a row's average as a list of one, for the last column; [] in a table that has no such column."""
        return [row.average] if self.suite.average else []

    @property
    def seeds(self) -> bool:
        """Whether any row has a lowest and a highest average over seeds."""
        return any(row.average.min is not None for row in self.rows)
