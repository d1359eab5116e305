"""Phrase readers: small files, real counts of classes, and faults named with their line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmark.data.readers import phrases as readers
from zoo.errors import CorruptError

BIRD = "pair\tterm1\tterm2\tterm2: unigram or bigram\tsource\trelation\trelatedness score\tpos\n"
TURNEY = "wood\tNN\nland\tNN\nforest\nwood\nland\ngrove\nboat\nchair\nsalt\n"


def written(folder: Path, content: str, name: str = "file") -> Path:
    """Return a file with the content."""
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def test_small_files(tmp_path: Path) -> None:
    """What each reader makes of one item."""
    bird = readers.read_bird(written(tmp_path, BIRD + "(a b, c)\ta b\tc\tunigram\tx\tNone\t0.25\tn-n\n"))
    assert (bird.first, bird.second, bird.gold.tolist()) == (["a b"], ["c"], [0.25])
    (choice,) = readers.read_turney(written(tmp_path, TURNEY))
    assert (choice.phrase, choice.right, choice.parts) == ("wood land", "forest", ("wood", "land"))
    assert choice.others == ("grove", "boat", "chair", "salt")
    assert choice.texts() == ["wood land", "forest", "grove", "boat", "chair", "salt", "wood", "land"]
    pairs = readers.read_bigram_words(written(tmp_path, "red\tJJ\ntape\tNN\nbureaucracy\n\t\nmop\tVB\ncmp\n"))
    assert pairs == (["red tape", "mop"], ["bureaucracy", "cmp"])
    labelled = readers.read_semeval_bigrams(written(tmp_path, "old\tJJ\nman\tNN\nelder\n1\na\tX\nb\tX\nc\n0\n"))
    assert (labelled.first, labelled.second, labelled.labels.tolist()) == (["elder", "c"], ["old man", "a b"], [1, 0])


def test_the_organisers_form(tmp_path: Path) -> None:
    """A file for each class: word, tab, phrase of any length."""
    positive = written(tmp_path, "elder\told  man\nwake\trouse from sleep\t\n", "positive")
    negative = written(tmp_path, "salt\tblue sky\r\n", "negative")
    labelled = readers.read_semeval_instances(positive, negative)
    assert labelled.first == ["elder", "wake", "salt"]
    assert labelled.second == ["old man", "rouse from sleep", "blue sky"]
    assert labelled.labels.tolist() == [1, 1, 0]
    with pytest.raises(CorruptError, match="positive:2: 1 tab-separated"):
        readers.read_semeval_instances(written(tmp_path, "a\tb\nc d\n", "positive"), negative)


def test_classes_of_semeval(data_dir: Path) -> None:
    """Both classes are halves (counted in the files with awk)."""
    folder = data_dir / "phrases" / "FCT" / "SemEval2013"
    for split, counts in (("trainSet", [5591, 5584]), ("testSet", [3743, 3747])):
        assert np.bincount(readers.read_semeval_bigrams(folder / f"en.{split}").labels).tolist() == counts


@pytest.mark.parametrize(
    ("reader", "content", "place"),
    [
        (readers.read_bird, "a\tb\n", ":1: the header"),
        (readers.read_bird, BIRD + "(a, b)\ta\tb\tunigram\tx\tNone\t1.2\tn-n\n", ":2: score 1.2 is outside 0..1"),
        (readers.read_turney, TURNEY[:-5], "8 lines are not a multiple of 9"),
        (readers.read_turney, TURNEY.replace("wood\nland\ngrove", "land\nwood\ngrove"), ":1: the second and third"),
        (readers.read_turney, TURNEY.replace("land\tNN", "land"), ":2: 1 tab-separated"),
        (readers.read_bigram_words, "red\tJJ\ntape\tNN\n \n", ":1: the item has no phrase, or an empty line"),
        (readers.read_bigram_words, "\t\n\tNN\ntape\n", ":1: the item has no phrase, or an empty line"),
        (readers.read_semeval_bigrams, "a\tX\nb\tX\nc\n1\na\tX\nb\tX\nc\n2\n", ":5: '2' is not a label"),
    ],
)
def test_faults(reader: Callable[[Path], Any], content: str, place: str, tmp_path: Path) -> None:
    """A wrong item is refused, with its line."""
    with pytest.raises(CorruptError, match=place):
        reader(written(tmp_path, content))
