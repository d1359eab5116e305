"""Poolings against numpy, and which layers they read against transformers' own hidden states."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch

from zoo.engine.states import Pooling, masked_mean, pool
from zoo.errors import UsageError

HOW = get_args(Pooling)


def by_numpy(hidden: list[np.ndarray], mask: np.ndarray, how: str) -> np.ndarray:
    """One sentence at a time, only its real tokens."""
    rows = []
    for i, kept in enumerate(mask.astype(bool)):
        layers = [layer[i][kept].astype(np.float64) for layer in hidden]
        rows.append(
            {
                "cls": lambda h: h[-1][0],
                "last": lambda h: h[-1].mean(0),
                "mean": lambda h: h[-1].mean(0),
                "sif": lambda h: h[-1].mean(0),  # where all tokens weigh the same
                "max": lambda h: h[-1].max(0),
                "cls-mean": lambda h: (h[-1][0] + h[-1].mean(0)) / 2,
                "first-last-h0": lambda h: ((h[0] + h[-1]) / 2).mean(0),
                "first-last-h1": lambda h: ((h[1] + h[-1]) / 2).mean(0),
                "top2": lambda h: ((h[-2] + h[-1]) / 2).mean(0),
            }[how](layers)
        )
    return np.stack(rows)


@pytest.fixture
def states() -> tuple[list[torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    hidden = [torch.randn(4, 7, 5, generator=generator) for _ in range(5)]
    return hidden, (torch.arange(7)[None] < torch.tensor([7, 1, 4, 2])[:, None]).long()


@pytest.mark.parametrize("how", HOW)
def test_pooling_equals_numpy(states: tuple[list[torch.Tensor], torch.Tensor], how: Pooling) -> None:
    hidden, mask = states
    wanted = by_numpy([h.numpy() for h in hidden], mask.numpy(), how)
    np.testing.assert_allclose(pool(hidden, mask, how).numpy(), wanted, atol=1e-6)


@pytest.mark.parametrize("how", HOW)
def test_padded_positions_never_matter(states: tuple[list[torch.Tensor], torch.Tensor], how: Pooling) -> None:
    hidden, mask = states
    poisoned = [h.masked_fill(mask[..., None] == 0, 1e6) for h in hidden]
    assert torch.equal(pool(poisoned, mask, how), pool([h * mask[..., None] for h in hidden], mask, how))


@pytest.mark.parametrize("how", HOW)
def test_half_precision_states_are_pooled_in_float32(how: Pooling) -> None:
    """2,048 ones and a small number: a bfloat16 sum would lose it."""
    hidden = [torch.ones(1, 2049, 1, dtype=torch.bfloat16) for _ in range(3)]
    result = pool(hidden, torch.ones(1, 2049, dtype=torch.long), how)
    assert result.dtype == torch.float32
    assert result.item() == 1.0


def test_an_unknown_pooling_is_named() -> None:
    """A plugin may have a name of its own: the error lists those that there are."""
    with pytest.raises(UsageError, match="'avg' is none of last, first-last-h0"):
        pool([torch.ones(1, 2, 3)], torch.ones(1, 2), "avg")  # type: ignore[arg-type]


def test_masked_mean_of_nothing_is_finite() -> None:
    assert torch.equal(masked_mean(torch.ones(1, 3, 2), torch.zeros(1, 3)), torch.zeros(1, 2))
