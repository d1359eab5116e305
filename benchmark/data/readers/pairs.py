"""Strict readers of scored pairs: fixed encoding, fields split at tabs only, file:line in every error."""

from __future__ import annotations

import heapq
import json
import random
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmark.data.readers.kinds import check_text, is_table, text_lines
from benchmark.data.readers.tables import read
from zoo.errors import CorruptError, UsageError
from zoo.files import iterate_lines


@dataclass(frozen=True)
class Pairs:
    """Scored pairs with gold (n,) float64; higher is more similar."""

    first: list[str]
    second: list[str]
    gold: NDArray[np.float64]
    # Rows of the file without a score, which are left out; which columns of a user's file were read.
    blank: int = 0
    report: str = ""

    def __len__(self) -> int:
        return len(self.first)

    def head(self, limit: int | None) -> Pairs:
        return Pairs(self.first[:limit], self.second[:limit], self.gold[:limit], self.blank, self.report)

    def without(self, rows: Collection[int]) -> Pairs:
        kept = [row for row in range(len(self)) if row not in set(rows)]
        return Pairs([self.first[i] for i in kept], [self.second[i] for i in kept], self.gold[kept], self.blank)

    def texts(self) -> list[str]:
        return self.first + self.second


def read_lines(path: Path, encoding: str = "utf-8") -> list[str]:
    """Split on newline only (not on other Unicode separators); raises CorruptError with the line of a bad byte."""
    return list(iterate_lines(path, encoding))


