"""A control: word counts alone."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from zoo.encoder import Runtime, Traits, Vectors
from zoo.engine.tokens import clean_text
from zoo.files import sha256_json
from zoo.methods.base import WIDEST, check_at_most, check_positive
from zoo.methods.counted import CountedEncoder
from zoo.plugins import method_identity, register_method

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True)
class BagOfWordsRecipe:
    dim: int = 4096
    lower_case: bool = True

    def __post_init__(self) -> None:
        check_positive(self, "dim")
        check_at_most(self, WIDEST, "dim")


@register_method("bag-of-words")
class BagOfWords(CountedEncoder[BagOfWordsRecipe]):
    """Counts of a text's words in signed buckets chosen by the words' sha256; no training, no vocabulary.

    The expected dot product of two texts, over hash functions, is that of their word counts (feature hashing,
    Weinberger et al. 2009, section 2). Punctuation is ignored; a text without a word is not covered.

    Examples:
        >>> from zoo import Runtime
        >>> BagOfWords(BagOfWords.Recipe(), Runtime()).encode(["the dog and the cat"]).shape
        (1, 4096)
    """

    def __init__(self, recipe: BagOfWordsRecipe, runtime: Runtime) -> None:
        super().__init__(recipe, runtime)
        self.dim = recipe.dim
        self._places: dict[str, tuple[int, int]] = {}

    @classmethod
    def traits(cls, recipe: BagOfWordsRecipe) -> Traits:
        return Traits(needs_several_words=True)

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

    def vectors_of(self, texts: list[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            buckets = self._buckets(text)
            row[list(buckets)] = list(buckets.values())
        return vectors

    def covers(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Flags (n,) of non-zero vectors: two words may cancel in a bucket."""
        return np.array([any(self._buckets(clean_text(t, i)).values()) for i, t in enumerate(texts)], np.bool_)

    def fingerprint(self) -> str:
        return sha256_json([method_identity(type(self)), asdict(self.recipe)])
