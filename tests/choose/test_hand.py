"""`choose` on cases so small that their numbers are worked out by hand."""

from __future__ import annotations

from math import log2
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from benchmark.stats.bootstrap import statistic_of
from benchmark.stats.clusters import clusters_of
from benchmark.stats.power import Noise, pairs_needed
from choose.candidates import prepared
from choose.data import Kind, Texts, read_texts, training_pairs
from choose.demands import bm25
from choose.measures import _nearly_equal, intervals, measure, sampled, search, threshold, threshold_at
from choose.own_texts import is_other_than_english
from choose.ranking import ranked, verdict
from zoo.encoder import Runtime


def places(*numbers: int) -> NDArray[np.intp]:
    return np.array(numbers, np.intp)


def test_a_query_does_not_find_its_own_text() -> None:
    """Document 2 is the query's own text; the relevant one, 3, is first among the others, second with it."""
    vectors = np.array([[1, 0], [0, 1], [1, 0], [0.9, 0.1], [0, 1]], np.float32)
    asked, relevant = places(0, 1), places(3, 4)
    of_own = Texts("retrieval", "", [], asked, relevant, np.ones(2), 2, same=places(2, -1))
    assert measure(of_own, vectors)[0].tolist() == [1, 1]
    of_other = Texts("retrieval", "", [], asked, relevant, np.ones(2), 2)
    assert measure(of_other, vectors)[0].tolist() == pytest.approx([1 / log2(3), 1])


def test_ndcg_recall_and_mrr_of_one_query() -> None:
    """Of 12 documents, those of ranks 2, 3, 11 and 12 are relevant."""
    angles = np.radians([0, *range(1, 13)])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    data = Texts("retrieval", "", [], np.zeros(4, np.intp), places(2, 3, 11, 12), np.ones(4), 1)
    ndcg, more = measure(data, vectors)
    ideal = 1 + 1 / log2(3) + 1 / 2 + 1 / log2(5)
    assert ndcg.tolist() == pytest.approx([(1 / log2(3) + 1 / 2) / ideal])
    assert more == {"recall_at_1": 0, "recall_at_10": 50, "mrr_at_10": 50}


def test_each_row_has_its_own_distance_to_the_first() -> None:
    """Without any noise a score has its exact interval, of half as many texts, and a distance has none."""
    data = Texts("label", "", [], np.arange(20), np.arange(20), np.arange(20) % 2.0)
    rows = [{"name": name, "encoder": name, "bytes": 4} for name in "abc"]
    values = [np.full(20, 0.3), np.full(20, 0.8), np.full(20, 0.5)]
    frame = ranked(data, values, rows).frame
    assert [*frame.index] == ["b", "c", "a"]
    share = 0.025 ** (1 / 10)
    for column, other in (("score", None), ("low", 0), ("high", 100)):
        ends = [value if other is None else share * value + (1 - share) * other for value in (80, 50, 30)]
        assert frame[column].tolist() == pytest.approx(ends)
    assert frame["behind"].tolist() == pytest.approx([0, 30, 50]) and frame["behind_low"].isna().all()


@pytest.mark.parametrize(("noise", "clear"), [(1.3, False), (9.0, True)])
def test_only_a_lead_beyond_noise_is_over_the_own_larger_vectors(noise: float, clear: bool) -> None:
    """A lead within noise is told as so many pairs that would show it: by the normal distribution, (1.96 + 0.84)^2."""
    generator, gold = np.random.default_rng(8), np.arange(80.0)
    data = Texts("score", "", [], np.arange(80), np.arange(80, 160), gold)
    small, larger = (gold + 40 * of * generator.normal(size=80) for of in (1, noise))
    rows = [{"name": name, "encoder": "e", "bytes": size} for name, size in (("e int8", 8), ("e", 32))]
    ranking = ranked(data, [small, larger], rows)
    assert ranking.winner == "e int8" and ranking.above_own == (["e"] if clear else [])
    second = ranking.frame.loc["e"]
    error = (second["behind_high"] - second["behind_low"]) / 2 / 1.99
    expected = None if clear else pytest.approx(80 * ((1.96 + 0.84) * error / second["behind"]) ** 2, rel=0.1)
    assert ranking.needed == expected


