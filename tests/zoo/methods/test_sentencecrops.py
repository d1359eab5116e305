"""Consecutive-sentence crops: the blocks that are drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_dropoutviews import encoder_of

from zoo.encoder import Corpus, Run
from zoo.errors import MissingError, TrainingError
from zoo.methods.sentencecrops import windows

GOLDEN = {"sentence-crops": {"version": 2, "values": [-1.0, 0.6031, -0.2704, 0.3554, 0.5908, -0.6889, -0.8731, 1.0]}}
WORDS = "cat dog tree house river stone cloud bird".split()
CORPUS = Corpus("toy", [f"{a} {b}" for a in WORDS for b in WORDS], documents=range(0, 64, 8))


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
