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
    compared = {contrast(c): c for verdict in chosen for c in verdict.deciding}.values()
    text = f"Of {counted(len(chosen), 'claim')}: {_tally([verdict.word for verdict in chosen], WORDS)}."
    if not compared:
        return text
    every = len({contrast(c) for verdict in verdicts for c in verdict.deciding})
    rates = [(f"{100 * rate:g} %", place) for place, rate in enumerate(RATES)]
    by_claim = (f"{_tally([v.corrected[place] for v in chosen])} ({rate})" for rate, place in rates)
    by_contrast = (f"at {rate}: {_tally([c.corrected[place] for c in compared])}" for rate, place in rates)
    return (
        f"{text} Corrected for {counted(every, 'contrast')} at a false discovery rate: {'; '.join(by_claim)}."
        f" Their {counted(len(compared), 'contrast')}, each by itself: {_tally([c.word for c in compared])};"
        f" corrected {'; '.join(by_contrast)}. Noise alone would reverse {BY_CHANCE * len(compared):.1f} of them."
    )


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
        by_paper: dict[str, list[list[str]]] = {}
        for verdict in selected:
            if verdict.measured:
                by_paper.setdefault(verdict.claim.paper, []).append(_cells(verdict))
        for paper, lines in by_paper.items():
            parts += [f"### {paper}", _table(_HEADER, lines)]
    if moved := changes(verdicts):
        header = ["Claim", "The papers' settings", "Tuned"]
        parts += ["## What tuning changed", changed(verdicts), _table(header, moved)]
    not_measured = _table(["Claim", "Why", "What would measure it"], list(map(_cells, _never_measured(verdicts))))
    return "\n\n".join([*parts, "## Not measured", not_measured]) + "\n"


def _never_measured(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts of the first condition on claims that no condition has measured."""
    measured = {verdict.claim.id for verdict in verdicts if verdict.measured}
    first = (verdict for verdict in verdicts if verdict.condition == verdicts[0].condition)
    return of_claims([verdict for verdict in first if verdict.claim.id not in measured])


_HEADER = ["Claim", "Printed", "Ours", "Controls", "Above 0?", "As large as printed?", "Verdict"]


def changes(verdicts: Sequence[Verdict]) -> list[list[str]]:
    return [[_name(tuned), first.text(), tuned.text()] for first, tuned in _both(verdicts)]


def changed(verdicts: Sequence[Verdict]) -> str:
    both = _both(verdicts)
    names = [_name(tuned) for first, tuned in both if first.word != tuned.word]
    return f"Of {len(both)} verdicts under both settings {len(names)} changed: {', '.join(names) or 'none'}."


def _both(verdicts: Sequence[Verdict]) -> list[tuple[Verdict, Verdict]]:
    """Verdicts under the papers' settings and tuned."""
    reached = [verdict for verdict in verdicts if verdict.deciding]
    papers = {verdict.named: verdict for verdict in reached if not verdict.at.tuned}
    return [(papers[v.named], v) for v in reached if v.at.tuned and v.named in papers]


def _table(header: list[str], lines: Sequence[list[str]]) -> str:
    return "\n".join(map(markdown_row, [header, [":--"] * len(header), *lines]))


def _name(verdict: Verdict) -> str:
    return f"`{verdict.claim.id}`" + (f" ({verdict.procedure})" if verdict.procedure else "")


def _cells(verdict: Verdict) -> list[str]:
    claim = verdict.claim
    if not verdict.measured:
        return [f"{claim.paper}: `{claim.id}`", verdict.reason, verdict.command and f"`{verdict.command}`"]
    printed = [cell.text() for cell in claim.published]
    printed += [f"{gain:+g} ({claim.where})" for gain in claim.gains if gain is not None]
    theirs = "; ".join(printed[:3] + ([counted(len(printed) - 3, "more cell")] if printed[3:] else [])) or "no number"
    controls = "; ".join(c.text() for c in verdict.controls if c.difference is not None)
    line = f" ({'within ±' if claim.kind == 'equal' else 'above -'}{claim.margin:g})" if claim.margin else ""
    text = f"{verdict.text()}: {verdict.reason}" if verdict.word == UNTESTABLE else verdict.text()
    above = verdict.above and verdict.above + line
    named = f"{claim.says} ({claim.where}) {_name(verdict)}"
    return [named, theirs, verdict.ours(), controls, above, verdict.as_large, text]


def ledger(verdicts: Sequence[Verdict]) -> list[dict[str, object]]:
    """Return the data of claims.json: by condition its counts and claims, and in the first what was never measured."""
    rest = _never_measured(verdicts)
    drawn: list[dict[str, object]] = []
    for at in dict.fromkeys(verdict.condition for verdict in verdicts):
        selected = [verdict for verdict in verdicts if verdict.condition == at]
        shown = [*(verdict for verdict in selected if verdict.measured), *(() if drawn else rest)]
        text = f"{counts(selected)} {noise(at)}"
        drawn.append({"condition": at, "counts": text, "claims": list(map(_drawn, shown))})
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
    drawn |= {"head": verdict.head(), "text": text, "corrected": verdict.corrected, "above": above}
    drawn |= {"as_large": as_large, "share": _rounded(verdict.share), "open": verdict.open, "points": points}
    return drawn | {"theirs": theirs, "ours": ours, "controls": controls}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
