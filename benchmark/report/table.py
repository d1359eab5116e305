"""Rows from records; incomplete rows and records of different data have no mean."""

from __future__ import annotations

import shlex
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmark.data.catalog import catalog
from benchmark.reasons import reason
from benchmark.records.conflicts import command_of, one_digest, two_versions
from benchmark.records.folder import Records, read_records
from benchmark.records.names import (
    brackets_of,
    content_of,
    natural,
    printed_names,
    superseded,
    typed_label,
    version_of,
    with_recipe,
)
from benchmark.records.record import Record, main_score, scores_of
from benchmark.report.conditions import about, recipe_of_method
from benchmark.report.rows import Aggregation, Row, Table, Value, over_seeds, seed_order
from benchmark.tasks.suites import Suite
from zoo.progress import counted
from zoo.recipes import RecipeSpec, given_recipes

AGGREGATED: dict[Aggregation, str] = {
    "all": "`all` aggregation (subsets concatenated)",  # as the suites' notes say it
    "mean": "`mean` aggregation (mean over the subsets of a task)",
    "wmean": "`wmean` aggregation (mean over the subsets of a task, weighted by their pairs)",
}
_EQUAL = 1e-11  # difference of averages x100: above the noise of float64, below the effect of swapping two ranks


def read_completed(records: Records) -> list[Record]:
    """Return a folder's records: those of a task on one version of the data."""
    return one_digest(read_records(records))


def build_tables(
    records: Sequence[Record],
    suites: Iterable[Suite],
    store: Records | None = None,
    *,
    aggregation: Aggregation = "all",
    borrow_seed_noise: bool = False,
    baseline: str = "",
    given: Sequence[RecipeSpec] = (),
) -> list[Table]:
    """Return a table for each suite with scores, and a separate table for its trials of each --limit.

    An incomplete suite has the columns and the mean of its measured tasks, named after them. With `store`, the records'
    folder, rows tied for the best are marked. `given` are its runs' own recipes, read from a `store`. The other
    arguments are those of `make_leaderboard`.
    """
    of_suites = tables_by_suite(
        records,
        suites,
        store,
        aggregation=aggregation,
        borrow_seed_noise=borrow_seed_noise,
        baseline=baseline,
        given=given,
    )
    return [table for _, table in of_suites]


def tables_by_suite(
    records: Sequence[Record],
    suites: Iterable[Suite],
    store: Records | None,
    *,
    aggregation: Aggregation,
    borrow_seed_noise: bool,
    baseline: str,
    given: Sequence[RecipeSpec] = (),
) -> Iterator[tuple[Suite, Table]]:
    given = given if store is None else given_recipes(store.folder)
    called = printed_names(dict.fromkeys(record["method"]["name"] for record in records))
    by_task: dict[tuple[str, int | None], list[tuple[int, Record]]] = defaultdict(list)
    for number, record in enumerate(records):
        by_task[record["task"]["name"], record["limit"]].append((number, record))
    for whole_suite in suites:
        limits = {limit for task, limit in by_task if limit is not None and task in whole_suite.tasks}
        for limit in (None, *sorted(limits, reverse=True)):
            chosen = [entry for task in set(whole_suite.tasks) for entry in by_task.get((task, limit), ())]
            records_of_suite = [record for _, record in sorted(chosen, key=lambda entry: entry[0])]
            if not records_of_suite:
                continue
            suite = whole_suite.narrowed({record["task"]["name"] for record in records_of_suite})
            by_row: dict[tuple[str, str], list[Record]] = defaultdict(list)
            for record in records_of_suite:
                by_row[record["method"]["name"], record["row_key"]].append(record)
            suite = _aggregated(suite, records_of_suite, aggregation)
            notes = _without_older(by_row)
            rows = _rows(suite, by_row, called, aggregation, store, given)
            for row in rows:
                row.notes += notes.get((row.identity, row.row_key), [])
            if not any(row.scored or two_versions(row.records) for row in rows):
                continue  # every cell is n/a; the run has said why
            trial = limit is not None
            table = _table(suite, rows, by_row, trial, aggregation)
            table.baseline, table.limit, table.smaller = baseline, limit, trial and limit != max(limits)
            if store is not None and aggregation == "all":  # the pair scores are those of the concatenated subsets
                from benchmark.report.learned import on_tasks
                from benchmark.report.significance import mark_best

                table.legend, table.against, table.learned = mark_best(
                    rows, by_row, store, borrow_seed_noise, trial, baseline, suite.name, on_tasks(suite, suite.tasks)
                )
            yield whole_suite, table


