"""Encoders as sentence-transformers folders, for use and publication without this project."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from zoo.check import PROBES, TOLERANCE, deviation
from zoo.encoder import Encoder
from zoo.engine.backbone import Backbone, without_pooler
from zoo.engine.states import Pooling
from zoo.errors import ContractError, UsageError
from zoo.files import read_json, write_json, write_sums, write_text, writing
from zoo.plugins import METHODS
from zoo.roles import Role, RoleText, encode_alike
from zoo.tensors import write_tensors

if TYPE_CHECKING:
    import torch
    from sentence_transformers.sentence_transformer.modules import Dense, Module
    from tokenizers import Tokenizer


EXPORTED_POOLINGS = {"cls": "cls", "mean": "mean", "last": "mean", "max": "max", "lasttoken": "lasttoken"}
"""Poolings of the last layer and their names in the library, which can pool no other layer."""


@dataclass(frozen=True)
class StockModules:
    """A transformer, the pooling of its last layer, and further modules of the library."""

    backbone: Backbone
    pooling: Pooling | Literal["lasttoken"]  # one of EXPORTED_POOLINGS
    max_length: int
    after: Sequence[Module] = ()
    # of a text, in the language of templates for chats
    template: str | None = None


@dataclass(frozen=True)
class StaticModules:
    """Mean of a text's rows in a table (vocabulary, dim), scaled to length 1."""

    tokenizer: Tokenizer
    table: torch.Tensor


def dense(weight: torch.Tensor, bias: torch.Tensor, activation: Literal["Tanh", "Identity"]) -> Dense:
    """The library's linear layer, weight (out, in) and bias (out,), float32, with activation."""
    from sentence_transformers.sentence_transformer.modules import Dense
    from torch import nn

    outputs, inputs = weight.shape
    layer = Dense(inputs, outputs, activation_function=getattr(nn, activation)())
    layer.linear.load_state_dict({"weight": weight, "bias": bias})
    return layer.requires_grad_(False)


_KINDS: dict[Role | None, str] = {None: "", "query": " of queries", "document": " of documents"}
_MODES = "cls_token", "mean_tokens", "max_tokens", "lasttoken"
_OUTPUT = {"method": "forward", "method_output_name": "last_hidden_state"}
_MODALITIES = {"text": _OUTPUT, "message": {**_OUTPUT, "format": "flat"}}
_PACKAGE = "sentence_transformers.models"  # as in released models; version 6.2 of the package accepts it too


@runtime_checkable
class Exportable(Protocol):
    def stock_modules(self) -> StockModules | StaticModules: ...


def write_sentence_transformers(encoder: Encoder, folder: Path, texts: Mapping[str, str] | None = None) -> None:
    """Write a new folder, checked by reading for equal vectors; `texts` are further files, such as README.md.

    Raises UsageError for an encoder beyond the stock modules, and for an existing folder.
    """
    modules = modules_of(encoder)
    if folder.exists():
        raise UsageError(f"{folder} exists; name a new folder.")
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
            target = Path(temporary) / folder.name
            if isinstance(modules, StaticModules):
                _write_static(modules, target)
            else:
                _write(modules, target)
                write_json(target / "config_sentence_transformers.json", encoder.roles.card())
            reader = METHODS.get("pretrained")
            again = reader(reader.Recipe(model=str(target)), encoder.runtime)
            for role, kind in _KINDS.items():
                probes = [RoleText(text, role) for text in PROBES]
                off = deviation(encode_alike(again, probes), encode_alike(encoder, probes))
                if off > TOLERANCE[encoder.runtime.precision]:
                    raise ContractError(
                        f"{type(encoder).__name__}: its vectors{kind} are not those of the exported folder (largest"
                        f" deviation {off:.1e}); nothing was written."
                    )
            for file, text in (texts or {}).items():
                write_text(target / file, text)
            write_sums(target)
            target.replace(folder)


def modules_of(encoder: Encoder) -> StockModules | StaticModules:
    """Stock modules of sentence-transformers; raises UsageError if they cannot express the encoder."""
    if type(encoder).traits(encoder.recipe).exports and isinstance(encoder, Exportable):
        return encoder.stock_modules()
    raise UsageError(
        f"{type(encoder).__name__} computes its vectors in a way that sentence-transformers has no stock module for."
        " It has modules for a pooling of the last layer and one linear map, the same for all texts, and for a mean"
        " over one table."
    )


def _write(encoder: StockModules, folder: Path) -> None:
    backbone = encoder.backbone
    backbone.write_checkpoint(folder)
    _complete(backbone.tokenizer, folder, encoder.template)
    limits = {"max_seq_length": encoder.max_length, "do_lower_case": False}
    # The weights have no pooler; loading would initialise one at random and report it as missing.
    unused = without_pooler(type(backbone.model))
    templated = {"modality_config": _MODALITIES, "module_output_name": "token_embeddings"}
    more = ({"model_args": unused} if unused else {}) | (templated if encoder.template else {})
    write_json(folder / "sentence_bert_config.json", limits | more)
    how = EXPORTED_POOLINGS[encoder.pooling]
    modes = {f"pooling_mode_{mode}": mode.startswith(how) for mode in _MODES}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": backbone.dim, **modes})
    modules = [_listed(0, "", "Transformer"), _listed(1, "1_Pooling", "Pooling")]
    for number, module in enumerate(encoder.after, 2):
        kind = type(module).__name__
        place = f"{number}_{kind}"
        (folder / place).mkdir()
        modules.append(_listed(number, place, kind))
        module.save(str(folder / place))
    write_json(folder / "modules.json", modules)


def _complete(tokenizer: Any, folder: Path, template: str | None) -> None:
    """Write the template, and set any padding token if a tokenizer has none: the library needs it, no mask reads it."""
    more = {} if template is None else {"chat_template": template}
    if tokenizer.pad_token is None:
        more["pad_token"] = tokenizer.eos_token or tokenizer.unk_token or tokenizer.convert_ids_to_tokens(0)
    if more:
        path = folder / "tokenizer_config.json"
        write_json(path, {**read_json(path), **more})


def _write_static(encoder: StaticModules, folder: Path) -> None:
    (folder / "1_Normalize").mkdir(parents=True)
    write_tensors(folder / "model.safetensors", {"embeddings": encoder.table})
    write_text(folder / "tokenizer.json", encoder.tokenizer.to_str())
    config = {"model_type": "model2vec", "architectures": ["StaticModel"], "hidden_dim": encoder.table.shape[1]}
    write_json(folder / "config.json", {**config, "normalize": True, "max_length": None})
    write_json(folder / "modules.json", [_listed(0, ".", "StaticEmbedding"), _listed(1, "1_Normalize", "Normalize")])


def _listed(number: int, path: str, kind: str) -> dict[str, object]:
    return {"idx": number, "name": str(number), "path": path, "type": f"{_PACKAGE}.{kind}"}
