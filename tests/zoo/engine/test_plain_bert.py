"""A plain BERT is read without the transformers library, with the library's states and ids; any other is left to it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone
from zoo.engine.bert import Bert, read_plain_bert
from zoo.engine.states import token_states
from zoo.engine.tokens import tokenise
from zoo.methods.pooled import Average

RUNTIME = Runtime()
TEXTS = [
    "a small dog",
    "A Puppy is running - fast! é ñ 中文 [MASK] x[SEP]",
    "",
    "naïve \t \x00 😀",
    "w" * 150 + " the" * 600,
]

_SCRIPT = """
import sys
from zoo.api import create
for recipe in ("avg-last", "cls:backbone=zoo-mini", "avg-last:layers=first-last-h0"):
    create(recipe).encode(["a small dog", "stocks fell"])
print("transformers" in sys.modules, "torch._dynamo" in sys.modules)
"""


def change_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_untrained_states_of_a_bundled_backbone_need_no_transformers() -> None:
    child = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    assert child.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("lower", [True, False])
def test_states_ids_and_weights_are_those_of_the_library(copied: Path, lower: bool) -> None:
    change_json(copied / "tokenizer_config.json", do_lower_case=lower)
    backbone = Backbone.load(str(copied), None, RUNTIME, states_only=True)
    assert isinstance(backbone.network, Bert)
    model, tokenizer = AutoModel.from_pretrained(copied).eval(), AutoTokenizer.from_pretrained(copied)
    for special in (True, False):
        for most in (None, 12):
            wanted, read = (
                tokenise(t, TEXTS, max_length=most, add_special_tokens=special) for t in (tokenizer, backbone.reader)
            )
            assert np.array_equal(wanted.ids, read.ids) and np.array_equal(wanted.offsets, read.offsets)
            assert wanted.truncated == read.truncated
    table = tokenise(tokenizer, TEXTS, max_length=20)
    ids, mask = table.padded(range(len(table)), 0)
    with torch.inference_mode():
        for wanted_states, states in zip(
            token_states(model, ids, mask, every=True),
            token_states(backbone.network, ids, mask, every=True),
            strict=True,
        ):
            assert torch.equal(wanted_states[mask == 1], states[mask == 1])
    by_engine = backbone.weights_sha256(), backbone.dim, backbone.pad_id, backbone.max_length
    assert type(backbone.model).__name__ == "BertModel" and backbone.network is backbone.model
    assert by_engine == (backbone.weights_sha256(), backbone.dim, backbone.pad_id, backbone.max_length)


def test_asking_for_the_librarys_model_draws_nothing(copied: Path) -> None:
    backbone = Backbone.load(str(copied), None, RUNTIME, states_only=True)
    torch.manual_seed(7)
    wanted = torch.rand(3)
    torch.manual_seed(7)
    assert backbone.model.training is False
    assert torch.equal(torch.rand(3), wanted)


def drop_weight(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights.pop(next(name for name in weights if name.endswith("layer.0.output.dense.bias")))
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


CHANGES: dict[str, Callable[[Path], None]] = {
    "another activation": lambda folder: change_json(folder / "config.json", hidden_act="relu"),
    "other positions": lambda folder: change_json(folder / "config.json", position_embedding_type="relative_key"),
    "a decoder": lambda folder: change_json(folder / "config.json", is_decoder=True),
    "another architecture": lambda folder: change_json(folder / "config.json", model_type="roberta"),
    "an unknown entry": lambda folder: change_json(folder / "config.json", chunk_size_feed_forward=1),
    "another size": lambda folder: change_json(folder / "config.json", intermediate_size=7),
    "a broken configuration": lambda folder: (folder / "config.json").write_text("{"),
    "a weight is missing": drop_weight,
    "broken weights": lambda folder: (folder / "model.safetensors").write_bytes(b"x" * 100),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "another tokenizer": lambda folder: change_json(
        folder / "tokenizer_config.json", tokenizer_class="ElectraTokenizer"
    ),
    "another special token": lambda folder: change_json(folder / "tokenizer_config.json", cls_token="<s>"),
    "words that are never split": lambda folder: change_json(folder / "tokenizer_config.json", never_split=["a"]),
    "an added token": lambda folder: change_json(folder / "tokenizer.json", added_tokens=[]),
    "no tokenizer": lambda folder: (folder / "tokenizer.json").unlink(),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_no_plain_bert_is_left_to_the_library(copied: Path, what: str) -> None:
    assert read_plain_bert(copied) is not None
    CHANGES[what](copied)
    assert read_plain_bert(copied) is None


def test_a_trained_copy_is_read_too(copied: Path, tmp_path: Path) -> None:
    """Weights without the prefix of a head, and the files that the library writes."""
    encoder = Average(Average.Recipe(backbone=str(copied)), RUNTIME)
    with torch.no_grad():
        encoder.backbone.model.get_input_embeddings().weight.add_(0.5)
    encoder.trained = True
    encoder.save(tmp_path / "saved")
    restored = Average.load(tmp_path / "saved", RUNTIME)
    assert isinstance(restored.backbone.network, Bert)
    assert np.array_equal(restored.encode(TEXTS[:3]), encoder.encode(TEXTS[:3]))
