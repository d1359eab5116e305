"""Verdicts on the papers' claims from the pair scores of a results folder; docs/claims.md says how."""

from __future__ import annotations

import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmark.records.folder import Records
from benchmark.records.record import Record
from benchmark.report.published import plain_backbone
from benchmark.report.rows import signed
from benchmark.stats.draws import compared
from benchmark.stats.mcb import LEVEL, differences
from benchmark.stats.power import POWER
from benchmark.tasks.suites import all_suites
from zoo_bench_papers import answers
from zoo_bench_papers.answers import CONFIRMED, NOT_MEASURED, REVERSED, SMALLER, UNDECIDED, UNTESTABLE, WORDS
from zoo_bench_papers.claim_rows import Condition, Folder, MeasuredRow, least_share
from zoo_bench_papers.claims import CODE, READING, TEXT, Claim, all_claims, open_points
from zoo_bench_papers.properties import OF_UNTRAINED, RULES, Measured

Metric = Literal["", "pearson"]
PrintedOf = Mapping[tuple[str, str, tuple[str, ...]], float]

_DIMENSIONS = 300
# Trained templates say something where an untrained one is not below the untrained average (PromptBERT, table 5).
_PROMPTS, _AVERAGE = ("prompt-repo", "prompt"), "avg-last"
# Settings that are to be equal on both sides, or named.
_SETTINGS = {"pooler": "pooling", "temperature": "temperature", "eval_every": "evaluation interval"}


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A contrast on one place: a - b in points with its 95% interval, or the reason why it is not measured.

    `line` is what the claim says the difference is above: 0, or its margin below 0. `error` and `df` are the
    difference's standard error and its degrees of freedom. `untestable`: why it says nothing about the claim.
    """

    a: str
    b: str
    on: str
    difference: float | None = None
    low: float = 0.0
    high: float = 0.0
    line: float = 0.0
    printed: float | None = None
    error: float = 0.0
    df: float = 1.0
    reason: str = ""
    untestable: str = ""
    differs: str = ""
    # Another backbone than the paper's, or fewer dimensions than its word vectors.
    small: bool = False
    share: float | None = None

    @property
    def decides(self) -> bool:
        """Whether it was measured and says something about its claim."""
        return self.difference is not None and not self.untestable

    @property
    def word(self) -> str:
        return answers.word(self.low, self.high, self.line, self.printed)

    @property
    def above(self) -> str:
        return answers.above(self.low, self.high, self.line)

    @property
    def as_large(self) -> str:
        return answers.as_large(self.high, self.line, self.printed)

    @property
    def seen(self) -> float:
        """The true difference that would be found in 80% of repetitions."""
        from scipy.special import stdtrit

        return self.error * float(stdtrit(self.df, 1 - LEVEL / 2) + stdtrit(self.df, POWER))

    def text(self) -> str:
        """Return "simcse - cls, sts: +3.54 (+2.82 to +4.25)", and what else differs."""
        differs = f" [{self.differs}]" if self.differs else ""
        low, high = signed(self.low), signed(self.high)
        gap = "" if self.difference is None else f"{signed(self.difference)} ({low} to {high})"
        return f"{self.a} - {self.b}, {self.on}: {gap}{differs}"


@dataclass
class Verdict:
    """What a results folder says of a claim under one condition."""

    claim: Claim
    condition: str
    # Whose rows: of the released code, of the paper's text or of our reading. "": all the same.
    procedure: str = ""
    compared: list[Compared] = field(default_factory=list)
    controls: list[Compared] = field(default_factory=list)
    word: str = NOT_MEASURED
    scale: str = ""
    reason: str = ""
    command: str = ""
    observation: str = ""
    share: float | None = None
    # Points that the papers leave open, by our recipe.
    open: dict[str, int] = field(default_factory=dict)

    @property
    def measured(self) -> bool:
        """Whether anything of the claim was measured."""
        return bool(self.observation or any(one.difference is not None for one in self.compared))

    @property
    def deciding(self) -> list[Compared]:
        """The contrasts that decide the verdict."""
        return [one for one in self.compared if one.decides]

    @property
    def above(self) -> str:
        """Whether the rows are above the line of the claim: yes, no, undecided, or how many of each."""
        return answers.tally([one.above for one in self.deciding])

    @property
    def as_large(self) -> str:
        """Whether the printed gain is possible: possible, no, or how many of each; "" where none is printed."""
        return answers.tally([one.as_large for one in self.deciding])

    def ours(self) -> str:
        """Return the measured contrasts with their differences and intervals, or what analyses found."""
        return self.observation or "; ".join(one.text() for one in self.compared if one.difference is not None)

    def head(self) -> str:
        """Return the word and what limits it: "confirmed so far"."""
        return f"{self.word} {self.scale}".strip()

    def text(self) -> str:
        """Return the verdict in a sentence, then what a reader needs to judge it."""
        shown = self.deciding
        each = Counter(one.word for one in shown)
        some = [f"{self.head()} on {each[self.word]} of {len(shown)} comparisons" if len(each) > 1 else self.head()]
        some += [f"{each[word]} {word}" for word in WORDS if word != self.word and len(each) > 1 and each[word]]
        if self.word == NOT_MEASURED and shown:
            some = [f"{self.word} as a whole: {CONFIRMED} {self.scale}".strip()]
        if shown and len(shown) < len(self.compared):
            some.append(f"{len(self.compared) - len(shown)} of {len(self.compared)} comparisons not measured")
        if self.word == SMALLER and len(each) == 1:
            line = f"-{self.claim.margin:g}" if self.claim.margin else "0"
            some.append(f"and above {line}" if self.above == answers.YES else f"above {line}: {self.above}")
        if self.claim.margin and shown:
            some.append(f"by our own margin of {self.claim.margin:g}")
        if self.word == UNDECIDED and shown:
            some.append(f"a gap under {max(one.seen for one in shown if one.word == UNDECIDED):.1f} would not show")
        if self.share is not None:
            some.append(f"trained {100 * self.share:.2g} % as long as the paper")
        if unlike := dict.fromkeys(name for one in shown for name in _SETTINGS.values() if name in one.differs):
            some.append(f"unequal {', '.join(unlike)}")
        if self.open and self.measured:
            points = ", ".join(f"{number} ({name})" for name, number in self.open.items())
            some.append(f"open points of the papers that we fill: {points}")
        return "; ".join(some)


class _Place:
    """The differences between all rows that claims compare on a suite or on tasks, in one metric."""

    def __init__(
        self, folder: Folder, name: str, tasks: Sequence[str], metric: Metric, pairs: list[Any], at: Condition
    ) -> None:
        self.name = name
        rows = {row: folder.row(row, tasks, at) for pair in pairs for row in pair}
        self.reasons = {row: one for row, one in rows.items() if isinstance(one, str)}
        used = dict.fromkeys(row for pair in pairs if not self.reasons.keys() & {*pair} for row in pair)
        self.rows = {row: row_or_reason[0] for row in used if not isinstance(row_or_reason := rows[row], str)}
        self.index: dict[str, int] = {}
        self.values: dict[str, float] = {}
        if self.rows:
            every = [row_or_reason[1] for row in used if not isinstance(row_or_reason := rows[row], str)]
            kept, sampled, _ = compared(every, folder.store, tasks, metric=metric)
            if sampled is not None:
                self.differences = differences(sampled)
                self.index = {name: kept.index(i) for i, name in enumerate(self.rows) if i in kept}
                self.values = {name: float(sampled.value[at]) for name, at in self.index.items()}

    def compare(self, contrast: Sequence[str], claim: Claim, printed: PrintedOf) -> Compared:
        """Return a contrast with its interval.

        A contrast of four rows is (a - b) - (c - d). Its error follows from those of their differences, as the
        variance of a contrast whose weights sum to 0 does; its degrees of freedom are the fewest of these.
        """
        from scipy.special import stdtrit

        a, b = contrast if len(contrast) == 2 else (f"({' - '.join(half)})" for half in (contrast[:2], contrast[2:]))
        why = list(dict.fromkeys(self.reasons[row] for row in contrast if row in self.reasons))
        if why or not {*contrast} <= self.index.keys():
            return Compared(a=a, b=b, on=self.name, reason=", ".join(why) or "measured on other pairs")
        at = [self.index[row] for row in contrast]
        signs = np.array([1, -1, -1, 1][: len(at)])
        value = float(sum(self.differences.value[i, j] for i, j in ((at[0], at[1]), at[:1:-1])[: len(at) // 2]))
        of_pairs, of_seeds = (
            max(0.0, -float(signs @ part[np.ix_(at, at)] ** 2 @ signs) / 2)
            for part in (self.differences.pairs_error, self.differences.seeds_error)
        )
        error = float(np.sqrt(of_pairs + of_seeds))
        df = float(np.nanmin([self.differences.df[i, j] for i, j in itertools.combinations(at, 2)]))
        half = error * float(stdtrit(df, 1 - LEVEL / 2))
        return Compared(
            a=a,
            b=b,
            on=self.name,
            difference=value,
            low=value - half,
            high=value + half,
            line=0.0 - claim.margin,
            printed=printed.get((claim.paper, self.name, tuple(contrast))),
            error=error,
            df=df,
            **_about([self.rows[row] for row in contrast], claim),
        )


def _no_prompts(folder: Folder, at: Condition) -> str:
    """Return why trained templates say nothing here, with the two figures: an untrained one is below the average."""
    pairs = [(name, _AVERAGE) for name in _PROMPTS]
    place = _Place(folder, "sts", all_suites()["sts"].tasks, "", pairs, at)
    for name, average in pairs:
        measured = {name, average} <= place.index.keys()
        if measured and place.differences.high[place.index[name], place.index[average]] < 0:
            figures = f"{name} {place.values[name]:.2f}, {average} {place.values[average]:.2f} on sts"
            return f"an untrained template is below the untrained average here: {figures}"
    return ""


def _printed(claims: Iterable[Claim]) -> PrintedOf:
    """Return the printed differences by paper, place and contrast: each comparison has one, in whichever claim."""
    differences_printed: dict[tuple[str, str, tuple[str, ...]], float] = {}
    for claim in claims:
        for (place, tasks), pair in itertools.product(claim.places(), claim.pairs()):
            if (value := claim.printed(pair, place, tasks)) is not None:
                differences_printed.setdefault((claim.paper, place, pair), value)
    return differences_printed


def _about(rows: Sequence[MeasuredRow], claim: Claim) -> dict[str, Any]:
    """Return what a contrast's rows make of it: untestable, unequal settings, and its scale."""
    labelled = [row.about for row in rows if row.about["ancestry"] and not row.trained]
    recipes = [row.records[0]["method"]["recipe"] for row in rows if row.trained]
    unlike = []
    for key, name in _SETTINGS.items() if len(recipes) == len(rows) else ():
        given = (recipe.get(key, recipe.get(name)) for recipe in recipes)
        values = list(dict.fromkeys(str(one).replace("mean", "avg") for one in given if one is not None))
        # Each has its own best temperature.
        if len(values) > 1 and not (key == "temperature" and rows[0].at.tuned):
            unlike.append(f"{name} {' and '.join(values)}")
    theirs = {plain_backbone(cell.a.row.backbone) for cell in claim.published} or {"bert-base-uncased"}
    words = [row.about["dimensions"] or 0 for row in rows if not row.at.backbone]
    small = any(row.at.backbone and plain_backbone(row.at.backbone) not in theirs for row in rows)
    return {
        "untestable": f"untrained, with {labelled[0]['ancestry']}" if labelled else "",
        "differs": ", ".join(unlike),
        "small": small or any(n < _DIMENSIONS for n in words),
        "share": least_share(rows),
    }


