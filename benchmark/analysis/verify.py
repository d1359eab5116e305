"""Verifies a results folder: scores from the values that are kept, gold scores from the user's data, vectors again."""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmark.analysis.encoders import unadapted_encoder_of
from benchmark.data.sources import DataSource
from benchmark.metrics.correlation import aggregate, cosine, ranks
from benchmark.metrics.items import accuracy_of, values_of
from benchmark.records.folder import Records
from benchmark.records.query import label, scored_pairs, spearman
from benchmark.records.record import Record, main_score, scores_of
from benchmark.run.vectors import VectorStore
from benchmark.tasks.base import PairsData
from benchmark.tasks.loaded import LoadedTask, load_tasks
from zoo.errors import CorruptError, MissingError, ZooError, error_text

Word = Literal["verified", "differs", "not verifiable"]
Numbers = NDArray[Any]

# Pairs that are encoded again at least, drawn by this machine; all of a cell where they take no longer than this.
DRAWN = 256
SECONDS = 10.0
# Of a task without pair scores that is measured again.
MOST_ROWS = 4096
# x100: what storing cosines as float32 may move a score, which was once of float64 cosines.
ROUNDING = 0.01
# What a cosine, and the score x100 of the compared pairs, may move between two machines, by precision.
COSINE = {"fp32": 1e-3}
SCORE = {"fp32": 0.1}
# The least Spearman x100 with places, which older folders keep in the place of cosines.
ORDER = 99.5
# The share of items that may turn over between two machines, and what such an item, or its reciprocal rank, moves.
TURNED, TURNED_HALF = {"fp32": 0.02}, 0.05
TURN = 0.05
COSINE_HALF, SCORE_HALF = 0.03, 1.0
LIMITS = (
    "This does not show that an encoder saw no test text in training, that it was trained as stated, or that tables and"
    " texts beside the records follow from them."
)


@dataclass(frozen=True)
class Verdict:
    """The word for one cell, and what was compared, what differs, or why it cannot be verified."""

    word: Word
    row: str
    cell: str
    why: str


@dataclass(frozen=True)
class Verified:
    """The verdicts on the finished cells of a folder."""

    verdicts: list[Verdict]
    limits: str = LIMITS

    def exit_code(self, *, allow_unverified: bool = False) -> int:
        """Return 0 only where every cell is verified, or, if so allowed, where none differs."""
        words = {verdict.word for verdict in self.verdicts}
        return int("differs" in words or ("not verifiable" in words and not allow_unverified))

    def __str__(self) -> str:
        lines = [f"differs: {one.cell}: {one.why}" for one in self.verdicts if one.word == "differs"]
        groups: dict[tuple[Word, str], list[Verdict]] = {}
        for verdict in self.verdicts:
            if verdict.word != "differs":
                groups.setdefault((verdict.word, verdict.why), []).append(verdict)
        for (word, why), group in sorted(groups.items(), reverse=True):
            rows = list(dict.fromkeys(one.row for one in group))
            names = ", ".join(rows[:3]) + (f" and {len(rows) - 3} more rows" if len(rows) > 3 else "")
            lines.append(f"{word}: {_cells(len(group))} of {names}: {why}")
        counts = Counter(one.word for one in self.verdicts)
        words: tuple[Word, ...] = ("verified", "differs", "not verifiable")
        total = f"{_cells(len(self.verdicts))}: " + ", ".join(f"{counts[word]:,} {word}" for word in words) + "."
        return "\n".join([*lines, total, self.limits])


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count:,} cells"


def verify(
    folder: Path, data: str | None = None, *, encode: bool = True, device: str = "auto", fetch: bool = False
) -> Verified:
    """Verify every finished record of a results folder.

    Its score is computed again from its pair scores, its gold scores are compared with the data here, and, with
    `encode`, its pairs are encoded again where the encoder is in the folder or needs no training. Data and models come
    from the hub only with `fetch`. Raises MissingError for a folder without finished records.
    """
    store = Records(folder)
    records = [record for record in store.all() if record["status"] == "ok"]
    verdicts = [Verdict("differs", str(path), str(path), reason) for path, reason in store.corrupt]
    if not records and not verdicts:
        raise MissingError(f"no finished records in {folder}; name a results folder.")
    with _without_hub(fetch):
        check = _Check(store, DataSource.from_options(data, hub=fetch), encode, device)
        verdicts += [check.verdict(record) for record in records]
    return Verified(verdicts)


