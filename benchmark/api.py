"""What the commands do, as functions: a notebook calls the same ones.

Example:
    >>> import benchmark
    >>> results = benchmark.evaluate("avg-last", tasks="pocket-words")
    >>> results.to_frame().columns.tolist()
    ['pocket-words', 'Avg.']
"""

from __future__ import annotations

import dataclasses
import io
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from benchmark.leaderboard.files import leaderboard_files, make_leaderboard
from benchmark.leaderboard.rows import Table
from benchmark.leaderboard.write import print_table
from benchmark.records.schema import Record
from benchmark.run.cache import EmbeddingCache
from benchmark.run.claims import Claims
from benchmark.run.options import RunOptions
from benchmark.run.prepare import Prepared, prepare
from benchmark.run.runner import Outcome, Runner
from benchmark.run.workers import run_workers
from zoo.errors import MissingError, ZooError
from zoo.progress import Progress

if TYPE_CHECKING:
    import pandas

__all__ = [
    "Finished",
    "Prepared",
    "Results",
    "RunOptions",
    "evaluate",
    "execute",
    "execute_in_workers",
    "leaderboard",
    "prepare",
]


@dataclass(frozen=True)
class Finished:
    """What a run did, and the damaged records that it set aside."""

    outcome: Outcome
    corrupt: list[tuple[Path, str]] = field(default_factory=list)


def execute(
    prepared: Prepared, options: RunOptions, *, command: Sequence[str] = (), claims: Claims | None = None
) -> Finished:
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
        claims=claims,
    )
    outcome = runner.run(prepared.plan)
    return Finished(outcome, runner.records.corrupt)


def execute_in_workers(options: RunOptions, *, command: Sequence[str], plugins: Sequence[Path] = ()) -> Finished:
    """Do what `execute` does in `options.workers` processes of this machine, each with its part of threads or GPUs."""
    return Finished(run_workers(_work, options, options.workers, command, plugins))


def _work(options: RunOptions, claims: Claims, progress: Progress, command: Sequence[str]) -> Outcome:
    prepared = prepare(options, progress=progress)
    return execute(prepared, options, command=command, claims=claims).outcome


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


@dataclass(frozen=True)
class Results:
    """What `evaluate` measured. It prints as a table, is a DataFrame, and shows as HTML in a notebook."""

    tables: list[Table]
    records: list[Record]
    outcome: Outcome
    folder: Path
    _temporary: TemporaryDirectory[str] | None = None  # lives as long as the results that were not asked to be kept

    def to_frame(self) -> pandas.DataFrame:
        """Return the scores x100, mean over seeds: a row per method, a column per measured task, their mean."""
        import pandas

        rows = [
            {"Method": row.name, **{task: row.values[task].mean for task in row.values}, "Avg.": row.average.mean}
            for table in self.tables
            for row in table.rows
        ]
        return pandas.DataFrame(rows).set_index("Method").dropna(axis="columns", how="all")

    def __str__(self) -> str:
        stream = io.StringIO()
        for table in self.tables:
            print_table(table, stream)
        return stream.getvalue().rstrip()

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(float_format="{:.2f}".format, na_rep="n/a"))

    def save(self, folder: str | Path) -> Path:
        """Copy the records into a results folder, where `leaderboard` and `compare` read them; returns the folder."""
        shutil.copytree(self.folder / "records", Path(folder) / "records", dirs_exist_ok=True)
        return Path(folder)


def evaluate(
    encoder: Any,
    tasks: str | Sequence[str] = "pocket",
    *,
    name: str | None = None,
    results: str | Path | None = None,
    **options: Any,
) -> Results:
    """Measure an encoder and return its scores.

    `encoder` is a recipe as `--methods` takes it (it is trained where it needs to be), a `zoo.Encoder`, a
    sentence-transformers model, or a function that takes a list of texts and returns an array (n, dim). `tasks` names
    suites or tasks, also with globs. `options` are the fields of `RunOptions`: data, seeds, backbone, corpus,
    train_sentences, device, precision, limit ... Records are kept in the folder `results` where one is given, and what
    is measured there is not measured again.

    Raises UsageError for unknown names, MissingError where nothing could be measured, and the reason of the first
    failed cell.
    """
    from benchmark.tasks.suites import all_suites

    names = [part.strip() for part in (tasks.split(",") if isinstance(tasks, str) else tasks) if part.strip()]
    suites = [part for part in names if part in all_suites()]
    single = [part for part in names if part not in all_suites()]
    single += [task for one in suites for task in all_suites()[one].tasks] if single and suites else []
    temporary = TemporaryDirectory(prefix="zoo-bench-") if results is None else None
    folder = Path(temporary.name) if temporary is not None else Path(str(results))
    given: dict[str, Any] = options | ({"data": str(options["data"])} if options.get("data") else {})
    chosen = RunOptions(
        methods=encoder if isinstance(encoder, str) else "",
        suites=",".join(suites) if suites and not single else None,
        tasks=",".join(dict.fromkeys(single)) or None,
        results=folder,
        **given,
    )
    prepared = prepare(chosen, given=None if isinstance(encoder, str) else encoder, name=name)
    finished = execute(prepared, chosen, command=["benchmark.evaluate"])
    if finished.outcome.failed:
        what, reason = finished.outcome.failed[0]
        raise ZooError(f"{what}: {reason}")
    wanted = {(plan.name, cell.key) for plan in prepared.plan.encoders for cell in plan.cells}
    made, _, store = leaderboard_files(folder, ",".join(prepared.suites))
    records = [record for record in store.all() if (record["method"]["name"], record["key"]) in wanted]
    if not any(record["status"] == "ok" for record in records):
        reasons = [reason for _, reason in finished.outcome.missing]
        raise MissingError(f"nothing was measured: {reasons[0] if reasons else 'no cell was planned'}")
    rows = {plan.row_key for plan in prepared.plan.encoders}
    shown = [dataclasses.replace(table, rows=[row for row in table.rows if row.row_key in rows]) for table in made]
    return Results([table for table in shown if table.rows], records, finished.outcome, folder, temporary)
