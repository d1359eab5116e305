"""The picture of claims: each comparison's interval beside the paper's difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from zoo.errors import UsageError
from zoo_bench_papers.answers import CONFIRMED, REVERSED, SMALLER, UNDECIDED, WORDS
from zoo_bench_papers.comparisons import Compared
from zoo_bench_papers.ledger import noise
from zoo_bench_papers.verdicts import Verdict

_COLOURS = {CONFIRMED: "#1a7f37", SMALLER: "#a65d00", REVERSED: "#b3261e", UNDECIDED: "#6b6b6b"}
# An arrow marks what lies outside these points on either side of 0.
_WIDE = 12.0


def forest(verdicts: Sequence[Verdict], path: Path, most: int = 80) -> None:
    """Draw the claims of the first decided condition, a line for each comparison, by paper and word.

    A bar is our interval, a hollow circle the printed difference. Raises UsageError for a suffix other than .svg, .png
    or .pdf, and if nothing was compared.
    """
    _check_suffix(path)
    decided = (verdict for verdict in verdicts if verdict.deciding and verdict.condition == verdicts[0].condition)
    reached = sorted(decided, key=lambda of: (of.claim.paper, WORDS.index(of.word), of.claim.id))
    lines = [(verdict, c) for verdict in reached for c in verdict.deciding][:most]
    at = verdicts[0].condition if verdicts else "a condition"
    if not lines:
        raise UsageError(f"--plot {path}: no claim was measured under {at}.")
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(9.5, 1.5 + 0.27 * len(lines)), layout="constrained")
    axes = figure.subplots()
    reaches = sorted(max(abs(value) for value in (c.low, c.high, c.printed or 0.0)) for _, c in lines)
    edge = min(_WIDE, 1.1 * reaches[int(0.9 * len(reaches))])
    for place, (_, c) in enumerate(lines):
        _draw(axes, c, place, edge)
    axes.axvline(0, color="black", linewidth=0.6)
    names = [verdict.claim.id for verdict, _ in lines]
    first = [name if i == 0 or names[i - 1] != name else "" for i, name in enumerate(names)]
    ticks = [f"{name}   {c.a} - {c.b}, {c.on}" for name, (_, c) in zip(first, lines, strict=True)]
    axes.set_yticks(range(len(lines)), ticks, fontsize=7)
    axes.secondary_yaxis("right").set_yticks(range(len(lines)), [c.word for _, c in lines], fontsize=7)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_xlim(-edge, edge)
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.set_xlabel(f"difference in points with its 95% interval; an arrow is beyond the edge\n{noise(at)}", fontsize=8)
    papers = ", ".join(dict.fromkeys(verdict.claim.paper for verdict, _ in lines))
    scale = ", ".join(dict.fromkeys(verdict.scale for verdict, _ in lines if verdict.scale))
    axes.set_title(f"Claims of {papers}, {scale}\n{at}", fontsize=9)
    used = {c.word for _, c in lines}
    legend = [
        Line2D([], [], color=colour, linewidth=2, label=word) for word, colour in _COLOURS.items() if word in used
    ]
    legend.append(Line2D([], [], color="black", marker="o", markerfacecolor="white", linestyle="", label="printed"))
    if any(c.line for _, c in lines):
        legend.append(Line2D([], [], color="black", marker="|", linestyle="", label="margin"))
    figure.legend(handles=legend, loc="outside lower center", ncols=6, fontsize=7, frameon=False)
    figure.savefig(path, dpi=150)


def beside(verdicts: Sequence[Verdict], row: str, path: Path) -> None:
    """Draw "Does it beat simcse?": every method claimed against `row` on the STS average, a line each.

    The best stands first. A bar is our 95 % interval, a tick our difference, a hollow circle the paper's gain. Raises
    UsageError as `forest` does, and if no claim compares a measured method with `row`.
    """
    _check_suffix(path)
    methods: dict[str, Compared] = {}
    for verdict in verdicts:
        for c in verdict.deciding if verdict.condition == verdicts[0].condition else ():
            if c.on == "sts" and c.b == row:
                methods.setdefault(c.a, c)
            elif c.on == "sts" and c.a == row:
                methods.setdefault(c.b, _turned(c))
    if not methods:
        raise UsageError(f"--beside {row}: no claim on the STS average compares a measured method with it.")
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    lines = sorted(((n, c) for n, c in methods.items() if ":" not in n), key=lambda line: -(line[1].difference or 0.0))
    figure = Figure(figsize=(7.5, 1.4 + 0.3 * len(lines)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color="black", linewidth=0.8)
    for place, (_, c) in enumerate(lines):
        colour = "#1a7f37" if c.low > 0 else "#b3261e" if c.high < 0 else "#6b6b6b"
        axes.plot([c.low, c.high], [place, place], color=colour, linewidth=5, solid_capstyle="butt", alpha=0.55)
        axes.plot(c.difference or 0.0, place, "|", color=colour, markersize=11, markeredgewidth=2)
        if c.printed is not None:
            axes.plot(c.printed, place, "o", color="black", markersize=6, markerfacecolor="white")
    axes.set_yticks(range(len(lines)), [name for name, _ in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    at = verdicts[0].condition
    axes.set_xlabel(f"points above {row} on the mean of the seven STS tasks\n{noise(at)}", fontsize=8)
    figure.suptitle(f"Does it beat {row}?", fontsize=13, fontweight="bold")
    share = max((c.share for _, c in lines if c.share is not None), default=None)
    trained = "" if share is None else f"; at most {100 * share:.2g} % of the papers' updates"
    axes.set_title(f"{verdicts[0].condition}{trained}", fontsize=8, color="#444444")
    names = {"#1a7f37": "yes", "#6b6b6b": "undecided", "#b3261e": "no"}
    legend = [Line2D([], [], color=colour, linewidth=5, alpha=0.55, label=word) for colour, word in names.items()]
    legend.append(Line2D([], [], color="black", marker="o", markerfacecolor="white", linestyle="", label="its paper"))
    figure.legend(handles=legend, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)


def _turned(c: Compared) -> Compared:
    printed = None if c.printed is None else -c.printed
    return replace(c, a=c.b, b=c.a, difference=-(c.difference or 0.0), low=-c.high, high=-c.low, printed=printed)


def _check_suffix(path: Path) -> None:
    if path.suffix not in (".svg", ".png", ".pdf"):
        raise UsageError(f"--plot {path}: the name ends with .svg, .png or .pdf.")


def _draw(axes: Any, c: Compared, place: int, edge: float) -> None:
    colour = _COLOURS[c.word]
    low, high = (min(max(value, -edge), edge) for value in (c.low, c.high))
    axes.plot([low, high], [place, place], color=colour, linewidth=2, solid_capstyle="butt")
    if abs(c.difference or 0.0) < edge:
        axes.plot(c.difference or 0.0, place, "|", color=colour, markersize=9)
    for value, edge_colour, fill in ((c.low, colour, colour), (c.high, colour, colour), (c.printed, "black", "white")):
        if value is not None and abs(value) > edge:
            marker, at = (">", edge) if value > 0 else ("<", -edge)
            axes.plot(at, place, marker, color=edge_colour, markersize=5, markerfacecolor=fill, clip_on=False)
    if c.printed is not None and abs(c.printed) <= edge:
        axes.plot(c.printed, place, "o", color="black", markersize=4, markerfacecolor="white")
    if c.line:
        axes.plot(c.line, place, "|", color="black", markersize=7)
