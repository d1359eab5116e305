"""Tolerances between a record's scores, cosines and items and those computed again here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmark.checking.bound import DifferenceError, differences, equal, require
from benchmark.checking.recorded import is_object
from benchmark.data.sources import cause_of, in_one
from benchmark.keys import without_times
from benchmark.metrics.items import values_of
from benchmark.records.query import scored_pairs, spearman
from benchmark.records.record import Coverage, Record, main_score, plain, scores_of
from benchmark.run.measure import Measured
from benchmark.run.rows import Row
from benchmark.tasks.base import PairScores, PairsData
from benchmark.tasks.loaded import LoadedTask
from zoo.machine import environment
from zoo.plugins import METHODS
from zoo.progress import counted

Numbers = NDArray[Any]

# x100: what storing cosines as float32 moves a score of float64 cosines (at most 0.0026 in the published folders).
ROUNDING = 0.003
# What a cosine, and the score x100 of the compared pairs, may move between two machines, by precision.
COSINE = {"fp32": 1e-3}
SCORE = {"fp32": 0.1}
# The least Spearman x100 with places, which some folders keep in the place of cosines.
ORDER = 99.5
# The share of items that may turn over between two machines, and what such an item, or its reciprocal rank, moves.
TURNED, TURNED_HALF = {"fp32": 0.02}, 0.05
TURN = 0.05
# The share of texts that may have the vector of another text here alone.
SHARED = 0.02
COSINE_HALF, SCORE_HALF = 0.03, 1.0


def compare_score(record: Record, predicted: Numbers, gold: Numbers) -> None:
    """Raise DifferenceError unless the score follows from the pair scores."""
    stated, again = 100 * main_score(record), spearman(predicted, gold)
    if again is None:
        raise DifferenceError(f"the score is {stated:.4f}, and its pair scores have none")
    if abs(stated - again) > ROUNDING:
        raise DifferenceError(f"the score is {stated:.4f}, and {again:.4f} from its pair scores")


def compare_shared(stated: Coverage | None, again: Coverage | None, many: float) -> None:
    """Raise DifferenceError unless nearly as many texts share a vector, which rounding decides; few are not stated."""
    texts = again["texts"] if again else 0
    before, after = (side.get("shared") if side else None for side in (stated, again))
    least, most = sorted(many * texts if count is None else float(count) for count in (before, after))
    if before != after and most - least > 2 + SHARED * texts:
        raise DifferenceError(f"coverage shared is {before}, and {after} here")


def are_places(predicted: Numbers) -> bool:
    """True for places in the order of cosines, from 0, in their stead."""
    return float(np.abs(predicted).max()) > 1.001


def compare_gold(record: Record, task: LoadedTask, kept: PairScores) -> None:
    """Raise DifferenceError unless the kept gold scores are those here."""
    gold = scored_pairs(task, "test").gold.astype("float32")
    if len(gold) != len(kept[1]) or not np.array_equal(gold, kept[1]):
        raise DifferenceError("its gold scores are not those of the data here")


def compare_kept(
    record: Record, data: PairsData, kept: PairScores, known: Sequence[NDArray[np.bool_]], measured: Measured
) -> None:
    """Raise DifferenceError unless every score follows from the cosines; `known` masks pairs without a zero vector.

    Pearson's correlation does not follow from places, nor what a task's own `score` adds: that was measured again.
    """
    predicted = kept[0]
    ends = np.cumsum([len(pairs) for pairs in data.subsets.values()])[:-1]
    split = np.split(predicted, ends)
    scores = data.score_cosines([*zip(split, known, strict=True)])
    again: dict[str, Any] = plain({**(measured.more["scores"] or {}), **scores, "pairs": None, "main": None})
    stated: dict[str, Any] = {**scores_of(record), "pairs": None, "main": None}
    places, limit = are_places(predicted), SCORE.get(record["precision"], SCORE_HALF)

    def close(where: tuple[str, ...], first: float, other: float) -> bool:
        most = ROUNDING if where[0] in scores else limit
        return abs(first - other) <= most / 100 or (places and where[-1] == "pearson")

    require(differences(stated, again, close))


def compare_measured(record: Record, measured: Measured, kept: PairScores | None, rows: int, *, exact: bool) -> str:
    """Compare a new score and its items; returns the agreement.

    `exact`: the vectors are equal to the last bit. Another machine's last bits may turn items over.
    """
    items, again = record.get("items"), measured.more.get("items")
    stated, scores = without_times(record["scores"]) or {}, plain(without_times(measured.more["scores"])) or {}
    turned = 0
    if items is not None:
        if again is None or again["gold_sha256"] != items["gold_sha256"] or again["parts"] != items["parts"]:
            raise DifferenceError("its items are not those of the data here")
        turned = int((np.abs(values_of(again) - values_of(items)) > TURN).sum())
        if turned > (0 if exact else max(2, TURNED.get(record["precision"], TURNED_HALF) * rows)):
            raise DifferenceError(f"{turned:,} items are right here and wrong there, or the other way round")
        require(differences({**items, "right": None, "ranks": None}, {**again, "right": None, "ranks": None}))
    if (again is not None) + (measured.pairs is not None) != bool(items) + bool(record.get("pairs")):
        raise DifferenceError("it does not state the scores of its items, which a run keeps")
    same = exact or (items is not None and not turned)
    if kept is not None and measured.pairs is not None:
        same = bool(np.array_equal(kept[0], measured.pairs[0].astype(np.float32)))
    # Without items: two of them.
    limit = max(SCORE.get(record["precision"], SCORE_HALF), 200 / max(rows, 1) * (kept is None)) / 100

    def close(where: tuple[str, ...], first: float, other: float) -> bool:
        return equal(where, first, other) or (not same and abs(first - other) <= limit)

    if not close((), main_score(record), scores["main"]):
        raise DifferenceError(
            f"the score is {100 * main_score(record):.2f}, and {100 * scores['main']:.2f} when measured again"
        )
    require(differences(stated, scores, close))
    if same:
        return "the score, measured again, is equal"
    return f"the score, measured again within {100 * limit:.2g}" + (f"; {turned} items turned over" if turned else "")


# What decides the bits of a vector on a CPU.
KIND = ("cpu", "instructions", "platform", "packages", "gpu")


def compares_bits(record: Record, row: Row, here: Mapping[str, Any] | None = None) -> bool:
    """Whether its cosines must have the same bits `here`: our engine's, and measured on this kind of CPU."""
    here = environment("cpu") if here is None else here
    registered = METHODS.name_of(row.cls)
    # An adaptation's sums depend on the threads.
    names = (*KIND, "threads") if row.traits.transductive else KIND
    ours = bool(registered and METHODS.is_builtin(registered)) and not is_object(record)
    alike = all(record["environment"].get(name) == here[name] for name in names)
    return ours and alike and record["facts"].get("run_by") is None


