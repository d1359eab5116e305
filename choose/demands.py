"""Demands on the winner (budget, floors, a baseline to beat), and costs; BM25 is the control of retrieval."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from choose.data import MEASURES, Kind
from zoo.encoder import Runtime
from zoo.errors import UsageError, did_you_mean
from zoo.limits import threads_here
from zoo.machine import cpu_name

CONTROL = "bm25 (control)"

Scores = Callable[[Sequence[str]], NDArray[np.float32]]  # queries -> (queries, documents)


# Scripts without spaces between words: Thai to Myanmar, Khmer, Japanese, Chinese.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")


def bm25(documents: Sequence[str]) -> Scores:
    """Return a scorer of all documents for queries, by bm25s with its defaults (k1 1.5, b 0.75).

    A document without a word of the query scores -inf. Words are runs of two or more letters or digits, in lower case,
    and two characters of a script without spaces; no language is assumed, so there are no stop words.
    """
    import bm25s

    def words(texts: Sequence[str]) -> list[list[str]]:
        spaced = [
            _UNSPACED.sub(lambda run: f" {' '.join(map(''.join, pairwise(run[0]))) or run[0]} ", t) for t in texts
        ]
        parts: list[list[str]] = bm25s.tokenize(spaced, stopwords=None, return_ids=False, show_progress=False)
        return parts

    index = bm25s.BM25()
    index.index(words(documents), show_progress=False)

    def scores(queries: Sequence[str]) -> NDArray[np.float32]:
        rows = [index.get_scores(query) if query else np.zeros(len(documents)) for query in words(queries)]
        every = np.asarray(rows, np.float32)
        return np.where(every > 0, every, -np.inf)

    return scores


# Texts are timed one by one; a slow encoder has fewer.
_QUERIES, _FEWEST, _SECONDS = 50, 5, 2.0


def query_times(encode: Callable[[list[str]], Any], texts: Sequence[str]) -> dict[str, float]:
    """Return the median and the 95th percentile of milliseconds for a single text."""
    # The first call is slower.
    encode([texts[0]])
    taken: list[float] = []
    began = time.perf_counter()
    for text in texts[:: max(1, len(texts) // _QUERIES)][:_QUERIES]:
        started = time.perf_counter()
        encode([text])
        taken.append(1000 * (time.perf_counter() - started))
        if len(taken) >= _FEWEST and time.perf_counter() - began > _SECONDS:
            break
    middle, most = np.quantile(taken, (0.5, 0.95))
    return {"ms_p50": float(middle), "ms_p95": float(most)}


def device_name(runtime: Runtime) -> str:
    if runtime.device.startswith("cuda"):
        import torch

        return f"{runtime.device} ({torch.cuda.get_device_name(runtime.device)}), {runtime.precision}"
    threads = threads_here()
    return f"{runtime.device} ({cpu_name()}, {threads} thread{'s' * (threads > 1)}), {runtime.precision}"


_OF_KIND: dict[Kind, tuple[str, ...]] = {
    "score": (),
    "binary": ("accuracy", "recall_at_precision"),
    "retrieval": ("recall_at_1", "recall_at_10", "mrr_at_10", "recall_at_precision"),
    "label": ("accuracy_without_them",),
}


@dataclass(frozen=True)
class Budget:
    """The most MB of weights, and the most milliseconds of a query (95th percentile)."""

    mb: float | None = None
    ms: float | None = None

    def exceeded(self, row: dict[str, Any]) -> str:
        """Unknown costs exceed the budget."""
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
    metric: str
    least: float


def read_floors(given: Sequence[str], kind: Kind) -> list[Floor]:
    """Raises UsageError for a measure foreign to this kind of table."""
    known = {_plain(MEASURES[kind]): "score", "score": "score", **{_plain(name): name for name in _OF_KIND[kind]}}
    floors = []
    for text in given:
        name, _, value = text.rpartition("=")
        try:
            least = float(value)
        except ValueError:
            raise UsageError(f"--floor {text!r}: give METRIC=VALUE, such as {MEASURES[kind]}=70.") from None
        if _plain(name) not in known:
            names = [MEASURES[kind], *(measure.replace("_at_1", "@1") for measure in _OF_KIND[kind])]
            raise UsageError(
                f"--floor {text!r}: there is no {name!r} here.{did_you_mean(name, names)}"
                f" There are: {', '.join(names)}."
            )
        floors.append(Floor(known[_plain(name)], least))
    return floors


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().replace("_at_", ""))
