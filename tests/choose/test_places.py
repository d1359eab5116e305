"""Ties: no order of documents, queries or rows decides a number, and the closed form is the mean over all orders."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import ndcg_score
from sklearn.neighbors import KNeighborsClassifier

from benchmark.metrics.ties import first_places
from benchmark.tasks.evalrank import Measure, partner_ranks
from choose.data import LEAST, Kind, Texts, arranged
from choose.demands import bm25
from choose.measures import intervals, measure, sampled, score, search
from zoo.errors import ZooError

WORDS = "red dog tree house river man old small".split()


def vectors_of(texts: list[str], form: str, seed: int) -> NDArray[np.float32]:
    """Return a vector for each text: floats, 32 bits, 2 bits, or counts of letters, of which some are 0."""
    every = np.stack([np.random.default_rng([seed, *text.encode()]).normal(size=32) for text in texts])
    if form == "letters":
        every = np.array([[Counter(text)[letter] for letter in "dr"] for text in texts], np.float64)
    return np.float32(np.sign(every)[:, : {"32 bits": 32, "2 bits": 2}[form]] if "bits" in form else every)


def table(kind: Kind, generator: np.random.Generator) -> Texts:
    """Return a table of a kind with repeated words; in retrieval, with grades and queries that are documents too."""
    n, queries = int(generator.integers(24, 70)), int(generator.integers(2, 9)) if kind == "retrieval" else 0
    texts = [f"{' '.join(generator.choice(WORDS, 3))} {'?' * (i < queries)}{i}" for i in range(n)]
    rows = np.arange(n) if kind == "label" else np.repeat(np.arange(queries), 6) if queries else np.arange(2 * n) % n
    second = rows if kind == "label" else generator.integers(queries, n, len(rows))
    gold = generator.integers(0, 3, len(rows)) if kind != "score" else generator.normal(size=len(rows)).round(1)
    gold = np.float64(np.minimum(gold, 1) if kind == "binary" else gold)
    gold[::6] = 1.0
    gold[1::6] = 0.0
    same = np.where(generator.random(queries) < 0.5, generator.integers(queries, n, queries), -1) if queries else None
    if queries:
        _, kept = np.unique(np.stack([rows, second]), axis=1, return_index=True)
        rows, second, gold = rows[kept], second[kept], np.maximum(gold[kept], kept % 6 == 0)
    return Texts(kind, "", texts, rows, second, gold, queries, same)


def mixed(data: Texts, generator: np.random.Generator) -> Texts:
    """Return the same table with other orders of texts and rows, and other numbers of its labels."""
    n, queries = len(data.texts), data.queries
    order = np.concatenate([generator.permutation(queries), queries + generator.permutation(n - queries)])
    place, rows = np.argsort(order), generator.permutation(len(data.gold))
    same = None if data.same is None else np.where(data.same < 0, -1, place[data.same])[order[:queries]]
    gold = (2 - data.gold if data.kind == "label" else data.gold)[rows]
    texts = [data.texts[i] for i in order]
    return Texts(data.kind, "", texts, place[data.first[rows]], place[data.second[rows]], gold, queries, same)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["score", "binary", "retrieval", "label"]),
    st.sampled_from(["float", "32 bits", "2 bits", "letters"]),
    st.sampled_from(["cosine", "dot", "euclidean", "manhattan"]),
    st.integers(0, 10**6),
)
def test_no_order_of_rows_or_texts_decides_a_number(kind: Kind, form: str, similarity: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    data = table(kind, generator)

    def numbers(of: Texts) -> list[float]:
        values, more = measure(of, vectors_of(of.texts, form, seed), similarity, 0.5 if kind == "retrieval" else None)
        means = [value for name, value in more.items() if not name.endswith(("_low", "_high"))]
        return [*score(of, values[None]), *(-1.0 if value is None else value for value in means)]

    expected, other = numbers(data), mixed(data, generator)
    for value, wanted in zip(numbers(other), expected, strict=True):
        assert value == pytest.approx(wanted, abs=1e-12, rel=1e-12, nan_ok=True)
    # In the order of the contents, draws are the same too, to the last bit.
    drawn = []
    for of in (arranged(data), arranged(other)):
        values, _ = measure(of, vectors_of(of.texts, form, seed), similarity)
        drawn.append(np.stack(intervals(of, sampled(of, [values]))))
    assert np.array_equal(*drawn)
    assert drawn[0].min() >= LEAST[kind] and drawn[0].max() <= 100


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=6), st.integers(1, 7))
def test_shared_places_are_the_mean_over_all_orders(documents: list[tuple[int, int]], k: int) -> None:
    """Of up to six documents with three scores and grades: worth by place, and the first hit."""
    scores, grades = np.array(documents, np.float64).T
    worth = 1 / np.log2(np.arange(2, k + 2))
    sums, firsts = [], []
    for order in itertools.permutations(range(len(scores))):
        ranked = sorted(order, key=lambda i: -scores[i])
        sums.append(sum(worth[place] * grades[i] for place, i in enumerate(ranked[:k])))
        firsts.append(next((1 / place for place, i in enumerate(ranked[:k], 1) if grades[i]), 0.0))
    # Rounding that differs from column to column decides nothing.
    places = first_places(scores[None] + 1e-9 * np.arange(len(scores)), k)
    assert (places.mean(worth) * grades[places.column]).sum() == pytest.approx(np.mean(sums), abs=1e-12)
    hit = grades[places.column] > 0
    assert places.first_hit(hit, 1, k) == pytest.approx(np.mean(firsts), abs=1e-12)


@pytest.mark.parametrize("n", [3, 11, 640, 3000])
def test_first_places_are_those_of_a_sort(n: int) -> None:
    """Without ties each place is a candidate's own; -inf is no candidate, and what is no number is named."""
    scores = np.random.default_rng(n).normal(size=(5, n))
    scores[0, 1:] = -np.inf
    places = first_places(scores, 10)
    for row in range(5):
        expected = [*np.argsort(-scores[row])[: 1 if row == 0 else 10]]
        assert places.column[places.row == row].tolist() == expected
        assert places.before[places.row == row].tolist() == [*range(len(expected))]
    assert (places.tied == 1).all()
    scores[2, n // 2] = np.nan
    with pytest.raises(ZooError, match="not a number"):
        first_places(scores, 10)


def test_without_ties_the_numbers_are_those_of_scikit_learn() -> None:
    """nDCG with grades; five neighbours of two classes, which never have equally many votes."""
    generator = np.random.default_rng(0)
    vectors, grades = generator.normal(size=(90, 8)), generator.integers(0, 4, (30, 60)).astype(float)
    # A query without a relevant document is none.
    grades[0] = 0
    first, second = np.nonzero(grades + 1)
    data = Texts("retrieval", "", [], first, second + 30, grades.ravel(), 30)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = [ndcg_score(grades[[i]], unit[[i]] @ unit[30:].T, k=10) for i in range(1, 30)]
    np.testing.assert_allclose(measure(data, vectors)[0], expected, rtol=1e-9)
    gold = generator.integers(0, 2, 90)
    labelled = Texts("label", "", [str(i) for i in range(90)], np.arange(90), np.arange(90), gold.astype(float))
    for i, right in enumerate(measure(labelled, vectors, "euclidean")[0][:90]):
        rest = np.arange(90) != i
        assert right == KNeighborsClassifier(5).fit(vectors[rest], gold[rest]).score(vectors[[i]], gold[[i]])


@given(st.permutations(range(30)))
@settings(max_examples=10, deadline=None)
def test_bm25_finds_no_document_without_a_common_word(order: list[int]) -> None:
    documents = [f"answer {'dog' if i < 10 else chr(97 + i) * 3}" for i in range(30)]
    scores = bm25([documents[i] for i in order])
    data = Texts(
        "retrieval", "", ["nothing", "dogs", "the dog"], np.arange(3), np.argsort(order)[:3] + 3, np.ones(3), 3
    )
    ndcg, more = search(data, lambda some: scores([data.texts[i] for i in some]))
    # The ten documents with the query's word share its ten places.
    assert ndcg.tolist() == pytest.approx([0, 0, np.mean(1 / np.log2(np.arange(2, 12)))], abs=1e-12)
    assert more["recall_at_1"] == pytest.approx(100 / 30)


@pytest.mark.parametrize("measured_by", ["cosine", "l2"])
def test_ranks_of_partners_have_no_order(measured_by: Measure) -> None:
    generator = np.random.default_rng(0)
    vectors = np.sign(generator.normal(size=(300, 12))).astype(np.float32)
    queries, partners = generator.integers(0, 300, (2, 500))
    expected = partner_ranks(vectors, queries, partners, measured_by)
    for _ in range(5):
        order = generator.permutation(300)
        place = np.argsort(order)
        assert np.array_equal(partner_ranks(vectors[order], place[queries], place[partners], measured_by), expected)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_products_of_float32_decide_no_place(similarity: str, size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents near a tie, at distances about float32's rounding, that of ties, and beyond, have float64's places."""
    generator = np.random.default_rng(1)
    queries, documents = generator.normal(size=(30, 64)), generator.normal(size=(60, 64))
    copies = [documents + shift * generator.normal(size=documents.shape) for shift in (0, 1e-8, 1e-7, 1e-6, 3e-6, 1e-5)]
    vectors = size * np.vstack([queries, *copies])
    # Where float32 cannot hold a vector, all are compared in float64.
    vectors[40] *= 1e-50 if size == 1e6 else 1
    vectors[41] = 0
    first = np.repeat(np.arange(30), 5)
    second, gold = generator.integers(30, len(vectors), len(first)), generator.integers(1, 4, len(first))
    same = np.full(30, -1)
    same[:5] = second[:25:5]
    data = Texts("retrieval", "", [str(i) for i in range(len(vectors))], first, second, gold.astype(float), 30, same)
    values, more = measure(data, vectors, similarity, at_precision=0.1)
    monkeypatch.setattr("choose.measures._IN_FLOAT32", (np.inf, np.inf))
    expected, of_float64 = measure(data, vectors, similarity, at_precision=0.1)
    assert values.tolist() == pytest.approx(expected.tolist(), abs=1e-12)
    assert more == pytest.approx(of_float64, abs=1e-9)
