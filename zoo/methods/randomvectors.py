"""A control: random vectors."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np

from zoo.encoder import Corpus, DevScore, FitReport, Run, Runtime, Traits, Vectors
from zoo.errors import CorruptError
from zoo.files import read_json, sha256_json, write_json
from zoo.methods.base import WIDEST, check_at_most, check_positive
from zoo.methods.counted import CountedEncoder
from zoo.plugins import method_identity, register_method


@dataclass(frozen=True, kw_only=True)
class RandomVectorsRecipe:
    # The bundled backbone's; cosines have the standard deviation 1 / sqrt(dim).
    dim: int = 256

    def __post_init__(self) -> None:
        check_positive(self, "dim")
        check_at_most(self, WIDEST, "dim")


@register_method("random")
class RandomVectors(CountedEncoder[RandomVectorsRecipe]):
    """A standard Gaussian vector for each distinct text, sampled by the text's sha256 and the seed.

    Equal texts have equal vectors, so a task with repeated texts can give scores above chance.

    Examples:
        >>> from zoo import Runtime
        >>> RandomVectors(RandomVectors.Recipe(), Runtime()).encode(["a small dog", "a large cat"]).shape
        (2, 256)
    """

    def __init__(self, recipe: RandomVectorsRecipe, runtime: Runtime) -> None:
        super().__init__(recipe, runtime)
        self.dim = recipe.dim
        self.seed = 0

    @classmethod
    def traits(cls, recipe: RandomVectorsRecipe) -> Traits:
        return Traits(stochastic=True)

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        self.seed = run.seed
        return FitReport()

    def vectors_of(self, texts: list[str]) -> Vectors:
        vectors = np.empty((len(texts), self.dim), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            digest = hashlib.sha256(text.encode()).digest()
            row[:] = np.random.default_rng([self.seed, *digest]).standard_normal(self.dim)
        return vectors

    def save(self, folder: Path) -> None:
        super().save(folder)
        write_json(folder / "seed.json", self.seed)

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        encoder = super().load(folder, runtime)
        encoder.seed = read_json(folder / "seed.json")
        if type(encoder.seed) is not int or encoder.seed < 0:
            raise CorruptError(f"{folder / 'seed.json'} holds no seed.")
        return encoder

    def fingerprint(self) -> str:
        return sha256_json([method_identity(type(self)), asdict(self.recipe), self.seed])
