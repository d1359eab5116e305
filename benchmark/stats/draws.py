"""Differences between rows with the noise of items and of seeds, from item scores: the source of all of them.

A row is given as its finished records by task; scores are in points (x100).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmark.data.sources import DataSource
from benchmark.records.folder import ItemScores, Records
from benchmark.records.items import items_identity
from benchmark.records.query import PairTexts
from benchmark.records.record import Record, main_score, scores_of
from benchmark.stats.bootstrap import influences
from benchmark.stats.clusters import Clusters, clusters_of, independent
from benchmark.stats.mcb import LEADS, Sample, SeedNoise, mixed_df, sampled
from benchmark.tasks.overlap import Pool, numbered, pool_of, shared_texts
from benchmark.tasks.suites import all_suites
from zoo.errors import ContractError, CorruptError, MissingError, ZooError
from zoo.files import read_json

TABLE_RESAMPLES = LEADS  # of vectors that are not in records
FLOORS = Path(__file__).with_name("floors.json")

ByTask = Mapping[str, Sequence[Record]]  # a row: its finished records by task
Matrix = NDArray[np.float64]
_SEEDS = 3  # of two rows, from which a correlation of their seeds is measured


def finished(records: Iterable[Record], tasks: Collection[str], *, trial: bool = False) -> dict[str, list[Record]]:
    by_task: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record["status"] == "ok" and (record["limit"] is not None) == trial and record["task"]["name"] in tasks:
            by_task[record["task"]["name"]].append(record)
    return dict(by_task)


def by_seed(of_row: ByTask, tasks: Collection[str] | None = None) -> dict[int | None, float]:
    """Return a row's mean over tasks for each seed with every score, sorted."""
    scores: dict[int | None, dict[str, float]] = defaultdict(dict)
    names = set(of_row if tasks is None else tasks)
    # In the row's order: that of a set changes from process to process, and with it the last bits of a mean.
    for task in [task for task in of_row if task in names]:
        for record in of_row[task]:
            runs: Mapping[str, Any] = scores_of(record).get("by_seed") or {} if record["seed"] is None else {}
            if len(runs) > 1 and record.get("items"):  # fine-tuned several times: each is a seed's score
                for seed, run in runs.items():
                    scores[int(seed)][task] = 100 * run[scores_of(record)["main_metric"]]
            else:
                scores[record["seed"]][task] = 100 * main_score(record)
    known = {seed: float(np.mean(list(of.values()))) for seed, of in scores.items() if len(of) == len(names)}
    return dict(sorted(known.items(), key=lambda item: -1 if item[0] is None else item[0]))


def is_alone(of_row: ByTask) -> bool:
    """True for one seed: the noise of seeds is unknown."""
    seeds = {record["seed"] for records in of_row.values() for record in records}
    return len(seeds) == 1 and None not in seeds


def floor_of(row: ByTask, tasks: Collection[str]) -> float:
    """Return the least variance over seeds assumed for a row's mean over tasks.

    Few seeds can lie close together by chance. `floors.json` states half the median standard deviation over a
    backbone's rows, by suite and by task, so that no row of a folder changes it. Other backbones have the least of
    these. Other combinations of tasks count as independent; 0 if a task has none.
    """
    name = next(iter(row.values()))[0]["method"]["sources"].get("backbone", {}).get("name", "")
    stated = _floors()
    return (
        min(
            (_floor(of, frozenset(tasks)) for of in ([stated[name]] if name in stated else stated.values())),
            default=0.0,
        )
        ** 2
    )


def _floor(stated: Mapping[frozenset[str], float], tasks: frozenset[str]) -> float:
    if tasks in stated:
        return stated[tasks]
    return math.sqrt(sum(stated.get(frozenset([task]), 0.0) ** 2 for task in tasks)) / len(tasks)


@functools.cache
def _floors() -> dict[str, dict[frozenset[str], float]]:
    suites = all_suites()
    return {
        name: {frozenset(suites[key].tasks if key in suites else [key]): value for key, value in of.items()}
        for name, of in read_json(FLOORS).items()
    }


