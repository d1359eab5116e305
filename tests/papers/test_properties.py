"""Properties that kept analyses, trainings and scores show: values, intervals, signatures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchmark.metrics.geometry import alignment, anisotropy, uniformity
from zoo.errors import CorruptError
from zoo.files import write_signed
from zoo_bench_papers.analysis.alignment import alignment_error, anisotropy_error, uniformity_error
from zoo_bench_papers.analysis.result import Analysis, write_analysis
from zoo_bench_papers.analysis.top_tokens import shared_words
from zoo_bench_papers.claim_rows import kept_tables
from zoo_bench_papers.claims import Evidence, all_claims
from zoo_bench_papers.properties import TABLES, Measured

ROOT = Path(__file__).parents[2]


def kept(folder: Path, **rows: Any) -> Measured:
    cells = [{"Backbone": "zoo-small", "Class": name, **of} for name, of in rows.items()]
    write_signed(folder / "analyses" / "some.json", {"analysis": "some", "tables": {"bias-classes": {"rows": cells}}})
    return Measured(kept_tables(folder), "zoo-small")


def evidence(statistic: str, *rows: str, **more: Any) -> Evidence:
    return Evidence(statistic=statistic, rows=rows, **more)


def test_every_property_has_evidence_or_says_what_it_needs() -> None:
    for claim in all_claims():
        states = bool(claim.evidence), bool(claim.needs), bool(claim.untestable)
        assert sum(states) == (claim.kind == "property" or bool(claim.untestable)), claim.id


def test_values_of_kept_analyses_have_the_interval_of_their_errors(tmp_path: Path) -> None:
    of = {"rare": {"Norm": 3.0, "Norm, error": 0.3}, "frequent": {"Norm": 1.0, "Norm, error": 0.4}}
    measured = kept(tmp_path, **of)
    for names, line, text, by in (
        (("rare", "frequent"), {}, "rare - frequent: +2.00 (+1.02 to +2.98)", 2 - 1.96 * 0.5),
        (("frequent", "rare"), {}, "frequent - rare: -2.00 (-2.98 to -1.02)", -2 + 1.96 * 0.5),
        (("rare",), {"above": 3.2}, "rare: +3.00 (+2.41 to +3.59)", 0.0),
    ):
        part = measured.part(evidence("Norm", *names, **line))
        assert part is not None and part[0] == f"Norm, {text}" and part[1] == pytest.approx(by, abs=1e-3)
    assert measured.part(evidence("Norm", "rare", "absent")) is None
    assert replace(measured, backbone="zoo-mini").part(evidence("Norm", "rare", above=0.0)) is None
    assert kept(tmp_path, rare={"Norm": 3.0}).part(evidence("Norm", "rare", above=0.0)) is None, "no interval"
    assert kept(tmp_path, **of).part(evidence("Spread", "rare", above=0.0)) is None, "no such column"
    twice = {"bias-classes": 2 * [{"Class": "rare", **of["rare"]}]}
    with pytest.raises(CorruptError, match="table bias-classes has not one 'Norm' of Class=rare on zoo-small"):
        Measured(twice, "zoo-small").part(evidence("Norm", "rare", above=0.0))


def test_a_margin_holds_an_interval_on_both_sides(tmp_path: Path) -> None:
    for value, expected in ((0.1, 1), (0.9, 0), (-3.0, -1)):
        measured = kept(tmp_path, a={"Norm": value, "Norm, error": 0.2}, b={"Norm": 0.0, "Norm, error": 0.0})
        assert np.sign(measured.part(evidence("Norm", "a", "b", within=1.0))[1]) == expected  # type: ignore[index]


def test_a_value_of_several_seeds_has_their_noise() -> None:
    values = [0.5, 0.6, 0.55]
    rows = [{"Method": "ptbert", "Seed": i, "Step": 9, "cos, P drawn anew": v} for i, v in enumerate(values)]
    start = {"Method": "ptbert", "Seed": 0, "Step": 0, "cos, P drawn anew": 0.99}
    measured = Measured({"pseudo-tokens": [start, *rows]}, "zoo-small")
    part = measured.part(evidence("cos, P drawn anew", "ptbert", below=0.99))
    high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))[1]
    assert part is not None and part[1] == pytest.approx(0.99 - high)


def test_errors_are_those_of_drawing_again() -> None:
    """Beside the spread over 2,000 samples of a population of texts."""
    rng = np.random.default_rng(0)
    population = rng.normal(size=(4000, 6)).astype(np.float32) + 0.7
    near = (population + rng.normal(size=population.shape) / 3).astype(np.float32)
    draws = [rng.choice(4000, 150, replace=False) for _ in range(2000)]
    both: list[tuple[Callable[[Any], float], Callable[[Any], float]]] = [
        (lambda i: alignment(population[i], near[i]), lambda i: alignment_error(population[i], near[i])),
        (lambda i: uniformity(population[i]), lambda i: uniformity_error(population[i])),
        (lambda i: anisotropy(population[i]), lambda i: anisotropy_error(population[i])),
    ]
    for value, error in both:
        spread = np.std([value(i) for i in draws])
        assert np.mean([error(i) for i in draws[:200]]) == pytest.approx(spread, rel=0.1)


def test_shared_words_are_a_mean_over_pairs_of_sentences() -> None:
    words = [["a", "b"], ["a", "c"], ["b", "a"], ["d", "e"]]
    pairs = [len({*x} & {*y}) / 2 for i, x in enumerate(words) for j, y in enumerate(words) if i != j]
    assert shared_words(words)[0] == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize(
    "change",
    [lambda text: text.replace("1.0", "4.0"), lambda text: text[:-30], lambda text: text.replace('"sha256"', '"sha"')],
    ids=["changed", "cut", "unsigned"],
)
def test_a_kept_analysis_that_is_not_what_was_written_is_named(tmp_path: Path, change: Callable[[str], str]) -> None:
    kept(tmp_path, frequent={"Norm": 1.0})
    path = tmp_path / "analyses" / "some.json"
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(CorruptError, match=r"some\.json.*Make it again"):
        kept_tables(tmp_path)


def test_the_published_analyses_are_signed_as_analyze_signs_them(tmp_path: Path) -> None:
    folders = [folder for folder in (ROOT / "leaderboards").iterdir() if (folder / "analyses").is_dir()]
    assert len(folders) >= 2 and all(kept_tables(folder) for folder in folders)
    write_analysis(Analysis("some", "Some", [], []), tmp_path / "analyses", command="analyze some", plots=False)
    assert kept_tables(tmp_path) == {}


def test_a_measure_of_pairs_holds_only_outside_of_its_interval() -> None:
    for low, high, by in ((0.5, 2.0, 0.5), (-1.0, 2.0, 0.0), (-2.0, -0.25, -0.25)):
        cells = {"A": "a", "B": "b", "Of": "hard", "Difference": (low + high) / 2, "Low": low, "High": high}
        measured = Measured({"pairs-differences": [cells]}, "zoo-small")
        text = f"a, b, hard: {(low + high) / 2:+.2f} ({low:+.2f} to {high:+.2f})"
        assert measured.part(evidence("hard", "a", "b")) == (text, by)
        assert measured.part(evidence("hard", "a", "b", below=0))[1] == -by  # type: ignore[index]
        assert measured.part(evidence("hard", "b", "a"))[1] == -by, "turned around"  # type: ignore[index]
        assert replace(measured, code={"a": "a-repo"}).part(evidence("hard", "a", "b")) is None


def of_rows(scores: dict[str, list[float]], curves: dict[str, list[float]]) -> Measured:
    def rows(tasks: Any, name: str) -> Any:
        every = []
        for row in [name] if name else scores:
            of = [
                {
                    **{"seed": i, "scores": {"main": score}, "facts": {"parameters": 7}},
                    "training": {
                        **{"best_step": 9, "dev_scores": {"9": score}},
                        "dev_curves": {"alignment": {"5": curve, "9": curve}},
                    },
                }
                for i, (score, curve) in enumerate(zip(scores.get(row, ()), curves.get(row, ()), strict=True))
            ]
            every += [dict.fromkeys(tasks, of)] if of else []
        return every

    return Measured({}, "zoo-small", rows)


def test_a_rank_correlation_over_rows() -> None:
    random = np.random.default_rng(0)
    score = random.normal(size=12)
    curve = score + random.normal(size=12) / 2
    names = [f"row{i}" for i in range(12)]
    scores, curves = ({name: [v, v] for name, v in zip(names, of, strict=True)} for of in (score, curve))
    part = of_rows(scores, curves).part(evidence("rank correlation", "alignment", "sts", above=0.0))
    rho = stats.spearmanr(curve, score).statistic
    low = np.tanh(np.arctanh(rho) - 1.96 * np.sqrt((1 + rho**2 / 2) / 9))
    assert part is not None and f"over 12 rows: {rho:+.2f} ({low:+.2f} to" in part[0]
    assert part[1] == pytest.approx(low)
    few = {name: scores[name] for name in names[:9]}
    measured = of_rows(few, {name: curves[name] for name in few})
    assert measured.part(evidence("rank correlation", "alignment", "sts", above=0.0)) is None, "nine rows"


def test_parts_about_trainings() -> None:
    """Spread over seeds by chi-squared and F, curves by Welch's t, from records of three seeds."""
    scores = {"a": [0.50, 0.502, 0.501], "b": [0.40, 0.52, 0.46]}
    curves = {"a": [0.1, 0.11, 0.12], "b": [0.3, 0.31, 0.33]}
    measured = of_rows(scores, curves)

    def by(*rows: str, statistic: str = "SD over seeds", **more: Any) -> float | None:
        part = measured.part(evidence(statistic, *rows, **more))
        return None if part is None else part[1]

    sd = {name: np.std(100 * np.array(of), ddof=1) for name, of in scores.items()}
    ratio = sd["b"] / sd["a"] / np.sqrt(stats.f.ppf(0.975, 2, 2))
    assert by("b", "a", on=("sts",)) == pytest.approx(ratio - 1)
    least = sd["b"] * np.sqrt(2 / stats.chi2.ppf(0.975, 2))
    assert by("b", on=("sts",), above=0.65) == pytest.approx(least - 0.65)
    assert by("c", on=("sts",), above=0.65) is None, "no such row"
    expected = stats.ttest_ind(curves["b"], curves["a"], equal_var=False).confidence_interval().low
    assert by("b", "a", statistic="alignment") == pytest.approx(expected)
    assert by("a", "b", statistic="alignment") == pytest.approx(-expected)
    assert by("a", "b", statistic="parameters", within=1.0) == 1.0


def test_statistics_of_claims_are_known() -> None:
    known = {*TABLES, "alignment", "uniformity", "parameters", "score", "gain", "SD over seeds", "rank correlation"}
    of_pairs = {"hard", "hard less all", "length bias", "1-5 words less all"}
    assert {one.statistic for claim in all_claims() for one in claim.evidence} <= known | of_pairs
