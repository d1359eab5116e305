"""Forgeries that somebody may send, each signed again by public code: caught, or the sender's word by its list.

1. A cosine of each pair is moved towards the gold score, and the score follows.
2. The gold scores are moved towards the cosines.
3. The numbers of two seeds are exchanged.
4. A task on which a row is bad is "n/a".
5. A bad cell "failed" on the sender's machine.
6. A record states one pair more than the task has.
7. The weights in the folder are another encoder's, and fit.json lists their sha256.
8. The trained encoder is left out, and its record is the sender's.
9. The version of the method is another one, so that its vectors cannot be made here.
10. Wrong items of an accuracy are right, and the score follows.
11. A record is of another protocol, by its number.
12. Times, machine and command are another run's.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

import benchmark
from benchmark.checking.bound import STATED
from benchmark.checking.verify import verify
from benchmark.metrics.items import accuracy_of, items_part, right_of
from benchmark.records.folder import Records
from benchmark.records.record import Record
from zoo.api import hashes_of
from zoo.files import read_signed, write_signed


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    folder = tmp_path_factory.mktemp("honest")
    methods = "bag-of-words:dim=64,random:dim=64,simcse:batch_size=8:steps=2:learning_rate=1e-2"
    options: dict[str, Any] = {"backbone": str(tiny_bert), "train_sentences": 40, "limit": 40, "seeds": 2}
    tasks = "pocket-pairs,pocket-topics"
    benchmark.evaluate(methods, tasks=tasks, results=folder, quiet=True, device="cpu", **options)
    return folder


def chosen(store: Records, name: str, task: str) -> list[Any]:
    """Return the records of a row and a task by seed; those of the other rows are taken out."""
    kept = []
    for record in store.all():
        if record["method"]["name"].startswith(name) and record["task"]["name"] == task:
            kept.append(copy.deepcopy(record))
        else:
            store.path(record["method"]["name"], record["task"]["name"], record["key"]).unlink()
    return sorted(kept, key=lambda record: record["seed"] or 0)


def scored(record: Any, predicted: Any, gold: Any) -> Record:
    """Return the record with the score of these cosines."""
    scores = {**record["scores"], "main": float(spearmanr(predicted, gold).statistic)}
    return {**record, "scores": scores}  # type: ignore[return-value]


def nearer(store: Records) -> None:
    record = chosen(store, "random", "pocket-pairs")[0]
    predicted, gold = store.pair_scores(record)
    moved = (0.7 * predicted + 0.3 * gold / gold.max()).astype(np.float32)
    store.write(scored(record, moved, gold), (moved, gold))


def easier(store: Records) -> None:
    record = chosen(store, "random", "pocket-pairs")[0]
    predicted, gold = store.pair_scores(record)
    moved = 0.7 * gold + 0.3 * predicted * gold.max()
    store.write(scored(record, predicted, moved), (predicted, moved))


def exchanged(store: Records) -> None:
    first, second = chosen(store, "random", "pocket-pairs")
    pairs = [store.pair_scores(record) for record in (first, second)]
    store.write({**first, "scores": second["scores"]}, pairs[1])
    store.write({**second, "scores": first["scores"]}, pairs[0])


def not_applicable(store: Records) -> None:
    (record,) = chosen(store, "bag-of-words", "pocket-pairs")
    store.write(
        {**record, "scores": None, "pairs": None, "facts": {}, "status": "n/a", "reason": "its texts are too long"}
    )


def failed(store: Records) -> None:
    (record,) = chosen(store, "bag-of-words", "pocket-pairs")
    store.write({**record, "status": "failed", "reason": "out of memory", "scores": None, "pairs": None})


def more_pairs(store: Records) -> None:
    (record,) = chosen(store, "bag-of-words", "pocket-pairs")
    pairs = store.pair_scores(record)
    store.write({**record, "task": {**record["task"], "rows": record["task"]["rows"] + 1}}, pairs)


def other_weights(store: Records) -> None:
    records = chosen(store, "simcse", "pocket-pairs")
    first, second = (store.encoder_folder(record["method"]["name"], record["encoder_key"]) for record in records)
    shutil.rmtree(first / "encoder")
    shutil.copytree(second / "encoder", first / "encoder")
    fit = read_signed(first / "fit.json")
    write_signed(first / "fit.json", {**fit, "files": hashes_of(first / "encoder")})


def without_encoder(store: Records) -> None:
    for record in chosen(store, "simcse", "pocket-pairs"):
        shutil.rmtree(store.encoder_folder(record["method"]["name"], record["encoder_key"]))


def other_version(store: Records) -> None:
    (record,) = chosen(store, "bag-of-words", "pocket-pairs")
    pairs = store.pair_scores(record)
    method = {**record["method"], "version": record["method"]["version"] + 1}
    store.write({**record, "method": method}, pairs)


def another_right(store: Records) -> None:
    (record,) = chosen(store, "bag-of-words", "pocket-topics")
    right = right_of(record["items"])[0]
    right[np.flatnonzero(~right)[:8]] = True
    items = {**record["items"], "right": items_part(right, ())["right"]}
    store.write({**record, "items": items, "scores": {**record["scores"], "main": accuracy_of(items)}})


def other_protocol(store: Records) -> None:
    (record,) = chosen(store, "bag-of-words", "pocket-pairs")
    pairs = store.pair_scores(record)
    store.write({**record, "protocol": record["protocol"] + 1}, pairs)


CAUGHT = {
    nearer: ("differs", "have other bits"),
    easier: ("differs", "its gold scores are not those of the data here"),
    exchanged: ("differs", "have other bits"),
    not_applicable: ("differs", "the score is its texts are too long"),
    failed: ("failed", "out of memory"),
    more_pairs: ("differs", "rows is "),
    other_weights: ("differs", ""),
    without_encoder: ("not verifiable", "its trained encoder is not in the folder"),
    other_version: ("differs", "its row_key is not that of its method"),
    another_right: ("differs", "8 items are right here and wrong there"),
    other_protocol: ("differs", "its row_key is not that of its method"),
}


@pytest.mark.parametrize("forgery", CAUGHT, ids=lambda forgery: forgery.__name__)
def test_a_forgery_is_not_verified(
    honest: Path, tmp_path: Path, tiny_bert: Path, forgery: Callable[[Records], None]
) -> None:
    store = Records(shutil.copytree(honest, tmp_path / "forged"))
    forgery(store)
    verified = verify(store.folder, weights=[tiny_bert])
    assert verified.exit_code() == 1, str(verified)
    word, why = CAUGHT[forgery]
    assert [verdict.word for verdict in verified.verdicts if why in verdict.why and verdict.word == word], verified


def test_the_twelfth_is_the_senders_word(honest: Path, tmp_path: Path, tiny_bert: Path) -> None:
    store = Records(shutil.copytree(honest, tmp_path / "forged"))
    (record,) = chosen(store, "bag-of-words", "pocket-pairs")
    pairs = store.pair_scores(record)
    assert verify(store.folder, weights=[tiny_bert]).exit_code() == 0
    stated = {
        "seconds": 0.001,
        "command": ["zoo-bench", "run"],
        "environment": {**record["environment"], "device": "gpu"},
    }
    assert stated.keys() <= STATED.keys()
    store.write({**record, **stated}, pairs)
    assert verify(store.folder, weights=[tiny_bert]).exit_code() == 0
