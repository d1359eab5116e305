"""Tasks that rank candidates: HeRoS and EvalRank."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Bag
from numpy.typing import NDArray

from benchmark import evaluate
from benchmark.checking.verify import verify
from benchmark.data.catalog import Dataset
from benchmark.data.sources import DataSource, Located
from benchmark.metrics.items import accuracy_of, ranked_part
from benchmark.reasons import reason
from benchmark.records.folder import Records
from benchmark.tasks import TASKS
from benchmark.tasks.base import check_task
from benchmark.tasks.evalrank import EvalRankData, Measure, partner_ranks
from benchmark.tasks.heros import KINDS, HerosData
from zoo.encoder import Runtime
from zoo.errors import CorruptError, MissingError

# HEROS: the numbers against plain loops, both forms of the header, and files that are refused.

BAG = Bag(Bag.Recipe(width=128), Runtime())

HEAD = ["Original", "Synonym", "Antonym", "Negation", "Random", "Typo"]
ROWS = [
    line.split(" | ")
    for line in (
        "soup is cold | soup is chilly | soup is warm | soup is not cold | soup is green | soup is colf",
        "a small house | a little house | a large house | no small house | a wooden house | a smal house",
        "he soon agreed | at once he said yes | he late agreed | he never agreed | he soon left | he son agreed",
        "a dull film | a boring film | an exciting film | it is not a dull film | a French film | a dul film",
    )
]


def write(folder: Path, head: list[str], rows: list[list[str]]) -> DataSource:
    (folder / "heros.tsv").write_text("".join("\t".join(line) + "\n" for line in [head, *rows]), encoding="utf-8")
    return DataSource(folder, hub=False)


def load(data: DataSource, limit: int | None = None) -> HerosData:
    heros = TASKS.get("heros-order").load(data, limit)
    assert isinstance(heros, HerosData)
    return heros


def cosine(first: str, second: str) -> float:
    """Return the cosine of two texts under the bag of words."""
    u, v = np.float64(BAG.encode([first, second]))
    return float(u @ v / np.sqrt(u @ u) / np.sqrt(v @ v))


def test_scores_against_plain_loops(tmp_path: Path) -> None:
    """Mean cosine, its position between random pairs (0) and equal vectors (1), and the shares in the right order."""
    data = load(write(tmp_path, HEAD, ROWS))
    scores = data.score(BAG.encode)
    pairs = [cosine(a[0], b[0]) for a, b in itertools.combinations(ROWS, 2)]
    assert len(pairs) == 6
    assert scores["random_pairs"] == pytest.approx(np.mean(pairs), abs=1e-6)
    assert [*scores["kinds"]] == [*KINDS]
    for column, kind in enumerate(HEAD[1:], 1):
        mean = np.mean([cosine(row[0], row[column]) for row in ROWS])
        expected = {"cosine": mean, "normalised": (mean - np.mean(pairs)) / (1 - np.mean(pairs))}
        assert scores["kinds"][kind.lower()] == pytest.approx(expected, abs=1e-6)
    versions = [[cosine(row[0], text) for text in row[1:4]] for row in ROWS]
    antonym, negation = ([synonym > row[i] + 1e-9 for row in versions for synonym in row[:1]] for i in (1, 2))
    assert 0 < sum(antonym) < len(ROWS)
    assert (scores["over_antonym"], scores["over_negation"]) == (np.mean(antonym), np.mean(negation))
    assert scores["main"] == np.mean([a and b for a, b in zip(antonym, negation, strict=True)])
    assert scores["reason"] is None


def test_equal_vectors_have_no_score(tmp_path: Path) -> None:
    """Nothing is nearer than anything, and there is no distance from random pairs to one."""

    def constant(texts: Sequence[str]) -> NDArray[np.float32]:
        return np.ones((len(texts), 4), np.float32)

    scores = load(write(tmp_path, HEAD, ROWS)).score(constant)
    assert (scores["main"], scores["reason"]) == (None, reason("constant"))
    assert scores["kinds"]["typo"] == {"cosine": 1.0, "normalised": None}


def test_both_headers_give_the_same_scores(tmp_path: Path) -> None:
    """The card names Negation twice and calls one column Random and Random MLM; order and case do not matter."""
    plain = load(write(tmp_path, HEAD, ROWS))
    twice = [*HEAD[:4], "Random MLM", "typo", "Negation"]
    other = load(write(tmp_path, twice, [[*row, row[3]] for row in ROWS]))
    assert other.columns == plain.columns
    assert other.located.sha256 != plain.located.sha256  # the same texts in another file
    assert load(write(tmp_path, HEAD[::-1], [row[::-1] for row in ROWS])).columns == plain.columns
    with pytest.raises(CorruptError, match="two columns negation differ; leave the right one"):
        load(write(tmp_path, twice, [[*row, row[4]] for row in ROWS]))


@pytest.mark.parametrize(
    ("head", "rows", "message"),
    [
        (HEAD[:5], [row[:5] for row in ROWS], "heros.tsv:1: the header is not Original, Synonym"),
        ([*HEAD, "Typo"], [[*row, "x"] for row in ROWS], "heros.tsv:1: the header is not"),
        (HEAD, [*ROWS, ROWS[0][:3]], "heros.tsv:6: 3 tab-separated fields instead of 6"),
        (HEAD, [*ROWS[:2], [*ROWS[2][:5], " "]], "a text of the column typo is empty"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, head: list[str], rows: list[list[str]], message: str) -> None:
    with pytest.raises(CorruptError, match=message):
        load(write(tmp_path, head, rows))


def test_without_the_file_the_remedy_is_named(tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        with pytest.raises(MissingError, match=r"put the file of the hub's data set dcml0714/Heros there .* --data"):
            load(DataSource(folder, hub=False))


def test_the_task_passes_the_check_and_stops_at_a_limit(tmp_path: Path) -> None:
    """As a task of a plugin would be checked; a trial has at least the two sentences of a random pair."""
    data = write(tmp_path, HEAD, ROWS)
    assert {problem for _, problem in check_task(TASKS.get("heros-order"), data)} == {None}
    assert [load(data, limit).rows for limit in (None, 3, 1)] == [4, 3, 2]


# EvalRank: ranks by hand and against plain loops, the real sets' counts, and records that are verified or refused.

LOCATED = Located(Dataset("EvalRank-STS", "", ""), "tokenised", "folder", {}, "0" * 64)
PLACES = {"a": (3, 1), "b": (1, 3), "c": (-1, -1), "d": (-3, -3)}


def lookup(places: dict[str, tuple[int, int]]) -> Any:
    """Return the function of texts that gives these places, all moved by the same vector."""
    return lambda texts: np.array([places[text] for text in texts], np.float32) + np.array([10, -7], np.float32)


@pytest.mark.parametrize(
    ("measure", "ranks"),
    [
        # From a: b is at 0.6, c and d are both at -0.89; the tie is won. From c: d is at 1, a and b at -0.89.
        ("cosine", [1, 2, 2, 2]),
        # Squared distances from a: b 8, c 20, d 52. From c: d 8, a and b both 20; the tie is won.
        ("l2", [1, 2, 3, 2]),
    ],
)
def test_four_sentences_worked_out_by_hand(measure: Measure, ranks: list[int]) -> None:
    """Vectors are centred first: where all stand far from the origin, the cosines are those around their mean."""
    pairs = [("a", "b"), ("a", "c"), ("a", "d"), ("c", "a")]
    scores = EvalRankData(LOCATED, pairs, [*PLACES, "a"], measure).score(lookup(PLACES))
    assert scores["items"]["ranks"] == ranks
    assert scores["main"] == scores["mrr"] == pytest.approx(sum(1 / rank for rank in ranks) / 4)
    assert (scores["hits_1"], scores["hits_3"], scores["sentences"]) == (0.25, 1.0, 4)
    assert scores["mean_rank"] == sum(ranks) / 4


@pytest.mark.parametrize("measure", ["cosine", "l2"])
@pytest.mark.parametrize("seed", range(3))
def test_ranks_are_those_of_the_released_loop(measure: Measure, seed: int) -> None:
    """Its sorted list and search, a query at a time, over more than a block of pairs; some sentences are equal."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((90, 5)).astype(np.float32)
    vectors[60:] = vectors[:30]
    queries, partners = rng.integers(0, 90, (2, 600))
    centred = np.float64(vectors) - np.float64(vectors).mean(axis=0)
    if measure == "cosine":
        centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    expected = []
    for query, partner in zip(queries, partners, strict=True):
        near = centred @ centred[query]
        if measure == "l2":
            near = 1 / (1 + np.linalg.norm(centred - centred[query], axis=1))
        near = np.round(near, 9)
        expected.append(max(1, len(near) - int(np.searchsorted(np.sort(near), near[partner], side="right"))))
    ranks = partner_ranks(vectors, queries, partners, measure)
    assert ranks.tolist() == expected
    assert 1 < np.median(ranks) < ranks.max()


