"""Vectors from a file: SkipThought's, GenSen's, USE's and other outside encoders'."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from zoo.encoder import Runtime, Traits, Vectors
from zoo.errors import CorruptError
from zoo.files import read_json, sha256_json, write_json
from zoo.formats.word_vectors import find_text_vectors, read, text_vectors_identity
from zoo.methods.counted import CountedEncoder
from zoo.plugins import method_identity, register_method


@dataclass(frozen=True, kw_only=True)
class TextVectorsRecipe:
    path: str | None = None


@register_method("vectors")
class TextVectors(CountedEncoder[TextVectorsRecipe]):
    """The vectors of texts from a file; a task with a text outside the file is n/a.

    Examples:
        >>> import pathlib, tempfile
        >>> from zoo import Runtime
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "mine.tsv"
        >>> _ = path.write_text("a small dog\\t0.5 1.0\\n")
        >>> TextVectors(TextVectors.Recipe(path=str(path)), Runtime()).encode(["a small dog", "rain"]).tolist()
        [[0.5, 1.0], [0.0, 0.0]]
    """

    def __init__(self, recipe: TextVectorsRecipe, runtime: Runtime) -> None:
        super().__init__(recipe, runtime)
        self.files = find_text_vectors(recipe.path)
        self.file_facts = text_vectors_identity(self.files)
        self.rows, self.vectors = read(self.files)
        self.dim = self.vectors.shape[1]

    @classmethod
    def traits(cls, recipe: TextVectorsRecipe) -> Traits:
        return Traits(needs_every_text=True)

    @classmethod
    def sources(cls, recipe: TextVectorsRecipe, runtime: Runtime) -> dict[str, Any]:
        return {"path": text_vectors_identity(find_text_vectors(recipe.path))}

    def vectors_of(self, texts: list[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dim), np.float32)
        known = [i for i, text in enumerate(texts) if text in self.rows]
        vectors[known] = self.vectors[[self.rows[texts[i]] for i in known]]
        return vectors

    def covers(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        return np.array([text in self.rows for text in texts], np.bool_)

    def places(self) -> dict[str, Any]:
        return {"path": str(self.files[0])}

    def save(self, folder: Path) -> None:
        super().save(folder)
        write_json(folder / "sources.json", self.file_facts)

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        encoder = super().load(folder, runtime)
        if encoder.file_facts["sha256"] != read_json(folder / "sources.json")["sha256"]:
            raise CorruptError(f"{encoder.recipe.path} is not the file that {folder} was made with.")
        return encoder

    def fingerprint(self) -> str:
        return sha256_json([method_identity(type(self)), self.file_facts["sha256"]])

    def parameters(self) -> int:
        """0: the vectors' model is unknown here."""
        return 0
