"""The files of tables: Markdown, CSV, JSON, LaTeX, published values beside ours."""

from __future__ import annotations

import csv as csv_files
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import msgspec

from benchmark.report import published
from benchmark.report.columns import COLUMNS, FROM_CACHE, Column, columns_of, from_cache, printed
from benchmark.report.conditions import CONTROL, backbone_of, environment_lines, role, warning_lines
from benchmark.report.latex import latex
from benchmark.report.markdown import code_block, code_span, markdown_row, markdown_table, markdown_text
from benchmark.report.published import BesidePublished
from benchmark.report.rows import DIGITS, About, Row, Table, Value
from benchmark.report.signature import signature
from zoo.progress import clean_line, without_orders

# What a spreadsheet computes begins so, also behind blanks and in wide signs; a number is none.
_FORMULA = re.compile(r"(?![-+]?\d+(\.\d+)?$)\s*[-=+@－＝＋＠]")
_COST = (
    "Times and speeds are means over seeds. A transductive row is fitted to each task's texts, after or instead of a"
    " training. Peak: the most memory of the process while the row was trained and measured. –: none; n/a: not in the"
    " records."
)
_NO_CONTROLS = (
    "The controls that other rows are measured against are not here: `zoo-bench run` without `--no-controls` adds those"
    " that the tasks can score."
)


def table_files(table: Table) -> dict[str, str]:
    """Return a table's files by name; <suite>-published.md only with published rows."""
    stem = table.stem
    comparisons = published.beside_published(table)
    files = {
        f"{stem}.md": without_orders(markdown(table)),
        f"{stem}.csv": csv(table),
        f"{stem}.json": _indented(as_dict(table, comparisons)),
        f"{stem}.tex": latex(table),
    }
    return files | ({f"{stem}-published.md": published_markdown(table, comparisons)} if comparisons else {})


def _indented(value: object) -> str:
    # With `indent`, `json` takes its slow encoder; msgspec changes nothing but blanks and line ends.
    return msgspec.json.format(json.dumps(value, ensure_ascii=False, allow_nan=False), indent=1) + "\n"


def markdown(table: Table) -> str:
    columns = columns_of(table, "markdown")
    lines = [
        f"# {markdown_text(table.title)}",
        "",
        *([*map(markdown_text, table.learned.splitlines()), ""] if table.learned else []),
        markdown_text(table.suite.note),
        "Mean ± sample standard deviation over seeds; Avg. is the mean of the tasks, per seed.",
        *(markdown_text(f"{name} is the mean of {', '.join(tasks)}.") for name, tasks in table.suite.means.items()),
        "",
        *_rows(columns, table.rows),
        *([] if table.partial else _ceilings(columns, table)),
    ]
    if table.legends:
        lines += ["", markdown_text(" ".join(table.legends))]
    if any(column.name in ("lowest", "highest") for column in columns):
        lines += ["", "Min. and Max.: the lowest and the highest average of a seed."]
    if CONTROL not in map(role, table.rows):
        lines += ["", _NO_CONTROLS]
    scored = replace(table, rows=[row for row in table.rows if row.scored])
    lines += ["", "## Cost", "", *_rows(columns_of(scored, "cost"), scored.rows), "", _COST]
    if any(map(from_cache, scored.rows)):
        lines += ["", f"n/a in speed and memory: {FROM_CACHE}."]
    notes = [f"- {markdown_text(reason)}" for row in table.rows for reason in row.reasons()]
    if notes:
        lines += ["", "Not available:", "", *notes]
    environments = map(markdown_text, environment_lines(table.rows))
    lines += ["", "## Made by", "", *code_block(table.commands), "", *environments, "", code_span(signature(table))]
    return "\n".join(lines) + "\n"


