"""What methods without a transformer share: distinct texts encoded once and counted, and a recipe that is kept."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from typing_extensions import TypeVar

from zoo.encoder import AnyRecipe, Encoder, Runtime, Vectors
from zoo.engine.batching import EncodingStats, encode_unique
from zoo.files import read_json, write_json
from zoo.recipe import build

CountedT = TypeVar("CountedT", bound=AnyRecipe, default=Any)


class CountedEncoder(Encoder[CountedT]):
    """An encoder whose vectors follow from its recipe; a subclass says what the vectors of distinct texts are."""

    def __init__(self, recipe: CountedT, runtime: Runtime) -> None:
        super().__init__(recipe, runtime)
        self.stats = EncodingStats()

    @abstractmethod
    def vectors_of(self, texts: list[str]) -> Vectors:
        """Return vectors (n, dim) float32 of distinct texts."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return vectors (n, dim) float32 in the order of `texts`."""
        return encode_unique(texts, self._counted)

    def _counted(self, texts: list[str]) -> Vectors:
        started = time.perf_counter()
        vectors = self.vectors_of(texts)
        self.stats.texts += len(texts)
        self.stats.seconds += time.perf_counter() - started
        return vectors

    def encoding_stats(self) -> dict[str, Any]:
        """Return what encoding cost so far."""
        return self.stats.as_dict()

    def places(self) -> dict[str, Any]:
        """Return the recipe's fields that find its files again from anywhere; the default has none."""
        return {}

    def save(self, folder: Path) -> None:
        """Write the recipe."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "recipe.json", {**asdict(self.recipe), **self.places()})

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        """Read what `save` wrote."""
        recipe = build(cls.Recipe, read_json(folder / "recipe.json"), str(folder / "recipe.json"))
        return cls(recipe, runtime or Runtime())
