"""simcse-words: its loss against plain numpy, the table alone where the gate is closed, and the choice by dev score."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import zoo
from zoo.encoder import Corpus, Encoder, Run, Runtime
from zoo.errors import ContractError, UsageError
from zoo.methods.pooled import Average
from zoo.methods.simcse_words import SimCSEWords, SimCSEWordsRecipe
from zoo.methods.static_contrastive import StaticContrastive
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

GOLDEN = {
    "simcse-words": {
        "version": 2,
        "settings": {"steps": 10, "table_steps": 10},
        "values": [0.2693, -0.5144, -1.0, -0.1205, 0.15, -0.8116, -1.0, -0.2362],
    }
}

WORDS = "the a river stone lamp garden winter train letter bridge market apple is near in old town by night".split()


def toy() -> Corpus:
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, int(rng.integers(2, 12)))) for _ in range(64)]
    return Corpus("toy", texts, documents=range(0, 64, 8))


def recipe(folder: Path, **more: object) -> SimCSEWordsRecipe:
    fields = {"batch_size": 16, "steps": 6, "eval_every": 2, "table_batch_size": 16, "table_steps": 5, **more}
    return SimCSEWordsRecipe(backbone=str(folder), learning_rate=1e-3, **fields)  # type: ignore[arg-type]


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def test_the_loss_is_info_nce_of_gated_sums(tiny_bert: Path) -> None:
    encoder = SimCSEWords(recipe(tiny_bert), Runtime())
    encoder.fit(toy(), run=Run(seed=1))
    with torch.no_grad():
        encoder.words.gate.fill_(0.7 / encoder.words.rate)
    batch, _ = encoder.training_rows(toy(), Run(seed=1))
    ids, mask = batch(np.arange(12))
    objective = encoder.objective().eval()
    encoder.backbone.model.eval()
    assert encoder.token_weights is not None
    table, weights = encoder.words.table.double().numpy(), encoder.token_weights.weights.double().numpy()
    views = []
    for view in range(2):
        rows = []
        for token_ids, real in zip(ids[:, view].numpy(), mask[:, view].numpy().astype(bool), strict=True):
            with torch.inference_mode():
                states = (
                    encoder.backbone.model(torch.from_numpy(token_ids[real])[None])
                    .last_hidden_state[0]
                    .double()
                    .numpy()
                )
            gates = weights[token_ids[real]]
            rows.append(unit(table[token_ids[real]].sum(0)) + 0.7 * unit(gates @ states))
        views.append(unit(np.array(rows)))
    logits = views[0] @ views[1].T / 0.05
    wanted = float(np.mean(np.log(np.exp(logits).sum(1)) - np.diag(logits)))
    assert objective(ids, mask).item() == pytest.approx(wanted, abs=2e-5)


def test_with_a_closed_gate_it_is_static_contrastive(tiny_bert: Path, tmp_path: Path) -> None:
    encoder, corpus = SimCSEWords(recipe(tiny_bert), Runtime()), toy()
    texts = ["the river by night", "an unknownword and the town", "stone"]
    plain = Average(Average.Recipe(backbone=str(tiny_bert)), Runtime())
    assert np.abs(encoder.encode(texts) - unit(plain.encode(texts))).max() < 1e-5  # before training: the states alone
    report = encoder.fit(corpus, dev_score=lambda e: 1.0 if closed(e) else 0.0, run=Run(seed=3))
    assert report.facts["gate"] == 0 and report.facts["dev_score_at_gate_0"] == 1
    alone = StaticContrastive(
        StaticContrastive.Recipe(
            vocabulary=str(tiny_bert), dim=encoder.dim, positives="neighbours", batch_size=16, steps=5
        ),
        Runtime(),
    )
    alone.fit(corpus, dev_score=lambda e: 1.0, run=Run(seed=3))
    assert np.abs(encoder.encode(texts) - alone.encode(texts)).max() < 1e-6
    zoo.save(encoder, tmp_path)
    assert np.array_equal(zoo.load(tmp_path).encode(texts), encoder.encode(texts))


def closed(encoder: Encoder) -> bool:
    return not isinstance(encoder, SimCSEWords) or float(encoder.words.gate.detach()) == 0


def test_the_gate_opens_where_the_development_pairs_gain(tiny_bert: Path) -> None:
    encoder = SimCSEWords(recipe(tiny_bert), Runtime())
    report = encoder.fit(toy(), dev_score=lambda e: 0.0 if closed(e) else 1.0, run=Run(seed=3))
    assert report.facts["gate"] != 0 and report.best_step == 2 and report.steps == 6


def test_what_does_not_fit_is_one_sentence(tiny_bert: Path) -> None:
    with pytest.raises(ContractError, match="needs a corpus"):
        SimCSEWords(recipe(tiny_bert), Runtime()).fit(None, run=Run())
    with pytest.raises(UsageError, match="pooler avg is simcse's"):
        parse_methods("simcse-words:pooler=avg", all_recipes())[0].resolve()
