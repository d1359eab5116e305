"""Scores of kinds of pairs: hard ones (PT-BERT sections 3.1 and 5.2, table 5c), and by length.

They come from the pair scores beside the records, without torch. A correlation within few gold scores says little (and
is undefined if all are equal). Each line has two more numbers, by ranks among all pairs of the task: see `Part`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.data.readers.pairs import Pairs
from benchmark.metrics.correlation import ranks
from benchmark.records.folder import Records
from benchmark.records.items import pairs_of
from benchmark.records.query import PairTexts, RowScores, row_scores, spearman
from benchmark.records.record import Record
from benchmark.stats.mcb import differences, sample
from zoo.errors import MissingError, ZooError
from zoo_bench_papers.analysis.result import COLOURS, Analysis, AnalysisTable, Points, Scatter

# With fewer pairs, the standard error of a correlation is above 14 points.
FEWEST = 50
# The upper limit of each band, in words of the longer text.
LENGTHS = (5, 10, 15, 20, 30)
# The standard errors of differences are then known to 4%.
RESAMPLES = 300

ALL, HARD, EASY, REST = "all", "hard", "easy", "all but hard"
_COLUMNS: dict[str, int | None] = {
    **dict.fromkeys(["Method", "Task", "Pairs of", "Pairs", "Seeds"]),
    **{"Spearman": 2, "SD": 2, "Rank error": 2, "Rank bias": 2},
}

_DIFFERENCES: dict[str, int | None] = {
    **dict.fromkeys(["A", "B", "Of", "Tasks"]),
    **{"Difference": 2, "Low": 2, "High": 2},
}
NOTHING = "0"

Mask = NDArray[np.bool_]
Values = NDArray[np.float64]
Line = dict[str, Any]


@dataclass(frozen=True)
class Hard:
    """A hard pair: the quoted words are the paper's; thresholds, unit and aggregation are ours."""

    # Above 4, STS16 would have two hard positive pairs.
    positive: float = 4.0
    negative: float = 1.0
    # "A length difference of more than five words", and one "of less than two words".
    longer_by: int = 5
    closer_than: int = 2

    def masks(self, pairs: Pairs) -> dict[str, Mask]:
        """Masks (n,): hard pairs, pairs of such scores without hardness, and all pairs without hardness."""
        first, second = _words(pairs)
        apart = np.abs(first - second)
        positive, negative = pairs.gold >= self.positive, pairs.gold <= self.negative
        hard = (positive & (apart > self.longer_by)) | (negative & (apart < self.closer_than))
        return {HARD: hard, EASY: (positive | negative) & ~hard, REST: ~hard}


