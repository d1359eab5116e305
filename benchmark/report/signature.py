"""The signature of a table, as in sacrebleu: the conditions of its numbers in one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from benchmark.records.record import Record, scores_of
from benchmark.report.conditions import CONTROL, role, tuned
from benchmark.report.rows import Row, Table
from zoo.progress import clean_line, counted

_DATA = 4  # hexadecimal digits: enough to see that two tables have other data
_NAMED = 2  # values of a part that are named; more are counted


def signature(table: Table) -> str:
    """Return the conditions of a table's numbers: first the scoring, then its rows.

    First versions, suite with aggregation and metric, number of tasks, seeds, precision, data and protocol, then
    `conditions_of`. Digests: of the tasks' data files; behind @, of weights and texts; at the end, of all conditions
    together. "+" joins several values, "-" the numbers of seeds of trained rows.
    """
    kept = vars(table)
    if "signature" not in kept:
        kept["signature"] = _signature(table)
    return str(kept["signature"])


def _signature(table: Table) -> str:
    records = [r for row in table.rows for r in row.records if r["status"] == "ok"]
    metrics = {str(scores_of(r)["main_metric"]) for r in records}
    named = {f"{table.aggregation}-{metric.removeprefix('all_')}" if "_" in metric else metric for metric in metrics}
    seeds = seed_counts(table.rows)
    data = {(r["task"]["name"], r["task"]["sha256"]) for r in records}
    conditions = [_conditions(record) for record in records]
    limits = {f"trial of {r['limit']} rows" if r["limit"] else "trial" for r in records}
    parts = [
        f"zoo-bench {_joined({r['version'] for r in records})}",
        f"{table.suite.name}:{_joined(named)}",
        f"{len(table.suite.tasks)} tasks",
        f"seeds {'-'.join(map(str, [*seeds[:1], *seeds[1:][-1:]])) or 'none'}",
        _joined({r["precision"] for r in records}),
        f"data {_digest(sorted(data, key=repr))}",
        f"protocol {_joined({str(r['protocol']) for r in records})}",
        *(f"{name} {text}" for name, text in _together(conditions).items()),
        f"conditions {_digest(sorted({tuple(of_record.items()) for of_record in conditions}))}",
    ]
    return clean_line("|".join([*parts, _joined(limits)] if table.partial else parts))


def conditions_of(records: Sequence[Record]) -> dict[str, str]:
    """Return the values of each condition; more than two are counted."""
    return _together([_conditions(record) for record in records])


def _together(conditions: Sequence[dict[str, str]]) -> dict[str, str]:
    values = {
        name: {condition[name] for condition in conditions} - {""} for name in (conditions[0] if conditions else ())
    }
    return {name: _few(of) for name, of in values.items() if of}


def differing(first: Sequence[Record], second: Sequence[Record]) -> list[str]:
    """Return the unequal conditions with both values; beside untrained rows, only those of both sides."""
    sides = conditions_of(first), conditions_of(second)
    trained = all({"text", "pairs"} & side.keys() for side in sides)
    absent = "none" if trained else ""
    values = {name: [side.get(name, absent) for side in sides] for name in {**sides[0], **sides[1]}}
    return [f"{name} {a} against {b}" for name, (a, b) in values.items() if a and b and a != b]


def _conditions(record: Record) -> dict[str, str]:
    training, backbone = record["training"] or {}, record["method"]["sources"].get("backbone", {})
    corpus, by = training.get("corpus") or {}, record["facts"].get("run_by", "")
    size = corpus.get("pairs") or corpus.get("sentences") or 0
    learned = f"{corpus.get('name')} {size:,}@{corpus.get('sha256', '')[:_DATA]}" if corpus else ""
    dev, dev_pairs = training.get("dev_task") or "", training.get("dev_pairs")
    return {
        "backbone": f"{backbone['name']}@{(backbone.get('sha256') or '')[:_DATA]}" if backbone.get("name") else "",
        "text": "" if corpus.get("pairs") else learned,
        "pairs": learned if corpus.get("pairs") else "",
        "dev": f"{dev} {dev_pairs:,}" if dev and dev_pairs else dev,
        "tuned": tuned(record["method"]) or ("no" if training.get("steps") else ""),
        "by": "" if by == "zoo" else by,
        "roles": record["facts"].get("roles", ""),
        "on": "gpu" if record["environment"]["gpu"] else "cpu",
    }


def _few(values: set[str]) -> str:
    return _joined(values) if len(values) <= _NAMED else f"{len(values)} kinds@{_digest(sorted(values))}"


def _digest(value: object) -> str:
    return sha256(repr(value).encode()).hexdigest()[:_DATA]


def _joined(values: Iterable[str]) -> str:
    return "+".join(sorted(values))


def seed_counts(rows: Sequence[Row], *, of_controls: bool = False) -> list[int]:
    """Return the numbers of seeds of rows that depend on one, sorted, each once."""
    return sorted(
        {
            row.about["seeds"]
            for row in rows
            if (role(row) == CONTROL) == of_controls and any(r["seed"] is not None for r in row.records)
        }
    )


def about_seeds(rows: Sequence[Row]) -> str:
    """Return the sentence on seeds of every output that has one for the whole table."""
    counts, controls = seed_counts(rows), seed_counts(rows, of_controls=True)
    if not counts:
        but = f" but the controls ({_span(controls)})" if controls else ""
        return f"No row{but} depends on a seed."
    return f"Means over {_span(counts)} where a row depends on one."


def _span(counts: Sequence[int]) -> str:
    return counted(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
