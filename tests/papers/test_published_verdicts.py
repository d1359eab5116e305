"""Verdicts on the published folders."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from test_claims import ROOT, SEEDS, of_published

from benchmark.records.folder import Records
from benchmark.records.record import scores_of
from benchmark.report.table import read_completed
from zoo_bench_papers import answers
from zoo_bench_papers.answers import AT_SCALE, SO_FAR, UNDECIDED, UNTESTABLE
from zoo_bench_papers.claims import CODE, TEXT, open_points
from zoo_bench_papers.properties import Measured


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zoo-small", "zoo-mini"])
def test_a_comparison_has_one_word_in_all_claims_of_its_paper(name: str) -> None:
    """Also where only another claim's cells have its printed difference."""
    words: dict[object, set[tuple[str, float | None]]] = {}
    for verdict in of_published(name):
        for c in verdict.deciding:
            key = verdict.claim.paper, c.a, c.b, c.on, c.line, verdict.claim.metric
            words.setdefault(key, set()).add((c.word, c.printed))
    assert len(words) > 50
    assert {key: each for key, each in words.items() if len(each) > 1} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zoo-small", "zoo-mini"])
def test_no_verdict_says_more_than_its_scale(name: str) -> None:
    """Trained rows have the share of the paper's updates, of old records too; a margin of ours and open points show."""
    decided = [one for one in of_published(name) if one.word in (*answers.DECIDED, UNDECIDED)]
    assert len(decided) > 40
    for verdict in decided:
        assert verdict.scale == (SO_FAR if verdict.share is not None and verdict.share < 0.05 else AT_SCALE)
        assert verdict.text().startswith(f"{verdict.word} {verdict.scale}")
        assert (verdict.share is not None) == ("as long as the paper" in verdict.text())
        assert bool(verdict.claim.margin) == ("by our own margin of" in verdict.text())
        assert ("(clear)" in verdict.text()) == any("clear" in (c.a, c.b) for c in verdict.deciding)
    by_claim = {(one.claim.id, one.procedure): one for one in decided}
    assert by_claim["ptbert-above-simcse-sts", CODE].share == pytest.approx(
        {"zoo-small": 313, "zoo-mini": 64}[name] / 15625
    )
    for verdict in of_published(name):
        if verdict.word == UNTESTABLE:
            assert verdict.claim.untestable or "labelled ancestry" in verdict.reason
        assert verdict.procedure != TEXT or not open_points(row for pair in verdict.claim.pairs() for row in pair)


def test_the_order_of_rows_on_two_tasks() -> None:
    """Every row of the folder with both tasks, by its mean over seeds."""
    store = Records(ROOT / "leaderboards" / "zoo-small")
    records = [r for r in read_completed(store) if r["status"] == "ok" and r["seed"] in SEEDS]
    every = [
        {
            task: [r for r in records if r["method"]["name"] == name and r["task"]["name"] == task]
            for task in ("STS12", "SICK-R")
        }
        for name in {r["method"]["name"] for r in records}
    ]
    both = [of for of in every if all(of.values())]
    measured = Measured({}, "zoo-small", lambda tasks, name: both)
    text, _ = measured.order_on("STS12", "SICK-R", 0, 1)  # type: ignore[misc]
    means = [[np.mean([scores_of(r)["main"] or 0.0 for r in of[task]]) for task in ("STS12", "SICK-R")] for of in both]
    assert f"over {len(both)} rows: {stats.spearmanr(*np.transpose(means)).statistic:+.2f} (" in text
