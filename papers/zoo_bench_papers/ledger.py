"""The papers' claims with their verdicts as text, as the page's data and as a forest plot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
from msgspec import structs

from benchmark.report.markdown import markdown_row
from benchmark.stats.mcb import LEVEL
from zoo.errors import UsageError
from zoo_bench_papers.verdicts import HOLDS, NOT_MEASURED, REVERSED, SMALL, UNTESTABLE, WORDS, Compared, Verdict


def of_claims(found: Sequence[Verdict]) -> list[Verdict]:
    """Return a verdict for each claim and condition: that of the first procedure with one."""
    chosen: dict[tuple[str, str], Verdict] = {}
    for one in found:
        key = one.condition, one.claim.id
        if key not in chosen or (chosen[key].verdict == NOT_MEASURED and one.verdict != NOT_MEASURED):
            chosen[key] = one
    return list(chosen.values())


def counts(found: Sequence[Verdict]) -> str:
    """Return "Of 200 claims, small-scale: holds here 5 ... Of their 90 contrasts ..."; each counts once."""
    chosen = of_claims(found)
    by = Counter(one.verdict for one in chosen)
    contrasts = {(c.a, c.b, c.on): c for one in chosen for c in one.told}.values()
    sides = Counter(_side(one) for one in contrasts)
    scale = f", {SMALL}" if any(one.small for one in chosen if one.measured) else ""
    told = ", ".join(f"{word} {by[word]}" for word in WORDS)
    each = ", ".join(f"{sides[side]} {side}" for side in _SIDES)
    return f"Of {len(chosen)} claims{scale}: {told}. Of their {len(contrasts)} contrasts, each by itself: {each}"


_SIDES = "as claimed", "the other way", "not told apart"


def _side(one: Compared) -> str:
    return _SIDES[0] if one.holds < LEVEL else _SIDES[1] if one.reversed < LEVEL else _SIDES[2]


def markdown(found: Sequence[Verdict]) -> str:
    """Return the claims' page: a table for each condition and paper, what tuning changed, then what is not measured."""
    parts = [
        "# The papers' claims",
        "Theirs: the printed difference. Ours: the difference in points, with its 95% interval. p: of the claim by"
        " itself, then by Holm's procedure for all measured claims of its paper, which decides the verdict."
        " Each claim with its conditions is in configs/claims/ under its name; docs/claims.md explains the words.",
    ]
    for at in dict.fromkeys(one.condition for one in found):
        mine = [one for one in found if one.condition == at]
        parts += [f"## {at}", f"{counts(mine)}."]
        for paper in dict.fromkeys(one.claim.paper for one in mine if one.measured):
            lines = [_cells(one) for one in mine if one.claim.paper == paper and one.measured]
            parts += [f"### {paper}", _table(["Claim", "Theirs", "Ours", "Controls", "p", "Holm", "Verdict"], lines)]
    if moved := changes(found):
        parts += ["## What tuning changed", changed(found), _table(["Claim", "The papers' settings", "Tuned"], moved)]
    measured = {one.claim.id for one in found if one.measured}
    rest = [one for one in found if one.claim.id not in measured and one.condition == found[0].condition]
    chosen = of_claims(rest)
    not_measured = _table(["Claim", "Why", "What would measure it"], list(map(_cells, chosen)))
    return "\n\n".join([*parts, "## Not measured", not_measured]) + "\n"


def changes(found: Sequence[Verdict]) -> list[list[str]]:
    """Return the verdicts told under the papers' and under tuned settings: claim, first, second."""
    told = [one for one in found if one.told]
    papers = {(one.claim.id, one.procedure): one for one in told if "tuned" not in one.condition}
    pairs = ((papers.get((one.claim.id, one.procedure)), one) for one in told if "tuned" in one.condition)
    return [[_name(one), first.text(), one.text()] for first, one in pairs if first is not None]


def changed(found: Sequence[Verdict]) -> str:
    """Return how many of the verdicts under both settings are other words, by name."""
    both = changes(found)
    bare = [[text.removeprefix(f"{SMALL}: ").split(";")[0].split(" on ")[0] for text in line[1:]] for line in both]
    names = [line[0] for line, (first, second) in zip(both, bare, strict=True) if first != second]
    return f"Of {len(both)} verdicts under both settings {len(names)} changed: {', '.join(names) or 'none'}."


def _table(header: list[str], lines: Sequence[list[str]]) -> str:
    return "\n".join(map(markdown_row, [header, [":--"] * len(header), *lines]))


def _name(one: Verdict) -> str:
    return f"`{one.claim.id}`" + (f" ({one.procedure})" if one.procedure else "")


