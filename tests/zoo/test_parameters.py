"""How many learned numbers an encoder has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModel

from zoo.encoder import Runtime
from zoo.recipes import all_recipes
from zoo.selection import split_overrides


def parameters(name: str, **changes: Any) -> int:
    cls, recipe = all_recipes()[split_overrides(name, "test")[0]].resolve(changes)
    return cls(recipe, Runtime()).parameters()


@pytest.mark.parametrize("name", ["cls", "avg-last", "simcse", "prompt"])
def test_a_backbone_counts_whole(name: str, tiny_bert: Path) -> None:
    model = AutoModel.from_pretrained(tiny_bert, add_pooling_layer=False)
    assert parameters(name, backbone=str(tiny_bert)) == sum(p.numel() for p in model.parameters())


def test_a_map_comes_on_top_and_a_matrix_counts_alone(tiny_bert: Path) -> None:
    model = AutoModel.from_pretrained(tiny_bert, add_pooling_layer=False)
    width = model.config.hidden_size
    model_size = sum(p.numel() for p in model.parameters())
    assert parameters("whitening-full", backbone=str(tiny_bert)) == model_size + width + width * width
    assert parameters("static-avg", backbone=str(tiny_bert)) == model.config.vocab_size * width
    assert parameters("bag-of-words") == parameters("random") == 0
    glove = all_recipes()["glove"]
    cls, recipe = glove.resolve({})
    assert cls(recipe, Runtime()).parameters() == 400_000 * 50
