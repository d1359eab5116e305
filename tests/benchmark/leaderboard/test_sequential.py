"""`run --until-told-apart`: seeds are added to two rows of a run until they differ, with one error of all looks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calibration import SPREADS, sequential_share
from fakes import Cli
from scipy import stats

from benchmark.records.store import Records
from benchmark.run.sequential import Looks

PLUGIN = """
from dataclasses import dataclass

import numpy as np
from fakes import Bag
from zoo import register_method
from zoo.encoder import FitReport, Traits

@dataclass(frozen=True, kw_only=True)
class Recipe:
    width: int = 64
    salt: int = 0
    noise: float = 0.1  # of the shift that a seed draws

@register_method("noisy")
class Noisy(Bag):
    Recipe = Recipe

    @classmethod
    def traits(cls, recipe):
        return Traits(needs_corpus=True, stochastic=True)

    def fit(self, corpus, *, dev_score=None, run):
        self.shift = self.recipe.noise * np.random.default_rng([run.seed, self.dim]).normal(size=self.dim)
        return FitReport(fitted=True, steps=1, sentences=len(corpus.sentences), seconds=0.01)
"""
APART = "noisy:noise=1.5,noisy:noise=1.5:width=2"


@pytest.fixture
def run(cli: Cli, tmp_path: Path, tiny_bert: Path) -> Any:
    plugin = tmp_path / "noisy.py"
    plugin.write_text(PLUGIN, encoding="utf-8")

    def call(pair: str, *words: object) -> Any:
        methods = f"{pair},noisy:salt=9,cls" if pair == APART else "noisy,cls,avg-last"
        common = ("--methods", methods, "--backbone", tiny_bert, "--plugin", plugin, "--precision", "fp32")
        rest = ("--no-controls", "--results", tmp_path / "out", "--corpus", "pocket-text", "--train-sentences", 20)
        return cli("run", *common, *rest, "--until-told-apart", pair, *words)

    return call


def seeds_in(folder: Path) -> dict[str, int]:
    found: dict[str, set[Any]] = {}
    for record in Records(folder).all():
        found.setdefault(record["method"]["name"], set()).add(record["seed"])
    return {name: len(seeds) for name, seeds in found.items()}


def test_the_looks_are_known_before() -> None:
    assert Looks(3, 20).seeds == (3, 6, 12, 20)
    assert Looks(1, 7).seeds == (3, 6, 7)
    assert Looks(4, 4).seeds == (4,)


def test_one_look_has_the_usual_level_and_several_a_lower_one() -> None:
    """Never below that of Bonferroni; p is adjusted in the same way."""
    one, several = Looks(3, 3), Looks(3, 12)
    assert one.level == pytest.approx(0.05, abs=0.002) and one.adjusted(0.01) == pytest.approx(0.01, abs=0.001)
    assert 0.05 / 3 < several.level < 0.03
    assert several.adjusted(several.level) == pytest.approx(0.05, abs=0.001)
    assert several.adjusted(1e-9) == pytest.approx(3e-9) and several.adjusted(1.0) == 1.0


def test_the_level_is_that_of_simulated_t_tests() -> None:
    """Of scipy's, over the same growing samples."""
    looks, generator = Looks(3, 12), np.random.default_rng(5)
    scores = generator.normal(size=(20_000, 12))
    lowest = np.min([stats.ttest_1samp(scores[:, :n], 0, axis=1).pvalue for n in looks.seeds], axis=0)
    assert (lowest < looks.level).mean() == pytest.approx(0.05, abs=0.005)


@pytest.mark.parametrize("spreads", SPREADS)
def test_equal_rows_are_told_apart_seldom(spreads: str) -> None:
    """In at most 7% of 400 runs of up to 12 seeds; looks at the usual 5% err more."""
    share = sequential_share(SPREADS[spreads], 0.1, Looks(3, 12), 400, np.random.default_rng(7))
    assert 0.005 <= share <= 0.07


@pytest.mark.slow
def test_seeds_are_added_to_two_rows_until_they_differ(run: Any, tmp_path: Path) -> None:
    answer = run(APART, "--tasks", "pocket-pairs", "--seeds", 2, "--seeds-at-most", 16, "--json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    looks = found["looks"]
    used = looks[-1]["seeds"]
    assert len(looks) > 1 and looks[-1]["told_apart"] and not any(look["told_apart"] for look in looks[:-1])
    assert all(look["adjusted"] >= look["p"] for look in looks)
    assert looks[-1]["low"] > 0 or looks[-1]["high"] < 0
    a, b = APART.split(",")
    assert seeds_in(tmp_path / "out") == {a: used, b: used, "noisy:salt=9": 2, "cls": 1}
    assert f"told apart with {used} seeds" in answer.err and "without this adjustment" in answer.err
    assert found["measured"] == 2 * used + 3
    again = json.loads(run(APART, "--tasks", "pocket-pairs", "--seeds", 2, "--seeds-at-most", 16, "--json").out)
    assert again["looks"] == looks and (again["measured"], again["kept"]) == (0, 2 * used + 3)


@pytest.mark.slow
def test_a_run_ends_at_the_most_seeds_and_one_row_may_have_none(run: Any, tmp_path: Path) -> None:
    answer = run("noisy,cls", "--tasks", "pocket-phrases", "--seeds", 1, "--seeds-at-most", 4, "--limit", 12)
    assert answer.code == 0, answer.err
    assert "compared at 3, 4 seeds" in answer.err and "look 2 of at most 2" in answer.err
    assert "not told apart with 4 seeds" in answer.err
    assert seeds_in(tmp_path / "out") == {"noisy": 4, "cls": 1, "avg-last": 1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pair", "words", "part"),
    [
        ("noisy,simcse", ("--seeds-at-most", 4), "it has noisy, cls, avg-last"),
        ("noisy,noisy", ("--seeds-at-most", 4), "give two rows of this run"),
        ("cls,avg-last", ("--seeds-at-most", 4), "neither row depends on a seed"),
        ("noisy,cls", ("--seeds", 5, "--seeds-at-most", 4), "--seeds-at-most 4 is below the 5 seeds"),
        ("noisy,cls", (), "--seeds-at-most N together"),
        ("noisy,cls", ("--seeds-at-most", 4, "--shard", "1/2"), "leave out --until-told-apart"),
    ],
)
def test_a_wrong_request_is_named_before_any_work(
    run: Any, tmp_path: Path, pair: str, words: tuple[object, ...], part: str
) -> None:
    answer = run(pair, "--tasks", "pocket-pairs", *words)
    assert answer.code == 2 and part in " ".join(answer.err.split())
    assert Records(tmp_path / "out").all() == []


@pytest.mark.slow
def test_without_pair_scores_the_run_fails_and_keeps_scores(run: Any, tmp_path: Path) -> None:
    answer = run("noisy,cls", "--tasks", "pocket-topics", "--seeds", 2, "--seeds-at-most", 4)
    assert answer.code == 1 and "no task of the run has pair scores" in answer.err and "Traceback" not in answer.err
    assert seeds_in(tmp_path / "out") == {"noisy": 2, "cls": 1, "avg-last": 1}
