"""Verifies a results folder: each statement of a record is made again here and compared."""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.checking import bound
from benchmark.checking.bound import DifferenceError
from benchmark.checking.recorded import encoder_of, is_object, recipes_of, row_of_record, untrained_start, without_hub
from benchmark.checking.tolerances import (
    COSINE,
    COSINE_HALF,
    Verdict,
    Verified,
    Word,
    compare_cosines,
    compare_gold,
    compare_kept,
    compare_measured,
    compare_score,
    compare_shared,
)
from benchmark.data.catalog import catalog
from benchmark.data.corpora import load_corpus, load_pairs, normalised_texts, overlap
from benchmark.data.readers.pairs import Pairs
from benchmark.data.sources import DataSource
from benchmark.keys import vectors_digest
from benchmark.metrics.correlation import cosine
from benchmark.metrics.items import accuracy_of
from benchmark.records.folder import Records
from benchmark.records.promises import absent
from benchmark.records.query import label, scored_pairs
from benchmark.records.record import Record, main_score, plain
from benchmark.run.fit import Fitter, cosine_to_start
from benchmark.run.measure import EncoderMeasurement, Measured, Overlap
from benchmark.run.objects import row_of
from benchmark.run.options import RunOptions
from benchmark.run.plan import Cell, EncoderPlan, Inputs, Request, Run
from benchmark.run.rows import Given, Row
from benchmark.run.stop import Stop
from benchmark.run.vectors import MANY_SHARED, VectorStore
from benchmark.tasks.base import PairScores, PairsData, TaskData, compare
from benchmark.tasks.loaded import LoadedTask, TaskIdentity, load_tasks
from zoo.check import SENTENCES
from zoo.encoder import Corpus
from zoo.errors import ContractError, CorruptError, MissingError, ZooError, error_text
from zoo.files import sha256_json
from zoo.plugins import METHODS
from zoo.recipes import given_recipes

# Pairs that are encoded again at least, drawn by this machine; all of a cell where they take no longer than this.
DRAWN = 256
# The rows of all tasks of an encoder that are encoded together, as a run does: vectors may then be equal to the bit.
FEW = 1024
SECONDS = 10.0
# Of a task without pair scores that is measured again.
MOST_ROWS = 4096
# Sentences or pairs of a training text that is read again, for its overlap with the test texts.
MOST_TEXTS = 200_000


def verify(
    folder: Path,
    data: str | None = None,
    *,
    encode: bool = True,
    device: str = "auto",
    fetch: bool = False,
    weights: Sequence[Path] = (),
) -> Verified:
    """Verify every record of a results folder.

    Keys, name and training are compared with the files beside it, gold scores with the data here. The score is computed
    again from pair scores or items. With `encode`, the cell is measured again if the encoder is in the folder, among
    `weights`, or needs no training. Data and models come from the hub only with `fetch`. Raises MissingError without
    records.
    """
    store = Records(folder)
    records = store.all()
    verdicts = [Verdict("differs", str(path), str(path), reason) for path, reason in store.corrupt]
    if not records and not verdicts:
        raise MissingError(f"no finished records in {folder}; name a results folder.")
    with without_hub(fetch):
        check = Check(store, DataSource.from_options(data, hub=fetch), encode, device, weights)
        verdicts += check.verdicts(records)
    return Verified(verdicts)


