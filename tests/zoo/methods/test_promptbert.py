"""PromptBERT: its rows by hand, both templates in one pass, and how the checkpoint is picked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM

from zoo.encoder import Corpus, Run, Runtime
from zoo.methods import prompttraining
from zoo.methods.promptbert import PromptBERT
from zoo.recipes import all_recipes

GOLDEN = {
    "promptbert": {
        "version": 2,
        "tolerance": 0.004,
        "values": [-1.0, 0.6442, 0.3361, 0.4333, 0.7004, 0.0082, -1.0, 0.3488],
    }
}

HEADS = ([101, 2023, 6251, 1997, 1000], [101, 2023, 6251, 1024, 1000])  # [CLS] this sentence of|: "
TAIL = [1000, 2965, 103, 1012, 102]
SENTENCES = {"a small dog": [1037, 2235, 3899], "rain": [4542], "two women talk": [2048, 2308, 2831]}
CORPUS = Corpus("toy", list(SENTENCES))
PAIRS = Corpus(
    "toy pairs",
    ["a small dog", "rain", "a small dog", "two women talk", "rain", "a small dog", "rain", "two women talk"],
    ["entailment", "contradiction", "entailment", "contradiction"],
)


def make(folder: Path, **fields: Any) -> PromptBERT:
    return PromptBERT(PromptBERT.Recipe(backbone=str(folder), **fields), Runtime())


def numpy_vectors(model: Any, head: list[int], sentences: list[list[int]], *, denoise: bool) -> tuple[Any, Any]:
    """h and the bias of the template, one row at a time, with position ids written out."""
    h, biases = [], []
    for ids in sentences:
        row, alone = [*head, *ids, *TAIL], [*head, *TAIL]
        positions = [*range(5), *range(5 + len(ids), 10 + len(ids))]
        with torch.inference_mode():
            h.append(model(torch.tensor([row])).last_hidden_state[0, row.index(103)].numpy())
            states = model(torch.tensor([alone]), position_ids=torch.tensor([positions])).last_hidden_state
        biases.append(states[0, 7].numpy() * denoise)
    return np.array(h, dtype=np.float64), np.array(biases, dtype=np.float64)


def test_a_batch_has_both_templates_and_cuts_the_sentence_alone(tiny_bert: Path) -> None:
    encoder = make(tiny_bert, train_max_length=2)
    batch, rows = encoder.training_rows(CORPUS, Run())
    ids, mask = batch(np.array([1, 0]))
    assert rows == 3 and ids.shape == (2, 2, 12)
    for view, head in enumerate(HEADS):
        assert ids[0, view].tolist() == [*head, 4542, *TAIL, 0] and mask[0, view].sum() == 11
        assert ids[1, view].tolist() == [*head, 1037, 2235, *TAIL]
    token_rows, _ = make(tiny_bert, second_template=None).training_rows(CORPUS, Run())[0](np.array([0]))
    assert token_rows.tolist() == [[[*HEADS[0], *SENTENCES["a small dog"], *TAIL]]]
    triplet, _ = make(tiny_bert, second_template=None, supervised=True).training_rows(PAIRS, Run())[0](np.array([0]))
    assert [row[5] for row in triplet[0].tolist()] == [1037, 4542, 2048] and triplet.shape == (1, 3, 13)


def one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompttraining, "in_one_pass", lambda device: True)


@pytest.mark.parametrize(
    ("name", "fields"),
    [("promptbert", {}), ("promptbert", {"head": "mlm"}), ("promptbert-same-template", {}), ("cot-bert", {})],
)
def test_one_pass_has_the_loss_and_gradients_of_a_pass_for_each_template(
    name: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float64, in which nothing but another formula differs by that much."""
    monkeypatch.setattr(torch.Tensor, "float", lambda tensor: tensor)
    cls, recipe = all_recipes()[name].resolve({"backbone": "zoo-mini", **fields})
    encoder: Any = cls(recipe, Runtime())
    objective = encoder.objective().double().eval()  # without dropout
    collate, rows = encoder.training_rows(Corpus("toy", [*SENTENCES, "a dog . a dog"]), Run())
    batch = collate(np.arange(rows))
    losses, gradients = [], []
    for _ in range(2):
        objective.zero_grad()
        loss = objective(*batch)
        loss.backward()
        losses.append(loss.item())
        gradients.append(torch.cat([p.grad.flatten() for p in objective.parameters() if p.grad is not None]))
        one_pass(monkeypatch)
    assert losses[1] == pytest.approx(losses[0], abs=1e-9) and losses[0] > 1e-3
    assert float((gradients[1] - gradients[0]).abs().max()) < 1e-9 < 1e-3 < float(gradients[0].abs().max())


