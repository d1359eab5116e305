"""Makes one HTML page of all tables, which needs no network: a small script draws the data of a JSON block."""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from benchmark.leaderboard import published
from benchmark.leaderboard.conditions import conditions, contamination, environment_lines, role
from benchmark.leaderboard.links import links_of, papers_named
from benchmark.leaderboard.rows import Row, Table
from benchmark.leaderboard.table import set_ranks
from benchmark.leaderboard.values import Value
from benchmark.records.names import short_name
from benchmark.records.schema import Record, main_score
from zoo import __version__
from zoo.files import slug, write_text

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).with_name("templates")
_SLIP = "slip, see below"  # the words of the Markdown page, which lists the slips below
_DIGITS = 6  # more than are shown, so that rounding to two digits gives the same as in the other files
_T = TypeVar("_T")
_Key = tuple[str, str]  # method, row key


def page(tables: Sequence[Table], records: Sequence[Record] = (), files: Sequence[str] = (), handbook: str = "") -> str:
    """Return the HTML page of the tables; their records add each seed's score and the training curves.

    `files` are the names of the tables' files beside the page; a table links to its own. `handbook` is the relative
    path from the page to the handbook's pages of methods, or "".
    """
    seeds, curves = _by_row(records)
    sections = [
        {**_section(part, seeds, curves), "files": _files_of(part, files)}
        for table in tables
        for part in _one_protocol_each(table)
    ]
    title = sections[0]["title"] if len(sections) == 1 else "zoo-bench leaderboard"
    papers = papers_named({name for section in sections for row in section["rows"] for name in row["papers"]})
    data = {"sections": sections, "papers": papers, "handbook": handbook}
    scripts = ("common.js", "zoom.js", "plots.js", "table.js", "print.js", "leaderboard.js")
    return render("page.html.j2", scripts, title=title, data=data)


def write_page(tables: Sequence[Table], path: Path, records: Sequence[Record] = ()) -> None:
    """Write the page of the tables (see `page`) atomically."""
    write_text(path, page(tables, records))


def render(template: str, scripts: Sequence[str], **values: Any) -> str:
    """Fill a template of the folder `templates`; style and scripts are inlined, and every value is escaped."""
    from markupsafe import Markup

    def inline(name: str) -> Markup:
        return Markup((TEMPLATES / name).read_text(encoding="utf-8"))

    return (
        _environment()
        .get_template(template)
        .render(
            version=__version__, style=inline("style.css"), script=Markup("\n").join(map(inline, scripts)), **values
        )
    )


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    # `tojson` writes < > & ' as \u escapes, so that no text can close the script element.
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment


def _by_row(records: Sequence[Record]) -> tuple[dict[_Key, dict[str, Any]], dict[_Key, dict[Any, Any]]]:
    """Return the scores x100 by row, task and seed, and the dev scores by row and seed."""
    seeds: dict[_Key, dict[str, Any]] = defaultdict(lambda: defaultdict(dict))
    curves: dict[_Key, dict[Any, Any]] = defaultdict(dict)
    for record in records:
        key = (record["method"]["name"], record["row_key"])
        if record["status"] == "ok":
            seeds[key][record["task"]["name"]][record["seed"]] = round(100 * main_score(record), _DIGITS)
        points = dev_points(record)
        if points:
            curves[key][record["seed"]] = points
    return seeds, curves


def dev_points(record: Record, curve: str | None = None) -> list[tuple[int, float]]:
    """Return (step, dev score x100) of a record's training, or with `curve` another logged value, sorted by step."""
    training = record["training"] or {}
    points = (training.get("dev_scores") if curve is None else training.get("dev_curves", {}).get(curve)) or {}
    return sorted((int(step), round(value, _DIGITS)) for step, value in points.items() if value is not None)


def seed_order(by_seed: Mapping[Any, _T]) -> list[tuple[Any, _T]]:
    """Return the items sorted by seed; the item without a seed comes first."""
    return sorted(by_seed.items(), key=lambda item: -1 if item[0] is None else item[0])


def _one_protocol_each(table: Table) -> list[Table]:
    """Split a table by the version of the protocol, because scores of different versions cannot be ranked together."""
    protocols = sorted({row.about["protocol"] for row in table.rows}, reverse=True)
    if len(protocols) == 1:
        return [table]
    parts = []
    for protocol in protocols:
        rows = [dataclasses.replace(row) for row in table.rows if row.about["protocol"] == protocol]
        set_ranks(rows)
        name, title = f"{table.suite.name}-protocol-{protocol}", f"{table.suite.title}, protocol {protocol}"
        suite = dataclasses.replace(table.suite, name=name, title=title)
        parts.append(dataclasses.replace(table, suite=suite, rows=rows))
    return parts


