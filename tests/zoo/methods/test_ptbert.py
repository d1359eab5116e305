"""PT-BERT: its attention against the equations in numpy, for each recipe; test_releases has its ten steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from zoo.encoder import Runtime
from zoo.engine.dropout import set_dropout
from zoo.methods.ptbert import PseudoTokenAttention, PTBertObjective
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

# Version 1 stays although the defaults are others: the settings are in the key, and no recipe's vectors changed.
GOLDEN = {
    "ptbert": {
        "version": 1,
        "values": [-0.661, 0.5269, -0.0689, 1.0, 0.3381, -0.0387, 0.1727, 1.0],
        # ptbert-tokens, which `ptbert` once was: rows that were measured then are its rows.
        "also": [
            (
                {"states": "tokens", "heads": 1, "biases": False, "attention_dropout": 0.0, "mlp": False},
                [-0.6396, 0.5059, -0.051, 1.0, 0.3296, -0.0375, 0.1852, 1.0],
            )
        ],
    }
}

RECIPES = all_recipes()
DIM = 24


def objective(folder: Path, variant: str, **overrides: Any) -> PTBertObjective:
    text = variant + "".join(f":{key}={value}" for key, value in overrides.items())
    cls, recipe = parse_methods(text, RECIPES)[0].resolve({"backbone": str(folder)})
    torch.manual_seed(5)
    objective_of_recipe = cls(recipe, Runtime()).objective()
    assert isinstance(objective_of_recipe, PTBertObjective)
    return objective_of_recipe


def batch(rows: int = 6, length: int = 9, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1000, 20_000, (rows, length), generator=generator)
    ids[:, 0] = 101
    lengths = torch.randint(3, length + 1, (rows,), generator=generator)
    mask = (torch.arange(length)[None] < lengths[:, None]).long()
    return ids * mask, mask


def attention(heads: int, biases: bool = True, dropout: float = 0.0) -> PseudoTokenAttention:
    torch.manual_seed(heads)
    return PseudoTokenAttention(DIM, heads, biases=biases, dropout=dropout).double()


def numpy_attention(layer: PseudoTokenAttention, queries: np.ndarray, states: np.ndarray, keep: np.ndarray) -> Any:
    """Eq. 2 for one sentence, head by head, over the states with keep 1."""

    def linear(module: nn.Linear, x: np.ndarray) -> np.ndarray:
        bias = 0.0 if module.bias is None else module.bias.detach().numpy()
        return x @ module.weight.detach().numpy().T + bias

    q, k, v = linear(layer.query, queries), linear(layer.key, states), linear(layer.value, states)
    width = q.shape[1] // layer.heads
    out = []
    for head in range(layer.heads):
        part = slice(head * width, (head + 1) * width)
        scores = q[:, part] @ k[:, part].T / np.sqrt(width)
        weights = np.exp(scores - scores.max(1, keepdims=True)) * keep
        out.append(weights / weights.sum(1, keepdims=True) @ v[:, part])
    return np.concatenate(out, axis=1)


@pytest.mark.parametrize(
    ("variant", "pool"),
    [("ptbert-tokens", "cls"), ("ptbert-tokens", "mean"), ("ptbert", "cls"), ("ptbert-repo", "cls")],
)
def test_branch_equals_the_equations_in_numpy(tiny_bert: Path, variant: str, pool: str) -> None:
    """Z' = Att(P, Y, Y), h = Att(Y, Z', Z'), its [CLS] row or the mean of its real rows; then the code's MLP."""
    branch = objective(tiny_bert, variant, queue_size=12, batch_size=4, pool=pool).eval().query_branch
    ids, mask = batch()
    with torch.inference_mode():
        y = branch.model(input_ids=ids, attention_mask=mask).last_hidden_state.numpy()
        vectors = branch(ids, mask, branch.attention).numpy()
    pseudo = branch.pseudo_tokens.weight.detach().numpy()
    for i in range(len(ids)):
        real = y[i][mask[i].numpy() == 1][: None if variant == "ptbert-tokens" else 1]
        z = numpy_attention(branch.attention, pseudo, real, np.ones(len(real)))
        h = numpy_attention(branch.attention, real, z, np.ones(len(z)))
        wanted = h[0] if pool == "cls" else h.mean(0)
        if variant != "ptbert-tokens":
            dense = branch.mlp.dense
            wanted = np.tanh(wanted @ dense.weight.detach().numpy().T + dense.bias.detach().numpy())
        np.testing.assert_allclose(vectors[i], wanted, atol=2e-5)


def test_the_recipes_dropout_reaches_the_random_key_encoder(tiny_bert: Path) -> None:
    for variant in ("ptbert", "ptbert-repo"):
        recipe = parse_methods(f"{variant}:dropout=0.3:pseudo_tokens=4", RECIPES)[0].resolve(
            {"backbone": str(tiny_bert)}
        )
        encoder = recipe[0](recipe[1], Runtime())
        set_dropout(encoder.backbone.model, 0.3)  # as fit does
        key_objective = encoder.objective()
        rates = {m.p for m in key_objective.key_branch.model.modules() if isinstance(m, nn.Dropout)}
        assert rates == {0.3}
