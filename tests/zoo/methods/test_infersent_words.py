"""InferSent on word vectors: the vectors of each text against a plain LSTM, and unknown words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from zoo.encoder import Runtime
from zoo.methods.infersent_words import InferSentWords

GOLDEN = {
    "infersent-words": {
        "version": 2,
        "settings": {"learning_rate": 1.0},
        "values": [0.6578, 0.6652, -1.0, -0.9247, -0.0786, -0.4339, 1.0, 0.5225],
    }
}

WORDS = "dog cat river stone lamp garden train letter bridge apple the is near no like".split()
SMALL = {"lstm_dim": 6, "classifier_dim": 8, "batch_size": 8, "epochs": 2}


def word_vectors(folder: Path) -> tuple[Path, np.ndarray]:
    """A file of word vectors, 8 wide, and the same matrix."""
    matrix = np.random.default_rng(0).normal(size=(len(WORDS), 8)).astype(np.float32)
    lines = [f"{word} {' '.join(repr(float(x)) for x in row)}" for word, row in zip(WORDS, matrix, strict=True)]
    path = folder / "words.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path, matrix


def make(folder: Path, **more: object) -> InferSentWords:
    path, _ = word_vectors(folder)
    return InferSentWords(InferSentWords.Recipe(path=str(path), **{**SMALL, **more}), Runtime())


def test_vectors_are_the_largest_states_over_the_known_words(tmp_path: Path) -> None:
    encoder = make(tmp_path)
    _, matrix = word_vectors(tmp_path)
    lstm = torch.nn.LSTM(8, 6, batch_first=True, bidirectional=True)
    lstm.load_state_dict(encoder.head.lstm.state_dict())
    texts = ["The dog is near the river", "stone", "no cat xyzzy like apple", "the the the dog is near"]
    wanted = []
    for text in texts:
        known = [WORDS.index(word) for word in text.lower().split() if word in WORDS]
        with torch.no_grad():
            states, _ = lstm(torch.from_numpy(matrix[known])[None])
        wanted.append(states[0].max(0).values.numpy())
    np.testing.assert_allclose(encoder.encode(texts), np.stack(wanted), atol=1e-6)
    assert encoder.covers(["xyzzy plugh", "a dog"]).tolist() == [False, True]
    assert np.isfinite(encoder.encode(["xyzzy plugh"])).all()
    table = make(tmp_path, train_max_length=2).training_table(["the dog is near", "xyzzy", "stone"])
    assert table.lengths.tolist() == [2, 1, 1] and table.truncated == 1
    assert [WORDS[i] for i in table.row(0)] == ["the", "dog"] and table.row(1).tolist() == [len(WORDS)]