def _section(table: Table, seeds: dict[_Key, dict[str, Any]], curves: dict[_Key, dict[Any, Any]]) -> dict[str, Any]:
    suite = table.suite
    name = table.stem
    beside: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for comparison in published.beside_published(table):
        beside[comparison.ours.name].append(_published(comparison))
    rows = []
    for row in table.rows:
        key = (row.identity, row.row_key)
        drawn = _row(row, suite.tasks, seeds.get(key, {}), curves.get(key, {}))
        rows.append({**drawn, "published": beside[row.name]})
    return {
        "id": slug(name),
        "label": name,
        "title": suite.title,
        "note": suite.note,
        "legend": table.legend,
        "trial": table.partial,
        "tasks": list(suite.tasks),
        "columns": list(suite.columns),
        "means": [{"name": name, "tasks": list(tasks)} for name, tasks in suite.means.items()],
        "commands": table.commands,
        "environments": environment_lines(table.rows),
        "rows": rows,
        "cited": [] if table.partial else [_cited(line, columns) for line, columns in published.cited(suite)],
    }


def _files_of(table: Table, files: Sequence[str]) -> list[str]:
    """Return a table's files to link to; not its JSON and LaTeX files, because the page offers JSON itself."""
    stems = (table.stem, f"{table.stem}-published")
    return [name for name in files if name.rpartition(".")[0] in stems and name.endswith((".md", ".csv"))]


def _cited(line: published.PublishedRow, columns: Mapping[str, tuple[str, published.Reasons]]) -> dict[str, Any]:
    """Return a published system without a recipe: its printed values by task, and why they are not comparable."""
    reasons = dict.fromkeys(reason for _, several in columns.values() for reason in several)
    return {
        "system": line.row.method,
        "source": line.source().replace(_SLIP, "slip in print"),
        "scores": {key: line.text(column) for key, (column, _) in columns.items()},
        "why": line.row.cited or "",
        "reasons": "; ".join(reasons),
    }


def _row(row: Row, tasks: Sequence[str], seeds: dict[str, Any], curves: dict[Any, Any]) -> dict[str, Any]:
    about = row.about
    pairs, sentences = about["corpus_pairs"], about["corpus_sentences"]
    corpus = about["corpus"]
    if corpus:
        corpus += f", {sentences:,} sentences" if pairs is None else f", {pairs:,} pairs"
    return {
        "name": row.name,
        "rank": row.rank,
        "marked": bool(row.mark),
        "control": role(row),
        "setting": about["setting"],
        "backbone": about["backbone"],
        "corpus": corpus,
        "precision": about["precision"],
        "seeds": about["seeds"],
        "train_seconds": about["train_seconds"],
        "texts_per_second": about["texts_per_second"],
        "parameters": about["parameters"],
        "dimensions": about["dimensions"],
        "adapt_seconds": about["adapt_seconds"],
        "peak_memory_mb": about["peak_memory_mb"],
        "device": about["device"],
        "overlap": contamination(about),
        "conditions": conditions(row),
        "notes": row.notes,
        **links_of(row),
        **({"ancestry": about["ancestry"]} if about["ancestry"] else {}),
        **({"recipe": short_name(row.recipe)} if row.recipe else {}),
        "average": _cell(row.average, {}),
        "cells": [_cell(row.values[task], seeds.get(task, {})) for task in tasks],
        "means": [_cell(value, {}) for value in row.means.values()],
        "curves": [{"seed": seed, "points": points} for seed, points in seed_order(curves)],
    }


def printed_source(line: published.PublishedRow) -> str:
    """Return table, system and backbone of a published row."""
    return f"{line.source()}, {line.row.method} ({line.row.backbone})".replace(_SLIP, "slip in print")


def _published(comparison: published.BesidePublished) -> dict[str, Any]:
    line = comparison.line
    return {
        "source": printed_source(line),
        "scores": {cell.task: line.text(cell.column) for cell in comparison.cells},
        "verdict": comparison.verdict(),
    }


def _cell(value: Value, by_seed: dict[Any, float]) -> dict[str, Any]:
    cell: dict[str, Any] = {"mean": _rounded(value.mean), "sd": _rounded(value.sd), "seeds": value.seeds}
    cell["reason"] = value.reason
    if value.min is not None:
        cell |= {"min": _rounded(value.min), "max": _rounded(value.max)}
    return {**cell, "by_seed": seed_order(by_seed)} if len(by_seed) > 1 else cell


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, _DIGITS)
