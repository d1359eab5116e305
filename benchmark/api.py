"""What the commands do, as functions: a notebook calls the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from benchmark.leaderboard.report import make_leaderboard
from benchmark.run.cache import EmbeddingCache
from benchmark.run.options import RunOptions
from benchmark.run.prepare import Prepared, prepare
from benchmark.run.runner import Outcome, Runner

__all__ = ["Finished", "Prepared", "RunOptions", "execute", "leaderboard", "prepare"]


@dataclass(frozen=True)
class Finished:
    """What a run did, and the damaged records that it set aside."""

    outcome: Outcome
    corrupt: list[tuple[Path, str]] = field(default_factory=list)


def execute(prepared: Prepared, options: RunOptions, *, command: Sequence[str] = ()) -> Finished:
    """Train and measure every cell of a plan that is not finished; `command` is what records say made them.

    A failed cell is recorded and the others go on. Raises Interrupted after a signal, once everything is saved.
    """
    runtime = prepared.runtime
    runner = Runner(
        options.results,
        runtime,
        dev=prepared.dev,
        limit=options.limit,
        fail_fast=options.fail_fast,
        remeasure=options.remeasure,
        command=command,
        tensorboard=options.tensorboard,
        cache=EmbeddingCache(options.embedding_cache, runtime.progress.say) if options.embedding_cache else None,
    )
    outcome = runner.run(prepared.plan)
    return Finished(outcome, runner.records.corrupt)


def leaderboard(
    results: Path,
    *,
    out: Path | None = None,
    suites: str | None = None,
    aggregation: Literal["all", "mean", "wmean"] = "all",
    by_condition: bool = False,
) -> list[tuple[Path, str]]:
    """Write and print the tables of a results folder, of the suites named (comma-separated) or all; the page has all.

    `aggregation` chooses the score of tasks with subsets; `by_condition` splits each table by what its rows learned
    from. Returns the damaged records. Raises MissingError where there is no record of these suites.
    """
    return make_leaderboard(results, out or results, suites, aggregation, by_condition)
