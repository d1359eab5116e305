"""What an encoder does not know: one rule for all methods, counted in every record; and keys that later fields keep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from fakes import Bag, Cli
from scipy import stats

from benchmark.data.readers.pairs import Pairs
from benchmark.data.sources import DataSource
from benchmark.records.folder import Records
from benchmark.run.vectors import VectorStore
from benchmark.tasks import TASKS
from benchmark.tasks.base import PairsData
from zoo.encoder import Runtime
from zoo.methods.wordvectors import WordVectors

ROOT = Path(__file__).resolve().parents[3]
VECTORS = {"cat": (1.0, 0.1), "dog": (1.0, 0.4), "car": (0.1, 1.0), "bus": (0.3, 1.0), "sun": (1.0, -1.0)}
FIRST = ["cat", "cat", "car", "qqq", "sun", "qqq zzz", "dog", "dog"]
SECOND = ["dog", "car", "bus", "bus", "cat", "cat", "zzz", "car"]
GOLD = np.array([9.0, 1.0, 8.0, 7.0, 3.0, 2.0, 6.0, 1.5])


class Knows(Bag):
    """Covers what has no q; whatever it gives for the others."""

    def covers(self, texts: Sequence[str]) -> np.ndarray:
        return np.array(["q" not in text for text in texts])


class Empty(Bag):
    """A zero vector, and not a word about it."""

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return super().encode(texts) * np.array([["q" not in text] for text in texts], np.float32)


def store(cls: type[Bag]) -> VectorStore:
    return VectorStore(cls(cls.Recipe(), Runtime()), "x")


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    path = tmp_path / "v.txt"
    path.write_text("".join(f"{word} {x} {y}\n" for word, (x, y) in VECTORS.items()), encoding="utf-8")
    return path


def pairs() -> PairsData:
    return PairsData(None, {"a": Pairs(FIRST[:5], SECOND[:5], GOLD[:5]), "b": Pairs(FIRST[5:], SECOND[5:], GOLD[5:])})  # type: ignore[arg-type]


def test_every_pair_stays_and_an_uncovered_one_has_cosine_zero(glove: Path) -> None:
    lookup = VectorStore(WordVectors(WordVectors.Recipe(path=str(glove)), Runtime()), "glove")
    scores = pairs().score(lookup)

    def cosine(a: str, b: str) -> float:
        if a not in VECTORS or b not in VECTORS:
            return 0.0
        u, v = np.array(VECTORS[a]), np.array(VECTORS[b])
        return float(u @ v / np.linalg.norm(u) / np.linalg.norm(v))

    cosines = np.array([cosine(a, b) for a, b in zip(FIRST, SECOND, strict=True)])
    assert (cosines == 0).sum() == 3
    assert scores["all"]["spearman"] == scores["main"] == pytest.approx(stats.spearmanr(cosines, GOLD).statistic)
    assert scores["all"]["pearson"] == pytest.approx(stats.pearsonr(cosines, GOLD).statistic, abs=1e-7)
    known = cosines != 0
    assert scores["covered"]["pairs"] == 5
    assert scores["covered"]["spearman"] == pytest.approx(stats.spearmanr(cosines[known], GOLD[known]).statistic)
    assert scores["covered"]["pearson"] == pytest.approx(
        stats.pearsonr(cosines[known], GOLD[known]).statistic, abs=1e-7
    )
    assert scores["subsets"]["b"]["n"] == 3
    # Of eight distinct texts two words and one two-word text are unknown; only words are named.
    assert lookup.coverage(pairs().texts()) == {"texts": 8, "covered": 5, "missing": ["qqq", "zzz"]}


def test_where_all_is_covered_both_scores_are_one() -> None:
    scores = pairs().score(store(Bag))
    assert scores["covered"] == {"pairs": 8, **scores["all"]}
    assert store(Bag).coverage(["a", "b", "a"]) == {"texts": 2, "covered": 2, "missing": []}


def test_the_store_gives_what_is_not_covered_the_zero_vector() -> None:
    lookup = store(Knows)
    vectors = lookup(["q", "cat", "a q"])
    assert vectors.any(axis=1).tolist() == [False, True, False]
    assert vectors.dtype == np.float32
    words = [f"q{i}" for i in range(12)]
    assert lookup.coverage([*words, "cat", "a q"]) == {"texts": 14, "covered": 1, "missing": words[:10]}


def test_a_text_with_the_zero_vector_is_not_covered() -> None:
    """An encoder that knows nothing of covers() is counted as one that does."""
    assert store(Empty).coverage(["cat", "a q", "q"]) == {"texts": 3, "covered": 1, "missing": ["q"]}


@pytest.mark.usefixtures("fakes")
def test_every_record_says_what_was_covered(cli: Cli, tmp_path: Path, glove: Path) -> None:
    """Word vectors, and an encoder that knows everything; the file's place is in no record."""
    glove.write_text("rain 1 2\nsnow 2 1\n", encoding="utf-8")
    common = ("--tasks", "pocket-words", "--out", tmp_path / "out", "--precision", "fp32", "--limit", 20)
    cli("run", "--methods", f"bag,wordvectors:path={glove}", *common)
    by_method = {record["method"]["name"].split(":")[0]: record for record in Records(tmp_path / "out").all()}
    coverage = by_method["bag"]["coverage"]
    assert coverage["texts"] == coverage["covered"] > 20 and coverage["missing"] == []
    record = by_method["wordvectors"]
    assert record["coverage"]["covered"] <= 2 and len(record["coverage"]["missing"]) == 10
    assert record["scores"]["covered"]["pairs"] <= 1
    assert record["method"]["recipe"]["path"] == "v.txt" == record["method"]["sources"]["path"]["name"]
    assert str(tmp_path) not in json.dumps({k: v for k, v in record.items() if k not in ("command", "method")})


def test_a_file_of_vectors_has_to_have_every_text_of_a_task(cli: Cli, tmp_path: Path) -> None:
    """`data texts` writes what is needed; a task with a text that is missing is n/a, and the others are measured."""
    listed, brought = tmp_path / "texts.txt", tmp_path / "mine.tsv"
    tasks = "pocket-pairs,pocket-words"
    assert cli("data", "texts", "--suite", "pocket", "--tasks", tasks, "--out", listed).code == 0
    texts = listed.read_text(encoding="utf-8").splitlines()
    assert len(texts) == len(set(texts)) > 100
    pairs = TASKS.get("pocket-pairs").load(DataSource(None, hub=False))
    assert set(pairs.texts()) < set(texts)
    words = set(texts) - set(pairs.texts())
    absent = sorted(words)[0]
    rng = np.random.default_rng(0)
    vectors = {text: rng.normal(size=4) for text in texts if text != absent}
    vectors[pairs.texts()[0]] *= 0
    rows = (f"{text}\t{' '.join(map(str, vector))}\n" for text, vector in vectors.items())
    brought.write_text("".join(rows), encoding="utf-8")
    arguments = ("--methods", f"skipthought:path={brought}", "--tasks", tasks, "--out", tmp_path / "out")
    answer = cli("run", *arguments, "--device", "cpu", "--allow-missing")
    assert answer.code == 0, answer.err
    records = {record["task"]["name"]: record for record in Records(tmp_path / "out").all()}
    assert records["pocket-pairs"]["status"] == "ok" and "texts have the zero vector" in answer.err
    assert records["pocket-words"]["status"] == "n/a" and "1 of its" in records["pocket-words"]["reason"]
