"""CoT-BERT: the rows of its templates, and its vector; test_releases has its ten steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ten_steps import texts_of_first_row
from test_dropoutviews import encoder_of

from zoo.errors import UsageError
from zoo.modules.templates import Template

GOLDEN = {"cot-bert": {"version": 2, "values": [-1.0, 0.6414, -0.2887, 0.3386, 0.6981, 0.1352, -1.0, 0.3254]}}
MASK_ID = 103


def last_masks(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The state at the second of a row's two [MASK] (n, dim)."""
    states: torch.Tensor = model(input_ids=ids, attention_mask=mask).last_hidden_state
    return states[ids == MASK_ID].view(len(ids), 2, -1)[:, 1]


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