class _DifferenceError(Exception):
    """Something in a record is not what it is here."""


class _Check:
    """What the cells of a folder share: tasks, and the encoders of the row that is being verified."""

    def __init__(self, store: Records, data: DataSource, encode: bool, device: str) -> None:
        self.store, self.data, self.encode, self.device = store, data, encode, device
        self._tasks: dict[tuple[str, int | None], LoadedTask] = {}
        self._row = ""
        self._vectors: dict[str, VectorStore | str] = {}

    def verdict(self, record: Record) -> Verdict:
        """Return the verdict on one cell."""
        row = label([record])
        seed = "" if record["seed"] is None else f", seed {record['seed']}"
        cell = f"{row} on {record['task']['name']}{seed}"
        try:
            return Verdict("verified", row, cell, self._compared(record))
        except (_DifferenceError, CorruptError) as error:
            return Verdict("differs", row, cell, str(error))
        except ZooError as error:
            return Verdict("not verifiable", row, cell, str(error))
        except Exception as error:
            # Of any encoder's or task's code.
            return Verdict("not verifiable", row, cell, error_text(error))

    def _compared(self, record: Record) -> str:
        """Return what agrees; raises _DifferenceError, or the ZooError because of which nothing can be said."""
        if record.get("items"):
            return self._items_compared(record)
        kept = self.store.pair_scores(record) if self.store.has_pairs(record) else None
        if kept is not None:
            _compare_score(record, *kept)
        task = self._task(record)
        if task.data is None:
            raise MissingError(task.reason or "its data is not here")
        if kept is not None:
            gold = scored_pairs(task, "test").gold.astype("float32")
            if len(gold) != len(kept[1]) or not np.array_equal(gold, kept[1]):
                raise _DifferenceError("its gold scores are not those of the data here")
            if isinstance(task.data, PairsData):
                parts, slack = _parts(task.data, kept[0])
                _compare_parts(scores_of(record), parts, slack, orders=are_places(kept[0]))
        if not self.encode:
            if kept is None:
                raise MissingError("no scores of its items are kept")
            return "the score follows from the pair scores, and the gold scores are those of the data"
        if kept is None or not isinstance(task.data, PairsData):
            return self._measured_again(record, task, has_pairs=kept is not None)
        return self._encoded_again(record, task, *kept)

    def _items_compared(self, record: Record) -> str:
        """Return what agrees of an accuracy, whose items are right or wrong."""
        items, stated = record.get("items"), main_score(record)
        assert items is not None
        if (again := accuracy_of(items)) != stated:
            raise _DifferenceError(f"the score is {100 * stated:.4f}, and {100 * again:.4f} from its items")
        if not self.encode:
            return "the score follows from its items; which of them are right is not checked without encoding"
        task = self._task(record)
        if task.data is None:
            raise MissingError(task.reason or "its data is not here")
        return self._measured_again(record, task, has_pairs=False)

    def _task(self, record: Record) -> LoadedTask:
        key = (record["task"]["name"], record["limit"])
        if key not in self._tasks:
            (self._tasks[key],) = load_tasks([key[0]], self.data, key[1])
        return self._tasks[key]

    def _vectors_of(self, record: Record, task: LoadedTask) -> VectorStore:
        """Return the vectors of a record's encoder, which is kept while the cells of its row follow each other."""
        if record["row_key"] != self._row:
            self._row, self._vectors = record["row_key"], {}
        key = record["encoder_key"]
        if key not in self._vectors:
            try:
                encoder = unadapted_encoder_of(record, self.store, self.device)
                self._vectors[key] = VectorStore(encoder, record["method"]["name"])
            except MissingError as error:
                self._vectors[key] = str(error)
        vectors = self._vectors[key]
        if isinstance(vectors, str):
            raise MissingError(vectors)
        if not record["method"]["traits"]["transductive"]:
            return vectors
        assert task.data is not None
        return VectorStore(vectors.encoder.adapt(task.data.unlabelled()), record["method"]["name"])

    def _encoded_again(self, record: Record, task: LoadedTask, predicted: Numbers, gold: Numbers) -> str:
        """Compare the cosines of drawn pairs, and of all where that takes seconds."""
        pairs, vectors = scored_pairs(task, "test"), self._vectors_of(record, task)
        rows = np.arange(len(gold))
        # A sender who knows which pairs are compared could keep these true.
        drawn = np.sort(secrets.SystemRandom().sample(range(len(gold)), min(DRAWN, len(gold))))
        started = time.perf_counter()
        for chosen in (drawn, rows):
            first, second = ([side[row] for row in chosen] for side in (pairs.first, pairs.second))
            again = cosine(vectors(first), vectors(second))
            _compare_cosines(record, again, predicted[chosen], gold[chosen])
            if len(chosen) == len(gold):
                return "score, gold scores, and the cosines of all pairs, encoded again"
            if (time.perf_counter() - started) * len(gold) / len(drawn) > SECONDS:
                break
        return f"score, gold scores, and the cosines of {len(drawn)} pairs drawn here, encoded again"

    def _measured_again(self, record: Record, task: LoadedTask, *, has_pairs: bool) -> str:
        """Measure a cell again whose kept values are no cosines, or that keeps none."""
        data = task.data
        assert data is not None
        items = record.get("items")
        without = "" if has_pairs or items else "no scores of its items are kept, and "
        if data.trains_encoder or (data.rows or 0) > MOST_ROWS:
            raise MissingError(f"{without}measuring it again takes a run")
        try:
            vectors = self._vectors_of(record, task)
        except MissingError as error:
            raise MissingError(f"{without}{error}") from error
        data.device = vectors.encoder.runtime.device
        scores, stated = data.score(vectors), 100 * main_score(record)
        main, measured = scores["main"], scores.get("items")
        # Vectors of another machine differ in their last bits, which may turn two items over.
        limit = max(SCORE.get(record["precision"], SCORE_HALF), 200 / max(data.rows or 1, 1) * (not has_pairs))
        if main is None or not abs(100 * main - stated) <= limit:
            again = "none" if main is None else f"{100 * main:.2f}"
            raise _DifferenceError(f"the score is {stated:.2f}, and {again} when measured again")
        if items is None:
            return f"the score, measured again (within {limit:.2g})"
        if measured is None or measured["gold_sha256"] != items["gold_sha256"] or measured["parts"] != items["parts"]:
            raise _DifferenceError("its items are not those of the data here")
        others = int((np.abs(values_of(measured) - values_of(items)) > TURN).sum())
        if others > max(2, TURNED.get(record["precision"], TURNED_HALF) * (data.rows or 1)):
            raise _DifferenceError(f"{others:,} items are right here and wrong there, or the other way round")
        if (f1 := scores.get("f1")) is not None and scores_of(record).get("f1") != f1 and not others:
            raise _DifferenceError(f"F1 is {scores_of(record).get('f1')}, and {f1} when measured again")
        return f"the score follows from its items, which were measured again (within {limit:.2g} and few items)"


