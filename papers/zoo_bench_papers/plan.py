"""What a folder lacks for the papers' claims, as runs: each row once, in the order of claims decided per minute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmark.run.options import RunOptions
from benchmark.tasks import TASKS
from zoo.files import write_text
from zoo.progress import clock, counted
from zoo_bench_papers.claim_rows import SEEDS, Condition
from zoo_bench_papers.verdicts import Verdict

# Rows without layers have no estimate, and stand behind the others.
_UNKNOWN_SECONDS = 30.0


@dataclass(frozen=True)
class PlannedRow:
    """A row with the tasks that it lacks; `options` are those of `zoo-bench run` beside methods and tasks."""

    name: str
    tasks: tuple[str, ...]
    options: tuple[tuple[str, Any], ...]

    @property
    def kind(self) -> tuple[object, ...]:
        """Rows of one kind are measured by one command."""
        return self.tasks, self.options


@dataclass(frozen=True)
class Step:
    """Rows of one kind, and the claims that have all their rows after it; `seconds` is None where nothing tells."""

    rows: tuple[PlannedRow, ...]
    seconds: float | None
    claims: tuple[str, ...]

    def options(self) -> dict[str, Any]:
        return _run_options(self.rows)


@dataclass
class Plan:
    """The steps in their order, and the rows that cannot be run here, each with its reason and its claims."""

    steps: list[Step] = field(default_factory=list)
    impossible: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    # Commands of claims about properties, which no run measures.
    analyses: dict[str, list[str]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return sum(step.seconds or 0.0 for step in self.steps)

    @property
    def claims(self) -> list[str]:
        return [name for step in self.steps for name in step.claims]

    def lines(self, path: Path) -> list[str]:
        """Return the plan as text: a line for each step with the claims so far and the time so far."""
        lines, claims, seconds = list[str](), 0, 0.0
        for number, step in enumerate(self.steps, 1):
            claims, seconds = claims + len(step.claims), seconds + (step.seconds or 0.0)
            takes = "no estimate" if step.seconds is None else clock(step.seconds)
            again = ", measured again for their scores of items" if dict(step.rows[0].options).get("remeasure") else ""
            tasks = step.rows[0].tasks
            on = ", ".join(tasks[:4]) + (f" and {len(tasks) - 4} more" if len(tasks) > 4 else "")
            lines.append(f"{number:>3}. {takes:>11}  {counted(len(step.rows), 'row')} on {on}{again}")
            lines.append(f"     {', '.join(row.name for row in step.rows)}")
            lines.append(f"     then {counted(claims, 'claim')} after {clock(seconds)}")
        for name, (reason, of_row) in self.impossible.items():
            lines.append(f"not here: {name}, for {counted(len(of_row), 'claim')}: {reason}")
        for command, names in self.analyses.items():
            lines.append(f"of no row: {', '.join(names)}: {command}")
        if self.steps:
            lines.append(f"{counted(claims, 'claim')} in about {clock(seconds)} of one process: zoo-bench run {path}")
        else:
            lines.append("no row is lacking that can be measured here.")
        return lines

    def as_values(self) -> dict[str, Any]:
        steps = [{**step.options(), "seconds": step.seconds, "claims": step.claims} for step in self.steps]
        return {"steps": steps, "impossible": self.impossible, "analyses": self.analyses}

    def write(self, path: Path) -> None:
        """Write the run file, whose runs are the steps."""
        runs = [step.options() for step in self.steps]
        shared = {key: value for key, value in runs[0].items() if all(run.get(key) == value for run in runs)}
        only = [{key: value for key, value in run.items() if key not in shared} for run in runs]
        about = f"rows for {counted(len(self.claims), 'claim')}, in the order of claims decided per minute"
        plain = {key: str(value) if key == "results" else value for key, value in shared.items()}
        content = {"about": about, **plain, "runs": only}
        write_text(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120))


Costs = dict[PlannedRow, tuple[float | None, str]]
"""Seconds of rows on this machine, by the estimate of `zoo-bench run`, and why a row cannot be run."""


def make_plan(verdicts: Sequence[Verdict], labelled: Mapping[str, object], more: Mapping[str, Any]) -> Plan:
    """Order the rows that claims lack: next are the rows with the most claims decided for each second.

    Args:
        verdicts: All verdicts of a folder.
        labelled: The options of labelled pairs, for rows that learn from them.
        more: Further options of `zoo-bench run`, such as the data folder.
    """
    of_claims = lacking_rows(verdicts, labelled, more)
    # What failed is not run again by itself.
    failed = {lacks.row: lacks.failed for verdict in verdicts for lacks in verdict.lacking if lacks.failed}
    every = dict.fromkeys(row for rows in of_claims.values() for row in rows)
    costs = costs_of(row for row in every if row.name not in failed)
    costs |= {row: (None, failed[row.name]) for row in every if row.name in failed}
    plan = Plan()
    for row, (_, reason) in costs.items():
        if reason:
            _, names = plan.impossible.get(row.name, ("", ()))
            more_names = (name for name, rows in of_claims.items() if row in rows and name not in names)
            plan.impossible[row.name] = reason, (*names, *more_names)
    waiting = {name: rows for name, rows in of_claims.items() if not any(costs[row][1] for row in rows)}
    done = set[PlannedRow]()

    def worth(rows: Sequence[PlannedRow]) -> tuple[bool, float]:
        """Whether the seconds of a claim's rows are known, and the claims decided for each of them."""
        seconds = [costs[row][0] for row in rows if row not in done]
        decided = sum(done.union(rows).issuperset(others) for others in waiting.values())
        return None not in seconds, decided / (1.0 + sum(second or _UNKNOWN_SECONDS for second in seconds))

    while waiting:
        new = [row for row in max(waiting.values(), key=worth) if row not in done]
        done |= set(new)
        decided = tuple(name for name, rows in waiting.items() if done.issuperset(rows))
        waiting = {name: rows for name, rows in waiting.items() if name not in decided}
        _append(plan.steps, new, costs, decided)
    for verdict in verdicts:
        if verdict.claim.kind == "property" and not verdict.measured and verdict.command:
            plan.analyses.setdefault(verdict.command, []).append(verdict.claim.id)
    return plan


