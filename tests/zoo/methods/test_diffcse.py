"""DiffCSE: what its discriminator counts, and its generator; test_releases has its ten steps."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from test_dropoutviews import CORPUS, encoder_of

from zoo.encoder import Run
from zoo.errors import UsageError

GOLDEN = {
    "diffcse": {
        "version": 2,
        "tolerance": 0.006,
        "values": [-1.0, 0.6338, -0.8234, 0.1997, 0.8957, 0.0829, -0.1875, 1.0],
    }
}


def test_what_the_discriminator_sees(vivid_bert: Path) -> None:
    objective = encoder_of("diffcse", vivid_bert).objective().train()
    assert not objective.generator.training and objective.discriminator.training
    assert encoder_of("diffcse-repo", vivid_bert).objective().train().generator.training
    assert not any(p.requires_grad for p in objective.generator.parameters())
    ids, mask = torch.randint(1000, 2000, (4, 6)), torch.ones(4, 6, dtype=torch.long)
    mask[0, 3:] = 0
    *views, sums = objective.embed(ids, mask)
    assert len(views) == 2 and sums[:, 1].tolist() == [6, 12, 12, 12]  # tokens of both views
    objective.contrast(*views, sums).backward()
    assert (
        objective.head.weight.grad is not None
        and objective.pooler.model.embeddings.word_embeddings.weight.grad is not None
    )


def test_a_generator_of_other_tokens_is_refused(vivid_bert: Path, tiny_roberta: Path) -> None:
    with pytest.raises(UsageError, match="has other tokens than the backbone"):
        encoder_of("diffcse", vivid_bert, generator=str(tiny_roberta)).fit(CORPUS, run=Run())
