"""The signature under a table: two tables with equal ones may be compared."""

from __future__ import annotations

from dataclasses import replace

import pytest
from page_fakes import method_records

from benchmark.records.record import Record
from benchmark.report.latex import latex
from benchmark.report.rows import Table
from benchmark.report.show import text_of
from benchmark.report.signature import citation, signature
from benchmark.report.table import build_tables
from benchmark.report.write import as_dict, markdown
from benchmark.tasks.suites import suite
from zoo import __version__


def table(records: list[Record]) -> Table:
    return build_tables(records, [suite("sts")])[0]


def test_every_output_and_the_citation_have_it() -> None:
    made = table(method_records("alpha", 0.4, range(3)) + method_records("beta", 0.6))
    line = signature(made)
    assert line.startswith(f"zoo-bench {__version__}|sts:all-spearman|7 tasks|seeds 3|")
    texts = [markdown(made), text_of([made]), latex(made), citation(made), *as_dict(made)["environments"]]  # type: ignore[misc]
    assert [line in text for text in texts[:4]] == [True] * 4 and line in texts


@pytest.mark.parametrize("part", ["sha256", "precision", "protocol", "version"])
def test_it_changes_with_what_scores_depend_on(part: str) -> None:
    records = method_records("alpha", 0.4, range(3))
    other = [dict(record) for record in records]
    for record in other:
        if part == "sha256":
            record["task"] = {**record["task"], "sha256": "0" * 64}  # type: ignore[dict-item]
        else:
            record[part] = {"precision": "bf16", "protocol": 99, "version": "9.9"}[part]
    assert signature(table(records)) != signature(table(other))  # type: ignore[arg-type]
    assert signature(table(records)) == signature(table(records[::-1]))
    assert signature(replace(table(records), partial=True)).endswith("|trial")