def lacking_rows(
    verdicts: Sequence[Verdict], labelled: Mapping[str, object], more: Mapping[str, Any]
) -> dict[str, list[PlannedRow]]:
    """Return, by claim, the rows that it lacks; each has all the tasks that any claim lacks of it."""
    asked: dict[tuple[Condition, str, bool], dict[str, None]] = {}
    for verdict in verdicts:
        for lacks in verdict.lacking:
            asked.setdefault((verdict.at, lacks.row, lacks.again), {}).update(dict.fromkeys(lacks.tasks))
    rows = {}
    for (at, name, again), tasks in asked.items():
        options: dict[str, Any] = {**at.options(labelled if _needs_pairs(name) else {}), **more}
        options |= {"seeds": SEEDS, "controls": False, **({"remeasure": True} if again else {})}
        in_order = tuple(task for task in TASKS.names() if task in tasks)
        rows[at, name, again] = PlannedRow(name, in_order, tuple(options.items()))
    of_claims: dict[str, list[PlannedRow]] = {}
    for verdict in verdicts:
        for lacks in verdict.lacking:
            row, known = rows[verdict.at, lacks.row, lacks.again], of_claims.setdefault(verdict.named, [])
            known += [] if row in known else [row]
    return of_claims


def costs_of(rows: Iterable[PlannedRow]) -> Costs:
    """Estimate rows; those of one kind are planned together, and a training text is read once."""
    costs: Costs = {}
    texts: dict[object, dict[str, Any]] = {}
    for several in _by_kind(rows):
        costs |= _estimated(several, texts.setdefault(several[0].options, {}))
    return costs


def _estimated(rows: Sequence[PlannedRow], texts: dict[str, Any]) -> Costs:
    """Return the costs of rows of one kind; `texts` are the training texts that were read, by kind, and gets more."""
    from benchmark.run.estimate import timed, weights_of
    from benchmark.run.plan import Request
    from benchmark.run.prepare import planned
    from benchmark.run.rows import asked_rows
    from zoo.errors import MissingError, UsageError
    from zoo.progress import Progress

    asked = RunOptions(**_run_options(rows), allow_missing=True)
    try:
        run = timed(planned(Request(asked, progress=Progress.silent(), texts=texts), write=False), 1)
    except (MissingError, UsageError) as error:
        if len(rows) == 1:
            return {rows[0]: (None, str(error))}
        return {row: cost for single in rows for row, cost in _estimated([single], texts).items()}
    # The texts of the tasks are others with other tasks.
    texts |= {kind: text for kind, text in run.texts.items() if kind != "target"}
    absent = [task.reason or "no data" for task in run.tasks if task.data is None]
    costs: Costs = {}
    # Rows of a plan keep the order of their names, with settings spelled as they are used.
    names = list(dict.fromkeys(row.name for row in asked_rows(asked, ()).recipes))
    for row, name in zip(rows, names, strict=True):
        of_row = [plan for plan in run.encoders if plan.row.name == name]
        reasons = [reason for plan in of_row if (reason := plan.inputs.missing or plan.inputs.failed)]
        seconds = [run.seconds[plan.inputs.row_key] for plan in of_row if weights_of(plan)]
        costs[row] = sum(seconds) if seconds else None, next(iter([*reasons, *absent]), "")
    return costs


def _run_options(rows: Sequence[PlannedRow]) -> dict[str, Any]:
    first = rows[0]
    named = {"methods": ",".join(row.name for row in rows), "tasks": ",".join(first.tasks)}
    return {**named, **dict(first.options)}


def _needs_pairs(name: str) -> bool:
    from benchmark.run.rows import resolve_methods
    from zoo.recipes import all_recipes
    from zoo.selection import parse_methods

    return any(row.traits.needs_pairs for row in resolve_methods(parse_methods(name, all_recipes()), {}))


def _append(steps: list[Step], rows: Sequence[PlannedRow], costs: Costs, decided: tuple[str, ...]) -> None:
    """Append rows as steps, a step for all rows of one kind; rows of the last step's kind join it."""
    groups = _by_kind(rows)
    for number, several in enumerate(groups):
        claims = decided if number == len(groups) - 1 else ()
        before: tuple[PlannedRow, ...] = ()
        if steps and steps[-1].rows[0].kind == several[0].kind:
            last = steps.pop()
            before, claims = last.rows, (*last.claims, *claims)
        together = (*before, *several)
        known = [second for row in together if (second := costs[row][0]) is not None]
        steps.append(Step(together, sum(known) if known else None, claims))


def _by_kind(rows: Iterable[PlannedRow]) -> list[list[PlannedRow]]:
    groups: dict[tuple[object, ...], list[PlannedRow]] = {}
    for row in dict.fromkeys(rows):
        groups.setdefault(row.kind, []).append(row)
    return list(groups.values())
