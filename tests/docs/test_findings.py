"""Every sentence and table of docs/findings.md beside claims.json and the records: figures, words and counts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import benchmark
from tools import findings
from tools.curve import interval, read
from zoo_bench_papers.answers import CONFIRMED, DECIDED, REVERSED, SMALLER, UNDECIDED, UNTESTABLE

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
SECTIONS = {  # the words that a section may cite
    "Confirmed": {CONFIRMED},
    "Smaller than printed": {SMALLER},
    "Reversed": {REVERSED},
    "It depends on the backbone": {*DECIDED, UNDECIDED},
    "Undecided": {UNDECIDED},
}
CURVE = PAGE.split("\n## With more data")[1].split("\n## ")[0]
FIGURE = re.compile(r"(zoo-\w+) ([+-]\d+\.\d\d), ([+-]\d+\.\d\d) to ([+-]\d+\.\d\d)")


def test_each_sentence_has_the_figures_and_the_word_of_a_verdict() -> None:
    """On each backbone that it cites; a section without citations is a mistake too."""
    for head, words in SECTIONS.items():
        part = re.sub(r"<!--.*?-->", "", PAGE.split(f"\n## {head}\n")[1].split("\n## ")[0])
        cited = re.findall(r"\(((?:zoo-)[^`()]*)`([\w-]+)`\)", part.replace("\n", " "))
        assert len(cited) == len(re.findall(r"^- ", part, re.M)) > 0, head
        for figures, claim in cited:
            reached = set()
            assert FIGURE.findall(figures), claim
            for backbone, value, low, high in FIGURE.findall(figures):
                entries = [one for one in findings.papers(backbone) if one["id"] == claim]
                shown = [one for one in entries if f"{value} ({low} to {high})" in one.get("ours", "")]
                assert shown, (claim, backbone)
                reached.add(shown[0]["verdict"])
            assert reached <= words and (len(reached) == 2) == ("depends" in head), (claim, reached)


def test_every_decided_verdict_is_in_the_table_with_its_word() -> None:
    """Counted from claims.json by itself: no decided claim is left out, and no undecided one is in."""
    table = dict(re.findall(r"<!-- made: (\w+) -->\n\n(.*?)\n\n<!-- end -->", PAGE, re.S))["decided"]
    lines = table.splitlines()[2:]
    every = [one for folder in findings.BACKBONES for one in findings.papers(folder)]
    decided = {(one["id"], one["procedure"]) for one in every if one["verdict"] in DECIDED}
    assert len(lines) == len(decided) > 50
    for entry in every:
        if entry["verdict"] in DECIDED:
            (line,) = [
                line
                for line in lines
                if f"`{entry['id']}`{', ' + entry['procedure'] if entry['procedure'] else ''})" in line
            ]
            assert f"**{entry['head']}" in line
    assert "by a margin of 0.745" in next(line for line in lines if "`sickr-not-improved`" in line)


@pytest.mark.slow
def test_a_slope_is_the_line_through_the_gaps() -> None:
    """Its value by least squares; the pairs of both folders are drawn together, so that their noise cancels."""
    import numpy as np

    curve = read()
    sizes = [2_500, 5_000, 10_000, 20_000, 40_000]
    for method in ("ptbert-repo", "promptbert-repo"):
        gaps = [curve.gap(method, size)[0] for size in sizes]
        value, low, high = curve.slope(method)
        assert value == pytest.approx(np.polyfit(np.log2(sizes), gaps, 1)[0])
        assert low < value < high and value - low == pytest.approx(high - value)
        assert interval(value, low, high) in CURVE
    at = [list(curve.records).index(("simcse", size)) for size in (10_000, 20_000)]  # one in each folder
    assert curve.sample.between[at[0], at[1]] < 0.1 * curve.sample.between.max(), "all pairs are drawn together"


RESULTS = {  # a part of the paragraph on claims of docs/results.md: the verdicts that it cites
    "removing biased tokens from static embeddings is confirmed": [
        ("zoo-mini", "removing-biased-tokens-lifts-static-average", CONFIRMED)
    ],
    "an untrained template is below an average, which reverses": [
        ("zoo-mini", "manual-prompt-above-averages", REVERSED),
    ],
    "gains less, and may gain nothing": [
        (folder, "ptbert-above-simcse-sts", SMALLER) for folder in ("zoo-mini", "zoo-small")
    ],
    "do more than two linear maps is undecided": [
        (folder, "pseudo-tokens-above-linear-control", UNDECIDED) for folder in ("zoo-mini", "zoo-small")
    ],
    "Claims about trained templates are untestable on both backbones": [
        (folder, "unsupervised-bert-above-simcse", UNTESTABLE) for folder in ("zoo-mini", "zoo-small")
    ],
}


def test_the_verdicts_of_the_results_are_those_of_the_folders() -> None:
    """With the papers' settings; of the released code's rows where there are two verdicts."""
    page = " ".join((ROOT / "docs/results.md").read_text(encoding="utf-8").split())
    for part, cited in RESULTS.items():
        assert part in page
        for folder, claim, word in cited:
            measured = [one for one in findings.papers(folder) if one["id"] == claim and one.get("ours")]
            assert [one["verdict"] for one in measured][:1] == [word], (part, folder)


def test_the_curve_is_that_of_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's listing draws, and its averages are the table's."""
    pytest.importorskip("matplotlib")
    (code,) = re.findall(r"```python\n(.*?)```", CURVE, re.S)
    monkeypatch.chdir(ROOT)
    ran: dict[str, Any] = {}
    exec(code.replace("docs/learning-curve.png", str(tmp_path / "curve.png")), ran)
    assert (tmp_path / "curve.png").stat().st_size > 10_000
    text = [line for line in CURVE.splitlines() if line.startswith("| ") and " to " in line]
    lines = [re.sub(r" \(.*?\)", "", line[2:-2]).replace(",", "").split(" | ") for line in text]
    assert [int(line[0]) for line in lines] == list(ran["averages"]["simcse"].index)
    for size, simcse, ptbert, gap, promptbert, other in lines:
        ours = [ran["averages"][name][int(size)] for name in ("simcse", "ptbert-repo", "promptbert-repo")]
        ours = [*ours, ours[1] - ours[0], ours[2] - ours[0]]
        assert [float(one) for one in (simcse, ptbert, promptbert, gap, other)] == pytest.approx(ours, abs=0.011)


@pytest.mark.slow
def test_an_interval_of_the_curve_is_that_of_compare() -> None:
    """Both ask one function for their draws."""
    rows = [f"{name}-tuned-40000" for name in ("promptbert-repo", "simcse")]
    comparison = benchmark.compare(*rows, results=ROOT / "leaderboards/zoo-small-curve", suites="sts", texts=False)
    line = comparison.to_frame().iloc[-1]
    shown = re.search(r"^\| 40,000 .* \((\S+) to (\S+)\) \|$", CURVE, re.M)
    assert shown is not None
    low, high = (float(bound) for bound in shown.groups())
    assert (low, high) == pytest.approx((line["Low"], line["High"]), abs=0.0051)
