"""Weights at rest and weights that are cast together: the products, losses and gradients of PyTorch's own."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import zoo.engine.narrow as narrow_products
from zoo.encoder import Runtime
from zoo.engine import batching
from zoo.engine.narrow import NarrowWeights, all_rows_alike, linear, resting_weights
from zoo.methods.pretrained import Pretrained


def maps(count: int, bias: bool = True) -> list[nn.Linear]:
    torch.manual_seed(0)
    return [nn.Linear(48, 32 + 16 * i, bias=bias) for i in range(count)]


@pytest.mark.parametrize("gelu", [False, True])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("count", [1, 3])
def test_the_product_of_all_maps(count: int, bias: bool, gelu: bool) -> None:
    layers, x = maps(count, bias), torch.randn(7, 5, 48)
    expected = torch.cat([layer(x) for layer in layers], -1)
    expected = F.gelu(expected) if gelu else expected
    with torch.inference_mode():
        plain = linear(layers, x, gelu=gelu)
        with resting_weights():
            first, again = (linear(layers, x, gelu=gelu) for _ in range(2))
    for product in (plain, first, again):
        torch.testing.assert_close(product, expected.detach(), atol=1e-5, rtol=0)


def test_a_bias_in_some_of_the_maps_only() -> None:
    layers, x = [*maps(1), *maps(1, bias=False)], torch.randn(7, 48)
    with torch.inference_mode(), resting_weights():
        product = linear(layers, x)
        torch.testing.assert_close(product, torch.cat([layer(x) for layer in layers], -1), atol=1e-5, rtol=0)


def test_in_bfloat16_under_autocast() -> None:
    layers, x = maps(2), torch.randn(9, 48)
    with torch.inference_mode(), resting_weights(), torch.autocast("cpu", dtype=torch.bfloat16):
        product = linear(layers, x, gelu=True)
        expected = F.gelu(torch.cat([layer(x) for layer in layers], -1))
    assert product.dtype == torch.bfloat16
    torch.testing.assert_close(product, expected, atol=0.02, rtol=0.02)


def test_a_changed_weight_is_seen_outside_and_in_the_next_rest() -> None:
    (layer,) = maps(1)
    x = torch.randn(3, 48)
    with torch.inference_mode(), resting_weights(keep=True):
        linear([layer], x)
    with torch.no_grad():
        layer.weight.data.mul_(2)  # as a momentum encoder's: no version is counted
        with resting_weights(keep=True):
            torch.testing.assert_close(linear([layer], x), layer(x), atol=1e-5, rtol=0)


def test_gradients_and_hooks_are_respected() -> None:
    (layer,) = maps(1)
    x = torch.randn(3, 48)
    with resting_weights():
        linear([layer], x).sum().backward()
        assert layer.weight.grad is not None
        layer.register_forward_hook(lambda *_: torch.zeros(()))
        with torch.inference_mode():
            assert float(linear([layer], x)) == 0


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.unbiased = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8, bias=False)
        self.frozen, self.unused = nn.Linear(8, 8).requires_grad_(False), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = linear([self.first, self.second], x).chunk(2, 1)
        c = self.unbiased(self.first(a) * self.first(b))  # joined once, and alone twice
        with torch.autocast("cpu", enabled=False):
            loss: torch.Tensor = (self.frozen(c.float()) ** 2).sum()
        return loss


@pytest.mark.parametrize("steps", [1, 3])
def test_losses_and_gradients_are_those_of_autocast(steps: int) -> None:
    results = []
    for together in (False, True):
        net, narrow = Net(), NarrowWeights(torch.device("cpu"))
        optimizer = torch.optim.SGD(net.parameters(), 0.01)
        for _ in range(steps):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16), narrow() if together else nullcontext():
                loss = net(torch.linspace(-1, 1, 32).view(4, 8))
            loss.backward()
            narrow.known = True
            optimizer.step()
        assert net.first.weight.dtype == torch.float32 and net.unused.weight.grad is None
        results.append([loss, *(p.grad for p in net.parameters() if p.grad is not None)])
        if together:
            assert set(narrow.maps) == {(net.first, net.second), (net.first,), (net.unbiased,)}
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert len(results[0]) == 6


def test_weights_are_packed_for_the_first_query_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packing costs as much as many texts; the vectors are the same to the bit."""
    encoder = Pretrained(Pretrained.Recipe(model="zoo-small", pooling="mean"), Runtime())
    kept: list[int] = []

    def counted(weight: torch.Tensor, size: object) -> torch.Tensor:
        kept.append(1)
        packed: torch.Tensor = pack(weight, size)
        return packed

    pack = torch.ops.mkldnn._reorder_linear_weight
    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", counted)
    texts = [f"a dog and {n} cats sleep in the old house" for n in range(250)]
    alone = encoder.encode(texts[:1])
    packed_for_one = len(kept)
    assert packed_for_one
    np.testing.assert_array_equal(encoder.encode(texts)[:1], alone)
    assert len(kept) == packed_for_one


