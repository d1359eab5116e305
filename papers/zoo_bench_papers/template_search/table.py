"""Writes the result of a template search as Markdown (in table 4's order), CSV and JSON, and prints the best."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark.report.markdown import code_block, code_span, markdown_row
from benchmark.report.write import csv_text
from zoo import __version__
from zoo.files import write_json, write_text
from zoo.progress import print_safe
from zoo_bench_papers.template_search.scores import HasSpearman, Result, spearman_of


class TemplateRow(HasSpearman):
    """A template's line in the tables; the correlation is x100."""

    stage: str
    template: str
    published: float | None
    reason: str | None
    seconds: float


@dataclass(frozen=True)
class SearchTable:
    """The results of a search, stage by stage."""

    kind: str
    conditions: dict[str, Any]
    stages: dict[str, list[Result]]
    # Spearman x100 of bert-base-uncased by template.
    published: dict[str, float]
    command: list[str]
    environment: dict[str, Any]

    def rows(self) -> list[TemplateRow]:
        """One row per template, stage by stage; within a stage the best first and those without a score last."""
        rows: list[TemplateRow] = []
        for stage, results in self.stages.items():
            for result in sorted(results, key=spearman_of, reverse=True):
                rows.append(
                    {
                        "stage": stage,
                        "template": result["template"],
                        "spearman": None if result["spearman"] is None else 100 * result["spearman"],
                        "published": self.published.get(result["template"]),
                        "reason": result["reason"],
                        "seconds": result["seconds"],
                    }
                )
        return rows

    def best(self, count: int) -> list[TemplateRow]:
        scored = [row for row in self.rows() if row["spearman"] is not None]
        return sorted(scored, key=spearman_of, reverse=True)[:count]


def _score(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"


def markdown(table: SearchTable) -> str:
    """Return the table as Markdown: the command, the stages under headings, and the reasons for n/a."""
    conditions, environment = table.conditions, table.environment
    data, backbone = conditions["data"], conditions["backbone"]
    period = "a" if conditions["representation"].endswith(" a period added") else "no"
    lines = [f"# Templates on {data['task']} dev", "", "Made by:", "", *code_block([shlex.join(table.command)]), ""]
    lines += [
        f"Spearman x100 on the first {data['pairs']} pairs of {data['task']} dev ({data['form']}): cosine of the [MASK]"
        f" states of {backbone['name']} in {conditions['precision']}, {period} period added. Published: PromptBERT,"
        " table 4 and section 4.2, bert-base-uncased on all 1500 pairs of STS-B dev.",
        "",
    ]
    best = {row["template"] for row in table.best(1)}
    rows = table.rows()
    for stage in table.stages:
        lines += [f"## {stage}", "", f"| Template | {data['task']} dev | Published |", "|:--|--:|--:|"]
        for row in (row for row in rows if row["stage"] == stage):
            score = f"**{_score(row['spearman'])}**" if row["template"] in best else _score(row["spearman"])
            published = "" if row["published"] is None else _score(row["published"])
            lines.append(markdown_row([code_span(row["template"]), score, published]))
        lines.append("")
    notes = [f"- {code_span(row['template'])}: {row['reason']}" for row in rows if row["spearman"] is None]
    if notes:
        lines += ["Not available:", "", *notes, ""]
    device = environment["gpu"] or f"{environment['cpu']}, {environment['threads']} threads"
    packages = environment["packages"]
    lines.append(
        f"zoo-bench {__version__}, torch {packages['torch']}, transformers {packages['transformers']}; {device};"
        f" scoring took {sum(row['seconds'] for row in rows):.0f} s."
    )
    return "\n".join(lines) + "\n"


def write_search(table: SearchTable, folder: Path) -> list[Path]:
    """Write <kind>.md, .csv and .json; returns their paths."""
    paths = [folder / f"{table.kind}.{ending}" for ending in ("md", "csv", "json")]
    rows = table.rows()
    write_text(paths[0], markdown(table))
    write_text(paths[1], csv_text(rows))
    write_json(
        paths[2],
        {
            "kind": table.kind,
            "command": table.command,
            "conditions": table.conditions,
            "environment": table.environment,
            "version": __version__,
            "rows": rows,
        },
    )
    return paths


def print_best(table: SearchTable, count: int = 10) -> None:
    """Print the best templates, one per line."""
    for row in table.best(count):
        print_safe(f"{_score(row['spearman']):>6}  {row['template']}", sys.stdout)
    failed = sum(row["spearman"] is None for row in table.rows())
    if failed:
        print_safe(f"{failed} without a score; the tables say why", sys.stdout)
