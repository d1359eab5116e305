"""The picture of methods beside a rival."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmark.records.folder import Records
from benchmark.report.table import read_completed
from zoo.errors import UsageError
from zoo_bench_papers.claims import all_claims
from zoo_bench_papers.picture import beside
from zoo_bench_papers.verdicts import Verdict, verdicts

FOLDER = Path(__file__).parents[2] / "leaderboards" / "zoo-small"
SHOWN = ("ptbert-above-simcse-sts", "promcse-above-simcse", "simcse-above-moco", "esimcse-above-simcse")


@pytest.fixture(scope="module")
def measured() -> list[Verdict]:
    with pytest.MonkeyPatch.context() as patched:
        some = tuple(claim for claim in all_claims() if claim.id in SHOWN)
        patched.setattr("zoo_bench_papers.verdicts.all_claims", lambda: some)
        store = Records(FOLDER)
        return verdicts(FOLDER, store, read_completed(store))


def test_methods_stand_beside_their_rival(
    measured: list[Verdict], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.colors import to_hex
    from matplotlib.figure import Figure

    drawn: list[Any] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    beside(measured, "simcse", tmp_path / "beats.png")
    (axes,) = drawn[0].axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["esimcse", "ptbert", "ptbert-repo", "moco", "promcse"]
    bars = [line for line in axes.lines if line.get_linewidth() == 5]
    assert [to_hex(bar.get_color()) for bar in bars] == ["#6b6b6b", "#1a7f37", "#6b6b6b", "#6b6b6b", "#b3261e"]
    # simcse - moco is -0.07 (-0.95 to 0.82), and PT-BERT's table prints 0.79 for it: all of it is turned.
    assert list(bars[3].get_xdata()) == pytest.approx([-0.816, 0.949], abs=0.002)
    circles = {line.get_ydata()[0]: line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"}
    assert circles == pytest.approx({0: 2.02, 1: 1.49, 2: 1.49, 3: -0.79, 4: 2.19})
    assert drawn[0].get_suptitle() == "Does it beat simcse?" and "20,000 sentences" in axes.get_title()


@pytest.mark.parametrize(("rival", "name"), [("simcse", "beats.jpg"), ("burt", "beats.png"), ("nothing", "beats.svg")])
def test_what_cannot_be_drawn_is_said(measured: list[Verdict], tmp_path: Path, rival: str, name: str) -> None:
    with pytest.raises(UsageError, match=r"--plot|--beside"):
        beside(measured, rival, tmp_path / name)
