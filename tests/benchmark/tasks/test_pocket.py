"""The bundled pocket data: its form, its grades, no text in two places, and what encoders score on it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.feature_extraction.text import CountVectorizer

from benchmark.data.catalog import POCKET
from benchmark.data.sources import DataSource
from benchmark.tasks import TASKS
from zoo.encoder import Encoder

PAIRS = ("pairs", "words", "phrases")
KINDS = ("answers", "captions", "headlines", "news", "questions")
HIGHEST = {"pairs": 5, "words": 10, "phrases": 5}


def lines(name: str) -> list[list[str]]:
    """Return the fields of a file's lines, without its header."""
    text = (POCKET / f"{name}.tsv").read_text(encoding="utf-8")
    assert text.endswith("\n") and "\r" not in text
    return [line.split("\t") for line in text.splitlines()[1:]]


def letters(text: str) -> str:
    """Return a text's letters and digits, lower-cased."""
    return re.sub(r"[\W_]", "", text.lower())


def correlation(first: np.ndarray, second: np.ndarray, gold: np.ndarray) -> float:
    """Return 100 times scipy's Spearman correlation of the cosines; 0 where they are all equal."""
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosine = (first * second).sum(axis=1) / np.maximum(lengths, 1e-12)
    return 100 * float(stats.spearmanr(cosine, gold).statistic) if np.ptp(cosine) else 0.0


@pytest.mark.parametrize("name", PAIRS)
def test_grades_are_halves_of_the_scale(name: str) -> None:
    """Every grade is on the scale of docs/pocket.md, and every fifth of the scale has pairs."""
    grades = [float(fields[-3]) for fields in lines(name)]
    assert all(0 <= grade <= HIGHEST[name] and (2 * grade).is_integer() for grade in grades)
    fifths = Counter(min(int(5 * grade / HIGHEST[name]), 4) for grade in grades)
    assert min(fifths[place] for place in range(5)) > 0.09 * len(grades)


def test_kinds_and_splits() -> None:
    """The five kinds have equally many pairs, a third of them in dev."""
    counts = Counter((fields[0], fields[1]) for fields in lines("pairs"))
    assert counts == {(kind, split): size for kind in KINDS for split, size in (("dev", 44), ("test", 88))}


def test_texts_are_plain_and_no_pair_stands_twice() -> None:
    """Unequal texts on both sides; no pair of words or phrases twice, in either order."""
    for name, width in (("pairs", 5), ("words", 3), ("phrases", 3)):
        rows = lines(name)
        assert {len(fields) for fields in rows} == {width}
        texts = [(fields[-2], fields[-1]) for fields in rows]
        assert all(text == " ".join(text.split()) and text for pair in texts for text in pair)
        keys = [frozenset(map(letters, pair)) for pair in texts]
        assert all(len(key) == 2 for key in keys) and len(set(keys)) == len(keys)


def test_no_sentence_stands_in_two_places() -> None:
    """Within the pairs, between dev and test, among the topics, and in the training text."""
    sentences = [(letters(text), fields[1]) for fields in lines("pairs") for text in fields[3:]]
    once = [text for text, _ in sentences] + [letters(fields[1]) for fields in lines("labelled")]
    assert len(once) == len(set(once))
    training = {letters(line) for line in (POCKET / "sentences.txt").read_text(encoding="utf-8").splitlines()}
    assert not training & set(once)


def test_word_overlap_is_not_enough() -> None:
    """Counts of equal words by scikit-learn, against the grades: some use on sentences, hardly any on phrases."""
    for name, most in (("pairs", 45), ("phrases", 25)):
        rows = lines(name)
        first, second, gold = [r[-2] for r in rows], [r[-1] for r in rows], np.array([float(r[-3]) for r in rows])
        counts = CountVectorizer(token_pattern=r"\w+").fit([*first, *second])
        assert correlation(counts.transform(first).toarray(), counts.transform(second).toarray(), gold) < most


def looked_up(vectors: np.ndarray, at: dict[str, int], texts: Sequence[str]) -> np.ndarray:
    """Return the vectors of texts, in their order."""
    return np.asarray(vectors[[at[text] for text in texts]])


def scores(encoder: Encoder) -> dict[str, float]:
    """Return 100 times the score of each pocket task, by the tasks' own code; half of the long ones, to be short."""
    by_name = {}
    for name, limit in (("pairs", 44), ("words", None), ("phrases", None), ("topics", 30)):
        data = TASKS.get(f"pocket-{name}").load(DataSource(None, hub=False), limit)
        texts = list(dict.fromkeys(data.texts()))
        vectors = encoder.encode(texts)
        at = {text: place for place, text in enumerate(texts)}

        by_name[name] = 100 * (data.score(partial(looked_up, vectors, at))["main"] or 0.0)
    return by_name


@pytest.mark.slow
def test_a_strong_encoder_agrees_with_the_grades(minilm: Path) -> None:
    """all-MiniLM-L6-v2 reaches what docs/pocket.md says, on half of the long tasks; controls are far below."""
    import zoo

    strong = scores(zoo.create(f"pretrained:model={minilm}"))
    assert min(strong[name] for name in PAIRS) > 75 and strong["topics"] > 90
    for control in ("bag-of-words", "random"):
        weak = scores(zoo.create(control))
        assert all(weak[name] < strong[name] - 30 for name in strong), (control, weak, strong)