@pytest.mark.parametrize("from_zero", [False, True])
def test_one_pass_has_roberta_s_positions(tiny_roberta: Path, from_zero: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = make(tiny_roberta, test_denoise=True, denoise_from_zero=from_zero)
    vectors = encoder.encode(list(SENTENCES))
    one_pass(monkeypatch)
    np.testing.assert_allclose(encoder.encode(list(SENTENCES)), vectors, atol=1e-6)


@pytest.mark.parametrize("like_training", [True, False])
def test_what_picks_the_checkpoint(tiny_bert: Path, like_training: bool) -> None:
    """The released code asks the denoised vectors of sentences as they are, its test plain ones with a period."""
    encoder = make(
        tiny_bert, batch_size=3, eval_every=1, select_like_training=like_training, period=True, learning_rate=1e-3
    )
    asked: list[np.ndarray] = []

    def dev_score(asking: Any) -> float:
        asked.append(asking.encode(["rain"])[0])
        return 1.0

    encoder.fit(CORPUS, dev_score=dev_score, run=Run(seed=1))
    model = encoder.backbone.model
    h, bias = numpy_vectors(model, HEADS[0], [SENTENCES["rain"]], denoise=True)
    with_period, _ = numpy_vectors(model, HEADS[0], [[4542, 1012]], denoise=False)
    np.testing.assert_allclose(asked[-1], (h - bias)[0] if like_training else with_period[0], atol=1e-5)
    np.testing.assert_allclose(encoder.encode(["rain"])[0], with_period[0], atol=1e-5)


def test_a_kept_mlm_head_is_saved_with_the_encoder(tiny_mlm: Path, tmp_path: Path) -> None:
    fields = {"second_template": None, "supervised": True, "head": "mlm", "mlp_only_train": False}
    encoder = make(tiny_mlm, test_denoise=True, batch_size=2, learning_rate=1e-3, epochs=1, **fields)
    start = AutoModelForMaskedLM.from_pretrained(tiny_mlm).cls.predictions.transform.state_dict()
    pretrained = {key.replace("LayerNorm", "norm"): value for key, value in start.items()}
    encoder.fit(PAIRS, run=Run(seed=0))
    assert encoder.mlp is not None
    moved = {k: float((v - pretrained[k]).abs().max()) for k, v in encoder.mlp.state_dict().items()}
    assert moved.pop("norm.bias") < 1e-6  # g(h) - g(bias) has none
    assert all(0 < m < 0.1 for m in moved.values())  # it started as it was pretrained, and was trained
    encoder.save(tmp_path)
    loaded = PromptBERT.load(tmp_path)
    assert loaded.fingerprint() == encoder.fingerprint()
    np.testing.assert_array_equal(loaded.encode(list(SENTENCES)), encoder.encode(list(SENTENCES)))
    with torch.inference_mode():
        h, bias = (torch.from_numpy(x).float() for x in numpy_vectors(
            encoder.backbone.model, HEADS[0], [SENTENCES["rain"]], denoise=True))  # fmt: skip
        wanted = encoder.mlp(h) - encoder.mlp(bias)
    np.testing.assert_allclose(encoder.encode(["rain"]), wanted.numpy(), atol=1e-5)
