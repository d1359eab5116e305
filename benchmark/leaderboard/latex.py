"""A table as LaTeX (booktabs) for \\input: parts by condition, daggers with a legend, a dash for a missing value."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from benchmark.leaderboard.columns import WORDS, Column, columns_of
from benchmark.leaderboard.conditions import (
    GROUPS,
    backbone_of,
    chosen_on,
    comparable,
    contamination,
    group,
    learned_from,
    redefined,
)
from benchmark.leaderboard.rows import Row, Table
from benchmark.leaderboard.values import Value, score_text

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "±": r"$\pm$",
    "⚠": r"\textbf{!}",
    "…": r"\ldots{}",
    "–": "--",
    "—": "---",
    "→": r"$\to$",
    "≈": r"$\approx$",
    "≥": r"$\geq$",
    "`": "",  # Markdown's code
    "-": "-{}",  # prevents ligatures: `--data` must not print as a dash
}
_SPECIAL = re.compile("[" + "".join(map(re.escape, _ESCAPES.keys() - {"-"})) + "]|-(?=-)")
NONE = "--"
_MARKS = (r"\dagger", r"\ddagger", r"\S", r"\P", r"\|", r"\ast")  # then doubled, tripled ...


def escape(text: str) -> str:
    """Escape a text for LaTeX, on one line; letters beyond Latin need XeLaTeX or LuaLaTeX."""
    return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], " ".join(text.split()))


def latex(table: Table) -> str:
    """Return a `table` environment; needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}.

    There is a part for each condition group; a row's dagger refers to its other conditions in the legend. Bold: the
    best mean of a column among several rows with the same part and dagger; nothing is bold in a trial.
    """
    columns = [column for column in columns_of(table, "latex") if column.name != "method"]
    marks = _marks(table)
    title = table.suite.title + (" — TRIAL on cut data, not comparable with anything" if table.partial else "")
    lines = [
        "% Needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}.",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{escape(title)}}}",
        f"\\begin{{tabular}}{{l{''.join('l' if column.format in WORDS else 'r' for column in columns)}}}",
        "\\toprule",
        _line(["Method", *(escape(column.head) for column in columns)]),
    ]
    for name, what in GROUPS.items():
        rows = [row for row in table.rows if group(row) == name]
        if rows:
            heading = f"\\textit{{{escape(f'{name}: {what}')}}}"
            lines += ["\\midrule", f"\\multicolumn{{{len(columns) + 1}}}{{l}}{{{heading}}} \\\\"]
            lines += [_line(cells) for cells in _part(table, columns, rows, marks)]
    lines += ["\\bottomrule", "\\end{tabular}", "", "\\smallskip", f"{{\\footnotesize {escape(_note(table))}}}"]
    legend = [f"\\par{{\\footnotesize {escape(table.legend)}}}"] if table.legend else []
    lines += [_legend(marks), *legend, *_missing(table), "\\end{table}"]
    return "\n".join(filter(None, lines[:-1])) + "\n" + lines[-1] + "\n"


def _described(row: Row) -> str:
    """Return a row's conditions except its group and its number of seeds, unless some are missing."""
    about = row.about
    parts = [
        backbone_of(about),
        about["precision"],
        learned_from(about),
        contamination(about),
        chosen_on(about),
        redefined(about),
        row.missing_seeds,
    ]
    return ", ".join([*filter(None, parts), f"protocol {about['protocol']}"])


def _marks(table: Table) -> dict[str, str]:
    """Return a mark for each distinct description of the rows' conditions, the most frequent first."""
    ordered = [name for name, _ in Counter(map(_described, table.rows)).most_common()]
    kinds = len(_MARKS)
    return {name: _MARKS[i % kinds] * (i // kinds + 1) for i, name in enumerate(ordered)}


def _part(table: Table, columns: list[Column], rows: list[Row], marks: dict[str, str]) -> Iterator[list[str]]:
    """Yield the cells of a part's rows."""
    values = [[column.of(row) for column in columns] for row in rows]
    alike = [(comparable(row), _described(row)) for row in rows]
    for row, line, mine in zip(rows, values, alike, strict=True):
        rivals = [other for other, theirs in zip(values, alike, strict=True) if theirs == mine and not table.partial]
        cells = []
        for i, (column, value) in enumerate(zip(columns, line, strict=True)):
            if isinstance(value, Value):
                cell = _cell(value, _best([other[i] for other in rivals]))
                near = row.mark and column.name == "average" and cell != NONE
                cells.append(f"{escape(row.mark)} {cell}" if near else cell)
            else:
                cells.append(escape(column.text(row)))
        yield [f"{escape(row.name)}$^{{{marks[_described(row)]}}}$", *cells]


def _best(values: list[object]) -> str | None:
    """Return the largest mean as printed; None if fewer than two rows have one."""
    means = [value.mean for value in values if isinstance(value, Value) and value.mean is not None]
    return score_text(max(means)) if len(means) > 1 else None


def _cell(value: Value, best: str | None) -> str:
    if value.mean is None:
        return NONE
    mean = score_text(value.mean)
    mean = f"\\textbf{{{mean}}}" if mean == best else mean
    return mean if value.sd is None else f"{mean} $\\pm$ {score_text(value.sd)}"


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _note(table: Table) -> str:
    means = "".join(f" {name}: mean of {', '.join(tasks)}." for name, tasks in table.suite.means.items())
    bold = " Bold: the best of the rows of one part under one mark." if not table.partial else ""
    return f"{table.suite.note} Mean ± sample standard deviation over seeds.{means}{bold}"


def _legend(marks: dict[str, str]) -> str:
    text = "; ".join(f"$^{{{mark}}}$ {escape(name)}" for name, mark in marks.items())
    return f"\\par{{\\footnotesize {text}.}}"


def _missing(table: Table) -> list[str]:
    reasons = [f"{row.name}: {note}" for row in table.rows for note in row.notes]
    if not reasons:
        return []
    return [f"\\par{{\\footnotesize {NONE}: not available. {escape('; '.join(reasons))}.}}"]
