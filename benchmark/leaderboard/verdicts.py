"""Verdicts on the papers' claims from the pair scores of a results folder; docs/claims.md says how."""

from __future__ import annotations

import itertools
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmark.leaderboard.about import about
from benchmark.leaderboard.claims import Claim, all_claims
from benchmark.leaderboard.conditions import recipe_of
from benchmark.leaderboard.markdown import markdown_row
from benchmark.leaderboard.properties import Analyses
from benchmark.leaderboard.stats import compared, finished, floor_of, sample_of
from benchmark.leaderboard.table import read_completed
from benchmark.metrics.significance import LEVEL, POWER, differences
from benchmark.records.folder import Records, pause_garbage_collection
from benchmark.records.record import Record
from benchmark.tasks.suites import all_suites
from zoo.errors import MissingError
from zoo.paths import place_of

HOLDS, OPPOSITE, NOT_TOLD, NOT_MEASURED = "holds", "the opposite", "not told apart", "not measured"

_EQUAL = 1e-11  # the difference that rounding can leave between equal scores


class Condition(NamedTuple):
    """What compared rows share; rows without a backbone or without sentences to train on fit every condition."""

    backbone: str
    precision: str
    corpus: str = ""
    sentences: int = 0

    def text(self) -> str:
        """Return "zoo-small, bf16, 20,000 sentences of wiki"."""
        learned = f"{self.sentences:,} sentences of {self.corpus}" if self.sentences else ""
        return ", ".join(filter(None, [self.backbone or "no backbone", self.precision, learned]))

    def command(
        self, results: Path, labelled: Sequence[str], suites: bool, on: Sequence[str], rows: Sequence[str]
    ) -> str:
        """Return the command that measures rows on suites or on tasks under this condition."""
        parts: list[Any] = ["zoo-bench", "run", "--results", results, "--precision", self.precision, "--seeds", 3]
        parts += ["--backbone", self.backbone] if self.backbone else []
        parts += ["--corpus", self.corpus, "--train-sentences", self.sentences] if self.sentences else []
        parts += labelled
        parts += ["--suite" if suites else "--tasks", ",".join(on), "--methods", ",".join(rows)]
        return shlex.join(map(str, parts))


@dataclass(frozen=True)
class Compared:
    """A contrast on one place: a - b in points with its 95% interval, or the reason why it is not measured.

    `holds` and `opposite` are the p-values of the two directions; `error` and `df` are the difference's standard error
    and its degrees of freedom.
    """

    a: str
    b: str
    on: str
    difference: float | None = None
    low: float = 0.0
    high: float = 0.0
    holds: float = 1.0
    opposite: float = 1.0
    error: float = 0.0
    df: float = 1.0
    reason: str = ""

    def seen(self, claims: int) -> float:
        """Return the difference found in 80% of repetitions, if all of a paper's claims had as small a p (Holm)."""
        from scipy.special import stdtrit

        return self.error * float(stdtrit(self.df, 1 - LEVEL / 2 / max(claims, 1)) + stdtrit(self.df, POWER))

    def text(self) -> str:
        """Return "simcse - cls, sts: +3.54 (+2.82 to +4.25)"."""
        return f"{self.a} - {self.b}, {self.on}: {self.difference:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


@dataclass
class Verdict:
    """What a results folder says of a claim under one condition; `p_holm` is corrected for the paper's other claims."""

    claim: Claim
    condition: str
    compared: list[Compared] = field(default_factory=list)
    controls: list[Compared] = field(default_factory=list)
    p: float | None = None
    p_holm: float | None = None
    steps: int = 1  # by how many p was multiplied (Holm)
    verdict: str = NOT_MEASURED
    reason: str = ""
    command: str = ""
    found: str = ""  # what analyses gave for a property with a rule

    @property
    def measured(self) -> bool:
        """Whether anything of the claim was measured."""
        return self.p is not None or bool(self.found)

    def ours(self) -> str:
        """Return the measured contrasts with their differences and intervals, or what analyses found."""
        return self.found or "; ".join(one.text() for one in _measured(self.compared))

    def text(self) -> str:
        """Return the verdict, of how many contrasts it is, and, where nothing is shown, what could have been seen."""
        mine = _measured(self.compared)
        if self.found:
            return self.verdict
        some = f" on {len(mine)} of {len(self.compared)} contrasts" if len(mine) < len(self.compared) else ""
        seen = (
            f"; {max(one.seen(self.steps) for one in mine):.2f} could have been seen"
            if self.verdict == NOT_TOLD
            else ""
        )
        return self.verdict + (": holds" if self.verdict == NOT_MEASURED else "") + some + seen