def verdicts(results: Path, store: Records, read: Sequence[Record]) -> list[Verdict]:
    """Return the verdicts on every claim under each condition of a folder; raises MissingError without records.

    A claim whose paper and released code differ has one for each. A condition whose rows are in no claim is left out
    beside others.
    """
    folder = Folder(results, store, read)
    under = [_under(folder, at, results) for at in folder.conditions]
    tested = [of for of in under if any(one.deciding for one in of)]
    return [one for of in tested or under for one in of]


def _under(folder: Folder, at: Condition, results: Path) -> list[Verdict]:
    claims = [(name, of) for claim in all_claims() for name, of in claim.procedures()]
    wanted: dict[tuple[str, Metric], dict[object, None]] = defaultdict(dict)
    tasks = {}
    for _, claim in claims:
        for place, of_place in claim.places():
            wanted[place, claim.metric] |= dict.fromkeys([*claim.pairs(), *claim.controls])
            tasks[place] = of_place
    places = {key: _Place(folder, key[0], tasks[key[0]], key[1], list(pairs), at) for key, pairs in wanted.items()}
    why_no_prompts = _no_prompts(folder, at)
    # A page that is handed on names no folder of this machine.
    inside = Path(os.path.relpath(results))
    command = partial(at.command, Path(results.name) if ".." in inside.parts else inside, folder.labelled)
    printed = _printed(claim for _, claim in claims)
    verdicts: list[Verdict] = []
    for name, claim in claims:
        if claim.kind == "property":
            verdicts += _properties(claim, folder, at)
        else:
            of_claim = [places[on, claim.metric] for on in claim.on]
            verdicts.append(_verdict(name, claim, at, of_claim, command, printed, why_no_prompts))
    return verdicts


