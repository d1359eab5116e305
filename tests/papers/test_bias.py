"""Frequencies, forms and classes of tokens: counted by hand, and by loops over pairs."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from fakes import Cli
from scipy.stats import spearmanr
from sklearn.decomposition import PCA

from zoo.encoder import Corpus, Runtime
from zoo.methods.static import Static, StaticRecipe
from zoo_bench_papers.analysis.bias import BANDS, Vocabulary, class_rows, read_vocabulary

pytestmark = pytest.mark.slow


def test_counts_and_forms_by_hand(toy: Path) -> None:
    static = Static(StaticRecipe(backbone=str(toy)), Runtime())
    vocabulary = read_vocabulary(static, Corpus("few", ["the dog runs", "the dogs running", "The dog is the NASA"]))
    by_token = dict(zip(vocabulary.tokens, zip(vocabulary.counts.tolist(), vocabulary.forms, strict=True), strict=True))
    assert by_token["the"] == (3, "word")
    assert by_token["dog"] == (3, "word")  # also in dog ##s
    assert by_token["##s"] == (1, "subword")
    assert by_token["The"] == (1, "capital")
    assert by_token["NASA"] == (1, "capital")
    assert by_token["##S"] == (0, "subword")  # the region of subwords, whatever its case
    assert "[CLS]" not in by_token
    assert "[unused0]" not in by_token
    assert vocabulary.counts.sum() == 3 + 3 + 5  # running is unknown, for ##ning is no piece: special, not counted


def test_bands_follow_the_ranks() -> None:
    counts = np.arange(6000, 0, -1)
    counts[5500:] = 0
    vocabulary = Vocabulary(np.arange(6000), ["t"] * 6000, ["word"] * 6000, counts)
    bands = vocabulary.bands()
    assert [bands[i] for i in (0, 99, 100, 499, 500, 4999, 5000, 5499, 5500)] == [
        *("1-100", "1-100", "101-500", "101-500", "501-5000", "501-5000", "5001-", "5001-"),
        "unseen",
    ]
    assert list(BANDS) == ["1-100", "101-500", "501-5000"]


def test_class_rows_equal_loops() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(12, 4)).astype(np.float32)
    forms = ["word"] * 5 + ["subword"] * 4 + ["capital"] * 3
    rows = class_rows("m", Vocabulary(np.arange(12), ["t"] * 12, forms, np.ones(12, int)), x, 3)
    wide = x.astype(float)
    far = np.array(
        [[np.inf if i == j else np.linalg.norm(a - b) for j, b in enumerate(wide)] for i, a in enumerate(wide)]
    )
    row = next(row for row in rows if row["Class"] == "subword")
    members, others = range(5, 9), [0, 1, 2, 3, 4, 9, 10, 11]
    near = {i: np.argsort(far[i])[:3] for i in members}
    assert row["Tokens"] == 4
    assert row["Purity"] == pytest.approx(np.mean([[forms[j] == "subword" for j in near[i]] for i in members]))
    assert row["Neighbour distance"] == pytest.approx(np.mean([far[i][near[i]] for i in members]), abs=1e-5)
    assert row["Chance"] == pytest.approx(3 / 11)
    assert row["Norm"] == pytest.approx(np.mean([np.linalg.norm(wide[i]) for i in members]))
    centre = wide[5:9].mean(axis=0)
    assert row["Spread"] == pytest.approx(np.sqrt(np.mean([np.sum((wide[i] - centre) ** 2) for i in members])))
    everything = np.sqrt(np.mean(np.sum((wide - wide.mean(axis=0)) ** 2, axis=1)))
    away = np.linalg.norm(centre - wide[others].mean(axis=0)) / everything
    assert row["Mean's distance"] == pytest.approx(away)


def test_the_command_on_a_small_model(cli: Cli, toy: Path, sentences: Path, tmp_path: Path) -> None:
    """Numbers of the summary against NumPy and scikit-learn on the weights; every file from the same numbers."""
    from safetensors.numpy import load_file

    out = tmp_path / "out"
    words = ("analyze", "bias", "--backbone", toy, "--corpus", sentences, "--neighbours", 2, "--out", out)
    answer = cli(*words, "--device", "cpu", "--precision", "fp32")
    assert answer.code == 0, answer.err
    names = {path.name for path in out.iterdir()}
    assert names == {
        *("bias.md", "bias.json", "bias.csv", "bias-classes.csv", "bias-points.csv"),
        *("bias-frequency.png", "bias-form.png"),
    }
    matrix = load_file(toy / "model.safetensors")["bert.embeddings.word_embeddings.weight"].astype(float)
    unit = matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)  # [PAD] is zero
    cosines = (unit @ unit.T)[~np.eye(len(unit), dtype=bool)]
    (row,) = json.loads((out / "bias.json").read_text())["tables"]["bias"]["rows"]
    assert row["Mean cosine, all rows"] == pytest.approx(abs(cosines.mean()), abs=1e-6)
    looked_at = matrix[6:]  # all but the special and unused tokens, which come first
    pca = PCA(2).fit(looked_at)
    assert [row["PC1 share"], row["PC2 share"]] == pytest.approx(pca.explained_variance_ratio_.tolist(), abs=1e-6)
    with (out / "bias-points.csv").open(encoding="utf-8") as file:
        points = list(csv.DictReader(file))
    plane = np.array([[float(point["PC1"]), float(point["PC2"])] for point in points])
    wanted = pca.transform(looked_at)
    np.testing.assert_allclose(np.abs(plane), np.abs(wanted), atol=1e-4)
    counts = np.array([int(point["Count"]) for point in points])
    rho = spearmanr(wanted[counts > 0, 0], counts[counts > 0]).statistic
    assert row["abs. ρ PC1"] == pytest.approx(abs(rho), abs=1e-9)
    assert {point["Token"]: int(point["Count"]) for point in points}["the"] == 4
    assert (out / "bias-form.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert f"{row['Mean cosine, all rows']:.4f}" in (out / "bias.md").read_text(encoding="utf-8")
    assert "| subword |" in answer.out
