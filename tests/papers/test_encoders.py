"""Anisotropy, alignment and maps of recipes and of saved encoders, against loops over pairs."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Bag, Cli
from scipy.stats import spearmanr

from benchmark.data.readers.pairs import Pairs
from benchmark.data.sources import DataSource
from benchmark.records.query import scored_pairs
from benchmark.tasks.loaded import LoadedTask, load_tasks
from zoo.encoder import Encoder, Runtime

pytestmark = pytest.mark.slow

CPU = ("--device", "cpu", "--precision", "fp32")


def rows_of(out: Path, name: str) -> list[dict[str, Any]]:
    return json.loads((out / f"{name}.json").read_text(encoding="utf-8"))["tables"][name]["rows"]


def mean_cosine(encoder: Encoder, texts: list[str]) -> float:
    vectors = encoder.encode(texts).astype(float)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return float(abs(np.mean([a @ b for a, b in itertools.permutations(unit, 2)])))


def spearman(encoder: Encoder, pairs: Pairs) -> float:
    first, second = encoder.encode(pairs.first).astype(float), encoder.encode(pairs.second).astype(float)
    cosines = np.sum(first * second, axis=1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    return 100 * float(spearmanr(np.round(cosines, 9), pairs.gold).statistic)  # ties are ties


def pocket() -> LoadedTask:
    (task,) = load_tasks(["pocket-pairs"], DataSource(None, hub=False), None)
    return task


def test_anisotropy_of_zoo_mini_beside_its_scores(cli: Cli, fakes: None, tmp_path: Path) -> None:
    from zoo.methods.static import Static, StaticRecipe

    few = tmp_path / "few.txt"
    few.write_text("A small dog runs.\nThe market fell.\nWhy does bread rise?\nRain on the roof.\n", encoding="utf-8")
    out = tmp_path / "out"
    words = ("analyze", "anisotropy", "--methods", "static-avg,bag", "--suite", "pocket", "--corpus", few, "--out", out)
    answer = cli(*words, *CPU)
    assert answer.code == 0, answer.err
    assert "bag, -: 0 of 4 sentences" in answer.err and "bag, -: pocket-pairs" in answer.err  # it takes hours on wiki
    static, bag = rows_of(out, "anisotropy")
    texts = few.read_text(encoding="utf-8").splitlines()
    encoders: list[Encoder] = [Static(StaticRecipe(), Runtime()), Bag(Bag.Recipe(), Runtime())]
    for row, encoder in zip((static, bag), encoders, strict=True):
        assert row["Sentence anisotropy"] == pytest.approx(mean_cosine(encoder, texts), abs=1e-6)
        assert row["pocket-pairs dev"] == pytest.approx(spearman(encoder, scored_pairs(pocket(), "dev")), abs=1e-6)
        assert row["pocket-pairs test"] == pytest.approx(spearman(encoder, scored_pairs(pocket(), "test")), abs=1e-6)
        assert row["Avg. (pocket)"] is not None
    assert (static["Method"], static["Backbone"], bag["Backbone"]) == ("static-avg", "zoo-mini", "-")
    assert {path.suffix for path in out.iterdir()} == {".md", ".csv", ".json", ".png"}
    assert f"{static['Sentence anisotropy']:.4f}" in (out / "anisotropy.md").read_text(encoding="utf-8")


def test_alignment_of_saved_seeds(cli: Cli, fakes: None, tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    words = ("--methods", "fitted", "--suite", "pocket", "--tasks", "pocket-pairs", "--seeds", 2)
    assert cli("run", *words, "--results", results, "--train-sentences", 50, *CPU).code == 0
    words = ("analyze", "alignment", "--methods", "bag,fitted", "--results", results, "--suite", "pocket", "--out", out)
    answer = cli(*words, *CPU)
    assert answer.code == 0, answer.err
    rows = rows_of(out, "alignment")
    assert [(row["Method"], row["Seed"]) for row in rows] == [("bag", None), ("fitted", 0), ("fitted", 1)]
    assert rows[1]["Uniformity"] != rows[2]["Uniformity"]
    pairs = scored_pairs(pocket(), "all")
    encoder = Bag(Bag.Recipe(), Runtime())
    texts = sorted({*pairs.first, *pairs.second})
    unit = {t: v / np.linalg.norm(v) for t, v in zip(texts, encoder.encode(texts).astype(float), strict=True)}
    positive = [i for i, score in enumerate(pairs.gold) if score > 4]
    near = np.mean([np.sum((unit[pairs.first[i]] - unit[pairs.second[i]]) ** 2) for i in positive])
    assert rows[0]["Alignment"] == pytest.approx(near, abs=1e-7)
    everything = np.array([unit[text] for text in texts])
    squared = np.square(everything[:, None] - everything[None]).sum(axis=2)[np.triu_indices(len(texts), 1)]
    assert rows[0]["Uniformity"] == pytest.approx(np.log(np.mean(np.exp(-2 * squared))), abs=1e-7)
    assert rows[0]["pocket-pairs test"] == pytest.approx(spearman(encoder, scored_pairs(pocket(), "test")), abs=1e-6)
