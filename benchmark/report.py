"""`zoo-bench leaderboard`: read the records, write the tables, print them. Imports no torch."""

from __future__ import annotations

from pathlib import Path

from benchmark.leaderboard.table import build_tables
from benchmark.leaderboard.write import print_table, write_tables
from benchmark.results import Records
from benchmark.suites import Suite, all_suites, suites_named
from zoo.errors import MissingError
from zoo.progress import print_safe


def make_leaderboard(results: Path, out: Path, suite_names: str | None = None) -> list[tuple[Path, str]]:
    """Write and print the tables of a results folder, of the suites named (comma-separated) or of all.

    Returns the damaged records that were set aside. Raises MissingError when there is no record of these suites.
    """
    import sys

    records = Records(results)
    found = records.all()
    for path, reason in records.corrupt:
        print_safe(f"zoo-bench: damaged record set aside as {path}: {reason}", sys.stderr)
    known = list(all_suites().values())
    in_suites = {task for one in known for task in one.tasks}
    others = sorted({r["task"]["name"] for r in found} - in_suites)
    suites = suites_named(suite_names) if suite_names else known
    if others:  # tasks of plugins belong to no suite and get a table of their own
        title = "Tasks outside every suite"
        suites.append(Suite(name="other", title=title, tasks=tuple(others), columns=tuple(others), dev="", corpus=""))
    tables = build_tables(found, suites)
    if not tables:
        raise MissingError(
            f"no records in {results}; make some with `zoo-bench run --methods ...`, or name a folder with --results."
        )
    written = write_tables(tables, out)
    for table in tables:
        print_table(table)
    print_safe(f"written: {', '.join(str(path) for path in written)} (and .csv, .json beside them)", sys.stdout)
    return records.corrupt
