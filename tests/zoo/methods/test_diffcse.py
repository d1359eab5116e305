"""DiffCSE: ten steps beside a port of its released losses; what it counts; its generator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from ten_steps import losses_beside
from test_dropoutviews import CORPUS, cosines, encoder_of

from zoo.encoder import Run
from zoo.errors import UsageError

GOLDEN = {"diffcse": {"version": 1, "values": [-0.6633, 0.512, -0.0497, 1.0, 0.3356, -0.0445, 0.1778, 1.0]}}


def released(objective: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """cl_forward of diffcse/models.py on both views of each sentence; the masked tokens are those of `masked`."""
    both, seen = (part.repeat_interleave(2, 0) for part in (ids, mask))
    z = objective.pooler.model(input_ids=both, attention_mask=seen).last_hidden_state[:, 0]
    z = objective.pooler.mlp(z)
    generator = objective.generator
    with torch.no_grad():
        masked = objective.masked(both)
        states = generator.model(input_ids=masked, attention_mask=seen).last_hidden_state
        filled = generator.head(states).argmax(-1)
    filled[:, 0] = 101
    replaced = (filled != both) * seen
    model = objective.discriminator
    embedded = model.embeddings(input_ids=filled * seen)
    embedded = torch.cat([z.unsqueeze(1), embedded[:, 1:]], 1)
    wide = (1.0 - seen[:, None, None, :].float()) * torch.finfo(torch.float32).min
    found = objective.head(model.encoder(embedded, attention_mask=wide).last_hidden_state)
    if objective.recipe.counts_padding:
        detection = F.cross_entropy(found.view(-1, 2), replaced.view(-1))
    else:
        detection = F.cross_entropy(found[seen == 1], replaced[seen == 1])
    contrast = F.cross_entropy(cosines(z[::2], z[1::2]) / 0.05, torch.arange(len(ids)))
    return contrast + objective.recipe.detection_weight * detection


@pytest.mark.parametrize("name", ["diffcse", "diffcse-repo"])
def test_ten_steps_lose_as_the_released_code(name: str, vivid_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a larger weight of the detection, so that it counts; the same tokens are masked in every pass."""
    from zoo.methods import diffcse

    def every_third(ids: torch.Tensor, rate: float, *, mask_id: int, **_: Any) -> tuple[torch.Tensor, None]:
        places = (torch.arange(ids.shape[1]) % 3 == 1) & (ids != 102) & (ids != 0)
        return torch.where(places, torch.full_like(ids, mask_id), ids), None

    monkeypatch.setattr(diffcse, "mask_some", every_third)
    corpus = type(CORPUS)("toy", [text + " again" * (i % 3) for i, text in enumerate(CORPUS.sentences)])
    encoder = encoder_of(name, vivid_bert, detection_weight=1.0, generator_dropout=False)
    ours, theirs = losses_beside(encoder, corpus, released)
    assert max(theirs) - min(theirs) > 0.05
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


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
