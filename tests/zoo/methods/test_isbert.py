"""IS-BERT: its features and its loss in numpy; the head of the best dev score is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel

from zoo.encoder import Corpus, Encoder, Run, Runtime
from zoo.methods.isbert import ISBert, ISBertObjective, NgramCNN

GOLDEN = {
    "isbert": {
        "version": 1,
        "tolerance": 0.003,
        "values": [-0.3647, 1.0, 0.9337, -0.6798, 0.0249, -0.3294, 1.0, 0.1364],
    }
}

IDS = torch.tensor([[101, 1037, 2235, 3899, 102], [101, 4542, 102, 0, 0], [101, 2048, 2308, 102, 0]])
MASK = (IDS != 0).long()
LENGTHS = [5, 3, 4]


def make(folder: Path, **more: Any) -> ISBert:
    chosen = {"batch_size": 8, "learning_rate": 1e-3, "channels": 5, **more}
    return ISBert(ISBert.Recipe(backbone=str(folder), **chosen), Runtime())


def numpy_features(states: np.ndarray, head: NgramCNN, relu: bool) -> np.ndarray:
    """One sentence's token states (length, dim) -> (length, features), window by window."""
    columns = []
    for convolution in head.convolutions:
        weight, bias = (convolution.get_parameter(n).detach().double().numpy() for n in ("weight", "bias"))
        half = weight.shape[2] // 2
        padded = np.pad(states, ((half, half), (0, 0)))
        rows = [(weight * padded[i : i + 2 * half + 1].T).sum((1, 2)) + bias for i in range(len(states))]
        columns.append(np.array(rows))
    features = np.concatenate(columns, 1)
    return np.maximum(features, 0) if relu else features


def numpy_loss(features: list[np.ndarray]) -> float:
    """Jensen-Shannon loss over all pairs of a token and a sentence."""
    means = [c.mean(0) for c in features]
    tokens = sum(map(len, features))
    positives = negatives = 0.0
    for i, c in enumerate(features):
        for token in c:
            for j, mean in enumerate(means):
                score = float(token @ mean)
                if i == j:
                    positives += np.log1p(np.exp(-score))
                else:
                    negatives += np.log1p(np.exp(score))
    return positives / tokens + negatives / (tokens * max(len(features) - 1, 1))


def objective_of(folder: Path, activation: str, channels: int = 5) -> ISBertObjective:
    torch.manual_seed(0)
    recipe = ISBert.Recipe(channels=channels, activation=activation)
    objective = ISBertObjective(AutoModel.from_pretrained(folder), NgramCNN(32, recipe)).eval()
    with torch.no_grad():
        for parameter in objective.head.parameters():
            parameter.mul_(2)  # scores away from 0
    return objective


def states_of(objective: ISBertObjective) -> list[np.ndarray]:
    """Token states of each sentence alone, without padding."""
    with torch.no_grad():
        return [
            objective.model(IDS[i : i + 1, :n]).last_hidden_state[0].double().numpy() for i, n in enumerate(LENGTHS)
        ]


@pytest.mark.parametrize("activation", ["relu", "none"])
def test_features_and_loss_equal_numpy(tiny_bert: Path, activation: str) -> None:
    objective = objective_of(tiny_bert, activation)
    wanted = [numpy_features(states, objective.head, activation == "relu") for states in states_of(objective)]
    with torch.no_grad():
        c, means, _ = objective.embed(IDS, MASK)
        loss = float(objective(IDS, MASK))
    assert c.shape == (3, 5, 15)
    for i, n in enumerate(LENGTHS):
        np.testing.assert_allclose(c[i, :n].numpy(), wanted[i], atol=1e-5)
        np.testing.assert_allclose(means[i].numpy(), wanted[i].mean(0), atol=1e-5)
    assert loss == pytest.approx(numpy_loss(wanted), rel=32 * torch.finfo(torch.float32).eps, abs=1e-6)
    assert abs(loss - 2 * np.log(2)) > 1e-2  # not the value of zero scores


def test_the_head_of_the_best_dev_score_is_kept(tiny_bert: Path, pocket_sentences: list[str]) -> None:
    encoder, seen, values = make(tiny_bert, eval_every=1), [], iter([1.0, 2.0, 0.5])

    def score(e: Encoder) -> float:
        seen.append(e.encode(["a dog"])[0])
        return next(values)

    encoder.fit(Corpus("p", pocket_sentences[:24]), dev_score=score, run=Run(seed=1))
    np.testing.assert_array_equal(encoder.encode(["a dog"])[0], seen[1])
    assert np.abs(seen[1] - seen[2]).max() > 0
