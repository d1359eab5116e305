"""Finished encoders: a sentence-transformers folder or hub id, or a plain checkpoint with a pooling in the recipe."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
import torch

from zoo.encoder import Encoder, Runtime, Traits, Vectors
from zoo.engine.backbone import Backbone, BackboneSource, find_backbone
from zoo.engine.batching import EncodingStats, encode_unique
from zoo.engine.named import DEFAULT_BACKBONE
from zoo.engine.pooling import Pooling
from zoo.engine.tokens import TokenTable, clean_text
from zoo.errors import CorruptError, MissingError, UsageError
from zoo.files import read_json, sha256_json, write_json
from zoo.formats.sentence_transformers import EXPORTED_POOLINGS, Dense, Layout, StockModules, load_with_library
from zoo.methods.base import BackboneEncoder, check_positive, count_parameters
from zoo.recipe import build
from zoo.registry import register_method

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


@dataclass(frozen=True, kw_only=True)
class PretrainedRecipe:
    """A plain checkpoint (such as SimCSE's releases) does not state its pooling, so the recipe must."""

    model: str = DEFAULT_BACKBONE
    revision: str | None = None
    # None: the folder's; "pooler": [CLS] through the checkpoint's own linear layer and tanh
    pooling: Literal["cls", "mean", "max", "first-last-h0", "first-last-h1", "top2", "pooler"] | None = None
    max_length: int | None = None  # None: the folder's

    def __post_init__(self) -> None:
        check_positive(self, "max_length")

    @property
    def backbone(self) -> str:
        """The model, under the name that other recipes use."""
        return self.model


@register_method("pretrained", family="finished", page="finished")
class Pretrained(BackboneEncoder[PretrainedRecipe]):
    """A finished encoder: a transformer, pooling, then Dense and Normalize, as in its modules.json.

    The engine runs these stock modules. A folder with any other module is run by the sentence-transformers package
    (extra `st`), without remote code.

    Example:
        >>> from zoo import Runtime
        >>> Pretrained(Pretrained.Recipe(model="zoo-small", pooling="mean"), Runtime()).encode(["a small dog"]).shape
        (1, 384)
    """

    Recipe: ClassVar[type] = PretrainedRecipe

    def __init__(self, recipe: PretrainedRecipe, runtime: Runtime, source: BackboneSource | None = None) -> None:
        Encoder.__init__(self, recipe, runtime)
        self.source = source or find_backbone(recipe.model, recipe.revision, allow_pickle=runtime.allow_pickle)
        self.layout = Layout.read(self.source, recipe.model, recipe.pooling, runtime.allow_pickle)
        self.stats, self.trained = EncodingStats(), False
        self.library: SentenceTransformer | None = None
        if self.layout.foreign:
            self.library = load_with_library(self.source, recipe.model, recipe.max_length, runtime, self.layout.foreign)
            self.dim = int(np.asarray(self.library.encode(["a"], show_progress_bar=False)).shape[1])
            return
        self.backbone = Backbone.from_source(self.layout.transformer, runtime)
        self.after = [step.to(runtime.device) for step in self.layout.after]
        dense = [step for step in self.after if isinstance(step, Dense)]
        self.dim = int(dense[-1].weight.shape[0]) if dense else self.backbone.dim

    @property
    def pooling(self) -> Pooling:
        """The recipe's pooling, or the folder's."""
        return self.layout.pooling

    @property
    def pooled_dim(self) -> int:
        """Width of the pooled states, which the modules after the pooling may change."""
        return self.backbone.dim

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return vectors (n, dim) float32 in the order of `texts`."""
        texts = [clean_text(text, i) for i, text in enumerate(texts)]
        if self.library is not None:
            return encode_unique(texts, self._by_library)
        if self.layout.lower_case:
            texts = [text.lower() for text in texts]
        vectors = torch.from_numpy(self.pooled(texts))
        with torch.inference_mode():
            for step in self.after:
                vectors = step(vectors.to(self.runtime.device))
        return vectors.cpu().numpy()

    @classmethod
    def traits(cls, recipe: PretrainedRecipe) -> Traits:
        """Return the traits of a finished encoder; one that cannot be fine-tuned raises in `token_table`."""
        exports = recipe.pooling in (None, "pooler", *EXPORTED_POOLINGS)
        return Traits(released=True, fine_tunes=True, exports=exports)

    def token_table(self, texts: list[str]) -> TokenTable:
        """Return the token ids of texts; raises MissingError if the sentence-transformers package runs the model."""
        if self.library is not None:
            raise MissingError(f"pretrained: sentence-transformers runs {self.recipe.model!r}: it is not fine-tuned.")
        return super().token_table(texts)

    def stock_modules(self) -> StockModules:
        """Return the folder's modules; raises UsageError if one is not a stock module."""
        if self.library is not None:
            raise UsageError(f"pretrained: {self.recipe.model!r} uses {self.layout.foreign}, which is not exported.")
        lower = self.layout.lower_case
        return replace(super().stock_modules(), after=self.layout.after, lower_case=lower)

    def _by_library(self, texts: list[str]) -> Vectors:
        assert self.library is not None
        started = time.perf_counter()
        vectors = self.library.encode(texts, show_progress_bar=False) if texts else np.empty((0, self.dim))
        self.stats.texts += len(texts)
        self.stats.seconds += time.perf_counter() - started
        return np.asarray(vectors, np.float32)

    @property
    def length_limit(self) -> int:
        """The recipe's limit, else the folder's (or its tokenizer's), but no more than the positions."""
        most = self.backbone.max_length
        folder = self.layout.max_length or (self.backbone.tokenizer.model_max_length if self.layout.stated else most)
        return int(min(self.recipe.max_length or folder, most))

    def parameters(self) -> int:
        """Return the size of all modules."""
        return count_parameters(*([self.backbone.model, *self.after] if self.library is None else [self.library]))

    def save(self, folder: Path) -> None:
        """Write the recipe and the identity of the model, not its weights, which did not change."""
        write_json(folder / "recipe.json", dataclasses.asdict(self.recipe))
        write_json(folder / "backbone.json", {**self.source.identity(), "location": self.source.location})

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        """Read what `save` wrote; raises CorruptError when the model is no longer the same."""
        runtime = runtime or Runtime()
        recipe: PretrainedRecipe = build(cls.Recipe, read_json(folder / "recipe.json"), str(folder / "recipe.json"))
        saved = read_json(folder / "backbone.json")
        source = find_backbone(saved["location"], saved["revision"], allow_pickle=runtime.allow_pickle)
        if source.sha256 != saved["sha256"]:
            raise CorruptError(f"model {saved['name']!r} in {source.folder} is not the one {folder} was made with.")
        return cls(recipe, runtime, source)

    def fingerprint(self) -> str:
        """Return a sha256 over the model's files and weights, the recipe and the precision."""
        if self.library is None:
            return super().fingerprint()
        recipe = {**dataclasses.asdict(self.recipe), "model": self.source.name}
        return sha256_json([self.source.sha256, recipe, self.runtime.precision])
