"""Every method that learns names the untrained vectors that it starts from, and they are those."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zoo.encoder import Runtime
from zoo.plugins import METHODS
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

TEXTS = ["A small dog runs.", "Why does bread rise?", "rain"]
# Recipes whose encoder, before it is fitted, gives the vectors that training starts from: no head is left at test.
PLAIN = (
    "simcse,ptbert,ptbert-tokens-avg,esimcse,ct,consert,sbert,burt-cls,burt-max,promptbert-repo,optiprompt"
    ",simcse:pooler=avg_first_last,simcse:max_length=8"
)


def test_every_recipe_that_learns_has_an_untrained_start(tiny_bert: Path) -> None:
    for name, spec in all_recipes().items():
        cls, recipe = spec.resolve({"backbone": str(tiny_bert)})
        traits, start = cls.traits(recipe), cls.start(recipe)
        learns = traits.needs_corpus or traits.needs_pairs or traits.transductive
        assert (start is not None) == learns, name
        if start is None:
            continue
        first = METHODS.get(start.method)
        assert type(start.recipe) is first.Recipe, name
        traits = first.traits(start.recipe)
        assert not (traits.needs_corpus or traits.needs_pairs or traits.transductive or traits.stochastic), name


@pytest.mark.parametrize("name", PLAIN.split(","))
def test_training_begins_at_these_vectors(name: str, tiny_bert: Path) -> None:
    (spec,) = parse_methods(name, all_recipes())
    cls, recipe = spec.resolve({"backbone": str(tiny_bert)})
    start = cls.start(recipe)
    assert start is not None
    encoder = cls(recipe, Runtime())
    untrained = METHODS.get(start.method)(start.recipe, Runtime()).encode(TEXTS)
    np.testing.assert_allclose(encoder.encode(TEXTS), untrained, atol=1e-6)


def test_a_transform_starts_where_its_base_does(tiny_bert: Path) -> None:
    """A base that is trained has a start of its own; one that is not is the start."""
    starts = {}
    for spec in parse_methods("simcse-whitening,whitening,whitening:base=cls:fit_on=target", all_recipes()):
        cls, recipe = spec.resolve({"backbone": str(tiny_bert)})
        start = cls.start(recipe)
        assert start is not None and getattr(start.recipe, "backbone", None) == str(tiny_bert)
        starts[spec.name] = (start.method, getattr(start.recipe, "layers", ""))
    assert list(starts.values()) == [("cls", ""), ("avg", "first-last-h1"), ("cls", "")]
