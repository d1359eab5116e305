"""Checks a record against its sources: keys, name, training, and the files of its encoder."""

from __future__ import annotations

import contextlib
import json
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from benchmark.keys import cell_key, encoder_key, ingredients
from benchmark.records.folder import Records
from benchmark.records.promises import asked
from benchmark.records.record import Record, TrainingPart, plain
from benchmark.report.conditions import setting
from benchmark.run.measure import method_part
from benchmark.run.rows import Row
from benchmark.tasks.loaded import LoadedTask, TaskIdentity
from benchmark.tasks.suites import suite_of_run
from zoo.api import check_files
from zoo.errors import MissingError, ZooError
from zoo.files import read_json, read_signed
from zoo.plugins import METHODS, method_identity
from zoo.recipes import build, portable_recipe

STATED = {
    "started": "times, machine and command are the sender's word",
    "seconds": "a time",
    "adapt.seconds": "a time",
    "training.seconds": "a time, also of fit.json",
    "training.sentences_per_second": "a speed",
    "training.peak_memory_mb": "memory of the machine",
    "training.peak_from_mb": "memory of the machine",
    "training.ended": "a time",
    "training.sentences": "how many sentences the updates read, of the text that is in the key",
    "training.facts": "what a method says of its own training",
    "training.code": "the digest of the code",
    "encoding": "counts and speed of the run, which encodes the texts of all its tasks together",
    "environment": "the machine",
    "version": "the package's version",
    "code": "the digest of the code",
    "command": "the command",
    "run_file": "the run file",
    "replaces": "which packed lines no longer count",
    "task.source": "where the data lay",
    "task.revision": "the hub's revision of the data, whose sha256 is compared",
    "seeds": "how many seeds were planned: compared with those that are there, row by row",
}
"""The fields of a record that nothing here can say again, each with the reason; every other one is compared."""

# What cosines, or places as shares, of two seeds differ by at least; and the fewest pairs whose places say so.
NEAR, FEWEST_PLACES = 1e-5, 31
# As a share of the cosines' range, where they are all alike.
NEAR_OF_RANGE = 0.2
# A cosine to the start that is nearer to 1: the training moved nothing.
STILL = 1e-6

Close = Callable[[tuple[str, ...], float, float], bool]


class DifferenceError(Exception):
    """A record's statement does not hold here."""


def equal(_: tuple[str, ...], stated: float, again: float) -> bool:
    """Compare two numbers but for the last digits of a sum."""
    return math.isclose(stated, again, rel_tol=1e-9, abs_tol=1e-9)


