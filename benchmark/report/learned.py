"""What a run showed, in a few sentences: its rows against the untrained vectors they start from and the best control.

Controls here are the rows that every method should be compared with: `random`, `bag-of-words`, and a backbone's states
that are only pooled. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from benchmark.records.folder import Records
from benchmark.report.conditions import role
from benchmark.report.rows import Row, Table
from benchmark.stats.draws import compared, finished
from benchmark.stats.mcb import Differences, differences
from zoo.errors import ContractError

_NAMED = 5  # rows that have a sentence; the others are counted
_INTERVALS = "In parentheses: the 95% interval of each difference by itself, with the noise of pairs and of seeds."
_NONE = "Without an interval: a row of one seed (run --seeds 3), or scores of which no pairs are kept."


def learned(
    table: Table, store: Records, keys: Collection[str], starts: Mapping[str, str | None]
) -> tuple[str, tuple[str, str] | None]:
    """Return sentences on the rows of a run (`keys`: their row keys), and two rows to compare task by task.

    `starts` has, by row key, the key of the untrained vectors that a row starts from. Scores are compared on the tasks
    for which all rows of the run have pair scores; if there is none, averages are given without an interval.
    """
    made = [row for row in table.rows if row.row_key in keys]
    ours = [row for row in made if not role(row)] or made
    by_key = {row.row_key: row for row in reversed(table.rows)}
    begun = {row.name: by_key[key] for row in ours if (key := starts.get(row.row_key)) in by_key}
    controls = [row for row in table.rows if role(row) and row not in ours]
    tasks, places, found, values = _compared(table, ours, [*controls, *begun.values()], store)
    if not tasks:
        values = {row.name: row.average.mean for row in [*ours, *controls, *begun.values()] if row.average.mean}

    def best_first(rows: Sequence[Row]) -> list[str]:
        return sorted((row.name for row in rows if row.name in values), key=lambda name: -values[name])

    def against(name: str, other: str) -> str:
        gap = f"{values[name] - values[other]:+.1f}"
        if found is None or not np.isfinite(found.low[at := (places[name], places[other])]):
            return f"{gap} against {other}"
        return f"{gap} ({found.low[at]:+.1f} to {found.high[at]:+.1f}) against {other}"

    best, control = best_first(ours), next(iter(best_first(controls)), None)
    if not best:
        return "No row of this run has a score on all tasks, so that nothing is compared.", None
    said = [f"{_on(table, tasks)}, {best[0]} has {values[best[0]]:.1f}."]
    if control is not None:
        said = [f"{said[0][:-1]}; the best control, {control}, has {values[control]:.1f}."]
    for name in best[:_NAMED]:
        start = begun[name].name if name in begun and begun[name].name in values else None
        parts = [f"{against(name, start)}, which it starts from"] if start else []
        parts += [against(name, control)] if control not in (None, start) else []
        said += [f"{name}: {'; '.join(parts)}."] if parts else []
    said += [f"{len(best) - _NAMED} more rows are in the table."] if len(best) > _NAMED else []
    text = " ".join(said)
    said += [_INTERVALS] if " to " in text else []
    said += [_NONE] if " against " in text.replace(") against ", "") else []
    others = [begun[best[0]].name] if best[0] in begun else [*best[1:2], *filter(None, [control])]
    return " ".join(said), (best[0], others[0]) if tasks and others else None


def _compared(
    table: Table, ours: Sequence[Row], others: Sequence[Row], store: Records
) -> tuple[tuple[str, ...], dict[str, int], Differences | None, dict[str, float]]:
    """Return the tasks of which all of a run's scored rows keep pairs, the places of rows, differences and values."""
    trial = table.partial

    def whole(row: Row, task: str) -> bool:
        mine = finished(row.records, [task], trial=trial).get(task, [])
        return len(mine) == len({r["seed"] for r in row.records}) and all(map(store.has_items, mine))

    scored = [row for row in ours if any(whole(row, task) for task in table.suite.tasks)]
    tasks = tuple(task for task in table.suite.tasks if scored and all(whole(row, task) for row in scored))
    by_name = {row.name: row for row in [*scored, *others]}
    named = [name for name, row in by_name.items() if tasks and all(whole(row, task) for task in tasks)]
    if not named:
        return (), {}, None, {}
    every = [finished(by_name[name].records, tasks, trial=trial) for name in named]
    try:
        folder = (finished(row.records, tasks, trial=trial) for row in table.rows)
        kept, one, _ = compared(every, store, tasks, folder)
    except ContractError:  # there are so few pairs that no resample has a correlation
        return (), {}, None, {}
    if one is None:
        return (), {}, None, {}
    places = {named[i]: place for place, i in enumerate(kept)}
    return tasks, places, differences(one), {name: float(one.value[i]) for name, i in places.items()}


def _on(table: Table, tasks: Sequence[str]) -> str:
    names = [column for column, task in zip(table.suite.columns, table.suite.tasks, strict=True) if task in tasks]
    if not tasks or len(names) == len(table.suite.tasks) > 1:
        return "On the mean of all tasks"
    if len(names) > 4:
        return f"On the mean of {len(names)} tasks"
    return f"On {names[0]}" if len(names) == 1 else f"On the mean of {', '.join(names[:-1])} and {names[-1]}"