def _cells(one: Verdict) -> list[str]:
    """Return a line of the tables: of a claim's verdict if it is measured, else of what would measure it."""
    if not one.measured:
        return [f"{one.claim.paper}: `{one.claim.id}`", one.reason, one.command and f"`{one.command}`"]
    printed = [cell.text() for cell in one.claim.published]
    theirs = "; ".join([*printed[:3], *([f"{len(printed) - 3} more cells"] if printed[3:] else [])]) or "no number"
    controls = "; ".join(c.text() for c in one.controls if c.difference is not None)
    p = ["" if value is None else f"{value:.4f}" for value in (one.p, one.p_holm)]
    text = f"{one.text()}: {one.reason}" if one.verdict == UNTESTABLE else one.text()
    return [f"{one.claim.says} ({one.claim.where}) {_name(one)}", theirs, one.ours(), controls, *p, text]


def ledger(found: Sequence[Verdict]) -> list[dict[str, object]]:
    """Return what the page shows of the claims: for each condition its claims, the measured ones first."""
    conditions = list(dict.fromkeys(one.condition for one in found))
    measured = {one.claim.id for one in found if one.measured}
    drawn: list[dict[str, object]] = []
    for at in conditions:
        rest = [one for one in found if one.claim.id not in measured and at == conditions[0] == one.condition]
        shown = [*(one for one in found if one.condition == at and one.measured), *of_claims(rest)]
        drawn.append({"condition": at, "claims": [_drawn(one) for one in shown]})
    return drawn


def _drawn(one: Verdict) -> dict[str, object]:
    said: dict[str, object] = {
        "paper": one.claim.paper,
        "id": one.claim.id,
        "says": one.claim.says,
        "where": one.claim.where,
    }
    said |= {"procedure": one.procedure, "verdict": one.verdict}
    if not one.measured:
        return {**said, "reason": one.reason}
    _, theirs, ours, controls, p, holm, text = _cells(one)
    points = [
        [round(value, 3) for value in (c.difference, c.low, c.high)] for c in one.told if c.difference is not None
    ]
    said |= {"points": points, "printed": theirs_of(one)}
    return {**said, "theirs": theirs, "ours": ours, "controls": controls, "p": p, "holm": holm, "text": text}


def theirs_of(one: Verdict) -> float | None:
    """Return the first printed difference, which stands beside the first contrast."""
    return next((round(cell.value, 3) for cell in one.claim.published if cell.b is not None), None)


def as_dict(one: Verdict) -> dict[str, object]:
    """Return a verdict as plain values, with its claim."""
    cells = tuple({"text": cell.text(), "value": cell.value} for cell in one.claim.published)
    plain: dict[str, object] = msgspec.to_builtins(replace(one, claim=structs.replace(one.claim, published=cells)))
    return {**plain, "text": one.text()}


def forest(found: Sequence[Verdict], path: Path, most: int = 60) -> None:
    """Draw the told claims of the first condition: theirs a point, ours an interval; grouped by paper and verdict.

    Raises UsageError for a suffix that is not .svg, .png or .pdf, and where nothing is told.
    """
    if path.suffix not in (".svg", ".png", ".pdf"):
        raise UsageError(f"--plot {path}: the name ends with .svg, .png or .pdf.")
    shown = sorted((one for one in found if one.told and one.condition == found[0].condition), key=_order)[:most]
    if not shown:
        raise UsageError(
            f"--plot {path}: no claim was measured under {found[0].condition if found else 'a condition'}."
        )
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.2 + 0.27 * len(shown)), layout="constrained")
    axes = figure.subplots()
    for place, one in enumerate(shown):
        colour = {HOLDS: "#1a7f37", REVERSED: "#b3261e"}.get(one.verdict, "#6b6b6b")
        c = one.told[0]
        axes.plot([c.low, c.high], [place, place], color=colour, linewidth=2, solid_capstyle="butt")
        axes.plot(c.difference or 0.0, place, "|", color=colour, markersize=9)
        if (theirs := theirs_of(one)) is not None:
            axes.plot(theirs, place, "o", color="black", markersize=4, markerfacecolor="white")
    axes.axvline(0, color="black", linewidth=0.6)
    names = [f"{one.claim.paper}: {one.claim.id}{' (code)' if 'code' in one.procedure else ''}" for one in shown]
    axes.set_yticks(range(len(shown)), names, fontsize=7)
    verdict = [f"{SMALL}: {one.verdict}" if one.small else one.verdict for one in shown]
    axes.secondary_yaxis("right").set_yticks(range(len(shown)), verdict, fontsize=7)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xscale("symlog", linthresh=2)
    axes.set_xticks(_TICKS, [f"{tick:+d}" for tick in _TICKS])
    axes.set_xlabel(
        "points, logarithmic beyond 2; bar: ours with its 95% interval, first contrast; circle: the paper's"
    )
    axes.set_title(found[0].condition, fontsize=9)
    figure.savefig(path, dpi=150)


_TICKS = -20, -10, -5, -2, -1, 0, 1, 2, 5, 10, 20


def _order(one: Verdict) -> tuple[str, int, str]:
    return one.claim.paper, WORDS.index(one.verdict), one.claim.id
