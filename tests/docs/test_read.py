"""The programs of docs/read, which teach a method from top to bottom, train to the weights of the zoo's method.

They share no line with the zoo. Both get the same sentences in the same order.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import zoo.methods.contrastive
import zoo.training.loop
from zoo.encoder import Corpus, Run, Runtime
from zoo.engine.backbone import Backbone
from zoo.methods.ptbert import PTBert
from zoo.methods.simcse import SimCSE

pytestmark = pytest.mark.slow

READ = Path(__file__).resolve().parents[2] / "docs" / "read"
STEPS, BATCH, SEED = 10, 16, 3
PROGRAMS = {"simcse": SimCSE, "ptbert": PTBert}
SETTINGS = {
    "simcse": {"batch_size": BATCH},
    "ptbert": {"batch_size": BATCH, "queue_size": 40},
}  # a queue that overflows


def program(name: str) -> ModuleType:
    """Import a program of docs/read under its own name."""
    spec = importlib.util.spec_from_file_location(f"read_{name}", READ / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    """Of different lengths, and one that both must cut."""
    pocket = READ.parents[1] / "benchmark" / "data" / "pocket" / "sentences.txt"
    lines = pocket.read_text(encoding="utf-8").splitlines()[: STEPS * BATCH - 5]  # the last batch is a smaller one
    return [" ".join(lines[:4]), *lines[1:]]


def trained_by_zoo(name: str, weights: Path, sentences: list[str], dropout: float | None) -> torch.nn.Module:
    method = PROGRAMS[name]
    encoder = method(method.Recipe(backbone=str(weights), **SETTINGS[name], dropout=dropout), Runtime())
    assert encoder.fit(Corpus("pocket", sentences), run=Run(seed=SEED)).steps == STEPS
    return encoder.backbone.model


def trained_by_program(name: str, weights: Path, sentences: list[str], dropout: float | None) -> torch.nn.Module:
    backbone = Backbone.load(str(weights), None, Runtime())
    if dropout is not None:
        zoo.methods.contrastive.set_dropout(backbone.model, dropout)
    module = program(name)
    for setting, value in SETTINGS[name].items():
        setattr(module, setting.upper(), value)
    order = np.random.default_rng([SEED, 0]).permutation(len(sentences))  # the zoo's, of the first epoch
    module.train(backbone.model, backbone.tokenizer, [sentences[i] for i in order], SEED)
    return backbone.model


def farthest(zoo_model: torch.nn.Module, model: torch.nn.Module) -> float:
    """Return the largest difference of any weight."""
    ours, theirs = zoo_model.state_dict(), model.state_dict()
    assert ours.keys() == theirs.keys()
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_dropout(name: str, tiny_bert: Path, sentences: list[str]) -> None:
    """The zoo's own fast forward pass."""
    before = Backbone.load(str(tiny_bert), None, Runtime()).model
    ours = trained_by_zoo(name, tiny_bert, sentences, dropout=0.0)
    theirs = trained_by_program(name, tiny_bert, sentences, dropout=0.0)
    assert farthest(ours, theirs) < 1e-5 < farthest(before, theirs) / 10


@pytest.mark.parametrize("name", PROGRAMS)
def test_with_the_same_dropout_masks(
    name: str, tiny_bert: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The zoo draws its masks on packed batches and in a faster way; here its model runs its own forward pass."""
    monkeypatch.setattr(zoo.training.loop, "cheapen_dropout", lambda model: None)
    monkeypatch.setattr("zoo.engine.states.packable", lambda model: False)
    before = Backbone.load(str(tiny_bert), None, Runtime()).model
    ours = trained_by_zoo(name, tiny_bert, sentences, dropout=None)
    theirs = trained_by_program(name, tiny_bert, sentences, dropout=None)
    assert farthest(ours, theirs) < 1e-5 < farthest(before, theirs) / 10
