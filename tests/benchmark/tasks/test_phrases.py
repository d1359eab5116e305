"""Phrase tasks: scores against brute force from the raw files, chance, ties, and the organisers' files of SemEval."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from fakes import Bag
from numpy.typing import NDArray
from scipy import stats

from benchmark.data.sources import DataSource
from benchmark.metrics.probe import protocol as probe
from benchmark.reasons import reason
from benchmark.tasks import TASKS, semeval
from benchmark.tasks.base import PairsData
from benchmark.tasks.phrases import PACK, ChoiceData, RetrievalData
from benchmark.tasks.semeval import SemEvalData, best_threshold
from zoo.encoder import Runtime
from zoo.errors import CorruptError, MissingError

BAG = Bag(Bag.Recipe(width=128), Runtime())


def load(name: str, data_dir: Path, limit: int | None = None) -> object:
    return TASKS.get(name).load(DataSource(data_dir, hub=False), limit)


def cosine(a: str, b: str) -> float:
    """Return the cosine of two texts under the bag of words."""
    u, v = np.float64(BAG.encode([a, b]))
    return round(float(u @ v / np.linalg.norm(u) / np.linalg.norm(v)), 9)


def items(path: Path, lines: int) -> list[list[str]]:
    """Return so many lines at a time, words without their part of speech."""
    every = [line.split("\t")[0] for line in path.read_text("utf-8").splitlines()]
    return [every[i : i + lines] for i in range(0, len(every), lines)]


def constant(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.ones((len(texts), 4), np.float32)


def test_bird_against_scipy(data_dir: Path) -> None:
    data = load("BiRD", data_dir)
    assert isinstance(data, PairsData)
    rows = [line.split("\t") for line in (data_dir / "phrases" / "BiRD.txt").read_text("utf-8").splitlines()[1:]]
    assert data.rows == len(rows) == 3345
    expected = stats.spearmanr([cosine(r[1], r[2]) for r in rows], [float(r[6]) for r in rows]).statistic
    assert data.score(BAG.encode)["main"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_ppdb_human_is_what_training_leaves(data_dir: Path) -> None:
    """The held-out phrases' pairs, with people's mean scores; a transductive method sees the others as well."""
    from benchmark.data.readers.ppdb import human_training_rows

    data = load("PPDB-human", data_dir)
    assert isinstance(data, PairsData)
    pairs = data.subsets["test"]
    folder = data_dir / "phrases" / "ppdb2-human"
    paths = [folder / "ppdb-sample.tsv", folder / "wiki-sample.tsv"]
    raw = [line.split("\t") for path in paths for line in path.read_text("utf-8").splitlines()]
    scored = {(r[2], r[3], float(r[0])) for r in raw}
    tested = list(zip(pairs.first, pairs.second, pairs.gold.tolist(), strict=True))
    assert len(raw) == 26456 + 13954
    assert set(tested) <= scored
    trained = {text for row in human_training_rows(paths) for text in row[:2]}
    assert trained
    assert not trained & set(pairs.first)
    assert trained <= set(data.unlabelled())
    assert not trained <= set(data.texts())


def test_ppdb_of_a_user(tmp_path: Path) -> None:
    """The pairs of the pack whose phrase is held out, by its equivalence score; without one pack, the remedy."""
    from benchmark.data.readers.ppdb import TEST_SHARE
    from zoo.files import hash_fraction

    folder = tmp_path / PACK
    with pytest.raises(MissingError, match="0 packs in phrases/ppdb"):
        TASKS.get("PPDB").load(DataSource(tmp_path, hub=False))
    folder.mkdir(parents=True)
    lines = [
        f"[NP] ||| the thing {i} ||| a matter {i} ||| AGigaSim=4 Equivalence={i % 97 / 97} ||| 0-0 ||| Equivalence\n"
        for i in range(600)
    ]
    (folder / "ppdb-2.0-s-phrasal").write_text("".join(lines), encoding="utf-8")
    data = load("PPDB", tmp_path)
    assert isinstance(data, PairsData)
    tested = [i for i in range(600) if hash_fraction(f"the thing {i}") < TEST_SHARE]
    assert data.rows == len(tested) > 3
    assert data.subsets["test"].first == [f"the thing {i}" for i in tested]
    assert data.subsets["test"].gold.tolist() == [i % 97 / 97 for i in tested]
    assert len(data.located.sha256) == 64
    (folder / "ppdb-2.0-m-phrasal").write_text("".join(lines), encoding="utf-8")
    with pytest.raises(MissingError, match="2 packs"):
        load("PPDB", tmp_path)


@pytest.mark.slow
def test_turney_against_brute_force(data_dir: Path) -> None:
    """Right where its cosine is above all four others', and above all six with the phrase's own words."""
    data = load("Turney", data_dir)
    assert isinstance(data, ChoiceData)
    questions = items(data_dir / "phrases" / "FCT" / "Turney2012" / "jair.data", 9)
    assert data.rows == len(questions) == 1932
    assert sorted(set(data.texts())) == sorted({t for q in questions for t in (f"{q[0]} {q[1]}", *q[2:])})
    five = seven = 0
    for question in questions:
        scored = [cosine(" ".join(question[:2]), choice) for choice in question[2:]]
        right, of_phrase, others = scored[0], scored[1:3], scored[3:]
        five += right > max(others)
        seven += right > max(others + of_phrase)
    scores = data.score(BAG.encode)
    assert scores["main"] == scores["accuracy"] == pytest.approx(five / 1932)
    assert scores["accuracy_seven"] == pytest.approx(seven / 1932)
    assert five > seven
    assert (data.score(constant)["main"], data.score(constant)["reason"]) == (None, reason("constant"))


@pytest.mark.slow
def test_ppdb_xxl_against_brute_force(data_dir: Path) -> None:
    """The rank of the right word among the words of all parts; a tie counts against it."""
    limit = 60
    data = load("PPDB-XXL", data_dir, limit)
    assert isinstance(data, RetrievalData)
    folder = data_dir / "phrases" / "FCT"
    parts = [items(folder / f"ppdb.xxl.b2u.{split}", 3) for split in ("train", "dev", "test")]
    assert [len(part) for part in parts] == [24300, 500, 500]
    words = {item[2] for part in parts for item in part[:limit]}
    ranks = []
    for first, second, right in parts[2][:limit]:
        phrase = f"{first} {second}".strip()
        of_right = cosine(phrase, right)
        ranks.append(1 + sum(cosine(phrase, word) >= of_right for word in words - {right}))
    scores = data.score(BAG.encode)
    assert scores["words"] == len(words)
    assert scores["main"] == scores["mrr"] == pytest.approx(np.mean([1 / rank for rank in ranks]))
    assert scores["accuracy"] == pytest.approx(ranks.count(1) / limit)
    assert data.score(constant)["main"] is None
    retrieval = load("PPDB-XXL", data_dir)
    assert isinstance(retrieval, RetrievalData)
    assert (retrieval.rows, len(retrieval.words)) == (500, 4916)


def test_a_text_without_a_vector_is_never_chosen_right(data_dir: Path) -> None:
    """The zero vector of a text that a method does not know has cosine 0 with everything."""
    data = load("Turney", data_dir, 40)
    assert isinstance(data, ChoiceData)
    phrases = {choice.phrase for choice in data.choices}

    def vectors(texts: Sequence[str]) -> NDArray[np.float32]:
        return np.where([[text in phrases] for text in texts], np.float32(0), BAG.encode(texts))

    assert data.score(vectors)["accuracy"] == 0


@pytest.mark.parametrize("seed", range(8))
def test_best_threshold_against_brute_force(seed: int) -> None:
    """No threshold makes fewer errors; ties in the scores among them."""
    rng = np.random.default_rng(seed)
    scores, labels = rng.integers(0, 8, 30) / 7.0, rng.integers(0, 2, 30)
    best = best_threshold(scores, labels)
    errors = {t: int(((scores >= t) != labels).sum()) for t in [*scores.tolist(), np.inf, best]}
    assert errors[best] == min(errors.values())


def test_semeval_is_a_classifier_on_frozen_vectors(data_dir: Path) -> None:
    """As MRPC: pair features of word and phrase, folds of the training part choose the penalty."""
    data = load("SemEval2013-5a", data_dir, 40)
    assert isinstance(data, SemEvalData)
    assert [len(part) for part in data.parts] == [80, 80]
    assert set(data.unlabelled()) == {text for part in data.parts for text in part.texts()}
    scores = data.score(BAG.encode)
    features = np.concatenate(
        [probe.pair_features(BAG.encode(p.first), BAG.encode(p.second or [])) for p in data.parts]
    )
    labels = np.concatenate([part.labels for part in data.parts])
    assert scores["main"] == probe.cross_validated(features, labels, 80).accuracy / 100
    train, test = ([cosine(a, b) for a, b in zip(p.first, p.second or [], strict=True)] for p in data.parts)
    right = (np.array(test) >= best_threshold(np.array(train), labels[:80])) == labels[80:]
    assert scores["threshold_accuracy"] == pytest.approx(right.mean())


@pytest.mark.slow
def test_the_organisers_files_come_first(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a user's folder has them; another sha256, so records are never mixed; a missing or cut file is refused."""
    folder = tmp_path / semeval.ORGANISERS
    folder.mkdir(parents=True)
    source = DataSource(tmp_path, hub=False)
    for split in ("train", "test"):
        for kind, rows in (("positive", 30), ("negative", 20)):
            lines = "".join(f"word{split}{i}\ta phrase of {kind} {i}\n" for i in range(rows))
            (folder / f"en.{split}Set.{kind}Instances-v2").write_text(lines, encoding="utf-8")
    with pytest.raises(CorruptError, match="50 items instead of the organisers' 11722"):
        TASKS.get("SemEval2013-5a").load(source)
    monkeypatch.setattr(semeval, "_ORGANISERS_ROWS", {"train": 50, "test": 50})
    data = TASKS.get("SemEval2013-5a").load(source)
    assert (data.rows, data.located.form, data.located.source) == (50, "organisers", "folder")
    assert np.bincount(data.parts[0].labels).tolist() == [20, 30]
    assert data.located.sha256 != TASKS.get("SemEval2013-5a").load(DataSource(data_dir, hub=False)).located.sha256
    (folder / "en.testSet.positiveInstances-v2").unlink()
    with pytest.raises(CorruptError, match=r"lacks en.testSet.positiveInstances-v2"):
        TASKS.get("SemEval2013-5a").load(source)
