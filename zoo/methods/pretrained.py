"""Any sentence-transformers folder or hub id, measured as it is; or a plain checkpoint with a stated pooling."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from zoo.backbone import Backbone, BackboneSource, find_backbone
from zoo.encoder import Runtime, Vectors
from zoo.encoding import encode_unique
from zoo.errors import MissingError, UsageError
from zoo.files import read_json, read_tensors
from zoo.methods.base import BackboneEncoder
from zoo.pooling import Pooling

_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "torch.nn.modules.activation.Tanh": torch.tanh,
    "torch.nn.modules.linear.Identity": lambda x: x,
}


@dataclass(frozen=True, kw_only=True)
class PretrainedRecipe:
    """A plain checkpoint (SimCSE's releases, for one) does not say its pooling, so the recipe must."""

    model: str = "zoo-mini"
    revision: str | None = None
    pooling: Literal["cls", "mean", "max", "first-last-h0", "first-last-h1", "top2"] | None = None  # None: the folder's
    max_length: int | None = None  # None: the folder's


class Pretrained(BackboneEncoder):
    """A finished encoder: transformer, pooling, then Dense and Normalize, as its modules.json lists them.

    These stock modules run on our engine; a folder with any other is run by the sentence-transformers package (extra
    `st`), never with remote code.

    Example:
        >>> from zoo import Runtime
        >>> Pretrained(Pretrained.Recipe(model="zoo-mini", pooling="mean"), Runtime()).encode(["a small dog"]).shape
        (1, 256)
    """

    Recipe: ClassVar[type] = PretrainedRecipe

    def __init__(self, recipe: PretrainedRecipe, runtime: Runtime, backbone: Backbone | None = None) -> None:
        source = find_backbone(recipe.model, recipe.revision, allow_pickle=runtime.allow_pickle)
        self.layout = _Layout.read(source, recipe)
        super().__init__(recipe, runtime, backbone or Backbone.from_source(self.layout.transformer, runtime))
        self.after = [step.to(runtime.device) for step in self.layout.after]
        self.library = _library(source, recipe, runtime) if self.layout.foreign else None
        self.dim = self._probe_dim()

    def _probe_dim(self) -> int:
        if self.library is not None:
            return len(self.library.encode(["a"])[0])
        dense = [step for step in self.after if isinstance(step, _Dense)]
        return int(dense[-1].weight.shape[0]) if dense else self.backbone.dim

    @property
    def pooling(self) -> Pooling:
        """The recipe's pooling, or the folder's."""
        return self.layout.pooling

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return vectors (n, dim) float32 in the order of `texts`."""
        if self.library is not None:
            library = self.library
            return encode_unique(texts, lambda t: np.asarray(library.encode(t, show_progress_bar=False), np.float32))
        if self.layout.lower_case:
            texts = [text.lower() for text in texts]
        vectors = torch.from_numpy(self.pooled(texts))
        with torch.inference_mode():
            for step in self.after:
                vectors = step(vectors.to(self.runtime.device))
        return vectors.cpu().numpy()

    @property
    def length_limit(self) -> int:
        """The recipe's, the folder's max_seq_length, or as long as the positions allow."""
        return min(
            self.recipe.max_length or self.layout.max_length or self.backbone.max_length, self.backbone.max_length
        )

    @classmethod
    def sources(cls, recipe: PretrainedRecipe, runtime: Runtime) -> dict[str, Any]:
        """Return the identity of the model's files."""
        found = find_backbone(recipe.model, recipe.revision, allow_pickle=runtime.allow_pickle)
        return {"backbone": found.identity()}


@dataclass(frozen=True)
class _Layout:
    """What a folder says of itself."""

    transformer: BackboneSource
    pooling: Pooling
    after: list[_Dense | _Normalize]
    max_length: int | None
    lower_case: bool
    foreign: str | None  # the first module that is not stock

    @classmethod
    def read(cls, source: BackboneSource, recipe: PretrainedRecipe) -> _Layout:
        if not (source.folder / "modules.json").is_file():
            if recipe.pooling is None:
                raise UsageError(
                    f"pretrained: {recipe.model!r} has no modules.json, so nothing says how it pools."
                    f" Name it: pretrained:model={recipe.model}:pooling=cls (or mean ...)."
                )
            return cls(source, recipe.pooling, [], None, False, None)
        transformer, foreign = source, None
        pooling: Pooling | None = recipe.pooling
        after: list[_Dense | _Normalize] = []
        settings: dict[str, Any] = {}
        for module in read_json(source.folder / "modules.json"):
            kind, folder = module["type"].rsplit(".", 1)[-1], source.folder / module["path"]
            if kind == "Transformer":
                transformer = dataclasses.replace(source, folder=folder)
                path = folder / "sentence_bert_config.json"
                settings = read_json(path) if path.is_file() else {}
            elif kind == "Pooling":
                pooling, foreign = recipe.pooling or _pooling(folder), foreign or _odd_pooling(folder)
            elif kind == "Dense" and (folder / "model.safetensors").is_file():
                dense = _Dense.read(folder)
                after.append(dense)
                foreign = foreign or dense.odd
            elif kind == "Normalize":
                after.append(_Normalize())
            else:
                foreign = foreign or kind
        prompts = source.folder / "config_sentence_transformers.json"
        if prompts.is_file() and read_json(prompts).get("default_prompt_name"):
            foreign = foreign or "a default prompt"
        lower = bool(settings.get("do_lower_case"))
        return cls(transformer, pooling or "mean", after, settings.get("max_seq_length"), lower, foreign)


def _modes(folder: Path) -> list[str]:
    config = read_json(folder / "config.json")
    if "pooling_mode" in config:
        mode = config["pooling_mode"]
        return [mode] if isinstance(mode, str) else list(mode)
    short = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max"}
    on = [
        key.removeprefix("pooling_mode_") for key, value in config.items() if key.startswith("pooling_mode_") and value
    ]
    return [short.get(mode, mode) for mode in on]


def _pooling(folder: Path) -> Pooling:
    known: dict[str, Pooling] = {"cls": "cls", "mean": "mean", "max": "max"}
    return known.get(_modes(folder)[0], "mean")


def _odd_pooling(folder: Path) -> str | None:
    modes = _modes(folder)
    return None if modes in (["cls"], ["mean"], ["max"]) else f"pooling {'+'.join(modes)}"


class _Normalize(torch.nn.Module):
    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(vectors, dim=-1)


class _Dense(torch.nn.Module):
    weight: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, activation: str) -> None:
        super().__init__()
        self.register_buffer("weight", weight.float())
        self.register_buffer("bias", None if bias is None else bias.float())
        self.activation = _ACTIVATIONS.get(activation)
        self.odd = None if self.activation else f"activation {activation}"

    @classmethod
    def read(cls, folder: Path) -> _Dense:
        tensors, _ = read_tensors(folder / "model.safetensors")
        config = read_json(folder / "config.json")
        return cls(tensors["linear.weight"], tensors.get("linear.bias"), config.get("activation_function", ""))

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        assert self.activation is not None
        return self.activation(torch.nn.functional.linear(vectors, self.weight, self.bias))


def _library(source: BackboneSource, recipe: PretrainedRecipe, runtime: Runtime) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingError(
            f"pretrained: {recipe.model!r} uses a module of its own; install it with `pip install 'zoo-bench[st]'`."
        ) from error
    model = SentenceTransformer(str(source.folder), device=runtime.device, trust_remote_code=False)
    if recipe.max_length:
        model.max_seq_length = recipe.max_length
    return model
