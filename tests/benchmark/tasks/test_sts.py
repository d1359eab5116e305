"""STS tasks: tokens joined as SentEval does, scores as an independent computation gives them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from fakes import Bag
from scipy import stats

from benchmark.data.sources import DataSource
from benchmark.tasks import TASKS
from benchmark.tasks.base import PairsData
from zoo.encoder import Runtime


def load(name: str, data_dir: Path, limit: int | None = None) -> PairsData:
    data = TASKS.get(name).load(DataSource(data_dir, hub=False), limit)
    assert isinstance(data, PairsData)
    return data


def test_tokens_are_joined_with_single_blanks(data_dir: Path) -> None:
    """The papers' evaluations do `' '.join(tokens)`: no tab, no double blank, none at the ends."""
    for name in ("STS12", "STS16", "STS-B", "SICK-R"):
        for text in load(name, data_dir).unlabelled():
            assert text == " ".join(text.split())


def test_sick_keeps_its_case(data_dir: Path) -> None:
    """SentEval lower-cases STS12-16 and STS-B, but not SICK (docs/protocol.md)."""
    assert any(text != text.lower() for text in load("SICK-R", data_dir).texts())
    for name in ("STS12", "STS14", "STS-B"):
        assert all(text == text.lower() for text in load(name, data_dir).texts())


def test_scores_against_an_independent_computation(data_dir: Path) -> None:
    """STS13 from its files with nothing of ours but the vectors."""
    encoder = Bag(Bag.Recipe(), Runtime())
    scores = load("STS13", data_dir).score(encoder.encode)
    folder = data_dir / "senteval" / "downstream" / "STS" / "STS13-en-test"
    every = []
    for subset in ("FNWN", "headlines", "OnWN"):
        rows = (folder / f"STS.input.{subset}.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
        golds = (folder / f"STS.gs.{subset}.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
        sides = [np.float64(encoder.encode([" ".join(row.split("\t")[i].split()) for row in rows])) for i in (0, 1)]
        cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(*sides, strict=True)]
        pairs = [(float(np.float32(round(c, 9))), float(g)) for c, g in zip(cosines, golds, strict=True) if g.strip()]
        assert scores["subsets"][subset]["spearman"] == pytest.approx(
            stats.spearmanr(*zip(*pairs, strict=True)).statistic
        )
        every += pairs
    assert scores["main"] == scores["all"]["spearman"]
    assert scores["main"] == pytest.approx(stats.spearmanr(*zip(*every, strict=True)).statistic, abs=1e-9)
    assert scores["all"]["pearson"] == pytest.approx(stats.pearsonr(*zip(*every, strict=True)).statistic, abs=1e-9)


@pytest.mark.slow
def test_only_the_test_split_is_scored(data_dir: Path) -> None:
    """STS-B and SICK-R: test is scored, dev picks checkpoints, train is only for transductive fits."""
    for name, counts in (("STS-B", (1379, 1500, 5749)), ("SICK-R", (4927, 500, 4500))):
        data = load(name, data_dir)
        assert list(data.subsets) == ["test"]
        assert data.rows == counts[0]
        assert data.dev is not None
        assert len(data.dev) == counts[1]
        assert len(data.unlabelled()) == 2 * sum(counts)
        asked: list[str] = []

        def vectors(texts: list[str], asked: list[str] = asked) -> np.ndarray:
            asked.extend(texts)
            return Bag(Bag.Recipe(), Runtime()).encode(texts)

        data.score(vectors)
        assert sorted(asked) == sorted(data.texts())
        asked.clear()
        assert -100 <= data.score_dev(vectors) <= 100
        assert sorted(asked) == sorted(data.dev.texts())


def test_limit_cuts_every_subset(data_dir: Path) -> None:
    full, cut = load("STS14", data_dir), load("STS14", data_dir, 7)
    assert cut.rows == 7 * 6
    for name, pairs in cut.subsets.items():
        assert pairs.first == full.subsets[name].first[:7]
        assert pairs.gold.tolist() == full.subsets[name].gold[:7].tolist()


def test_tasks_without_a_dev_split_say_so(data_dir: Path) -> None:
    """STS12 cannot pick a checkpoint."""
    with pytest.raises(TypeError, match="no development split"):
        load("STS12", data_dir).score_dev(Bag(Bag.Recipe(), Runtime()).encode)


def test_dev_pairs_are_a_task_of_their_own(data_dir: Path) -> None:
    """The same 1,500 pairs and score as what picks checkpoints; test and train only serve transductive fits."""
    source = DataSource.from_options(str(data_dir), hub=False)
    dev, test = TASKS.get("STS-B-dev").load(source), TASKS.get("STS-B").load(source)
    rng = np.random.default_rng(0)
    known: dict[str, np.ndarray] = {}

    def vectors(texts: Sequence[str]) -> np.ndarray:
        return np.stack([known.setdefault(text, rng.normal(size=5).astype(np.float32)) for text in texts])

    assert dev.rows == 1500 and test.rows == 1379
    assert 100 * dev.score(vectors)["main"] == pytest.approx(test.score_dev(vectors))
    assert sorted(set(dev.unlabelled())) == sorted(set(test.unlabelled()))


@pytest.mark.parametrize("form", ["", "-raw"])
def test_pairs_that_occur_twice_are_left_out(form: str, data_dir: Path) -> None:
    """1,362 of 1,379 test pairs and 1,485 of 1,500 development pairs are no other pair, in either order."""
    full, once = (load(f"{name}{form}", data_dir) for name in ("STS-B", "stsb-once"))
    assert full.dev is not None and once.dev is not None and full.train is not None
    assert (once.rows, len(once.dev), once.located.sha256 != full.located.sha256) == (1362, 1485, True)
    every = [
        sorted(both)
        for part in (full.train, full.dev, full.subsets["test"])
        for both in zip(part.first, part.second, strict=True)
    ]
    kept = [sorted(both) for both in zip(once.subsets["test"].first, once.subsets["test"].second, strict=True)]
    assert all(every.count(pair) == 1 for pair in kept[:40])
    marked = once.dev_in_test or []
    before = {(full.dev.first[i], full.dev.second[i]) for i in full.dev_in_test or ()}
    assert len(marked) > 1000 and all((once.dev.first[i], once.dev.second[i]) in before for i in marked)
