"""A control: word counts. What a task gives to an encoder that knows which words a text has, and nothing of them."""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from zoo.encoder import Encoder, Runtime, Vectors
from zoo.engine.batching import EncodingStats, encode_unique
from zoo.engine.tokens import clean_text
from zoo.files import read_json, sha256_json, write_json
from zoo.methods.base import WIDEST, at_most, positive
from zoo.recipe import build

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True)
class BagOfWordsRecipe:
    """Width of the vectors, and which words are one."""

    dim: int = 4096  # buckets; two words share one with probability 1 / dim, and their signs differ half of the time
    lower_case: bool = True

    def __post_init__(self) -> None:
        positive(self, "dim")
        at_most(self, WIDEST, "dim")


class BagOfWords(Encoder[BagOfWordsRecipe]):
    """Counts of a text's words in signed buckets chosen by the words' sha256; no training, no vocabulary.

    Signs keep the dot product of two texts, over hashes, at its value for the counts themselves (feature hashing,
    Weinberger et al. 2009, section 2). Marks are not words; a text without a word is not covered.

    Example:
        >>> from zoo import Runtime
        >>> BagOfWords(BagOfWords.Recipe(), Runtime()).encode(["the dog and the cat"]).shape
        (1, 4096)
    """

    Recipe: ClassVar[type[Any]] = BagOfWordsRecipe

    def __init__(self, recipe: BagOfWordsRecipe, runtime: Runtime) -> None:
        super().__init__(recipe, runtime)
        self.dim = recipe.dim
        self.stats = EncodingStats()
        self._places: dict[str, tuple[int, int]] = {}  # word -> bucket and sign

    def _place(self, word: str) -> tuple[int, int]:
        if word not in self._places:
            number = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
            self._places[word] = (number // 2) % self.dim, 1 - 2 * (number % 2)
        return self._places[word]

    def _buckets(self, text: str) -> dict[int, int]:
        buckets = Counter[int]()
        for word in _WORD.findall(text.lower() if self.recipe.lower_case else text):
            bucket, sign = self._place(word)
            buckets[bucket] += sign
        return buckets

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return vectors (n, dim) float32 in the order of `texts`."""
        return encode_unique(texts, self._encode_unique)

    def _encode_unique(self, texts: list[str]) -> Vectors:
        started = time.perf_counter()
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            buckets = self._buckets(text)
            row[list(buckets)] = list(buckets.values())
        self.stats.texts += len(texts)
        self.stats.seconds += time.perf_counter() - started
        return vectors

    def covers(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Return which texts (n,) have a word left (two words may cancel in one bucket)."""
        return np.array([any(self._buckets(clean_text(t, i)).values()) for i, t in enumerate(texts)], np.bool_)

    def save(self, folder: Path) -> None:
        """Write the recipe."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "recipe.json", asdict(self.recipe))

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        """Read what `save` wrote."""
        recipe = build(cls.Recipe, read_json(folder / "recipe.json"), str(folder / "recipe.json"))
        return cls(recipe, runtime or Runtime())

    def fingerprint(self) -> str:
        """Return a sha256 over class and recipe."""
        return sha256_json([f"{type(self).__module__}.{type(self).__qualname__}", asdict(self.recipe)])

    def encoding_stats(self) -> dict[str, Any]:
        """Return what encoding cost so far."""
        return self.stats.as_dict()
