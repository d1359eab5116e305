"""Training only the met tokens' embeddings: the same weights as training them all, and nothing else changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone
from zoo.errors import ContractError
from zoo.methods.pooled import Average
from zoo.training.vocabulary import SubsetEmbedding, training_only

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
