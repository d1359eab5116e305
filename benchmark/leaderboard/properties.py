"""Claims about properties, by kept results of analyses (RESULTS/analyses/*.json) and the rule that the claim states."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmark.leaderboard.claims import Claim
from benchmark.leaderboard.published import plain_backbone
from zoo.errors import CorruptError
from zoo.files import read_mapping

_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class Analyses:
    """The kept results of analyses in a results folder."""

    def __init__(self, results: Path) -> None:
        self.tables: dict[str, list[dict[str, Any]]] = {}
        for path in sorted((results / "analyses").glob("*.json")):
            for stem, table in read_mapping(path).get("tables", {}).items():
                self.tables.setdefault(stem, []).extend(table.get("rows", ()))

    def margins(self, claim: Claim, backbone: str) -> list[tuple[str, float]]:
        """Return for each part of a claim's rule what was measured, and by how much it holds (below 0: it does not).

        Empty unless every value of the rule was measured on this backbone.
        """
        parts = list(self._parts(claim.rule, backbone))
        return parts if len(parts) == len(claim.rule) else []

    def _parts(self, rule: Sequence[Sequence[str]], backbone: str) -> Iterator[tuple[str, float]]:
        for table, column, lower, higher in rule:
            columns = column.split(" < ")  # two where they are compared
            low, high = (
                float(one) if _NUMBER.fullmatch(one) else self._value(table, name, one, backbone)
                for one, name in ((lower, columns[0]), (higher, columns[-1]))
            )
            if low is not None and high is not None:
                sign = "<" if low < high else "≥"
                yield f"{column}: {_side(lower, low)} {sign} {_side(higher, high)}", high - low

    def _value(self, table: str, column: str, row: str, backbone: str) -> float | None:
        """Return the value of the row whose cells are as named (NAME=TEXT, joined by commas); None without it."""
        wanted = dict(part.split("=", 1) for part in row.split(","))
        rows = [
            one
            for one in self.tables.get(table, ())
            if plain_backbone(str(one.get("Backbone", backbone))) == plain_backbone(backbone)
            and all(str(one.get(name)) == text for name, text in wanted.items())
        ]
        if not rows:
            return None
        if len({one.get(column) for one in rows}) > 1 or column not in rows[0]:
            raise CorruptError(f"analyses: table {table} has not one {column!r} of {row} on {backbone}.")
        value: float | None = rows[0][column]
        return value


def _side(stated: str, value: float) -> str:
    """Return "1.06 (1-100)", the value and its row's own names, or the stated number."""
    names = ", ".join(part.split("=", 1)[1] for part in stated.split(",") if "=" in part)
    return f"{value:.4g} ({names})" if names else stated
