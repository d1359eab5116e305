"""The signature under a table: two tables with equal ones may be compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from page_fakes import method_records

from benchmark.records.folder import Records
from benchmark.records.record import Record
from benchmark.report.cite import citation
from benchmark.report.latex import latex
from benchmark.report.rows import Table
from benchmark.report.show import text_of
from benchmark.report.signature import differing, signature
from benchmark.report.table import build_tables
from benchmark.report.write import as_dict, markdown
from benchmark.tasks.suites import suite
from zoo import __version__


def table(records: list[Record]) -> Table:
    return build_tables(records, [suite("sts")])[0]


def test_every_output_and_the_citation_have_it() -> None:
    with_seeds = table(method_records("alpha", 0.4, range(3)) + method_records("beta", 0.6))
    line = signature(with_seeds)
    assert line.startswith(f"zoo-bench {__version__}|sts:all-spearman|7 tasks|seeds 3|")
    texts = [
        markdown(with_seeds),
        text_of([with_seeds]),
        latex(with_seeds),
        citation([with_seeds]),
        *as_dict(with_seeds)["environments"],
    ]  # type: ignore[misc]
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


@pytest.mark.parametrize(
    ("counts", "words"), [((1, 2, 5), "1-5"), ((4, 3), "3-4"), ((2, 2), "2"), ((0, 3), "3"), ((0,), "none")]
)
def test_it_has_the_fewest_and_the_most_seeds_of_trained_rows(counts: tuple[int, ...], words: str) -> None:
    rows = [method_records(f"m{i}", 0.4, range(count) if count else (None,)) for i, count in enumerate(counts)]
    assert f"|seeds {words}|" in signature(table([record for row in rows for record in row]))


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "backbone": lambda r: r["method"]["sources"]["backbone"].update(sha256="1" * 64),
    "text": lambda r: r["training"]["corpus"].update(sha256="2" * 64),
    "size": lambda r: r["training"]["corpus"].update(sentences=5),
    "pairs": lambda r: r["training"].update(corpus={"name": "nli", "pairs": 7, "sha256": "3" * 64}),
    "dev": lambda r: r["training"].update(dev_task="stsb-dev-disjoint"),
    "tuned": lambda r: r["method"].update(tuned={"trials": 12, "dev": "STS-B"}),
    "device": lambda r: r["environment"].update(gpu="NVIDIA H100"),
    "library": lambda r: r["facts"].update(run_by="sentence-transformers"),
}


def trained(change: str = "", names: tuple[str, ...] = ("alpha", "beta")) -> list[Record]:
    """Return rows trained on a text; the first has a change."""
    records: list[Any] = []
    for name in names:
        for original in method_records(name, 0.4, range(2)):
            record: Any = json.loads(json.dumps(original))
            record["method"]["sources"] = {"backbone": {"name": "small", "sha256": "a" * 64}}
            corpus = {"name": "wiki", "sentences": 20, "sha256": "b" * 64}
            record["training"] = {"steps": 3, "corpus": corpus, "dev_task": "STS-B", "dev_pairs": 1500}
            if change and name == names[0]:
                CHANGES[change](record)
            records.append(record)
    return records


@pytest.mark.parametrize("change", CHANGES)
def test_it_changes_with_each_condition_of_a_row(change: str) -> None:
    """Also where the values of all rows together are the same and stand in other rows."""
    line, changed = signature(table(trained())), signature(table(trained(change)))
    plain = "|backbone small@aaaa|text wiki 20@bbbb|dev STS-B 1,500|tuned no|on cpu|conditions "
    assert plain in line and plain not in changed and len(changed) < 300
    assert differing(trained(), trained(change, ("alpha",)))
    other = table(trained(change) + trained("device" if change != "device" else "text", ("gamma", "delta")))
    assert signature(other) != changed


def test_conditions_that_change_places_make_another_line() -> None:
    """A larger text on the other backbone: each part has the same values, and no row is the same."""
    lines = []
    for sizes in ((20, 40), (40, 20)):
        records: list[Any] = trained()
        for record in records:
            first = record["method"]["name"] == "alpha"
            record["training"]["corpus"]["sentences"] = sizes[not first]
            record["method"]["sources"]["backbone"]["name"] = "small" if first else "large"
        lines.append(signature(table(records)))
    first_line, second_line = lines
    assert first_line != second_line and first_line.rpartition("|")[0] == second_line.rpartition("|")[0]


def test_published_tables_of_unequal_conditions_have_unequal_lines() -> None:
    folders = Path(__file__).parents[3] / "leaderboards"
    lines = {signature(table(Records(folders / f"zoo-small-{name}").all())) for name in ("curve", "tuned")}
    assert len(lines) == 2 and all("\n" not in line for line in lines)
