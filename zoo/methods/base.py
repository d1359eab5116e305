"""Base class of all methods on a transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import nn
from typing_extensions import TypeVar

from zoo.encoder import AnyRecipe, Encoder, Runtime, Traits, Vectors
from zoo.engine.backbone import Backbone, find_backbone, sha256_weights
from zoo.engine.batching import EncodingStats, encode_table, encode_unique
from zoo.engine.hub_models import DEFAULT_BACKBONE
from zoo.engine.needs import Need, check_files, check_first_token
from zoo.engine.states import Pooling, pooled
from zoo.engine.tokens import TokenTable, tokenise
from zoo.files import read_json, sha256_json, write_json
from zoo.formats.export import StockModules
from zoo.plugins import method_identity
from zoo.recipes import build
from zoo.tensors import read_tensors, write_tensors


def check_positive(recipe: object, *names: str) -> None:
    """Raise ValueError unless the named fields are above zero (or None)."""
    for name in names:
        value = getattr(recipe, name)
        if value is not None and value <= 0:
            raise ValueError(f"{name} must be above 0, not {value}")


def check_adam(recipe: Any) -> None:
    """Raise ValueError for an AdamW without bias correction, except the library's of 2021."""
    if not recipe.bias_correction and recipe.optimizer != "transformers-adamw":
        raise ValueError("bias_correction: false needs optimizer: transformers-adamw")


def check_in_batch(recipe: object, *names: str) -> None:
    """Raise ValueError for a batch of one sentence, if sentences of a batch are compared."""
    for name in names:
        if getattr(recipe, name) == 1:
            raise ValueError(f"{name} 1 trains nothing: the loss compares the sentences of a batch; take 2 or more")


# 16 times BERT-large's dimensions, or 1.7 GB for the 26,000 texts of a suite.
WIDEST = 16_384


def check_at_most(recipe: object, most: int, *names: str) -> None:
    """Raise ValueError unless the named fields are at most `most` (or None), before memory is allocated."""
    for name in names:
        value = getattr(recipe, name)
        if value is not None and value > most:
            raise ValueError(f"{name} must be at most {most:,}, not {str(value)[:30]}")


def count_parameters(*modules: nn.Module) -> int:
    """Number of weights; a shared weight counts once."""
    return sum({id(p): p.numel() for module in modules for p in module.parameters()}.values())


def without_places(recipe: Any) -> dict[str, Any]:
    """Fields without models' names: a fingerprint has their weights."""
    return {name: value for name, value in asdict(recipe).items() if name not in ("backbone", "model", "revision")}


@dataclass(frozen=True, kw_only=True)
class BackboneRecipe:
    # The papers use bert-base-uncased; the bundled model needs no download.
    backbone: str = DEFAULT_BACKBONE
    revision: str | None = None
    # Tokens at test. None: limited only by the positions, as SentEval does not truncate.
    max_length: int | None = None

    def __post_init__(self) -> None:
        check_positive(self, "max_length")


class BackboneFields(AnyRecipe, Protocol):
    @property
    def backbone(self) -> str: ...
    @property
    def revision(self) -> str | None: ...
    @property
    def max_length(self) -> int | None: ...


BackboneT = TypeVar("BackboneT", bound=BackboneFields, default=Any)


class BackboneEncoder(Encoder[BackboneT]):
    Recipe: ClassVar[type[Any]] = BackboneRecipe
    version = 2
    unstated = ("sources", "parameters")
    engine_alone = True

    def __init_subclass__(cls, **more: object) -> None:
        super().__init_subclass__(**more)
        overridden = {name for base in cls.__mro__[: cls.__mro__.index(BackboneEncoder)] for name in vars(base)}
        cls.engine_alone = not overridden & {"encode", "pooled", "_encode_unique"}

    def __init__(self, recipe: BackboneT, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime)
        self.backbone = backbone or Backbone.load(
            recipe.backbone, recipe.revision, runtime, states_only=self.traits(recipe).untrained
        )
        check_files(self.backbone.source, self.needs, recipe)
        check_first_token(self.backbone, self.needs, recipe)
        self.dim = self.backbone.dim
        self.trained = False
        self.stats = EncodingStats()

    @property
    def pooling(self) -> Pooling:
        raise TypeError(f"{type(self).__name__} must define its pooling")

    @property
    def positions(self) -> int:
        """Most columns of a batch."""
        return self.backbone.max_length

    @property
    def length_limit(self) -> int:
        """Most tokens of a text at evaluation, special tokens included."""
        return min(self.recipe.max_length or self.backbone.max_length, self.backbone.max_length)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Padded token ids and mask (n, length) -> pooled vectors (n, dim) float32."""
        return pooled(self.backbone.network, input_ids, attention_mask, self.pooling)

    def parts(self) -> dict[str, nn.Module]:
        return {}

    def encode(self, texts: Sequence[str]) -> Vectors:
        return self.pooled(texts)

    def pooled(self, texts: Sequence[str]) -> Vectors:
        """Vectors of `forward` (n, pooled_dim), float32; each distinct text is encoded once."""
        return encode_unique(texts, self._encode_unique)

    @property
    def pooled_dim(self) -> int:
        return self.dim

    def token_table(self, texts: list[str]) -> TokenTable:
        progress = self.runtime.progress
        return tokenise(self.backbone.reader, texts, max_length=self.length_limit, progress=progress)

    def _encode_unique(self, texts: list[str]) -> Vectors:
        return encode_table(
            self.token_table(texts),
            self.forward,
            dim=self.pooled_dim,
            pad_id=self.backbone.pad_id,
            runtime=self.runtime,
            stats=self.stats,
            positions=self.positions,
        )

    @classmethod
    def traits(cls, recipe: BackboneT) -> Traits:
        return Traits(fine_tunes=True)

    def stock_modules(self) -> StockModules:
        return StockModules(self.backbone, self.pooling, self.length_limit)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.backbone.save(folder, trained=self.trained)
        write_json(folder / "recipe.json", asdict(self.recipe))
        for name, part in self.parts().items():
            write_tensors(folder / f"{name}.safetensors", part.state_dict(), {"format": "pt"})

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        runtime = runtime or Runtime()
        recipe = build(cls.Recipe, read_json(folder / "recipe.json"), str(folder / "recipe.json"))
        encoder = cls(recipe, runtime, Backbone.restore(folder, runtime, states_only=cls.traits(recipe).untrained))
        encoder.trained = bool(read_json(folder / "backbone.json")["trained"])
        for name, part in encoder.parts().items():
            part.load_state_dict(read_tensors(folder / f"{name}.safetensors")[0])
        return encoder

    def fingerprint(self) -> str:
        return sha256_json(
            {
                "class": method_identity(type(self)),
                "recipe": without_places(self.recipe),
                "source": self.backbone.source.sha256,
                "weights": self.backbone.weights_sha256(),
                "precision": self.runtime.precision,
                "parts": {name: sha256_weights(part) for name, part in self.parts().items()},
            }
        )

    @classmethod
    def sources(cls, recipe: BackboneT, runtime: Runtime) -> dict[str, Any]:
        source = find_backbone(recipe.backbone, recipe.revision, allow_pickle=runtime.allow_pickle)
        check_files(source, cls.needs, recipe)
        return {"backbone": source.identity()}

    @classmethod
    def needs(cls, recipe: BackboneT) -> frozenset[Need]:
        return frozenset()

    def parameters(self) -> int:
        return count_parameters(self.backbone.network, *self.parts().values())

    def encoding_stats(self) -> dict[str, Any]:
        return self.stats.as_dict()
