"""Pretrained checkpoints: a hub id, a local folder or a bundled backbone; located first, then loaded completely."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.encoder import Runtime
from zoo.engine.hub_models import HUB_ID, from_hub, loaded_sha256, named_folder, stated_ancestry
from zoo.engine.model_folder import (
    cannot_load,
    check_adapter,
    check_complete,
    check_tokenizer_files,
    check_vocabulary,
    check_weights,
    config_of,
    load_pretrained,
)
from zoo.errors import CorruptError, MissingError, UsageError, ZooError
from zoo.files import read_mapping, reading, write_json
from zoo.machine import keep_few_kernels
from zoo.paths import is_dir, own_name, snapshot_hint, user_path
from zoo.tensors import read_tensors, write_tensors

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from zoo.engine.bert import Bert, WordPieceTokenizer


@dataclass(frozen=True)
class BackboneSource:
    """A checkpoint on disk; `location` (a bundled name, hub id or absolute folder) leads back to it."""

    name: str
    revision: str | None
    location: str
    folder: Path
    sha256: str
    ancestors: tuple[str, ...] = ()
    labelled: tuple[str, ...] = ()

    @property
    def ancestry(self) -> str | None:
        """A row's condition if this checkpoint or an ancestor was trained on labelled pairs, else None."""
        return f"labelled ancestry ({', '.join(self.labelled)})" if self.labelled else None

    def identity(self) -> dict[str, Any]:
        locality = {"local": True} if self.location == str(self.folder) else {}
        ancestry = {} if self.ancestry is None else {"ancestry": self.ancestry}
        return {"name": self.name, "revision": self.revision, "sha256": self.sha256, **locality, **ancestry}


def find_backbone(
    name: str, revision: str | None = None, *, allow_pickle: bool = False, onnx: str | None = None
) -> BackboneSource:
    """Locate a checkpoint, for an `onnx` file ("": any) without weights; raises MissingError or UsageError."""
    known, key = _KNOWN.get(), (name, revision, allow_pickle, onnx)
    if key not in known:
        # Outside of `finding_once` nothing is kept: a folder may have changed.
        known = {**known} if known is _NOTHING else known
        known[key] = _located(name, revision, allow_pickle=allow_pickle, onnx=onnx)
    return known[key]


_NOTHING: dict[tuple[object, ...], BackboneSource] = {}
_KNOWN = ContextVar("known", default=_NOTHING)
_LOADED: ContextVar[dict[tuple[BackboneSource, str], Backbone] | None] = ContextVar("loaded", default=None)


@contextmanager
def finding_once(*, weights: bool = False) -> Iterator[None]:
    """Look for each backbone once within the block, as all rows of a plan need it.

    With `weights` encoders also share the tensors of the backbone loaded last, which is for checks that train nothing.
    """
    tokens = _KNOWN.set({}), _LOADED.set({} if weights else None)
    try:
        yield
    finally:
        _KNOWN.reset(tokens[0])
        _LOADED.reset(tokens[1])


def _located(name: str, revision: str | None, *, allow_pickle: bool, onnx: str | None) -> BackboneSource:
    place = user_path(name)
    named = named_folder(name)
    local = named is None and is_dir(place)
    if revision is not None and (named is not None or local):
        raise UsageError(f"backbone {name!r} is a folder; a revision ({revision}) goes with a hub id (owner/name).")
    if named is not None:
        folder = named
    elif local:
        folder = place.resolve()
    elif not HUB_ID.match(name):
        raise MissingError(f"backbone {name!r}: no such folder, and not a hub id (owner/name).")
    else:
        folder = from_hub(name, revision, onnx)
    with reading(folder):
        files = {path.name for path in folder.iterdir()}
    if "adapter_config.json" in files and "modules.json" not in files:
        check_adapter(f"backbone {name!r}", folder, folder)
    if not {"config.json", "modules.json"} & files:
        remedy = snapshot_hint(folder) or "give a transformers model folder"
        raise MissingError(f"backbone {name!r}: {folder} has no config.json; {remedy}.")
    if onnx is None:
        check_weights(f"backbone {name!r}", folder, allow_pickle=allow_pickle)
    return BackboneSource(
        own_name(str(place if place.name else folder)) if local else name,
        revision,
        str(folder) if local else name,
        folder,
        loaded_sha256(name, folder, allow_pickle=allow_pickle),
        *stated_ancestry(name, folder),
    )


