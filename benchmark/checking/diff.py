"""Differences of two results folders, their causes, and ranks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmark.records.folder import Records, read_records
from benchmark.records.names import printed_names, with_recipe
from benchmark.records.record import Record, main_score, plain
from benchmark.report.conditions import noise_in
from benchmark.report.leaderboard import suites_of
from benchmark.report.rows import signed
from benchmark.report.signature import differing
from benchmark.report.table import build_tables
from benchmark.stats.compare import noise_of_move
from benchmark.stats.draws import unit_of
from benchmark.stats.marks import beyond_noise
from zoo.errors import CorruptError, MissingError
from zoo.progress import counted

_Row = dict[str, list[Record]]


@dataclass(frozen=True)
class Cell:
    """Means over seeds on a task in both folders, x100; `p` is None if the noise is unknown.

    A damaged record leaves no mean: that of other seeds is not the row's.
    """

    row: str
    task: str
    state: Literal["new", "gone", "moved", "damaged"]
    a: float | None
    b: float | None
    # What differs between the records; the 95 % interval of B - A.
    made_by: list[str] = field(default_factory=list)
    low: float | None = None
    high: float | None = None
    p: float | None = None
    # By Holm's procedure over all moved cells (None: not known); a sentence for each damaged record, with its file.
    beyond_noise: bool | None = None
    damaged: list[str] = field(default_factory=list)

    @property
    def worse(self) -> bool:
        return bool(self.beyond_noise) and self.a is not None and self.b is not None and self.b < self.a


@dataclass(frozen=True)
class Diff:
    """The differing cells, and (suite, row, rank in A, rank in B) of changed ranks."""

    cells: list[Cell]
    equal: int
    ranks: list[tuple[str, str, int, int]]
    # Those that differ between the folders, each with both values.
    conditions: list[str] = field(default_factory=list)
    # How many equal cells have pair scores of other bits, by what differs between their records.
    other_bits: dict[str, int] = field(default_factory=dict)
    # Which noise the intervals contain, if there are any.
    noise: str = ""

    def as_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = plain(asdict(self))
        return values

    def __str__(self) -> str:
        lines = [_line(cell) for cell in self.cells]
        lines += [f"rank  {suite}: {row} from {a} to {b}" for suite, row, a, b in self.ranks]
        if self.conditions:
            lines.append(f"The conditions of the folders differ, A and B: {'; '.join(self.conditions)}.")
        for causes, count in self.other_bits.items():
            lines.append(f"{counted(count, 'equal cell')} with other last bits of pair scores; other: {causes}")
        if not self.equal and all(cell.state in ("new", "gone") for cell in self.cells):
            lines.append("The two have no cell in common.")
        lines += [self.noise] if self.noise else []
        return "\n".join([*lines, f"{counted(self.equal, 'cell')} equal, {len(self.cells):,} not."])


def _line(cell: Cell) -> str:
    where = f"{cell.state:5} {cell.row} on {cell.task}"
    if cell.damaged:
        return f"{where}: {' '.join(cell.damaged)}"
    if cell.a is None or cell.b is None:
        return f"{where}: {cell.b if cell.a is None else cell.a:z.2f}"
    noise = {True: "beyond noise", False: "within noise", None: "its noise is not known"}[cell.beyond_noise]
    interval = "" if cell.low is None or cell.high is None else f" ({signed(cell.low)} to {signed(cell.high)})"
    causes = _listed(cell.made_by)
    change = f"{cell.a:z.2f} to {cell.b:z.2f}, {signed(cell.b - cell.a)}{interval}"
    return f"{where}: {change}, {noise}; other: {causes}"


def _listed(causes: Sequence[str]) -> str:
    return ", ".join(causes) or "nothing that records state"


def diff(a: str | Path, b: str | Path) -> Diff:
    """Compare two results folders; FOLDER@CODE takes the records of a code digest alone.

    Rows are equal by key, else by name if each folder has a single row of it. A move has an interval, with the noise of
    pairs and of seeds, if both folders keep item scores on the same gold scores. Raises MissingError without finished
    records.
    """
    (first, records_a), (second, records_b) = _read(a), _read(b)
    pairs = _matched(records_a, records_b)
    cells, equal, moved, other_bits = [], 0, list[Record](), Counter[str]()
    for name, before_row, after_row in pairs:
        for task in sorted(before_row.keys() | after_row.keys()):
            before, after = before_row.get(task, []), after_row.get(task, [])
            was, now = _mean(before), _mean(after)
            if damaged := _damaged(first, before, after) + _damaged(second, after, before):
                cells.append(Cell(name, task, "damaged", None, None, damaged=damaged))
            elif before and after and _scores(before) == _scores(after):
                equal += 1
                if _other_bits(first, before, second, after):
                    other_bits[_listed(made_by(before[0], after[0]))] += 1
            elif before and after:
                noise = noise_of_move(before, after, first, second)
                moved += [*before, *after] if noise[0] is not None else []
                cells.append(Cell(name, task, "moved", was, now, made_by(before[0], after[0]), *noise))
            else:
                cells.append(Cell(name, task, "gone" if before else "new", was, now))
    ranks = _rank_changes((first, records_a), (second, records_b))
    contained = noise_in(moved, unit_of([moved])) if moved else ""
    beyond = beyond_noise({place: cell.p for place, cell in enumerate(cells) if cell.p is not None})
    cells = [replace(cell, beyond_noise=beyond.get(place)) for place, cell in enumerate(cells)]
    return Diff(cells, equal, ranks, differing(records_a, records_b), dict(other_bits), contained)


def _other_bits(first: Records, before: Sequence[Record], second: Records, after: Sequence[Record]) -> bool:
    there = {record["seed"]: record for record in after}

    def unlike(a: Record, b: Record) -> bool:
        pairs_a, pairs_b = a.get("pairs"), b.get("pairs")
        if pairs_a is None or pairs_b is None or pairs_a["sha256"] == pairs_b["sha256"]:
            return False
        # Packed, equal scores may be compressed in another way.
        try:
            return not np.array_equal(first.pair_scores(a)[0], second.pair_scores(b)[0])
        except (CorruptError, MissingError):
            return False

    return any(unlike(record, there[record["seed"]]) for record in before if record["seed"] in there)


def made_by(a: Record, b: Record) -> list[str]:
    def parts(record: Record) -> dict[str, Any]:
        environment, encoding = record["environment"], record["encoding"] or {}
        return {
            "method's version": record["method"]["version"],
            "recipe": record["method"]["recipe"],
            "weights": record["method"]["sources"],
            "data": record["task"]["sha256"],
            "training text": ((record["training"] or {}).get("corpus") or {}).get("sha256"),
            "protocol": record["protocol"],
            "version": record["version"],
            "code": record.get("code", {}).get("digest"),
            "precision": record["precision"],
            "device": environment["gpu"] or environment["cpu"],
            "instructions": environment.get("instructions"),
            "threads": environment["threads"],
            "encoded by": record["facts"].get("run_by"),
            "texts encoded": encoding.get("texts"),
            "texts from the embedding cache": encoding.get("cached", 0),
            **{f"library {name}": version for name, version in environment["packages"].items()},
        }

    parts_a, parts_b, differences = parts(a), parts(b), []
    for name in parts_a | parts_b:
        was, now = parts_a.get(name), parts_b.get(name)
        if was == now:
            continue
        if isinstance(was, dict) and isinstance(now, dict):
            changed = [key for key in was | now if was.get(key) != now.get(key)]
            differences.append(f"{name} ({', '.join(changed)})")
        else:
            differences.append(f"{name} ({_unlike(was, now)} to {_unlike(now, was)})")
    return differences


def _unlike(text: object, other: object) -> str:
    """The words of a text that the other lacks, since long ones begin alike; else its beginning."""
    words = [word for word in str(text).split() if word not in str(other).split()]
    return (" ".join(words) if len(words) < len(str(text).split()) else str(text)[:12]) or "none more"


def _read(given: str | Path) -> tuple[Records, list[Record]]:
    place, _, code = str(given).partition("@")
    store = Records(Path(place))
    records = [r for r in read_records(store) if r["status"] == "ok" and r["limit"] is None]
    if code:
        records = [r for r in records if r.get("code", {}).get("digest", "").startswith(code)]
    if not records:
        raise MissingError(f"no finished records in {given}; name two results folders, or FOLDER@CODE.")
    return store, records


def _matched(a_records: Sequence[Record], b_records: Sequence[Record]) -> list[tuple[str, _Row, _Row]]:
    called = printed_names(r["method"]["name"] for r in (*a_records, *b_records))
    sides: list[dict[tuple[str, str], _Row]] = []
    for records in (a_records, b_records):
        rows: dict[tuple[str, str], _Row] = defaultdict(lambda: defaultdict(list))
        for record in records:
            name = with_recipe(called[record["method"]["name"]], record["method"])
            rows[name, record["row_key"]][record["task"]["name"]].append(record)
        sides.append(rows)
    a, b = sides
    pairs = [(name, a.pop((name, key)), b.pop((name, key))) for name, key in sorted(a.keys() & b.keys())]
    for name in sorted({name for name, _ in (*a, *b)}):
        keys_a, keys_b = ([key for key in side if key[0] == name] for side in (a, b))
        if len(keys_a) == len(keys_b) == 1:
            pairs.append((name, a.pop(keys_a[0]), b.pop(keys_b[0])))
    return pairs + [(k[0], row, {}) for k, row in a.items()] + [(k[0], {}, row) for k, row in b.items()]


def _damaged(store: Records, here: Sequence[Record], there: Sequence[Record]) -> list[str]:
    first = (*here, *there)[0]
    damage = store.damaged(first["method"]["name"], first["task"]["name"])
    # Exact where the other folder has the very cells; else a row that lacks a seed may be theirs.
    seeds = {record["seed"] for record in here}
    files = [store.place(record)[1] for record in there if record["seed"] not in seeds]
    exact = [damage[file] for file in files if file in damage]
    planned = max(len({record["seed"] for record in there}), *(record.get("seeds", 0) for record in here), 0)
    damaged = exact or (list(damage.values()) if len(seeds) < planned else [])
    return [f"{store.folder}: {reason}" for reason in damaged]


def _mean(records: Sequence[Record]) -> float | None:
    return 100 * float(np.mean([main_score(record) for record in records])) if records else None


def _scores(records: Sequence[Record]) -> Mapping[int | None, float]:
    return {record["seed"]: main_score(record) for record in records}


def _rank_changes(*folders: tuple[Records, Sequence[Record]]) -> list[tuple[str, str, int, int]]:
    ranks: list[dict[tuple[str, str], int]] = []
    for store, records in folders:
        tables = build_tables(records, suites_of(records, None, store.folder))
        ranks.append({(table.suite.name, row.name): row.rank for table in tables for row in table.rows if row.rank})
    a, b = ranks
    return [(*key, a[key], b[key]) for key in a if key in b and a[key] != b[key]]
