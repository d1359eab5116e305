"""The papers' claims with their verdicts: as text and as the data of claims.json, shown by the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from benchmark.report.markdown import markdown_row
from benchmark.stats.contained import NOT_TUNED, ONE_STUDY, contained
from zoo.progress import counted
from zoo_bench_papers.answers import NOT_MEASURED, UNTESTABLE, WORDS
from zoo_bench_papers.corrected import BY_CHANCE, RATES, contrast
from zoo_bench_papers.verdicts import Verdict


def of_claims(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """A verdict for each claim and condition, of the first procedure that has it."""
    chosen: dict[tuple[str, str], Verdict] = {}
    for verdict in verdicts:
        key = verdict.condition, verdict.claim.id
        if key not in chosen or (chosen[key].word == NOT_MEASURED and verdict.word != NOT_MEASURED):
            chosen[key] = verdict
    return list(chosen.values())


def counts(verdicts: Sequence[Verdict]) -> str:
    """Text such as "Of 200 claims: confirmed 5 ... Their 90 contrasts, each by itself: ..."; each counts once."""
    chosen = of_claims(verdicts)
    compared = {contrast(c): c for one in chosen for c in one.deciding}.values()
    lines = [f"Of {counted(len(chosen), 'claim')}: {_tally([one.word for one in chosen], WORDS)}."]
    if compared:
        every = len({contrast(c) for one in verdicts for c in one.deciding})
        rates = [f"{100 * rate:g} %" for rate in RATES]
        some = (f"{_tally([one.corrected[i] for one in chosen])} ({rate})" for i, rate in enumerate(rates))
        lines.append(f"Corrected for {counted(every, 'contrast')} at a false discovery rate: {'; '.join(some)}.")
        some = (f"at {rate}: {_tally([c.corrected[i] for c in compared])}" for i, rate in enumerate(rates))
        lines.append(
            f"Their {counted(len(compared), 'contrast')}, each by itself: {_tally([c.word for c in compared])};"
            f" corrected {'; '.join(some)}. Noise alone would reverse {BY_CHANCE * len(compared):.1f} of them."
        )
    return " ".join(lines)


def _tally(words: Sequence[str], shown: Sequence[str] = WORDS[:4]) -> str:
    by = Counter(words)
    return ", ".join(f"{word} {by[word]}" for word in shown)


def noise(at: str) -> str:
    """Return which noise the intervals of a condition contain."""
    return contained("pairs", tuning=ONE_STUDY if "tuned (" in at else NOT_TUNED)


def markdown(verdicts: Sequence[Verdict]) -> str:
    parts = [
        "# The papers' claims",
        "Printed: the paper's difference. Ours: the difference in points with its 95% interval, which decides the"
        " verdict: is it above 0, and may it be as large as printed? Each claim with its conditions is in"
        " configs/claims/ under its name; docs/claims.md explains the words.",
    ]
    for at in dict.fromkeys(verdict.condition for verdict in verdicts):
        selected = [verdict for verdict in verdicts if verdict.condition == at]
        parts += [f"## {at}", f"{counts(selected)} {noise(at)}"]
        for paper in dict.fromkeys(one.claim.paper for one in selected if one.measured):
            lines = [_cells(one) for one in selected if one.claim.paper == paper and one.measured]
            parts += [f"### {paper}", _table(_HEADER, lines)]
    if moved := changes(verdicts):
        parts += [
            "## What tuning changed",
            changed(verdicts),
            _table(["Claim", "The papers' settings", "Tuned"], moved),
        ]
    measured = {verdict.claim.id for verdict in verdicts if verdict.measured}
    rest = [
        verdict
        for verdict in verdicts
        if verdict.claim.id not in measured and verdict.condition == verdicts[0].condition
    ]
    chosen = of_claims(rest)
    not_measured = _table(["Claim", "Why", "What would measure it"], list(map(_cells, chosen)))
    return "\n\n".join([*parts, "## Not measured", not_measured]) + "\n"


_HEADER = ["Claim", "Printed", "Ours", "Controls", "Above 0?", "As large as printed?", "Verdict"]


def changes(verdicts: Sequence[Verdict]) -> list[list[str]]:
    both = _both(verdicts)
    return [[_name(one), first.text(), one.text()] for first, one in both]


def changed(verdicts: Sequence[Verdict]) -> str:
    both = _both(verdicts)
    names = [_name(one) for first, one in both if first.word != one.word]
    return f"Of {len(both)} verdicts under both settings {len(names)} changed: {', '.join(names) or 'none'}."


def _both(verdicts: Sequence[Verdict]) -> list[tuple[Verdict, Verdict]]:
    reached = [verdict for verdict in verdicts if verdict.deciding]
    papers = {(one.claim.id, one.procedure): one for one in reached if "tuned" not in one.condition}
    pairs = ((papers.get((one.claim.id, one.procedure)), one) for one in reached if "tuned" in one.condition)
    return [(first, one) for first, one in pairs if first is not None]


def _table(header: list[str], lines: Sequence[list[str]]) -> str:
    return "\n".join(map(markdown_row, [header, [":--"] * len(header), *lines]))


def _name(verdict: Verdict) -> str:
    return f"`{verdict.claim.id}`" + (f" ({verdict.procedure})" if verdict.procedure else "")


def _cells(verdict: Verdict) -> list[str]:
    if not verdict.measured:
        return [
            f"{verdict.claim.paper}: `{verdict.claim.id}`",
            verdict.reason,
            verdict.command and f"`{verdict.command}`",
        ]
    printed = [cell.text() for cell in verdict.claim.published]
    printed += [f"{gain:+g} ({verdict.claim.where})" for gain in verdict.claim.gains if gain is not None]
    theirs = (
        "; ".join([*printed[:3], *([counted(len(printed) - 3, "more cell")] if printed[3:] else [])]) or "no number"
    )
    controls = "; ".join(c.text() for c in verdict.controls if c.difference is not None)
    line = (
        f"{verdict.above} ({'within ±' if verdict.claim.kind == 'equal' else 'above -'}{verdict.claim.margin:g})"
        if verdict.claim.margin and verdict.above
        else verdict.above
    )
    text = f"{verdict.text()}: {verdict.reason}" if verdict.word == UNTESTABLE else verdict.text()
    return [
        f"{verdict.claim.says} ({verdict.claim.where}) {_name(verdict)}",
        theirs,
        verdict.ours(),
        controls,
        line,
        verdict.as_large,
        text,
    ]


def ledger(verdicts: Sequence[Verdict]) -> list[dict[str, object]]:
    conditions = list(dict.fromkeys(verdict.condition for verdict in verdicts))
    measured = {verdict.claim.id for verdict in verdicts if verdict.measured}
    drawn: list[dict[str, object]] = []
    for at in conditions:
        rest = [
            verdict
            for verdict in verdicts
            if verdict.claim.id not in measured and at == conditions[0] == verdict.condition
        ]
        shown = [*(verdict for verdict in verdicts if verdict.condition == at and verdict.measured), *of_claims(rest)]
        text = f"{counts([verdict for verdict in verdicts if verdict.condition == at])} {noise(at)}"
        drawn.append({"condition": at, "counts": text, "claims": [_drawn(one) for one in shown]})
    return drawn


def _drawn(verdict: Verdict) -> dict[str, object]:
    claim = verdict.claim
    drawn: dict[str, object] = {"paper": claim.paper, "id": claim.id, "says": claim.says, "where": claim.where}
    drawn |= {"procedure": verdict.procedure, "verdict": verdict.word}
    drawn |= {"margin": claim.margin, "margin_from": claim.margin_from} if claim.margin else {}
    if not verdict.measured:
        return {**drawn, "reason": verdict.reason}
    _, theirs, ours, controls, above, as_large, text = _cells(verdict)
    points = [
        {"a": c.a, "b": c.b, "on": c.on, "verdict": c.word}
        | {key: _rounded(getattr(c, key)) for key in ("difference", "low", "high", "line", "printed", "share")}
        for c in verdict.deciding
    ]
    drawn |= {
        "head": verdict.head(),
        "text": text,
        "corrected": verdict.corrected,
        "above": above,
        "as_large": as_large,
        "share": _rounded(verdict.share),
    }
    return drawn | {"open": verdict.open, "points": points, "theirs": theirs, "ours": ours, "controls": controls}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
