"""How the processor time of tables of others and of a search grows: `python -m speed.growth`."""

from __future__ import annotations

import time
from collections.abc import Callable

import click
import numpy as np

from benchmark.report.markdown import markdown_table
from speed.report import conditions
from speed.script import run


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


@click.command(help=__doc__)
@click.option("--models", default=800, show_default=True, help="Models of the largest table, with 60 tasks.")
@click.option("--documents", default=100_000, show_default=True, help="Documents of the largest search.")
def main(models: int, documents: int) -> None:
    """Print a row per size; the first call of each kind, which imports, is not counted."""
    of_others(5, 5)
    of_search(10, 100)
    rows = [("others", f"{size} x 60", of_others(size, 60)) for size in (models // 4, models // 2, models)]
    sizes = (documents // 100, documents // 10, documents)
    rows += [("search", f"100 x {size}", of_search(100, size)) for size in sizes]
    click.echo(", ".join(f"{name} {value}" for name, value in conditions("cpu").items()))
    cells = [(work, size, f"{taken:.2f}") for work, size, taken in rows]
    click.echo("\n".join(markdown_table(["work", "size", "processor seconds"], cells, [False, True, True])))


if __name__ == "__main__":
    run(main)
