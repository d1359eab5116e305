"""Verdicts on the papers' claims from the pair scores of a results folder; docs/claims.md has the rules."""

from __future__ import annotations

import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmark.records.folder import Records
from benchmark.records.record import Record
from benchmark.tasks.suites import all_suites
from zoo_bench_papers import answers, gates
from zoo_bench_papers.answers import CONFIRMED, NOT_MEASURED, REVERSED, SMALLER, UNDECIDED, UNTESTABLE, WORDS
from zoo_bench_papers.claim_rows import NO_ITEMS, Condition, Folder
from zoo_bench_papers.claims import CODE, READING, TEXT, Claim, all_claims, open_points
from zoo_bench_papers.comparisons import SETTINGS, Compared, Metric, Place, PrintedOf, printed_differences
from zoo_bench_papers.corrected import RATES, corrected
from zoo_bench_papers.gates import Gate
from zoo_bench_papers.properties import Measured


@dataclass(frozen=True)
class Lacking:
    """A row that a claim lacks on tasks; `again`: it has scores there, and no scores of items; `failed`: why."""

    row: str
    tasks: tuple[str, ...]
    again: bool
    failed: str = ""


@dataclass
class Verdict:
    claim: Claim
    at: Condition
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
    # Of the gates before it: what has to be measured first, or the figures of an open one.
    gate: str = ""
    # Points that the papers leave open, by our recipe.
    open: dict[str, int] = field(default_factory=dict)
    lacking: list[Lacking] = field(default_factory=list)

    @property
    def condition(self) -> str:
        return self.at.text()

    @property
    def named(self) -> str:
        """The claim's name, with whose rows it is about."""
        return self.claim.id + (f" ({self.procedure})" if self.procedure else "")

    @property
    def measured(self) -> bool:
        return bool(self.observation or any(c.difference is not None for c in self.compared))

    @property
    def deciding(self) -> list[Compared]:
        return [c for c in self.compared if c.decides]

    @property
    def corrected(self) -> tuple[str, ...]:
        """The words at false discovery rates of 5 and 1 % over all contrasts of the condition."""
        if not self.deciding or self.word == NOT_MEASURED:
            return (self.word,) * len(RATES)
        return tuple(answers.of_all(words) for words in zip(*(c.corrected for c in self.deciding), strict=True))

    @property
    def after(self) -> str:
        """What is left of the word after correction, if it is another one."""
        return "" if self.corrected[0] == self.word else f"{self.corrected[0]} after correction"

    @property
    def above(self) -> str:
        """Rows above the claim's line: yes, no, undecided, or how many of each."""
        return answers.tally([c.above for c in self.deciding])

    @property
    def as_large(self) -> str:
        """The printed gain: possible, no, or how many of each; "" if none is printed."""
        return answers.tally([c.as_large for c in self.deciding])

    def ours(self) -> str:
        return self.observation or "; ".join(c.text() for c in self.compared if c.difference is not None)

    def head(self) -> str:
        """The word and its limit: "confirmed so far"."""
        return f"{self.word} {self.scale}".strip()

    def text(self) -> str:
        shown = self.deciding
        each = Counter(c.word for c in shown)
        some = [f"{self.head()} on {each[self.word]} of {len(shown)} comparisons" if len(each) > 1 else self.head()]
        some += [self.after] if self.after else []
        some += [f"{each[word]} {word}" for word in WORDS if word != self.word and len(each) > 1 and each[word]]
        if self.word == NOT_MEASURED and shown:
            some = [f"{self.word} as a whole: {CONFIRMED} {self.scale}".strip()]
        if shown and len(shown) < len(self.compared):
            some.append(f"{len(self.compared) - len(shown)} of {len(self.compared)} comparisons not measured")
        if self.word == SMALLER and len(each) == 1:
            line = f"-{self.claim.margin:g}" if self.claim.margin else "0"
            some.append(f"and above {line}" if self.above == answers.YES else f"above {line}: {self.above}")
        if self.claim.margin and shown:
            some.append(f"by a margin of {self.claim.margin:g}: {self.claim.margin_from}")
        if self.word == UNDECIDED and shown and self.claim.kind != "equal":
            some.append(f"a gap under {max(c.seen for c in shown if c.word == UNDECIDED):.1f} would not show")
        if self.gate:
            some.append(self.gate)
        if self.share is not None:
            some.append(f"trained {100 * self.share:.2g} % as long as the paper")
        if unlike := dict.fromkeys(name for c in shown for name in SETTINGS.values() if name in c.differs):
            some.append(f"unequal {', '.join(unlike)}")
        if self.open and self.measured:
            points = ", ".join(f"{number} ({name})" for name, number in self.open.items())
            some.append(f"open points of the papers that we fill: {points}")
        return "; ".join(some)


