"""Adapters beside peft itself: its files, its vectors, and the merged weights."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaModel

from zoo.errors import CorruptError, MissingError, UsageError
from zoo.files import read_json
from zoo.training import lora

IDS = torch.arange(3, 15)[None]
SETTINGS = lora.LoraSettings(rank=4, alpha=6, dropout=0.1, targets=("q_proj", "down_proj"))


def llama() -> LlamaModel:
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    return LlamaModel(LlamaConfig(vocab_size=64, initializer_range=0.3, **shape)).eval()


def adapted(settings: lora.LoraSettings = SETTINGS) -> LlamaModel:
    model = lora.with_adapters(llama(), settings)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.3)
    return model


def states(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        vectors: torch.Tensor = model(input_ids=IDS).last_hidden_state
    return vectors


def test_new_adapters_change_nothing_and_alone_are_trained() -> None:
    model = lora.with_adapters(llama(), SETTINGS)
    assert torch.equal(states(model), states(llama())) and type(model) is LlamaModel
    trained = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert len(trained) == 8 and all("lora_" in name for name in trained)
    every = lora.with_adapters(llama(), lora.LoraSettings(rank=4, alpha=6))
    assert sum(weight.requires_grad for weight in every.parameters()) == 2 * 2 * 7


def test_peft_loads_the_adapters_and_we_load_peft_s(tmp_path: Path) -> None:
    model = adapted()
    assert float((states(model) - states(llama())).abs().max()) > 0.1
    lora.save_adapters(model, tmp_path / "ours")
    theirs = PeftModel.from_pretrained(llama(), tmp_path / "ours").eval()
    assert torch.equal(states(theirs), states(model))
    theirs.save_pretrained(tmp_path / "theirs")
    again = lora.load_adapters(llama(), tmp_path / "theirs")
    assert torch.equal(states(again), states(model))
    assert sum(weight.requires_grad for weight in again.parameters()) == 8
    ours, written = (read_json(tmp_path / side / "adapter_config.json") for side in ("ours", "theirs"))
    assert {**written, "target_modules": sorted(written["target_modules"])} == ours


def test_merged_weights_give_the_vectors_in_a_plain_model() -> None:
    model = adapted(lora.LoraSettings(rank=4, alpha=6))
    before = states(model)
    plain = lora.merged(model)
    torch.testing.assert_close(states(plain), before, rtol=0, atol=1e-5)
    assert plain.state_dict().keys() == llama().state_dict().keys() and not lora.has_adapters(plain)
    assert torch.equal(states(model), before) and lora.has_adapters(model)
    theirs = get_peft_model(llama(), LoraConfig(r=4, lora_alpha=6, target_modules="all-linear")).eval()
    weights = {name.removeprefix("base_model.model."): w for name, w in theirs.named_parameters()}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weights[name].copy_(weight)
    torch.testing.assert_close(states(theirs.merge_and_unload()), states(plain), rtol=0, atol=0)


def test_what_cannot_be_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"LlamaModel: Target modules .*quux"):
        lora.with_adapters(llama(), lora.LoraSettings(rank=4, alpha=6, targets=("quux",)))
    with pytest.raises(ValueError, match="above 0"):
        lora.LoraSettings(rank=0, alpha=6)
    lora.save_adapters(adapted(), tmp_path)
    path = tmp_path / "adapter_model.safetensors"
    good = path.read_bytes()
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(CorruptError, match="adapter_model"):
        lora.load_adapters(llama(), tmp_path)
    lora.save_adapters(adapted(), tmp_path / "other")
    path.write_bytes(good)
    config = tmp_path / "adapter_config.json"
    config.write_text(config.read_text().replace('"down_proj"', '"up_proj"'))
    with pytest.raises(CorruptError, match="does not fit its model"):
        lora.load_adapters(llama(), tmp_path)
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingError, match=r"pip install 'zoo-bench\[peft\]'"):
        lora.with_adapters(llama(), SETTINGS)