def share_draws(a: ByTask, b: ByTask) -> bool:
    """True if two rows share the randomness of a seed (order of texts, dropout, start), as a row and its ablation.

    Method, backbone, training text and seeds are equal, recipes differ at most once. A GPU's dropout is not a CPU's,
    and library versions may differ too.
    """
    first, second = (next(iter(row.values()))[0] for row in (a, b))
    seeds = [{record["seed"] for record in records} for row in (a, b) for records in row.values()]
    if any(seed != seeds[0] for seed in seeds) or len(seeds[0]) < 2 or origin_of(first) != origin_of(second):
        return False
    return _machines(a) == _machines(b) and len(changed_settings(first, second)) <= 1


def changed_settings(first: Record, second: Record) -> list[str]:
    """Return differing settings among those of both records."""
    first_recipe, second_recipe = first["method"]["recipe"], second["method"]["recipe"]
    return sorted(key for key in first_recipe.keys() & second_recipe.keys() if first_recipe[key] != second_recipe[key])


def _machines(row: ByTask) -> dict[int | None, object]:
    places = ((record["seed"], record["environment"]) for record in next(iter(row.values())))
    return {seed: (place["gpu"] or "cpu", place.get("cuda"), place["packages"]) for seed, place in places}


def seed_correlation(rows: Iterable[ByTask], tasks: Collection[str]) -> tuple[float, int] | None:
    """Return the mean seed correlation over pairs of rows with shared randomness, and the number of pairs.

    A pair has the same three seeds or more; at least two pairs are needed.
    """
    alike: dict[object, list[ByTask]] = defaultdict(list)
    for row in rows:
        if row.keys() == set(tasks):
            alike[origin_of(next(iter(row.values()))[0])].append(row)
    correlations = []
    for a, b in (pair for group in alike.values() for pair in itertools.combinations(group, 2)):
        a_seeds, b_seeds = (np.array(list(by_seed(row, tasks).values())) for row in (a, b))
        if share_draws(a, b) and len(a_seeds) == len(b_seeds) >= _SEEDS and np.ptp(a_seeds) and np.ptp(b_seeds):
            correlations.append(float(np.corrcoef(a_seeds, b_seeds)[0, 1]))
    return (float(np.mean(correlations)), len(correlations)) if len(correlations) > 1 else None


def unit_of(rows: Iterable[Iterable[Record]]) -> str:
    return "items" if any(record.get("items") for row in rows for record in row) else "pairs"


def origin_of(record: Record) -> tuple[object, ...]:
    method, training = record["method"], record["training"] or {}
    corpus = training.get("corpus") or {}
    learned = [corpus.get(key) for key in ("name", "sha256", "sentences", "documents", "pairs")] if corpus else None
    backbone = method["sources"].get("backbone", {})
    return method["class"], backbone.get("sha256"), repr(learned), record["precision"]


def comparable(rows: Sequence[ByTask]) -> list[int]:
    """Return the places of the rows with the first's gold scores and protocol."""

    def pairs(row: ByTask) -> dict[str, set[tuple[str, int]]]:
        return {task: {(items_identity(r).gold_sha256, r["protocol"]) for r in of} for task, of in row.items()}

    return [i for i, row in enumerate(rows) if pairs(row) == pairs(rows[0])]


def clusters_in(record: Record, texts: PairTexts) -> Clusters | None:
    """Return the pairs with common texts; None if the texts are unknown."""
    numbers = shared_texts(record["task"]["name"], items_identity(record).gold_sha256)
    if numbers is None and record.get("pairs"):
        with contextlib.suppress(ZooError):
            pairs = texts.of(record)
            numbers = numbered([*zip(pairs.first, pairs.second, strict=True)])
    return None if numbers is None else clusters_of(*numbers.T)


