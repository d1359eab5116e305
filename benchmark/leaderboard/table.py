"""Records -> rows: mean and spread over seeds, no mean over an incomplete row, nothing averaged that differs."""

from __future__ import annotations

import shlex
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmark.records.store import Record, Records
from benchmark.tasks.suites import Suite

_EQUAL = 1e-11  # of averages x100: above the noise of float64, below what a swap of two ranks in one task makes


@dataclass(frozen=True)
class Value:
    """A cell of the table x100: mean and sample standard deviation over seeds, or the reason why there is none."""

    mean: float | None
    sd: float | None
    seeds: int
    reason: str | None = None

    def text(self, plus_minus: str = "±") -> str:
        """Return "76.25", "76.25 ± 0.31" or "n/a"."""
        if self.mean is None:
            return "n/a"
        return f"{self.mean:.2f}" if self.sd is None else f"{self.mean:.2f} {plus_minus} {self.sd:.2f}"


@dataclass
class Row:
    """One method under one set of conditions."""

    name: str
    row_key: str
    values: dict[str, Value]  # by task
    average: Value
    about: dict[str, Any]
    rank: int | None = None
    notes: list[str] = field(default_factory=list)
    tied: bool | None = None  # shares the first place (no significant difference); None: pair scores are missing

    def place(self) -> str:
        """Return "3", or "≈3" for a row that shares the first place; "" without a rank."""
        return ("≈" if self.tied else "") + str(self.rank or "")


@dataclass
class Table:
    """One suite's rows, ranked by average; incomplete rows come last, unranked."""

    suite: Suite
    rows: list[Row]
    commands: list[str]
    partial: bool = False  # trial run (--limit)
    ties: str = ""  # what the marks of tied rows mean; "" where nothing is known


def build_tables(records: Sequence[Record], suites: Iterable[Suite], store: Records | None = None) -> list[Table]:
    """Return one table a suite that has records, and one more for its trial (--limit) records, never mixed.

    With the folder that the records come from, rows that are tied with the best are marked.
    """
    tables = []
    for suite in suites:
        for trial in (False, True):
            mine = [r for r in records if r["task"]["name"] in suite.tasks and (r["limit"] is not None) == trial]
            if mine:
                tables.append(_table(suite, mine, trial, store))
    return tables


def _table(suite: Suite, records: list[Record], trial: bool, store: Records | None) -> Table:
    by_row: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        by_row[record["method"]["name"], record["row_key"]].append(record)
    measured = {name for (name, _), group in by_row.items() if any(r["status"] == "ok" for r in group)}
    rows = [
        _row(name, key, suite, group)
        for (name, key), group in by_row.items()
        # An attempt without any score (weights not yet here, say) makes way for the row that has some.
        if name not in measured or any(r["status"] == "ok" for r in group)
    ]
    rows.sort(key=lambda row: (row.average.mean is None, -(row.average.mean or 0.0), row.name, row.row_key))
    set_ranks(rows)
    ties = ""
    if store is not None:
        from benchmark.leaderboard.significance import mark_ties

        ties = mark_ties(rows, by_row, store)
    shared = {name for name, count in Counter(row.name for row in rows).items() if count > 1}
    for row in rows:
        if row.name in shared:
            row.name = f"{row.name} [{row.row_key[:8]}]"  # the same name under other conditions (corpus, precision ...)
    commands = list(dict.fromkeys(shlex.join(r["command"]) for r in sorted(records, key=lambda r: str(r["started"]))))
    return Table(suite, rows, commands, trial, ties)


def set_ranks(rows: Sequence[Row]) -> None:
    """Rank rows, which are sorted: equal averages (the same vectors, say) share a rank, no average has none."""
    last: Row | None = None
    for rank, row in enumerate(rows, 1):
        if row.average.mean is None:
            row.rank = None
        elif last is not None and last.average.mean is not None and abs(last.average.mean - row.average.mean) < _EQUAL:
            row.rank = last.rank
        else:
            row.rank = rank
        last = row


def _row(name: str, row_key: str, suite: Suite, records: list[Record]) -> Row:
    seeds = sorted({r["seed"] for r in records}, key=lambda s: -1 if s is None else s)
    reasons: dict[str, list[str]] = {}
    scores: dict[str, dict[Any, float]] = {}
    values = {}
    for task in suite.tasks:
        mine = [r for r in records if r["task"]["name"] == task]
        scores[task], values[task] = _task_value(task, mine, seeds)
        if reason := values[task].reason:
            reasons.setdefault(reason, []).append(task)
    notes = [f"{', '.join(tasks)}: {reason}" for reason, tasks in reasons.items()]
    return Row(name, row_key, values, _average(suite, scores, seeds), _about(records, len(seeds)), notes=notes)


