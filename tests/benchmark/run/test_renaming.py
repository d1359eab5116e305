"""Names and comments are in no key; one weight is: of plugins, of objects and of built-in methods."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from test_identity import forget_code

import zoo
from benchmark.run.options import RunOptions
from benchmark.run.prepare import prepare
from benchmark.tasks import TASKS
from zoo.encoder import Runtime
from zoo.methods.pooled import Average
from zoo.registry import METHODS, load_plugin_file

PLUGIN = """
import numpy as np
from dataclasses import dataclass
from zoo import register_method
from zoo.encoder import Encoder, Traits

@dataclass(frozen=True)
class Recipe:
    pass

@register_method("weighted")
class NAME(Encoder):
    "DOCSTRING"
    Recipe = Recipe
    dim = 8

    def encode(self, texts):
        # COMMENT
        weights = np.ones((256, 8), np.float32) * np.arange(1, 9) ** 0.5
        weights[ord("b"), 3] = WEIGHT
        rows = [weights[[ord(c) % 256 for c in text] or [0]].sum(axis=0) + len(text) % 5 for text in texts]
        return np.array(rows, np.float32).reshape(-1, 8)

    @classmethod
    def traits(cls, recipe):
        return Traits(needs_corpus=TRAINS)

    def save(self, folder): ...

    @classmethod
    def load(cls, folder, runtime=None):
        return cls(Recipe(), runtime)

    def fingerprint(self):
        return "0"
"""
FIRST = {"NAME": "Weighted", "DOCSTRING": "A sum.", "COMMENT": "sums", "WEIGHT": "2.0", "TRAINS": "False"}
TASK = "pocket-phrases"


def keys(given: object = None, methods: str = "", **more: Any) -> tuple[str, ...]:
    """The keys of the cells of one encoder."""
    options = RunOptions(methods=methods, tasks=TASK, precision="fp32", **more)
    (encoder,) = prepare(options, write=False, given=None if given is None else [(None, given)]).plan.encoders
    assert encoder.failed is None and encoder.missing is None
    return (encoder.row_key, encoder.key, *(cell.key for cell in encoder.cells))


@pytest.mark.slow
@pytest.mark.parametrize("trains", ["False", "True"])
def test_a_plugin_is_its_vectors(clean_registries: None, tmp_path: Path, trains: str) -> None:
    """Its module, class, file, comments and docstrings may change; one weight, or how it learns, may not."""
    numbers = itertools.count()

    def of(edit: str = "", **changed: str) -> tuple[str, ...]:
        text = PLUGIN
        for name, value in (FIRST | {"TRAINS": trains} | changed).items():
            text = text.replace(name, value)
        path = tmp_path / f"file{next(numbers)}.py"
        path.write_text(text + edit, encoding="utf-8")
        METHODS._entries.pop("weighted", None)
        forget_code()
        assert load_plugin_file(path, [METHODS, TASKS]) is None
        return keys(methods="weighted")

    first = of()
    assert of() == of(NAME="Other") == of(COMMENT="other") == of(DOCSTRING="Other.") == first
    assert of(WEIGHT="9.0") != first
    assert (
        of("\n    def fit(self, corpus, *, dev_score=None, run):\n        return None\n")[0] == first[0]
        or trains == "True"
    )
    (as_object, renamed), module = (METHODS.get("weighted")(None, Runtime()) for _ in range(2)), "elsewhere"  # type: ignore[call-arg]
    before = keys(as_object)
    type(renamed).__module__, type(renamed).__qualname__ = module, "Renamed"
    assert keys(renamed) == before


@pytest.mark.slow
def test_built_in_methods_and_their_objects(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renamed, other = tmp_path / "renamed", tmp_path / "other"
    shutil.copytree(tiny_bert, renamed)
    shutil.copytree(tiny_bert, other)
    weights = load_file(other / "model.safetensors")
    name = next(name for name in weights if "word_embeddings" in name)
    weights[name] = np.array(weights[name])
    weights[name][7, 3] += 0.5
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    monkeypatch.setattr(METHODS, "_entries", dict(METHODS._entries))

    def of(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
        made = zoo.create(f"avg-last:backbone={folder}")
        return keys(methods="avg-last", backbone=str(folder)), keys(made)

    first = of(tiny_bert)
    assert of(renamed) == first
    assert all(one != before for one, before in zip(of(other), first, strict=True))
    made = zoo.create(f"avg-last:backbone={tiny_bert}")
    with torch.no_grad():
        made.backbone.model.get_input_embeddings().weight[7, 3] += 0.5  # type: ignore[attr-defined]
    assert keys(made) != first[1]
    monkeypatch.setattr(METHODS, "_entries", {**METHODS._entries, "avg": type(METHODS._entries["avg"])(Average, "x")})
    monkeypatch.setattr(Average, "__module__", "zoo.methods.elsewhere")
    name, Average.__qualname__ = Average.__qualname__, "Mean"
    try:
        assert of(tiny_bert) == first
    finally:
        Average.__qualname__ = name