def bounds(predicted: Numbers, gold: Numbers) -> tuple[float, float]:
    """Return the least and greatest Spearman x100 that predictions can have had which are equal (n,) as float32.

    Examples:
        >>> [round(bound, 1) for bound in bounds(np.array([1, 2, 2]), np.array([1, 2, 3]))]
        [43.3, 115.5]
    """
    places = ranks(gold) - (len(gold) + 1) / 2
    orders = [np.lexsort((sign * gold, predicted)) for sign in (-1, 1)]
    numbers = np.arange(len(gold)) - (len(gold) - 1) / 2
    products = [float(numbers @ places[order]) for order in orders]
    lengths = [np.linalg.norm(ranks(predicted) - (len(gold) + 1) / 2), np.linalg.norm(numbers)]
    every = [100 * product / float(length * np.linalg.norm(places)) for product in products for length in lengths]
    return min(every), max(every)


def _compare_score(record: Record, predicted: Numbers, gold: Numbers) -> None:
    stated, again = 100 * main_score(record), spearman(predicted, gold)
    if again is None:
        raise _DifferenceError(f"the score is {stated:.4f}, and its pair scores have none")
    if abs(stated - again) > 1e-7:
        least, most = bounds(predicted, gold)
        if not max(least, again - ROUNDING) - 1e-7 <= stated <= min(most, again + ROUNDING) + 1e-7:
            raise _DifferenceError(f"the score is {stated:.4f}, and {again:.4f} from its pair scores")


