"""A paper's table with our rows below each printed row, from a results folder and analyses' files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark.records.folder import Records
from benchmark.records.names import typed_recipe
from benchmark.report.conditions import conditions
from benchmark.report.markdown import code_block, markdown_table
from benchmark.report.published import BesidePublished, PublishedRow, beside, plain_backbone
from benchmark.report.rows import Table
from benchmark.report.table import build_tables
from benchmark.tasks.suites import all_suites
from zoo.files import read_json
from zoo_bench_papers.items import Item, PaperOptions, Reading, Step, filled, methods_of, steps_of


@dataclass(frozen=True)
class Ours:
    """A row of ours below a printed row: its values by printed column, and the comparable columns."""

    name: str
    measured: str
    values: Mapping[str, str]
    verdict: str


@dataclass(frozen=True)
class Printed:
    name: str
    backbone: str
    values: Mapping[str, str]
    notes: tuple[str, ...]
    ours: tuple[Ours, ...]


def printed_beside(item: Item, chosen: PaperOptions) -> list[Printed]:
    tables = _tables(item, chosen)
    result = []
    for line in item.lines():
        ours = _with_values([*_from_tables(item, line, tables, chosen), *_from_files(item, line, chosen)])
        row = line.row
        notes = [f"cited: {row.cited}" if row.cited else "", f"slip: {row.slip}" if row.slip else "", row.observation]
        values = {column: line.text(column) for column in line.scores}
        result.append(Printed(_metric(line), row.backbone, values, tuple(filter(None, notes)), tuple(ours)))
    for name, texts in item.prints.items():
        rows = [ours for step in steps_of(item, chosen) if step.read for ours in _texts(step.read, name, item, chosen)]
        result.append(Printed(name, "", texts, (), tuple(rows)))
    return result


def _with_values(ours: list[Ours]) -> list[Ours]:
    """Rows with a value, or the first if none has: a recipe is in the tables of all suites."""
    return [row for row in ours if set(row.values.values()) != {"n/a"}] or ours[:1]


def _metric(line: PublishedRow) -> str:
    metric = line.row.metric.removeprefix("spearman_x100").strip("_")
    return line.row.method + (f" ({metric.replace('_', ' ')})" if metric and metric != "mean" else "")


def _tables(item: Item, chosen: PaperOptions) -> list[Table]:
    names: dict[str, None] = {}
    for step in item.steps:
        if step.command == "run":
            suite = step.options["suite"]
            names |= dict.fromkeys(suite if isinstance(suite, list) else suite.split(","))
    if not names:
        return []
    store = Records(chosen.results, set_aside=False)
    return build_tables(store.all(), [all_suites()[name] for name in names], store)


def _from_tables(item: Item, line: PublishedRow, tables: Sequence[Table], chosen: PaperOptions) -> Iterator[Ours]:
    if line.row.subset is not None and line.row.subset != "full":
        # These pairs are in an analysis.
        return
    rows = {printed: filled(ours, chosen.places(item)) for step in item.steps for printed, ours in step.rows.items()}
    named = {typed_recipe(name)[0]: None for name in methods_of(item, chosen)}
    settings = [typed_recipe(name) for name in (*line.row.recipes, *line.row.unlike)]
    wanted = chosen.values.get("backbone")
    places = None if wanted is None else ("", plain_backbone(wanted), wanted, Path(wanted).name)
    for table in tables:
        for comparison in beside(table, [line]):
            ours = comparison.ours
            of_row = rows.get(line.row.method)
            if of_row is not None and ours.identity != of_row:
                continue
            if ours.made_of[0] not in named or ours.made_of not in settings:
                continue
            if places is None or ours.about["backbone"] in places or of_row is not None:
                yield _row(comparison, table, len({table.suite.name for table in tables}) > 1)


def _row(comparison: BesidePublished, table: Table, several: bool) -> Ours:
    values = {cell.column: cell.ours.text() for cell in comparison.cells}
    for name, value in comparison.ours.means.items():
        if f"{name} mean" in comparison.line.scores:
            values[f"{name} mean"] = value.text()
    trial = "; a trial on cut data (--limit)" if table.partial else ""
    verdict = comparison.verdict() if not trial else f"not comparable{trial}"
    suite = f"{table.suite.name}: " if several else ""
    return Ours(comparison.ours.name, suite + conditions(comparison.ours), values, verdict)


def _rows(reading: Reading, item: Item, chosen: PaperOptions) -> list[dict[str, Any]]:
    pattern = Path(filled(reading.file, chosen.places(item)))
    start = next((i for i, part in enumerate(pattern.parts) if "*" in part), len(pattern.parts) - 1)
    files = list(Path(*pattern.parts[:start]).glob(str(Path(*pattern.parts[start:]))))
    if not files:
        return []
    content = read_json(max(files, key=lambda file: file.stat().st_mtime))
    for key in reading.rows.split("."):
        content = content[key]
    return [row for row in content if all(row[key] == value for key, value in reading.where.items())]


def _from_files(item: Item, line: PublishedRow, chosen: PaperOptions) -> Iterator[Ours]:
    for step in steps_of(item, chosen):
        if step.read is not None and step.read.subset == (None if line.row.subset == "full" else line.row.subset):
            yield from _read_line(step, step.read, item, line, chosen)


def _read_line(step: Step, reading: Reading, item: Item, line: PublishedRow, chosen: PaperOptions) -> Iterator[Ours]:
    settings = [typed_recipe(name) for name in (*line.row.recipes, *line.row.unlike)]
    digits = max(line.decimals, 2)
    several: dict[tuple[str, str], dict[str, str]] = {}
    for row in _rows(reading, item, chosen):
        if reading.recipe and typed_recipe(row[reading.recipe]) not in settings:
            continue
        if reading.printed and row[reading.printed] != line.row.method:
            continue
        backbone = str(row[reading.backbone]) if reading.backbone else ""
        if backbone and not chosen.values.get("backbone") and plain_backbone(backbone) != line.row.backbone:
            continue
        values = {row[reading.column].rstrip("."): row[reading.value]} if reading.column else {}
        values |= {column: row[key] for column, key in reading.columns.items()}
        known = {k: "n/a" if v is None else f"{v:.{digits}f}" for k, v in values.items() if k in line.scores}
        name = str(row[reading.recipe]) if reading.recipe else step.command
        if known:
            several.setdefault((name, backbone), {}).update(known)
    for (name, backbone), values in several.items():
        backbone = backbone or str(chosen.values.get("backbone") or item.backbone)
        same = plain_backbone(backbone) == line.row.backbone
        verdict = "see what differs" if same else f"not comparable: other backbone ({line.row.backbone})"
        yield Ours(name, backbone, values, verdict)


def _texts(reading: Reading, printed: str, item: Item, chosen: PaperOptions) -> Iterator[Ours]:
    for row in _rows(reading, item, chosen):
        if row[reading.printed] == printed:
            values = {column: str(row[key]) for column, key in reading.columns.items()}
            yield Ours("ours", str(row[reading.backbone]) if reading.backbone else "", values, "")


def columns_of(rows: Sequence[Printed]) -> list[str]:
    return list(dict.fromkeys(column for row in rows for column in row.values))


def lines_of(rows: Sequence[Printed]) -> list[list[str]]:
    columns = columns_of(rows)
    lines = []
    for row in rows:
        notes = [*row.notes, *([] if row.ours else ["ours: none measured here"])]
        lines.append([row.name, "theirs", *(row.values.get(c, "") for c in columns), "; ".join([row.backbone, *notes])])
        for ours in row.ours:
            about = "; ".join(filter(None, [ours.measured, ours.verdict]))
            lines.append([f"  {ours.name}", "ours", *(ours.values.get(c, "") for c in columns), about])
    return lines


def markdown(item: Item, rows: Sequence[Printed], commands: Sequence[str]) -> str:
    lines = [f"# {item.name}: {item.what}", "", "Made by:", "", *code_block(commands), ""]
    if rows:
        header = ["Row", "", *columns_of(rows), "Measured on; what may be compared"]
        numbers = [False, False, *([True] * len(columns_of(rows))), False]
        shown = ([f"**{line[0]}**" if line[1] == "theirs" else line[0].strip(), *line[1:]] for line in lines_of(rows))
        lines += markdown_table(header, shown, numbers)
    else:
        lines.append("The paper prints no numbers here.")
    lines += ["", *(f"- Differs: {differ}." for differ in item.differs)]
    return "\n".join(lines).rstrip() + "\n"
