"""Markdown, CSV and JSON of a table say the same."""

from __future__ import annotations

import csv
import io
import json

import pytest
from test_leaderboard import SEVEN, complete, table_of

from benchmark.report.write import table_files


def test_the_three_files_agree() -> None:
    """Markdown, CSV and JSON hold the same numbers, names and ranks."""
    records = complete("alpha", range(3)) + complete("beta") + complete("gamma", tasks=SEVEN[:3])
    files = table_files(table_of(records))
    content = json.loads(files["sts.json"], parse_constant=lambda token: pytest.fail(token))
    lines = list(csv.DictReader(io.StringIO(files["sts.csv"], newline="")))
    text = files["sts.md"].partition("## Cost")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    header, rows, people = cells[0], cells[2:-1], cells[-1]
    assert people[1] == "people (HUME)" and [one["method"] for one in content["cited"] if one["ceiling"]] == ["people"]
    assert [row["method"] for row in content["rows"]] == [line["method"] for line in lines] == [row[1] for row in rows]
    assert {row["method"] for row in content["rows"]} == {"alpha", "beta", "gamma"}
    for entry, line, row in zip(content["rows"], lines, rows, strict=True):
        assert row[0] == ("" if entry["rank"] is None else str(entry["rank"]))
        assert line["rank"] == row[0]
        for task in SEVEN:
            value = entry["scores"][task]
            printed = row[header.index(task)]
            if value["mean"] is None:
                assert (printed, line[task]) == ("n/a", "")
                continue
            assert printed.split(" ± ")[0] == f"{value['mean']:.2f}"
            assert float(line[task]) == pytest.approx(value["mean"], abs=5e-5)
            if value["sd"] is None:
                assert (line[f"{task} sd"], "±" in printed) == ("", False)
            else:
                assert printed.split(" ± ")[1] == f"{value['sd']:.2f}"
                assert float(line[f"{task} sd"]) == pytest.approx(value["sd"], abs=5e-5)
        if entry["average"]["mean"] is not None:
            assert float(line["Avg"]) == pytest.approx(entry["average"]["mean"], abs=5e-5)
            assert row[header.index("Avg.")].split(" ")[0] == f"{entry['average']['mean']:.2f}"
