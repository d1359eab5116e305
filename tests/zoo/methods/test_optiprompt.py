"""OptiPrompt: where the vectors go, by position and by the code's last occurrence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from zoo.encoder import Runtime
from zoo.methods.optiprompt import OptiPrompt, TemplateVectors

GOLDEN = {"optiprompt": {"version": 2, "values": [-1.0, 0.7498, 0.3382, 0.0533, 0.6991, -0.3003, -0.3241, 1.0]}}


def make(folder: Path, **fields: Any) -> OptiPrompt:
    return OptiPrompt(OptiPrompt.Recipe(backbone=str(folder), batch_size=4, epochs=1, **fields), Runtime())


@pytest.mark.parametrize("replace", ["position", "last-occurrence"])
def test_where_the_vectors_go(tiny_bert: Path, replace: str) -> None:
    """Vector i is the constant 100 + i; the row is [CLS] this sentence : " this : rain " means [MASK] . [SEP] [PAD]."""
    encoder = make(tiny_bert)
    row = [101, 2023, 6251, 1024, 1000, 2023, 1024, 4542, 1000, 2965, 103, 1012, 102, 0]
    ids, mask = torch.tensor([row]), torch.tensor([[1] * 13 + [0]])
    template = TemplateVectors(encoder.prompt, encoder.backbone.model.get_input_embeddings(), replace)
    with torch.no_grad():
        template.vectors.copy_((100 + torch.arange(7.0))[:, None].expand(7, 32))
        got = template(torch.zeros(1, 14, 32), ids, mask)[0]
    assert (got == got[:, :1]).all()
    of_position = [0, 100, 101, 102, 103, 0, 0, 0, 104, 105, 0, 106, 0, 0]
    of_last = [0, 0, 101, 0, 0, 100, 102, 0, 104, 105, 0, 106, 0, 0]  # "this" and ":" are the sentence's; one quote
    assert got[:, 0].tolist() == (of_position if replace == "position" else of_last)
