"""What methods need of a backbone, in one table: asked before a training, and of its files before weights are read."""

from __future__ import annotations

import functools
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from zoo.engine.model_folder import cannot_load, check_tokenizer_files, config_of, load_pretrained
from zoo.errors import UsageError

if TYPE_CHECKING:
    from zoo.engine.backbone import Backbone, BackboneSource

Need = Literal["mask token", "padding token", "MLM head", "first token"]

# What a backbone without it lacks, and what a user does then.
_LACKS: dict[Need, tuple[str, str]] = {
    "mask token": ("its tokenizer has no mask token", "take a masked language model, such as zoo-small"),
    "padding token": (
        "its tokenizer has no padding token",
        "set one (tokenizer.pad_token = tokenizer.eos_token) and save the tokenizer into the folder",
    ),
    "MLM head": ("its architecture has no MLM head", "take a masked language model, such as zoo-small"),
    "first token": (
        "its first token sees no other, so that texts that begin alike have one vector",
        "read the mean: avg-last, or pooler=avg (pooling=mean) of this recipe",
    ),
}


def check_files(source: BackboneSource, needs: Collection[Need], recipe: str) -> None:
    """Raise UsageError where a checkpoint's tokenizer and configuration show that it lacks what a recipe needs."""
    if not needs:
        return
    what = f"backbone {source.name!r}"
    for need in sorted(needs):
        if need == "MLM head":
            lacking = not _has_mlm_head(what, source.folder)
        else:
            lacking = need != "first token" and need not in _special_tokens(what, source.folder)
        if lacking:
            raise _refused(source.name, need, recipe)


def check_first_token(backbone: Backbone, recipe: str) -> None:
    """Raise UsageError for a causal backbone, for a method that reads the state of the first token."""
    if not sees_later_tokens(backbone):
        raise _refused(backbone.source.name, "first token", recipe)


def sees_later_tokens(backbone: Backbone) -> bool:
    """Return whether the state of a first token depends on the second one."""
    import torch

    from zoo.engine.states import token_states

    last, device = backbone.token_vectors.shape[0] - 1, backbone.token_vectors.device
    pairs = torch.tensor([[last, last - 1], [last, last - 2]], device=device)
    with torch.no_grad():
        first, other = token_states(backbone.network, pairs, torch.ones_like(pairs))[0][:, 0].float()
    return not torch.allclose(first, other, atol=1e-3)


def _refused(name: str, need: Need, recipe: str) -> UsageError:
    lacks, remedy = _LACKS[need]
    reads = "reads [CLS], the first token's state" if need == "first token" else f"needs a backbone with its {need}"
    return UsageError(f"{recipe} {reads}, and of {name!r} {lacks}; {remedy}.")


@functools.cache
def _special_tokens(what: str, folder: Path) -> frozenset[str]:
    """Return the special tokens that a folder's tokenizer has, by the names of `Need`."""
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