def _properties(claim: Claim, folder: Folder, at: Condition) -> list[Verdict]:
    """Return a property's verdict, or two where the released code's row was measured and is another one."""
    rule, verdicts = RULES.get(claim.id), []
    text = READING if open_points(claim.released) else TEXT
    codes: dict[str, Mapping[str, str]] = {CODE: claim.released, text: {}} if claim.released else {"": {}}
    for name, code in codes.items():
        verdict = Verdict(claim, at.text(), name, reason=claim.untestable, command=claim.command)
        verdict.reason = verdict.reason or "a property that scores of rows do not show"
        verdict.word = UNTESTABLE if claim.untestable else NOT_MEASURED
        # Kept analyses are of the papers' settings.
        tables = {} if at.tuned else folder.tables
        measured = Measured(tables, at.backbone, partial(folder.records, at), code)
        parts = rule(measured) if rule else []
        known = [part for part in parts if part is not None]
        if known and len(known) == len(parts):
            verdict.observation = "; ".join(text for text, _ in known)
            by = [value for _, value in known]
            verdict.word = answers.of_all([CONFIRMED if v > 0 else REVERSED if v < 0 else UNDECIDED for v in by])
            verdict.share, verdict.open = folder.share(measured.asked, at), open_points(sorted(measured.asked))
            verdict.open |= {"the measure": len(claim.open)} if claim.open else {}
            verdict.scale = answers.scale(verdict.share, small=True)
            if claim.id in OF_UNTRAINED and folder.ancestry.get(at.backbone):
                verdict.word, verdict.scale, verdict.reason = (
                    UNTESTABLE,
                    "",
                    f"of untrained weights, with {folder.ancestry[at.backbone]}",
                )
        verdicts.append(verdict)
    texts = [one.observation for one in verdicts]
    if texts[0] and texts[0] != texts[-1]:
        return verdicts
    # Both are the same, or the code's row is not measured.
    verdicts[-1].procedure = ""
    return verdicts[-1:]


