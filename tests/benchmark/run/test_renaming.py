"""Names are in no key; one weight is: of objects and of built-in methods."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import zoo
from benchmark.run.options import RunOptions
from benchmark.run.plan import Run
from benchmark.run.prepare import prepare
from zoo.methods.pooled import Average
from zoo.plugins import METHODS

TASK = "pocket-phrases"


def keys(given: object = None, methods: str = "", **more: Any) -> tuple[str, ...]:
    """The keys of the cells of one encoder."""
    options = RunOptions(methods=methods, tasks=TASK, precision="fp32", **more)
    (encoder,) = prepare(Run(options, given=None if given is None else ((None, given),)), write=False).encoders
    assert encoder.failed is None and encoder.missing is None
    return (encoder.row_key, encoder.key, *(cell.key for cell in encoder.cells))


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
        encoder = zoo.create(f"avg-last:backbone={folder}")
        return keys(methods="avg-last", backbone=str(folder)), keys(encoder)

    first = of(tiny_bert)
    assert of(renamed) == first
    assert all(one != before for one, before in zip(of(other), first, strict=True))
    encoder = zoo.create(f"avg-last:backbone={tiny_bert}")
    with torch.no_grad():
        encoder.backbone.model.get_input_embeddings().weight[7, 3] += 0.5  # type: ignore[attr-defined]
    assert keys(encoder) != first[1]
    monkeypatch.setattr(METHODS, "_entries", {**METHODS._entries, "avg": type(METHODS._entries["avg"])(Average, "x")})
    monkeypatch.setattr(Average, "__module__", "zoo.methods.elsewhere")
    name, Average.__qualname__ = Average.__qualname__, "Mean"
    try:
        assert of(tiny_bert) == first
    finally:
        Average.__qualname__ = name
