"""HEROS: the numbers against plain loops, both forms of the header, and files that are refused."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from fakes import Bag
from numpy.typing import NDArray

from benchmark.data.sources import DataSource
from benchmark.reasons import reason
from benchmark.tasks import TASKS
from benchmark.tasks.base import check_task
from benchmark.tasks.heros import KINDS, HerosData
from zoo.encoder import Runtime
from zoo.errors import CorruptError, MissingError

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
    """Write the file and return its source."""
    (folder / "heros.tsv").write_text("".join("\t".join(line) + "\n" for line in [head, *rows]), encoding="utf-8")
    return DataSource(folder, hub=False)


def load(data: DataSource, limit: int | None = None) -> HerosData:
    """Load the task."""
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
    """One sentence with the place."""
    with pytest.raises(CorruptError, match=message):
        load(write(tmp_path, head, rows))


def test_without_the_file_the_remedy_is_named(tmp_path: Path) -> None:
    """Where it is from and where to put it."""
    for folder in (None, tmp_path):
        with pytest.raises(MissingError, match=r"put the file of the hub's data set dcml0714/Heros there .* --data"):
            load(DataSource(folder, hub=False))


def test_the_task_passes_the_check_and_stops_at_a_limit(tmp_path: Path) -> None:
    """As a task of a plugin would be checked; a trial has at least the two sentences of a random pair."""
    data = write(tmp_path, HEAD, ROWS)
    assert {problem for _, problem in check_task(TASKS.get("heros-order"), data)} == {None}
    assert [load(data, limit).rows for limit in (None, 3, 1)] == [4, 3, 2]
