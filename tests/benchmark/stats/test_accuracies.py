"""Noise of accuracies: against scipy's bootstrap, binomial intervals and McNemar's variance worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import make_record
from scipy import stats

from benchmark.metrics.items import accuracy_of, item_weights, items_part
from benchmark.records.folder import Records
from benchmark.report.table import build_tables
from benchmark.stats.bootstrap import Scored, resample, resample_together
from benchmark.stats.compare import compare
from benchmark.stats.mcb import differences, sample_pairs
from benchmark.tasks.suites import Suite

N = 800
_DRAW = np.random.default_rng(5)
A = _DRAW.random(N) < 0.8
B = np.where(_DRAW.random(N) < 0.9, A, ~A)  # disagrees with A on a tenth
ONES = np.ones(N)


def test_the_draws_are_those_of_scipy_and_of_the_binomial() -> None:
    """Standard error and interval of one accuracy; for one part the error is sqrt(p (1 - p) / n)."""
    (drawn,) = resample(A[None].astype(float), ONES, metric="accuracy", resamples=9_999)
    theirs = stats.bootstrap((A,), np.mean, n_resamples=9_999, method="percentile", rng=np.random.default_rng(1))
    share = A.mean()
    assert drawn.std(ddof=1) == pytest.approx(theirs.standard_error, rel=0.03)
    assert drawn.std(ddof=1) == pytest.approx(np.sqrt(share * (1 - share) / N), rel=0.03)
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert [low, high] == pytest.approx(list(theirs.confidence_interval), abs=0.003)
    exact = stats.binomtest(int(A.sum()), N).proportion_ci(method="wilson")
    assert [low, high] == pytest.approx([exact.low, exact.high], abs=0.004)


def test_a_difference_has_the_variance_of_mcnemar() -> None:
    """Of b and c items that only one has right, the difference's variance is (b + c - (b - c)^2 / n) / n^2."""
    only_a, only_b = int((A & ~B).sum()), int((B & ~A).sum())
    by_hand = np.sqrt(only_a + only_b - (only_a - only_b) ** 2 / N) / N
    result = differences(sample_pairs([A.astype(float), B.astype(float)], ONES, metric="accuracy"))
    assert result.value[0, 1] == pytest.approx((only_a - only_b) / N)
    assert result.pairs_error[0, 1] == pytest.approx(by_hand, rel=0.03)
    # McNemar's test takes the variance under equal accuracies.
    z = (only_a - only_b) / np.sqrt(only_a + only_b)
    assert result.p[0, 1] == pytest.approx(2 * stats.norm.sf(abs(z)), abs=0.02)


def test_folds_count_equally() -> None:
    """A fold of 100 items has the weight of one of 700: drawn again by hand, item by item."""
    weights, parts = item_weights([100, 700]), [slice(0, 100), slice(100, N)]
    right = np.concatenate([np.arange(100) < 20, A[100:]])
    (drawn,) = resample(right[None].astype(float), weights, metric="accuracy", resamples=4_000)
    value = np.mean([right[part].mean() for part in parts])
    assert drawn.mean() == pytest.approx(value, abs=0.002)
    generator = np.random.default_rng(2)
    rows = generator.integers(0, N, (4_000, N))
    by_hand = (right[rows] * weights[rows]).sum(1) / weights[rows].sum(1)
    assert drawn.std() == pytest.approx(by_hand.std(), rel=0.05)


def test_tasks_of_equal_size_have_draws_of_their_own_and_rows_share_them() -> None:
    first, second = (
        resample_together([Scored(np.stack([A, B]).astype(float), ONES, None, "accuracy", name)], resamples=500)[0]
        for name in ("one", "other")
    )
    assert abs(np.corrcoef(first[0], second[0])[0, 1]) < 0.15
    assert np.corrcoef(first)[0, 1] > 0.5


SUITE = Suite(name="mixed", title="Mixed", tasks=("MEN", "MR"), columns=("MEN", "MR"), dev="", corpus="")
GOLD = np.round(np.random.default_rng(0).uniform(0, 5, 300), 1)


