"""Differences between rows with the noise of items and of seeds, from item scores: for tables, `compare` and claims.

A row is given as its finished records by task; scores are in points (x100).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmark.records.folder import ItemScores, Records
from benchmark.records.query import PairTexts
from benchmark.records.record import Record, items_identity, main_score, scores_of
from benchmark.stats.bootstrap import Scored, resample, resample_together
from benchmark.stats.clusters import Clusters, clusters_of
from benchmark.stats.mcb import Sample, SeedNoise, least_variance, sample
from benchmark.tasks.overlap import Pool, numbered, pool_of, shared_texts
from zoo.errors import CorruptError, MissingError, ZooError
from zoo.files import read_arrays, sha256_json, write_arrays
from zoo.paths import cache_folder

TABLE_RESAMPLES = 2_000

ByTask = Mapping[str, Sequence[Record]]  # a row: its finished records by task
Matrix = NDArray[np.float64]
_Drawn = dict[str, NDArray[np.float32]]  # resampled correlations by sha256 of the pair scores
_SEEDS = 3  # of two rows, from which a correlation of their seeds is measured
_METHOD = 2  # increased when the same pair scores would give other draws


def finished(records: Iterable[Record], tasks: Collection[str], *, trial: bool = False) -> dict[str, list[Record]]:
    """Return a row's finished records by task, either those of whole data or those of trials (cut data)."""
    by_task: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record["status"] == "ok" and (record["limit"] is not None) == trial and record["task"]["name"] in tasks:
            by_task[record["task"]["name"]].append(record)
    return dict(by_task)


def by_seed(of_row: ByTask, tasks: Collection[str] | None = None) -> dict[int | None, float]:
    """Return a row's mean over tasks, by default all it has, for each seed that has a score of every one, sorted."""
    scores: dict[int | None, dict[str, float]] = defaultdict(dict)
    names = set(of_row if tasks is None else tasks)
    # In the row's order: that of a set changes from process to process, and with it the last bits of a mean.
    for task in [task for task in of_row if task in names]:
        for record in of_row[task]:
            runs = scores_of(record).get("by_seed") or {} if record["seed"] is None else {}
            if len(runs) > 1 and record.get("items"):  # fine-tuned several times: each is a seed's score
                for seed, run in runs.items():
                    scores[int(seed)][task] = 100 * run[scores_of(record)["main_metric"]]
            else:
                scores[record["seed"]][task] = 100 * main_score(record)
    known = {seed: float(np.mean(list(of.values()))) for seed, of in scores.items() if len(of) == len(names)}
    return dict(sorted(known.items(), key=lambda item: -1 if item[0] is None else item[0]))


def is_alone(of_row: ByTask) -> bool:
    """Return whether a row has one seed, so that the noise of its seeds is not known."""
    seeds = {record["seed"] for records in of_row.values() for record in records}
    return len(seeds) == 1 and None not in seeds


def floor_of(rows: Iterable[ByTask], tasks: Collection[str]) -> float:
    """Return the least variance over seeds that a row is taken to have, by the other rows of its folder."""
    return least_variance([list(by_seed(row, tasks).values()) for row in rows])


def share_draws(a: ByTask, b: ByTask) -> bool:
    """Return whether two rows share what a seed draws: order of the texts, dropout, start. One is the other's ablation.

    They are rows of one method on one backbone, trained on the same texts with the same seeds, whose recipes differ
    in one setting at most. A GPU draws another dropout than a CPU, and so may another version of a library.
    """
    first, second = (next(iter(row.values()))[0] for row in (a, b))
    seeds = [{record["seed"] for record in records} for row in (a, b) for records in row.values()]
    if any(one != seeds[0] for one in seeds) or len(seeds[0]) < 2 or origin_of(first) != origin_of(second):
        return False
    return _machines(a) == _machines(b) and len(changed_settings(first, second)) <= 1


def changed_settings(first: Record, second: Record) -> list[str]:
    """Return the settings in which the recipes of two records differ, of those that both have."""
    first_recipe, second_recipe = first["method"]["recipe"], second["method"]["recipe"]
    return sorted(key for key in first_recipe.keys() & second_recipe.keys() if first_recipe[key] != second_recipe[key])


def _machines(row: ByTask) -> dict[int | None, object]:
    """Return, by seed, the kind of device and the versions of the libraries on which its first task was measured."""
    places = ((record["seed"], record["environment"]) for record in next(iter(row.values())))
    return {seed: (place["gpu"] or "cpu", place.get("cuda"), place["packages"]) for seed, place in places}


