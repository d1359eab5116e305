"""OptiPrompt: where the vectors go, by position and by the code's last occurrence; and that nothing else is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zoo.encoder import Corpus, Run, Runtime
from zoo.methods.optiprompt import OptiPrompt, TemplateVectors
from zoo.methods.prompt import Prompt

GOLDEN = {"optiprompt": {"version": 1, "values": [-1.0, 0.4326, 0.1013, 0.2334, -0.0473, -1.0, -0.8278, 0.8006]}}

TEXTS = ["a small dog", "this sentence is short.", "rain"]
TOKENS = [2023, 6251, 1024, 1000, 1000, 2965, 1012]  # this sentence : " " means .
CORPUS = Corpus("toy", [f"sentence number {i}" for i in range(8)])


def make(folder: Path, **fields: Any) -> OptiPrompt:
    return OptiPrompt(OptiPrompt.Recipe(backbone=str(folder), batch_size=4, epochs=1, **fields), Runtime())


@pytest.mark.slow
@pytest.mark.parametrize("replace", ["position", "last-occurrence"])
def test_it_starts_as_the_manual_template(tiny_bert: Path, replace: str) -> None:
    encoder = make(tiny_bert, replace=replace)
    assert encoder.template.tokens == TOKENS and encoder.template.vectors.shape == (7, 32)
    manual = Prompt(Prompt.Recipe(backbone=str(tiny_bert)), Runtime())
    np.testing.assert_allclose(encoder.encode(TEXTS), manual.encode(TEXTS), atol=1e-5)


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


@pytest.mark.slow
@pytest.mark.parametrize(("replace", "untouched"), [("position", []), ("last-occurrence", [3])])
def test_only_the_template_is_trained(tiny_mlm: Path, tmp_path: Path, replace: str, untouched: list[int]) -> None:
    """Under the code's rule the first quote has no gradient: the second overwrites it."""
    encoder = make(tiny_mlm, replace=replace, learning_rate=1e-3, head="mlm")
    backbone, mark, start = encoder.backbone.weights_sha256(), encoder.fingerprint(), encoder.template.vectors.clone()
    dropout: list[bool] = []

    def dev_score(asking: Any) -> float:
        dropout.append(asking.backbone.model.training)
        return float(asking.encode(["rain"]).sum())

    report = encoder.fit(CORPUS, dev_score=dev_score, run=Run(seed=1))
    assert report.steps == 2 and dropout == [False] and not encoder.backbone.model.training
    assert encoder.backbone.weights_sha256() == backbone and encoder.fingerprint() != mark
    change = (encoder.template.vectors - start).abs().amax(1)
    assert [i for i in range(7) if change[i] == 0] == untouched
    encoder.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"backbone.json", "recipe.json", "template.safetensors"}


@pytest.mark.slow
def test_the_code_trains_a_head_beside_the_template(tiny_mlm: Path) -> None:
    def trained(head: str) -> set[str]:
        objective = make(tiny_mlm, head=head).objective()
        return {name for name, parameter in objective.named_parameters() if parameter.requires_grad}

    assert trained("none") == {"pooler.template.vectors"}
    assert all(n.startswith("pooler.mlp.") for n in trained("mlm") - trained("none")) and len(trained("mlm")) == 5