def verdicts(results: Path, store: Records, read: Sequence[Record], at: Condition | None = None) -> list[Verdict]:
    """Verdicts on every claim under each condition of a folder, or under `at`; raises MissingError without records.

    A claim has one verdict each for paper and code if they differ. Conditions with rows in no claim are omitted beside
    others.
    """
    folder = Folder(results, store, read, at)
    under = [_under(folder, at, results) for at in folder.conditions]
    tested = [of for of in under if any(verdict.deciding for verdict in of)]
    return [verdict for of in tested or under for verdict in of]


def _under(folder: Folder, at: Condition, results: Path) -> list[Verdict]:
    claims = [(name, of) for claim in all_claims() for name, of in claim.procedures()]
    wanted: dict[tuple[str, Metric], dict[tuple[str, ...], None]] = defaultdict(dict)
    for _, claim in claims:
        for on in claim.on:
            wanted[on, claim.metric] |= dict.fromkeys([*claim.pairs(), *claim.controls])
    places = {(on, metric): Place(folder, on, list(pairs), at, metric) for (on, metric), pairs in wanted.items()}
    # A page that is handed on names no folder of this machine.
    inside = Path(os.path.relpath(results))
    shown = Path(results.name) if ".." in inside.parts else inside
    command = partial(at.command, shown, folder.labelled)
    prompts = gates.prompts(folder, at, command)
    anisotropy = gates.anisotropy(folder, at, shown.as_posix())
    printed = printed_differences(claim for _, claim in claims)
    verdicts: list[Verdict] = []
    for name, claim in claims:
        if claim.kind == "property":
            verdicts += _properties(claim, folder, at)
        else:
            of_claim = [places[on, claim.metric] for on in claim.on]
            before = anisotropy if claim.presupposes == "anisotropy" else None
            verdicts.append(_verdict(name, claim, at, of_claim, command, printed, prompts, before))
    words = iter(corrected([c for verdict in verdicts for c in verdict.deciding]))
    for verdict in verdicts:
        verdict.compared = [next(words) if c.decides else c for c in verdict.compared]
    return verdicts


