"""Makes `benchmark/stats/floors.json`: `python -m tools.floors`, when rows of other backbones were measured.

The least noise of seeds that a row is taken to have is fixed there, so that a row that is added moves no interval.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmark.records.folder import Records
from benchmark.records.record import Record
from benchmark.report.table import read_completed
from benchmark.stats.draws import by_seed, finished
from benchmark.tasks.suites import all_suites
from zoo.files import write_json

FOLDERS = ("zoo-mini", "zoo-small", "zoo-small-tuned", "zoo-small-curve")
_ROWS = 5  # of several seeds: the median of fewer says little


def least_deviation(by_row: Sequence[Sequence[float] | NDArray[np.float64]]) -> float:
    """Return half the median standard deviation over the seeds of rows; 0 where fewer than five have several."""
    spreads = [float(np.std(scores, ddof=1)) for scores in by_row if len(scores) > 1]
    return float(np.median(spreads)) / 2 if len(spreads) >= _ROWS else 0.0


def floors(folders: Sequence[Path]) -> dict[str, dict[str, float]]:
    """Return half the median spread by backbone, and by suite and task."""
    rows: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for folder in folders:
        for record in read_completed(Records(folder)):
            if backbone := record["method"]["sources"].get("backbone", {}).get("name"):
                rows[backbone, record["method"]["name"], record["row_key"]].append(record)
    wanted = {name: of_suite.tasks for name, of_suite in all_suites().items()}
    wanted |= {record["task"]["name"]: (record["task"]["name"],) for records in rows.values() for record in records}
    spreads: dict[str, dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    for (backbone, *_), records in rows.items():
        for name, tasks in wanted.items():
            if len(of_tasks := finished(records, tasks)) == len(tasks):
                spreads[backbone][name].append([*by_seed(of_tasks, tasks).values()])
    stated = {
        backbone: {name: value for name, scores in sorted(of.items()) if (value := round(least_deviation(scores), 4))}
        for backbone, of in sorted(spreads.items())
    }
    return {backbone: of for backbone, of in stated.items() if of}


if __name__ == "__main__":
    root = Path(__file__).parents[1]
    write_json(root / "benchmark" / "stats" / "floors.json", floors([root / "leaderboards" / name for name in FOLDERS]))
