"""Every sentence of docs/findings.md beside the ledger that it cites: the figures, the verdict and the counts."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest

import benchmark

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
TOLD = ("holds here", "reversed here", "not told apart")
VERDICTS = {  # what a section may cite
    "Holds on both": TOLD[:1],
    "Reversed on both": TOLD[1:2],
    "It depends on the backbone": TOLD,
    "Measured on one: holds": TOLD[:1],
    "Measured on one: reversed": TOLD[1:2],
    "Both ways": ("mixed",),
    "It cannot be told": TOLD[2:],
}
CURVE = PAGE.split("\n## With more data")[1].split("\n## ")[0]
FIGURE = re.compile(r"(zoo-\w+) ([+-]\d+\.\d\d), ([+-]\d+\.\d\d) to ([+-]\d+\.\d\d)")


def ledger(folder: str) -> list[tuple[str, str, str]]:
    """Return each verdict's claim, its own contrasts and its words, as claims.md has them."""
    text = (ROOT / "leaderboards" / folder / "claims.md").read_text(encoding="utf-8")
    lines = [[cell.strip(" |") for cell in line.split(" | ")] for line in text.splitlines() if line.startswith("| ")]
    return [(line[0].split("`")[1], line[2], line[-1]) for line in lines if len(line) == 7 and "`" in line[0]]


def test_each_sentence_has_the_ledgers_figures_and_verdict() -> None:
    """Both backbones where the section says so; a section without citations is a mistake too."""
    ledgers = {name: ledger(name) for name in ("zoo-small", "zoo-mini")}
    for section in PAGE.split("\n## ")[1:]:
        head, _, body = section.partition("\n")
        if head not in VERDICTS:  # no claim; test_numbers reads them
            continue
        cited = re.findall(r"\(((?:zoo-)[^`()]*)`([\w-]+)`\)", body.replace("\n", " "))
        assert cited, head
        for figures, claim in cited:
            parts = FIGURE.findall(figures)
            wanted = {1} if head.startswith(("Measured", "Both ways")) else {1, 2} if "cannot" in head else {2}
            assert len(parts) in wanted, claim
            found = set()
            for backbone, value, low, high in parts:
                mine = [
                    words
                    for id, ours, words in ledgers[backbone]
                    if id == claim and f"{value} ({low} to {high})" in ours
                ]
                assert mine, (claim, backbone)
                assert mine[0].startswith("small-scale: ")
                found |= {one for one in VERDICTS[head] if mine[0].removeprefix("small-scale: ").startswith(one)}
            assert len(found) == (2 if "depends" in head else 1), (claim, found)


def test_the_counts_are_the_ledgers() -> None:
    """The sentence "Of N claims ..." of each ledger stands on the page."""
    for backbone in ("zoo-small", "zoo-mini"):
        text = (ROOT / "leaderboards" / backbone / "claims.md").read_text(encoding="utf-8")
        (counts,) = re.findall(r"^(Of \d+ claims, .*)\.$", text, re.MULTILINE)
        assert counts in " ".join(PAGE.split())


def test_what_tuning_changed_is_the_ledgers() -> None:
    """The sentence with all names, and a line for each changed verdict with both words."""
    text = (ROOT / "leaderboards" / "zoo-small-tuned" / "claims.md").read_text(encoding="utf-8")
    (sentence,) = re.findall(r"^(Of \d+ verdicts under both settings .*)$", text, re.MULTILINE)
    of_ledger = {line.split(" | ")[0]: line for line in text.splitlines() if line.startswith("| `")}
    shown = [
        line
        for line in PAGE.split("\n## With tuned settings")[1].split("\n## ")[0].splitlines()
        if line.startswith("| `")
    ]
    assert sentence.partition(" changed: ")[0] in " ".join(PAGE.split())
    assert [line.split(" | ")[0].removeprefix("| ") for line in shown] == sentence.rstrip(".").partition("changed: ")[
        2
    ].split(", ")
    for line in shown:
        name, first, second = (cell.strip(" |") for cell in line.split(" | "))
        assert re.search(rf"\| small-scale: {first}\b.* \| small-scale: {second}\b", of_ledger[f"| {name}"])


