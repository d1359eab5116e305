"""The plan of what claims lack: each row once, each claim after all its rows, most claims a second first."""

from __future__ import annotations

import random
from dataclasses import replace as replace_in
from pathlib import Path
from typing import Any

import pytest
from fakes import Cli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from benchmark.records.folder import Records
from benchmark.report.table import read_completed
from benchmark.run.options import read_run_file
from zoo_bench_papers import plan
from zoo_bench_papers.claim_rows import Condition
from zoo_bench_papers.claims import Claim, all_claims
from zoo_bench_papers.verdicts import Lacking, Verdict, verdicts

AT = Condition("zoo-small", "fp32", "wiki", 1000)
TASKS = ("STS12", "STS13", "MEN")


def lacking(rng: random.Random, count: int) -> list[Verdict]:
    """Return verdicts on claims that lack rows drawn from a few, on tasks drawn from three."""
    rows = ["cls", "avg-last", "simcse", "ptbert", "sif:a=0.1", "burt"]
    some = []
    for number in range(count):
        claim = Claim(id=f"c{number}", paper="PT-BERT", where="", says="", kind="above")
        lacks = [
            Lacking(row, tuple(rng.sample(TASKS, rng.randint(1, 3))), rng.random() < 0.3)
            for row in rng.sample(rows, rng.randint(1, 3))
        ]
        some.append(Verdict(claim, AT, lacking=lacks))
    return some


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 12))
def test_each_row_is_run_once_before_its_claims(monkeypatch: pytest.MonkeyPatch, seed: int, count: int) -> None:
    rng = random.Random(seed)
    prices: dict[Any, float] = {}

    def costs(rows: Any) -> plan.Costs:
        return {row: (prices.setdefault(row, rng.uniform(1, 1000)), "") for row in dict.fromkeys(rows)}

    monkeypatch.setattr(plan, "costs_of", costs)
    reached = lacking(rng, count)
    planned = plan.make_plan(reached, {"pairs": "nli"}, {"results": Path("r")})
    rows = [row for step in planned.steps for row in step.rows]
    assert len(rows) == len(set(rows)) == len({(row.name, "remeasure" in dict(row.options)) for row in rows})
    assert sorted(planned.claims) == sorted(verdict.claim.id for verdict in reached)
    assert planned.seconds == pytest.approx(sum(prices[row] for row in rows))
    lacks = plan.lacking_rows(reached, {"pairs": "nli"}, {"results": Path("r")})
    there: set[Any] = set()
    for step in planned.steps:
        there |= set(step.rows)
        assert all(there.issuperset(lacks[name]) for name in step.claims)
        # Each row has every task that a claim lacks of it.
    for verdict in reached:
        for lack in verdict.lacking:
            (row,) = [r for r in rows if r.name == lack.row and ("remeasure" in dict(r.options)) == lack.again]
            assert set(lack.tasks) <= set(row.tasks)
            assert dict(row.options).get("pairs") == ("nli" if lack.row == "burt" else None)


def test_the_most_claims_a_second_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dear row that three claims wait for is before a cheap one of a single claim only where it pays."""
    prices: dict[str, float | None] = {"simcse": 100.0, "cls": 50.0, "avg-last": 20.0}
    wanted = [("a", "simcse"), ("b", "simcse"), ("c", "simcse"), ("d", "cls"), ("e", "avg-last")]

    def ordered() -> list[str]:
        monkeypatch.setattr(plan, "costs_of", lambda rows: {row: (prices[row.name], "") for row in rows})
        claims = {name: Claim(id=name, paper="x", where="", says="", kind="above") for name, _ in wanted}
        reached = [Verdict(claims[name], AT, lacking=[Lacking(row, ("MEN",), False)]) for name, row in wanted]
        return plan.make_plan(reached, {}, {"results": Path("r")}).claims

    assert ordered() == ["e", "a", "b", "c", "d"]
    prices["avg-last"] = 40.0
    assert ordered() == ["a", "b", "c", "e", "d"]
    prices["simcse"] = None
    assert ordered() == ["e", "d", "a", "b", "c"], "what has no estimate is behind the others"


def test_a_row_that_cannot_be_run_keeps_its_claims_out(monkeypatch: pytest.MonkeyPatch) -> None:
    reached = lacking(random.Random(1), 8)
    monkeypatch.setattr(
        plan, "costs_of", lambda rows: {row: (1.0, "no file" if row.name == "simcse" else "") for row in rows}
    )
    planned = plan.make_plan(reached, {}, {"results": Path("r")})
    blocked = [verdict.claim.id for verdict in reached if "simcse" in {lack.row for lack in verdict.lacking}]
    assert blocked and not {*blocked} & {*planned.claims}
    reason, names = planned.impossible["simcse"]
    assert reason == "no file" and sorted(names) == sorted(blocked)


def test_a_row_that_failed_is_not_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reached = lacking(random.Random(2), 8)
    for verdict in reached:
        verdict.lacking = [
            replace_in(lack, failed="simcse failed: NaN") if lack.row == "simcse" else lack for lack in verdict.lacking
        ]
    asked: list[str] = []

    def costs(rows: Any) -> plan.Costs:
        priced: plan.Costs = dict.fromkeys(rows, (1.0, ""))
        asked.extend(row.name for row in priced)
        return priced

    monkeypatch.setattr(plan, "costs_of", costs)
    planned = plan.make_plan(reached, {}, {"results": Path("r")})
    assert "simcse" not in {*asked, *(row.name for step in planned.steps for row in step.rows)}
    reason, names = planned.impossible["simcse"]
    assert reason == "simcse failed: NaN" and names
    assert sorted([*names, *planned.claims]) == sorted(verdict.claim.id for verdict in reached)


@pytest.mark.slow
def test_a_plan_is_run_and_then_nothing_is_lacking(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From an empty folder: the plan's file is run, and the same claims lack no row."""
    claim = next(claim for claim in all_claims() if claim.kind == "above")
    pocket = replace(claim, on=("pocket-pairs",), contrasts=(("avg-last", "cls"),), released={}, controls=(), gains=())
    monkeypatch.setattr("zoo_bench_papers.verdicts.all_claims", lambda: (pocket,))
    monkeypatch.setattr("zoo_bench_papers.commands.claims.all_claims", lambda: (pocket,))
    folder, file = tmp_path / "results", tmp_path / "plan.yaml"
    answer = cli("claims", "--results", folder, "--plan", file, "--backbone", "zoo-small")
    assert answer.code == 0, answer.err
    assert "2 rows on pocket-pairs" in answer.out and f"zoo-bench run {file}" in answer.out.replace("\n", " ")
    (run,), _ = read_run_file(str(file))
    assert run["methods"] == "avg-last,cls" and run["backbone"] == "zoo-small" and run["controls"] is False
    assert cli("run", file, "--precision", "fp32").code == 0
    store = Records(folder)
    (verdict,) = verdicts(folder, store, read_completed(store))
    assert verdict.lacking == [] and verdict.compared[0].difference is not None
    again = cli("claims", "--results", folder, "--plan", file)
    assert "no row is lacking" in again.out
