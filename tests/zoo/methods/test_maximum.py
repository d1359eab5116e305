"""The maximum over the token states of the last layer, against transformers and numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from zoo.encoder import Runtime
from zoo.methods.pooled import Maximum
from zoo.recipes import all_recipes

GOLDEN = {
    "avg": {"version": 1, "values": [-0.887, 0.2457, -1.0, 0.6326, 0.437, -0.5796, -1.0, 0.5933]},
    "cls": {"version": 1, "values": [-0.666, 0.5182, -0.0585, 1.0, 0.3382, -0.0428, 0.1726, 1.0]},
    "max": {"version": 1, "values": [-1.0, 0.5834, -0.2059, 0.4486, -0.2237, 0.0336, 0.1338, 1.0]},
}


def test_max_is_numpys_over_each_text_alone(tiny_bert: Path) -> None:
    model, tokenizer = AutoModel.from_pretrained(tiny_bert).eval(), AutoTokenizer.from_pretrained(tiny_bert)
    texts = ["a small dog", "rain", "two women talk while a third one reads the paper"]
    wanted = []
    for text in texts:
        with torch.no_grad():
            wanted.append(model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy().max(axis=0))
    cls, recipe = all_recipes()["max"].resolve({"backbone": str(tiny_bert)})
    assert cls is Maximum
    np.testing.assert_allclose(cls(recipe, Runtime()).encode(texts), np.stack(wanted), atol=1e-5)
