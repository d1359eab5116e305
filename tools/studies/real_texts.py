"""How often tables err where pairs share texts as in the real tasks: `python -m tools.studies.real_texts [TABLES]`.

Ten equally good rows without seeds are scored on pairs with the texts of a real task. A row's own error of a pair is in
part that of the pair and in part that of its two texts. Gold scores are drawn anew in each table. Shown are, for three
ways to take the noise: how often a 95% interval of two rows contains 0, its width beside the true spread, how often the
first row is left out of the set of the best, and how often any row has an arrow against the first (Holm).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from benchmark.report.markdown import markdown_row
from benchmark.stats.bootstrap import Scored, influences, resample_together
from benchmark.stats.clusters import Clusters, clusters_of, independent
from benchmark.stats.marks import arrows_against
from benchmark.stats.mcb import Sample, best_set, differences, mixed_df, sample, sampled
from benchmark.tasks.overlap import POOLS, _pooled, _texts_of, shared_texts

TASKS = ("STS12", "STS13", "STS15", "SICK-R", "MEN", "SimLex-999", "WS-353", "RW", "RG-65", "MC-30")
SHARES = (0.0, 0.3, 0.8)  # of a row's own error of a pair that are its texts'
ROWS = 10
_RESAMPLES = 500

Values = NDArray[np.float64]
Way = Callable[[Values, Values, Clusters], Sample]


def by_dyads(predicted: Values, gold: Values, clusters: Clusters) -> Sample:
    """Return the sample as tables and `compare` take it."""
    scores, influence = influences(predicted, gold)
    unrelated, together = clusters.variances(100 * influence / len(gold))
    few = max(1, round(clusters.effective) - 1)
    df = mixed_df(unrelated, len(gold) - 1, together - unrelated, few)
    return sampled([*100 * scores[:, None]], (together, df), len(gold))


def as_unrelated(predicted: Values, gold: Values, clusters: Clusters) -> Sample:
    """Return the sample as if pairs shared no text."""
    return by_dyads(predicted, gold, independent(len(clusters.units)))


def by_pigeonhole(predicted: Values, gold: Values, clusters: Clusters) -> Sample:
    """Return the sample of texts that are drawn: a pair stands there as often as the product of both."""
    (drawn,) = resample_together([Scored(predicted, gold)], resamples=_RESAMPLES, clusters=clusters, expanded=True)
    scores, _ = influences(predicted, gold)
    return sample([*100 * scores[:, None]], 100 * clusters.unbiased(drawn), round(clusters.effective))


WAYS: dict[str, Way] = {"dyads": by_dyads, "pigeonhole": by_pigeonhole, "unrelated": as_unrelated}


def texts_of_pairs(task: str) -> NDArray[np.intp]:
    """Return text numbers (pairs, 2) of a task of the overlap's table; a text of a single pair has its own."""
    pooled = next((_pooled(name) for name, tasks in POOLS.items() if task in tasks), None)
    numbers = shared_texts(task, (pooled.gold_sha256[task] if pooled else (_texts_of(task) or {})["gold_sha256"]))
    assert numbers is not None
    # Before a pair that a task has twice is taken twice: its texts are the same.
    alone = numbers < 0
    numbers = np.where(alone, numbers.max() + np.cumsum(alone).reshape(alone.shape), numbers)
    return numbers[pooled.places[task]] if pooled else numbers


def tables(texts: NDArray[np.intp], share: float, count: int) -> Iterator[tuple[Values, Values]]:
    """Yield scores (rows, pairs) of equally good rows, and gold scores (pairs,)."""
    for number in range(count):
        generator = np.random.default_rng([number, len(texts)])
        gold, alike = generator.normal(size=(2, len(texts)))
        of_texts = generator.normal(size=(ROWS, texts.max() + 1))[:, texts].sum(axis=2)
        noise = np.sqrt(1 - share) * generator.normal(size=(ROWS, len(texts))) + np.sqrt(share / 2) * of_texts
        yield gold + 0.7 * alike + noise, gold


def errors(task: str, share: float, count: int, way: Way) -> tuple[float, float, float, float]:
    """Return the share of intervals that contain 0, their width beside the true one, and the two shares of wrong marks.

    The true spread is that of the difference of two rows over all tables.
    """
    texts = texts_of_pairs(task)
    clusters = clusters_of(*texts.T)
    gaps, widths, inside, out, arrows = [], [], [], 0, 0
    for predicted, gold in tables(texts, share, count):
        of_table = way(predicted, gold, clusters)
        result = differences(of_table)
        couples = np.triu_indices(ROWS, 1)
        gaps.append(result.value[couples])
        widths.append((result.high - result.low)[couples])
        inside.append((result.low[couples] <= 0) & (result.high[couples] >= 0))
        out += not best_set(of_table, only=[0])[0]
        arrows += bool(arrows_against(result, 0))
    width = float(np.mean(widths) / (2 * 1.96 * np.std(gaps)))
    return float(np.mean(inside)), width, out / count, arrows / count


if __name__ == "__main__":
    number = int(sys.argv[1]) if sys.argv[1:] else 300
    heads = ["pairs of", "unrelated pairs that say as much", "own errors of the texts"]
    print(
        markdown_row([*heads, *(f"{way}: {what}" for way in WAYS for what in ("inside", "width", "best out", "arrow"))])
    )
    for task in TASKS:
        of_task = clusters_of(*texts_of_pairs(task).T)
        for share in SHARES:
            cells = [f"{task} ({len(of_task.units):,})", f"{of_task.effective:,.0f}", f"{share:.0%}"]
            for way in WAYS.values():
                covered, width, out, arrow = errors(task, share, number, way)
                cells += [f"{covered:.1%}", f"{width:.2f}", f"{out:.1%}", f"{arrow:.1%}"]
            print(markdown_row(cells), flush=True)
