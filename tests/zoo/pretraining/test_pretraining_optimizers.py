"""Muon beside AdamW: PyTorch's own two optimisers, step by step, and a state that can be saved."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from zoo.pretraining.optimizers import MuonAdamW, hidden_matrices, orthogonal


class Model(nn.Module):
    """Token vectors tied to the output, and three hidden matrices, two of one shape."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 16)
        self.up, self.down, self.more = nn.Linear(16, 32), nn.Linear(32, 16), nn.Linear(16, 32)
        self.back, self.out = nn.Linear(32, 16), nn.Linear(16, 20)
        self.out.weight = self.words.weight

    def get_output_embeddings(self) -> nn.Linear:
        return self.out

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.down(self.up(self.words(ids)).relu())
        return nn.functional.cross_entropy(self.out(self.back(self.more(x).relu())), ids)


def models() -> tuple[Model, Model]:
    torch.manual_seed(0)
    one = Model()
    return one, copy.deepcopy(one)


def ours(model: Model, dtype: torch.dtype) -> MuonAdamW:
    matrices = hidden_matrices(model)
    chosen = {id(matrix) for matrix in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    return MuonAdamW(matrices, others, lr=1e-2, betas=(0.9, 0.98), weight_decay=0.01, momentum=0.95, dtype=dtype)


def train(model: Model, optimizers: list[Any], steps: int, first: int = 0) -> None:
    for step in range(first, first + steps):
        generator = torch.Generator().manual_seed(step)
        model(torch.randint(20, (8,), generator=generator)).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


def test_hidden_matrices_are_not_token_vectors_or_the_output() -> None:
    model, _ = models()
    assert [tuple(matrix.shape) for matrix in hidden_matrices(model)] == [(32, 16), (16, 32), (32, 16), (16, 32)]


def test_steps_are_those_of_pytorchs_muon_and_adamw() -> None:
    """In bfloat16, the only precision of PyTorch's Muon; products of a stack may round otherwise."""
    own, theirs = models()
    matrices = hidden_matrices(theirs)
    chosen = {id(matrix) for matrix in matrices}
    others = [p for p in theirs.parameters() if id(p) not in chosen]
    train(own, [ours(own, torch.bfloat16)], 5)
    muon = torch.optim.Muon(matrices, lr=1e-2, weight_decay=0.01, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    train(theirs, [muon, torch.optim.AdamW(others, lr=1e-2, betas=(0.9, 0.98), weight_decay=0.01)], 5)
    for found, expected in zip(own.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-4)


def test_the_direction_is_the_orthogonal_factor() -> None:
    torch.manual_seed(0)
    for shape in ((3, 8, 24), (3, 24, 8)):
        matrices = torch.randn(shape)
        u, _, v = torch.linalg.svd(matrices, full_matrices=False)
        found = u.mT @ orthogonal(matrices, torch.float32) @ v.mT  # diagonal, with the singular values of the result
        values = found.diagonal(dim1=1, dim2=2)
        assert (found - torch.diag_embed(values)).abs().max() < 1e-3
        assert values.min() > 0.6 and values.max() < 1.3


def test_a_restored_state_goes_on_alike() -> None:
    own, again = models()
    optimizer = ours(own, torch.float32)
    train(own, [optimizer], 3)
    state = copy.deepcopy(optimizer.state_dict())
    again.load_state_dict(own.state_dict())
    restored = ours(again, torch.float32)
    restored.load_state_dict(state)
    train(own, [optimizer], 3, first=3)
    train(again, [restored], 3, first=3)
    assert all(torch.equal(a, b) for a, b in zip(own.parameters(), again.parameters(), strict=True))
    assert len(state["state"]) == len(list(own.parameters()))
