"""A table as LaTeX (booktabs), to be \\input: escaped, the best values bold, a dash where there is none."""

from __future__ import annotations

import re

from benchmark.leaderboard.table import Row, Table, Value

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
    "`": "",  # Markdown's code
    "-": "-{}",  # of several: `--data` is no dash
}
_SPECIAL = re.compile("[" + "".join(map(re.escape, _ESCAPES.keys() - {"-"})) + "]|-(?=-)")
NONE = "--"


def escape(text: str) -> str:
    """Return text as LaTeX prints it, on one line; letters beyond Latin need XeLaTeX or LuaLaTeX."""
    return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], " ".join(text.split()))


def latex(table: Table) -> str:
    """Return a `table` environment; needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}.

    The best mean of a column is bold where all rows are of one protocol and no trial: elsewhere there is no best.
    """
    columns = [*table.suite.columns, "Avg."]
    values = [[*(row.values[task] for task in table.suite.tasks), row.average] for row in table.rows]
    comparable = not table.partial and len({row.about["protocol"] for row in table.rows}) == 1
    best = [_best([line[i] for line in values]) if comparable else None for i in range(len(columns))]
    title = table.suite.title + (" — TRIAL on cut data, not comparable with anything" if table.partial else "")
    note = f"{table.suite.note} Mean ± sample standard deviation over seeds."
    lines = [
        "% Needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}.",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{escape(title)}}}",
        f"\\begin{{tabular}}{{l{'r' * len(columns)}}}",
        "\\toprule",
        _line(["Method", *map(escape, columns)]),
        "\\midrule",
        *(_line(_cells(row, line, best)) for row, line in zip(table.rows, values, strict=True)),
        "\\bottomrule",
        "\\end{tabular}",
        "",
        "\\smallskip",
        f"{{\\footnotesize {escape(note)}}}",
        *_missing(table),
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _best(values: list[Value]) -> str | None:
    means = [value.mean for value in values if value.mean is not None]
    return f"{max(means):.2f}" if means else None


def _cells(row: Row, values: list[Value], best: list[str | None]) -> list[str]:
    return [escape(row.name), *(_cell(value, top) for value, top in zip(values, best, strict=True))]


def _cell(value: Value, best: str | None) -> str:
    if value.mean is None:
        return NONE
    mean = f"{value.mean:.2f}"
    mean = f"\\textbf{{{mean}}}" if mean == best else mean
    return mean if value.sd is None else f"{mean} $\\pm$ {value.sd:.2f}"


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _missing(table: Table) -> list[str]:
    reasons = [f"{row.name}: {note}" for row in table.rows for note in row.notes]
    if not reasons:
        return []
    return ["", f"{{\\footnotesize {NONE}: not available. {escape('; '.join(reasons))}.}}"]
