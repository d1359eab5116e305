"""Bags of words against the exact counts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from zoo.encoder import Runtime
from zoo.methods.bagofwords import BagOfWords

GOLDEN = {"bag-of-words": {"version": 1, "values": [-0.2945, 0.473, 1.0, -0.0167, -0.1939, 0.454, 1.0, 0.1233]}}


def make(**recipe: object) -> BagOfWords:
    return BagOfWords(BagOfWords.Recipe(**recipe), Runtime())


def cosine(u: np.ndarray, v: np.ndarray) -> float:
    u, v = u.astype(np.float64), v.astype(np.float64)
    return float(u @ v / np.linalg.norm(u) / np.linalg.norm(v))


@pytest.mark.slow
def test_cosines_are_of_the_counts_where_no_bucket_is_shared(pocket_sentences: list[str]) -> None:
    """In the most buckets that there are none of the few words of these sentences collide."""
    texts = pocket_sentences[:12]
    bags = [Counter("".join(c if c.isalnum() else " " for c in t.lower()).split()) for t in texts]
    words = sorted(set().union(*bags))
    counts = np.array([[bag[word] for word in words] for bag in bags])
    vectors = make(dim=2**14).encode(texts)
    for i in range(len(texts)):
        for j in range(i):
            assert cosine(vectors[i], vectors[j]) == pytest.approx(cosine(counts[i], counts[j]), abs=1e-6)


def test_signs_make_shared_buckets_neutral_on_average() -> None:
    """Texts without a common word: in 16 buckets their cosines are spread, with mean 0."""
    vectors = make(dim=16).encode([f"a{i} b{i} c{i}" for i in range(2000)])
    right = make(dim=16).encode([f"x{i} y{i} z{i}" for i in range(2000)])
    cosines = [cosine(u, v) for u, v in zip(vectors, right, strict=True) if u.any() and v.any()]
    assert np.std(cosines) > 0.15
    assert np.mean(cosines) == pytest.approx(0, abs=4 * np.std(cosines) / len(cosines) ** 0.5)


def test_words_are_letters_and_digits_in_lower_case() -> None:
    encoder = make()
    dog, marks, upper, twice = encoder.encode(["the dog", "The, DOG!", "THE DOG", "the dog the"])
    np.testing.assert_array_equal(dog, marks)
    np.testing.assert_array_equal(dog, upper)
    assert np.abs(twice).sum() == 3 and np.abs(dog).sum() == 2
    assert not np.array_equal(*make(lower_case=False).encode(["dog", "Dog"]))


def test_a_text_without_a_word_left_is_not_covered() -> None:
    """Two words of opposite signs may share the one bucket there is."""
    assert make().covers(["a dog", "", " , . !", "…"]).tolist() == [True, False, False, False]
    encoder = make(dim=1)
    signs = {word: encoder.encode([word])[0, 0] for word in "abcdefgh"}
    plus, minus = (next(w for w, s in signs.items() if s == sign) for sign in (1, -1))
    assert encoder.covers([f"{plus} {minus}", f"{plus} {plus}"]).tolist() == [False, True]
    assert encoder.encode([f"{plus} {minus}"]).tolist() == [[0]]