def _without_older(by_row: dict[tuple[str, str], list[Record]]) -> dict[tuple[str, str], list[str]]:
    """Take out the rows of older versions of their method; returns a note by newer row that lacks cells of theirs."""
    keys, notes = list(by_row), defaultdict[tuple[str, str], list[str]](list)
    for number, newest in superseded(list(by_row.values())).items():
        row, by = by_row.pop(keys[number]), by_row[keys[newest]]
        there = {_place(record) for record in by if record["status"] == "ok"}
        lost = {_place(record) for record in row if record["status"] == "ok"} - there
        if lost:
            notes[keys[newest]].append(
                f"left out: {counted(len(lost), 'cell')} of version {version_of(row[0])} of the method, beside version"
                f" {version_of(by[0])}; measure again: {command_of([*row, *by])}"
            )
    return notes


def _place(record: Record) -> tuple[str, int | None]:
    return record["task"]["name"], record["seed"]


def _aggregated(suite: Suite, records: Sequence[Record], aggregation: Aggregation) -> Suite:
    """Return the suite named after the aggregation if that changes any score."""
    has_subsets = (r["scores"] is not None and len(r["scores"].get("subsets") or ()) > 1 for r in records)
    if aggregation == "all" or not any(has_subsets):
        return suite
    note = suite.note.replace(AGGREGATED["all"], AGGREGATED[aggregation])
    return replace(suite, name=f"{suite.name}-{aggregation}", title=f"{suite.title}, {aggregation}", note=note)


def _rows(
    suite: Suite,
    by_row: Mapping[tuple[str, str], list[Record]],
    called: Mapping[str, str],
    aggregation: Aggregation,
    store: Records | None,
    given: Sequence[RecipeSpec],
) -> list[Row]:
    """`called` has the printed name of each name in the records."""
    measured = {name for (name, _), of_row in by_row.items() if any(r["status"] == "ok" for r in of_row)}
    rows = [
        _row(called[name], name, key, suite, of_row, aggregation, store, given)
        for (name, key), of_row in by_row.items()
        # A row without any score (its weights were missing, for example) is dropped if another row of the name has one.
        if name not in measured or any(r["status"] == "ok" for r in of_row)
    ]
    return sorted(
        rows, key=lambda row: (row.average.mean is None, -(row.average.mean or 0.0), natural(row.identity), row.row_key)
    )


def _table(
    suite: Suite, rows: list[Row], by_row: Mapping[tuple[str, str], list[Record]], trial: bool, aggregation: Aggregation
) -> Table:
    _set_ranks(rows)
    by_name: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_name[row.name].append(row)
    # The same name under other conditions (corpus, precision ...).
    for name, same in by_name.items():
        parts = brackets_of({number: row.records[0] for number, row in enumerate(same)}) if len(same) > 1 else {}
        for number, part in parts.items():
            same[number].name = f"{name} [{part}]"
    _tell_apart(rows)
    records = [record for row in rows for record in by_row[row.identity, row.row_key]]
    in_order = dict.fromkeys(tuple(r["command"]) for r in sorted(records, key=lambda r: str(r["started"])))
    return Table(suite, rows, list(map(shlex.join, in_order)), trial, aggregation=aggregation)


def _tell_apart(rows: Sequence[Row]) -> None:
    """Add the revision or the start of the digest to equal names of other content."""
    backbones = [(str(row.about["backbone"]),) for row in rows]
    for row, name in zip(rows, _distinct(rows, backbones, "backbone"), strict=True):
        row.about["backbone"] = name
    texts = [(row.about["corpus"], row.about["corpus_sentences"], row.about["corpus_pairs"]) for row in rows]
    for row, name in zip(rows, _distinct(rows, texts, "corpus"), strict=True):
        row.about["corpus"] = name


def _distinct(rows: Sequence[Row], names: Sequence[tuple[Any, ...]], kind: str) -> list[str]:
    parts = [_content(row.records, kind) for row in rows]
    contents: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for name, content in zip(names, parts, strict=True):
        contents[name].add(content)
    return [
        f"{name[0]}@{content}" if name[0] and content and len(contents[name]) > 1 else str(name[0])
        for name, content in zip(names, parts, strict=True)
    ]