@pytest.mark.parametrize(
    ("kind", "gold", "sign", "doubt"),
    [
        ("score", np.arange(40.0), -1, "a is below chance (0.0) by more than its interval; if the table was misread"),
        ("binary", np.arange(40) % 2.0, -1, "below chance (50.0)"),
        ("label", np.arange(40) % 2.0, 0, "below chance (48.7)"),
        ("label", np.arange(40.0), 0, "No two texts share a label"),
        ("label", np.minimum(np.arange(40.0), 37), 1, "37 of 40 texts are alone in their class"),
        ("score", np.arange(40.0), 1, ""),
        ("binary", np.arange(40) % 2.0, 1, ""),
        ("label", np.arange(40) % 2.0, 1, ""),
    ],
)
def test_an_outcome_that_cannot_be_right_is_doubted(
    kind: Kind, gold: NDArray[np.float64], sign: int, doubt: str
) -> None:
    """And two encoders of one score are said to have it."""
    data = Texts(kind, "", ["a"] * 40, np.arange(40), np.arange(40), gold)
    values = np.full(40, float(sign)) if kind == "label" else sign * gold + 0.001 * np.arange(40) % 0.02
    about = {"bytes": 4, "finished": True, "texts_per_second": 1.0, "near_duplicates": 0, "accuracy_without_them": 0.0}
    text = verdict(data, ranked(data, [values, values], [{"name": n, "encoder": n, **about} for n in "ab"]), [], [])
    assert text.startswith(doubt) if doubt == "" or doubt[0] in "aN3" else doubt in text.split("On these")[0]
    assert (text.split("On these")[0] == "") == (doubt == "")
    assert "a and b have the same score here" in text and "would show it" not in text


def test_a_resample_of_one_class_has_no_area() -> None:
    areas = statistic_of(np.array([[0.1, 0.9]]), np.array([0.0, 1.0]), "auc")(np.array([[2, 0], [1, 1]]))
    assert np.isnan(areas[0, 0]) and areas[0, 1] == 1


@pytest.mark.parametrize(("seeds", "spread"), [(2, 0.1), (2, 0.2), (6, 0.5), (1, 0.0)])
def test_an_area_s_own_interval_holds_95_percent(seeds: int, spread: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 400 pairs, over seeds whose distance of the two classes differs; by pairs alone it held 76 % at 0.2."""
    monkeypatch.setattr("choose.measures.RESAMPLES", 400)
    generator, inside, draws = np.random.default_rng(0), 0, 200
    truth = 100 * stats.norm.cdf(1 / np.sqrt(2 + spread**2))
    for _ in range(draws):
        gold = (generator.random(400) < 0.5).astype(float)
        noise, apart = generator.normal(size=400), 1 + spread * generator.normal(size=(seeds, 1))
        data = Texts("binary", "", [], np.arange(0, 800, 2), np.arange(1, 800, 2), gold)
        low, high = intervals(data, sampled(data, [apart * gold + noise]))
        inside += low[0] <= truth <= high[0]
    assert inside / draws >= 0.92


def test_the_interval_of_a_threshold_holds_95_percent() -> None:
    """Three of 20 pairs, at 0.2, hold the threshold at 0.1; 3.9 % of resamples have none of them: then it is 0.35."""
    cosines, gold = np.repeat([0.0, 0.2, 1.0], [9, 3, 8]), np.repeat([0.0, 1.0, 1.0], [9, 3, 8])
    limits = threshold(cosines, gold, clusters_of(np.arange(20)))
    assert (limits["threshold"], limits["threshold_low"], limits["accuracy"]) == (pytest.approx(0.1),) * 2 + (100,)
    assert limits["threshold_high"] == pytest.approx(0.35)


def test_the_lowest_threshold_of_a_wanted_precision() -> None:
    scores, right = np.array([0.5, 0.9, 0.7, 0.8, 0.6]), np.array([0.0, 1, 0, 1, 1])  # by rank: right, right, no, right
    clusters = clusters_of(np.arange(5))
    limits = threshold_at(0.75, scores, right, clusters)
    assert limits["threshold_at_precision"] == pytest.approx(0.55) and limits["recall_at_precision"] == 100
    limits = threshold_at(0.8, scores, right, clusters)
    assert limits["threshold_at_precision"] == pytest.approx(0.75)
    assert limits["recall_at_precision"] == pytest.approx(200 / 3)
    assert threshold_at(0.75, scores, right, clusters, of_all=True)["recall_at_precision"] == pytest.approx(60)
    limits = threshold_at(0.9, scores, 1 - right, clusters)
    assert {*limits.values()} == {None}  # the first hit is wrong


def test_the_best_hit_of_a_search_has_a_threshold() -> None:
    """Queries 0 and 1 find their document first, at 0.9 and 0.8; query 2 finds another's, at 0.6."""
    scores = np.array([[0.9, 0.1, 0.2], [0.3, 0.8, 0.1], [0.6, 0.2, 0.5]])
    data = Texts("retrieval", "", [""] * 6, places(0, 1, 2), places(3, 4, 5), np.ones(3), 3)
    more = search(data, lambda some: scores[some], at_precision=1.0)[1]
    assert more["threshold_at_precision"] == pytest.approx(0.7)
    assert more["recall_at_1"] == pytest.approx(200 / 3) == more["recall_at_precision"]


def test_an_equal_text_does_not_lend_its_label(tmp_path: Path) -> None:
    lines = [f"text of number {i // 2},{'ab'[i // 2 % 2]}\n" for i in range(60)]
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(lines), encoding="utf-8")
    assert read_texts(tmp_path / "a.csv").units == 30