def _verdict(
    name: str,
    claim: Claim,
    at: Condition,
    places: Sequence[_Place],
    command: Callable[..., str],
    printed: PrintedOf,
    why_no_prompts: str,
) -> Verdict:
    verdict = Verdict(claim, at.text(), name, reason=claim.untestable, command=claim.command)
    if claim.untestable:
        verdict.word = UNTESTABLE
        return verdict
    cells = []
    for place, pair in itertools.product(places, claim.pairs()):
        contrast = place.compare(pair, claim, printed)
        if why_no_prompts and any(row in place.rows and place.rows[row].prompted for row in pair):
            contrast = replace(contrast, untestable=why_no_prompts)
        cells.append((pair, contrast))
    verdict.compared = [cell for _, cell in cells]
    verdict.controls = [place.compare(pair, claim, printed) for place in places for pair in claim.controls]
    lacking = [c for c in verdict.compared if c.difference is None]
    verdict.reason = ", ".join(dict.fromkeys(c.reason or c.untestable for c in verdict.compared if not c.decides))
    suites = all_suites()
    runs: dict[tuple[bool, tuple[str, ...]], list[str]] = defaultdict(list)
    for on in dict.fromkeys(c.on for c in lacking if not c.reason.startswith("no item")):
        rows = dict.fromkeys(row for pair, c in cells if c.difference is None and c.on == on for row in pair)
        runs[on in suites, tuple(rows)].append(on)
    verdict.command = "; ".join(command(is_suite, on, rows) for (is_suite, rows), on in runs.items())
    if shown := verdict.deciding:
        verdict.word = answers.of_all([c.word for c in shown])
        if verdict.word == CONFIRMED and len(shown) < len(verdict.compared):
            verdict.word = NOT_MEASURED
        verdict.share = min((c.share for c in shown if c.share is not None), default=None)
        verdict.scale = answers.scale(verdict.share, any(c.small for c in shown))
        verdict.open = open_points(row for pair, c in cells if c.decides for row in pair)
    elif verdict.measured:
        verdict.word = UNTESTABLE
    return verdict
