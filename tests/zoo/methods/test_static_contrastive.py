"""Token tables trained by contrast: ten steps against a computation in numpy, the start, export, and bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import AutoTokenizer

from zoo.check import ODD_TEXTS, PROBES
from zoo.encoder import Corpus, Run, Runtime
from zoo.engine.backbone import Backbone
from zoo.errors import CorruptError
from zoo.formats.export import write_sentence_transformers
from zoo.methods.static_contrastive import StaticContrastive
from zoo.modules.ppmi import ppmi_vectors
from zoo.tensors import read_tensors, write_tensors
from zoo.training.augment import generator
from zoo.training.positives import PositivePairs

GOLDEN = {
    "static-contrastive": {
        "version": 1,
        # All directions of the table: in the fixed weights, those after the second are rounding.
        "settings": {"steps": 10},
        "values": [0.0618, -0.5368, -1.0, 0.1931, 0.2237, -0.5829, -1.0, 0.4956],
    }
}

Table = NDArray[np.float64]
WORDS = "the a river stone lamp garden winter train letter bridge market apple is near in old town by night".split()


def toy(documents: bool = True) -> Corpus:
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, int(rng.integers(2, 12)))) for _ in range(64)]
    return Corpus("toy", texts, documents=range(0, 64, 8) if documents else None)


def make_encoder(backbone: Path | None, vocabulary: Path, **more: object) -> StaticContrastive:
    fields = {"dim": 8, "batch_size": 16, "steps": 10, "learning_rate": 0.02, **more}
    start = {"vocabulary": str(vocabulary)} if backbone is None else {"backbone": str(backbone), "dim": None}
    return StaticContrastive(StaticContrastive.Recipe(**{**fields, **start}), Runtime())


def loss_and_gradient(table: Table, first: list[NDArray[np.int32]], second: list[NDArray[np.int32]], t: float) -> tuple:
    """InfoNCE of the cosines of mean rows, and its gradient, derived by hand."""
    n = len(first)
    means = [np.stack([table[row].mean(0) for row in side]) for side in (first, second)]
    norms = [np.linalg.norm(m, axis=1, keepdims=True) for m in means]
    units = [m / norm for m, norm in zip(means, norms, strict=True)]
    logits = units[0] @ units[1].T / t
    weights = np.exp(logits - logits.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    loss = -np.log(np.diag(weights)).mean()
    error = (weights - np.eye(n)) / n / t
    gradient = np.zeros_like(table)
    for side, unit, norm, inner in zip(
        (first, second), units, norms, (error @ units[1], error.T @ units[0]), strict=True
    ):
        of_mean = (inner - unit * (inner * unit).sum(1, keepdims=True)) / norm
        for row, part in zip(side, of_mean, strict=True):
            np.add.at(gradient, row, part / len(row))
    return loss, gradient


@pytest.mark.parametrize("how", ["mix", "halves"])
def test_ten_steps_are_those_of_a_computation_in_numpy(how: str, tiny_bert: Path) -> None:
    """The loss, its gradient, Adam with a rate that falls linearly to 0, and nothing else."""
    encoder, corpus = make_encoder(None, tiny_bert, positives=how), toy()
    ids = encoder.tokens.table(corpus.sentences)
    table = encoder.initial_table(ids.ids, 3).double().numpy()
    table[list(encoder.tokens.dropped)] = 0
    pairs = PositivePairs(corpus, ids, how)  # type: ignore[arg-type]
    first_moment, second_moment, losses = np.zeros_like(table), np.zeros_like(table), []
    batches = [np.random.default_rng([3, epoch]).permutation(len(pairs.rows)) for epoch in range(3)]
    rows = [order[i : i + 16] for order in batches for i in range(0, len(order), 16)]
    for step in range(10):
        views = pairs.views(pairs.rows[rows[step]], generator(3, int(rows[step][0])))
        loss, gradient = loss_and_gradient(table, *([v.row(i) for i in range(len(v))] for v in views), 0.05)
        losses.append(loss)
        first_moment = 0.9 * first_moment + 0.1 * gradient
        second_moment = 0.999 * second_moment + 0.001 * gradient**2
        corrected = first_moment / (1 - 0.9 ** (step + 1)), second_moment / (1 - 0.999 ** (step + 1))
        table -= 0.02 * (1 - step / 10) * corrected[0] / (np.sqrt(corrected[1]) + 1e-8)
    report = encoder.fit(corpus, run=Run(seed=3))
    assert report.steps == 10 and report.final_loss == pytest.approx(losses[-1], rel=1e-4)
    assert np.abs(encoder.bag.weight.detach().numpy() - table).max() < 1e-4
    text = "the old bridge by night"
    mean = table[encoder.tokens.table([text]).ids].mean(0)
    assert np.abs(encoder.encode([text])[0] - mean / np.linalg.norm(mean)).max() < 1e-5


def test_the_start_is_ppmi_times_sif(tiny_bert: Path) -> None:
    encoder, corpus = make_encoder(None, tiny_bert, a=0.01), toy()
    ids = encoder.tokens.table(corpus.sentences).ids
    counts = np.bincount(ids, minlength=len(encoder.bag.weight))
    vectors = ppmi_vectors(ids, len(counts), 8, seed=5)
    weights = 0.01 / (0.01 + counts / counts.sum())
    assert np.allclose(encoder.initial_table(ids, 5), vectors * weights[:, None], atol=1e-6)
    plain = make_encoder(None, tiny_bert, a=None).initial_table(ids, 5)
    assert np.allclose(plain, vectors, atol=1e-6)


def test_a_backbones_table_is_scaled_and_cut_to_start_from(tiny_bert: Path) -> None:
    table = Backbone.load(str(tiny_bert), None, Runtime()).token_vectors
    full_size = make_encoder(tiny_bert, tiny_bert, a=None)
    (unknown,) = full_size.tokens.dropped
    scaled = table * 0.8 / table.norm(dim=1).mean()
    scaled[unknown] = 0
    assert torch.allclose(full_size.initial_table(np.arange(5, dtype=np.int32), 0), scaled, atol=1e-6)
    cut = StaticContrastive(StaticContrastive.Recipe(backbone=str(tiny_bert), dim=4), Runtime())
    u, s, _ = np.linalg.svd(table.numpy(), full_matrices=False)
    wanted = u[:, :4] * s[:4]
    wanted[unknown] = 0
    grams = [m @ m.T for m in (cut.bag.weight.detach().numpy()[:300], wanted[:300])]
    assert np.corrcoef(grams[0].ravel(), grams[1].ravel())[0, 1] > 0.9999
    assert set(StaticContrastive.sources(cut.recipe, Runtime())) == {"backbone"}
    alone = StaticContrastive.sources(StaticContrastive.Recipe(vocabulary=str(tiny_bert)), Runtime())
    assert set(alone) == {"vocabulary"} and set(alone["vocabulary"]) == {"name", "sha256"}


def test_the_export_gives_equal_vectors_in_both_packages(tiny_bert: Path, tmp_path: Path) -> None:
    import sentence_transformers as library

    encoder = make_encoder(None, tiny_bert)
    encoder.fit(toy(), run=Run(seed=0))
    write_sentence_transformers(encoder, tmp_path / "out", {"README.md": "# Words\n"})
    texts = [*PROBES, "an unknownxyz \u2603 word", *(text for text in ODD_TEXTS if text.isprintable())]
    theirs = library.SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(texts)
    assert np.abs(theirs - encoder.encode(texts)).max() < 1e-6
    model2vec = pytest.importorskip("model2vec", reason="pip install model2vec")
    theirs = model2vec.StaticModel.from_pretrained(tmp_path / "out").encode(texts)
    assert np.abs(theirs - encoder.encode(texts)).max() < 1e-6


def test_a_table_of_another_vocabulary_is_refused(tiny_bert: Path, tiny_roberta: Path, tmp_path: Path) -> None:
    encoder = make_encoder(None, tiny_bert)
    encoder.save(tmp_path)
    other = AutoTokenizer.from_pretrained(tiny_roberta).backend_tokenizer
    (tmp_path / "tokenizer.json").write_text(other.to_str(), encoding="utf-8")
    with pytest.raises(CorruptError, match=r"token vectors and the tokenizer .* tokens: it is of another vocabulary"):
        StaticContrastive.load(tmp_path)
    encoder.save(tmp_path)
    table = read_tensors(tmp_path / "table.safetensors")[0]["table"]
    write_tensors(tmp_path / "table.safetensors", {"table": table[:-1]})
    with pytest.raises(CorruptError, match="of another vocabulary"):
        StaticContrastive.load(tmp_path)


def test_texts_without_a_known_token_are_not_covered(tiny_bert: Path) -> None:
    encoder = make_encoder(None, tiny_bert)
    assert encoder.covers(["the river", "", "\u2603", " "]).tolist() == [True, False, False, False]
    assert not encoder.encode(["", "\u2603"]).any()


def test_ppmi_vectors_factor_the_matrix_that_counting_gives() -> None:
    """With as many dimensions as tokens, V S V^T of a dense re-computation has the same singular values."""
    ids = np.random.default_rng(0).integers(0, 12, 4000)
    counts = np.zeros((12, 12))
    for distance in (1, 2):
        for a, b in zip(ids[:-distance], ids[distance:], strict=True):
            counts[a, b] += 1 / distance
            counts[b, a] += 1 / distance
    contexts = counts.sum(0) ** 0.75
    with np.errstate(divide="ignore"):
        ppmi = np.maximum(np.log(counts / counts.sum(1, keepdims=True) / (contexts / contexts.sum())), 0)
    u, s, _ = np.linalg.svd(ppmi)
    expected = u * np.sqrt(s)
    expected -= expected.mean(axis=0)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    vectors = ppmi_vectors(ids, 12, 12, seed=0, row_norm=1.0, window=2)
    assert np.allclose(vectors @ vectors.T, expected @ expected.T, atol=1e-3)


@pytest.mark.parametrize(("pairs", "dim", "seed"), [(1, 8, 0), (2, 16, 1), (3, 16, 2), (3, 64, 3)])
def test_directions_that_are_rounding_are_zero(pairs: int, dim: int, seed: int) -> None:
    """Tokens that stand in equal contexts have equal counts: so many fewer columns are used than there are tokens."""
    common = np.random.default_rng(seed).integers(0, 4, (12, 6))
    rare = [np.append(row, 4 + 2 * (i % pairs)) for i, row in enumerate(common)]
    twins = [np.where(row >= 4, row + 1, row) for row in rare]
    ids = np.concatenate([*rare, [0] * 6, *twins, [0] * 6])
    table = ppmi_vectors(ids, 300, dim, seed=seed)[: 4 + 2 * pairs]
    columns = np.abs(table).max(axis=0)
    assert 0 < (columns > 0).sum() <= 4 + pairs and columns[columns > 0].min() > 1e-6
