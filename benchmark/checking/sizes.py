"""The cost of fewer dimensions, int8 or bits for the rows of a table."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmark.checking.recorded import encoder_of
from benchmark.data.sources import DataSource
from benchmark.metrics.correlation import cosine
from benchmark.records.folder import Records
from benchmark.records.items import pairs_of
from benchmark.records.query import PairTexts, spearman
from benchmark.records.record import Record, plain
from benchmark.report.markdown import markdown_row, markdown_text
from benchmark.report.rows import score_text
from benchmark.report.write import csv_text
from benchmark.run.cache import EmbeddingCache
from benchmark.run.fit import read_fit
from benchmark.run.vectors import VectorStore
from benchmark.stats.bootstrap import Scored, measured, resample_together
from benchmark.stats.draws import TABLE_RESAMPLES, finished, is_alone
from benchmark.stats.mcb import SeedNoise, differences, sample
from benchmark.tasks.overlap import Pool, pool_of
from zoo.encoder import Vectors
from zoo.errors import MissingError, UsageError, ZooError, error_text
from zoo.files import write_text
from zoo.machine import choose_device

if TYPE_CHECKING:
    from benchmark.report.rows import Table


FORMATS = ("float32", "int8", "binary")
SEARCHES = {
    "float32": "",
    "int8": "int8: codes of sentence-transformers' quantize_embeddings, compared one by one ({})",
    "binary": "binary: bits, compared by their Hamming distance",
}
"""For which codes and which search a row of each format is true."""


def variants(
    vectors: NDArray[Any], dims: Sequence[int] = (), formats: Sequence[str] = ("float32",)
) -> Iterator[tuple[int, str, int, NDArray[np.float32]]]:
    """Yield (width, number format, bytes per text, vectors) from vectors (n, dim).

    Widths above the vectors' are left out. int8 and binary are sentence-transformers' quantisation of vectors of length
    1: the ranges of int8 are those of these vectors. A bit counts as -1 or 1, so that cosines have the order of Hamming
    distances. Raises UsageError for an unknown format or if no width fits, ZooError for vectors with NaN or infinities.
    """
    from sentence_transformers.util.quantization import quantize_embeddings

    if unknown := set(formats) - {*FORMATS}:
        raise UsageError(f"--bytes {min(unknown)} is none of {', '.join(FORMATS)}.")
    if not np.isfinite(vectors).all():
        raise ZooError("some of its vectors are not finite.")
    dimensions = vectors.shape[1]
    if not (widths := [width for width in dims or [dimensions] if 0 < width <= dimensions]):
        raise UsageError(f"its vectors have {dimensions} dimensions, and --dims names none up to that.")
    for width in widths:
        cut = np.ascontiguousarray(vectors[:, :width], np.float32)
        unit = cut / np.maximum(np.linalg.norm(cut, axis=1, keepdims=True), 1e-12)
        for form in formats:
            if form == "float32":
                yield width, form, 4 * width, cut
            elif form == "int8":
                # As it takes by itself, with a warning.
                ranges = np.stack([unit.min(axis=0), unit.max(axis=0)])
                yield width, form, width, np.asarray(quantize_embeddings(unit, "int8", ranges=ranges), np.float32)
            else:
                packed = np.asarray(quantize_embeddings(unit, precision="ubinary"))
                signs = 2 * np.unpackbits(packed, axis=1, count=width).astype(np.float32) - 1
                yield width, form, packed.shape[1], signs


# The least correlation x100 of a row's cosines with those that were scored.
SAME_ORDER = 99.5
_NOTE = (
    "Avg. is Spearman x100, the mean over the tasks with pair scores, and change its distance to the whole vectors;"
    " each has a 95 % interval with the noise of pairs and seeds, which a row of one seed has not. Bytes are of a text."
)

# Dimensions, number format, bytes per text; then cosines by task, of each seed.
Size = tuple[int, str, int]
Cosines = dict[Size, dict[str, list[NDArray[Any]]]]
ByTask = dict[str, list[Record]]


@dataclass(frozen=True)
class Sizes:
    stem: str
    title: str
    lines: list[dict[str, Any]]
    missing: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        return {"title": self.title, "lines": plain(self.lines), "missing": self.missing}

    def __str__(self) -> str:
        lines = [f"# {self.title}: smaller vectors", "", _NOTE, ""]
        if self.lines:
            tasks = [name for name in self.lines[0] if name not in _OWN]
            heads = ["Method", "Dims", "Numbers", "Bytes", "Avg.", "Change", *tasks]
            cells = [heads]
            for of in self.lines:
                head = [str(of[name]) for name in ("method", "dims", "numbers", "bytes")]
                both = [_between(of, "score"), _between(of, "change")]
                cells.append([*head, *both, *(score_text(of[task]) for task in tasks)])
            widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
            cells.insert(1, ["-" * width for width in widths])
            lines += [
                markdown_row(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells
            ]
        formats = dict.fromkeys(str(of["numbers"]) for of in self.lines)
        lines += [f"\n{SEARCHES[form].format('cosine')}." for form in formats if SEARCHES[form]]
        lines += [f"\nn/a: {markdown_text(f'{name}: {reason}')}" for name, reason in self.missing.items()]
        return "\n".join(lines) + "\n"


_OWN = ["method", "dims", "numbers", "bytes", *(a + b for a in ("score", "change") for b in ("", " low", " high"))]


def _between(line: dict[str, Any], name: str) -> str:
    value, low, high = (line[name + end] for end in ("", " low", " high"))
    if value is None:
        return ""
    return score_text(value) + ("" if low is None else f" ({score_text(low)} to {score_text(high)})")


def write_sizes(
    tables: Sequence[Table],
    store: Records,
    out: Path,
    data: str | None = None,
    dims: Sequence[int] = (),
    formats: Sequence[str] = ("float32",),
    device: str = "auto",
) -> Iterator[Sizes]:
    """Write <suite>-sizes.md and .csv; raises MissingError if no table has a task with pair scores."""
    texts = PairTexts(DataSource.from_options(data, hub=False))
    kept: dict[int, list[str]] = {}
    for table in tables:
        with_pairs = {r["task"]["name"] for row in table.rows for r in row.records if r.get("pairs")}
        kept[id(table)] = [task for task in table.suite.tasks if task in with_pairs]
    if not any(kept.values()):
        raise MissingError("--dims and --bytes need tasks with pair scores, as sts and pocket have; name one: --suite.")
    for table in tables:
        if tasks := kept[id(table)]:
            sizes = sized(table, tasks, store, texts, dims, formats, device)
            write_text(out / f"{table.stem}-sizes.md", str(sizes))
            write_text(out / f"{table.stem}-sizes.csv", csv_text(sizes.lines))
            yield sizes


def sized(
    table: Table,
    tasks: Sequence[str],
    store: Records,
    texts: PairTexts,
    dims: Sequence[int],
    formats: Sequence[str],
    device: str = "auto",
) -> Sizes:
    """Return a line for each row, width and number format, the whole vectors first.

    The vectors of the row's encoder, or of the embedding cache, must reproduce the scored order of cosines, or the row
    has a reason.
    """
    lines: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    for row in table.rows:
        measured_on = finished(row.records, tasks, trial=table.partial)
        try:
            if lacking := [task for task in tasks if task not in measured_on]:
                raise MissingError(f"it has no score of {', '.join(lacking)}.")
            of_row = {task: measured_on[task] for task in tasks}
            cosines = _cosines(of_row, store, texts, dims, formats, device)
            lines += [{"method": row.name, **line} for line in _lines(of_row, cosines, texts)]
        except Exception as error:
            # Any encoder's code may fail: the other rows have their lines.
            missing[row.name] = str(error) if isinstance(error, ZooError) else error_text(error)
    return Sizes(table.stem, table.suite.title, lines, missing)


def _cosines(
    of_row: ByTask, store: Records, texts: PairTexts, dims: Sequence[int], formats: Sequence[str], device: str
) -> Cosines:
    cosines: Cosines = defaultdict(lambda: defaultdict(list))
    stores: dict[str, VectorStore] = {}
    for task, records in of_row.items():
        for record in records:
            pairs = texts.of(record)
            vectors = stores.setdefault(record["encoder_key"], _vectors(record, store, device))
            distinct, places = np.unique([*pairs.first, *pairs.second], return_inverse=True)
            first, second = np.split(places, 2)
            vectors_of_all: Vectors = vectors([str(text) for text in distinct])
            order = spearman(cosine(vectors_of_all[first], vectors_of_all[second]), store.pair_scores(record)[0])
            if order is None or order < SAME_ORDER:
                raise ZooError(f"its encoder orders {task} otherwise than when it was scored (Spearman {order}).")
            cut = {(width, form, size): of for width, form, size, of in variants(vectors_of_all, dims, formats)}
            for variant, of_texts in (
                {(vectors_of_all.shape[1], "float32", 4 * vectors_of_all.shape[1]): vectors_of_all} | cut
            ).items():
                cosines[variant][task].append(cosine(of_texts[first], of_texts[second]))
    return cosines


def _vectors(record: Record, store: Records, device: str) -> VectorStore:
    if record["method"]["traits"]["transductive"]:
        raise MissingError("it is fitted to each task's texts")
    name, key = record["method"]["name"], record["encoder_key"]
    fitted = (read_fit(store.encoder_folder(name, key)) or {}).get("files")
    entry = EmbeddingCache().entry(key, fitted, choose_device(device))
    return VectorStore(functools.cache(lambda: encoder_of(record, store, device)), name, lambda: entry)


def _lines(of_row: ByTask, cosines: Cosines, texts: PairTexts) -> Iterator[dict[str, Any]]:
    together: dict[Pool | str, list[Scored]] = defaultdict(list)
    by_seed: dict[str, NDArray[Any]] = {}  # (sizes, seeds)
    for task, records in of_row.items():
        predicted, gold = np.concatenate([of_size[task] for of_size in cosines.values()]), texts.of(records[0]).gold
        pool, places = pool_of(task, pairs_of(records[0])["gold_sha256"]) or (task, None)
        together[pool].append(Scored(predicted, gold, places))
        by_seed[task] = 100 * measured(predicted, gold).reshape(len(cosines), -1)
    drawn = [
        draws
        for pool, scored in together.items()
        for draws in resample_together(
            scored, pool if isinstance(pool, Pool) else None, resamples=TABLE_RESAMPLES, expanded=True
        )
    ]
    scores = np.mean(list(by_seed.values()), axis=0)
    n, seeds = scores.shape
    means = 100 * np.mean(drawn, axis=0).reshape(n, seeds, TABLE_RESAMPLES).mean(axis=1)
    # The last of these methods always has 0, so that the difference from it is a score.
    gaps = differences(
        sample(
            [*scores, np.zeros(1)],
            np.concatenate([means, np.zeros((1, TABLE_RESAMPLES))]),
            sum(len(of_task.gold) for scored in together.values() for of_task in scored),
            dict.fromkeys(range(n), SeedNoise()) if is_alone(of_row) else None,
            shared=[(i, j) for i in range(n) for j in range(i)] if seeds > 1 else [],
        )
    )
    for i, (dims, form, size) in enumerate(cosines):
        line: dict[str, Any] = {"dims": dims, "numbers": form, "bytes": size}
        for name, other in (("score", n), ("change", 0)):
            known = plain([float(of[i, other]) for of in (gaps.value, gaps.low, gaps.high)])
            line |= dict(zip((name, f"{name} low", f"{name} high"), known if i != other else [None] * 3, strict=True))
        yield line | {task: float(of[i].mean()) for task, of in by_seed.items()}