def seed_correlation(rows: Iterable[ByTask], tasks: Collection[str]) -> tuple[float, int] | None:
    """Return how far the seeds of rows that share their draws correlate: the mean over pairs of rows, and their number.

    A pair of rows has the same three seeds or more. None where fewer than two pairs say something.
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
    """Return what the scores of rows are made of: "pairs", or "items" where some are right or wrong."""
    return "items" if any(record.get("items") for row in rows for record in row) else "pairs"


def origin_of(record: Record) -> tuple[object, ...]:
    method, training = record["method"], record["training"] or {}
    corpus = training.get("corpus") or {}
    learned = [corpus.get(key) for key in ("name", "sha256", "sentences", "documents", "pairs")] if corpus else None
    backbone = method["sources"].get("backbone", {})
    return method["class"], backbone.get("sha256"), repr(learned), record["precision"]


def comparable(rows: Sequence[ByTask]) -> list[int]:
    """Return the places of the rows with the gold scores and the protocol of the first."""

    def pairs(row: ByTask) -> dict[str, set[tuple[str, int]]]:
        return {task: {(items_identity(r).gold_sha256, r["protocol"]) for r in of} for task, of in row.items()}

    return [i for i, row in enumerate(rows) if pairs(row) == pairs(rows[0])]


def clusters_in(record: Record, texts: PairTexts) -> Clusters | None:
    """Return which pairs of a record's pool, or of its task, share a text; None where their texts are not known."""
    numbers = shared_texts(record["task"]["name"], items_identity(record).gold_sha256)
    if numbers is None and record.get("pairs"):
        with contextlib.suppress(ZooError):
            pairs = texts.of(record)
            numbers = numbered([*zip(pairs.first, pairs.second, strict=True)])
    return None if numbers is None else clusters_of(*numbers.T)


def draws(
    rows: Sequence[ByTask],
    store: Records,
    resamples: int = TABLE_RESAMPLES,
    clusters: Mapping[str, Clusters | None] | None = None,
) -> tuple[dict[str, Matrix], dict[int, list[str]]]:
    """Return each task's scores (rows, resamples), means over seeds in resamples of its items, and the damaged rows.

    All rows have the same tasks. A pair of several tasks is drawn for all of them; the items of other tasks are drawn
    on their own, and each task has its own statistic. With `clusters`, which has by task what `clusters_in` returns,
    pairs that share a text are drawn together, and each resample is ranked again; else pairs count as unrelated, and
    the draws of large tasks are a first-order approximation, and are kept in the cache. A row whose item scores cannot
    be read is given with the reason, and has NaN.
    """
    exact = clusters is not None
    drawn: dict[str, _Drawn] = {}
    damaged: dict[int, list[str]] = {}
    missing: dict[Pool | str, dict[str, tuple[Scored, list[str]]]] = defaultdict(dict)  # by what is drawn together
    for task in rows[0]:
        gold_sha256 = items_identity(rows[0][task][0]).gold_sha256
        pooled = pool_of(task, gold_sha256)
        drawn[task] = {} if exact else _cached(_place(task, gold_sha256, store))
        new = _unread([row[task] for row in rows], drawn[task], store, damaged)
        if new:
            metrics, predicted, golds = zip(*new.values(), strict=True)
            pool, places = pooled if pooled is not None else (task, None)
            identity = gold_sha256 if metrics[0] == "accuracy" else ""
            missing[pool][task] = Scored(np.stack(predicted), golds[0], places, metrics[0], identity), list(new)
    for pool, tasks in missing.items():
        scored = [one for one, _ in tasks.values()]
        of_pool = pool if isinstance(pool, Pool) else None
        together = (clusters or {}).get(next(iter(tasks)))
        samples_of_tasks = resample_together(
            scored, of_pool, resamples=resamples, expanded=not exact, clusters=together
        )
        if together is not None:
            clusters_of_task = [together if one.places is None else together.of(one.places) for one in scored]
            samples_of_tasks = [
                of.unbiased(samples) for of, samples in zip(clusters_of_task, samples_of_tasks, strict=True)
            ]
        for (task, (_, names)), samples in zip(tasks.items(), samples_of_tasks, strict=True):
            if exact:
                drawn[task] = dict(zip(names, samples, strict=True))
                continue
            drawn[task] |= dict(zip(names, samples.astype(np.float32), strict=True))
            kept = {items_identity(record).sha256 for row in rows for record in row[task]} & set(drawn[task])
            with contextlib.suppress(ZooError):  # a cache that cannot be written is no reason to stop
                place = _place(task, items_identity(rows[0][task][0]).gold_sha256, store)
                write_arrays(place, {sha256: drawn[task][sha256] for sha256 in sorted(kept)}, level=0)  # noise
    unknown = np.full(resamples, np.nan)
    return {
        task: 100
        * np.array([np.mean([of.get(items_identity(r).sha256, unknown) for r in row[task]], axis=0) for row in rows])
        for task, of in drawn.items()
    }, damaged