def test_near_duplicates_are_counted() -> None:
    """Of four texts in two classes, two differ in a digit alone."""
    texts = ["a b c d 1", "a b c d 2", "e f g h", "i j k l"]
    data = Texts("label", "", texts, np.arange(4), np.arange(4), np.array([0.0, 0, 1, 1]))
    right, more = measure(data, np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1]]))
    assert more["near_duplicates"] == 2 and more["accuracy_without_them"] == 100 * right[2:].mean()


def test_a_transductive_recipe_is_fitted_to_the_texts() -> None:
    texts = [f"{word} number {i}" for i, word in enumerate("rain dog tree house river man".split() * 5)]
    candidate = prepared("w", "whitening-target:base=static-freq-sub-case-pun", Runtime("cpu"), texts, None, "torch")
    np.testing.assert_allclose(candidate.encoder.encode(texts).mean(axis=0), 0, atol=1e-4)


def test_half_a_lead_needs_four_times_the_pairs() -> None:
    """By t of 99 degrees of freedom: (1.9842 + 0.8453) * 10 / 5 = 5.66 times the error, squared 32.02."""
    assert pairs_needed(Noise(10, 0, 99), 100, 5) == 3203
    assert pairs_needed(Noise(10, 0, 99), 100, 2.5) == pytest.approx(4 * 3203, abs=4)


def test_bm25_counts_common_words() -> None:
    """By its formula: idf log(1 + (3 - 1 + 0.5) / (1 + 0.5)), and a document of average length."""
    scores = bm25(["red dog", "small tree", "old house"])(["RED dogs", "", "no such word"])
    assert scores.shape == (3, 3)
    assert scores[0, 0] == pytest.approx(np.log(1 + 2.5 / 1.5) / 2.5)
    assert np.isneginf(scores[0, 1:]).all() and np.isneginf(scores[1:]).all()


@pytest.mark.parametrize(
    ("texts", "other"),
    [
        (["the cat is on the mat", "what is the price of it"], False),
        (["die Katze ist auf der Matte", "was ist der Preis und wie"], True),
        (["le chat est sur le tapis", "quel est le prix des pommes"], True),
        (["猫はマットの上にいます", "値段はいくらですか"], True),
        (["кот на коврике", "какая цена"], True),
        (["iphone 12 case", "usb cable 2m", "samsung tv"], False),
    ],
)
def test_other_languages_are_seen_where_they_are_clear(texts: list[str], other: bool) -> None:
    assert is_other_than_english(texts) is other


@pytest.mark.parametrize(
    ("common", "others", "alike"), [(4, 1, True), (3, 1, False), (8, 2, True), (7, 2, False), (0, 0, False)]
)
def test_texts_with_four_fifths_of_their_words_in_common_are_near_duplicates(
    common: int, others: int, alike: bool
) -> None:
    words = [f"w{i}" for i in range(common + others)]
    assert _nearly_equal(frozenset(words), frozenset(words[:common])) is alike


def test_scores_to_train_on_begin_at_0() -> None:
    data = Texts("score", "", list("abcdef"), places(0, 1, 2), places(3, 4, 5), np.array([3.0, 1.0, 5.0]))
    corpus = training_pairs(data)
    assert (corpus.sentences, corpus.scores) == (list("adbecf"), [2.0, 0.0, 4.0])