def _rows(columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    return markdown_table(*printed(columns, rows), [column.right for column in columns])


def _ceilings(columns: Sequence[Column], table: Table) -> list[str]:
    lines = []
    for line, columns_of_task in published.cited(table.suite):
        if not line.row.ceiling:
            continue
        texts = {task: line.text(column) for task, (column, _) in columns_of_task.items()}
        texts |= {"method": f"{line.row.method} ({line.table.paper})", "conditions": line.row.subset or ""}
        lines.append(markdown_row([texts.get(column.name, "") for column in columns]))
    return lines


def csv(table: Table) -> str:
    columns = columns_of(table, "csv")
    lines = [{name: value for column in columns for name, value in column.raw(row).items()} for row in table.rows]
    return csv_text(lines)


def csv_text(lines: Iterable[Mapping[str, object]], columns: Iterable[str] = ()) -> str:
    """Return the text of every CSV file of this project: no cell is a formula; NaN is empty."""
    lines = list(lines)
    text, names = io.StringIO(), list(dict.fromkeys([*columns, *(name for line in lines for name in line)]))
    writer = csv_files.writer(text, lineterminator="\n")
    writer.writerow(map(inert, names))
    writer.writerows([inert(line.get(name, "")) for name in names] for line in lines)
    return text.getvalue()


def inert(value: object) -> object:
    """Return a CSV cell without line breaks; an apostrophe disarms a text a spreadsheet would compute."""
    if not isinstance(value, str):
        return "" if value != value else value
    line = clean_line(value)
    return f"'{line}" if _FORMULA.match(line) else line


def as_dict(
    table: Table, comparisons: Sequence[BesidePublished] | None = None, drawn: bool = False
) -> dict[str, object]:
    """Return the table as plain values, with the published values (None: they are looked up).

    With `drawn`, the rows have only the page's columns, without empty values.
    """
    beside: dict[str, list[published.Entry]] = {row.name: [] for row in table.rows}
    for comparison in published.beside_published(table) if comparisons is None else comparisons:
        beside[comparison.ours.name].append(published.entry(comparison))
    static = [column for column in COLUMNS if not drawn or {"page", "details"}.intersection(column.outputs)]

    def filled(values: Mapping[str, object]) -> dict[str, object]:
        plain = {key: filled(value.as_dict()) if isinstance(value, Value) else value for key, value in values.items()}
        return {key: value for key, value in plain.items() if not drawn or _is_drawn(key, value)}

    return {
        "suite": table.suite.name,
        "name": table.stem,
        "title": table.suite.title + table.part,
        "note": table.suite.note,
        "trial": table.partial,
        "aggregation": table.aggregation,
        "tasks": list(table.suite.tasks),
        "labels": list(table.suite.columns),
        "means": {name: list(tasks) for name, tasks in table.suite.means.items()},
        "learned": table.learned,
        "ancestry": warning_lines(table.rows),
        "environments": [*environment_lines(table.rows), signature(table)],
        "columns": [column.as_dict() for column in columns_of(table, "page")],
        "legend": " ".join(table.legends),
        "commands": table.commands,
        "rows": [
            {
                **filled({column.key: column.of(row) for column in static}),
                "scores": filled(row.values),
                "means": filled(row.means),
                **(_gain(row) if drawn else {}),
                "published": [
                    {key: value for key, value in entry.items() if not drawn or key in ("source", "printed", "verdict")}
                    for entry in beside[row.name]
                ],
            }
            for row in table.rows
        ],
        "cited": [] if table.partial else published.cited_entries(table.suite),
    }


def _is_drawn(name: str, value: object) -> bool:
    return name in ("mean", "sd", "rank") or not (value is None or value is False or value in ("", []))


_REMARKS: dict[str, Literal["slip", "observation"]] = {"Slips in print": "slip", "Observations": "observation"}


def published_markdown(table: Table, comparisons: list[BesidePublished]) -> str:
    suite = table.suite
    columns, keys = [*suite.columns, "Avg."], [*suite.tasks, published.AVERAGE]
    lines = [
        f"# Published beside measured: {suite.title}",
        "",
        "Each cell: ours (mean ± sample standard deviation over seeds) / theirs as printed. Values are compared only",
        "where text, aggregation, split and backbone are the same; elsewhere both stand here, with the reason.",
        "Seeds: ours / theirs, as far as the paper states them.",
        "",
    ]
    for title, compared in (("Compared", True), ("Not comparable", False)):
        chosen = [comparison for comparison in comparisons if bool(comparison.compared) is compared]
        if not chosen:
            continue
        rows = []
        for comparison in chosen:
            line = comparison.line
            cells = {c.task: f"{c.ours.text()} / {line.text(c.column)}" for c in comparison.cells}
            theirs = f"{line.row.method} ({line.row.backbone})"
            values = [cells.get(key, "") for key in keys]
            about = comparison.ours.about
            seeds = f"{_seeds_of(comparison.ours)} / {printed_seeds(line)}"
            row = [comparison.ours.name, _ours(about), theirs, line.source(), seeds, *values, comparison.verdict()]
            rows.append(row)
        heads = ["Method", "Measured on", "Published", "Source", "Seeds", *columns, "Verdict"]
        lines += [f"## {title}", "", *markdown_table(heads, rows), ""]
    quoted = published.cited(suite)
    if quoted:
        rows = []
        for line, columns_of_task in quoted:
            values = [line.text(columns_of_task[key][0]) if key in columns_of_task else "" for key in keys]
            reasons = dict.fromkeys(reason for _, several in columns_of_task.values() for reason in several)
            rows.append([line.row.method, line.source(), *values, line.row.cited or "", "; ".join(reasons)])
        heads = ["System", "Source", *columns, "Why cited", "Not comparable"]
        lines += ["## Cited, not measured", "", "No recipe makes them; they have no rank.", ""]
        lines += [*markdown_table(heads, rows), ""]
    for title, kind in _REMARKS.items():
        printed = published.remarks(suite, kind)
        lines += [f"## {title}", ""] if printed else []
        lines += [
            f"- {line.table.source()}, {line.row.method} ({line.row.backbone}): {text}." for line, text in printed
        ]
        lines += [""] if printed else []
    used = dict.fromkeys([*(c.line.table for c in comparisons), *(line.table for line, _ in quoted)])
    lines += ["## Protocols", "", *(f"- {table.source()} ({table.what}): {table.protocol()}." for table in used), ""]
    papers = published.published().papers
    lines += ["## Papers", "", *(f"- {name}: {papers[name]}." for name in dict.fromkeys(table.paper for table in used))]
    return "\n".join(lines) + "\n"


def _ours(about: About) -> str:
    parts = [backbone_of(about)]
    if about["corpus"]:
        size = about["corpus_sentences"] or about["corpus_pairs"] or 0
        parts.append(f"{size:,} {'sentences' if about['corpus_sentences'] else 'pairs'} of {about['corpus']}")
    return ", ".join(parts)


def printed_seeds(line: published.PublishedRow) -> str:
    """Return the number of seeds, "none" for no training, else "not stated"."""
    of_table = {"one checkpoint": "1", "none: nothing is trained": "none", "1": "1", "10": "10", "50": "50"}
    return str(line.row.seeds or of_table.get(line.table.seeds, "not stated"))


def _seeds_of(row: Row) -> str:
    seeds = {record["seed"] for record in row.records if record["status"] == "ok"}
    return "none" if seeds <= {None} else str(len(seeds))


def _gain(row: Row) -> dict[str, object]:
    # By other libraries of products the last digits differ.
    return {} if row.gain is None else {"gain": [row.gain[0], *(round(value, DIGITS) for value in row.gain[1:])]}