def compare_cosines(record: Record, row: Row, again: Numbers, predicted: Numbers, gold: Numbers) -> tuple[bool, str]:
    """Return whether all new cosines are equal to the kept, and how that was compared.

    Raise DifferenceError unless they are near, or equal on the kind of machine that measured.
    """
    bits = compares_bits(record, row)
    precision = record["precision"]
    if not are_places(predicted):
        most = float(np.abs(again - predicted).max())
        if bits and (count := int((again.astype(np.float32) != predicted).sum())):
            raise DifferenceError(
                f"{count} of {len(again)} cosines, encoded again on the kind of machine that measured them, have other"
                f" bits (they differ by up to {most:.1e})"
            )
        if not most <= COSINE.get(precision, COSINE_HALF):
            raise DifferenceError(f"cosines of {len(again)} pairs, encoded again, differ by up to {most:.4f}")
    elif (order := spearman(again, predicted)) is None or order < ORDER:
        raise DifferenceError(f"the cosines of {len(again)} pairs, encoded again, have another order ({order})")
    before, after = spearman(predicted, gold), spearman(again, gold)
    if before is not None and (after is None or abs(after - before) > SCORE.get(precision, SCORE_HALF)):
        raise DifferenceError(f"{len(again)} pairs, encoded again, have the score {after}, not {before}")
    alike, within = np.array_equal(again.astype(np.float32), predicted), COSINE.get(precision, COSINE_HALF)
    if bits and alike:
        return True, "are equal bit for bit, as this kind of machine requires"
    near = f"are within {within:g} (bits are compared on the kind of machine that measured)"
    return alike, "are equal" if alike else near


Word = Literal["verified", "differs", "not verifiable", "failed", "missing"]
WORDS: tuple[Word, ...] = ("verified", "differs", "not verifiable", "failed", "missing")

LIMITS = (
    "This does not show that an encoder saw no test text in training, that it was trained as stated, or that tables and"
    " texts beside the records follow from them."
)


@dataclass(frozen=True)
class Verdict:
    word: Word
    row: str
    cell: str
    why: str


@dataclass(frozen=True)
class Verified:
    verdicts: list[Verdict]
    limits: str = LIMITS

    def exit_code(self, *, allow_unverified: bool = False) -> int:
        """Return 0 only if every cell is verified, or, if so allowed, none differs."""
        words = {verdict.word for verdict in self.verdicts}
        return int("differs" in words or (words != {"verified"} and not allow_unverified))

    def __str__(self) -> str:
        lines = [f"differs: {verdict.cell}: {verdict.why}" for verdict in self.verdicts if verdict.word == "differs"]
        groups: dict[tuple[Word, str], list[Verdict]] = {}
        for verdict in self.verdicts:
            if verdict.word != "differs":
                groups.setdefault((verdict.word, cause_of(verdict.why)), []).append(verdict)
        for (word, _), group in sorted(groups.items(), reverse=True):
            why = in_one(list(dict.fromkeys(verdict.why for verdict in group)))
            rows = list(dict.fromkeys(verdict.row for verdict in group))
            names = ", ".join(rows[:3]) + (f" and {counted(len(rows) - 3, 'more row')}" if rows[3:] else "")
            lines.append(f"{word}: {counted(len(group), 'cell')} of {names}: {why}")
        counts = Counter(verdict.word for verdict in self.verdicts)
        shown = [word for word in WORDS if counts[word] or word in WORDS[:3]]
        total = (
            f"{counted(len(self.verdicts), 'cell')}: " + ", ".join(f"{counts[word]:,} {word}" for word in shown) + "."
        )
        return "\n".join([*lines, total, self.limits])
