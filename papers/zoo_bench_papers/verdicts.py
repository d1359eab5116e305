"""Verdicts on the papers' claims from the pair scores of a results folder; docs/claims.md says how."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.records.folder import Records
from benchmark.records.record import Record
from benchmark.report.published import plain_backbone
from benchmark.stats.draws import compared, finished, pearson_sample
from benchmark.stats.mcb import LEVEL, POWER, differences
from benchmark.tasks.suites import all_suites
from zoo_bench_papers.claim_rows import Condition, Folder, MeasuredRow
from zoo_bench_papers.claims import CODE, TEXT, Claim, all_claims
from zoo_bench_papers.properties import OF_UNTRAINED, RULES, Measured

HOLDS, REVERSED, MIXED, NOT_TOLD = "holds here", "reversed here", "mixed", "not told apart"
UNTESTABLE, NOT_MEASURED = "untestable here", "not measured"
WORDS = (HOLDS, REVERSED, MIXED, NOT_TOLD, UNTESTABLE, NOT_MEASURED)
SMALL = "small-scale"

_EQUAL = 1e-11  # the difference that rounding can leave between equal scores
_SHARE = 0.05  # of the paper's updates: below, a verdict is a small-scale one
_DIMENSIONS = 300  # of the papers' word vectors
# Settings that are to be equal on both sides, or named.
_SETTINGS = {"pooler": "pooling", "temperature": "temperature", "eval_every": "evaluation interval"}


@dataclass(frozen=True)
class Compared:
    """A contrast on one place: a - b in points with its 95% interval, or the reason why it is not measured.

    `holds` and `reversed` are the p-values of the two directions; `error` and `df` are the difference's standard error
    and its degrees of freedom. `untestable`: why the measured difference says nothing about the claim.
    """

    a: str
    b: str
    on: str
    difference: float | None = None
    low: float = 0.0
    high: float = 0.0
    holds: float = 1.0
    reversed: float = 1.0
    error: float = 0.0
    df: float = 1.0
    reason: str = ""
    untestable: str = ""
    differs: str = ""  # settings other than the method that differ between the sides
    small: bool = False  # another backbone than the paper's, or few of its updates
    share: float | None = None  # the least share of the paper's updates

    @property
    def told(self) -> bool:
        """Whether it was measured and says something about its claim."""
        return self.difference is not None and not self.untestable

    def seen(self, claims: int) -> float:
        """Return the difference found in 80% of repetitions, if all of a paper's claims had as small a p (Holm)."""
        from scipy.special import stdtrit

        return self.error * float(stdtrit(self.df, 1 - LEVEL / 2 / max(claims, 1)) + stdtrit(self.df, POWER))

    def text(self) -> str:
        """Return "simcse - cls, sts: +3.54 (+2.82 to +4.25)", and what else differs."""
        differs = f" [{self.differs}]" if self.differs else ""
        return f"{self.a} - {self.b}, {self.on}: {self.difference:+.2f} ({self.low:+.2f} to {self.high:+.2f}){differs}"


@dataclass
class Verdict:
    """What a results folder says of a claim under one condition; `p_holm` is corrected for the paper's other claims."""

    claim: Claim
    condition: str
    procedure: str = ""  # whose rows: of the released code or of the paper's text; "" where they are the same
    compared: list[Compared] = field(default_factory=list)
    controls: list[Compared] = field(default_factory=list)
    p: float | None = None
    p_holm: float | None = None
    steps: int = 1  # by how many p was multiplied (Holm)
    verdict: str = NOT_MEASURED
    reason: str = ""
    command: str = ""
    found: str = ""  # what a property's function found
    small: bool = True

    @property
    def measured(self) -> bool:
        """Whether anything of the claim was measured."""
        return bool(self.found or any(one.difference is not None for one in self.compared))

    @property
    def told(self) -> list[Compared]:
        """The contrasts that decide the verdict."""
        return [one for one in self.compared if one.told]

    def ours(self) -> str:
        """Return the measured contrasts with their differences and intervals, or what analyses found."""
        return self.found or "; ".join(one.text() for one in self.compared if one.difference is not None)

    def text(self) -> str:
        """Return the verdict with its scale, on how many contrasts, what differs, and what could have been seen."""
        mine = self.told
        scale = f"{SMALL}: " if self.small and self.verdict in (HOLDS, REVERSED, MIXED, NOT_TOLD) else ""
        if self.found or not mine:
            return scale + self.verdict
        some = f" on {len(mine)} of {len(self.compared)} contrasts" if len(mine) < len(self.compared) else ""
        seen = f"; {max(c.seen(self.steps) for c in mine):.2f} could have been seen" if self.verdict == NOT_TOLD else ""
        if self.verdict == NOT_MEASURED:
            some = f": {SMALL}: holds here{some}" if self.small else f": holds here{some}"
        shares = [one.share for one in mine if one.share is not None]
        share = f"; {100 * min(shares):.2g}% of the paper's updates" if shares else ""
        unlike = dict.fromkeys(name for one in mine for name in _SETTINGS.values() if name in one.differs)
        return scale + self.verdict + some + share + seen + (f"; unequal {', '.join(unlike)}" if unlike else "")