def add(store: Records, name: str, level: float, seeds: Any = (None,), bits: bool = True) -> None:
    """Write a row of both tasks: a correlation with pair scores, and an accuracy, with its items or as of before."""
    for seed in seeds:
        draw = np.random.default_rng([len(name), int(100 * level), seed or 0])
        predicted = GOLD + draw.normal(size=300) / level
        rho = float(stats.spearmanr(predicted, GOLD).statistic)
        store.write(make_record(name, "MEN", seed, main=rho), (predicted, GOLD))
        items = items_part(draw.random(N) < level, range(N))
        scores = {"main": accuracy_of(items), "main_metric": "accuracy", "reason": None}
        store.write(make_record(name, "MR", seed, scores=scores, **({"items": items} if bits else {})))


def rows_of(store: Records) -> dict[str, list[Any]]:
    rows: dict[str, list[Any]] = {}
    for record in store.all():
        rows.setdefault(record["method"]["name"], []).append(record)
    return rows


def test_a_mean_of_both_kinds_is_judged(tmp_path: Path) -> None:
    """Each task by its own statistic, drawn independently: the error of the mean is that of its parts."""
    store = Records(tmp_path)
    for name, level in (("best", 0.9), ("alike", 0.9), ("low", 0.5)):
        add(store, name, level, (0, 1, 2))
    (table,) = build_tables(store.all(), [SUITE], store, baseline="low")
    assert [row.mark for row in table.rows] == ["≈", "≈", ""] and "Noise of items: contained" in table.legend
    assert [row.against for row in table.rows] == [
        "↑",
        "↑",
        "",
    ] and "Noise of items: contained; of seeds: contained" in table.against
    comparison = compare("mixed", SUITE.tasks, rows_of(store)["best"], rows_of(store)["low"], store)
    of_tasks = [line.pairs_error for line in comparison.lines]
    assert comparison.average is not None
    assert comparison.average.pairs_error == pytest.approx(np.hypot(*of_tasks) / 2, rel=0.05)
    assert [line.pairs for line in comparison.lines] == [300, N] and comparison.unit == "items"
    assert comparison.lines[1].williams is None and comparison.lines[0].williams is not None
    assert (comparison.average.p or 1) < 0.01


def test_fine_tunings_are_the_seeds_of_a_row_without_one(tmp_path: Path) -> None:
    """Their spread is noise: three runs of 0.5, 0.6 and 0.7 have a standard error of 0.1 / sqrt(3)."""
    store = Records(tmp_path)
    for name, shift in (("tuned", 0), ("other", 1)):
        right = np.stack([np.arange(N) < N * share for share in (0.5, 0.6, 0.7)])
        items = items_part(np.roll(right, shift, axis=1), range(N))
        by_seed = {str(seed): {"accuracy": share} for seed, share in enumerate((0.5, 0.6, 0.7))}
        scores = {"main": accuracy_of(items), "main_metric": "accuracy", "reason": None, "by_seed": by_seed}
        store.write(make_record(name, "MR", scores=scores, items=items))
    rows = rows_of(store)
    (line,) = compare("", ("MR",), rows["tuned"], rows["other"], store).lines
    assert line.seeds_error == pytest.approx(100 * np.sqrt(2 * 0.01 / 3))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("seed", "the baseline: it has one seed (run --seeds 3)."),
        ("bits", "the baseline: it has no item scores of MR (measure it again: --remeasure)."),
        ("best", "the baseline: the best row, best, has no item scores of MR (measure it again: --remeasure)."),
        ("task", "the baseline: it has no mean of this table's tasks."),
        ("row", "the baseline: this table has no row of it."),
    ],
)
def test_the_reason_why_nothing_is_compared_names_what_is_missing(tmp_path: Path, change: str, reason: str) -> None:
    store = Records(tmp_path)
    add(store, "best", 0.9, (0, 1), bits=change != "best")
    if change != "row":
        add(store, "the baseline", 0.5, (0,) if change == "seed" else (0, 1), bits=change != "bits")
    records = [
        r for r in store.all() if change != "task" or (r["task"]["name"], r["method"]["name"][:3]) != ("MR", "the")
    ]
    (table,) = build_tables(records, [SUITE], store, baseline="the baseline")
    assert table.against == f"No row is compared with {reason}"