README = {  # a part of the README's paragraph on claims: the ledgers' lines, and the verdict of each
    "removing biased tokens from static embeddings helps as claimed": [
        ("zoo-mini", "`removing-biased-tokens-lifts-static-average`", "holds here")
    ],
    "an untrained template is not above an average": [
        ("zoo-mini", "`manual-prompt-above-averages`", "reversed here"),
    ],
    "is not told apart from SimCSE": [
        (folder, "`ptbert-above-simcse-sts` (the released code)", "not told apart")
        for folder in ("zoo-mini", "zoo-small")
    ],
    "nor from two linear maps": [
        (folder, "`pseudo-tokens-above-linear-control`", "not told apart") for folder in ("zoo-mini", "zoo-small")
    ],
    "Supervised PromptBERT is below supervised SimCSE on one backbone with the paper's settings": [
        ("zoo-small", "`supervised-above-simcse`", "reversed here")
    ],
    "level with it after [twelve trials": [("zoo-small-tuned", "`supervised-above-simcse`", "not told apart")],
}


def test_the_readmes_verdicts_are_the_ledgers() -> None:
    """Where a ledger has a line for each setting, the last is that of the tuned rows."""
    page = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for part, cited in README.items():
        assert part in page
        for folder, claim, verdict in cited:
            text = (ROOT / "leaderboards" / folder / "claims.md").read_text(encoding="utf-8")
            lines = [line for line in text.splitlines() if line.startswith("| ") and f"{claim} | " in line]
            found = [line.strip(" |").split(" | ")[-1] for line in lines if not line.startswith("| `")]
            assert found and found[-1].startswith(f"small-scale: {verdict}"), (part, folder, found)


def test_the_curve_is_that_of_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's listing draws, and its averages are the table's."""
    pytest.importorskip("matplotlib")
    (code,) = re.findall(r"```python\n(.*?)```", CURVE, re.S)
    monkeypatch.chdir(ROOT)
    ran: dict[str, Any] = {}
    exec(code.replace("docs/learning-curve.png", str(tmp_path / "curve.png")), ran)
    assert (tmp_path / "curve.png").stat().st_size > 10_000
    text = [line for line in CURVE.splitlines() if line.startswith("| ") and " to " in line]
    lines = [line[2:-2].replace(",", "").split(" | ") for line in text]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"Tuned PromptBERT, {-float(lines[0][6]):.1f} points below SimCSE" in readme
    assert [int(line[0]) for line in lines] == list(ran["averages"]["simcse"].index)
    for size, simcse, ptbert, gap, _, promptbert, other, _ in lines:
        ours = [ran["averages"][name][int(size)] for name in ("simcse", "ptbert-repo", "promptbert-repo")]
        ours = [*ours, ours[1] - ours[0], ours[2] - ours[0]]
        assert [float(one) for one in (simcse, ptbert, promptbert, gap, other)] == pytest.approx(ours, abs=0.011)


@pytest.mark.slow
def test_an_interval_of_the_curve_is_that_of_compare() -> None:
    rows = [f"{name}-tuned-40000" for name in ("promptbert-repo", "simcse")]
    made = benchmark.compare(*rows, results=ROOT / "leaderboards/zoo-small-curve", suites="sts", texts=False)
    line = made.to_frame().iloc[-1]
    shown = re.search(r"^\| 40,000 .* (\S+) to (\S+) \|$", CURVE, re.M)
    assert shown is not None
    assert [float(one) for one in shown.groups()] == pytest.approx([line["Low"], line["High"]], abs=0.011)


def test_what_tuning_gains_is_the_tables() -> None:
    """The three scores of each line; the intervals are those of the command above it."""
    folder = ROOT / "leaderboards/zoo-small-tuned"
    with (folder / "sts.csv").open(encoding="utf-8") as file:
        averages = {row["method"]: float(row["Avg"]) for row in csv.DictReader(file) if row["Avg"]}
    text = (folder / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| `(.+)` \| (\S+) \| (\S+) \| (\S+) \|", text, re.M)
    assert {name for name, *_ in lines} == {name for name in averages if f"{name}-tuned" in averages}
    for name, *shown in lines:
        papers, tuned = averages[name], averages[f"{name}-tuned"]
        assert [float(one) for one in shown] == pytest.approx([papers, tuned, tuned - papers], abs=0.011)
