"""The recipes for RoBERTa and ALBERT train and encode on backbones that the project pretrains itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_pretraining import small, train

from zoo.conformance import check
from zoo.encoder import Runtime
from zoo.recipe import all_recipes

pytestmark = pytest.mark.slow

ROBERTA = ["simcse-roberta", *(f"promptbert{sup}-roberta{repo}" for sup in ("", "-sup") for repo in ("", "-repo"))]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A RoBERTa and an ALBERT of a few steps."""
    made = {}
    for name, changes in {
        "roberta": {},
        "albert": {"architecture": "albert", "tokenizer": "unigram", "vocabulary": 300, "embedding": 8},
    }.items():
        folder = tmp_path_factory.mktemp(name)
        train(folder, small(steps=4, decay_steps=2, warmup_steps=1, **changes))
        made[name] = folder / "model"
    return made


@pytest.mark.parametrize("name", [*ROBERTA, "burt-albert"])
def test_a_recipe_keeps_the_contract_on_them(name: str, folders: dict[str, Path]) -> None:
    cls, recipe = all_recipes()[name].resolve()
    kind = "albert" if name == "burt-albert" else "roberta"
    changes: dict[str, Any] = {"backbone": str(folders[kind]), "batch_size": 8}
    findings = check(cls, replace(recipe, **changes), Runtime(), name)
    assert findings and not [found for found in findings if found[1]]