class _Place:
    """The differences between all rows that claims compare on a suite or on tasks, in one metric."""

    def __init__(
        self, folder: Folder, name: str, tasks: Sequence[str], metric: str, pairs: list[Any], at: Condition
    ) -> None:
        self.name = name
        rows = {row: folder.row(row, tasks, at) for pair in pairs for row in pair}
        self.reasons = {row: one for row, one in rows.items() if isinstance(one, str)}
        used = dict.fromkeys(row for pair in pairs if not self.reasons.keys() & {*pair} for row in pair)
        self.rows = {row: one[0] for row in used if not isinstance(one := rows[row], str)}
        self.index: dict[str, int] = {}
        if self.rows:
            every = [one[1] for row in used if not isinstance(one := rows[row], str)]
            others = (finished(row.records, tasks) for of in folder.rows.values() for row in of)
            kept, sampled, _ = compared(every, folder.store, tasks, others)
            if metric and kept:
                sampled = pearson_sample([every[i] for i in kept], folder.store, tasks)
            if sampled is not None:
                self.found = differences(sampled)
                self.index = {name: kept.index(i) for i, name in enumerate(self.rows) if i in kept}

    def compare(self, contrast: Sequence[str], claim: Claim) -> Compared:
        """Return a contrast: each direction is tested, the claim's margin below 0, at half of the level.

        A contrast of four rows is (a - b) - (c - d). Its error follows from those of their differences, as the
        variance of a contrast whose weights sum to 0 does; its degrees of freedom are the fewest of these.
        """
        from scipy.special import stdtr, stdtrit

        a, b = contrast if len(contrast) == 2 else (f"({' - '.join(half)})" for half in (contrast[:2], contrast[2:]))
        why = list(dict.fromkeys(self.reasons[row] for row in contrast if row in self.reasons))
        if why or not {*contrast} <= self.index.keys():
            return Compared(a, b, self.name, reason=", ".join(why) or "measured on other pairs")
        at = [self.index[row] for row in contrast]
        signs = np.array([1, -1, -1, 1][: len(at)])
        value = float(sum(self.found.value[i, j] for i, j in ((at[0], at[1]), at[:1:-1])[: len(at) // 2]))
        of_pairs, of_seeds = (
            max(0.0, -float(signs @ part[np.ix_(at, at)] ** 2 @ signs) / 2)
            for part in (self.found.pairs_error, self.found.seeds_error)
        )
        error = float(np.sqrt(of_pairs + of_seeds))
        df = float(np.nanmin([self.found.df[i, j] for i, j in itertools.combinations(at, 2)]))
        half = error * float(stdtrit(df, 1 - LEVEL / 2))
        low, high = value - half, value + half
        shifted = value + claim.margin
        t = 0.0 if abs(shifted) < _EQUAL else shifted / max(error, _EQUAL)
        holds, opposite = (min(1.0, 2 * float(stdtr(df, side))) for side in (-t, t))
        about = _about([self.rows[row] for row in contrast], claim)
        return Compared(a, b, self.name, value, low, high, holds, opposite, error, df, **about)


def _about(rows: Sequence[MeasuredRow], claim: Claim) -> dict[str, Any]:
    """Return what a contrast's rows make of it: untestable, unequal settings, and its scale."""
    labelled = [row.about for row in rows if row.about["ancestry"] and not row.trained]
    recipes = [row.records[0]["method"]["recipe"] for row in rows if row.trained]
    unlike = []
    for key, name in _SETTINGS.items() if len(recipes) == len(rows) else ():
        given = (one.get(key, one.get(name)) for one in recipes)
        values = list(dict.fromkeys(str(one).replace("mean", "avg") for one in given if one is not None))
        if len(values) > 1 and not (key == "temperature" and rows[0].at.tuned):  # each has its own best one
            unlike.append(f"{name} {' and '.join(values)}")
    theirs = {plain_backbone(cell.a.row.backbone) for cell in claim.published} or {"bert-base-uncased"}
    shares = [share for row in rows if (share := row.about["updates_share"]) is not None]
    words = [row.about["dimensions"] or 0 for row in rows if not row.at.backbone]
    small = any(row.at.backbone and plain_backbone(row.at.backbone) not in theirs for row in rows)
    return {
        "untestable": f"untrained, with {labelled[0]['ancestry']}" if labelled else "",
        "differs": ", ".join(unlike),
        "small": small or any(share < _SHARE for share in shares) or any(n < _DIMENSIONS for n in words),
        "share": min(shares, default=None),
    }


def verdicts(results: Path, store: Records, read: Sequence[Record]) -> list[Verdict]:
    """Return the verdicts on every claim under each condition of a folder; raises MissingError without records.

    A claim whose paper and released code differ has one for each. A condition whose rows are in no claim is left out
    beside others.
    """
    folder = Folder(results, store, read)
    under = [_under(folder, at, results) for at in folder.conditions]
    tested = [of for of in under if any(one.told for one in of)]
    return [one for of in tested or under for one in of]


def _under(folder: Folder, at: Condition, results: Path) -> list[Verdict]:
    claims = [(name, of) for claim in all_claims() for name, of in claim.procedures()]
    wanted: dict[tuple[str, str], dict[object, None]] = defaultdict(dict)
    tasks = {}
    for _, claim in claims:
        for place, of_place in claim.places():
            wanted[place, claim.metric] |= dict.fromkeys([*claim.pairs(), *claim.controls])
            tasks[place] = of_place
    places = {key: _Place(folder, key[0], tasks[key[0]], key[1], list(pairs), at) for key, pairs in wanted.items()}
    command = partial(at.command, results, folder.labelled)
    found: list[Verdict] = []
    for name, claim in claims:
        if claim.kind == "property":
            found += _properties(claim, folder, at)
        else:
            found.append(_verdict(name, claim, at, [places[on, claim.metric] for on in claim.on], command))
    for paper, text in itertools.product({one.claim.paper for one in found}, (False, True)):
        family = [one for one in found if one.claim.paper == paper and (one.procedure == TEXT) is text]
        _correct([one for one in family if one.p is not None])
    return found


def _properties(claim: Claim, folder: Folder, at: Condition) -> list[Verdict]:
    """Return a property's verdict, or two where the released code's row was measured and is another one."""
    rule, found = RULES.get(claim.id), []
    codes: dict[str, Mapping[str, str]] = {CODE: claim.released, TEXT: {}} if claim.released else {"": {}}
    for name, code in codes.items():
        one = Verdict(claim, at.text(), name, reason=claim.untestable, command=claim.command)
        one.reason = one.reason or "a property that scores of rows do not show"
        one.verdict = UNTESTABLE if claim.untestable else NOT_MEASURED
        # Kept analyses are of the papers' settings.
        tables = {} if at.tuned else folder.tables
        parts = rule(Measured(tables, at.backbone, partial(folder.records, at), code)) if rule else []
        known = [part for part in parts if part is not None]
        if known and len(known) == len(parts):
            one.found = "; ".join(text for text, _ in known)
            by = [value for _, value in known]
            one.verdict = HOLDS if min(by) > 0 else NOT_TOLD if min(by) == 0 else MIXED if max(by) > 0 else REVERSED
            if claim.id in OF_UNTRAINED and folder.ancestry.get(at.backbone):
                one.verdict, one.reason = UNTESTABLE, f"of untrained weights, with {folder.ancestry[at.backbone]}"
        found.append(one)
    texts = [one.found for one in found]
    if texts[0] and texts[0] != texts[-1]:
        return found
    found[-1].procedure = ""  # both are the same, or the code's row is not measured
    return found[-1:]


def _verdict(name: str, claim: Claim, at: Condition, places: Sequence[_Place], command: Callable[..., str]) -> Verdict:
    one = Verdict(claim, at.text(), name, reason=claim.untestable, command=claim.command)
    if claim.untestable:
        one.verdict = UNTESTABLE
        return one
    cells = [(pair, place.compare(pair, claim)) for place in places for pair in claim.pairs()]
    one.compared = [cell for _, cell in cells]
    one.controls = [place.compare(pair, claim) for place in places for pair in claim.controls]
    lacking = [c for c in one.compared if c.difference is None]
    one.reason = ", ".join(dict.fromkeys(c.reason or c.untestable for c in one.compared if not c.told))
    suites = all_suites()
    runs: dict[tuple[bool, tuple[str, ...]], list[str]] = defaultdict(list)  # suites or tasks by their missing rows
    for on in dict.fromkeys(c.on for c in lacking if not c.reason.startswith("no pair")):
        rows = dict.fromkeys(row for pair, c in cells if c.difference is None and c.on == on for row in pair)
        runs[on in suites, tuple(rows)].append(on)
    one.command = "; ".join(command(is_suite, on, rows) for (is_suite, rows), on in runs.items())
    if mine := one.told:
        # All contrasts must hold (intersection-union test); one that is reversed refutes the claim (Bonferroni).
        holds, opposite = max(c.holds for c in mine), min(1.0, len(mine) * min(c.reversed for c in mine))
        one.p, one.verdict = min(holds, opposite), HOLDS if holds <= opposite else REVERSED
        one.small = any(c.small for c in mine)
    elif one.measured:
        one.verdict = UNTESTABLE
    return one


def _correct(found: list[Verdict]) -> None:
    """Set the verdicts of a paper's measured claims, with p-values by Holm's procedure (1979)."""
    largest = 0.0
    for place, one in enumerate(sorted(found, key=lambda one: one.p or 0.0)):
        one.steps = len(found) - place
        largest = one.p_holm = min(1.0, max(largest, one.steps * (one.p or 0.0)))
        mine = one.told
        if largest >= LEVEL:
            one.verdict = NOT_TOLD
        elif one.verdict == REVERSED and one.steps * len(mine) * min(c.holds for c in mine) < LEVEL:
            one.verdict = MIXED
        elif one.verdict == HOLDS and len(mine) < len(one.compared):
            one.verdict = NOT_MEASURED
