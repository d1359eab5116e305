r"""A LaTeX table (booktabs) for \input, one or two columns wide."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from string import ascii_lowercase

from benchmark.report.columns import Column, columns_of, score_columns
from benchmark.report.conditions import GROUPS, described, group, noise_of
from benchmark.report.links import display_names
from benchmark.report.render import fill
from benchmark.report.rows import Row, Table, Value, score_text
from benchmark.report.signature import about_seeds, signature
from benchmark.stats.draws import unit_of
from benchmark.stats.marks import TIE, UNTOLD
from zoo.progress import clean_line

_ESCAPES = {
    **{sign: rf"\{sign}" for sign in "&%$#_{}"},
    **{sign: f"${sign}$" for sign in "<>|"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    '"': "''",
    "±": r"$\pm$",
    "⚠": r"\textbf{!}",
    "…": r"\ldots{}",
    "–": "--",
    "—": "---",
    "→": r"$\to$",
    "≈": r"$\approx$",
    "≥": r"$\geq$",
    "×": r"$\times$",
    "`": "",  # Markdown's code
}
_SPECIAL = re.compile("[" + "".join(map(re.escape, _ESCAPES)) + "]")
NONE = "--"
_ONE, _TWO = 219.0, 455.0  # pt: one column of a two-column article, and both
_SHAPES = (  # environment, size, spread of each task; the first that fits is taken
    ("table", "small", True),
    ("table*", "small", True),
    ("table*", "small", False),
    ("table*", "footnotesize", False),
    ("table*", "scriptsize", False),
    ("table*", "tiny", False),
)
_LINES, _POINTS_A_LETTER = 4, 5.2  # of a caption
_POINTS = {"small": 10, "footnotesize": 9, "scriptsize": 8, "tiny": 6}  # in an article of 11 pt


def escape(text: str) -> str:
    """Escape a text on a single line; letters beyond Latin need XeLaTeX or LuaLaTeX."""
    return _SPECIAL.sub(lambda match: _ESCAPES[match[0]], clean_line(text))


def _cell(text: str, marks: str = "") -> str:
    """LaTeX would take a bracket or an asterisk behind a row's end for an argument."""
    cell = escape(text)
    return (f"{{{cell[0]}}}{cell[1:]}" if cell[:1] in ("[", "*") else cell) + (f"$^{{{marks}}}$" if marks else "")


def latex(table: Table) -> str:
    r"""Return a `table` environment, or a `table*` if one column is too narrow; needs \usepackage{booktabs}.

    Each condition group has a part; its best mean is bold, its second underlined, except in a trial. Letters refer to
    conditions in the caption. If two columns are too narrow as well, only the mean of all tasks has its spread.
    """
    columns = [column for column in columns_of(table, "latex") if column.name != "method"]
    letters = _letters(table.rows)
    names = display_names(table.rows, {row.name: described(row) for row in table.rows})
    for environment, size, spread in _SHAPES:
        if _width(table.rows, names, columns, _POINTS[size] / 10, spread) <= (_ONE if environment == "table" else _TWO):
            break
    caption, beyond = _caption(table, names, _ONE if environment == "table" else _TWO)
    parts = []
    for name in GROUPS:
        if rows := [row for row in table.rows if group(row) == name]:
            best = {
                column.name: _best(rows, column) if len(rows) > 1 and not table.partial else [] for column in columns
            }
            parts.append((name, [_line(row, names[row.name], best, columns, letters, spread, size) for row in rows]))
    return fill(
        "table.tex.j2",
        signature=signature(table),
        environment=environment,
        size=size,
        caption=caption,
        notes=_notes(table, names, letters, spread, beyond),
        label=f"tab:{table.stem}",
        sides="".join("r" if column.right else "l" for column in columns),
        heads=["Method", *(_cell(column.head) for column in columns)],
        parts=parts,
    )


def _width(
    rows: Sequence[Row], names: Mapping[str, str], columns: Sequence[Column], scale: float, spread: bool
) -> float:
    """Estimate the width in points; `scale` is 1 for 10 pt, with 5.8 for a bold digit."""
    total = scale * 5.3 * max(len(names[row.name]) + 2 for row in rows)
    for column in columns:
        values = [column.of(row) for row in rows]
        texts = [score_text(v.mean) if isinstance(v, Value) and v.mean is not None else "" for v in values]
        several = any(isinstance(value, Value) and value.sd is not None for value in values)
        with_spread = 22.0 if several and (spread or column.name == "average") else 0.0
        total += scale * (5.8 * max(len(column.head), *map(len, texts)) + with_spread) + 6.0
    return total