class Check:
    """The common state of cells: tasks, training texts, and the current encoder."""

    def __init__(
        self, store: Records, data: DataSource, encode: bool = True, device: str = "auto", weights: Sequence[Path] = ()
    ) -> None:
        self.store, self.data, self.encode, self.device, self.weights = store, data, encode, device, weights
        self._tasks: dict[tuple[str, int | None], LoadedTask] = {}
        self._texts: dict[str, Corpus | None] = {}
        self._encoder: tuple[str, EncoderMeasurement | str] | None = None
        self._overlap, self._stop, self._recipes = Overlap(), Stop(), recipes_of(store)
        self._given = given_recipes(store.folder)
        # Encoders whose cosines, encoded again, were equal to the last bit.
        self._exact: set[str] = set()
        # Those whose distance to their start was compared.
        self._started: set[str] = set()
        self._equals: dict[str, str] = {}
        self._tasks_of: dict[str, list[tuple[str, int | None]]] = defaultdict(list)

    def verdicts(self, records: Sequence[Record]) -> list[Verdict]:
        self._equals = bound.equal_seeds(records, self.store) | bound.other_columns(self.store)
        for record in sorted(records, key=lambda record: record["started"]):
            self._tasks_of[record["encoder_key"]].append((record["task"]["name"], record["limit"]))
        # Cosines first: where they are equal to the last bit, so are the accuracies.
        ordered = sorted(
            records, key=lambda record: (record["row_key"], record["encoder_key"], not record.get("pairs"))
        )
        verdicts = [self.verdict(record) for record in ordered]
        for record, seed, task, why in bound.absent_cells(records):
            row = label([record])
            verdicts.append(Verdict("missing", row, _cell(row, task, seed), why))
        verdicts += [Verdict("missing", "the run", "the run", why) for why in absent(records)]
        return verdicts

    def verdict(self, record: Record) -> Verdict:
        row = label([record])
        cell, done = _cell(row, record["task"]["name"], record["seed"]), list[str]()
        word: Word = "verified"
        try:
            why = self._compared(record, done)
        except (DifferenceError, CorruptError, ContractError) as error:
            word, why = "differs", str(error)
        except Exception as error:
            # Of any encoder's or task's code too.
            word, why = "not verifiable", str(error) if isinstance(error, ZooError) else error_text(error)
            why = why.rstrip(".") + f". Compared: {', '.join(done)}." if done else ""
        if word == "not verifiable" and record["status"] == "failed":
            word, why = "failed", record["reason"] or "?"
        return Verdict(word, row, cell, why)

    def _compared(self, record: Record, done: list[str]) -> str:
        """Append each agreement to `done`; raises DifferenceError, or the ZooError of an open verdict."""
        bound.check_keys(record)
        if equals := self._equals.get(record["key"]):
            raise DifferenceError(equals)
        done.append("its keys")
        kept = self._kept(record, done) if record["status"] == "ok" else None
        plan, reason = self._bound(record, done)
        if record["status"] == "failed":
            raise MissingError(record["reason"] or "it failed")
        task = self._task(record)
        if task.data is None:
            raise MissingError(task.reason or "its data is not here")
        if kept is not None:
            compare_gold(record, task, kept)
            done.append("gold scores")
        if not self.encode:
            if reason and plan is None:
                raise MissingError(reason)
            if record["status"] != "ok":
                raise MissingError(f"{record['status']}: {record['reason']}")
            if kept is None and not record.get("items"):
                raise MissingError("no scores of its items are kept")
            return f"{', '.join(done)}; nothing was encoded" + (f" ({reason})" if reason else "")
        if plan is None or reason:
            raise MissingError(reason)
        data = task.data
        large = not isinstance(data, PairsData) and (data.trains_encoder or (data.rows or 0) > MOST_ROWS)
        if large:
            raise MissingError("measuring it again takes a run")
        measurement = self._measurement(record, plan)
        if is_object(record):
            measured = measurement.plan.row
            bound.check_row_key(record, measured, None, vectors_digest(measurement.encoder().encode, SENTENCES))
        if kept is not None and isinstance(data, PairsData) and data.rows > FEW:
            vectors = measurement.vectors_for(data.unlabelled())
            drawn, how = self._drawn(record, measurement.plan.row, scored_pairs(task, "test"), kept, vectors)
            if drawn:
                return f"{', '.join(done)}, and the cosines of {drawn} pairs drawn here, encoded again, {how}"
        return f"{', '.join(done)}; {self._measured_again(record, measurement, task, kept)}"

    def _kept(self, record: Record, done: list[str]) -> PairScores | None:
        if items := record.get("items"):
            if (again := accuracy_of(items)) != main_score(record):
                raise DifferenceError(
                    f"the score is {100 * main_score(record):.4f}, and {100 * again:.4f} from its items"
                )
            done.append("score from its items")
        if not self.store.has_pairs(record):
            return None
        kept = self.store.pair_scores(record)
        compare_score(record, *kept)
        done.append("score from its pair scores")
        return kept

    def _bound(self, record: Record, done: list[str]) -> tuple[Row | None, str]:
        try:
            row = row_of_record(record, self._recipes, self._given)
            bound.check_method(record, row)
        except MissingError as error:
            return None, str(error)
        done.append("name and settings")
        if record["status"] != "ok":
            return row, ""
        dev = (record["training"] or {}).get("dev_task")
        identity: TaskIdentity | None = None
        if dev is not None:
            task = self._task_named(dev, record["limit"])
            if task.data is None:
                return row, f"its development data is not here ({task.reason})"
            identity = task.identity() if row.traits.picks_checkpoint else None
            bound.check_dev(record, task)
        registered = METHODS.name_of(row.cls)
        if is_object(record) or not (registered and METHODS.is_builtin(registered)):
            # Its vectors are in its key, and the file of its class.
            if self.encode and not is_object(record):
                probe = None if row.text_kind else self._probe(record, row)
                bound.check_row_key(record, row, identity, probe)
        else:
            bound.check_row_key(record, row, identity, None)
        bound.check_start(record, row)
        try:
            bound.check_training(record, row, self.store)
            done.extend(["training"] if record["training"] else [])
        except MissingError as error:
            return row, str(error)
        # The vectors of another version of its method are not made here.
        version, here = record["method"]["version"], row.cls.version
        return row, f"it is of version {version} of its method, and version {here} is here" if version != here else ""

    def _probe(self, record: Record, row: Row) -> str:
        return vectors_digest(self._measurement(record, row).encoder().encode, SENTENCES)

    def _task(self, record: Record) -> LoadedTask:
        return self._task_named(record["task"]["name"], record["limit"])

    def _task_named(self, name: str, limit: int | None) -> LoadedTask:
        if (name, limit) not in self._tasks:
            (self._tasks[name, limit],) = load_tasks([name], self.data, limit)
        return self._tasks[name, limit]

    def _measurement(self, record: Record, row: Row) -> EncoderMeasurement:
        key = record["encoder_key"]
        if self._encoder is None or self._encoder[0] != key:
            try:
                self._encoder = key, self._new_measurement(record, row)
            except MissingError as error:
                self._encoder = key, str(error)
        if isinstance(self._encoder[1], str):
            raise MissingError(self._encoder[1])
        return self._encoder[1]

    def _new_measurement(self, record: Record, row: Row) -> EncoderMeasurement:
        # A cell without a score states no training.
        trained = record["training"] or ({} if record["status"] != "ok" and row.text_kind else None)
        stated: Record = {**record, "training": trained}
        encoder = encoder_of(stated, self.store, self.device, row, self.weights, self._stop)
        if is_object(record):
            name, version = record["method"]["name"], record["method"]["recipe"]["version"]
            row = row_of(encoder, name, encoder.runtime, (), version=version)
            bound.check_method(record, row)
        else:
            row = replace(row, given=Given(encoder, record["method"]["sources"]))
        inputs = Inputs(record["row_key"], corpus=self._corpus(record, row))
        plan = EncoderPlan(row, inputs, row.name, record["seed"], None, record["encoder_key"], (), None)
        folder = self.store.encoder_folder(record["method"]["name"], record["encoder_key"])
        run = Run(Request(RunOptions(methods="")), encoder.runtime, (), (), None, {}, ())
        measurement = EncoderMeasurement(plan, folder, Fitter(run), None, self._stop, self._overlap)
        several = [self._task_named(*task).data for task in self._tasks_of[record["encoder_key"]]]
        read = [data for data in several if data is not None and not data.trains_encoder]
        if not row.traits.transductive and sum(data.rows or 0 for data in read) <= FEW:
            measurement.read(read)
        return measurement

    def _corpus(self, record: Record, row: Row) -> Corpus | None:
        stated: Any = (record["training"] or {}).get("corpus")
        size = 0 if stated is None else stated.get("sentences") or stated.get("pairs") or 0
        if not 0 < size <= MOST_TEXTS or any(part not in catalog() for part in stated["name"].split("+")):
            return None
        key = sha256_json(stated)
        if key not in self._texts:
            self._texts[key] = None
            with suppress(ZooError):
                if "pairs" in stated:
                    corpus = load_pairs(stated["name"], self.data, size)
                else:
                    corpus = load_corpus(stated["name"], self.data, size, documents="documents" in stated)
                corpus = row.cls.reads(row.recipe, corpus)
                self._texts[key] = corpus if plain(corpus.identity()) == plain(stated) else None
        return self._texts[key]

    def _drawn(self, record: Record, row: Row, pairs: Pairs, kept: PairScores, vectors: VectorStore) -> tuple[int, str]:
        """Return the number of compared pairs, 0 if all are encoded in seconds, and how they were compared."""
        gold = kept[1]
        # A sender who knows which pairs are compared could keep these true.
        drawn = np.sort(secrets.SystemRandom().sample(range(len(gold)), min(DRAWN, len(gold))))
        started = time.perf_counter()
        first, second = ([side[place] for place in drawn] for side in (pairs.first, pairs.second))
        again = cosine(vectors(first), vectors(second))
        _, how = compare_cosines(record, row, again, kept[0][drawn], gold[drawn])
        slow = (time.perf_counter() - started) * len(gold) / len(drawn) > SECONDS
        return len(drawn) if slow and len(drawn) < len(gold) else 0, how

    def _measured_again(
        self, record: Record, measurement: EncoderMeasurement, task: LoadedTask, kept: PairScores | None
    ) -> str:
        data = task.data
        assert data is not None
        try:
            measured = measurement.measure_cell(Cell(task, record["key"]))
        except MissingError as error:
            measured = Measured(Cell(task, record["key"]), "n/a", str(error))
        if record["status"] == "n/a" and (measured.status, measured.reason) == ("n/a", record["reason"]):
            return f"n/a here too: {measured.reason}"
        if measured.status != record["status"]:
            scores = measured.more.get("scores")
            main = scores["main"] if scores else None
            here = measured.reason if main is None else f"{100 * main:.2f}"
            there = record["reason"] if record["scores"] is None else f"{100 * main_score(record):.2f}"
            raise DifferenceError(f"the score is {there}, and {here} when measured again")
        self._compare_start(record, measurement)
        again = plain(measured.more)
        if kept is not None and measured.pairs is not None and isinstance(data, PairsData):
            exact, how = compare_cosines(record, measurement.plan.row, measured.pairs[0], *kept)
            if exact:
                self._exact.add(record["encoder_key"])
            vectors = measurement.vectors_for(data.unlabelled())
            known = [compare(vectors, pairs)[1] for pairs in data.subsets.values()]
            compare_kept(record, data, kept, known, measured)
            text = f"all cosines, encoded again, {how}"
        else:
            text = compare_measured(record, measured, kept, data.rows or 1, exact=record["encoder_key"] in self._exact)
        self._compare_rest(record, again, data)
        if record.get("pairs") and kept is None:
            raise MissingError(f"the file of its pair scores is not here, and {text}")
        return text

    def _compare_start(self, record: Record, measurement: EncoderMeasurement) -> None:
        training, key = record["training"] or {}, record["encoder_key"]
        if not training or measurement.plan.row.given is None or key in self._started:
            return
        start = untrained_start(record, measurement.plan.row, self.weights, measurement.encoder().runtime)
        again = None if start is None else cosine_to_start(start, measurement.encoder())
        stated = training.get("cosine_to_start")
        if stated is None or again is None:
            if stated != again:
                raise DifferenceError(f"training cosine_to_start is {stated}, and {again} here")
        elif abs(stated - again) > COSINE.get(record["precision"], COSINE_HALF):
            raise DifferenceError(f"training cosine_to_start is {stated}, and {again} here")
        self._started.add(key)

    def _compare_rest(self, record: Record, again: dict[str, Any], data: TaskData) -> None:
        training: Any = record["training"]
        if training is not None and "overlap" in training and "overlap" not in again["training"]:
            every = overlap(tested := normalised_texts(data.tested()), tested)
            shown = training["overlap"]
            if shown["texts"] != len(tested) or not set(every).issuperset(shown["digests"]):
                raise DifferenceError("the overlap with its training text is of other test texts")
            again["training"]["overlap"] = shown
        if again["adapt"] is not None and (adapt := record.get("adapt")):
            again["adapt"]["seconds"] = adapt["seconds"]
        compare_shared(record.get("coverage"), again["coverage"], MANY_SHARED)
        rest: Any = {name: record.get(name) for name in ("coverage", "training", "adapt", "facts")}
        both = [{name: side[name] for name in rest} for side in (rest, again)]
        for side in both:
            side["coverage"] = {name: value for name, value in (side["coverage"] or {}).items() if name != "shared"}
            side["training"] = training and {
                **bound.of_training(side["training"]),
                "overlap": side["training"].get("overlap"),
            }
        bound.require(
            bound.differences(
                {**both[0], "rows": record["task"]["rows"]},
                {**both[1], "rows": data.rows},
                lambda _, first, other: abs(first - other) <= 0.01 * abs(other) + 1e-9,
            )
        )


def _cell(row: str, task: str, seed: int | None) -> str:
    return f"{row} on {task}" + ("" if seed is None else f", seed {seed}")
