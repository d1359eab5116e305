"""The pairs ranked worst by a method, or most differently by two. Imports no torch.

A place is a percentile rank: the share (0 to 100) of a task's pairs ranked below, ties counted half. Places are
comparable between predictions, gold scores and tasks, and averaged over seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmark.data.readers.pairs import Pairs
from benchmark.records.folder import Records
from benchmark.records.query import PairTexts, RowScores, row_scores
from benchmark.records.record import Record
from benchmark.stats.compare import largest
from zoo.errors import ZooError
from zoo_bench_papers.analysis.result import Analysis, AnalysisTable

_TEXTS = ("First", "Second")
_COLUMNS: dict[str, int | None] = {"Row": None, "Gold": 2, "Predicted": 3, "Gold place": 1, "Place": 1, "Off by": 1}


def worst_pairs(kept: RowScores, count: int) -> list[dict[str, Any]]:
    places = kept.places.mean(axis=0)
    off = places - kept.gold_places
    predicted = kept.predicted.mean(axis=0, dtype=np.float64)
    return [
        {
            "Row": i + 1,
            "Gold": round(float(kept.gold[i]), 6),
            "Predicted": float(predicted[i]),
            "Gold place": float(kept.gold_places[i]),
            "Place": float(places[i]),
            "Off by": float(off[i]),
        }
        for i in largest(off, count)
    ]


def _with_texts(lines: list[dict[str, Any]], pairs: Pairs) -> list[dict[str, Any]]:
    sides = (pairs.first, pairs.second)
    return [
        {**line, **{name: side[line["Row"] - 1] for name, side in zip(_TEXTS, sides, strict=True)}} for line in lines
    ]


def analyse_worst(
    rows: dict[str, list[Record]], tasks: Sequence[str], store: Records, texts: PairTexts, count: int
) -> Analysis:
    lines: list[dict[str, object]] = []
    notes: list[str] = []
    for name, records in rows.items():
        for task in tasks:
            try:
                kept = row_scores(name, records, task, store)
            except ZooError as error:
                notes.append(f"n/a: {error}")
                lines.append({"Method": name, "Task": task, **dict.fromkeys(_COLUMNS)})
                continue
            worst = worst_pairs(kept, count)
            if texts.data is not None:
                try:
                    worst = _with_texts(worst, texts.of(kept.record))
                except ZooError as error:
                    notes.append(f"no texts: {error}")
            lines += [{"Method": name, "Task": task, **line} for line in worst]
    columns: dict[str, int | None] = {"Method": None, "Task": None, **_COLUMNS}
    if any(_TEXTS[0] in line for line in lines):
        columns |= dict.fromkeys(_TEXTS)
        lines = [{**dict.fromkeys(_TEXTS), **line} for line in lines]
    about = [
        "Place: the share of the task's pairs ranked below, 0 to 100, mean over seeds. Off by: place of the prediction"
        " minus place of the gold score. Row: from 1, in the task's order (subsets one after the other, unscored pairs"
        " left out)."
    ]
    conditions = {"pairs": count, "rows": {name: records[0]["row_key"] for name, records in rows.items()}}
    table = AnalysisTable("worst", "Worst pairs", columns, lines, list(dict.fromkeys(notes)))
    return Analysis("worst", "Worst pairs", about, [table], (), conditions)
