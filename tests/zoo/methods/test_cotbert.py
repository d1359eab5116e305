"""CoT-BERT: ten steps beside a port of its loss and of its biases, and the rows of its templates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from ten_steps import losses_beside, texts_of_first_row
from test_dropoutviews import CORPUS, cosines, encoder_of

from zoo.encoder import Corpus
from zoo.errors import UsageError
from zoo.modules.templates import Template

GOLDEN = {"cot-bert": {"version": 1, "values": [-1.0, 0.4476, 0.2135, 0.2354, 0.1917, -0.8931, -0.7353, 1.0]}}
MASK_ID = 103


def last_masks(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The state at the second of a row's two [MASK] (n, dim)."""
    states: torch.Tensor = model(input_ids=ids, attention_mask=mask).last_hidden_state
    return states[ids == MASK_ID].view(len(ids), 2, -1)[:, 1]


def noises(model: Any, prompt: Any, longest: int) -> torch.Tensor:
    """`denoising` of models.py: the template around 0, 1, ... padding tokens, which are attended to."""
    rows, masks = [], []
    for size in range(longest + 1):
        free = longest - size
        rows.append([*prompt.head, *[0] * size, *prompt.tail, *[0] * free])
        masks.append([1] * (len(prompt) + size) + [0] * free)
    return last_masks(model, torch.tensor(rows), torch.tensor(masks))


def port(objective: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """cl_forward of models.py with three templates: three blocks of logits, each view minus its template's noise."""
    pooler = objective.pooler
    views = []
    for k, prompt in enumerate(pooler.prompts):
        sizes = mask[:, k].sum(1) - len(prompt)
        h = last_masks(pooler.model, ids[:, k], mask[:, k])
        views.append(torch.tanh(pooler.mlp.dense(h - noises(pooler.model, prompt, int(sizes.max()))[sizes])))
    one, two, three = views
    logits = torch.cat([cosines(one, two), cosines(one, three), cosines(two, three)], dim=1) / 0.05
    return F.cross_entropy(logits, torch.arange(len(ids)))


def test_ten_steps_lose_as_the_formula(vivid_bert: Path) -> None:
    texts = [text + " in town" * (i % 3) for i, text in enumerate(CORPUS.sentences)]
    for name in ("cot-bert", "cot-bert-repo"):
        ours, theirs = losses_beside(encoder_of(name, vivid_bert), Corpus("toy", texts), port)
        assert max(theirs) - min(theirs) > 0.01
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


def test_a_row_is_three_templates_of_two_steps(tiny_bert: Path) -> None:
    encoder = encoder_of("cot-bert", tiny_bert)
    assert texts_of_first_row(encoder, ["the dog runs"]) == [
        '[CLS] the sentence of " the dog runs " means [MASK], so it can be summarized as [MASK]. [SEP]',
        '[CLS] the sentence : " the dog runs " means [MASK], so it can be summarized as [MASK]. [SEP]',
        '[CLS] the sentence : " the dog runs " does not mean [MASK], so it cannot be summarized as [MASK]. [SEP]',
    ]
    ids = torch.from_numpy(encoder.token_table(["the dog runs"]).row(0).astype(np.int64))[None]
    expected = last_masks(encoder.backbone.model, ids, torch.ones_like(ids))
    np.testing.assert_allclose(encoder.encode(["the dog runs"]), expected.detach().numpy(), atol=1e-5)


def test_a_step_after_the_mask_is_refused() -> None:
    with pytest.raises(UsageError, match=r"\[STEP\] after \[MASK\]"):
        Template.parse('"[X]" means [MASK] , or [STEP] .')