def differences(stated: object, again: object, close: Close = equal, where: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield a text for every different value."""
    if isinstance(stated, Mapping) and isinstance(again, Mapping):
        for name in dict.fromkeys((*again, *stated)):
            yield from differences(stated.get(name), again.get(name), close, (*where, str(name)))
        return
    if isinstance(stated, list) and isinstance(again, list) and len(stated) == len(again):
        for number, (value, other) in enumerate(zip(stated, again, strict=True)):
            yield from differences(value, other, close, (*where, str(number)))
        return
    kinds = {type(stated), type(again)}
    # Counts are equal or not, and True is no 1.
    numbers = kinds <= {int, float} and float in kinds
    same = close(where, stated, again) if numbers else stated == again  # type: ignore[arg-type]
    if not same or (kinds != {type(again)} and bool in kinds):
        yield f"{' '.join(where)} is {stated!r:.60}, and {again!r:.60} here"


def require(differing: Iterator[str]) -> None:
    if (first := next(differing, None)) is not None:
        raise DifferenceError(first)


def check_keys(record: Record) -> None:
    """Raise DifferenceError unless the keys follow from seed and task."""
    if encoder_key(record["row_key"], record["seed"]) != record["encoder_key"]:
        raise DifferenceError(f"its encoder_key is not that of its row and of seed {record['seed']}")
    identity = {name: value for name, value in record["task"].items() if name in TaskIdentity.__annotations__}
    if cell_key(record["encoder_key"], cast("TaskIdentity", identity)) != record["key"]:
        raise DifferenceError("its key is not that of its encoder and its task")
    if record["status"] == "ok" and record["reason"] is not None:
        raise DifferenceError("it has a score, and a reason why it has none")
    if (record["seed"] is None) != ("seeds" not in record) or record.get("seeds", 1) <= (record["seed"] or 0):
        raise DifferenceError(f"it is of seed {record['seed']}, and states {record.get('seeds')} seeds from 0")


def check_method(record: Record, row: Row) -> None:
    """Raise DifferenceError unless the method is the record's, MissingError if its recipe has other settings here."""
    stated = record["method"]
    sources: dict[str, Any] = stated["sources"]
    again = plain(method_part(row, sources))
    builtin = METHODS.name_of(row.cls) is None or METHODS.is_builtin(str(METHODS.name_of(row.cls)))
    name = stated["class"] if builtin else stated["class"].rpartition(".")[2]
    if name != (again["class"] if builtin else again["class"].rpartition(".")[2]):
        raise DifferenceError(f"its name is that of {again['class'].rpartition('.')[2]}, and its class {name}")
    if stated["recipe"].keys() != again["recipe"].keys():
        raise DifferenceError(f"its recipe has the settings {', '.join(sorted(stated['recipe']))}, and others here")
    shown = [(setting(part), part["traits"].get("untrained", False)) for part in (stated, again)]
    if shown[0] != shown[1]:
        raise DifferenceError(
            f"its traits make the row {shown[0]}, and its method {shown[1]} (setting, untrained backbone)"
        )
    left_out = {"class", "recipe", "sources", "version"}
    parts = [{k: v for k, v in part.items() if k not in left_out} for part in (stated, again)]
    require(differences(parts[0], parts[1]))
    if (other := next(differences(stated["recipe"], again["recipe"]), None)) is not None:
        # A recipe has no version: under its name the settings may have been others when it was measured.
        raise MissingError(f"the recipe of its name has other settings: {other}")


def check_row_key(record: Record, row: Row, dev: TaskIdentity | None, probe: str | None) -> None:
    """Raise DifferenceError unless the key follows; `probe` digests a foreign method's vectors."""
    sources: dict[str, Any] = record["method"]["sources"]
    corpus: dict[str, Any] | None = (record["training"] or {}).get("corpus")  # type: ignore[assignment]
    recipe = build(row.cls.Recipe, record["method"]["recipe"], "the record")
    made_of = ingredients(
        row.cls,
        recipe,
        row.traits,
        sources,
        corpus=corpus,
        dev=dev,
        precision=record["precision"],
        limit=record["limit"],
        version=record["method"]["version"],
    )
    if replace(made_of, protocol=record["protocol"], probe=probe).key() != record["row_key"]:
        raise DifferenceError(
            "its row_key is not that of its method, settings, weights, training text, precision and limit"
        )


def check_training(record: Record, row: Row, store: Records) -> None:
    """Raise DifferenceError unless the training is that of fit.json, method.json, recipe.json and the log.

    MissingError: the trained encoder is not in the folder.
    """
    training = record["training"]
    if (training is not None) != bool(row.text_kind):
        raise DifferenceError("it states a training, and its method learns nothing, or the other way round")
    if training is None:
        return
    folder = store.encoder_folder(record["method"]["name"], record["encoder_key"])
    if not (folder / "fit.json").is_file():
        raise MissingError("its trained encoder is not in the folder")
    fit, place = read_signed(folder / "fit.json"), folder / "encoder"
    check_files(place, fit.get("files"))
    require(differences(of_training(training), of_training(fit.get("training")), where=("training",)))
    if fit.get("encoder_key", record["encoder_key"]) != record["encoder_key"]:
        raise DifferenceError("fit.json is of another encoder")
    about = read_json(place / "method.json") if (place / "method.json").is_file() else None
    if about is not None and about.get("method") != METHODS.name_of(row.cls):
        raise DifferenceError(f"method.json names {about.get('method')}, and the record {row.cls.__name__}")
    if METHODS.is_builtin(str(METHODS.name_of(row.cls))) and (place / "recipe.json").is_file():
        recipe = build(row.cls.Recipe, read_json(place / "recipe.json"), str(place / "recipe.json"))
        settings = build(row.cls.Recipe, record["method"]["recipe"], "the record")
        sources: dict[str, Any] = record["method"]["sources"]
        both = [plain(portable_recipe(side, sources)) for side in (settings, recipe)]
        require(differences(both[0], both[1], where=("recipe.json:",)))
    if training.get("paper_updates") != row.updates:
        stated_updates = training.get("paper_updates")
        raise DifferenceError(f"it states {stated_updates} updates of its paper, and its recipe {row.updates}")
    if training.get("fitted") is not True:
        raise DifferenceError("it states a training that fitted nothing")
    _check_log(training, folder / "training")


def _check_log(training: TrainingPart, folder: Path) -> None:
    """Raise DifferenceError unless the log has the training's updates, loss, dev scores and best step."""
    logged: list[dict[str, Any]] = [json.loads(line) for line in _log(folder) if line.startswith('{"step"')]
    curves: dict[str, dict[str, Any]] = {"dev_score": {}}
    for line in logged:
        for name, value in line.items() if "dev_score" in line else ():
            curves.setdefault(name, {})[str(line["step"])] = value
    scores = curves.pop("dev_score")
    curves.pop("step", None)
    losses = [line["loss"] for line in logged if "loss" in line]
    if not losses or (training.get("dev_scores") and not scores):
        if not training.get("dev_scores") and training.get("final_loss") is None:
            return
        raise MissingError("its log is not in the folder, so that loss and dev scores are not compared")
    again: dict[str, object] = {
        "steps": max(line["step"] for line in logged),
        "final_loss": losses[-1],
        "dev_scores": scores,
        "dev_curves": curves,
        "best_step": int(max(scores, key=lambda step: (scores[step], -int(step)))) if scores else None,
    }
    require(differences({name: training.get(name) for name in again}, again, where=("its log: training",)))


def of_training(stated: object) -> dict[str, Any]:
    """Return what a training states, without its overlap and the sender's word: two runs of one have two times."""
    training = stated if isinstance(stated, Mapping) else {}
    word = {"overlap", *(name.partition(".")[2] for name in STATED if name.startswith("training."))}
    return {name: value for name, value in training.items() if name not in word}


def _log(folder: Path) -> list[str]:
    path = folder / "log.jsonl"
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def check_start(record: Record, row: Row) -> None:
    """Raise DifferenceError unless the stated start has the key of these untrained vectors."""
    if record.get("start_key") is None or row.start is None:
        if record.get("start_key") is not None:
            raise DifferenceError("it states a start, and its method starts from nothing")
        return
    cls = METHODS.get(row.start.method)
    recipe, sources = row.start.recipe, record["method"]["sources"]
    kinds: dict[str, Any]
    traits = cls.traits(recipe)
    kinds = {kind: source for kind, source in sources.items() if hasattr(recipe, kind)}
    precision = traits.precision or record["precision"]
    start = ingredients(
        cls,
        recipe,
        traits,
        kinds,
        corpus=None,
        dev=None,
        precision=precision,
        limit=record["limit"],
    )
    # Its version is that of whenever the vectors were measured.
    codes = [method_identity(cls, version=version) for version in range(1, cls.version + 1)]
    keys = [replace(start, code=code).key() for code in codes]
    if METHODS.is_builtin(row.start.method) and record["start_key"] not in keys:
        raise DifferenceError("its start_key is not that of the vectors that it starts from")


def equal_seeds(records: Sequence[Record], store: Records) -> dict[str, str]:
    """Return a remark, by cell key, on cosines that are nearly another seed's."""
    cells: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        if record["status"] == "ok" and record["seed"] is not None and store.has_pairs(record):
            cells[record["row_key"], record["task"]["name"]].append(record)
    equals: dict[str, str] = {}
    for several in cells.values():
        known: list[tuple[Record, NDArray[Any]]] = []
        for record in several if len(several) > 1 else ():
            try:
                predicted = store.pair_scores(record)[0]
            except ZooError:
                continue
            # Places of few pairs are often the same.
            largest = float(np.abs(predicted).max())
            if largest > 1.001 and len(predicted) < FEWEST_PLACES:
                continue
            shares, training = predicted / max(1.0, largest), record["training"] or {}
            # What learned nothing has the vectors that it started from.
            if training.get("steps") == 0 or (training.get("cosine_to_start") or 0.0) > 1 - STILL:
                continue
            # What collapsed gives all texts one vector: two seeds of it are near, but as unlike as their texts are.
            near = min(NEAR, NEAR_OF_RANGE * float(np.ptp(shares)))
            for other, before in known:
                if len(before) == len(shares) and float(np.abs(before - shares).max()) <= near:
                    equals[record["key"]] = f"seeds {other['seed']} and {record['seed']} have the same cosines"
            known.append((record, shares))
    return equals


def other_columns(store: Records) -> dict[str, str]:
    """Return a remark, by cell key, on packed records whose columns state something else."""
    pack = store.packed()
    columns = pack.other_columns() if pack else ()
    return {
        record["key"]: f"the column {name} of records.parquet is not that of its record" for record, name in columns
    }


def check_dev(record: Record, task: LoadedTask) -> None:
    """Raise DifferenceError unless the stated overlap of the development pairs with tests is that of their task."""
    training, overlap = record["training"] or {}, task.data.dev_overlap() if task.data else None
    again = (None, None) if overlap is None else (overlap.pairs, overlap.in_test)
    stated = training.get("dev_pairs"), training.get("dev_pairs_in_test")
    if stated != again and (record["limit"] is None or stated != (None, None)):
        raise DifferenceError(f"it states {stated[0]} development pairs, {stated[1]} of them in tests, and not {again}")


def absent_cells(records: Sequence[Record]) -> Iterator[tuple[Record, int | None, str, str]]:
    """Yield cells without a record: of tasks that a run of their row names, the seeds that it states."""
    rows: dict[str, list[Record]] = defaultdict(list)
    measured: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for record in records:
        rows[record["row_key"]].append(record)
        measured[tuple(record["command"])].add(record["task"]["name"])
    named = {command: _tasks_named(command, tasks) for command, tasks in measured.items()}
    for row in rows.values():
        there = {(record["seed"], record["task"]["name"]) for record in row}
        planned: dict[str, int] = defaultdict(int)
        for record in row:
            for task in {record["task"]["name"], *named[tuple(record["command"])]}:
                planned[task] = max(planned[task], record.get("seeds") or 0)
        for task in dict.fromkeys(record["task"]["name"] for record in row):
            for seed in range(planned[task]):
                if (seed, task) not in there:
                    yield row[0], seed, task, f"there is no record of it, and its row states {planned[task]} seeds"


def _tasks_named(command: Sequence[str], measured: set[str]) -> Collection[str]:
    """Return the tasks of a command line; none of a call from Python or of a run's file."""
    options = asked(command)
    if not command or options.keys().isdisjoint({"methods", "suite", "tasks"}):
        return ()
    with contextlib.suppress(ZooError):
        tasks = suite_of_run(options.get("suite"), options.get("tasks"), options.get("dev"), None).tasks
        if measured <= {*tasks}:
            return tasks
    return ()
