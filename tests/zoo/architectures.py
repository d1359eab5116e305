"""Ten architectures of the transformers library, tiny and random, each with its masked-language-model head."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

_COMMON = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
_BERT = {**_COMMON, "vocab_size": 30522, "max_position_embeddings": 128}
_ROBERTA = {**_COMMON, "vocab_size": 3000, "max_position_embeddings": 130, "pad_token_id": 1}
_DISTILBERT = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64, "vocab_size": 30522}
_RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 16, "share_att_key": True}
_IDS = {"pad_token_id": 0, "bos_token_id": 101, "eos_token_id": 102, "cls_token_id": 101, "sep_token_id": 102}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "albert": {**_BERT, "embedding_size": 16},  # factorised embeddings, no dropout
    "distilbert": {**_DISTILBERT, "max_position_embeddings": 128},
    "electra": {**_BERT, "embedding_size": 16},
    "mpnet": {**_BERT, "pad_token_id": 0},
    "deberta-v2": {
        **_BERT,
        **_RELATIVE,
        "norm_rel_ebd": "layer_norm",
        "type_vocab_size": 0,
        "position_biased_input": False,
    },
    "modernbert": {**_BERT, **_IDS},  # no dropout, no position embeddings
}


def make(name: str, folder: Path, wordpiece: Path, byte_level: Path) -> Path:
    """Write a checkpoint with its head; the tokenizer is that in `wordpiece` or, for RoBERTas, in `byte_level`."""
    import torch
    from transformers import AutoConfig, AutoModelForMaskedLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(name, **ARCHITECTURES[name])
    AutoModelForMaskedLM.from_config(config).save_pretrained(folder)
    tokenizer = byte_level if ARCHITECTURES[name] is _ROBERTA else wordpiece
    for path in tokenizer.glob("*token*"):
        shutil.copy(path, folder)
    return folder
