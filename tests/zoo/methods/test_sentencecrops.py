"""Consecutive-sentence crops: the blocks that are drawn, and ten steps beside the released loop's loss."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from ten_steps import losses_beside
from test_dropoutviews import encoder_of

from zoo.encoder import Corpus, Run
from zoo.errors import MissingError, TrainingError
from zoo.methods.sentencecrops import windows

GOLDEN = {"sentence-crops": {"version": 1, "values": [-0.8903, 0.2505, -1.0, 0.6386, 0.4482, -0.5855, -1.0, 0.6004]}}
WORDS = "cat dog tree house river stone cloud bird".split()
CORPUS = Corpus("toy", [f"{a} {b}" for a in WORDS for b in WORDS], documents=range(0, 64, 8))


def released(objective: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The loop of train_stuff.py: means over the mask, each anchor's cosines with all positives, times 20."""
    sides = []
    for side in range(2):
        states = objective.pooler.model(input_ids=ids[:, side], attention_mask=mask[:, side]).last_hidden_state
        seen = mask[:, side].unsqueeze(-1).float()
        sides.append((states * seen).sum(1) / seen.sum(1))
    scores = torch.stack([F.cosine_similarity(a[None], sides[1]) for a in sides[0]])
    return F.cross_entropy(scores * 20, torch.arange(len(ids)))


@pytest.mark.parametrize(("name", "most_norm"), [("sentence-crops", 1.0), ("sentence-crops-repo", math.inf)])
def test_ten_steps_lose_as_the_released_code(name: str, most_norm: float, vivid_bert: Path) -> None:
    """The code cuts no gradient's norm; here that alone is a difference of 0.08."""
    encoder = encoder_of(name, vivid_bert, batch_size=4)
    ours, theirs = losses_beside(encoder, CORPUS, released, most_norm=most_norm)
    assert max(theirs) - min(theirs) > 0.05
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("overlap", [False, True])
def test_blocks_are_two_sentences_of_one_document(overlap: bool, tiny_bert: Path) -> None:
    encoder = encoder_of("sentence-crops", tiny_bert, overlap=overlap, window=8)
    number = {text: i for i, text in enumerate(CORPUS.sentences)}
    seen = set()
    for start in range(60):
        batch, rows = encoder.training_rows(CORPUS, Run(seed=start))
        assert rows == 8
        ids, _ = batch(np.array([start % rows, (start + 3) % rows]))
        for row, pair in zip((start % rows, (start + 3) % rows), ids, strict=True):
            blocks = []
            for block in pair:
                words = encoder.backbone.tokenizer.decode(block, skip_special_tokens=True).split()
                first, second = number[" ".join(words[:2])], number[" ".join(words[2:])]
                assert second == first + 1 and first // 8 == row == second // 8
                blocks.append(first)
            seen.add(blocks[0] - blocks[1])
    assert seen == set(range(-6, 7)) - ({0} if overlap else {-1, 0, 1})


def test_windows_stay_within_documents() -> None:
    ends = np.array([3] * 3 + [14] * 11)
    assert windows(ends, 5, 4).tolist() == [[3, 8], [8, 13]]
    assert windows(ends, 5, 3).tolist() == [[0, 3], [3, 8], [8, 13]]
    assert windows(ends, 11, 12).shape == (0, 2)


def test_documents_are_needed(tiny_bert: Path) -> None:
    with pytest.raises(MissingError, match="does not say which sentences are neighbours"):
        encoder_of("sentence-crops", tiny_bert).fit(Corpus("x", CORPUS.sentences), run=Run())
    short = Corpus("x", CORPUS.sentences, documents=range(0, 64, 2))
    with pytest.raises(TrainingError, match="no document of x has the 4 sentences"):
        encoder_of("sentence-crops", tiny_bert).fit(short, run=Run())
