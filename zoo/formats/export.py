"""An encoder as a sentence-transformers folder, for use and publication where this project is not installed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from zoo.conformance import PROBES, TOLERANCE, deviation
from zoo.encoder import Encoder
from zoo.engine.backbone import Backbone
from zoo.errors import ContractError, UsageError, ZooError
from zoo.files import write_json, write_sums, write_text
from zoo.formats.sentence_transformers import IDENTITY, TANH, Dense, Normalize
from zoo.methods.base import BackboneEncoder
from zoo.methods.contrastive import Contrastive
from zoo.methods.pretrained import Pretrained
from zoo.methods.whitening import Whitening
from zoo.modules.heads import TanhHead

_POOLING = {"cls": "cls", "mean": "mean", "last": "mean", "max": "max"}
_PACKAGE = "sentence_transformers.models"  # as released models name them; version 6.2 maps them to its own


def export(encoder: Encoder, folder: Path, *, card: str = "") -> None:
    """Write a new folder that sentence-transformers opens; what was written is read again and gives the same vectors.

    `card` becomes its README.md. Raises UsageError for an encoder that the package's stock modules cannot express, and
    for a folder that exists.
    """
    inner, after = _modules(encoder)
    if folder.exists():
        raise UsageError(f"{folder} exists; name a new folder.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
            made = Path(temporary) / folder.name
            _write(inner, after, made)
            again = Pretrained(Pretrained.Recipe(model=str(made)), encoder.runtime)
            off = deviation(again.encode(list(PROBES)), encoder.encode(list(PROBES)))
            if off > TOLERANCE[encoder.runtime.precision]:
                raise ContractError(
                    f"{type(encoder).__name__}: its vectors are not those of the exported folder (largest deviation"
                    f" {off:.1e}); nothing was written."
                )
            if card:
                write_text(made / "README.md", card)
            write_sums(made)
            made.replace(folder)
    except OSError as error:
        raise ZooError(f"cannot write {folder}: {error.strerror or error}. Name another folder.") from error


def _modules(encoder: Encoder) -> tuple[BackboneEncoder, list[Dense | Normalize]]:
    """Return the encoder whose states are pooled, and what is done to the pooled vectors."""
    what = type(encoder).__name__
    if isinstance(encoder, Whitening):
        if encoder.recipe.fit_on == "target":
            raise UsageError("whitening is fitted on each task's texts here, so that there is no one map to export.")
        inner, after = _modules(encoder.base)
        kernel, shift = encoder.kernel.T, -encoder.mean @ encoder.kernel
        return inner, [*after, Dense(torch.tensor(kernel), torch.tensor(shift), IDENTITY), Normalize()]
    if isinstance(encoder, Pretrained) and encoder.library is None:
        after = list(encoder.layout.after)
    elif isinstance(encoder, Contrastive) and type(encoder).forward is Contrastive.forward:
        after = [] if encoder.mlp is None else [_dense(encoder.mlp)]
    elif isinstance(encoder, BackboneEncoder) and _only_pools(type(encoder)):
        after = []
    else:
        raise UsageError(f"{what} computes its vectors in a way that sentence-transformers has no stock module for.")
    if encoder.pooling not in _POOLING:
        raise UsageError(f"{what} pools {encoder.pooling}; sentence-transformers' pooling knows the last layer only.")
    return encoder, after


def _only_pools(cls: type[BackboneEncoder]) -> bool:
    return cls.forward is BackboneEncoder.forward and cls.pooling is not BackboneEncoder.pooling


def _dense(head: torch.nn.Module) -> Dense:
    if not isinstance(head, TanhHead):
        raise UsageError(f"the head {type(head).__name__} is no Dense module of sentence-transformers.")
    return Dense(head.dense.weight.detach(), head.dense.bias.detach(), TANH)


def _write(inner: BackboneEncoder, after: list[Dense | Normalize], folder: Path) -> None:
    backbone: Backbone = inner.backbone
    backbone.write_checkpoint(folder)
    lower = isinstance(inner, Pretrained) and inner.layout.lower_case
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": inner.length_limit, "do_lower_case": lower})
    write_json(folder / "config_sentence_transformers.json", {"similarity_fn_name": "cosine"})
    how = _POOLING[inner.pooling]
    modes = {f"pooling_mode_{mode}": mode.startswith(how) for mode in ("cls_token", "mean_tokens", "max_tokens")}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": backbone.dim, **modes})
    modules = [_listed(0, "", "Transformer"), _listed(1, "1_Pooling", "Pooling")]
    for number, module in enumerate(after, 2):
        kind = type(module).__name__
        place = f"{number}_{kind}"
        (folder / place).mkdir()
        modules.append(_listed(number, place, kind))
        if isinstance(module, Dense):
            module.write(folder / place)
    write_json(folder / "modules.json", modules)


def _listed(number: int, path: str, kind: str) -> dict[str, Any]:
    return {"idx": number, "name": str(number), "path": path, "type": f"{_PACKAGE}.{kind}"}