def _properties(claim: Claim, folder: Folder, at: Condition) -> list[Verdict]:
    """A property's verdict, or two if the released code's row was measured and differs."""
    verdicts = []
    text = READING if open_points(claim.released) else TEXT
    codes: dict[str, Mapping[str, str]] = {CODE: claim.released, text: {}} if claim.released else {"": {}}
    for name, code in codes.items():
        verdict = Verdict(claim, at, name, reason=claim.untestable, command=claim.command)
        verdict.word = UNTESTABLE if claim.untestable else NOT_MEASURED
        # Kept analyses are of the papers' settings.
        tables = {} if at.tuned else folder.tables
        measured = Measured(tables, at.backbone, partial(folder.records, at), partial(Place, folder, at=at), code)
        parts = [measured.part(evidence) for evidence in claim.evidence]
        known = [part for part in parts if part is not None]
        missing = [of.text() for of, part in zip(claim.evidence, parts, strict=True) if part is None]
        verdict.reason = verdict.reason or f"needs {claim.needs or ', '.join(dict.fromkeys(missing))}"
        if known and len(known) == len(parts):
            verdict.observation = "; ".join(text for text, _ in known)
            words = [CONFIRMED if by > 0 else REVERSED if by < 0 else UNDECIDED for _, by in known]
            verdict.word = answers.of_all(words)
            verdict.share, verdict.open = folder.share(measured.asked, at), open_points(sorted(measured.asked))
            verdict.open |= {"the measure": len(claim.open)} if claim.open else {}
            verdict.scale = answers.scale(verdict.share, small=True)
            if claim.presupposes == "untrained" and (ancestry := folder.ancestry.get(at.backbone)):
                verdict.word, verdict.scale = UNTESTABLE, ""
                verdict.reason = f"of untrained weights, with {ancestry}"
        verdicts.append(verdict)
    if verdicts[0].observation not in ("", verdicts[-1].observation):
        return verdicts
    # Both are the same, or the code's row is not measured.
    verdicts[-1].procedure = ""
    return verdicts[-1:]


def _verdict(
    name: str,
    claim: Claim,
    at: Condition,
    places: Sequence[Place],
    command: Callable[..., str],
    printed: PrintedOf,
    prompts: Gate,
    anisotropy: Gate | None,
) -> Verdict:
    if claim.untestable:
        return Verdict(claim, at, name, word=UNTESTABLE, reason=claim.untestable, command=claim.command)
    verdict = Verdict(claim, at, name)
    cells, asked = [], dict[Gate, None]()
    for place, pair in itertools.product(places, claim.pairs()):
        contrast = place.compare(pair, claim, printed)
        lacks = {row: place.reasons[row] for row in pair if row in place.reasons}
        verdict.lacking += [
            Lacking(row, place.tasks, reason == NO_ITEMS, reason if reason.startswith(f"{row} failed: ") else "")
            for row, reason in lacks.items()
        ]
        prompted = any(row in place.rows and place.rows[row].prompted for row in pair)
        for gate in filter(None, [prompts if prompted else None, anisotropy]):
            contrast = gate.before(contrast)
            asked |= {gate: None} if contrast.decides or contrast.reason == gate.lacks else {}
        cells.append((pair, contrast))
    verdict.compared = [cell for _, cell in cells]
    verdict.controls = [place.compare(pair, claim, printed) for place in places for pair in claim.controls]
    verdict.reason = ", ".join(dict.fromkeys(c.reason or c.untestable for c in verdict.compared if not c.decides))
    suites = all_suites()
    runs: dict[tuple[bool, tuple[str, ...]], list[str]] = defaultdict(list)
    lacking = [(pair, c) for pair, c in cells if c.difference is None]
    for on in dict.fromkeys(c.on for _, c in lacking if not c.reason.startswith("no item")):
        rows = dict.fromkeys(row for pair, c in lacking if c.on == on for row in pair)
        runs[on in suites, tuple(rows)].append(on)
    commands = [command(is_suite, on, rows) for (is_suite, rows), on in runs.items()]
    verdict.command = "; ".join(filter(None, [*commands, *(gate.command for gate in asked)]))
    verdict.gate = "; ".join(filter(None, (gate.lacks or (gate.figures if verdict.deciding else "") for gate in asked)))
    if shown := verdict.deciding:
        verdict.word = answers.of_all([c.word for c in shown])
        if verdict.word == CONFIRMED and len(shown) < len(verdict.compared):
            verdict.word = NOT_MEASURED
        verdict.share = min((c.share for c in shown if c.share is not None), default=None)
        verdict.scale = answers.scale(verdict.share, any(c.small for c in shown))
        verdict.open = open_points(row for pair, c in cells if c.decides for row in pair)
    elif any(c.untestable for c in verdict.compared if c.difference is not None):
        verdict.word = UNTESTABLE
    return verdict