@pytest.mark.parametrize("measure", ["cosine", "l2"])
def test_no_partner_stands_behind_itself_by_rounding(measure: Measure) -> None:
    """Its score from a product of two rows is another than from the product with all rows (findings/)."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((1200, 384)).astype(np.float32)
    vectors[600:] = vectors[:600] + 0.3 * rng.standard_normal((600, 384))
    assert set(partner_ranks(vectors, np.arange(600), np.arange(600, 1200), measure)) == {1}


@pytest.mark.parametrize("measure", ["cosine", "l2"])
@pytest.mark.parametrize("uncovered", ["b", "d"])
def test_a_text_without_a_vector_is_nobodys_neighbour(measure: Measure, uncovered: str) -> None:
    """A pair with it has the last rank, and it stands before no other."""

    def vectors(texts: Sequence[str]) -> NDArray[np.float32]:
        return np.where([[text in uncovered] for text in texts], np.float32(0), lookup(PLACES)(texts))

    scores = EvalRankData(LOCATED, [("a", "b"), ("a", "c"), ("b", "a")], [*PLACES], measure).score(vectors)
    assert scores["items"]["ranks"] == {"b": [4, 1, 4], "d": [1, 2, 1]}[uncovered]


@pytest.mark.parametrize(
    ("vector", "reason"),
    [(0, reason("constant")), (3, reason("constant")), (np.nan, "a sentence's vector is not finite")],
)
def test_vectors_that_would_win_every_tie_have_no_score(vector: float, reason: str) -> None:
    """All zero, all alike, and not a number."""
    scores = EvalRankData(LOCATED, [("a", "b")], [*PLACES]).score(lambda texts: np.full((len(texts), 2), vector, "f4"))
    assert (scores["main"], scores["reason"]) == (None, reason)


def test_the_pairs_are_those_of_the_sts_sets(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts that the protocol states; a pair once, whatever its order; without data the set is named."""
    task, source = TASKS.get("evalrank-cosine"), DataSource(data_dir, hub=False)
    data = task.load(source)
    assert isinstance(data, EvalRankData)
    assert (data.rows, len(data.sentences)) == (3749, 24750)
    assert len({frozenset(pair) for pair in data.pairs if len({*pair}) == 2}) == 3749
    assert {text for pair in data.pairs for text in pair} < set(data.sentences)
    monkeypatch.setattr("benchmark.tasks.evalrank.POSITIVE", 5.5)
    with pytest.raises(MissingError, match="none of the first pairs is a paraphrase; take a larger limit"):
        task.load(source, 1)
    with pytest.raises(MissingError, match="STS12"):
        task.load(DataSource(data_dir / "words", hub=False))


def test_a_forged_record_differs(data_dir: Path, tmp_path: Path) -> None:
    """Each pair keeps its rank; a record of better ranks, with the score that they make, is not what is measured."""
    evaluate("max,cls", tasks="evalrank-cosine", results=tmp_path, data=data_dir, limit=4, controls=False, quiet=True)
    store = Records(tmp_path)

    def verdicts() -> list[str]:
        return sorted(verdict.word for verdict in verify(tmp_path, str(data_dir)).verdicts)

    assert verdicts() == ["verified"] * 2
    record = next(r for r in store.all() if r["method"]["name"] == "cls")
    assert record["scores"] is not None and record["items"] is not None
    better = np.where(np.arange(len(record["items"]["ranks"])) < 30, 1, 2)
    items = {**ranked_part(better, ()), "gold_sha256": record["items"]["gold_sha256"]}
    record["scores"]["main"], record["items"] = accuracy_of(items), items  # type: ignore[typeddict-item, arg-type]
    store.write(record)
    assert verdicts() == ["differs", "verified"]
