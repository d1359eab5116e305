"""Properties that kept analyses and trainings show: values, intervals, signatures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from zoo.errors import CorruptError
from zoo.files import write_signed
from zoo_bench_papers.analysis.result import Analysis, write_analysis
from zoo_bench_papers.properties import Measured, kept_tables

ROOT = Path(__file__).parents[2]


def kept(folder: Path, **rows: Any) -> Measured:
    tables = {"some": {"rows": [{"Backbone": "zoo-small", "Class": name, **cells} for name, cells in rows.items()]}}
    write_signed(folder / "analyses" / "some.json", {"analysis": "some", "tables": tables})
    return Measured(kept_tables(folder), "zoo-small")


def test_values_of_kept_analyses(tmp_path: Path) -> None:
    of = {"frequent": {"Norm": 1.0}, "rare": {"Norm": 3.0}}
    measured = kept(tmp_path, **of)
    assert measured.rising("some", "Norm", "Class", "frequent", "rare") == [("Norm: 1 (frequent) < 3 (rare)", 2)]
    assert measured.rising("some", "Norm", "Class", "frequent", "absent") == [None], "not every value was measured"
    assert replace(measured, backbone="zoo-mini").value("some", "Norm", Class="rare") is None, "another backbone"
    of["frequent"] = {"Norm": 4.0}
    assert kept(tmp_path, **of).rising("some", "Norm", "Class", "frequent", "rare") == [
        ("Norm: 4 (frequent) ≥ 3 (rare)", -1)
    ]
    with pytest.raises(CorruptError, match="table some has not one 'Size' of Class=rare on zoo-small"):
        measured.value("some", "Size", Class="rare")


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


def test_a_value_with_an_interval_holds_only_outside_of_it() -> None:
    for low, high, by in ((0.5, 2.0, 0.5), (-1.0, 2.0, 0.0), (-2.0, -0.25, -0.25)):
        cells = {"A": "a", "B": "b", "Of": "hard", "Difference": (low + high) / 2, "Low": low, "High": high}
        measured = Measured({"pairs-differences": [cells]}, "zoo-small")
        assert measured.difference("a", "b", "hard", 1) == (
            f"a, b, hard: {(low + high) / 2:+.2f} ({low:+.2f} to {high:+.2f})",
            by,
        )
        assert measured.difference("a", "b", "hard", -1)[1] == -by  # type: ignore[index]
        assert replace(measured, code={"a": "a-repo"}).difference("a", "b", "hard", 1) is None


def test_a_rank_correlation_over_rows(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    dev = random.normal(size=12)
    test = dev + random.normal(size=12) / 2
    cells = {str(i): {"Dev": dev[i], "Test": test[i]} for i in range(12)}
    text, by = kept(tmp_path, **cells).correlated("some", "Dev", "Test", 1)  # type: ignore[misc]
    rho = stats.spearmanr(dev, test).statistic
    low = np.tanh(np.arctanh(rho) - 1.96 * np.sqrt((1 + rho**2 / 2) / 9))
    assert f"over 12 rows: {rho:+.2f} ({low:+.2f} to" in text and by == pytest.approx(low)
    few = {name: cells[name] for name in list(cells)[:9]}
    assert kept(tmp_path, **few).correlated("some", "Dev", "Test", 1) is None, "nine rows say too little"


def test_rules_about_trainings() -> None:
    """Spread over seeds by chi-squared and F, curves by Welch's t, from records of three seeds."""
    scores = {"a": [0.50, 0.502, 0.501], "b": [0.40, 0.52, 0.46]}
    curves = {"a": [0.1, 0.11, 0.12], "b": [0.3, 0.31, 0.33]}

    def rows(tasks: Any, name: str) -> Any:
        of = [
            {"seed": i, "scores": {"main": score}, "training": {"dev_curves": {"alignment": {"5": curve, "9": curve}}}}
            for i, (score, curve) in enumerate(zip(scores.get(name, ()), curves.get(name, ()), strict=True))
        ]
        return [{"STS12": of}] if of else []

    measured = Measured({}, "zoo-small", rows)
    sd = {name: np.std(100 * np.array(of), ddof=1) for name, of in scores.items()}
    ratio = sd["b"] / sd["a"] / np.sqrt(stats.f.ppf(0.975, 2, 2))
    assert measured.steadier("a", "b")[1] == pytest.approx(ratio - 1)  # type: ignore[index]
    least = sd["b"] * np.sqrt(2 / stats.chi2.ppf(0.975, 2))
    assert measured.unsteady("b", 0.65)[1] == pytest.approx(least - 0.65)  # type: ignore[index]
    assert measured.unsteady("c", 0.65) is None, "no such row"
    expected = stats.ttest_ind(curves["b"], curves["a"], equal_var=False).confidence_interval().low
    assert measured.course("alignment", "a", "b")[1] == pytest.approx(expected)  # type: ignore[index]
    assert measured.course("alignment", "b", "a")[1] == pytest.approx(-expected)  # type: ignore[index]
