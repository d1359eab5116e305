"""Methods' needs of a backbone in one table, checked by its files before weights are read."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from zoo.engine.model_folder import cannot_load, check_tokenizer_files, config_of, load_pretrained
from zoo.errors import UsageError

if TYPE_CHECKING:
    from zoo.engine.backbone import Backbone, BackboneSource

Need = Literal["mask token", "padding token", "MLM head", "first token"]

_MASKED = "take a masked language model, such as zoo-small"
# Settings by which a recipe reads the mean.
_MEANS = {"pooler": "avg", "pooling": "mean"}
# What is said of a backbone that lacks it, and what a user does then.
_REFUSALS: dict[Need, tuple[str, str]] = {
    "mask token": ("needs a mask token, which the tokenizer of backbone {!r} lacks", _MASKED),
    "padding token": (
        "needs a padding token, which the tokenizer of backbone {!r} lacks",
        "set tokenizer.pad_token = tokenizer.eos_token and save the tokenizer into the folder",
    ),
    "MLM head": ("needs an MLM head, which the architecture of backbone {!r} lacks", _MASKED),
    "first token": (
        "reads [CLS], and the first token of backbone {!r} sees no other: texts that begin alike would share a vector",
        "read the mean",
    ),
}


def check_files(source: BackboneSource, needs_of: Callable[[Any], Collection[Need]], recipe: object) -> None:
    """Raise UsageError if tokenizer and configuration lack a recipe's need."""
    what = f"backbone {source.name!r}"
    for need in sorted(needs_of(recipe)):
        if need == "MLM head":
            lacking = not _has_mlm_head(what, source.folder)
        else:
            lacking = need != "first token" and need not in _special_tokens(what, source.folder)
        if lacking:
            raise _refused(source.name, need)


def check_first_token(backbone: Backbone, needs_of: Callable[[Any], Collection[Need]], recipe: object) -> None:
    """Raise UsageError, with the mean of the recipe's own keys, if its first token sees no other."""
    if "first token" in needs_of(recipe) and not sees_later_tokens(backbone):
        raise _refused(backbone.source.name, "first token", _mean_instead(needs_of, recipe))


def sees_later_tokens(backbone: Backbone) -> bool:
    """True if the first token's state depends on the second token."""
    import torch

    from zoo.engine.states import token_states

    last, device = backbone.token_vectors.shape[0] - 1, backbone.token_vectors.device
    pairs = torch.tensor([[last, last - 1], [last, last - 2]], device=device)
    with torch.no_grad():
        first, other = token_states(backbone.network, pairs, torch.ones_like(pairs))[0][:, 0].float()
    return not torch.allclose(first, other, atol=1e-3)


def _mean_instead(needs_of: Callable[[Any], Collection[Need]], recipe: Any) -> str:
    for key in [field.name for field in fields(recipe) if field.name in _MEANS]:
        # A recipe may refuse the mean.
        with contextlib.suppress(ValueError):
            if "first token" not in needs_of(replace(recipe, **{key: _MEANS[key]})):
                return f", by this recipe's {key}={_MEANS[key]}"
    return " by another method, such as avg-last"


def _refused(name: str, need: Need, instead: str = "") -> UsageError:
    lacks, remedy = _REFUSALS[need]
    return UsageError(f"the recipe {lacks.format(name)}; {remedy}{instead}.")


@functools.cache
def _special_tokens(what: str, folder: Path) -> frozenset[str]:
    from transformers import AutoTokenizer

    check_tokenizer_files(what, folder)
    try:
        tokenizer = load_pretrained(AutoTokenizer, folder)
    except Exception as error:
        # The library raises many kinds.
        raise cannot_load(what, folder, error) from error
    tokens = {"mask token": tokenizer.mask_token, "padding token": tokenizer.pad_token}
    return frozenset(name for name, token in tokens.items() if token is not None)


@functools.cache
def _has_mlm_head(what: str, folder: Path) -> bool:
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    return type(config_of(what, folder)) in MODEL_FOR_MASKED_LM_MAPPING