def _measured(compared: Sequence[Compared]) -> list[Compared]:
    return [one for one in compared if one.difference is not None]


class _Folder:
    """The rows of a results folder, by recipe, with their finished records."""

    def __init__(self, results: Path) -> None:
        self.store, self.analyses = Records(results), Analyses(results)
        by_row: dict[tuple[str, str], list[Record]] = defaultdict(list)
        for record in read_completed(self.store):
            if record["status"] == "ok" and record["limit"] is None:
                by_row[record["method"]["name"], record["row_key"]].append(record)
        if not by_row:
            raise MissingError(
                f"no records in {place_of(results)}; make some with `zoo-bench run`, or name a --results folder."
            )
        named = Counter(_labelled(record["command"]) for records in by_row.values() for record in records)
        self.labelled = max(named, key=lambda options: (bool(options), named[options]))
        self.rows: dict[str, list[tuple[Condition, list[Record]]]] = defaultdict(list)
        found: dict[Condition, None] = {}
        for (name, _), records in by_row.items():
            at = _condition(records)
            self.rows[_identity(records[0]["method"].get("recipe_name") or name)].append((at, records))
            found[at] = None
        with_text = {one[:2] for one in found if one.sentences}
        # Rows that fit every condition make one of their own only where there is no other.
        of_backbone = [one for one in found if one.backbone and (one.sentences or one[:2] not in with_text)]
        self.conditions = of_backbone or list(found)

    def row(self, name: str, tasks: Sequence[str], at: Condition, pairs: bool = True) -> dict[str, list[Record]] | str:
        """Return a row with its records by task, or the reason why it cannot be compared."""
        fitting = []
        for condition, records in self.rows.get(_identity(name), []):
            of_tasks = finished(records, tasks)
            own = zip(condition, at, ("", None, "", 0), strict=True)
            alike = all(mine in (wanted, lacking) for mine, wanted, lacking in own)
            if len(of_tasks) == len(tasks) and alike:
                fitting.append({task: of_tasks[task] for task in tasks})
        if len(fitting) != 1:
            return f"{'several rows' if fitting else 'no row'} {name}"
        every = [record for of in fitting[0].values() for record in of]
        seeds = Counter(r["seed"] for r in every)
        if set(seeds.values()) != {len(tasks)}:
            return f"{name} lacks seeds on a task, or has two records of one"
        if pairs and not all(self.store.has_pairs(record) for record in every):
            return "no pair scores, so no interval"
        return f"one seed of {name}" if len(seeds) == 1 and None not in seeds else fitting[0]

    def records(self, at: Condition, tasks: Sequence[str], name: str) -> list[dict[str, list[Record]]]:
        """Return a row's records by task, as rules read them, or those of every row that can be compared on them."""
        names = [name] if name else [of[0][1][0]["method"]["name"] for of in self.rows.values()]
        found = [self.row(one, tasks, at, pairs=False) for one in names]
        return [one for one in found if not isinstance(one, str)]


def _labelled(command: Sequence[str]) -> tuple[str, ...]:
    """Return the options of a record's command that name labelled pairs, which methods that need none ignore."""
    places = [i for i, part in enumerate(command) if part in ("--pairs", "--train-pairs")]
    return tuple(part for i in places for part in command[i : i + 2]) if "--pairs" in command else ()


def _condition(records: list[Record]) -> Condition:
    of = about(records, 1)
    text = (of["corpus"], of["corpus_sentences"]) if of["corpus_sentences"] else ()
    return Condition(of["backbone"], of["precision"], *text)


def _identity(name: str) -> str:
    base, overrides = recipe_of(name)
    return repr((base, sorted(overrides.items())))


