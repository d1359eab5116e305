"""States without padding and without the last layer's unread positions: those of the model's own forward."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone
from zoo.engine.batching import changed, host_of, to_device
from zoo.engine.states import NEEDS_ALL_LAYERS, Pooling, Rows, _attend, pool, pooled, token_states

LENGTHS = torch.tensor([9, 1, 5, 9, 2])


@pytest.fixture(params=["tiny_bert", "tiny_roberta"])
def model(request: pytest.FixtureRequest) -> Any:
    folder: Path = request.getfixturevalue(request.param)
    return Backbone.load(str(folder), None, Runtime()).model


def batch(model: Any, lengths: torch.Tensor = LENGTHS) -> tuple[torch.Tensor, torch.Tensor]:
    """Random ids of rows of these lengths, and their mask."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(10, model.config.vocab_size, (len(lengths), int(lengths.max())), generator=generator)
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    return torch.where(mask == 1, ids, model.config.pad_token_id), mask


def own_states(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
    states: tuple[torch.Tensor, ...] = model(
        input_ids=ids, attention_mask=mask, output_hidden_states=True
    ).hidden_states
    return states


@pytest.mark.parametrize("lengths", [LENGTHS, torch.tensor([4, 4, 4])], ids=["ragged", "equal"])
def test_states_are_those_of_the_models_own_forward(model: Any, lengths: torch.Tensor) -> None:
    ids, mask = batch(model, lengths)
    expected = own_states(model, ids, mask)
    states = token_states(model, ids, mask, every=True)
    assert len(states) == len(expected)
    for a, b in zip(states, expected, strict=True):
        torch.testing.assert_close(a[mask == 1], b[mask == 1], atol=1e-6, rtol=0)
    (last,) = token_states(model, ids, mask)
    torch.testing.assert_close(last, states[-1], atol=0, rtol=0)


def test_encoding_packs_few_sizes() -> None:
    """For each size oneDNN makes kernels anew, which cost a query alone an eighth of its time."""
    sizes, trained = set(), set()
    for length in range(1, 25):
        mask = (torch.arange(24) < length).long()[None]
        trained.add(len(Rows.of(mask, torch.float32).take(torch.zeros(1, 24, 1))))
        with torch.inference_mode():
            sizes.add(len(Rows.of(mask, torch.float32).take(torch.zeros(1, 24, 1))))
    assert sizes == {8, 16, 24} and len(trained) == 24


def test_a_text_that_takes_every_place_is_not_copied_and_has_the_bits_of_a_packed_one(model: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    for length in range(1, 17):
        width = -(-length // 8) * 8
        ids = torch.randint(5, model.config.vocab_size, (1, width), generator=generator)
        mask = (torch.arange(width) < length).long()[None]
        with torch.no_grad():
            (packed,) = token_states(model, ids, mask)
        with torch.inference_mode():
            (encoded,) = token_states(model, ids, mask)
            states = torch.zeros(1, width, 3)
            assert Rows.of(mask, torch.float32).take(states).data_ptr() == states.data_ptr()
        assert torch.equal(packed[:, :length], encoded[:, :length]), length


def test_one_position_of_each_row(model: Any) -> None:
    ids, mask = batch(model)
    at = LENGTHS - 1
    (states,) = token_states(model, ids, mask, at=at)
    expected = own_states(model, ids, mask)[-1][torch.arange(len(at)), at]
    torch.testing.assert_close(states, expected[:, None], atol=1e-6, rtol=0)


@pytest.mark.parametrize("how", ["cls", "last", "first-last-h0", "first-last-h1", "top2", "max"])
def test_pooled_and_gradients_of_all_weights(model: Any, how: Pooling) -> None:
    ids, mask = batch(model)
    weights = torch.linspace(-1, 1, len(ids) * model.config.hidden_size).view(len(ids), -1)

    def gradients(vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        model.zero_grad()
        (vectors * weights).sum().backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    states = own_states(model, ids, mask)
    expected = pool(states if how in NEEDS_ALL_LAYERS else states[-1:], mask, how)
    vectors = pooled(model, ids, mask, how)
    torch.testing.assert_close(vectors, expected, atol=1e-6, rtol=0)
    wanted, got = gradients(expected), gradients(vectors)
    assert wanted.keys() == got.keys()
    for name, gradient in wanted.items():
        torch.testing.assert_close(got[name], gradient, atol=1e-5, rtol=1e-5, msg=name)


def test_embeddings_and_positions_of_ones_own(model: Any) -> None:
    ids, mask = batch(model)
    embedded = model.get_input_embeddings()(ids).detach() + 0.1
    positions = torch.arange(ids.shape[1]).flip(0).expand_as(ids) + model.config.max_position_embeddings // 2
    expected = model(inputs_embeds=embedded, attention_mask=mask, position_ids=positions).last_hidden_state
    (states,) = token_states(model, ids, mask, inputs_embeds=embedded, position_ids=positions)
    torch.testing.assert_close(states[mask == 1], expected[mask == 1], atol=1e-6, rtol=0)


def test_dropout_in_training(tiny_bert: Path) -> None:
    """Every place that drops in the model's own training drops here, at the rate of the model's modules."""
    model = Backbone.load(str(tiny_bert), None, Runtime()).model.train()
    ids, mask = batch(model)
    still = token_states(model.eval(), ids, mask)[0]
    model.train()
    places = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Dropout)]
    assert len(places) == 1 + 3 * model.config.num_hidden_layers
    for chosen in places:
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.5 if name == chosen else 0.0
        assert not torch.equal(token_states(model, ids, mask)[0], still), chosen


def test_other_architectures_run_their_own_forward(tiny_bert: Path) -> None:
    from transformers import DistilBertConfig, DistilBertModel

    torch.manual_seed(0)
    model = DistilBertModel(DistilBertConfig(vocab_size=100, dim=32, n_layers=2, n_heads=2, hidden_dim=64)).eval()
    ids, mask = batch(model)
    expected = own_states(model, ids, mask)
    every = token_states(model, ids, mask, every=True)
    for a, b in zip(every, expected, strict=True):
        torch.testing.assert_close(a, b)
    (at,) = token_states(model, ids, mask, at=LENGTHS - 1)
    torch.testing.assert_close(at[:, 0], expected[-1][torch.arange(len(ids)), LENGTHS - 1])


def test_rows_that_share_memory_are_copied_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA refuses to pin a tensor whose rows are one row, as those of a template alone are."""
    pinned: list[bool] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: pinned.append(self.is_contiguous()) or self)
    with suppress(AssertionError, RuntimeError):  # no GPU
        to_device(torch.tensor([1, 2]).expand(3, -1), torch.device("cuda"))
    assert pinned == [True]


def test_the_host_keeps_the_values_of_a_changed_batch() -> None:
    on_device = to_device(torch.tensor([[1, 2], [3, 4]]), torch.device("meta"))
    assert host_of(changed(on_device, lambda batch: batch[::2])).tolist() == [[1, 2]]
    assert host_of(torch.tensor([5])).tolist() == [5]


@pytest.mark.parametrize("keys", [9, 70], ids=["short", "long"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("gradient", [True, False])
def test_attention_drops_weights_with_a_gradient_and_without(
    keys: int, dtype: torch.dtype, gradient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A momentum encoder, as PT-BERT's, has dropout without a gradient."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, keys, 8, generator=generator).to(dtype) for _ in range(3))
    bias = torch.zeros(2, 1, 1, keys, dtype=dtype)
    bias[1, ..., keys // 2 :] = -torch.inf
    scores = q.double() @ k.double().transpose(2, 3) / 8**0.5 + bias.double()
    expected = scores.softmax(-1) @ v.double()
    rates = []
    monkeypatch.setattr("zoo.engine.states.drop", lambda weights, rate: (rates.append(rate), 0.5 * weights)[1])
    with torch.set_grad_enabled(gradient):
        q.requires_grad_(gradient)
        alone, half = (_attend(q, k, v, bias, rate) for rate in (0.0, 0.25))
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(alone.double(), expected, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(half.double(), expected / 2, atol=tolerance, rtol=tolerance)
    assert rates == [0.25] and half.requires_grad == gradient
