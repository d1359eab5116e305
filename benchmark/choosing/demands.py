"""What a user demands of the winner: a budget, least values of measures, and to be better than a baseline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmark.choosing.data import MEASURES, Kind
from zoo.errors import UsageError, did_you_mean

_OF_KIND: dict[Kind, tuple[str, ...]] = {
    "score": (),
    "binary": ("accuracy", "recall_at_precision"),
    "retrieval": ("recall_at_1", "recall_at_10", "mrr_at_10", "recall_at_precision"),
    "label": ("accuracy_without_them",),
}


@dataclass(frozen=True)
class Budget:
    """The most MB of weights, and the most milliseconds of a query (95th percentile); None: any."""

    mb: float | None = None
    ms: float | None = None

    def exceeded(self, row: dict[str, Any]) -> str:
        """Return why a row is over the budget, in words; empty where it is not. What is not known is over it."""
        parts = []
        for option, most, value, unit in (
            ("--max-mb", self.mb, row["weights_mb"], "MB"),
            ("--max-ms", self.ms, row["ms_p95"], "ms"),
        ):
            if most is not None and not value <= most:
                shown = f"{value:,.3g} {unit}" if value == value else f"unknown {unit}"
                parts.append(f"{option} {most:g}: {shown}")
        return ", ".join(parts)


@dataclass(frozen=True)
class Floor:
    """The least value of a measure that the winner must have."""

    metric: str
    least: float


def read_floors(given: Sequence[str], kind: Kind) -> list[Floor]:
    """Return the floors of texts METRIC=VALUE; raises UsageError for a measure that a table of this kind has not."""
    known = {_plain(MEASURES[kind]): "score", "score": "score", **{_plain(name): name for name in _OF_KIND[kind]}}
    floors = []
    for text in given:
        name, _, value = text.rpartition("=")
        try:
            least = float(value)
        except ValueError:
            raise UsageError(f"--floor {text!r}: give METRIC=VALUE, such as {MEASURES[kind]}=70.") from None
        if _plain(name) not in known:
            names = [MEASURES[kind], *(one.replace("_at_1", "@1") for one in _OF_KIND[kind])]
            raise UsageError(
                f"--floor {text!r}: there is no {name!r} here.{did_you_mean(name, names)}"
                f" There are: {', '.join(names)}."
            )
        floors.append(Floor(known[_plain(name)], least))
    return floors


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().replace("_at_", ""))
