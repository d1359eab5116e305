"""Verdicts that know how many they are: against a textbook's procedure, and on folders in which nothing is true."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from zoo_bench_papers.answers import CONFIRMED, DECIDED, REVERSED, SMALLER, UNDECIDED
from zoo_bench_papers.claims import all_claims
from zoo_bench_papers.comparisons import Compared
from zoo_bench_papers.corrected import BY_CHANCE, contrast, corrected

MILDER = {REVERSED: {SMALLER, UNDECIDED}, SMALLER: {CONFIRMED, UNDECIDED}, CONFIRMED: {UNDECIDED}, UNDECIDED: set()}


def compared(difference: float, place: int = 0, line: float = 0.0, printed: float | None = None) -> Compared:
    half, on = float(stats.t.ppf(0.975, 400)), f"task {place}"
    low, high = difference - half, difference + half
    return Compared(
        a="a", b="b", on=on, difference=difference, low=low, high=high, line=line, printed=printed, error=1.0, df=400.0
    )


@pytest.mark.parametrize("seed", range(3))
def test_of_contrasts_without_a_difference_few_are_decided(seed: int) -> None:
    """By themselves 5 %, half of them reversed, as many as it says; corrected, none or one."""
    drawn = np.random.default_rng(seed).normal(size=1000)
    after = corrected([compared(float(value), place) for place, value in enumerate(drawn)])
    by = Counter(c.word for c in after)
    assert by[REVERSED] == pytest.approx(BY_CHANCE * 1000, abs=12) and by[REVERSED] + by[CONFIRMED] > 30
    for rate in (0, 1):
        assert sum(c.corrected[rate] in DECIDED for c in after) <= 1


@pytest.mark.parametrize("seed", range(3))
def test_the_words_are_those_of_benjamini_and_hochberg(seed: int) -> None:
    """Sorted by p, the last one below its share of the rate decides; written here in another way."""
    generator = np.random.default_rng(seed)
    values = generator.normal(size=60) + 4 * generator.choice([-1, 0, 0, 1], 60)
    after = corrected([compared(float(value), place) for place, value in enumerate(values)])
    ps = 2 * stats.t.sf(abs(values), 400)
    for place, rate in enumerate((0.05, 0.01)):
        below = [k for k, p in enumerate(sorted(ps), 1) if p <= rate * k / 60]
        last = sorted(ps)[below[-1] - 1] if below else -1.0
        words = [CONFIRMED if v > 0 else REVERSED for v in values]
        expected = [word if p <= last else UNDECIDED for word, p in zip(words, ps, strict=True)]
        assert [c.corrected[place] for c in after] == expected and len(below) > 5
    assert all(c.corrected[0] in {c.word, *MILDER[c.word]} for c in after)


@pytest.mark.parametrize("printed", [None, 5.0])
def test_a_contrast_counts_once_whatever_it_is_called(printed: float | None) -> None:
    """Under other claims, names, and turned around; with a margin, a turned contrast is another question."""
    values = [2.3, -2.4, 0.4, 3.1, 1.9]
    once = [compared(value, place, printed=printed) for place, value in enumerate(values)]
    again = [replace(c, a="another name") for c in once for _ in range(20)]
    turned = [compared(-value, place) for place, value in enumerate(values)]
    alone = [c.corrected for c in corrected(once)]
    assert [c.corrected for c in corrected([*once, *again, *turned])][:5] == alone
    assert len({contrast(c) for c in (*once, *again, *turned)}) == 5
    assert len({contrast(compared(value, line=-1.0)) for value in (0.3, -0.3)}) == 2


def test_no_difference_is_shown_by_two_one_sided_tests() -> None:
    """By themselves at 5 %, beside scipy's; corrected with the other contrasts; beyond the margin is reversed."""
    for value in np.linspace(-6, 6, 49):
        c = replace(compared(float(value)), within=3.0)
        inside = max(stats.t.sf(value + 3, 400), stats.t.cdf(value - 3, 400)) <= 0.05
        beyond = c.low > 3 or c.high < -3
        assert c.word == (CONFIRMED if inside else REVERSED if beyond else UNDECIDED)
        assert c.word == corrected([c])[0].corrected[0] and c.as_large == ""
    many = [compared(0.0, place) for place in range(1, 40)]
    assert corrected([replace(compared(1.2), within=3.0), *many])[0].corrected[0] == UNDECIDED
    assert len({contrast(replace(compared(v), within=w)) for v, w in ((1.0, 3.0), (-1.0, 3.0), (1.0, 2.0))}) == 2


def test_a_margin_of_half_a_printed_gap_is_half_of_it() -> None:
    halves = [c for c in all_claims() if c.margin_from.startswith("half of")]
    assert len(halves) > 5
    for claim in halves:
        (printed,) = re.findall(r"\((\d+\.\d+)[,;)]", claim.margin_from)
        assert claim.margin == pytest.approx(float(printed) / 2), claim.id


def test_what_is_smaller_than_printed_by_chance_is_not() -> None:
    some = [compared(0.0, place) for place in range(1, 40)]
    clear, chance = compared(0.5, 50, printed=8.0), compared(0.5, 51, printed=2.6)
    many = [compared(2.5, place, printed=2.5) for place in range(60, 99)]
    after = corrected([*some, clear, chance, *many])
    assert [c.word for c in after[39:41]] == [SMALLER, SMALLER]
    assert [c.corrected[0] for c in after[39:41]] == [SMALLER, UNDECIDED]
    above = corrected([compared(9.0, printed=11.1), *many])[0]
    assert (above.word, above.corrected[0]) == (SMALLER, CONFIRMED)


@pytest.mark.parametrize("folder", ["zoo-mini", "zoo-small", "zoo-small-tuned"])
def test_a_published_verdict_is_no_other_question_after_correction(folder: str) -> None:
    """What is decided by itself may turn milder; what is not measured or untestable stays so."""
    claims = json.loads((Path(__file__).parents[2] / "leaderboards" / folder / "claims.json").read_text("utf-8"))
    words = [(one["verdict"], *one["corrected"]) for at in claims for one in at["claims"] if "corrected" in one]
    assert len(words) > 20
    for word, *after in words:
        assert all((word in MILDER) == (other in MILDER) and (word in MILDER or other == word) for other in after)
        assert REVERSED not in after or word == REVERSED
    for at in claims:
        counts = [
            sum(map(int, re.findall(r"\w (\d+)", part))) for part in re.split(r"rate: | \(5 %\); ", at["counts"])[1:3]
        ]
        stated = at["counts"].split(". ")[0].split(", untestable")[0].split(": ")[1]
        assert counts and {*counts[:1]} == {sum(map(int, re.findall(r"\w (\d+)", stated)))}
