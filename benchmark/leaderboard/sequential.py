"""Compares two rows of a run with growing numbers of seeds, until they differ significantly (benchmark.run.sequential).

A look uses the seeds of its number alone, also where the folder has more of them, so that a run that was stopped comes
to the same looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from benchmark.leaderboard.about import about
from benchmark.leaderboard.rows import Row
from benchmark.leaderboard.significance import row_differences
from benchmark.leaderboard.values import Value
from benchmark.metrics.significance import LEVEL
from benchmark.records.schema import Record
from benchmark.records.store import Records
from benchmark.run.options import RunOptions
from benchmark.run.plan import EncoderPlan, Plan
from benchmark.run.sequential import Looks, looks_of, pair_of
from zoo.errors import MissingError

_Records = dict[str, list[Record]]  # by task


@dataclass(frozen=True)
class Look:
    """A - B x100 with so many seeds, its p, and p and interval that hold for all looks together (95%)."""

    seeds: int
    difference: float
    p: float
    adjusted: float
    low: float
    high: float

    @property
    def apart(self) -> bool:
        """Whether the rows differ significantly."""
        return self.adjusted < LEVEL

    def __str__(self) -> str:
        interval = f"{self.difference:.2f} ({self.low:.2f} to {self.high:.2f})"
        return f"{interval}, p = {self.p:.2g}, adjusted for all looks {self.adjusted:.2g}"


def until_told_apart(
    options: RunOptions, plan: Plan, more: Callable[[RunOptions], Plan], say: Callable[[str], None]
) -> Iterator[Look]:
    """Give each look at the two rows that `options` names; the first look has the seeds of `plan`, which has been run.

    `more` runs the two rows with more seeds and returns the plan of the new ones. Raises MissingError without scores or
    pair scores of a row.
    """
    pair = [list(side) for side in pair_of(options, plan.encoders)]
    names = " - ".join(side[0].label for side in pair)
    have = max(len(side) for side in pair)
    looks = looks_of(options, have)
    _scored(pair, Records(options.results))  # raises before seeds are added in vain
    for number, seeds in enumerate(looks.seeds, 1):
        if seeds > have:
            new = more(replace(options, seeds=seeds, first_seed=have)).encoders
            for side in pair:
                side += [one for one in new if one.name == side[0].name]
            have = seeds
        look = _look(pair, looks, seeds, Records(options.results))
        yield look
        of = f"look {number} of at most {len(looks.seeds)}, {seeds} seeds: {names} = {look}"
        if look.apart:
            say(f"{of}: told apart with {seeds} seeds. `compare` and the tables print p without this adjustment")
            return
        say(f"{of}: not told apart{f' with {seeds} seeds' if seeds == looks.seeds[-1] else ''}")


def _look(pair: Sequence[Sequence[EncoderPlan]], looks: Looks, seeds: int, store: Records) -> Look:
    from scipy.special import stdtrit

    found, shown = _scored(pair, store), " and ".join(side[0].label for side in pair)
    rows = [
        Row(side[0].label, side[0].row_key, {}, Value(None, None, 0), about([r for of in one.values() for r in of], 1))
        for side, one in zip(pair, found, strict=True)
    ]
    compared, _, one = row_differences(list(zip(rows, found, strict=True)), store)
    if len(compared) < 2:
        notes = [note for row in rows for note in row.notes] or ["their pairs or protocols differ"]
        raise MissingError(f"{shown} cannot be compared: {notes[0]}; measure both again in another results folder.")
    value, p = 100 * float(one.value[0, 1]), float(one.p[0, 1])
    margin = 100 * float(stdtrit(one.df[0, 1], 1 - looks.level / 2) * one.error[0, 1])
    return Look(seeds, value, p, looks.adjusted(p), value - margin, value + margin)


def _scored(pair: Sequence[Sequence[EncoderPlan]], store: Records) -> list[_Records]:
    """Return both rows' records of the tasks that have pair scores; raises MissingError where there is none."""
    found = [_records(side, store) for side in pair]
    tasks = [t for t in found[0] if all(store.has_pairs(record) for of_row in found for record in of_row[t])]
    if not tasks:
        shown = " and ".join(side[0].label for side in pair)
        raise MissingError(
            f"{shown} cannot be compared: no task of the run has pair scores; add one that has, such as STS-B."
        )
    return [{task: of_row[task] for task in tasks} for of_row in found]


def _records(side: Sequence[EncoderPlan], store: Records) -> _Records:
    """Return a row's records by task, of the tasks that have data; raises MissingError where one is not finished."""
    found: _Records = {}
    for plan in side:
        for cell in plan.cells:
            record = store.finished(plan.name, cell.task.name, cell.key)
            if record is not None:
                found.setdefault(cell.task.name, []).append(record)
            elif cell.task.data is not None:
                seed = "" if plan.seed is None else f" with seed {plan.seed}"
                raise MissingError(f"{plan.label} has no score of {cell.task.name}{seed}, so no seeds are added.")
    return found
