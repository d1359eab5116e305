"""The signature of a table, as sacrebleu has it: what its numbers depend on, in one line; and how a paper cites it."""

from __future__ import annotations

from hashlib import sha256

from benchmark.records.record import scores_of
from benchmark.report.conditions import roles
from benchmark.report.rows import Table
from zoo import __version__

_DATA = 4  # hexadecimal digits: enough to see that two tables have other data


def signature(table: Table) -> str:
    """Return versions, suite with aggregation and metric, number of tasks, seeds, precision, data and protocol.

    Prompts and similarity of finished encoders stand before the data, where they are not plain texts and cosines.
    `data` is a digest of the tasks' data files. Several values are joined by "+", the numbers of seeds of trained rows
    by "-". A trial on cut data says so.
    """
    records = [r for row in table.rows for r in row.records if r["status"] == "ok"]
    metrics = {str(scores_of(r)["main_metric"]) for r in records}
    named = {f"{table.aggregation}-{metric.removeprefix('all_')}" if "_" in metric else metric for metric in metrics}
    seeds = sorted({row.about["seeds"] for row in table.rows if any(r["seed"] is not None for r in row.records)})
    data = {(r["task"]["name"], r["task"]["sha256"]) for r in records}
    parts = [
        f"zoo-bench {_joined({r['version'] for r in records})}",
        f"{table.suite.name}:{_joined(named)}",
        f"{len(table.suite.tasks)} tasks",
        f"seeds {'-'.join(map(str, [*seeds[:1], *seeds[1:][-1:]])) or 'none'}",
        _joined({r["precision"] for r in records}),
        *sorted({stated for row in table.rows if (stated := roles(row))}),
        f"data {sha256(repr(sorted(data, key=repr)).encode()).hexdigest()[:_DATA]}",
        f"protocol {_joined({str(r['protocol']) for r in records})}",
    ]
    return "|".join([*parts, "trial"] if table.partial else parts)


def _joined(values: set[str]) -> str:
    return "+".join(sorted(values))


def citation(table: Table) -> str:
    """Return the sentence for a paper, and the BibTeX entry that it cites."""
    several = max((row.about["seeds"] for row in table.rows), default=1)
    means = f", means over up to {several} seeds," if several > 1 else ""
    return (
        f"Scores on {table.suite.title} (x100{means} on {', '.join(table.suite.columns)}) were measured with"
        f" zoo-bench~\\cite{{zoobench}}; signature: \\texttt{{{signature(table)}}}.\n\n"
        "@software{zoobench,\n"
        "  title = {{zoo-bench}: a method zoo and a benchmark for sentence embeddings},\n"
        f"  author = {{{{The zoo-bench authors}}}},\n  version = {{{__version__}}},\n"
        "  note = {The papers of methods and data sets are cited beside it}\n}"
    )
