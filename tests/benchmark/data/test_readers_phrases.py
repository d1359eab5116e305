"""Readers of words and phrases: small files, real counts, released originals, and faults named with their line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmark.data.readers import phrases as readers
from benchmark.data.readers.phrases import read_scws, read_word_pairs
from zoo.errors import CorruptError

BIRD = "pair\tterm1\tterm2\tterm2: unigram or bigram\tsource\trelation\trelatedness score\tpos\n"
TURNEY = "wood\tNN\nland\tNN\nforest\nwood\nland\ngrove\nboat\nchair\nsalt\n"


def written(folder: Path, content: str, name: str = "file") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def test_small_files(tmp_path: Path) -> None:
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


RATINGS = "\t".join(["5"] * 10)
LINE = f"1\tBank\tn\triver\tn\tat the <b> banks </b> of it\t<b>rivers</b> run fast\t4.5\t{RATINGS}\n"


@pytest.mark.parametrize(
    ("file", "original", "columns", "header"),
    [
        ("EN-SIMLEX-999.txt", "SimLex-999/SimLex-999.txt", (0, 1, 3), 1),
        ("EN-MEN-TR-3k.txt", "MEN/MEN_dataset_lemma_form_full", (0, 1, 2), 0),
        ("EN-SimVerb-3500.txt", "SimVerb-3500/SimVerb-3500.txt", (0, 1, 3), 0),
        ("EN-WS-353-ALL.txt", "wordsim353/combined.tab", (0, 1, 2), 1),
    ],
)
def test_the_three_column_files_are_their_originals(
    file: str, original: str, columns: tuple[int, int, int], header: int, data_dir: Path
) -> None:
    """The same pairs and scores, but for capitals."""
    pairs = read_word_pairs(data_dir / "words" / file, 50)
    lines = (data_dir / "words" / original).read_text("utf-8").splitlines()[header:]
    rows = [line.split("\t" if "\t" in line else " ") for line in lines]
    words = [[re.sub("-[nvaj]$", "", row[i].lower()) for i in columns[:2]] for row in rows]  # MEN: sun-n
    theirs = sorted((a, b, float(row[columns[2]])) for (a, b), row in zip(words, rows, strict=True))
    ours = sorted((a.lower(), b.lower(), g) for a, b, g in zip(pairs.first, pairs.second, pairs.gold, strict=True))
    assert ours == theirs


def test_scws_words_and_where_they_stand(tmp_path: Path) -> None:
    """The word of the list, and in the context as it stands there, with its neighbours."""
    path = tmp_path / "ratings.txt"
    path.write_text(LINE, encoding="utf-8")
    words, contexts = read_scws(path)
    assert (words.first, words.second, words.gold.tolist()) == (["Bank"], ["river"], [4.5])
    first, second = contexts[0]
    assert [first.window(n) for n in (1, 2, 9)] == ["the banks of", "at the banks of it", "at the banks of it"]
    assert second.window(2) == "rivers run fast"


def test_scws_gold_is_the_mean_of_its_ten_ratings(data_dir: Path) -> None:
    """All 2,003 lines; the contexts hold each word once."""
    path = data_dir / "words" / "SCWS" / "ratings.txt"
    words, contexts = read_scws(path)
    ratings = [line.split("\t")[8:18] for line in path.read_text("utf-8").splitlines()]
    assert np.allclose(words.gold, np.array(ratings, dtype=float).mean(1), atol=1e-6)
    assert [c.word.lower() for c, _ in contexts] == [word.lower() for word in words.first]
    assert [c.word.lower() for _, c in contexts] == [word.lower() for word in words.second]


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("a\tb\t1\nc\td\n", ":2: 2 tab-separated"),
        ("a\tb\tx\n", ":1: 'x' is not a score"),
        ("a\tb\t1\nc\td\t10.1\n", ":2: score 10.1 is outside 0..10"),
    ],
)
def test_faults_of_word_pairs(content: str, place: str, tmp_path: Path) -> None:
    """A wrong line is refused, with its number."""
    path = tmp_path / "pairs.txt"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(CorruptError, match=place):
        read_word_pairs(path, 10)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("<b>rivers</b>", "rivers", ":1: a context has 0 words"),
        ("of it", "of <b>it</b>", ":1: a context has 2 words"),
        ("\t4.5", "", ":1: 17 tab-separated"),
        ("4.5", "-1", ":1: score -1.0 is outside"),
    ],
)
def test_faults_of_scws(old: str, new: str, place: str, tmp_path: Path) -> None:
    """The word must be marked once in each context."""
    path = tmp_path / "ratings.txt"
    path.write_text(LINE.replace(old, new), encoding="utf-8")
    with pytest.raises(CorruptError, match=place):
        read_scws(path)