def compared(
    rows: Sequence[ByTask],
    store: Records,
    tasks: Collection[str],
    folder: Iterable[ByTask],
    one_seed: Mapping[int, SeedNoise] | None = None,
) -> tuple[list[int], Sample | None, dict[int, list[str]]]:
    """Return the places of the rows that can be compared with the first, their sample, and the damaged rows.

    The sample is that of the mean over `tasks`; `folder` has the rows whose spreads say how small a noise of seeds may
    be. `one_seed` has by place the noise that stands in for that of a row with one seed.
    """
    places = comparable(rows)
    drawn, damaged = draws([rows[i] for i in places], store)
    undamaged = [i for i in range(len(places)) if i not in damaged]
    reasons = {places[i]: reason for i, reason in damaged.items()}
    kept = [places[i] for i in undamaged]
    if not kept:
        return [], None, reasons
    noise = {kept.index(i): one for i, one in (one_seed or {}).items() if i in kept}
    scores = {task: of[undamaged] for task, of in drawn.items()}
    return kept, sample_of([rows[i] for i in kept], scores, tasks, floor_of(folder, tasks), noise), reasons


def sample_of(
    rows: Sequence[ByTask],
    drawn: Mapping[str, Matrix],
    tasks: Collection[str],
    floor: float = 0.0,
    one_seed: Mapping[int, SeedNoise] | None = None,
    sizes: Mapping[str, int] | None = None,
    unrelated: Mapping[str, float] | None = None,
) -> Sample:
    """Return the sample of rows on the mean of some tasks; without a noise that stands in, that of one seed is unknown.

    `sizes` has the number of pairs of each task, by default the records', and `unrelated` that of pairs without a
    common text that say as much. Every task has every seed of a row, so that
    the order of the means over seeds and over tasks does not matter.
    """
    averages = np.mean([drawn[task] for task in tasks], axis=0)
    pairs = sum(sizes[task] if sizes else rows[0][task][0]["task"]["rows"] or 0 for task in tasks)
    alone = {i: SeedNoise() for i, row in enumerate(rows) if is_alone(row)} | dict(one_seed or {})
    alike: dict[object, list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        alike[origin_of(next(iter(row.values()))[0])].append(i)
    pairs_of_rows = (pair for places in alike.values() for pair in itertools.combinations(places, 2))
    shared = sorted((i, j) for i, j in pairs_of_rows if share_draws(rows[i], rows[j]))
    scores = [list(by_seed(row, tasks).values()) for row in rows]
    as_much = sum(unrelated[task] for task in tasks) if unrelated else None
    return sample(scores, averages, pairs, alone, least=floor, shared=shared, unrelated=as_much)


def _place(task: str, gold_sha256: str, store: Records) -> Path:
    pooled = pool_of(task, gold_sha256)
    pool = pooled[0].digest if pooled is not None else None
    name = sha256_json([_METHOD, TABLE_RESAMPLES, str(store.folder.resolve()), task, gold_sha256, pool])
    return cache_folder() / "significance" / f"{name[:32]}.safetensors.gz"


def _cached(path: Path) -> _Drawn:
    try:
        return read_arrays(path)
    except (MissingError, CorruptError):  # the cache may be deleted or damaged
        return {}


def _unread(
    rows: Sequence[Sequence[Record]], known: _Drawn, store: Records, damaged: dict[int, list[str]]
) -> dict[str, ItemScores]:
    """Return, by sha256, the item scores of one task's records without draws; damaged ones are noted by row."""
    new: dict[str, ItemScores] = {}
    for place, records in enumerate(rows):
        for record in records:
            if (sha256 := items_identity(record).sha256) not in known:
                try:
                    new[sha256] = store.item_scores(record)
                except (MissingError, CorruptError) as error:
                    damaged.setdefault(place, []).append(str(error))
    return new


def pearson_sample(rows: Sequence[ByTask], store: Records, tasks: Collection[str]) -> Sample:
    """Return the sample of rows on Pearson's correlation, the mean over each task's subsets (SIF's metric).

    Values are the records'. The noise is that of the kept pair scores, resampled within their subset; older records
    keep places instead of cosines, so that theirs is the noise of a rank correlation.
    """
    of_task = []
    for task in tasks:
        records = [record for row in rows for record in row[task]]
        predicted, gold = np.stack([store.pair_scores(r)[0] for r in records]), store.pair_scores(records[0])[1]
        ends = np.cumsum(
            [part["n"] for part in (scores_of(records[0]).get("subsets") or {"": {"n": len(gold)}}).values()]
        )
        parts = (slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True))
        draw = functools.partial(resample, metric="pearson", resamples=TABLE_RESAMPLES)
        of_task.append(np.mean([draw(predicted[:, part], gold[part]) for part in parts], axis=0))
    scores = [[[scores_of(r)["mean"]["pearson"] or np.nan for r in row[task]] for task in tasks] for row in rows]
    ends = np.cumsum([len(next(iter(row.values()))) for row in rows])[:-1]
    means = 100 * np.array([part.mean(axis=0) for part in np.split(np.mean(of_task, axis=0), ends)])
    alone = {i: SeedNoise() for i, row in enumerate(rows) if is_alone(row)}
    pairs = sum(rows[0][task][0]["task"]["rows"] or 0 for task in tasks)
    return sample([100 * np.mean(one, axis=0) for one in scores], means, pairs, alone)