@dataclass(frozen=True)
class ItemNoise:
    """Each item's part of the scores of rows, in points.

    Args:
        influence: By task (rows, items): the mean over a row's seeds of the items' influences, over their number.
        places: By task: its pool or itself, and the items' places in it (items,).
        clusters: By pool or task, the items with a common text; None if unknown.
    """

    influence: Mapping[str, Matrix]
    places: Mapping[str, tuple[Pool | str, NDArray[np.intp]]]
    clusters: Mapping[Pool | str, Clusters | None]

    def between(self, tasks: Collection[str], rows: Sequence[int]) -> tuple[Matrix, Matrix]:
        """Return the variances of differences of rows on the mean of tasks, and their degrees of freedom.

        A pair of several tasks is resampled for all of them, pairs with a common text together.
        """
        unrelated = together = np.zeros((len(rows), len(rows)))
        items, effective = 0, 0.0
        for drawn_with in dict.fromkeys(self.places[task][0] for task in tasks):
            alike = [task for task in tasks if self.places[task][0] == drawn_with]
            used, at = np.unique(np.concatenate([self.places[task][1] for task in alike]), return_inverse=True)
            influence = np.concatenate([self.influence[task][rows] for task in alike], axis=1)
            moved = np.stack([np.bincount(at, of_row, len(used)) for of_row in influence]) / len(tasks)
            known = self.clusters[drawn_with]
            clusters = independent(len(used)) if known is None else known.of(used)
            of_rows, of_texts = clusters.variances(moved)
            unrelated, together = unrelated + of_rows, together + of_texts
            items, effective = items + len(used), effective + clusters.effective
        # Only what pairs with a common text add has the degrees of freedom of so few texts.
        few = max(1, round(effective) - 1)
        return together, mixed_df(unrelated, max(1, items - 1), together - unrelated, few)

    def errors(self, task: str) -> tuple[Matrix, Matrix]:
        """Return the standard errors (rows,) of scores of a task, and their degrees of freedom."""
        score = self.influence[task]
        with_nothing = np.concatenate([score, np.zeros((1, score.shape[1]))])
        noise = replace(self, influence={task: with_nothing})
        variance, df = noise.between([task], range(len(with_nothing)))
        return np.sqrt(variance[-1, :-1]), df[-1, :-1]

    def unrelated(self, task: str) -> float | None:
        """Return the equivalent number of items without common texts."""
        drawn_with, places = self.places[task]
        clusters = self.clusters[drawn_with]
        return None if clusters is None else clusters.of(places).effective


def item_noise(
    rows: Sequence[ByTask],
    store: Records | Sequence[Records],
    texts: PairTexts | None = None,
    metric: Literal["", "pearson"] = "",
) -> tuple[ItemNoise, dict[int, list[str]]]:
    """Return the items' parts of the scores of rows with the same tasks, and the reasons for damaged rows.

    Every "different", "tied" or "above" comes from here. The noise is that of infinitely many resamples, to first
    order. `store` is that of the records, or of each row. `texts` reads those of tasks outside `overlap.json`. `metric`
    "pearson" is the mean of Pearson's correlations of a task's subsets. A row with unreadable item scores has NaN.
    """
    stores = [store] * len(rows) if isinstance(store, Records) else store
    texts = texts or PairTexts(_data_here())
    damaged: dict[int, list[str]] = {}
    influence, places, clusters = {}, {}, {}
    for task in rows[0]:
        first = rows[0][task][0]
        pooled = pool_of(task, items_identity(first).gold_sha256)
        scores: list[list[ItemScores]] = []
        for place, (row, of_row) in enumerate(zip(rows, stores, strict=True)):
            try:
                scores.append([of_row.item_scores(record) for record in row[task]])
            except (MissingError, CorruptError) as error:
                damaged.setdefault(place, []).append(str(error))
                scores.append([])
        every = [of_seed for of_row in scores for of_seed in of_row]
        size = len(every[0].gold) if every else 0
        parts = _subsets(first, size) if metric and every else [slice(None)]
        moved = np.empty((len(every), size))
        for part in parts if every else ():
            predicted, gold = np.stack([of_seed.predicted[part] for of_seed in every]), every[0].gold[part]
            _, of_part = influences(predicted, gold, metric or every[0].metric)
            moved[:, part] = of_part * (100 / len(gold) / len(parts))
        if not np.isfinite(moved).all():
            raise ContractError(f"{task}: a row has no correlation: its scores are all equal.")
        ends = np.cumsum([len(of_seeds) for of_seeds in scores])
        influence[task] = np.full((len(rows), size), np.nan)
        for place, (of_seeds, end) in enumerate(zip(scores, ends, strict=True)):
            if of_seeds:
                influence[task][place] = moved[end - len(of_seeds) : end].mean(axis=0)
        places[task] = pooled or (task, np.arange(size))
        clusters[places[task][0]] = clusters_in(first, texts)
    return ItemNoise(influence, places, clusters), damaged