def check_backbone(name: str, revision: str | None, runtime: Runtime) -> None:
    from zoo.engine.bert import bert_config

    source = find_backbone(name, revision, allow_pickle=runtime.allow_pickle)
    check_tokenizer_files(f"backbone {name!r}", source.folder)
    if bert_config(source.folder) is None:
        config_of(f"backbone {name!r}", source.folder)


def token_embeddings(model: PreTrainedModel) -> nn.Embedding:
    """Embedding layer of a model's tokens; raises UsageError for another kind of layer."""
    from torch import nn

    layer = model.get_input_embeddings()
    if not isinstance(layer, nn.Embedding):
        raise UsageError(f"{type(model).__name__} embeds its tokens by {type(layer).__name__}; use another backbone.")
    return layer


def quiet() -> None:
    from transformers.utils import logging as transformers_logging

    keep_few_kernels()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


def positions_of(model: PreTrainedModel) -> int | None:
    """Most tokens of a text, by the model's positions; None if unlimited."""
    for module in model.modules():
        table: Any = getattr(module, "position_embeddings", None)
        if hasattr(table, "weight"):
            padding = getattr(module, "padding_idx", None)
            if isinstance(padding, int):
                return len(table.weight) - padding - 1
            break
    stated = getattr(model.config, "max_position_embeddings", None)
    return stated if isinstance(stated, int) and stated > 0 else None


def encoder_of(model: Any) -> Any:
    """The encoder of a model with a decoder (BART, T5), else the model without its head."""
    model = model.base_model
    parts = dict(model.named_children())
    return parts["encoder"] if {"decoder", "shared"} & parts.keys() and "encoder" in parts else model


def without_pooler(model_class: Any) -> dict[str, bool]:
    """Argument that omits the pooler of BERT-like models: unused, and absent from many checkpoints."""
    return {"add_pooling_layer": False} if "add_pooling_layer" in inspect.signature(model_class).parameters else {}


def sha256_weights(module: nn.Module) -> str:
    import hashlib

    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _modules_copied(module: Any) -> Any:
    """The module with the same tensors; tensors and modules that are put into it do not show in the original."""
    other = copy.copy(module)
    vars(other).update({name: dict(vars(module)[name]) for name in ("_parameters", "_buffers", "_modules")})
    other._modules.update({name: _modules_copied(inner) for name, inner in module.named_children()})
    return other


