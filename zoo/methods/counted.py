"""Base class of methods without a transformer: distinct texts are encoded once and counted."""

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
from zoo.recipes import build

CountedT = TypeVar("CountedT", bound=AnyRecipe, default=Any)


class CountedEncoder(Encoder[CountedT]):
    unstated = ("sources", "parameters")

    def __init__(self, recipe: CountedT, runtime: Runtime) -> None:
        super().__init__(recipe, runtime)
        self.stats = EncodingStats()

    @abstractmethod
    def vectors_of(self, texts: list[str]) -> Vectors: ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        return encode_unique(texts, self._counted)

    def _counted(self, texts: list[str]) -> Vectors:
        started = time.perf_counter()
        vectors = self.vectors_of(texts)
        self.stats.texts += len(texts)
        self.stats.seconds += time.perf_counter() - started
        return vectors

    def encoding_stats(self) -> dict[str, Any]:
        return self.stats.as_dict()

    def places(self) -> dict[str, Any]:
        return {}

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "recipe.json", {**asdict(self.recipe), **self.places()})

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        recipe = build(cls.Recipe, read_json(folder / "recipe.json"), str(folder / "recipe.json"))
        return cls(recipe, runtime or Runtime())
