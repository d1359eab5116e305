"""Supervised relatedness on frozen vectors: SentEval's own numbers, its order of rows, and what counts as seen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmark.data.sources import DataSource
from benchmark.reasons import reason
from benchmark.tasks import TASKS
from benchmark.tasks.relatedness import RegressorData
from zoo.encoder import Runtime
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

FIXTURE = Path(__file__).parent.parent / "fixtures" / "senteval_relatedness.json"
SENTEVAL = json.loads(FIXTURE.read_text("utf-8"))
FILES = {
    "SICK-R-regressor": ("SICK/SICK_test_annotated.txt", (1, 2, 3)),
    "STS-B-regressor": ("STS/STSBenchmark/sts-test.csv", (5, 6, 4)),
}


def load(name: str, data_dir: Path, limit: int | None = None) -> RegressorData:
    """Load a regressor task."""
    data = TASKS.get(name).load(DataSource(data_dir, hub=False), limit)
    assert isinstance(data, RegressorData)
    return data


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SENTEVAL["tasks"]))
def test_senteval_s_own_numbers(name: str, data_dir: Path) -> None:
    """The scores that SentEval's code gave on the same vectors, read from the same files; differences are float32's.

    Five to fifteen seconds of computing each: 58,000 and 74,000 steps.
    """
    cls, recipe = parse_methods(SENTEVAL["method"], all_recipes())[0].resolve({})
    scores = load(name, data_dir).score(cls(recipe, Runtime()).encode)
    expected = SENTEVAL["tasks"][name]
    assert scores["main"] == scores["spearman"] == pytest.approx(expected["spearman"], abs=5e-4)
    assert scores["pearson"] == pytest.approx(expected["pearson"], abs=5e-4)
    assert scores["mse"] == pytest.approx(expected["mse"], abs=1e-3)
    assert scores["dev_pearson"] == pytest.approx(expected["devpearson"], abs=5e-4)


@pytest.mark.parametrize("name", list(FILES))
def test_rows_in_senteval_s_order(name: str, data_dir: Path) -> None:
    """All splits, each by tokens of the first side, of the second side, then score; the pairs are the file's."""
    data = load(name, data_dir)
    assert [len(pairs) for pairs in data.splits] == ([4500, 500, 4927] if "SICK" in name else [5749, 1500, 1379])
    for pairs in data.splits:
        keys = [
            (len(a.split()), len(b.split()), y)
            for a, b, y in zip(pairs.first, pairs.second, pairs.gold.tolist(), strict=True)
        ]
        assert keys == sorted(keys)
    file, columns = FILES[name]
    lines = (data_dir / "senteval" / "downstream" / file).read_text("utf-8").strip().split("\n")
    rows = [line.split("\t") for line in lines[1 if "SICK" in name else 0 :]]
    raw = sorted((*(" ".join(row[i].split()) for i in columns[:2]), float(row[columns[2]])) for row in rows)
    test = data.splits[-1]
    assert raw == sorted(zip(test.first, test.second, test.gold.tolist(), strict=True))
    assert set(data.unlabelled()) == set(data.texts()) == {t for pairs in data.splits for t in pairs.texts()}


def test_tested_texts_are_those_of_the_test_part(data_dir: Path) -> None:
    """Both sides of 1,379 pairs; what the regressor trains on is none of them."""
    data = TASKS.get("STS-B-regressor").load(DataSource(data_dir, hub=False))
    assert len(data.tested()) == 2 * 1379
    assert len(data.texts()) == 2 * (5749 + 1500 + 1379)


@pytest.mark.slow
def test_what_is_reported(data_dir: Path) -> None:
    """Spearman and Pearson of the predictions that the mean squared error is of; constant vectors have no score."""
    from benchmark.metrics.probe.protocol import pair_features
    from benchmark.metrics.relatedness import regress

    data = load("SICK-R-regressor", data_dir, 90)
    rng = np.random.default_rng(0)
    matrix = {text: rng.normal(size=8).astype(np.float32) for text in data.texts()}
    scores = data.score(lambda texts: np.stack([matrix[text] for text in texts]))
    sides = [[np.stack([matrix[t] for t in side]) for side in (p.first, p.second)] for p in data.splits]
    gold = [pairs.gold for pairs in data.splits]
    fit = regress(np.concatenate([pair_features(u, v) for u, v in sides]), gold[0], gold[1])
    assert scores["main"] == pytest.approx(stats.spearmanr(fit.predicted, gold[2]).statistic)
    assert scores["pearson"] == pytest.approx(stats.pearsonr(fit.predicted, gold[2]).statistic)
    assert scores["mse"] == pytest.approx(np.square(fit.predicted - gold[2]).mean())
    constant = data.score(lambda texts: np.ones((len(texts), 4), np.float32))
    assert (constant["main"], constant["reason"]) == (None, reason("constant"))