class Backbone:
    """A transformer and its tokenizer, with the identity of their files.

    `network` and `reader` map texts to states: the engine's own until the library's `model` or `tokenizer` is read.
    """

    def __init__(
        self,
        model: PreTrainedModel | Bert,
        tokenizer: PreTrainedTokenizerBase | WordPieceTokenizer,
        source: BackboneSource,
    ) -> None:
        self.network: Any = model
        self.reader: Any = tokenizer
        self.source = source
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._limits = (None, None) if backend is None else (backend.truncation, backend.padding)
        self._runtime: Runtime | None = None

    def _by_library(self) -> Backbone:
        if self._runtime is not None:
            other = self._from_library(self.source, self._runtime)
            self.network, self.reader = other.network.to(next(self.network.parameters()).device), other.reader
            self._limits, self._runtime = other._limits, None
        return self

    @property
    def model(self) -> PreTrainedModel:
        """The library's model, from then on also the `network`."""
        model: PreTrainedModel = self._by_library().network
        return model

    @model.setter
    def model(self, model: PreTrainedModel) -> None:
        self._by_library().network = model

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The library's tokenizer, from then on also the `reader`."""
        tokenizer: PreTrainedTokenizerBase = self._by_library().reader
        return tokenizer

    @property
    def dim(self) -> int:
        return int(self.network.config.hidden_size)

    @property
    def pad_id(self) -> int:
        return int(self.reader.pad_token_id or 0)

    @property
    def token_vectors(self) -> torch.Tensor:
        import torch

        weight = self.network.get_input_embeddings().weight
        assert isinstance(weight, torch.Tensor)
        return weight.detach()

    @property
    def max_length(self) -> int:
        """Most tokens of a text; 512 without a table of positions."""
        return positions_of(self.network) or 512

    @classmethod
    def load(cls, name: str, revision: str | None, runtime: Runtime, *, states_only: bool = False) -> Backbone:
        """Locate and load a checkpoint in float32; raises ZooError if it is missing, unsafe or incomplete."""
        source = find_backbone(name, revision, allow_pickle=runtime.allow_pickle)
        loaded, key = _LOADED.get(), (source, runtime.device)
        if loaded is None:
            return cls.from_source(source, runtime, states_only=states_only)
        # The engine's own model does not serve an encoder that reads the library's.
        if key not in loaded or (loaded[key]._runtime is not None and not states_only):
            loaded.clear()
            loaded[key] = cls.from_source(source, runtime, states_only=states_only)
        return loaded[key]._shared()

    def _shared(self) -> Backbone:
        """Modules and a tokenizer of its own around the same tensors."""
        other = Backbone(_modules_copied(self.network), copy.copy(self.reader), self.source)
        other._limits, other._runtime = self._limits, self._runtime
        return other

    @classmethod
    def from_source(cls, source: BackboneSource, runtime: Runtime, *, states_only: bool = False) -> Backbone:
        """Load in float32; with `states_only` the engine reads a plain BERT itself, sooner."""
        from zoo.engine.bert import read_plain_bert

        keep_few_kernels()
        plain = read_plain_bert(source.folder) if states_only else None
        if plain is None:
            return cls._from_library(source, runtime)
        network, reader = plain
        backbone = cls(network.to(runtime.device), reader, source)
        backbone._runtime = runtime
        return backbone

    @classmethod
    def _from_library(cls, source: BackboneSource, runtime: Runtime) -> Backbone:
        import torch
        from transformers import AutoModel, AutoTokenizer

        quiet()
        try:
            check_tokenizer_files(f"backbone {source.name!r}", source.folder)
            config = config_of(f"backbone {source.name!r}", source.folder)
            tokenizer = load_pretrained(AutoTokenizer, source.folder)
            check_vocabulary(f"backbone {source.name!r}", source.folder, tokenizer, config)
            model, loading = load_pretrained(
                AutoModel,
                source.folder,
                config=config,
                dtype=torch.float32,
                output_loading_info=True,
                use_safetensors=None if runtime.allow_pickle else True,
                **without_pooler(AutoModel._model_mapping[type(config)]),
            )
        except ZooError:
            raise
        except Exception as error:
            # An error of any kind means that this checkpoint cannot be used.
            raise cannot_load(f"backbone {source.name!r}", source.folder, error) from error
        encoder, missing = encoder_of(model), loading["missing_keys"]
        if encoder is not model:
            missing = {name for name in missing if not name.startswith("decoder.")}
        check_complete(f"backbone {source.name!r}", source.folder, missing, loading["unexpected_keys"])
        return cls(encoder.to(runtime.device).eval(), tokenizer, source)

    def to(self, device: str) -> Backbone:
        self.network.to(device)
        return self

    def weights_sha256(self) -> str:
        return sha256_weights(self.network)

    def write_checkpoint(self, folder: Path) -> None:
        from transformers import AutoModel

        self.model.config.save_pretrained(folder)
        backend: Any = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is not None:
            truncation, padding = self._limits
            backend.enable_truncation(**truncation) if truncation else backend.no_truncation()
            backend.enable_padding(**padding) if padding else backend.no_padding()
        self.tokenizer.save_pretrained(folder)
        # The encoder of a model with a decoder is saved under its names in the whole model, which loading looks for.
        known: Any = AutoModel._model_mapping[type(self.model.config)]
        with_head = isinstance(self.model, known)
        state = {name if with_head else f"encoder.{name}": weight for name, weight in self.model.state_dict().items()}
        write_tensors(folder / "model.safetensors", state, {"format": "pt"})

    def save(self, folder: Path, *, trained: bool) -> None:
        if trained:
            self.write_checkpoint(folder)
        write_json(
            folder / "backbone.json",
            {
                **self.source.identity(),
                **({"labelled": self.source.labelled} if self.source.labelled else {}),
                "location": self.source.location,
                "trained": trained,
            },
        )

    @classmethod
    def restore(cls, folder: Path, runtime: Runtime, *, states_only: bool = False) -> Backbone:
        saved = read_mapping(folder / "backbone.json")
        missing = [key for key in ("name", "revision", "location", "sha256", "trained") if key not in saved]
        if missing:
            raise CorruptError(f"{folder / 'backbone.json'} lacks the {missing[0]}; train the encoder again.")
        if saved["trained"]:
            # The library does not check the sha256.
            read_tensors(folder / "model.safetensors")
            source = BackboneSource(
                saved["name"],
                saved["revision"],
                saved["location"],
                folder,
                saved["sha256"],
                labelled=tuple(saved.get("labelled", ())),
            )
        else:
            source = find_backbone(saved["location"], saved["revision"], allow_pickle=runtime.allow_pickle)
            if source.sha256 != saved["sha256"]:
                raise CorruptError(
                    f"backbone {saved['name']!r} in {source.folder} is not the one {folder} was made with."
                )
        return cls.from_source(source, runtime, states_only=states_only)
