"""The pairs on a method's page: hard ones by length difference, and those that the method ranks worst."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmark.analysis.pairs import EASY, HARD, Hard, Part, cells, hard_parts, hard_text
from benchmark.analysis.worst import worst_pairs
from benchmark.records.folder import Records
from benchmark.records.query import PairTexts, label, row_scores
from benchmark.records.record import Record
from zoo.errors import MissingError, ZooError

_WORST = 3  # of each task
_HARD_HEADER = ("Task", "Hard", "Spearman", "Bias", "Easy", "Spearman", "Bias")
_WORST_HEADER = ("Task", "Row", "Gold", "Gold place", "Place", "Off by")


def pairs_of_row(
    records: Sequence[Record], tasks: Sequence[str], store: Records, texts: PairTexts, show_texts: bool
) -> dict[str, Any]:
    """Return the tables of one row: hard and easy pairs if the data is available, and the worst pairs of every task."""
    kept_of = {r["task"]["name"] for r in records if r.get("pairs")}
    hard = Hard()
    hard_lines: list[list[str]] = []
    worst: list[dict[str, Any]] = []
    gaps: dict[str, list[str]] = {}  # what is missing and why -> the tasks concerned
    for task in (name for name in dict.fromkeys(tasks) if name in kept_of):
        try:
            kept = row_scores(label(records), records, task, store)
        except ZooError as error:
            gaps.setdefault(f"pair scores: {error}", []).append(task)
            continue
        pairs = None
        try:
            pairs = texts.of(kept.record)
        except ZooError as error:
            # "STS12 (tokenised): not under ...": without the name, many tasks have the same reason.
            reason = str(error).partition(": ")[2] if isinstance(error, MissingError) else str(error)
            gaps.setdefault(f"texts and hard pairs: {reason}", []).append(task)
        else:
            parts = hard_parts(kept, pairs, hard)
            if parts[HARD].spearman is None:
                gaps.setdefault(f"hard pairs: {parts[HARD].reason}", []).append(task)
            else:
                hard_lines.append([task, *_numbers(parts[HARD]), *_numbers(parts[EASY])])
        for line in worst_pairs(kept, _WORST):
            i = line["Row"] - 1
            numbers = [f"{line['Gold']:g}", *(f"{line[name]:.1f}" for name in ("Gold place", "Place", "Off by"))]
            of_pair = [] if pairs is None or not show_texts else [pairs.first[i], pairs.second[i]]
            worst.append({"cells": [task, f"{line['Row']:,}", *numbers], "texts": of_pair})
    missing = [f"{', '.join(names)}: {reason}" for reason, names in gaps.items()]
    return {
        "hard_header": _HARD_HEADER,
        "hard": hard_lines,
        "hard_note": hard_text(hard),
        "worst_header": _WORST_HEADER,
        "worst": worst,
        "gaps": missing,
    }


def _numbers(one: Part) -> list[str]:
    values = cells(one)
    score, bias = ("n/a" if values[name] is None else f"{values[name]:.2f}" for name in ("Spearman", "Rank bias"))
    spread = "" if values["SD"] is None else f" ± {values['SD']:.2f}"
    return [f"{one.pairs:,}", score + spread, bias]
