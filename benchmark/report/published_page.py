"""<suite>-published.md: our values beside published ones, systems without a recipe, errors in print, and protocols."""

from __future__ import annotations

from typing import Literal

from benchmark.report.conditions import backbone_of
from benchmark.report.markdown import markdown_table
from benchmark.report.published import AVERAGE, BesidePublished, cited, published, remarks
from benchmark.report.rows import About, Table

_REMARKS: dict[str, Literal["slip", "observation"]] = {"Slips in print": "slip", "Observations": "observation"}


def published_markdown(table: Table, comparisons: list[BesidePublished]) -> str:
    """Return a table's rows beside their published counterparts, as Markdown."""
    suite = table.suite
    columns, keys = [*suite.columns, "Avg."], [*suite.tasks, AVERAGE]
    lines = [
        f"# Published beside measured: {suite.title}",
        "",
        "Each cell: ours (mean ± sample standard deviation over seeds) / theirs as printed. Values are compared only",
        "where text, aggregation, split and backbone are the same; elsewhere both stand here, with the reason.",
        "",
    ]
    for title, compared in (("Compared", True), ("Not comparable", False)):
        chosen = [comparison for comparison in comparisons if bool(comparison.compared) is compared]
        if not chosen:
            continue
        told = []
        for comparison in chosen:
            line = comparison.line
            cells = {c.task: f"{c.ours.text()} / {line.text(c.column)}" for c in comparison.cells}
            theirs = f"{line.row.method} ({line.row.backbone})"
            values = [cells.get(key, "") for key in keys]
            about = comparison.ours.about
            told.append([comparison.ours.name, _ours(about), theirs, line.source(), *values, comparison.verdict()])
        heads = ["Method", "Measured on", "Published", "Source", *columns, "Verdict"]
        lines += [f"## {title}", "", *markdown_table(heads, told), ""]
    quoted = cited(suite)
    if quoted:
        told = []
        for line, found in quoted:
            values = [line.text(found[key][0]) if key in found else "" for key in keys]
            reasons = dict.fromkeys(reason for _, several in found.values() for reason in several)
            told.append([line.row.method, line.source(), *values, line.row.cited or "", "; ".join(reasons)])
        heads = ["System", "Source", *columns, "Why cited", "Not comparable"]
        lines += ["## Cited, not measured", "", "No recipe makes them; they have no rank.", ""]
        lines += [*markdown_table(heads, told), ""]
    for title, kind in _REMARKS.items():
        printed = remarks(suite, kind)
        lines += [f"## {title}", ""] if printed else []
        lines += [f"- {one.table.source()}, {one.row.method} ({one.row.backbone}): {text}." for one, text in printed]
        lines += [""] if printed else []
    used = dict.fromkeys([*(c.line.table for c in comparisons), *(line.table for line, _ in quoted)])
    lines += ["## Protocols", "", *(f"- {one.source()} ({one.what}): {one.protocol()}." for one in used), ""]
    papers = published().papers
    lines += ["## Papers", "", *(f"- {name}: {papers[name]}." for name in dict.fromkeys(one.paper for one in used))]
    return "\n".join(lines) + "\n"


def _ours(about: About) -> str:
    parts = [backbone_of(about)]
    if about["corpus"]:
        size = about["corpus_sentences"] or about["corpus_pairs"] or 0
        parts.append(f"{size:,} {'sentences' if about['corpus_sentences'] else 'pairs'} of {about['corpus']}")
    return ", ".join([*parts, f"{about['seeds']} seeds"] if about["seeds"] > 1 else parts)