def _words(pairs: Pairs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    first, second = (np.array([len(t.split()) for t in side]) for side in (pairs.first, pairs.second))
    return first, second


def length_masks(pairs: Pairs) -> dict[str, Mask]:
    longer = np.maximum(*_words(pairs))
    edges = (0, *LENGTHS)
    masks = {f"{low + 1}-{most} words": (longer > low) & (longer <= most) for low, most in itertools.pairwise(edges)}
    return {**masks, f"{LENGTHS[-1] + 1} words or more": longer > LENGTHS[-1]}


@dataclass(frozen=True)
class Part:
    """A row's scores on some pairs of a task: a value per seed, or None with the reason.

    spearman: x100, within these pairs. error: mean absolute difference of the percentile ranks (0 to 100, among all
    pairs of the task) of prediction and gold; over all pairs it is 33 by chance. bias: the same with sign, above 0 for
    too similar predictions.
    """

    pairs: int
    spearman: NDArray[np.float64] | None = None
    error: NDArray[np.float64] | None = None
    bias: NDArray[np.float64] | None = None
    reason: str = ""


def part(kept: RowScores, mask: Mask) -> Part:
    count = int(mask.sum())
    if count < FEWEST:
        return Part(count, reason=f"fewer than {FEWEST} pairs")
    off = kept.places[:, mask] - kept.gold_places[mask]
    each = [spearman(predicted[mask], kept.gold[mask]) for predicted in kept.predicted]
    values = [value for value in each if value is not None]
    complete = len(values) == len(each)
    return Part(
        count,
        np.array(values) if complete else None,
        np.abs(off).mean(axis=1),
        off.mean(axis=1),
        "" if complete else "all of one score",
    )


def mean_part(parts: Sequence[Part], tasks: int) -> Part:
    """Mean over tasks for each seed, without value if any task has none."""
    known = [part for part in parts if part.spearman is not None]
    pairs = sum(part.pairs for part in parts)
    if len(known) < tasks:
        return Part(pairs, reason=f"{len(known)} of {tasks} tasks")
    values = [np.array([getattr(part, name) for part in known]).mean(axis=0) for name in ("spearman", "error", "bias")]
    return Part(pairs, *values)


def hard_parts(kept: RowScores, pairs: Pairs, hard: Hard) -> dict[str, Part]:
    masks = hard.masks(pairs)
    parts = {ALL: part(kept, np.ones(len(pairs), dtype=np.bool_))}
    golds = pairs.gold[masks[HARD]]
    for side, mask in (("positive", golds >= hard.positive), ("negative", golds <= hard.negative)):
        # Words, or another scale, lack this subset.
        if not mask.any():
            reason = f"no hard {side} pair"
            return parts | {name: Part(int(mask.sum()), reason=reason) for name, mask in masks.items()}
    return parts | {name: part(kept, mask) for name, mask in masks.items()}


SHORT = f"1-{LENGTHS[0]} words"
MEASURES = (ALL, HARD, EASY, "hard less all", "hard less easy", f"{SHORT} less all", "length bias")


def pair_measures(
    predicted: NDArray[Any], gold: NDArray[Any], apart: NDArray[np.int64], masks: Mapping[str, Mask]
) -> Values:
    """MEASURES, x100, of a seed's predictions (n,) and gold scores; NaN for kinds without a mask.

    Length bias: Spearman of the rank error with the difference in words. "X less Y": correlation on X less that on Y.
    """
    kinds = (masks.get(kind, np.zeros(len(gold), np.bool_)) for kind in (HARD, EASY, SHORT))
    each = [spearman(predicted, gold), *(spearman(predicted[of], gold[of]) for of in kinds)]
    bias = spearman(ranks(predicted) - ranks(gold), apart)
    every, hard, easy, short, off = (np.nan if rho is None else rho for rho in (*each, bias))
    return np.array([every, hard, easy, hard - every, hard - easy, short - every, off])


def pair_differences(kept: Mapping[str, Mapping[str, RowScores]], texts: Mapping[str, Pairs], hard: Hard) -> list[Line]:
    """Differences of every two rows (of each row and 0, too) in the measures, means over tasks.

    Their 95% intervals contain the noise of pairs, within each task, and of seeds. `kept` is by row and task.
    """
    by_seed: dict[str, list[Values]] = {name: [] for name in kept}
    drawn: dict[str, list[Values]] = {name: [] for name in kept}
    for task, pairs in texts.items():
        first, second = _words(pairs)
        apart, masks = np.abs(first - second), {**hard.masks(pairs), SHORT: np.maximum(first, second) <= LENGTHS[0]}
        masks = {kind: mask for kind, mask in masks.items() if mask.sum() >= FEWEST}
        draws = np.random.default_rng(0).integers(len(pairs), size=(RESAMPLES, len(pairs)))
        for name, of_row in kept.items():
            gold, seeds = of_row[task].gold, of_row[task].predicted
            by_seed[name].append(np.array([pair_measures(p, gold, apart, masks) for p in seeds]))
            of_draws = [
                [pair_measures(p[i], gold[i], apart[i], {kind: mask[i] for kind, mask in masks.items()}) for i in draws]
                for p in seeds
            ]
            drawn[name].append(np.mean(of_draws, axis=0))
    names = [*kept, NOTHING]
    count = sum(map(len, texts.values()))
    lines: list[Line] = []
    for place, measure in enumerate(MEASURES):
        of_seed = [np.mean([values[:, place] for values in by_seed[name]], axis=0) for name in kept]
        of_draw = [np.mean([values[:, place] for values in drawn[name]], axis=0) for name in kept]
        if not all(np.isfinite(values).all() for values in of_seed):
            continue
        result = differences(sample([*of_seed, np.zeros(1)], np.array([*of_draw, np.zeros(RESAMPLES)]), count))
        for i, j in itertools.combinations(range(len(names)), 2):
            if i < len(kept) and len(of_seed[i]) == 1 and kept[names[i]][next(iter(texts))].record["seed"] is not None:
                continue
            values = [float(part[i, j]) for part in (result.value, result.low, result.high)]
            where = {"A": names[i], "B": names[j], "Of": measure, "Tasks": len(texts)}
            lines.append({**where, **dict(zip(("Difference", "Low", "High"), values, strict=True))})
    return lines


_TABLES = {"hard": "Hard pairs by length difference", "length": "By length"}


def analyse_pairs(
    rows: Mapping[str, list[Record]], tasks: Sequence[str], store: Records, texts: PairTexts, hard: Hard
) -> Analysis:
    lines: dict[str, list[dict[str, object]]] = {name: [] for name in _TABLES}
    notes: dict[str, list[str]] = {name: [] for name in _TABLES}
    golds: dict[str, str] = {}
    drawn: list[tuple[str, dict[str, dict[str, Part]]]] = []
    scores: dict[str, dict[str, RowScores]] = {}
    texts_of: dict[str, Pairs] = {}
    for name, records in rows.items():
        by_task: dict[str, dict[str, Part]] = {}
        for task in tasks:
            try:
                kept = row_scores(name, records, task, store)
                texts_of[task] = texts.of(kept.record)
                parts = {"hard": hard_parts(kept, texts_of[task], hard)}
                parts["length"] = {label: part(kept, mask) for label, mask in length_masks(texts_of[task]).items()}
                scores.setdefault(name, {})[task] = kept
            except ZooError as error:
                for table in _TABLES:
                    lines[table].append({**dict.fromkeys(_COLUMNS), "Method": name, "Task": task})
                    notes[table].append(f"n/a: {name}, {task}: {error}")
                continue
            golds[task] = pairs_of(kept.record)["gold_sha256"]
            by_task[task] = parts["hard"]
            for table, of_table in parts.items():
                lines[table] += _lines(name, task, of_table.items(), notes[table])
        if len(tasks) > 1:
            kinds = (ALL, HARD, EASY, REST)
            means = [(kind, mean_part([p[kind] for p in by_task.values()], len(tasks))) for kind in kinds]
            lines["hard"] += _lines(name, "Avg.", means, notes["hard"])
        drawn.append((name, by_task))
    if not golds:
        raise MissingError("; ".join(dict.fromkeys(notes["hard"])) or "no task is named.")
    tables = [
        AnalysisTable(f"pairs-{table}", title, _COLUMNS, lines[table], list(dict.fromkeys(notes[table])))
        for table, title in _TABLES.items()
    ]
    complete = {name: of for name, of in scores.items() if len(of) == len(texts_of)}
    compared = pair_differences(complete, texts_of, hard)
    tables.append(AnalysisTable("pairs-differences", "Differences of rows", _DIFFERENCES, compared, [_COMPARED]))
    conditions = {
        "hard": asdict(hard),
        "lengths": LENGTHS,
        "fewest": FEWEST,
        "rows": {name: records[0]["row_key"] for name, records in rows.items()},
        "gold_sha256": golds,
    }
    return Analysis("pairs", "Kinds of pairs", _about(hard), tables, _figures(drawn), conditions)


def _lines(name: str, task: str, parts: Iterable[tuple[str, Part]], notes: list[str]) -> list[dict[str, Any]]:
    lines = []
    for kind, part in parts:
        lines.append({"Method": name, "Task": task, "Pairs of": kind, "Pairs": part.pairs, **cells(part)})
        if part.reason:
            # Otherwise it holds for every method.
            whose = f"{name}, " if task == "Avg." or part.error is not None else ""
            notes.append(f"n/a: {whose}{task}, {kind} ({part.pairs} pairs): {part.reason}")
    return lines


def cells(part: Part) -> dict[str, Any]:
    seeds = next((len(values) for values in (part.spearman, part.error) if values is not None), None)
    # Rounding makes the bias of all pairs 0 instead of -0.
    means = [None if v is None else round(float(v.mean()), 9) + 0.0 for v in (part.spearman, part.error, part.bias)]
    sd = None if part.spearman is None or len(part.spearman) < 2 else float(part.spearman.std(ddof=1))
    return {"Seeds": seeds, "Spearman": means[0], "SD": sd, "Rank error": means[1], "Rank bias": means[2]}


def _about(hard: Hard) -> list[str]:
    return [
        "Spearman x100 within the pairs of each line, mean and sample standard deviation over seeds; n/a below"
        f" {FEWEST} pairs.",
        "Rank error: mean distance between the places (0 to 100) of prediction and gold score among all pairs of the"
        " task; over all pairs 33 by chance. Rank bias: the same with sign, above 0 where predictions are too similar.",
        f"Hard (PT-BERT 3.1): scored {hard.positive:g} or higher and more than {hard.longer_by} words apart in length,"
        f" or scored {hard.negative:g} or lower and less than {hard.closer_than} words apart. Easy: of these scores and"
        " not hard. Words: between blanks.",
        "Length: words of the longer text.",
    ]


_COMPARED = (
    "A less B, means over tasks, with 95% intervals that contain the noise of pairs and seeds. Hard less all: the"
    " correlation on hard pairs less that on all. Length bias: Spearman x100 of the rank error with the difference in"
    " words, below 0 where pairs of unequal length are rated too low. B is 0: the measure of A itself."
)


def _figures(drawn: Sequence[tuple[str, dict[str, dict[str, Part]]]]) -> list[Scatter]:
    kinds = []
    for i, (name, by_task) in enumerate(drawn):
        values = {
            task: (cells(parts[EASY])["Spearman"], cells(parts[HARD])["Spearman"]) for task, parts in by_task.items()
        }
        known = {task: both for task, both in values.items() if None not in both}
        if known:
            x, y = zip(*known.values(), strict=True)
            kinds.append(Points(name, x, y, list(known), colour=COLOURS[i % len(COLOURS)]))
    if not kinds:
        return []
    title = "Hard and easy pairs"
    return [Scatter("pairs-hard", title, "easy pairs, Spearman x100", "hard pairs, Spearman x100", kinds, named=True)]