def _best(rows: Sequence[Row], column: Column) -> list[str]:
    means = {score_text(value.mean) for row in rows if isinstance(value := column.of(row), Value) and value.mean}
    return sorted(means, key=float, reverse=True)[:2]


def _line(
    row: Row,
    name: str,
    best: Mapping[str, Sequence[str]],
    columns: Sequence[Column],
    letters: dict[str, str],
    spread: bool,
    size: str,
) -> list[str]:
    """`best` has, by column, the two best means of the row's part."""
    marks = ",".join(filter(None, [letters[described(row)], _SIGNS[row.mark] + _SIGNS[row.against]]))
    cells = [_cell(name, marks)]
    for column in columns:
        value = column.of(row)
        if not isinstance(value, Value):
            cells.append(_cell(column.text(row)))
            continue
        if value.mean is None:
            cells.append(NONE)
            continue
        mean = score_text(value.mean)
        places = best[column.name]
        style = {0: r"\textbf", 1: r"\underline"}.get(places.index(mean) if mean in places else -1)
        text = f"{style}{{{mean}}}" if style else mean
        if value.sd is not None and (spread or column.name == "average"):
            text += rf"{{\{'scriptsize' if size == 'small' else 'tiny'}$\pm${score_text(value.sd)}}}"
        cells.append(text)
    return cells


_SIGNS = {"": "", TIE: r"\approx", UNTOLD: "?", "↑": r"\dagger", "↓": r"\ddagger"}


def _letters(rows: Sequence[Row]) -> dict[str, str]:
    """Return a letter for each distinct description of conditions; the most frequent has none."""
    every = [described(row) for name in GROUPS for row in rows if group(row) == name]
    ordered = dict.fromkeys([Counter(every).most_common(1)[0][0], *every])
    names = ["", *ascii_lowercase, *map("".join, product(ascii_lowercase, repeat=2))]
    return dict(zip(ordered, names, strict=False))


def _caption(table: Table, names: Mapping[str, str], width: float) -> tuple[str, list[str]]:
    """Return a caption of at most four lines, and the sentences beyond it."""
    learned = table.learned.partition("\n")[0]
    for row in table.rows:
        shown_name = names[row.name].replace("\\", r"\\")
        learned = re.sub(rf"(?<!\S){re.escape(row.name)}(?=[\s,])", shown_name, learned)
    shown = [f"{re.sub(r' [(]--limit.*?[)]', '', table.title)}."]
    beyond = [sentence for sentence in re.split(r" (?=The best control, )", learned) if sentence]
    while beyond and _POINTS_A_LETTER * len(" ".join(["Table 1:", *shown, beyond[0]])) <= _LINES * width:
        shown.append(beyond.pop(0))
    return escape(" ".join(shown)), beyond


def _notes(table: Table, names: Mapping[str, str], letters: dict[str, str], spread: bool, beyond: Sequence[str]) -> str:
    of_tasks = "" if spread else " (of the tasks in the other files)"
    means = [f"{column.help}." for column in score_columns(table.suite) if column.name in table.suite.means]
    sentences = [*beyond, table.suite.note, *means, about_seeds(table.rows)]
    if any(value.sd is not None for row in table.rows for value in (row.average, *row.values.values())):
        sentences.append(f"±: standard deviation over seeds{of_tasks}.")
    if not table.partial:
        sentences.append("Bold: the best of a part; underlined: the second.")
    marks = {row.mark for row in table.rows}
    if TIE in marks:
        sentences.append("≈: tied for the best (95%).")
    if UNTOLD in marks:
        sentences.append("?: undecided, for want of seeds.")
    known = [row for row in table.rows if row.among_best is not None]
    if len(known) > 1:
        sentences.append(noise_of(known, unit_of(row.records for row in table.rows)))
    for row in table.rows:
        if row.name == table.baseline:
            sentences.append(table.against.replace(f" {row.name}", f" {names[row.name]}", 2))
    text = escape(" ".join(filter(None, sentences)).replace("x100", "×100"))
    text = text.replace("↑", r"$^{\dagger}$").replace("↓", r"$^{\ddagger}$")
    rest = "Rows without a letter" if len(letters) > 1 else "All rows"
    of = [f"{f'$^{{{letter}}}$' if letter else f'{rest}:'} {escape(name)}" for name, letter in letters.items()]
    return f"{text} {'; '.join(of)}."
