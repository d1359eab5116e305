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
    "avg": {"version": 2, "values": [-1.0, 0.5516, -0.2157, 0.3331, 0.5266, -0.5792, -0.7365, 1.0]},
    "cls": {"version": 2, "values": [-1.0, 0.547, -0.3154, 0.0152, 0.6205, -0.3061, -0.3147, 1.0]},
    "max": {"version": 2, "values": [-1.0, 0.5313, -0.4169, 0.4219, 0.5179, -0.6284, -0.5701, 1.0]},
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