class _Place:
    """The differences between all rows that claims compare on a suite or on tasks."""

    def __init__(self, folder: _Folder, name: str, tasks: Sequence[str], pairs: list[Any], at: Condition) -> None:
        self.name = name
        rows = {row: folder.row(row, tasks, at) for pair in pairs for row in pair}
        self.reasons = {row: one for row, one in rows.items() if isinstance(one, str)}
        used = dict.fromkeys(row for pair in pairs if not self.reasons.keys() & {*pair} for row in pair)
        chosen = {row: one for row in used if not isinstance(one := rows[row], str)}
        self.index: dict[str, int] = {}
        if chosen:
            every = list(chosen.values())
            kept, drawn, _ = compared(every, folder.store)
            others = (finished(records, tasks) for of in folder.rows.values() for _, records in of)
            self.found = differences(sample_of([every[i] for i in kept], drawn, tasks, floor_of(others, tasks)))
            self.index = {name: kept.index(i) for i, name in enumerate(chosen) if i in kept}

    def compare(self, contrast: Sequence[str], margin: float) -> Compared:
        """Return a contrast: each direction is tested, `margin` points below 0, at half of the level.

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
        shifted = value + margin
        t = 0.0 if abs(shifted) < _EQUAL else shifted / max(error, _EQUAL)
        holds, opposite = (min(1.0, 2 * float(stdtr(df, side))) for side in (-t, t))
        return Compared(a, b, self.name, value, low, high, holds, opposite, error, df)


def verdicts(results: Path) -> list[Verdict]:
    """Return the verdict on every claim under each condition of a folder; raises MissingError without records.

    A condition whose rows are in no claim is left out beside others.
    """
    with pause_garbage_collection():
        folder = _Folder(results)
        under = [_under(folder, at, results) for at in folder.conditions]
    tested = [of for of in under if any(_measured(one.compared) for one in of)]
    return [one for of in tested or under for one in of]


def _under(folder: _Folder, at: Condition, results: Path) -> list[Verdict]:
    wanted: dict[str, dict[object, None]] = defaultdict(dict)
    tasks = {}
    for claim in all_claims():
        for place, of_place in claim.places():
            wanted[place] |= dict.fromkeys([*claim.pairs(), *claim.controls])
            tasks[place] = of_place
    places = {name: _Place(folder, name, tasks[name], list(pairs), at) for name, pairs in wanted.items()}
    command = partial(at.command, results, folder.labelled)
    found = [_verdict(claim, at, [places[name] for name in claim.on], command) for claim in all_claims()]
    for one in found:
        if parts := folder.analyses.margins(one.claim, at.backbone, partial(folder.records, at)):
            one.found = "; ".join(text for text, _ in parts)
            least = min(by for _, by in parts)
            one.verdict = HOLDS if least > 0 else OPPOSITE if least < 0 else NOT_TOLD
    for paper in {one.claim.paper for one in found}:
        _correct([one for one in found if one.claim.paper == paper and one.p is not None])
    return found


def _verdict(claim: Claim, at: Condition, places: Sequence[_Place], command: Callable[..., str]) -> Verdict:
    one = Verdict(claim, at.text(), reason=claim.untestable, command=claim.command)
    if claim.untestable or claim.kind == "property":
        one.reason = one.reason or "a property that scores of rows do not show"
        return one
    cells = [(pair, place.compare(pair, claim.margin)) for place in places for pair in claim.pairs()]
    one.compared = [cell for _, cell in cells]
    one.controls = [place.compare(pair, claim.margin) for place in places for pair in claim.controls]
    lacking = [c for c in one.compared if c.difference is None]
    one.reason = ", ".join(dict.fromkeys(c.reason for c in lacking))
    suites = all_suites()
    runs: dict[tuple[bool, tuple[str, ...]], list[str]] = defaultdict(list)  # suites or tasks by their missing rows
    for on in dict.fromkeys(c.on for c in lacking if not c.reason.startswith("no pair")):
        rows = dict.fromkeys(row for pair, c in cells if c.difference is None and c.on == on for row in pair)
        runs[on in suites, tuple(rows)].append(on)
    one.command = "; ".join(command(is_suite, on, rows) for (is_suite, rows), on in runs.items())
    if mine := _measured(one.compared):
        # All contrasts must hold (intersection-union test); one that is the opposite refutes the claim (Bonferroni).
        holds, opposite = max(c.holds for c in mine), min(1.0, len(mine) * min(c.opposite for c in mine))
        one.p, one.verdict = min(holds, opposite), HOLDS if holds <= opposite else OPPOSITE
    return one


def _correct(found: list[Verdict]) -> None:
    """Set the verdicts of a paper's measured claims, with p-values by Holm's procedure (1979)."""
    largest = 0.0
    for place, one in enumerate(sorted(found, key=lambda one: one.p or 0.0)):
        one.steps = len(found) - place
        largest = one.p_holm = min(1.0, max(largest, one.steps * (one.p or 0.0)))
        if largest >= LEVEL:
            one.verdict = NOT_TOLD
        elif one.verdict == HOLDS and len(_measured(one.compared)) < len(one.compared):
            one.verdict = NOT_MEASURED


def counts(found: Sequence[Verdict]) -> str:
    """Return "Of 186 claims: holds 5, the opposite 2 ..."."""
    by = Counter(one.verdict for one in found)
    return f"Of {len(found)} claims: " + ", ".join(f"{v} {by[v]}" for v in (HOLDS, OPPOSITE, NOT_TOLD, NOT_MEASURED))


def markdown(found: Sequence[Verdict]) -> str:
    """Return the claims' page: a table for each condition and paper, then what is not measured, and why."""
    parts = [
        "# The papers' claims",
        "Theirs: the printed difference. Ours: the difference in points, with its 95% interval. p: of the claim by"
        " itself, then by Holm's procedure for all measured claims of its paper, which decides the verdict."
        " Each claim with its conditions is in configs/claims/ under its name.",
    ]
    for at in dict.fromkeys(one.condition for one in found):
        mine = [one for one in found if one.condition == at]
        parts += [f"## {at}", f"{counts(mine)}."]
        for paper in dict.fromkeys(one.claim.paper for one in mine if one.measured):
            lines = [_cells(one) for one in mine if one.claim.paper == paper and one.measured]
            parts += [f"### {paper}", _table(["Claim", "Theirs", "Ours", "Controls", "p", "Holm", "Verdict"], lines)]
    measured = {one.claim.id for one in found if one.measured}
    rest = [one for one in found if one.claim.id not in measured and one.condition == found[0].condition]
    not_measured = _table(["Claim", "Why", "What would measure it"], list(map(_cells, rest)))
    return "\n\n".join([*parts, "## Not measured", not_measured]) + "\n"


