"""PT-BERT: attention, queue and key encoder, and its controls."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from zoo.encoder import Run, Runtime
from zoo.engine.dropout import set_dropout
from zoo.methods.ptbert import PseudoTokenAttention, PTBertObjective
from zoo.recipes import all_recipes
from zoo.selection import parse_methods
from zoo.training.loop import train
from zoo.training.momentum import Queue

GOLDEN = {
    "ptbert": {
        "version": 2,
        "values": [-1.0, 0.7658, -0.1911, -0.2837, 1.0, -0.1419, -0.5208, 0.4168],
        # ptbert-tokens, which `ptbert` once was: rows that were measured then are its rows.
        "also": [
            (
                {"states": "tokens", "heads": 1, "biases": False, "attention_dropout": 0.0, "mlp": False},
                [-1.0, 0.7611, -0.6434, 0.1441, 0.3524, -0.1313, -0.4623, 1.0],
            )
        ],
    },
}


# PT-BERT: its attention against the equations in numpy, for each recipe; test_releases has its ten steps.

# Version 1 stays although the defaults are others: the settings are in the key, and no recipe's vectors changed.

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


def test_queue_survives_the_state_dict_half_full() -> None:
    """Resuming must neither lose keys nor count rows that were never pushed."""
    queue, copied = Queue(10, 2), Queue(10, 2)
    queue.push(torch.randn(4, 2))
    copied.load_state_dict(queue.state_dict())
    fresh = torch.randn(3, 2)
    assert torch.equal(queue.push(fresh), copied.push(fresh))
    assert len(queue.push(fresh)) == 10


def test_queue_takes_a_smaller_batch_and_one_above_its_size() -> None:
    queue = Queue(10, 1)
    queue.push(torch.arange(8.0)[:, None])
    assert queue.push(torch.arange(100.0, 105)[:, None])[:, 0].tolist() == [100, 101, 102, 103, 104, 0, 1, 2, 3, 4]
    assert queue.push(torch.arange(200.0, 212)[:, None])[:, 0].tolist() == list(range(200, 210))


# PT-BERT beside MoCo-BERT and its controls: what is left of it without its two maps, and what biases change.

CONTROLS = all_recipes()


def ten_steps(folder: Path, text: str) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Train ten steps of a recipe, dropout of the backbone on, and return the losses and the backbone's weights.

    The MLP starts alike for all recipes, and PT-BERT's two maps are the identity and are not trained.
    """
    cls, recipe = parse_methods(f"{text}:learning_rate=1e-3:batch_size=4:queue_size=12", CONTROLS)[0].resolve(
        {"backbone": str(folder)}
    )
    encoder: Any = cls(recipe, Runtime())
    encoder.rows = 40
    objective = encoder.objective().train()
    for branch in (objective.query_branch, objective.key_branch):
        with torch.no_grad():
            weight = branch.mlp.dense.weight
            weight.copy_(torch.eye(len(weight)) + 0.1)
            branch.mlp.dense.bias.zero_()
            if isinstance(objective, PTBertObjective):
                branch.attention.value.weight.copy_(torch.eye(len(weight)))
                branch.attention.value.bias.zero_()
                branch.attention.requires_grad_(False)
    losses: list[float] = []
    settings = dataclasses.replace(encoder.settings(), steps=10, log_every=1)
    run = Run(seed=3, log_values=lambda _, values: losses.append(values["loss"]))
    model, rows = encoder.backbone.model, batch(40) if isinstance(objective, PTBertObjective) else batch(40) * 2
    torch.manual_seed(0)
    collate = lambda numbers: tuple(part[numbers] for part in rows)  # noqa: E731
    train(objective, collate, 40, settings, runtime=Runtime(), run=run, backbone=model, dev_score=None)
    return losses, model.state_dict()


@pytest.mark.parametrize("changes", ["", ":temperature=0.5:pseudo_tokens=7", ":momentum=0.5:dropout=0.3"])
def test_without_its_two_maps_it_is_moco(tiny_bert: Path, changes: str) -> None:
    """Section 4.4: MoCo-BERT is PT-BERT without pseudo tokens. Equal but for float32's rounding; the defaults agree.

    Each of the ten steps rounds once. A weight whose gradient is rounding alone may differ by a step, which is 1e-3.
    """
    rounding = 10 * torch.finfo(torch.float32).eps
    ours, weights = ten_steps(tiny_bert, f"ptbert:attention_dropout=0.0{changes}")
    losses, others = ten_steps(tiny_bert, f"moco{changes}".replace(":pseudo_tokens=7", ""))
    assert len(ours) == 10 and max(ours) - min(ours) > 1e-3
    np.testing.assert_allclose(ours, losses, rtol=5 * rounding)
    for name, weight in weights.items():
        if not name.endswith("key.bias"):  # its gradient is 0 but for rounding, which Adam makes a step of
            gap = (weight - others[name]).abs()
            assert float(gap.median()) <= rounding and float(gap.max()) < 1e-3, name
    a, b = (CONTROLS[one].resolve()[1] for one in ("ptbert", "moco"))
    shared = {f.name for f in dataclasses.fields(a)} & {f.name for f in dataclasses.fields(b)}
    assert {name for name in shared if getattr(a, name) != getattr(b, name)} == set()


def first_loss(folder: Path, text: str) -> float:
    """Return the loss of a batch, dropout off, with V(y) = 0.5 y and no bias, or a bias of ones where V has one."""
    cls, recipe = parse_methods(f"{text}:batch_size=6:queue_size=12", CONTROLS)[0].resolve({"backbone": str(folder)})
    encoder: Any = cls(recipe, Runtime())
    torch.manual_seed(2)
    objective = encoder.objective().eval()
    for branch in (objective.query_branch, objective.key_branch):
        value = branch.attention.value if isinstance(objective, PTBertObjective) else branch.mlp[0]
        with torch.no_grad():
            value.weight.copy_(0.5 * torch.eye(len(value.weight)))
            if value.bias is not None:
                value.bias.fill_(1.0)
            if isinstance(objective, PTBertObjective):
                branch.attention.query.weight.zero_()  # uniform attention
    ids, mask = batch()
    with torch.no_grad():
        return float(
            objective(ids, mask) if isinstance(objective, PTBertObjective) else objective(ids, mask, ids, mask)
        )


def test_the_control_has_biases_where_its_form_has(tiny_bert: Path) -> None:
    """With uniform attention `ptbert-tokens` on the mean is the control without biases; with them it is not."""
    form = first_loss(tiny_bert, "ptbert-tokens-avg:pool=mean")
    assert first_loss(tiny_bert, "moco-2linear-avg") == pytest.approx(
        form, rel=32 * torch.finfo(torch.float32).eps, abs=1e-6
    )
    assert abs(first_loss(tiny_bert, "moco-2linear-avg-biases") - form) > 1e-3
