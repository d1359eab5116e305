"""Cheap dropout: its rate, its scale, its gradient, and that the seed alone decides it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModel

from zoo.engine.dropout import Dropout, cheapen_dropout, dropout, has_dropout, set_dropout


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rate", [0.05, 0.1, 0.5, 0.9])
def test_rate_and_scale(rate: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    n = 400_003  # no multiple of four
    dropped = dropout(torch.ones(n, dtype=dtype), rate)
    share = float((dropped == 0).float().mean())
    assert abs(share - rate) < 4 * math.sqrt(rate * (1 - rate) / n)
    kept = dropped[dropped != 0].float()
    assert (kept - 1 / (1 - rate)).abs().max() < (1e-4 if dtype == torch.float32 else 0.01) / (1 - rate)


def test_elements_are_dropped_independently() -> None:
    """Neighbours share a draw of 64 bits: their masks are still uncorrelated, at every distance within it."""
    torch.manual_seed(1)
    kept = (dropout(torch.ones(400_000), 0.3) != 0).double() - 0.7
    for distance in (1, 2, 3, 4, 5):
        correlation = float((kept[distance:] * kept[:-distance]).mean()) / (0.3 * 0.7)
        assert abs(correlation) < 4 / math.sqrt(400_000), distance


def test_gradient_goes_where_the_values_went() -> None:
    torch.manual_seed(2)
    x = torch.randn(50, 7, requires_grad=True)
    y = dropout(x, 0.4)
    (y * 3).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x.detach(), 3 * y.detach())


def test_the_seed_decides() -> None:
    x = torch.ones(1000)
    masks = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        masks.append(dropout(x, 0.1))
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_ends(rate: float) -> None:
    assert torch.equal(dropout(torch.ones(10), rate), torch.full((10,), 1 - rate))


def test_modules_are_exchanged_with_their_rate_and_mode() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.3), nn.Sequential(nn.Dropout(0.7), nn.AlphaDropout(0.2))).eval()
    names = list(model.state_dict())
    cheapen_dropout(model)
    dropouts = [module for module in model.modules() if isinstance(module, Dropout)]
    assert [module.p for module in dropouts] == [0.3, 0.7]
    assert not any(module.training for module in dropouts)
    assert isinstance(model[2][1], nn.AlphaDropout)
    assert list(model.state_dict()) == names
    x = torch.ones(100)
    assert torch.equal(dropouts[0](x), x)
    assert (dropouts[0].train()(x) == 0).any()


@pytest.mark.parametrize(("kind", "rate"), [("llama", 0.0), ("opt", 0.1), ("albert", 0.1)])
def test_a_rate_is_set_also_where_modules_draw_by_themselves(kind: str, rate: float) -> None:
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 50}
    more = {"albert": {"embedding_size": 16, "attention_probs_dropout_prob": rate}, "opt": {"word_embed_proj_dim": 32}}
    model = AutoModel.from_config(AutoConfig.for_model(kind, **shape, **more.get(kind, {}))).train()
    ids = torch.arange(2, 40)[None]
    for number in (rate, 0.0, 0.5):
        set_dropout(model, number)
        first, second = (model(input_ids=ids).last_hidden_state for _ in range(2))
        assert has_dropout(model) == (number > 0) != torch.equal(first, second)
