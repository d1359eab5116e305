"""Items that are right or wrong: the accuracy is that of its bits, and a record with other bits is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Bag, make_record
from sklearn.metrics import f1_score

from benchmark.data.readers.transfer import Labelled
from benchmark.data.sources import DataSource
from benchmark.metrics.items import accuracy_of, item_weights, items_part, joined, ranked_part, right_of
from benchmark.records.folder import Records
from benchmark.records.pack import pack
from benchmark.stats.compare import compare, noise_of_move
from benchmark.tasks import TASKS
from benchmark.tasks.transfer import TransferData
from zoo.encoder import Runtime
from zoo.errors import CorruptError

BAG = Bag(Bag.Recipe(), Runtime())


def test_an_accuracy_worked_out_by_hand() -> None:
    """Two folds of three and two items: (2/3 + 1/2) / 2; SentEval rounds each fold and their mean to two decimals."""
    right = np.array([True, True, False, False, True])
    items = items_part(right, "abcde", [3, 2])
    assert items["right"] == "yA=="  # 11001000
    assert accuracy_of(items) == (2 / 3 + 1 / 2) / 2 != np.mean(right)
    assert accuracy_of({**items, "decimals": 2}) == round((66.67 + 50.0) / 2, 2) / 100
    weights = item_weights([3, 2])
    assert weights.tolist() == pytest.approx([5 / 6] * 3 + [5 / 4] * 2)
    assert float(right @ weights / weights.sum()) == pytest.approx(accuracy_of(items))
    runs = joined([items_part(right, "abcde"), items_part(~right, "abcde"), items_part(right, "abcde")])
    assert runs is not None and right_of(runs).tolist() == [right.tolist(), (~right).tolist(), right.tolist()]
    assert accuracy_of(runs) == pytest.approx((3 / 5 + 2 / 5 + 3 / 5) / 3)


@pytest.mark.parametrize("text", ["yA", "yAA=", "yQ==", "é==="])
def test_bits_that_are_not_those_of_the_items_are_refused(text: str) -> None:
    """Too few, too many, bits behind the last item, letters that are no base64."""
    items = items_part(np.array([True, True, False, False, True]), "abcde")
    with pytest.raises(CorruptError, match="measure it again"):
        right_of({**items, "right": text})


def rows(count: int, seed: int, pairs: bool = False) -> Labelled:
    """Return labelled texts whose label shows in some of them."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, count)
    texts = [f"w{draw.integers(40)} {'good' if label ^ (draw.random() < 0.3) else 'bad'}" for label in labels]
    return Labelled(texts, labels, texts[::-1] if pairs else None)


@pytest.mark.parametrize("sizes", [(60,), (60, 41), (60, 30, 41)])
def test_the_score_of_every_scheme_is_that_of_its_items(sizes: tuple[int, ...]) -> None:
    """Folds over all rows, folds of a training part, three parts: to the last digit, F1 too."""
    located: Any = None
    parts = [rows(size, seed, pairs=len(sizes) == 2) for seed, size in enumerate(sizes)]
    data = TransferData(located, parts, "fast", len(sizes) == 2, None)
    scores = data.score(BAG.encode)
    items = scores["items"]
    assert accuracy_of(items) == scores["main"]
    assert sum(items["parts"]) == data.rows and len(items["parts"]) == (5 if len(sizes) == 1 else 1)
    if len(sizes) == 2:
        labels, (right,) = data.parts[-1].labels, right_of(items)
        assert round(float(f1_score(labels, np.where(right, labels, 1 - labels))), 4) == scores["f1"]


def test_topics_keep_theirs_and_other_data_has_another_digest() -> None:
    source = DataSource(None, hub=False)
    full, cut = (TASKS.get("pocket-topics").load(source, limit).score(BAG.encode) for limit in (None, 30))
    assert accuracy_of(full["items"]) == full["main"]
    assert full["items"]["gold_sha256"] != cut["items"]["gold_sha256"]


def test_a_record_keeps_them_packed_and_loose(tmp_path: Path) -> None:
    store, right = Records(tmp_path), np.random.default_rng(0).random(1000) < 0.7
    items = items_part(right, range(1000), [400, 600])
    scores = {"main": accuracy_of(items), "main_metric": "accuracy", "reason": None}
    store.write(make_record("m", "MR", scores=scores, items=items))
    for _ in range(2):
        (record,) = Records(tmp_path).all()
        kept = Records(tmp_path).item_scores(record)
        assert store.has_items(record) and not store.has_pairs(record)
        assert kept.metric == "accuracy" and np.array_equal(kept.predicted, right)
        assert np.average(kept.predicted, weights=kept.gold) == pytest.approx(scores["main"])
        pack(tmp_path)
    with pytest.raises(CorruptError, match=r"right|items"):
        store.write(make_record("m", "MR", scores=scores, items={**items, "parts": [0, 1000]}))


def test_a_reciprocal_rank_worked_out_by_hand() -> None:
    items = ranked_part(np.array([1, 4, 2, 1]), "abcd")
    assert accuracy_of(items) == (1 + 1 / 4 + 1 / 2 + 1) / 4 and items["ranks"] == [1, 4, 2, 1]
    assert right_of(items).tolist() == [[True, False, False, True]]


@pytest.mark.parametrize("ranks", [[1, 4, 2], [1, 4, 1, 1], [2, 4, 2, 1], [1, 0, 2, 1]])
def test_ranks_that_are_not_those_of_the_items_are_refused(ranks: list[int], tmp_path: Path) -> None:
    """Too few, another item first, none where one was, and a rank above the first."""
    items: Any = {**ranked_part(np.array([1, 4, 2, 1]), "abcd"), "ranks": ranks}
    scores = {"main": 0.5, "main_metric": "mrr", "reason": None}
    record = make_record("m", "PPDB-XXL", scores=scores, items=items)
    with pytest.raises(CorruptError, match="rank"):
        Records(tmp_path).write(record)
        Records(tmp_path).item_scores(record)


@pytest.mark.parametrize("most", [3, 40, 5_000])
def test_rows_of_reciprocal_ranks_are_compared_and_moves_judged(most: int, tmp_path: Path) -> None:
    """The error is that of the items' differences, by its formula; `diff` sees the same difference."""
    draw, store = np.random.default_rng(most), Records(tmp_path)
    ranks = [draw.integers(1, most, 900) for _ in range(2)]
    for row, of_row in zip("ab", ranks, strict=True):
        items = ranked_part(of_row, range(900))
        scores = {"main": accuracy_of(items), "main_metric": "mrr", "reason": None}
        store.write(make_record(row, "PPDB-XXL", scores=scores, items=items))
    rows = {record["method"]["name"]: [record] for record in store.all()}
    values = 1 / np.array(ranks)
    error = 100 * (values[0] - values[1]).std() / 30
    (line,) = compare("", ["PPDB-XXL"], rows["a"], rows["b"], store).lines
    assert line.difference == pytest.approx(100 * (values[0] - values[1]).mean())
    assert line.pairs_error == pytest.approx(error, rel=0.05) and line.pairs == 900 and line.williams is None
    low, high, p = noise_of_move(rows["a"], rows["b"], store, store)
    assert line.low is not None and line.high is not None and 0 < (p or 0) < 1
    assert [low, high] == pytest.approx([-line.high, -line.low], abs=1e-9)
