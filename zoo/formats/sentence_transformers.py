"""The folder format of sentence-transformers: a model's modules, read without running any code of the folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone, BackboneSource
from zoo.engine.model_folder import (
    cannot_load,
    check_loaded,
    check_tokenizer_files,
    check_vocabulary,
    config_of,
    listed_modules,
    load_pretrained,
    module_folders,
)
from zoo.engine.pooling import Pooling
from zoo.errors import CorruptError, MissingError, UsageError
from zoo.files import read_mapping, read_tensors, write_json, write_tensors
from zoo.paths import is_file

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

TANH, IDENTITY = "torch.nn.modules.activation.Tanh", "torch.nn.modules.linear.Identity"
_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {TANH: torch.tanh, IDENTITY: lambda x: x}


@dataclass(frozen=True)
class Layout:
    """What a sentence-transformers folder states."""

    transformer: BackboneSource
    pooling: Pooling
    after: list[Dense | Normalize]
    max_length: int | None
    lower_case: bool
    foreign: str | None  # the first module or setting that only the package itself can run
    stated: bool  # False: a plain checkpoint without modules.json

    @classmethod
    def read(
        cls, source: BackboneSource, model: str, wanted: Pooling | Literal["pooler"] | None, pickle: bool = False
    ) -> Layout:
        """Read modules.json and its modules; `wanted` replaces their pooling. Raises UsageError if none is given.

        `pickle`: weights in that form alone are allowed. "pooler" is [CLS] through the checkpoint's trained pooler.
        """
        modules = listed_modules(source.folder)
        if not modules:
            if wanted is None:
                raise UsageError(
                    f"pretrained: {model!r} has no modules.json, so nothing says how it pools."
                    f" Name it: pretrained:model={model}:pooling=cls (or mean ...)."
                )
            after_cls: list[Dense | Normalize] = [trained_pooler(source, pickle)] if wanted == "pooler" else []
            return cls(source, "cls" if wanted == "pooler" else wanted, after_cls, None, False, None, False)
        if wanted == "pooler":
            raise UsageError(
                f"pretrained: {model!r} has a modules.json, which says how it pools; leave out the pooling."
            )
        transformer, foreign = source, None
        pooling: Pooling | None = wanted
        after: list[Dense | Normalize] = []
        settings: dict[str, Any] = {}
        _check_order(source.folder, modules)
        for module in modules:
            kind, folder = _stock(module["type"]), source.folder / module["path"]
            if kind == "Transformer":
                transformer = dataclasses.replace(source, folder=folder)
                path = folder / "sentence_bert_config.json"
                settings = read_mapping(path) if path.is_file() else {}
            elif kind == "Pooling":
                pooling, foreign = wanted or _pooling(folder), foreign or _odd_pooling(folder)
            elif kind == "Dense" and (folder / "model.safetensors").is_file():
                dense = Dense.read(folder)
                after.append(dense)
                foreign = foreign or dense.odd
            elif kind == "Normalize":
                after.append(Normalize())
            else:
                foreign = foreign or module["type"]
        prompts = source.folder / "config_sentence_transformers.json"
        if prompts.is_file() and read_mapping(prompts).get("default_prompt_name"):
            foreign = foreign or "a default prompt"
        lower, longest = bool(settings.get("do_lower_case")), settings.get("max_seq_length")
        if longest is not None and (type(longest) is not int or longest < 1):
            raise CorruptError(f"{source.folder}: max_seq_length {longest!r} is no length.")
        return cls(transformer, pooling or "mean", after, longest, lower, foreign, True)


@dataclass(frozen=True)
class StockModules:
    """An encoder as stock modules: a transformer, the pooling of its last layer, and the modules that follow."""

    backbone: Backbone
    pooling: Pooling  # one of EXPORTED_POOLINGS
    max_length: int
    after: Sequence[Dense | Normalize] = ()
    lower_case: bool = False


@dataclass(frozen=True)
class StaticModules:
    """An encoder as the mean of a text's rows in a table (vocabulary, dim), scaled to length 1."""

    tokenizer: Tokenizer
    table: torch.Tensor


EXPORTED_POOLINGS: dict[Pooling, str] = {"cls": "cls", "mean": "mean", "last": "mean", "max": "max"}
"""Poolings of the last layer and their names in the package, which can pool no other layer."""


def _stock(kind: str) -> str:
    # Only classes of the package itself are known; a class such as `my_package.Normalize` may do anything.
    return kind.rsplit(".", 1)[-1] if kind.startswith("sentence_transformers.") else ""


def _check_order(folder: Path, modules: list[dict[str, str]]) -> None:
    """Raise CorruptError for stock modules in an order in which each does not read what the one before it gives."""
    places = {"Transformer": 0, "Pooling": 1, "Dense": 2, "Normalize": 2}
    order = [kind for module in modules if (kind := _stock(module["type"])) in places]
    # A Dense module may also read token states, before the pooling.
    ranks = [places[kind] for kind in order if kind != "Dense"]
    if ranks != sorted(ranks):
        raise CorruptError(
            f"{folder / 'modules.json'} lists {', '.join(order)}: a Transformer comes first, then the pooling, then"
            " what changes vectors; put them into that order."
        )


def _modes(folder: Path) -> list[str]:
    config = read_mapping(folder / "config.json")
    if "pooling_mode" in config:
        mode = config["pooling_mode"]
        return [mode] if isinstance(mode, str) else [str(part) for part in mode or ()]
    short = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max"}
    on = [
        key.removeprefix("pooling_mode_") for key, value in config.items() if key.startswith("pooling_mode_") and value
    ]
    return [short.get(mode, mode) for mode in on]


