"""A worked plugin in one file: a method (hashed character trigrams) and a task (opposites are not synonyms).

Use it without installing:   zoo-bench run --plugin zoo_bench_trigrams.py --methods trigrams
or install it once:          pip install ./examples/zoo-bench-trigrams && zoo-bench run --methods trigrams,avg-last
To begin a file of your own: zoo-bench new method NAME, or zoo-bench new task NAME
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmark.data.readers.pairs import Pairs
from benchmark.data.sources import DataSource, Located
from benchmark.tasks import register_task
from benchmark.tasks.base import PairsData, Task
from zoo import Encoder, Runtime, Traits, register_method
from zoo.encoder import Vectors
from zoo.files import sha256_json


@dataclass(frozen=True, kw_only=True)
class TrigramsRecipe:
    """Every field can be set on the command line: --methods trigrams:buckets=4096."""

    buckets: int = 1024
    lower_case: bool = True


@register_method("trigrams")
class Trigrams(Encoder[TrigramsRecipe]):
    """Counts of character trigrams hashed into buckets: a control that every learned method should beat."""

    def __init__(self, recipe: TrigramsRecipe, runtime: Runtime) -> None:
        super().__init__(recipe, runtime)
        self.dim = recipe.buckets + 1

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return counts (n, buckets + 1) float32; the last column is 1, so that no vector is zero."""
        vectors = np.zeros((len(texts), self.dim), np.float32)
        vectors[:, -1] = 1.0
        for row, text in zip(vectors, texts, strict=True):
            padded = f" {' '.join((text.lower() if self.recipe.lower_case else text).split())} "
            for start in range(len(padded) - 2):
                digest = hashlib.sha256(padded[start : start + 3].encode("utf-8", "surrogatepass")).digest()
                row[int.from_bytes(digest[:8], "little") % self.recipe.buckets] += 1.0
        return vectors

    @classmethod
    def traits(cls, recipe: TrigramsRecipe) -> Traits:
        """It computes in float32 whatever the run asks for; what states no precision shows as "not stated"."""
        return Traits(precision="fp32")

    @classmethod
    def sources(cls, recipe: TrigramsRecipe, runtime: Runtime) -> dict[str, Any]:
        """It reads no files; a method with weights of its own names them here, with their sha256."""
        return {}

    def parameters(self) -> int:
        """Nothing is learned."""
        return 0


PAIRS = [
    (1.0, "The shop is open.", "The shop is closed."),
    (1.0, "He arrived early.", "He arrived late."),
    (1.0, "She won the match.", "She lost the match."),
    (5.0, "The shop is open.", "The store is not shut."),
    (5.0, "He arrived early.", "He came ahead of time."),
    (5.0, "She won the match.", "The game was hers."),
]


@register_task("opposites")
class Opposites(Task):
    """Six pairs in which the words mislead; run it with --tasks opposites."""

    title = "Plugin: opposites"
    dataset = "opposites"

    def load(self, data: DataSource, limit: int | None = None) -> PairsData:
        """Build the rows; a real task would read files it finds and checks through `data`."""
        gold, first, second = zip(*PAIRS, strict=True)
        return PairsData(_here(), {"test": Pairs(list(first), list(second), np.array(gold))}, limit=limit)


def _here() -> Located:
    from benchmark.data.catalog import Dataset

    entry: Any = Dataset("opposites", "Opposites", licence="Apache-2.0")
    return Located(entry, "plain", "bundled", {}, sha256_json(PAIRS))
