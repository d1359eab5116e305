"""How processor time grows with texts, records, plans, models of others and documents: `python -m speed.growth`."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import numpy as np

from benchmark.records.packed import read_packed, write_packed
from benchmark.report.markdown import markdown_table
from speed.pieces import texts
from speed.report import conditions
from speed.script import run
from speed.startup import measure

_ROOT = Path(__file__).resolve().parent.parent


def seconds(work: Callable[[], object]) -> float:
    """Return the processor seconds of one call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def of_others(models: int, tasks: int) -> float:
    """Return the seconds of `others` for a drawn table."""
    import pandas

    from benchmark.interop.second_opinion import second_opinion

    generator = np.random.default_rng(0)
    levels = 50 + 4 * generator.normal(size=(models, 1)) + 5 * generator.normal(size=(1, tasks))
    scores = levels + 2 * generator.normal(size=(models, tasks))
    table = pandas.DataFrame(scores, columns=[f"task {i}" for i in range(tasks)])
    table.insert(0, "model", [f"model {i}" for i in range(models)])
    return seconds(lambda: second_opinion(table))


def of_search(queries: int, documents: int, dim: int = 384) -> float:
    """Return the seconds of a search among drawn vectors."""
    from choose.data import Texts
    from choose.measures import measure

    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(queries + documents, dim)).astype(np.float32)
    first, second = np.arange(queries), generator.integers(queries, len(vectors), queries)
    data = Texts("retrieval", "", [""] * len(vectors), first, second, np.ones(queries), queries)
    return seconds(lambda: measure(data, vectors))


def of_static(count: int) -> float:
    """Return the seconds of `static-avg` for texts that it has not seen."""
    from zoo.api import create
    from zoo.engine.tokens import MEMORY

    MEMORY.forget()
    encoder, some = create("static-avg"), texts(count)
    encoder.encode(["a"])
    return seconds(lambda: encoder.encode(some))


def of_records(count: int) -> float:
    """Return the seconds of `leaderboard` for records of zoo-mini, without pair scores, again under other names."""
    source = read_packed(_ROOT / "leaderboards" / "zoo-mini")
    assert source is not None
    rows = []
    for copy, number in (divmod(place, len(source)) for place in range(count)):
        record = json.loads(source.text(number))
        record["method"]["name"] += f"-copy-{copy}" if copy else ""
        record["pairs"] = None
        rows.append((json.dumps(record), record))
    with tempfile.TemporaryDirectory() as folder:
        write_packed(Path(folder) / "results", rows, [])
        places = ["--results", f"{folder}/results", "--out", f"{folder}/tables"]
        return measure(["leaderboard", *places], {**os.environ, "ZOO_BENCH_CACHE": f"{folder}/cache"})[1]


def of_corpus(count: int) -> float:
    """Return the seconds of reading a text of so many sentences, its doubts and its identity."""
    from benchmark.data.corpora import load_corpus
    from benchmark.data.sources import DataSource
    from zoo.check import doubts_of

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        path.write_text("\n".join(texts(count)), encoding="utf-8")

        def read() -> None:
            corpus = load_corpus(str(path), DataSource.from_options(None), None)
            doubts_of(corpus)
            corpus.identity()

        return seconds(read)


def of_plan(rows: int) -> float:
    """Return the seconds of the plan of a method under so many settings."""
    names = ",".join(f"avg-last:max_length={3 + number}" for number in range(rows))
    with tempfile.TemporaryDirectory() as folder:
        command = ["run", "--methods", names, "--suite", "pocket", "--dry-run", "--results", folder]
        return measure(command, {**os.environ})[1]


@click.command(help=__doc__)
@click.option("--models", default=800, show_default=True, help="Models of the largest table, with 60 tasks.")
@click.option("--documents", default=100_000, show_default=True, help="Documents of the largest search.")
@click.option("--queries", default=100, show_default=True, help="Queries of the largest search.")
@click.option("--texts", "most", default=100_000, show_default=True, help="Texts of the largest table encoded.")
@click.option("--sentences", default=100_000, show_default=True, help="Sentences of the largest corpus.")
@click.option("--records", default=20_000, show_default=True, help="Records of the largest folder.")
@click.option("--plan", default=200, show_default=True, help="Rows of the largest plan.")
def main(models: int, documents: int, queries: int, most: int, sentences: int, records: int, plan: int) -> None:
    """Print a row per size; the first call of each kind, which imports, is not counted."""
    of_others(5, 5)
    of_search(10, 100)
    of_corpus(10)
    searches = [(100, documents // 100), (100, documents // 10), (queries, documents)]
    works: list[tuple[str, str, Callable[[], float]]] = [
        *(("others", f"{size} x 60", partial(of_others, size, 60)) for size in (models // 4, models // 2, models)),
        *(("search", f"{first} x {size}", partial(of_search, first, size)) for first, size in searches),
        *(("static-avg", f"{size} texts", partial(of_static, size)) for size in (most // 100, most // 10, most)),
        *(
            ("corpus", f"{size} sentences", partial(of_corpus, size))
            for size in (sentences // 100, sentences // 10, sentences)
        ),
        *(
            ("leaderboard", f"{size} records", partial(of_records, size))
            for size in (records // 20, records // 4, records)
        ),
        *(("run --dry-run", f"{size} rows", partial(of_plan, size)) for size in (plan // 16, plan // 4, plan)),
    ]
    cells = []
    for work, size, measured in works:
        cells.append((work, size, f"{measured():.2f}"))
        click.echo(" ".join(cells[-1]), err=True)
    click.echo(", ".join(f"{name} {value}" for name, value in conditions("cpu").items()))
    click.echo("\n".join(markdown_table(["work", "size", "processor seconds"], cells, [False, True, True])))


if __name__ == "__main__":
    run(main)
