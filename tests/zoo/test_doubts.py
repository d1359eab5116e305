"""Texts that teach nothing: counted by a count of their own over made texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zoo
from zoo.check import doubts_of
from zoo.encoder import Corpus
from zoo.errors import UsageError

WORDS = st.sampled_from(["a dog", "two cats", "rain", "the sun", "a b", "c"])
BLANKS = st.sampled_from(["{}", " {}", "{}\t", "{} "])
TEXTS = st.builds(lambda blank, words: blank.format(words), BLANKS, WORDS)
LABELS = st.sampled_from(["entailment", "contradiction", "neutral"])


@given(st.lists(TEXTS, min_size=1, max_size=30))
def test_sentences(sentences: list[str]) -> None:
    distinct = len({text.strip() for text in sentences})
    corpus = Corpus("mine.txt", sentences)
    if distinct == 1:
        with pytest.raises(UsageError, match=r"mine\.txt has one distinct sentence"):
            doubts_of(corpus)
        return
    doubts = doubts_of(corpus)
    assert len(doubts) == (len(sentences) - distinct > 0.1 * len(sentences))
    assert all(f"{distinct} distinct sentences among {len(sentences)}" in doubt for doubt in doubts)


@given(st.lists(st.tuples(TEXTS, TEXTS, LABELS), min_size=2, max_size=20))
def test_negatives_that_equal_a_positive_or_their_text(rows: list[tuple[str, str, str]]) -> None:
    pairs = [(first.strip(), second.strip()) for first, second, _ in rows]
    corpus = Corpus("mine.csv", [text for first, second, _ in rows for text in (first, second)], [r[2] for r in rows])
    if len(set(pairs)) == 1:
        with pytest.raises(UsageError, match="one distinct pair"):
            doubts_of(corpus)
        return
    equal = 0
    for pair, (*_, label) in zip(pairs, rows, strict=True):
        positive = any(other == pair and row[2] == "entailment" for other, row in zip(pairs, rows, strict=True))
        equal += label == "contradiction" and (positive or pair[0] == pair[1])
    counted = [doubt for doubt in doubts_of(corpus) if "negatives" in doubt]
    assert len(counted) == (equal > 0) and all(doubt.startswith(f"{equal} of ") for doubt in counted)


def test_scores_that_rank_nothing() -> None:
    (doubt,) = doubts_of(Corpus("mine.csv", ["a", "b", "c", "d"], scores=[2.0, 2.0]))
    assert "all pairs of mine.csv have the score 2" in doubt


def test_python_refuses_and_warns_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="one distinct sentence"):
        zoo.fit("simcse:batch_size=4", ["a dog"] * 8)