def _task_value(task: str, records: list[Record], seeds: list[Any]) -> tuple[dict[Any, float], Value]:
    good = [r for r in records if r["status"] == "ok"]
    if len({(r["task"]["sha256"], r["task"]["version"], r["protocol"]) for r in good}) > 1:
        return {}, Value(None, None, 0, "conflict: records of different data or protocol; keep one kind in the folder")
    by_seed = {r["seed"]: 100 * r["scores"]["main"] for r in good}
    missing = [seed for seed in seeds if seed not in by_seed]
    if missing:
        reasons = [r["reason"] for r in records if r["status"] != "ok" and r["seed"] in missing and r["reason"]]
        counted = f"{len(by_seed)} of {len(seeds)} seeds; " if len(seeds) > 1 else ""
        return by_seed, Value(None, None, len(by_seed), counted + (one_line(reasons[0]) if reasons else "not run"))
    return by_seed, _over_seeds(list(by_seed.values()))


def one_line(text: str) -> str:
    """Return a text on one line, for tables."""
    return " ".join(text.split())


def _over_seeds(values: list[float]) -> Value:
    sd = statistics.stdev(values) if len(values) > 1 else None
    return Value(statistics.fmean(values), sd, len(values))


def _average(suite: Suite, scores: dict[str, dict[Any, float]], seeds: list[Any]) -> Value:
    done = sum(all(seed in scores[task] for seed in seeds) for task in suite.tasks)
    if done < len(suite.tasks):
        return Value(None, None, 0, f"{done} of {len(suite.tasks)} tasks")
    return _over_seeds([statistics.fmean(scores[task][seed] for task in suite.tasks) for seed in seeds])


def _setting(method: dict[str, Any]) -> str:
    """Return what a method learns from in this run; `released` weights learned elsewhere, from whatever it was."""
    traits, recipe = method["traits"], method["recipe"]
    if traits["transductive"]:
        return "transductive"
    if traits.get("needs_pairs"):
        # A transform with no trained base reads the sentences of the pairs and not their labels.
        return "unsupervised" if recipe.get("fit_on") == "pairs" and not recipe.get("base") else "supervised"
    if method["class"].endswith(".Pretrained"):
        return "released"
    return "unsupervised" if traits.get("needs_corpus") else "untrained"


def _mean(trainings: Sequence[dict[str, Any]], name: str) -> float | None:
    """Return the mean of a number over the seeds that have it."""
    values = [one[name] for one in trainings if one.get(name) is not None]
    return statistics.fmean(values) if values else None


def overlaps(records: Sequence[Record]) -> dict[str, int]:
    """Return the training sentences that are test sentences, by task; tasks whose records do not say are left out."""
    # The corpus is the same for every seed, so each task counts once; a cell that failed says nothing.
    counts = [(r["task"]["name"], (r["training"] or {}).get("corpus_sentences_in_test")) for r in records]
    return {task: count for task, count in counts if count is not None}


def encoding_of(records: Sequence[Record]) -> dict[str, Any]:
    """Return what the first record says of encoding; speeds are means over the seeds that have them."""
    first: dict[str, Any] = next((r["encoding"] for r in records if r["encoding"]), {})
    # There is none where the embedding cache had every vector.
    by_seed = {r["seed"]: r["encoding"] for r in records if (r["encoding"] or {}).get("texts_per_second")}
    speeds = {name: _mean(list(by_seed.values()), name) for name in ("texts_per_second", "tokens_per_second")}
    return {**first, **speeds}


def _about(records: list[Record], seeds: int) -> dict[str, Any]:
    measured = [r for r in records if r["status"] == "ok"]
    first = min(measured or records, key=lambda r: str(r["started"]))
    trainings = list({r["seed"]: r["training"] for r in records if r["training"]}.values())
    training = trainings[0] if trainings else {}
    corpus = training.get("corpus") or {}
    peaks = [one.get("peak_memory_mb") for r in records for one in (r["training"], r["encoding"]) if one]
    facts: dict[str, Any] = next((r["facts"] for r in records if r["facts"]), {})
    environment, setting = first["environment"], _setting(first["method"])
    threads = environment["threads"]
    in_test = overlaps(records)
    backbone = first["method"]["sources"].get("backbone", {})
    return {
        "backbone": backbone.get("name", ""),
        "backbone_sha256": backbone.get("sha256", ""),
        "precision": first["precision"],
        "seeds": seeds,
        "corpus": corpus.get("name", ""),
        "corpus_sentences": corpus.get("sentences"),
        "corpus_pairs": corpus.get("pairs"),
        "corpus_sentences_in_test": sum(in_test.values()) if corpus and in_test else None,
        "transductive": first["method"]["traits"]["transductive"],
        "supervised": setting == "supervised",
        "setting": setting,
        "class": first["method"]["class"],
        "train_seconds": _mean(trainings, "seconds"),
        "train_sentences_per_second": _mean(trainings, "sentences_per_second"),
        "texts_per_second": encoding_of(records)["texts_per_second"],
        "parameters": facts.get("parameters"),
        "dimensions": facts.get("dimensions"),
        "peak_memory_mb": max((peak for peak in peaks if peak is not None), default=None),
        "device": environment["gpu"] or f"{environment['cpu']}, {threads} thread{'s' * (threads != 1)}",
        "limit": first["limit"],
        "protocol": first["protocol"],
        "environment": environment,
        "version": first["version"],
    }
