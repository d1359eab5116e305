"""Every sentence of docs/findings.md beside the ledger that it cites: the figures, the verdict and the counts."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
VERDICTS = {  # what a section may cite
    "The same on both: holds": ("holds",),
    "The same on both: the opposite": ("the opposite",),
    "It depends on the backbone": ("holds", "the opposite", "not told apart"),
    "Measured on one: holds": ("holds",),
    "Measured on one: the opposite": ("the opposite",),
    "It cannot be told": ("not told apart",),
}
FIGURE = re.compile(r"(zoo-\w+) ([+-]\d+\.\d\d), ([+-]\d+\.\d\d) to ([+-]\d+\.\d\d)")


def ledger(backbone: str) -> dict[str, tuple[str, str]]:
    """Return each claim's own contrasts and its verdict, as claims.md has them."""
    text = (ROOT / "leaderboards" / backbone / "claims.md").read_text(encoding="utf-8")
    lines = [[cell.strip(" |") for cell in line.split(" | ")] for line in text.splitlines() if line.startswith("| ")]
    return {line[0].split("`")[1]: (line[2], line[-1]) for line in lines if len(line) == 7 and "`" in line[0]}


def test_each_sentence_has_the_ledgers_figures_and_verdict() -> None:
    """Both backbones where the section says so; a section without citations is a mistake too."""
    ledgers = {name: ledger(name) for name in ("zoo-small", "zoo-mini")}
    for section in PAGE.split("\n## ")[1:]:
        head, _, body = section.partition("\n")
        if head in ("With tuned settings", "Beside the papers"):  # no claim; test_numbers reads them
            continue
        cited = re.findall(r"\(((?:zoo-)[^`()]*)`([\w-]+)`\)", body.replace("\n", " "))
        assert cited, head
        for figures, claim in cited:
            parts = FIGURE.findall(figures)
            assert len(parts) in (
                {1} if head.startswith("Measured") else {1, 2} if head.startswith("It cannot") else {2}
            ), claim
            found = set()
            for backbone, value, low, high in parts:
                ours, verdict = ledgers[backbone][claim]
                assert f"{value} ({low} to {high})" in ours, (claim, backbone, ours)
                assert verdict.startswith(VERDICTS[head]), (claim, backbone, verdict)
                found.add(re.sub(r"( on \d|;).*", "", verdict))
            assert len(found) == (2 if head == "It depends on the backbone" else 1), (claim, found)


def test_the_counts_are_the_ledgers() -> None:
    """The sentence "Of N claims: holds ..." of each ledger stands on the page."""
    for backbone in ("zoo-small", "zoo-mini"):
        text = (ROOT / "leaderboards" / backbone / "claims.md").read_text(encoding="utf-8")
        (counts,) = re.findall(r"^(Of \d+ claims: .*)\.$", text, re.MULTILINE)
        assert counts in PAGE.replace("\n", " ")
