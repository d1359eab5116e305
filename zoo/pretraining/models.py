"""The model that a recipe trains, new or from a backbone, and its ancestry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from zoo.engine.backbone import BackboneSource, find_backbone
from zoo.engine.model_folder import cannot_load, check_tokenizer_files, config_of, load_pretrained
from zoo.errors import UsageError
from zoo.pretraining.recipe import PretrainRecipe

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

_KNOWN = ("bert", "roberta", "albert", "gpt2")


def new_model(recipe: PretrainRecipe, vocabulary: int, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """Return an untrained language model of the recipe's shape."""
    import transformers

    longest = max(512, *recipe.row_lengths)
    shape: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": recipe.width,
        "num_hidden_layers": recipe.layers,
        "num_attention_heads": recipe.heads,
        "intermediate_size": recipe.inner,
        **dropout_fields(recipe.architecture, recipe.dropout),
        "tie_word_embeddings": recipe.tie_embeddings,
        "pad_token_id": tokenizer.pad_token_id,
    }
    ends = {"bos_token_id": tokenizer.cls_token_id, "eos_token_id": tokenizer.sep_token_id}
    if recipe.architecture == "gpt2":
        shape["n_inner"] = shape.pop("intermediate_size")
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape, **ends, n_positions=longest))
    if recipe.architecture == "albert":
        albert = transformers.AlbertConfig(
            **shape, **ends, embedding_size=recipe.embedding or recipe.width, max_position_embeddings=longest,
            hidden_act="gelu",
        )  # fmt: skip
        return transformers.AlbertForMaskedLM(albert)
    if recipe.architecture == "roberta":
        # Positions start after padding's, and there is one token type.
        roberta = transformers.RobertaConfig(
            **shape, **ends, max_position_embeddings=longest + 1 + tokenizer.pad_token_id, type_vocab_size=1,
            layer_norm_eps=1e-5,
        )  # fmt: skip
        return transformers.RobertaForMaskedLM(roberta)
    return transformers.BertForMaskedLM(transformers.BertConfig(**shape, max_position_embeddings=longest))


def dropout_fields(model_type: str, rate: float) -> dict[str, float]:
    """Return the fields of a model's configuration that hold its rates of dropout, all with this one."""
    of_gpt2 = ("embd_pdrop", "attn_pdrop", "resid_pdrop")
    return dict.fromkeys(
        of_gpt2 if model_type == "gpt2" else ("hidden_dropout_prob", "attention_probs_dropout_prob"), rate
    )


def inner_width(config: PreTrainedConfig) -> int:
    """Return the width of the inner layers."""
    return int(config.n_inner or 4 * config.hidden_size) if config.model_type == "gpt2" else config.intermediate_size


def load_model(name: str, dropout: float | None = None) -> Any:
    """Return a backbone with its head in float32, a GPT-2 as a causal language model; without a head it gets a new one.

    Raises UsageError for a kind of model that cannot be trained here.
    """
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    folder = find_backbone(name).folder
    config = config_of(f"backbone {name!r}", folder)
    if config.model_type not in _KNOWN:
        raise UsageError(f"{name} is a {config.model_type} model; pretraining knows {', '.join(_KNOWN)}.")
    if dropout is not None:
        config.update(dropout_fields(config.model_type, dropout))
    kind = AutoModelForCausalLM if config.model_type == "gpt2" else AutoModelForMaskedLM
    try:
        return load_pretrained(kind, folder, config=config, dtype=torch.float32)
    except Exception as error:  # the library raises many kinds
        raise cannot_load(f"backbone {name!r}", folder, error) from error


def find_with_tokenizer(name: str, field: str) -> BackboneSource:
    """Return a backbone's source; raises MissingError or UsageError if it, or its tokenizer, is missing."""
    source = find_backbone(name)
    check_tokenizer_files(f"{field} {name!r}", source.folder)
    return source


def load_tokenizer(source: BackboneSource, field: str) -> PreTrainedTokenizerBase:
    """Return a backbone's tokenizer; raises UsageError if a token that masked training needs is missing."""
    from transformers import AutoTokenizer

    try:
        tokenizer: PreTrainedTokenizerBase = load_pretrained(AutoTokenizer, source.folder)
    except Exception as error:  # the library raises many kinds
        raise cannot_load(f"{field} {source.name!r}", source.folder, error) from error
    missing = [kind for kind in ("cls", "sep", "mask", "pad") if getattr(tokenizer, f"{kind}_token_id") is None]
    if missing:
        raise UsageError(f"{field} {source.name!r} has no {missing[0]} token; a masked language model needs one.")
    return tokenizer


def check_same_vocabulary(
    source: BackboneSource, tokenizer: PreTrainedTokenizerBase, field: str, tokenizer_name: str
) -> None:
    """Raise UsageError unless a model's vocabulary is the tokenizer's."""
    own = load_tokenizer(source, field).get_vocab()
    rows = int(config_of(f"backbone {source.name!r}", source.folder).vocab_size)
    if own != tokenizer.get_vocab():
        raise UsageError(
            f"{field} {source.name!r} has another vocabulary ({len(own):,} tokens) than the tokenizer"
            f" {tokenizer_name!r} ({len(tokenizer):,} tokens), so its token vectors would stand for other tokens; set"
            f" tokenizer={source.name}."
        )
    if rows < len(tokenizer):
        raise UsageError(
            f"{field} {source.name!r} has {rows:,} token vectors, but its tokenizer has {len(tokenizer):,} tokens;"
            " its files do not belong together."
        )


def ancestry(*sources: BackboneSource) -> dict[str, list[str]]:
    """Return the names of the ancestors of weights, and of those among them that were trained on labelled pairs."""
    ancestors = [name for source in sources for name in (source.name, *source.ancestors)]
    labelled = [name for source in sources for name in source.labelled]
    return {"ancestors": list(dict.fromkeys(ancestors)), "labelled": list(dict.fromkeys(labelled))}


def flops_per_token(recipe: PretrainRecipe, config: PreTrainedConfig, vocabulary: int, length: int) -> float:
    """Return FLOP of forward and backward per token of a row: layers, attention, and its share of the head.

    Computations that a recipe skips are counted too, so that skipping shows as a higher rate.
    """
    width, inner = config.hidden_size, inner_width(config)
    embedding = getattr(config, "embedding_size", width)
    layers = config.num_hidden_layers * (4 * width**2 + 2 * width * inner)
    attention = config.num_hidden_layers * 2 * length * width
    head = (1.0 if config.model_type == "gpt2" else recipe.mask_rate) * (width * embedding + embedding * vocabulary)
    return float(6.0 * (layers + attention + head))