def _number(text: str, low: float, high: float, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise CorruptError(f"{where}: {text!r} is not a score.") from None
    if not low <= value <= high:
        raise CorruptError(f"{where}: score {value} is outside {low:g}..{high:g}.")
    return value


def _fields(line: str, least: int, most: int, where: str) -> list[str]:
    fields = line.split("\t")
    if not least <= len(fields) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise CorruptError(f"{where}: {len(fields)} tab-separated fields instead of {wanted}.")
    return fields


def read_sts(input_path: Path, gold_path: Path, *, extra_fields: int = 0) -> Pairs:
    """Read a subset of STS12-16: STS.input (two sentences per line) and STS.gs (0-5, or blank = unscored)."""
    lines, golds = read_lines(input_path), read_lines(gold_path)
    if len(lines) != len(golds):
        raise CorruptError(f"{input_path} has {len(lines)} lines, {gold_path} has {len(golds)}; one of them is cut.")
    first, second, gold, blank = [], [], [], 0
    for number, (line, score) in enumerate(zip(lines, golds, strict=True), 1):
        fields = _fields(line, 2, 2 + extra_fields, f"{input_path}:{number}")
        if not score.strip():
            blank += 1
            continue
        gold.append(_number(score, 0, 5, f"{gold_path}:{number}"))
        first.append(fields[0])
        second.append(fields[1])
    return Pairs(first, second, np.array(gold, dtype=np.float64), blank)


def read_stsb(path: Path, *, extra_fields: int = 0) -> Pairs:
    """Read a split of the STS Benchmark: genre, file, year, id, score 0-5, sentence 1, sentence 2 (and sources)."""
    return _read_columns(path, 1, (7, 7 + extra_fields), first=5, gold=4, least=0)


def read_sick(path: Path) -> Pairs:
    """Read a split of SICK: a header line, then id, sentence A, sentence B, relatedness 1-5, entailment."""
    return _read_columns(path, 2, (5, 5), first=1, gold=3, least=1)


def read_pairs(path: Path, columns: str | None = None) -> Pairs:
    """Read a table of two texts and a score, for a task of your own; raises CorruptError without a score."""
    table = read(path, columns, "score")
    if "score" not in table.frame:
        raise CorruptError(f"{table.report}: a task of scored pairs needs two texts and a score in each row.")
    first, second, gold = (table.frame[role].tolist() for role in ("first", "second", "score"))
    return Pairs(first, second, np.array(gold, dtype=np.float64), report=table.report)


def _read_columns(path: Path, start: int, count: tuple[int, int], *, first: int, gold: int, least: float) -> Pairs:
    """Read sentences from field `first` and the next, scores from `least` to 5."""
    lines = read_lines(path)[start - 1 :]
    rows = [_fields(line, *count, f"{path}:{number}") for number, line in enumerate(lines, start)]
    scores = [_number(row[gold], least, 5, f"{path}:{number}") for number, row in enumerate(rows, start)]
    return Pairs([row[first] for row in rows], [row[first + 1] for row in rows], np.array(scores, dtype=np.float64))


def read_hub_rows(path: Path) -> Pairs:
    """Read a split cached from the hub: a JSON list [score, sentence 1, sentence 2] per line."""
    first, second, gold = [], [], []
    for number, line in enumerate(iterate_lines(path), 1):
        where = f"{path}:{number}"
        try:
            score, left_text, right_text = json.loads(line)
        except (ValueError, TypeError, RecursionError):
            raise CorruptError(f"{where}: not a list of a score and two sentences.") from None
        if not isinstance(left_text, str) or not isinstance(right_text, str):
            raise CorruptError(f"{where}: a sentence is no text.")
        gold.append(_number(str(score), 0, 5, where))
        first.append(left_text)
        second.append(right_text)
    return Pairs(first, second, np.array(gold, dtype=np.float64))


def read_table(path: Path, header: list[str]) -> list[list[str]]:
    lines = read_lines(path)
    if not lines or lines[0].split("\t") != header:
        raise CorruptError(f"{path}:1: the header is not {', '.join(header)}.")
    return [_fields(line, len(header), len(header), f"{path}:{n}") for n, line in enumerate(lines[1:], 2)]


def lines_of(path: Path, columns: str | None = None, say: Callable[[str], None] | None = None) -> Iterator[str]:
    """Yield lines of a text, also .xz and .gz, or of a table, reported to `say`."""
    check_text(path)
    if not is_table(path):
        if columns is not None:
            raise UsageError(f"{path} is plain text, without columns; leave out --columns {columns}.")
        yield from text_lines(path, what="corpus")
        return
    table = read(path, columns, corpus=True)
    if say is not None:
        say(table.report)
    yield from table.texts()


def iterate_text(path: Path) -> Iterator[str]:
    return (text for line in lines_of(path) if (text := line.strip()))


# Sentences of a document that are drawn together.
_RUN = 100


def sample_documents(lines: Iterable[str], count: int | None, seed: int = 0) -> tuple[list[str], list[int], bool]:
    """Return sentences in their order, the index of each document's first, and True if an empty line ended a document.

    With `count`, runs of up to 100 consecutive sentences are sampled (same seed, same runs); each run is then a
    document, the last cut short.
    """
    generator = random.Random(seed)
    # A heap: its first run is the one that makes room.
    kept: list[tuple[float, int, list[str]]] = []
    total = number = 0
    blank = False
    for run, ended in _runs(lines, sys.maxsize if count is None else _RUN):
        heapq.heappush(kept, (-generator.random(), number, run))
        total, number, blank = total + len(run), number + 1, blank or ended
        while count is not None and total - len(kept[0][2]) >= count:
            total -= len(heapq.heappop(kept)[2])
    if kept and count is not None and total > count:
        del kept[0][2][count - total :]
    runs = [run for _, _, run in sorted(kept, key=lambda line: line[1])]
    starts = [0, *accumulate(map(len, runs))][: len(runs)]
    return [text for run in runs for text in run], starts, blank


def _runs(lines: Iterable[str], most: int) -> Iterator[tuple[list[str], bool]]:
    run: list[str] = []
    for line in lines:
        if text := line.strip():
            run.append(text)
        if run and (not text or len(run) == most):
            yield run, not text
            run = []
    if run:
        yield run, False


def sample_text(lines: Iterable[str], count: int | None, seed: int = 0) -> list[str]:
    """Return lines with text, or `count` sampled without replacement (same seed, same lines)."""
    texts = (text for line in lines if (text := line.strip()))
    generator = random.Random(seed)
    kept: list[str] = []
    for index, text in enumerate(texts):
        if count is None or index < count:
            kept.append(text)
        else:
            slot = generator.randrange(index + 1)
            if slot < count:
                kept[slot] = text
    return kept
