"""All tables of a results folder, and their page. Imports no torch."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.records.conflicts import one_digest
from benchmark.records.folder import Records, pause_garbage_collection
from benchmark.records.names import printed_names, with_recipe
from benchmark.records.promises import absent
from benchmark.records.record import Record, scores_of
from benchmark.report.columns import chosen_columns
from benchmark.report.links import handbook_from
from benchmark.report.page import page
from benchmark.report.rows import Aggregation, Table
from benchmark.report.show import brief_of, frame_of, html_of, print_table, text_of
from benchmark.report.table import AGGREGATED, build_tables, read_completed, tables_by_suite
from benchmark.report.terminal import folded, width_of
from benchmark.report.write import table_files
from benchmark.tasks.suites import Suite, known_suites, suites_named
from zoo.errors import MissingError, UsageError, did_you_mean
from zoo.files import read_json, write_text
from zoo.progress import print_safe

if TYPE_CHECKING:
    import pandas

_CLAIMS = "claims.json"  # that `zoo-bench claims` of the package zoo-bench-papers writes


def make_leaderboard(
    results: Path,
    out: Path | None = None,
    suites: str | None = None,
    aggregation: Aggregation = "all",
    borrow_seed_noise: bool = False,
    columns: str | None = None,
    methods: str | None = None,
    baseline: str = "",
) -> Leaderboard:
    """Make the tables of a results folder, read once, and the content of all their files.

    Args:
        results: The results folder.
        out: The folder of the files; default: the results folder. Links of index.html are relative to it.
        suites: Suites, comma-separated; default: all. The page always has all.
        aggregation: The score of tasks with subsets.
        borrow_seed_noise: Give rows of one seed the pooled seed variance of their backbone's other rows.
        columns: The columns in their order, comma-separated.
        methods: Names or globs of the rows; ranks and marks are among them.
        baseline: A row; rows beyond noise of it are marked.

    Returns:
        Tables and files; the page includes the results folder's claims (`zoo-bench claims`).

    Raises:
        MissingError: These suites have no record.
        UsageError: A column or a row is unknown.
    """
    if aggregation not in AGGREGATED:
        raise UsageError(f"aggregation {aggregation!r:.100} is not one of {', '.join(AGGREGATED)}.")
    store, place = Records(results), out or results
    with pause_garbage_collection():  # it would traverse a million dictionaries again and again
        every = read_completed(store)
        chosen_records = _of_methods(every, methods, baseline)
        chosen = suites_of(chosen_records, suites, results)
        wanted = {suite.name for suite in chosen}
        # Files of suites come last.
        suites_there = {suite.name: suite for suite in (*suites_of(chosen_records, None, results), *chosen)}.values()
        of_suites = list(
            tables_by_suite(
                chosen_records,
                suites_there,
                store,
                aggregation=aggregation,
                borrow_seed_noise=borrow_seed_noise,
                baseline=baseline,
            )
        )
        for suite, table in of_suites:
            table.absent = "; ".join(absent(record for record in every if record["task"]["name"] in suite.tasks))
        tables = [table for _, table in of_suites]
        named = [table for suite, table in of_suites if suite.name in wanted]
        if not named:
            of, option = ("", "") if suites is None else (f" of {suites}", f"--suite {suites} ")
            raise MissingError(
                f"no scores{of} in {results}; make some with `zoo-bench run {option}--methods ...`, or name"
                " a folder with --results."
            )
        if columns is not None:
            names = chosen_columns(columns, [table.suite for table in tables])
            for table in tables:
                table.chosen = names
        files = {name: text for table in named for name, text in table_files(table).items()}
        claims = read_json(results / _CLAIMS) if (results / _CLAIMS).is_file() else ()
        files["index.html"] = page(tables, tuple(files), handbook_from(place), claims)
        return Leaderboard(named, files, place, store, every)


def _of_methods(records: list[Record], methods: str | None, baseline: str) -> list[Record]:
    if methods is None and not baseline:
        return records
    printed = printed_names(record["method"]["name"] for record in records)
    called = {printed[name]: name for name in printed}
    called |= {with_recipe(printed[r["method"]["name"]], r["method"]): r["method"]["name"] for r in records}
    wanted = None if methods is None else [part.strip() for part in methods.split(",") if part.strip()]

    def matches(printed: str, name: str) -> bool:
        # A name that has brackets itself, as templates do, is a glob of other names.
        return printed == name or fnmatchcase(printed, name)

    for name in [*(wanted or []), *filter(None, [baseline])]:
        if not any(matches(shown, name) for shown in called):
            raise UsageError(f"no row {name!r:.100} here.{did_you_mean(name, called)}")
    if wanted is None:
        return records
    chosen = {full for shown, full in called.items() if any(matches(shown, name) for name in [*wanted, baseline])}
    return [record for record in records if record["method"]["name"] in chosen]


def tables_of(records: Sequence[Record], store: Records, suite_names: str, tasks: Collection[str]) -> list[Table]:
    consistent = one_digest(records)
    return build_tables(
        consistent, [suite.narrowed(tasks) for suite in suites_of(consistent, suite_names, store.folder)], store
    )


@dataclass(frozen=True, repr=False)
class Leaderboard:
    """Tables and their files; prints as text, shows as HTML in a notebook."""

    tables: list[Table]
    files: dict[str, str]  # their contents by name
    place: Path  # the folder of the files
    store: Records
    records: list[Record]  # all of the folder, as tables read them

    @property
    def written(self) -> list[Path]:
        """The Markdown files; .csv, .json, .tex and index.html are beside them."""
        return [self.place / name for name in self.files if name.endswith(".md")]

    @property
    def corrupt(self) -> list[tuple[Path, str]]:
        """The damaged records, left out of the tables, with reasons."""
        return self.store.corrupt

    def write(self) -> None:
        for name, text in self.files.items():
            write_text(self.place / name, text)

    def to_frame(self) -> pandas.DataFrame:
        """Return scores x100: a row per method; each task's mean over seeds, its "sd", seeds, conditions."""
        return frame_of(self.tables)

    def show(self, row_keys: Collection[str] | None = None, *, wide: bool = False, brief: bool = False) -> None:
        """Print the tables and the paths of the written files.

        Args:
            row_keys: Print only tables with these rows, without other rows' failures. If no table has them (a cluster's
                machines may differ in precision), all are printed.
            wide: Print all columns, whatever the terminal's width.
            brief: Print no notes but the reasons for n/a.
        """
        measured = [table for table in self.tables if row_keys and any(row.row_key in row_keys for row in table.rows)]
        for table in measured or self.tables:
            print_table(table, row_keys=row_keys if measured else None, wide=wide, brief=brief)
        if not brief:
            print_safe("\n".join(folded([self._places()], width_of(sys.stdout))), sys.stdout)

    def _places(self) -> str:
        return f"written: {', '.join(map(str, self.written))} (and .csv, .json, .tex, index.html beside them)"

    def __str__(self) -> str:
        return f"{text_of(self.tables)}\n{self._places()}"

    def __repr__(self) -> str:
        return brief_of(self.tables)

    def _repr_html_(self) -> str:
        return html_of(self.tables)


def suites_of(records: Sequence[Record], names: str | None = None, results: Path | None = None) -> list[Suite]:
    known = list(known_suites(results).values())
    in_suites = {task for suite in known for task in suite.tasks}
    others = sorted({r["task"]["name"] for r in records} - in_suites)
    suites = suites_named(names, results) if names else known
    if others:  # tasks of plugins and of mteb belong to no suite and get a table of their own
        measured = {r["task"]["name"]: str(scores_of(r)["main_metric"]) for r in records if r["scores"] is not None}
        others.sort(key=lambda task: (measured.get(task, ""), task))
        means: dict[str, tuple[str, ...]] = {}  # where measures differ, each is a group of columns with its own mean
        for task in others:
            measure = f"Avg. {measured.get(task, '').removeprefix('all_')}"
            means[measure] = (*means.get(measure, ()), task)
        named, average = tuple(others), len(means) == 1
        means = {name: tasks for name, tasks in means.items() if len(tasks) > 1 and not average}
        title = "Tasks outside every suite"
        suites.append(
            Suite(
                name="other", title=title, tasks=named, columns=named, dev="", corpus="", means=means, average=average
            )
        )
    return suites