def _pooling(folder: Path) -> Pooling:
    known: dict[str, Pooling] = {"cls": "cls", "mean": "mean", "max": "max"}
    return known.get(next(iter(_modes(folder)), ""), "mean")


def _odd_pooling(folder: Path) -> str | None:
    modes = _modes(folder)
    return None if modes in (["cls"], ["mean"], ["max"]) else f"pooling {'+'.join(modes)}"


class Normalize(torch.nn.Module):
    """Scales vectors to length 1."""

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """(n, dim) -> (n, dim)."""
        return torch.nn.functional.normalize(vectors, dim=-1)


class Dense(torch.nn.Module):
    """A linear layer and its activation; `odd` names a feature or an activation that is not supported here."""

    weight: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, activation: str) -> None:
        super().__init__()
        self.register_buffer("weight", weight.float())
        self.register_buffer("bias", None if bias is None else bias.float())
        self.named, self.activation = activation, _ACTIVATIONS.get(activation)
        self.odd = None if self.activation else f"activation {activation}"

    @classmethod
    def read(cls, folder: Path) -> Dense:
        """Read a Dense module's folder."""
        tensors, _ = read_tensors(folder / "model.safetensors")
        config = read_mapping(folder / "config.json")
        if "linear.weight" not in tensors:
            raise CorruptError(f"{folder / 'model.safetensors'} has no linear.weight, which a Dense module needs.")
        shape = [config.get("out_features"), config.get("in_features")]
        if list(tensors["linear.weight"].shape) != shape:
            raise CorruptError(
                f"{folder / 'config.json'} says {shape[1]!r:.20} values in and {shape[0]!r:.20} out, the weights beside"
                f" it have {' x '.join(map(str, tensors['linear.weight'].shape))}: they do not belong together."
            )
        dense = cls(tensors["linear.weight"], tensors.get("linear.bias"), str(config.get("activation_function", "")))
        if config.get("use_residual"):
            dense.odd = "a Dense module with a residual"
        if config.get("module_input_name", "sentence_embedding") != "sentence_embedding":
            dense.odd = "a Dense module of token states"
        return dense

    def write(self, folder: Path) -> None:
        """Write what `read` reads into an existing folder."""
        tensors = {"linear.weight": self.weight, "linear.bias": self.bias}
        write_tensors(folder / "model.safetensors", {k: v for k, v in tensors.items() if v is not None})
        outputs, inputs = self.weight.shape
        sizes = {"in_features": inputs, "out_features": outputs, "bias": self.bias is not None}
        write_json(folder / "config.json", {**sizes, "activation_function": self.named})

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """(n, dim) -> (n, dim out)."""
        assert self.activation is not None
        return self.activation(torch.nn.functional.linear(vectors, self.weight, self.bias))


def trained_pooler(source: BackboneSource, pickle: bool) -> Dense:
    """Return a checkpoint's own pooler, a linear layer and tanh; raises UsageError for a checkpoint without one."""
    from transformers import AutoModel

    what = f"pretrained: {source.name!r}"
    try:
        safe = None if pickle else True
        model, loading = load_pretrained(AutoModel, source.folder, output_loading_info=True, use_safetensors=safe)
    except Exception as error:
        raise cannot_load(what, source.folder, error) from error
    layer = getattr(getattr(model, "pooler", None), "dense", None)
    if layer is None or any(name.startswith("pooler.") for name in loading["missing_keys"]):
        raise UsageError(f"{what} has no trained pooler in {source.folder}; name another pooling, such as cls.")
    return Dense(layer.weight.detach(), layer.bias.detach(), TANH)


def load_with_library(
    source: BackboneSource, name: str, max_length: int | None, runtime: Runtime, foreign: str
) -> SentenceTransformer:
    """Return the model that sentence-transformers itself loads, without remote code; raises ZooError if it fails."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingError(
            f"pretrained: {name!r} uses {foreign}, which the sentence-transformers package runs; install it:"
            " `pip install 'zoo-bench[st]'`."
        ) from error
    what = f"pretrained: {name!r}"
    configurations = {}
    for folder in module_folders(source.folder):
        stated = read_mapping(folder / "config.json") if is_file(folder / "config.json") else {}
        if stated.get("model_type", "model2vec") != "model2vec":  # a token table, which transformers does not know
            check_tokenizer_files(what, folder)
            configurations[folder] = config_of(what, folder)
        activation = str(stated.get("activation_function") or "torch.")
        if not activation.startswith("torch."):  # the library would take Tanh instead, and say so in a log
            raise UsageError(
                f"{what}: {folder / 'config.json'} names the activation {activation!r:.80}, which is code of its own"
                " and is not run; load the model in a plugin of yours (--plugin FILE.py)."
            )
    try:
        model = SentenceTransformer(str(source.folder), device=runtime.device, trust_remote_code=False)
    except Exception as error:  # of many kinds; each means that the package cannot load this folder
        raise cannot_load(f"{what}, which uses {foreign},", source.folder, error) from error
    transformers: list[Any] = [module for module in model if hasattr(module, "auto_model")]
    for transformer, (folder, config) in zip(transformers, configurations.items(), strict=False):
        check_vocabulary(what, folder, transformer.tokenizer, config)
        check_loaded(what, folder, type(transformer.auto_model), config)
    if max_length:
        model.max_seq_length = max_length
    return model