def product(name: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if name == "sdpa":
        queries, keys = x.view(2, 3, 5, 8), y.view(2, 3, 5, 8)
        return F.scaled_dot_product_attention(queries, keys, keys, attn_mask=torch.ones(5, 5, dtype=torch.bool))
    x, y = x.view(30, 8), y.view(30, 8)
    return F.linear(x, y) if name == "linear" else x @ y.T


@pytest.mark.parametrize("name", ["linear", "matmul", "sdpa"])
def test_where_bfloat16_is_slow_its_products_are_float32s_between_two_roundings(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(narrow_products, "widened", lambda dtype, device: dtype == torch.bfloat16)
    monkeypatch.setattr(batching, "widened", narrow_products.widened)
    x, y = (t.requires_grad_() for t in torch.randn(2, 240, generator=torch.Generator().manual_seed(1)).unbind())
    with batching.autocast(Runtime(precision="bf16")):
        z = product(name, x, y)
    assert z.dtype == torch.bfloat16
    rounded = [t.detach().bfloat16().float().requires_grad_() for t in (x, y)]
    exact = product(name, *rounded)
    assert torch.equal(z, exact.bfloat16())
    z.flatten().float().cumsum(0).sum().backward()  # type: ignore[no-untyped-call]
    exact.bfloat16().flatten().float().cumsum(0).sum().backward()  # type: ignore[no-untyped-call]
    for wide, narrow in zip((x, y), rounded, strict=True):
        assert wide.grad is not None and narrow.grad is not None
        torch.testing.assert_close(wide.grad, narrow.grad, rtol=2**-6, atol=0.1)


def test_in_encoding_amx_does_not_multiply(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def counted(x: torch.Tensor, weight: torch.Tensor, *rest: object) -> torch.Tensor:
        seen.append((x.dtype, weight.dtype))
        y: torch.Tensor = multiply(x, weight, *rest)
        return y

    monkeypatch.setattr(narrow_products, "encodes_in_float32", lambda device: True)
    multiply = torch.ops.mkldnn._linear_pointwise
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", counted)
    x, layers = torch.randn(7, 48), maps(1)
    with batching.autocast(Runtime(precision="bf16")), torch.inference_mode():
        with resting_weights():
            y = linear(layers, x)
        with all_rows_alike(x.device):
            other = layers[0](x)
            gpt2 = torch.addmm(layers[0].bias, x, layers[0].weight.T)
    exact = F.linear(*(t.bfloat16().float() for t in (x, layers[0].weight, layers[0].bias))).bfloat16()
    assert all(torch.equal(product, exact) for product in (y, other, gpt2))
    assert seen == [(torch.float32, torch.float32)] * 3


@pytest.mark.slow
def test_a_row_has_its_bits_among_any_rows_and_by_any_threads() -> None:
    """In a process of its own, where bfloat16 has the cap that it needs on this processor."""
    code = """
import torch
from zoo.encoder import Runtime
from zoo.engine.batching import autocast
from zoo.engine.narrow import all_rows_alike
from zoo.machine import choose_precision, cpu_bf16
kinds = ["fp32", *(["bf16"] if cpu_bf16()["bfloat16"] else [])]
for kind in kinds:
    choose_precision(kind, "cpu")
    for inner, outer in ((256, 768), (1024, 256), (1536, 384), (3072, 768), (3072, 32)):
        x, layer = torch.randn(1500, inner), torch.nn.Linear(inner, outer)
        with autocast(Runtime(precision=kind)), torch.inference_mode(), all_rows_alike(x.device):
            torch.set_num_threads(1)
            whole = layer(x)
            for threads in (1, 2, 3, 8, 32):
                torch.set_num_threads(threads)
                for rows in (1, 2, 7, 32, 33, 100, 700):
                    some = torch.randperm(1500)[:rows]
                    assert torch.equal(layer(x[some]), whole[some]), (kind, inner, outer, threads, rows)
"""
    environment = {key: value for key, value in os.environ.items() if key != "ZOO_BENCH_CACHE"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
