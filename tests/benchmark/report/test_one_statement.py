"""All outputs of one table state the same conditions: terminal, md, csv, json, LaTeX, the page, `cite`."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import make_record

from benchmark.records.folder import Records
from benchmark.report.cite import citation
from benchmark.report.conditions import conditions, described
from benchmark.report.latex import escape
from benchmark.report.leaderboard import Leaderboard, make_leaderboard
from benchmark.report.show import text_of
from benchmark.report.signature import about_seeds

TASKS = ("pocket-pairs", "pocket-words", "pocket-phrases", "pocket-topics")
# Rows with their seeds (None: depends on none), and what is said of all: the sentence, and the signature's part.
WORLDS: list[tuple[dict[str, Sequence[int | None]], str, str]] = [
    ({"cls": [None], "simcse": [0, 1, 2]}, "Means over 3 seeds where a row depends on one.", "seeds 3"),
    ({"cls": [None], "random": [0, 1, 2]}, "No row but the controls (3 seeds) depends on a seed.", "seeds none"),
    ({"cls": [None], "avg-last": [None]}, "No row depends on a seed.", "seeds none"),
    (
        {"simcse": [0], "ptbert": [0, 1], "random": [0, 1, 2, 3]},
        "Means over 1 to 2 seeds where a row depends on one.",
        "seeds 1-2",
    ),
    ({"simcse": [4], "random": [0, 1, 2]}, "Means over 1 seed where a row depends on one.", "seeds 1"),
]


def board_of(folder: Path, rows: dict[str, Sequence[int | None]]) -> Leaderboard:
    store, rng = Records(folder), np.random.default_rng(0)
    for name, seeds in rows.items():
        for seed in seeds:
            for task in TASKS:
                record: Any = make_record(name, task, seed, seeds=len(seeds))
                record["scores"]["main"] = float(rng.uniform(0.2, 0.9))
                store.write(record, None)
    return make_leaderboard(folder, suites="pocket")


@pytest.mark.parametrize(("rows", "sentence", "part"), WORLDS)
def test_every_output_says_the_same(
    rows: dict[str, Sequence[int | None]], sentence: str, part: str, tmp_path: Path
) -> None:
    board = board_of(tmp_path, rows)
    (table,) = board.tables
    assert about_seeds(table.rows) == sentence
    page = json.loads(re.findall(r'id="data">(.*?)</script', board.files["index.html"], re.DOTALL)[0])
    content = json.loads(board.files["pocket.json"])
    for text in (
        board.files["pocket.md"],
        json.dumps(content),
        json.dumps(page),
        text_of([table], 1000),
        citation(board.tables),
    ):
        assert f"|{part}|" in text.replace(r"$|$", "|"), text
    tex = board.files["pocket.tex"]
    assert sentence in tex and sentence in citation(board.tables)
    (lines,) = [list(csv.DictReader(io.StringIO(board.files["pocket.csv"])))]
    for row in table.rows:
        stated = conditions(row)
        (line,) = [line for line in lines if line["method"] == row.name]
        # CSV has a column for each condition in place of their text.
        facts = {name: value for name, value in row.about.items() if name in line and isinstance(value, str | int)}
        assert {name: line[name].lower() for name in facts} == {
            name: str(value).lower() for name, value in facts.items()
        }
        assert facts["seeds"] == len(rows[row.name])
        (kept,) = [kept for kept in content["rows"] if kept["method"] == row.name]
        assert kept["conditions"] == stated
        assert stated in board.files["pocket.md"] and stated in json.dumps(page, ensure_ascii=False)
        assert escape(described(row)) in tex