def _data_here() -> DataSource | None:
    try:
        return DataSource.from_options(None, hub=False)
    except ZooError:
        return None


def _subsets(record: Record, items: int) -> list[slice]:
    subsets: Mapping[str, Any] = scores_of(record).get("subsets") or {"": {"n": items}}
    sizes = [part["n"] for part in subsets.values()]
    ends = [0, *np.cumsum(sizes).tolist()]
    return [slice(start, end) for start, end in itertools.pairwise(ends)]


def compared(
    rows: Sequence[ByTask],
    store: Records | Sequence[Records],
    tasks: Collection[str],
    one_seed: Mapping[int, SeedNoise] | None = None,
    metric: Literal["", "pearson"] = "",
) -> tuple[list[int], Sample | None, dict[int, list[str]]]:
    """Return the places of the rows comparable with the first, their sample on the mean over `tasks`, and damaged rows.

    `one_seed` has, by place, the noise lent to a row of a single seed.
    """
    places = comparable(rows)
    stores = store if isinstance(store, Records) else [store[i] for i in places]
    noise, damaged = item_noise([rows[i] for i in places], stores, metric=metric)
    undamaged = [i for i in range(len(places)) if i not in damaged]
    reasons = {places[i]: reason for i, reason in damaged.items()}
    kept = [places[i] for i in undamaged]
    if not kept:
        return [], None, reasons
    lent = {kept.index(i): of_row for i, of_row in (one_seed or {}).items() if i in kept}
    return kept, sample_of([rows[i] for i in kept], noise, tasks, lent, metric, undamaged), reasons


def sample_of(
    rows: Sequence[ByTask],
    noise: ItemNoise,
    tasks: Collection[str],
    one_seed: Mapping[int, SeedNoise] | None = None,
    metric: Literal["", "pearson"] = "",
    places: Sequence[int] | None = None,
) -> Sample:
    """Return a sample; without lent noise, that of a single seed is unknown. `places` are those of rows in `noise`."""
    alone = {i: SeedNoise() for i, row in enumerate(rows) if is_alone(row)} | dict(one_seed or {})
    alike: dict[object, list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        alike[origin_of(next(iter(row.values()))[0])].append(i)
    pairs_of_rows = (pair for of_origin in alike.values() for pair in itertools.combinations(of_origin, 2))
    shared = sorted((i, j) for i, j in pairs_of_rows if share_draws(rows[i], rows[j]))
    scores = [_pearson_by_seed(row, tasks) if metric else list(by_seed(row, tasks).values()) for row in rows]
    return sampled(
        scores,
        noise.between(tasks, places or range(len(rows))),
        sum(noise.influence[task].shape[1] for task in tasks),
        alone,
        least=np.array([floor_of(row, tasks) for row in rows]),
        shared=shared,
    )


def _pearson_by_seed(row: ByTask, tasks: Collection[str]) -> list[float]:
    means = [[scores_of(record)["mean"]["pearson"] or np.nan for record in row[task]] for task in tasks]
    return [float(value) for value in 100 * np.mean(means, axis=0)]
