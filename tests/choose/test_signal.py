"""The signal of a text without labels: which pairs it makes, what it holds out, and when there is none."""

from __future__ import annotations

import numpy as np
import pytest

from choose.measures import measure
from choose.own_texts import document_items
from zoo.errors import UsageError


def written(number: int, lines: int) -> list[str]:
    return [f"Document {number} has a sentence {line}." for line in range(lines)]


def test_pairs_stand_together_or_in_two_documents() -> None:
    signal = document_items([written(i, 9) for i in range(30)])
    used = []
    for half in (signal.development, signal.test):
        used.append(set())
        for first, second, gold in zip(half.first, half.second, half.gold, strict=True):
            (document, line), (other, next_line) = (
                [int(word) for word in half.texts[place].rstrip(".").split() if word.isdigit()]
                for place in (first, second)
            )
            used[-1] |= {document, other}
            assert (gold == 1) == (document == other)
            assert gold == 0 or next_line == line + 1
        assert sorted(half.gold.tolist()) == [0.0] * 12 + [1.0] * 12  # six documents of four couples
        assert len({*half.texts}) == len(half.texts) == 48
    assert not used[0] & used[1] and used[0] | used[1] == signal.held_out


@pytest.mark.parametrize("documents", [15, 20, 31])
def test_two_sentences_of_one_document_are_never_unlike(documents: int) -> None:
    """Of few documents, which have most of the couples by chance."""
    for seed in range(20):
        pairs = document_items([written(i, 12 + i) for i in range(documents)], seed).test
        numbers = np.array([int(text.split()[1]) for text in pairs.texts]).reshape(-1, 2)
        assert (pairs.gold == (numbers[:, 0] == numbers[:, 1])).all()


def test_lists_of_short_lines_have_no_titles() -> None:
    documents = [[f"item {i} {line}" for line in range(6)] for i in range(200)]
    assert "neighbouring sentences" in document_items(documents).test.report


@pytest.mark.parametrize("last", ["Yours. P.S.", "P.S. Yours."])
def test_no_text_of_a_pair_is_anywhere_else(last: str) -> None:
    """A line that all documents share is in no pair, first or second."""
    documents = [
        [*written(i, 6), *(f"{word}{f' {i}.' * (word == 'P.S.')}" for word in last.split())] for i in range(40)
    ]
    signal = document_items(documents)
    others = {line for i, lines in enumerate(documents) if i not in signal.held_out for line in lines}
    assert len(signal.held_out) == 16 and "Yours." in others
    for half in (signal.development, signal.test):
        assert len(half.gold) == 8 * 3 and not {*half.texts} & others


def test_a_title_is_a_pair_with_the_line_below() -> None:
    documents = [[f"On the subject {i}", *written(i, 3)] for i in range(200)]
    pairs = document_items(documents).test
    assert "titles" in pairs.report
    for gold, first, second in zip(pairs.gold, pairs.texts[::2], pairs.texts[1::2], strict=True):
        assert first.startswith("On the subject") and second.endswith("sentence 0.")
        assert (f"Document {first.split()[-1]} " in second) == (gold == 1)
    few = document_items([*documents[:50], *(written(i, 9) for i in range(300, 310))]).test
    assert "neighbouring" in few.report  # a dozen titles are no test


def test_a_long_document_does_not_decide_alone() -> None:
    assert len(document_items([written(i, 500) for i in range(20)]).test.gold) == 4 * 8


def test_vectors_that_know_the_document_are_right() -> None:
    pairs = document_items([written(i, 9) for i in range(30)]).development
    numbers = [int(text.split()[1]) for text in pairs.texts]
    right = measure(pairs, np.eye(30)[numbers])[0]
    assert right.tolist() == pairs.gold.tolist()


@pytest.mark.parametrize(
    ("documents", "reason"),
    [
        ([], "0 documents"),
        ([written(0, 400)], "1 documents"),
        ([written(i, 2) for i in range(50)], "10 pairs"),
        ([written(i, 1) for i in range(900)], "0 pairs"),
        ([["The same.", "And again."]] * 500, "0 pairs"),
    ],
)
def test_a_text_without_signal_says_why(documents: list[list[str]], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        document_items(documents)