def _content(records: Sequence[Record], kind: str) -> str:
    for record in records:
        source: Mapping[str, Any] = record["method"]["sources"].get("backbone") or {}
        if kind == "corpus":
            source = (record["training"] or {}).get("corpus") or {}
            # A text of the catalog differs by whether neighbours were kept, as the method asks.
            if all(part in catalog() for part in str(source.get("name", "")).split("+")):
                return ""
        if content := content_of(source):
            return content
    return ""


def _set_ranks(rows: Sequence[Row]) -> None:
    """Equal averages, as of equal vectors, share a rank; rows without an average have none."""
    last: Row | None = None
    for rank, row in enumerate(rows, 1):
        if row.average.mean is None:
            row.rank = None
        elif last is not None and last.average.mean is not None and abs(last.average.mean - row.average.mean) < _EQUAL:
            row.rank = last.rank
        else:
            row.rank = rank
        last = row


def _row(
    name: str,
    method: str,
    row_key: str,
    suite: Suite,
    records: list[Record],
    aggregation: Aggregation,
    store: Records | None,
    given: Sequence[RecipeSpec],
) -> Row:
    seeds = sorted({r["seed"] for r in records}, key=lambda s: -1 if s is None else s)
    reasons: dict[str, list[str]] = {}
    scores: dict[str, dict[int | None, float]] = {}
    values = {}
    by_task: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_task[record["task"]["name"]].append(record)
    for task in suite.tasks:
        damaged = store.damaged(method, task).values() if store is not None else ()
        scores[task], values[task] = _task_value(by_task[task], seeds, aggregation, " ".join(damaged))
        if why := values[task].reason:
            reasons.setdefault(why, []).append(task)
    notes = [f"{', '.join(tasks)}: {why}" for why, tasks in reasons.items()]
    means = {name: _average(tasks, scores, seeds) for name, tasks in suite.means.items()}
    average = _average(suite.tasks, scores, seeds)
    if not suite.average and len(suite.tasks) > 1:
        average = Value(None, None, 0, reason("no mean"))
    made_by = records[0]["method"]
    spec = recipe_of_method(made_by, given)
    return Row(
        with_recipe(name, made_by),
        row_key,
        values,
        average,
        about(records, len(seeds), spec),
        records,
        notes=notes,
        means=means,
        recipe=typed_label(made_by),
        untrained=made_by["traits"].get("untrained", False),
        method=method,
        spec=spec,
    )


def _task_value(
    records: list[Record], seeds: list[int | None], aggregation: Aggregation, damaged: str
) -> tuple[dict[int | None, float], Value]:
    good = [r for r in records if r["status"] == "ok"]
    if mixed := two_versions(good):
        return {}, Value(None, None, 0, mixed)
    if len({r["task"]["sha256"] for r in good}) > 1:
        return {}, Value(None, None, 0, reason("two data"))
    if len({(r["seed"], r["key"]) for r in good}) > len({r["seed"] for r in good}):
        return {}, Value(None, None, 0, reason("two vectors"))
    by_seed = {r["seed"]: 100 * score for r in good if (score := _score(r, aggregation)) is not None}
    missing = [seed for seed in seeds if seed not in by_seed]
    if missing:
        reasons = [r["reason"] for r in records if r["status"] != "ok" and r["seed"] in missing and r["reason"]]
        if not reasons and any(r["seed"] in missing for r in good):
            reasons = [reason("subset")]
        counted = reason("seeds", done=len(by_seed), seeds=len(seeds)) if len(seeds) > 1 else ""
        why = counted + (" ".join(reasons[0].split()) if reasons else damaged or reason("not run"))
        known = seed_order(by_seed) if len(by_seed) > 1 else ()
        return by_seed, Value(None, None, len(by_seed), why, by_seed=known)
    return by_seed, over_seeds(by_seed)


def _score(record: Record, aggregation: Aggregation) -> float | None:
    scores = scores_of(record)
    if aggregation == "all" or len(scores.get("subsets") or ()) < 2:
        return main_score(record)
    return scores[aggregation]["spearman"] if aggregation in scores else None


def _average(tasks: Sequence[str], scores: dict[str, dict[int | None, float]], seeds: list[int | None]) -> Value:
    done = sum(all(seed in scores[task] for seed in seeds) for task in tasks)
    if done < len(tasks):
        return Value(None, None, 0, reason("tasks", done=done, tasks=len(tasks)))
    return over_seeds({seed: statistics.fmean(scores[task][seed] for task in tasks) for seed in seeds})
