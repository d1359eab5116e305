"""A training that is stopped and begun again ends bit-equal to an unbroken one: every method that trains."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from one_recipe import one_recipe_a_method
from test_conformance import RECIPES, recipe_for

from zoo.conformance import PROBES, _toy_corpus, _toy_pairs
from zoo.encoder import Run, Runtime
from zoo.errors import Interrupted

pytestmark = pytest.mark.slow

# Small enough for several steps on a hundred sentences, and for a queue that has gone round.
FEW = {"batch_size": 16, "queue_size": 32, "epochs": 2, "learning_rate": 1e-3, "table_steps": 6, "accumulate": 1}
MORE = ["simcse-sup", "promptbert-sup-repo", "clear", "moco-reorder", "ptbert-repo", "infersent-glove"]


def trains(name: str) -> bool:
    cls, recipe = RECIPES[name].resolve()
    traits = cls.traits(recipe)
    return traits.stochastic and (traits.needs_corpus or traits.needs_pairs)


@pytest.mark.parametrize("name", sorted({*one_recipe_a_method().values(), *MORE}))
def test_a_stopped_training_ends_as_an_unbroken_one(name: str, tiny_mlm: Path, word_file: Path, tmp_path: Path) -> None:
    if not trains(name):
        pytest.skip("it is not trained in steps")
    cls, recipe = recipe_for(name, tiny_mlm, path=str(word_file), **FEW)
    corpus, asked = _toy_pairs() if cls.traits(recipe).needs_pairs else _toy_corpus(), []
    whole = cls(recipe, Runtime())
    wanted = whole.fit(corpus, run=Run(tmp_path / "whole", seed=3, stop_signal=lambda: asked.append(None)))
    questions = iter(range(len(asked) // 2))
    with pytest.raises(Interrupted):
        stop = Run(tmp_path / "cut", seed=3, stop_signal=lambda: None if next(questions, -1) >= 0 else signal.SIGTERM)
        cls(recipe, Runtime()).fit(corpus, run=stop)
    torch.manual_seed(999)  # whatever the new process did before
    resumed = cls(recipe, Runtime())
    report = resumed.fit(corpus, run=Run(tmp_path / "cut", seed=3))
    assert np.array_equal(resumed.encode(PROBES), whole.encode(PROBES))
    assert (report.steps, report.final_loss, resumed.facts()) == (wanted.steps, wanted.final_loss, whole.facts())
