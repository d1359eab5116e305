"""Scores and differences in running text, beside the tables that they are from: nobody updates a number by hand."""

from __future__ import annotations

import csv
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    *(f"docs/{name}.md" for name in ("findings", "results", "protocol", "methods/ptbert")),
    *(f"leaderboards/{name}/README.md" for name in ("zoo-small", "zoo-small-tuned", "zoo-mini", "words")),
]
NUMBER = r"[+-]?\d+\.\d\d"
DIFFERENCE = re.compile(rf"(?<![\d.])({NUMBER}) ?(?:\(|, |with ){NUMBER} to {NUMBER}")
SCORE = re.compile(rf"({NUMBER}) ± (\d+\.\d\d)")
MEANT = {"cls", "avg-last", "simcse", "ptbert"}  # rows that a sentence may mean without naming them
PROSE = {"crops": "sentence-crops", "counting": "bag-of-words"}
OTHER = {"8.14", "-2.26", "+0.06"}  # of STS12-16 alone and of BiRD, in zoo-small's and zoo-mini's lines on BURT


def plain(text: str) -> str:
    """Return a name's letters and digits: CoT-BERT is `cot-bert`, SimCSE++ is `simcse-plus-plus`."""
    return re.sub(r"[^a-z0-9]", "", text.lower().replace("++", "plusplus"))


def tables() -> list[tuple[str, dict[str, dict[str, str]]]]:
    """Return the published tables that have averages: folder/suite, and rows by name."""
    rows_of_tables = []
    for path in sorted((ROOT / "leaderboards").glob("*/*.csv")):
        with path.open(encoding="utf-8") as file:
            rows = {row["method"]: row for row in csv.DictReader(file) if row.get("Avg")}
        rows_of_tables += [(f"{path.parent.name}/{path.stem}", rows)] if rows and path.stem in ("sts", "words") else []
    return rows_of_tables


TABLES = tables()


def texts(page: str) -> list[str]:
    """Return a page's paragraphs, bullets and lines of tables; not its listings, nor what test_findings reads."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"```.*?```|<!-- made: .*?<!-- end -->", "", text, flags=re.S)
    parts = [" ".join(part.split()) for part in re.split(r"\n\n|\n(?=[-|] ?)", text)]
    return [part for part in parts if not re.search(r"zoo-\w+ [+-]\d", part)]


def named(text: str) -> set[str]:
    """Return the rows that a text names, in code or by the names of their methods."""
    words = {plain(word) for word in re.split(r"[ ,/:()*]+", text)}
    rows = {name for _, rows in TABLES for name in rows}
    return {
        *re.findall(r"`([^`]+)`", text),
        *MEANT,
        *(row for word, row in PROSE.items() if word in words),
        *(row for row in rows if plain(row) in words or plain(row.removesuffix("-repo")) in words),
    }


def misses(page: str, text: str) -> list[str]:
    """Return the differences and scores of a text that are no table's of the page's folder; docs/ may quote several."""
    names, folder = named(text), page.split("/")[1] if page.startswith("leaderboards/") else "zoo-"
    rows = [(where, {name: rows[name] for name in names if name in rows}) for where, rows in TABLES]
    gaps = {
        abs(float(one["Avg"]) - float(other["Avg"]))
        for (here, some), (there, others) in itertools.product(rows, rows)
        for one, other in itertools.product(some.values(), others.values())
        if here.startswith(folder) and (here == there or (here, there) == ("words/sts", "zoo-mini/sts"))
    }
    printed = set(DIFFERENCE.findall(text)) - OTHER
    wrong = [one for one in printed if min(abs(abs(float(one)) - gap) for gap in gaps) > 0.00501]
    every = {
        (f"{float(row[key]):.2f}", f"{float(row[f'{key} sd']):.2f}")
        for _, some in rows
        for row in some.values()
        for key in row
        if row.get(f"{key} sd")
    }
    return wrong + [f"{mean} ± {sd}" for mean, sd in SCORE.findall(text) if (mean, sd) not in every]


@pytest.mark.parametrize("page", PAGES)
def test_each_number_is_a_tables(page: str) -> None:
    missing = [(miss, text[:100]) for text in texts(page) for miss in misses(page, text)]
    assert not missing