def _table(header: list[str], lines: list[list[str]]) -> str:
    return "\n".join(map(markdown_row, [header, [":--"] * len(header), *lines]))


def _cells(one: Verdict) -> list[str]:
    """Return a line of the tables: of a claim's verdict if it is measured, else of what would measure it."""
    if not one.measured:
        return [f"{one.claim.paper}: `{one.claim.id}`", one.reason, one.command and f"`{one.command}`"]
    name = f"{one.claim.says} ({one.claim.where}) `{one.claim.id}`"
    printed = [cell.text() for cell in one.claim.published]
    theirs = "; ".join([*printed[:3], *([f"{len(printed) - 3} more cells"] if printed[3:] else [])]) or "no number"
    controls = "; ".join(c.text() for c in _measured(one.controls))
    p = ["" if value is None else f"{value:.4f}" for value in (one.p, one.p_holm)]
    return [name, theirs, one.ours(), controls, *p, one.text()]


def ledger(results: Path) -> list[dict[str, object]]:
    """Return what the page shows of the claims: for each condition its claims, the measured ones first."""
    found = verdicts(results)
    conditions = list(dict.fromkeys(one.condition for one in found))
    rest = {one.claim.id for one in found} - {one.claim.id for one in found if one.measured}
    drawn: list[dict[str, object]] = []
    for at in conditions:
        of = [one for one in found if one.condition == at and (one.measured or at == conditions[0])]
        claims = [_drawn(one) for one in of if one.measured or one.claim.id in rest]
        drawn.append({"condition": at, "claims": sorted(claims, key=lambda one: one["verdict"] == NOT_MEASURED)})
    return drawn


def _drawn(one: Verdict) -> dict[str, str]:
    said = {"paper": one.claim.paper, "id": one.claim.id, "says": one.claim.says, "where": one.claim.where}
    if not one.measured:
        return {**said, "verdict": NOT_MEASURED, "reason": one.reason}
    _, theirs, ours, controls, p, holm, text = _cells(one)
    told = {"theirs": theirs, "ours": ours, "controls": controls, "p": p, "holm": holm, "text": text}
    return {**said, "verdict": one.verdict, **told}


def as_dict(one: Verdict) -> dict[str, object]:
    """Return a verdict as plain values, with its claim."""
    cells = tuple({"text": cell.text(), "value": cell.value} for cell in one.claim.published)
    return asdict(replace(one, claim=replace(one.claim, published=cells)))