def _parts(data: PairsData, predicted: Numbers) -> tuple[dict[str, Any], Callable[[], dict[str, float]]]:
    """Return the scores of all pairs and of each subset, computed from the predictions (n,) of all subsets.

    The function returns how far Spearman may be from them: values that are equal as float32 may have differed.
    """
    ends = np.cumsum([len(pairs) for pairs in data.subsets.values()])[:-1]
    gold = [pairs.gold for pairs in data.subsets.values()]
    split = [*zip(np.split(predicted.astype(np.float64), ends), gold, strict=True)]

    def slack() -> dict[str, float]:
        each = [_slack(*sides) for sides in split]
        together, weights = _slack(predicted, np.concatenate(gold)), [len(one) for one in gold]
        means = {"mean": float(np.mean(each)), "wmean": float(np.average(each, weights=weights))}
        return {"all": together, **means, **dict(zip(data.subsets, each, strict=True))}

    return aggregate(dict(zip(data.subsets, split, strict=True))), slack


def _slack(predicted: Numbers, gold: Numbers) -> float:
    """Return how far from Spearman's correlation, a fraction, it may have been (see `bounds`); 0 if there is none."""
    again = spearman(predicted, gold)
    return 0.0 if again is None else max(abs(bound - again) for bound in bounds(predicted, gold)) / 100


def are_places(predicted: Numbers) -> bool:
    """Return whether predictions are places in the order of cosines, as older packed folders keep them."""
    return float(np.abs(predicted).max()) > 1.001


def _compare_parts(
    stated: object,
    again: object,
    slack: Callable[[], Mapping[str, float]],
    names: tuple[str, ...] = (),
    *,
    orders: bool,
) -> None:
    """Compare every number of the scores that is computed here too: all, mean, wmean, and each subset."""
    if isinstance(again, Mapping):
        if isinstance(stated, Mapping):
            for name in again.keys() & stated.keys() - ({"pearson"} if orders else set()):
                _compare_parts(stated[name], again[name], slack, (*names, name), orders=orders)
        return
    numbers = [value for value in (stated, again) if isinstance(value, int | float)]
    off = abs(numbers[0] - numbers[1]) - ROUNDING / 100 if len(numbers) == 2 else 0.0
    if off > 0 and (names[-1] != "spearman" or off > slack().get(names[-2], 0.0)):
        raise _DifferenceError(f"{' '.join(names)} is {numbers[0]}, and {numbers[1]} from its pair scores")


def _compare_cosines(record: Record, again: Numbers, predicted: Numbers, gold: Numbers) -> None:
    precision = record["precision"]
    if not are_places(predicted):
        most = float(np.abs(again - predicted).max())
        if not most <= COSINE.get(precision, COSINE_HALF):
            raise _DifferenceError(f"cosines of {len(again)} pairs, encoded again, differ by up to {most:.4f}")
    elif (order := spearman(again, predicted)) is None or order < ORDER:
        raise _DifferenceError(f"the cosines of {len(again)} pairs, encoded again, have another order ({order})")
    before, after = spearman(predicted, gold), spearman(again, gold)
    if before is not None and (after is None or abs(after - before) > SCORE.get(precision, SCORE_HALF)):
        raise _DifferenceError(f"{len(again)} pairs, encoded again, have the score {after}, not {before}")


@contextmanager
def _without_hub(fetch: bool) -> Iterator[None]:
    """Keep the hub's clients from the network inside the block: a record's sender names what is looked for."""
    import huggingface_hub.constants as constants

    before = os.environ.get("HF_HUB_OFFLINE"), constants.HF_HUB_OFFLINE
    if not fetch:
        os.environ["HF_HUB_OFFLINE"], constants.HF_HUB_OFFLINE = "1", True
    try:
        yield
    finally:
        if not fetch:
            os.environ.pop("HF_HUB_OFFLINE")
            if before[0] is not None:
                os.environ["HF_HUB_OFFLINE"] = before[0]
            constants.HF_HUB_OFFLINE = before[1]
