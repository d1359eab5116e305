"""SimCSE: its loss in numpy, its two dropout views, its test vector."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

from zoo.encoder import Corpus, Run, Runtime
from zoo.methods.simcse import SimCSE, SimCSEObjective
from zoo.training.heads import TanhHead
from zoo.training.losses import info_nce

IDS = torch.tensor([[101, 1037, 2235, 3899, 102], [101, 4542, 102, 0, 0], [101, 2048, 2308, 102, 0]])
MASK = (IDS != 0).long()


def numpy_info_nce(queries: np.ndarray, candidates: np.ndarray, temperature: float) -> float:
    total = 0.0
    for i, h in enumerate(queries.astype(np.float64)):
        cosines = [h @ c / np.linalg.norm(h) / np.linalg.norm(c) for c in candidates.astype(np.float64)]
        scores = np.exp(np.array(cosines) / temperature)
        total -= np.log(scores[i] / scores.sum())
    return total / len(queries)


@pytest.mark.parametrize("extra", [0, 7])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_info_nce_equals_numpy(temperature: float, extra: int) -> None:
    generator = torch.Generator().manual_seed(1)
    queries = torch.randn(5, 8, generator=generator)
    candidates = torch.cat([queries + 0.3, torch.randn(extra, 8, generator=generator)])
    wanted = numpy_info_nce(queries.numpy(), candidates.numpy(), temperature)
    assert float(info_nce(queries, candidates, temperature)) == pytest.approx(wanted, abs=1e-6)


def test_info_nce_is_float32_under_autocast() -> None:
    generator = torch.Generator().manual_seed(1)
    queries, candidates = (torch.randn(5, 8, generator=generator) for _ in range(2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = info_nce(queries, candidates, 0.05)
    assert loss.dtype == torch.float32
    assert float(loss) == pytest.approx(numpy_info_nce(queries.numpy(), candidates.numpy(), 0.05), abs=1e-5)


def test_objective_equals_numpy_over_two_passes_of_the_encoder(tiny_bert: Path) -> None:
    """Without dropout both views are one; the loss is InfoNCE of tanh(W h + b) with itself."""
    torch.manual_seed(0)
    objective = SimCSEObjective(AutoModel.from_pretrained(tiny_bert), 0.05).eval()
    with torch.inference_mode():
        states = objective.model(IDS, attention_mask=MASK).last_hidden_state[:, 0].numpy()
        loss = float(objective(IDS, MASK))
    dense = objective.mlp.dense
    h = np.tanh(states @ dense.weight.detach().numpy().T + dense.bias.detach().numpy())
    assert loss == pytest.approx(numpy_info_nce(h, h, 0.05), abs=1e-5)


def test_the_views_of_a_sentence_differ_by_dropout_only(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import zoo.methods.simcse as module

    views: list[torch.Tensor] = []

    def spy(h: torch.Tensor, h_plus: torch.Tensor, temperature: float) -> torch.Tensor:
        views.extend((h, h_plus))
        return (h * 0).sum()

    monkeypatch.setattr(module, "info_nce", spy)
    objective = SimCSEObjective(AutoModel.from_pretrained(tiny_bert), 0.05)
    objective.train()(IDS, MASK)
    objective.eval()(IDS, MASK)
    assert (views[0] - views[1]).abs().max() > 1e-4
    torch.testing.assert_close(views[2], views[3])


def test_head_starts_as_bert_initialises_linear_maps() -> None:
    torch.manual_seed(0)
    head = TanhHead(400)
    assert float(head.dense.weight.detach().std()) == pytest.approx(0.02, rel=0.02)
    assert float(head.dense.weight.detach().mean()) == pytest.approx(0, abs=2e-4)
    assert not head.dense.bias.any()


def test_training_changes_the_weights_and_the_test_vector_is_cls_without_the_mlp(tiny_bert: Path) -> None:
    encoder = SimCSE(SimCSE.Recipe(backbone=str(tiny_bert), batch_size=4, learning_rate=1e-3), Runtime())
    before, mark = encoder.backbone.weights_sha256(), encoder.fingerprint()
    report = encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1))
    assert report.fitted and report.steps == 2 and np.isfinite(report.final_loss)
    assert encoder.backbone.weights_sha256() != before and encoder.fingerprint() != mark
    ids = torch.tensor([encoder.backbone.tokenizer("a small dog")["input_ids"]])
    with torch.inference_mode():
        states = encoder.backbone.model(ids).last_hidden_state
    np.testing.assert_allclose(encoder.encode(["a small dog"])[0], states[0, 0].numpy(), atol=1e-6)


def test_training_cuts_sentences_at_the_training_length_only(tiny_bert: Path) -> None:
    encoder = SimCSE(SimCSE.Recipe(backbone=str(tiny_bert), train_max_length=8), Runtime())
    ids, mask = encoder.collate(Corpus("toy", ["word " * 50, "one"]))(np.array([0, 1]))
    assert ids.shape == (2, 8) and mask.sum(1).tolist() == [8, 3]
    assert ids[0, -1] == encoder.backbone.tokenizer.sep_token_id
    encoder.encode(["word " * 50])
    assert encoder.encoding_stats()["tokens"] == 52


def test_learning_pulls_the_views_together(tiny_bert: Path, pocket_sentences: list[str]) -> None:
    """A few steps on real sentences lower the loss."""
    encoder = SimCSE(SimCSE.Recipe(backbone=str(tiny_bert), batch_size=16, learning_rate=3e-3, epochs=4), Runtime())
    torch.manual_seed(0)
    objective = encoder.objective().train()
    batch = encoder.collate(Corpus("p", pocket_sentences[:16]))(np.arange(16))
    with torch.no_grad():
        first = float(objective(*batch))
    report = encoder.fit(Corpus("p", pocket_sentences[:64]), run=Run(seed=0))
    assert report.final_loss < first
