"""Writes an HTML page about a method from the records of a results folder. Imports no torch."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmark.analysis.method_page import method_page
from benchmark.data.sources import DataSource
from benchmark.leaderboard.files import suites_of
from benchmark.leaderboard.table import build_tables, read_completed
from benchmark.records.folder import Records
from benchmark.records.names import printed_names
from benchmark.records.query import PairTexts, split_label
from zoo.errors import MissingError, did_you_mean
from zoo.files import slug, write_text
from zoo.paths import place_of
from zoo.progress import print_safe
from zoo.recipe import all_recipes, parts_of


def make_report(
    method: str, results: Path, out: Path | None = None, data: str | None = None, *, texts: bool = True
) -> Path:
    """Write one page about a method of a results folder, under all its conditions; returns its path.

    `method` is its name in the records or tables; a recipe's name also means its variants (`name:key=value`) if the
    recipe itself was not measured. Hard pairs and the texts of the worst pairs (left out without `texts`) need the
    data, from the folder `data`, ZOO_BENCH_DATA or the cache; nothing is downloaded. Raises MissingError for a method
    without records.
    """
    records = Records(results)
    found = read_completed(records)
    called = printed_names(r["method"]["name"] for r in found)
    wanted, key = split_label(method)
    chosen = {wanted} & set(called) or {name for name, shown in called.items() if shown == wanted}
    chosen = chosen or {name for name in called if parts_of(name)[0] == wanted}
    if not chosen:
        raise MissingError(
            f"no record of {method!r} in {place_of(results)}.{did_you_mean(wanted, called.values())} Measure it with"
            f" `zoo-bench run --methods {method}`, or name a folder with --results."
        )
    mine = [r for r in found if r["method"]["name"] in chosen and r["row_key"].startswith(key)]
    of_pairs = PairTexts(DataSource.from_options(data, hub=False))
    tables = build_tables(found, suites_of(found), records)
    title = called.get(wanted, wanted)
    spec = all_recipes().get(parts_of(min(chosen))[0])
    html = method_page(title, tables, mine, all_recipes(), records, of_pairs, spec=spec, show_texts=texts)
    path = out or results / "reports" / f"{slug(title)}.html"
    write_text(path, html)
    print_safe(f"written: {path}", sys.stdout)
    return path
