"""Vocabulary of a training, its memory, and adapters."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaModel

from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone
from zoo.errors import ContractError, CorruptError, MissingError, UsageError
from zoo.files import read_json
from zoo.methods.pooled import Average
from zoo.methods.simcse import SimCSE
from zoo.training import lora
from zoo.training.graphs import needed
from zoo.training.optimizers import make_optimizer
from zoo.training.vocabulary import SubsetEmbedding, training_only

# Training only the met tokens' embeddings: the same weights as training them all, and nothing else changes.

IDS = torch.tensor([[2, 30, 31, 3], [2, 32, 3, 0], [2, 31, 3, 0]])
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 0]])


@pytest.fixture
def backbone(tiny_bert: Path) -> Backbone:
    """A random tiny BERT with weights of its own."""
    return Average(Average.Recipe(backbone=str(tiny_bert)), Runtime()).backbone


def steps(model: Any) -> None:
    """Three steps of Adam on the squares of the last states, clipped as in training, without dropout."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.0, fused=True)
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    for row in range(len(IDS)):
        optimizer.zero_grad()
        states = model(input_ids=IDS[row : row + 1], attention_mask=MASK[row : row + 1]).last_hidden_state
        (states * torch.linspace(-1, 1, states.numel()).view_as(states)).pow(3).sum().backward()
        torch.nn.utils.clip_grad_norm_(parameters, 0.1)
        optimizer.step()
    model.eval()


def test_the_weights_are_those_of_training_all(backbone: Backbone, tiny_bert: Path) -> None:
    """Adam's moments, clipping and the padding row included; unmet rows stay as they were."""
    other = Average(Average.Recipe(backbone=str(tiny_bert)), Runtime()).backbone
    start = backbone.model.get_input_embeddings().weight.detach().clone()
    embedding = backbone.model.get_input_embeddings()
    steps(other.model)
    met = IDS.unique()
    with training_only(backbone.model, met):
        assert sum(p.numel() for p in backbone.model.parameters()) < sum(p.numel() for p in other.model.parameters())
        steps(backbone.model)
        inside = backbone.model.get_input_embeddings()(torch.arange(len(start)))
    assert backbone.model.get_input_embeddings() is embedding
    ours, theirs = backbone.model.state_dict(), other.model.state_dict()
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=0, atol=1e-6, msg=name)
    unmet = torch.ones(len(start), dtype=torch.bool)
    unmet[met] = False
    assert torch.equal(embedding.weight[unmet], start[unmet])
    assert torch.equal(embedding.weight[0], start[0])  # padding
    assert not torch.allclose(embedding.weight[met[1:]], start[met[1:]], atol=1e-3)
    assert torch.equal(inside, embedding.weight)


def test_a_token_that_was_not_announced_is_refused(backbone: Backbone) -> None:
    """In training it would silently not learn; in evaluation every token is known."""
    with training_only(backbone.model, torch.tensor([2, 3])):
        backbone.model.train()
        with pytest.raises(ContractError, match="token 30 is in a batch"):
            backbone.model(input_ids=IDS[:1], attention_mask=MASK[:1])
        backbone.model.eval()
        backbone.model(input_ids=IDS[:1], attention_mask=MASK[:1])


def test_a_frozen_layer_stays_frozen(backbone: Backbone) -> None:
    """It is not trained by standing in for it."""
    backbone.model.requires_grad_(False)
    assert not SubsetEmbedding(backbone.model.get_input_embeddings(), torch.tensor([2, 3])).weight.requires_grad


# The formula of a training's memory against what autograd keeps and what weights and Adam hold.


def test_the_formula_is_near_what_a_batch_keeps(tiny_bert: Path) -> None:
    encoder = SimCSE(SimCSE.Recipe(backbone=str(tiny_bert), batch_size=8, train_max_length=64), Runtime())
    settings, objective = encoder.settings(), encoder.objective().train()
    named = list(objective.named_parameters())
    optimizer = make_optimizer(named, settings)
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, torch.nn.Parameter) and tensor.dim() < 4:  # fused attention keeps no scores
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    ids, mask = torch.full((8, 1, 64), 7), torch.ones(8, 1, 64, dtype=torch.int64)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        objective(ids, mask)
    fixed, batch = needed(objective, optimizer, settings.tokens, "fp32")
    assert settings.tokens == 2 * ids.numel()
    assert 0.6 < sum(kept.values()) / 1e9 / batch < 1.4
    assert abs(fixed * 1e9 - 16 * sum(p.numel() for _, p in named)) < 1e6


# Adapters beside peft itself: its files, its vectors, and the merged weights.

IDS_LORA = torch.arange(3, 15)[None]
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
        vectors: torch.Tensor = model(input_ids=IDS_LORA).last_hidden_state
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
