"""What a folder holds beside its records is compared: seeds, encoders, fit.json, logs, packed columns."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from edits import at, copied, edited, is_stated, leaves, word_of
from fakes import make_record

import benchmark
from benchmark.checking.bound import (
    DifferenceError,
    _check_log,
    check_start,
    check_training,
    equal_seeds,
    other_columns,
)
from benchmark.checking.recorded import row_of_record
from benchmark.checking.verify import Check, verify
from benchmark.data.sources import DataSource
from benchmark.metrics.items import accuracy_of, items_part, right_of
from benchmark.records.folder import Records
from benchmark.records.pack import pack
from benchmark.records.packed import COLUMNS
from zoo.errors import MissingError
from zoo.files import read_signed, write_signed, write_sums

pytestmark = pytest.mark.usefixtures("once")


@pytest.mark.parametrize("name", ["simcse", "random"])
def test_a_seed_that_is_copied_under_another_number_is_refused(
    honest: Path, tmp_path: Path, check: Check, name: str
) -> None:
    store, records = copied(shutil.copytree(honest, tmp_path / "forged"), name, "pocket-pairs")
    first, second = sorted(records, key=lambda record: record["seed"] or 0)
    store.write({**second, "scores": first["scores"], "training": first["training"]}, store.pair_scores(first))
    if name == "simcse":
        old, new = (store.encoder_folder(r["method"]["name"], r["encoder_key"]) for r in (first, second))
        shutil.rmtree(new)
        shutil.copytree(old, new)
        fit = read_signed(new / "fit.json")
        write_signed(new / "fit.json", {**fit, "encoder_key": second["encoder_key"]})
    verified = verify(store.folder, weights=check.weights)
    assert any("have the same cosines" in verdict.why for verdict in verified.verdicts if verdict.word == "differs")


def test_a_seed_that_is_left_out_or_turned_into_a_failure_is_counted(
    honest: Path, tmp_path: Path, check: Check
) -> None:
    store, records = copied(shutil.copytree(honest, tmp_path / "forged"), "random", "pocket-pairs")
    assert verify(store.folder).exit_code() == 0
    worst: Any = min(records, key=lambda record: record["scores"]["main"])  # type: ignore[index]
    store.write({**worst, "status": "failed", "reason": "out of memory", "scores": None, "pairs": None})
    verified = verify(store.folder)
    assert (verified.exit_code(), verified.exit_code(allow_unverified=True)) == (1, 0)
    assert "2 cells: 1 verified, 0 differs, 0 not verifiable, 1 failed." in str(verified)
    store.path(worst["method"]["name"], worst["task"]["name"], worst["key"]).unlink()
    verified = verify(store.folder)
    assert verified.exit_code() == 1
    assert "2 cells: 1 verified, 0 differs, 0 not verifiable, 1 missing." in str(verified)
    assert "its row states 2 seeds" in str(verified)


def test_an_item_that_is_made_right_is_refused_where_vectors_are_equal(
    honest: Path, tmp_path: Path, check: Check
) -> None:
    store, records = copied(shutil.copytree(honest, tmp_path / "forged"), "bag-of-words")
    record: Any
    (record,) = (r for r in records if r.get("items"))
    assert verify(store.folder).exit_code() == 0
    right = right_of(record["items"])[0]
    right[np.flatnonzero(~right)[:1]] = True
    items = {**record["items"], "right": items_part(right, ())["right"]}
    store.write({**record, "items": items, "scores": {**record["scores"], "main": accuracy_of(items)}})
    verified = verify(store.folder)
    assert verified.exit_code() == 1


def test_weights_given_by_a_path_are_known_by_their_sha256(honest: Path, tmp_path: Path, tiny_bert: Path) -> None:
    benchmark.evaluate("cls", tasks="pocket-pairs", results=tmp_path, backbone=str(tiny_bert), limit=40, quiet=True)
    without = verify(tmp_path)
    assert "--weights FOLDER" in str(without) and "0 differs, 1 not verifiable" in str(without)
    assert verify(tmp_path, weights=[tiny_bert]).exit_code() == 0


def test_a_saved_encoder_is_found_and_an_object_is_said_to_be_none(honest: Path, tmp_path: Path, check: Check) -> None:
    saved = next((honest / "encoders").glob("simcse*/encoder"))

    def lengths(texts: list[str]) -> Any:
        return np.array([[len(text), text.count("e") + 1.0] for text in texts], np.float32)

    benchmark.evaluate(str(saved), tasks="pocket-pairs", results=tmp_path, limit=40, quiet=True)
    benchmark.evaluate(lengths, tasks="pocket-pairs", results=tmp_path, limit=40, quiet=True)
    verified = verify(tmp_path, weights=[saved])
    assert sorted(verdict.word for verdict in verified.verdicts) == ["not verifiable", "verified"]
    (why,) = (verdict.why for verdict in verified.verdicts if verdict.word == "not verifiable")
    assert "--plugin FILE" in why and "Compared: its keys, score from its pair scores" in why


@pytest.mark.slow
def test_any_field_of_a_training_that_is_edited_with_its_fit_is_refused(
    honest: Path, tmp_path: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Record and fit.json state the same, and both are signed again."""
    monkeypatch.undo()
    store, records = copied(shutil.copytree(honest, tmp_path / "forged"), "simcse", "pocket-pairs")
    record: Any = records[0]
    place = store.encoder_folder(record["method"]["name"], record["encoder_key"]) / "fit.json"
    fit, source = read_signed(place), DataSource.from_options(None, hub=False)
    passed = []
    for where in leaves(record["training"]):
        if is_stated(("training", *where), set()) or where[0] == "overlap":
            continue
        forged, forged_fit = copy.deepcopy(record), copy.deepcopy(fit)
        for training in (forged["training"], forged_fit["training"]):
            holder, last = at(training, where)
            holder[last] = edited(holder[last])
        write_signed(place, forged_fit)
        if word_of(forged, Check(store, source, weights=[tiny_bert])) == "verified":
            passed.append(".".join(where))
    write_signed(place, fit)
    assert word_of(record, Check(store, source, weights=[tiny_bert])) == "verified"
    assert passed == []


def test_any_number_of_a_log_that_is_edited_is_refused(honest: Path, tmp_path: Path, check: Check) -> None:
    store, records = copied(shutil.copytree(honest, tmp_path / "forged"), "simcse", "pocket-pairs")
    row = row_of_record(records[0], check._recipes)
    check_training(records[0], row, store)
    (log, *_) = store.encoder_folder(records[0]["method"]["name"], records[0]["encoder_key"]).rglob("log.jsonl")
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    for number, line in enumerate(lines):
        for name in line.keys() - {"learning_rate", "gradient_norm"}:
            changed = [*lines[:number], {**line, name: edited(line[name])}, *lines[number + 1 :]]
            log.write_text("".join(json.dumps(one) + "\n" for one in changed), "utf-8")
            with pytest.raises(DifferenceError):
                check_training(records[0], row, store)
    log.unlink()
    with pytest.raises(MissingError, match="its log is not in the folder"):
        check_training(records[0], row, store)


@pytest.mark.parametrize("scores", [(60.0, 60.0, 50.0), (50.0, 60.0, 60.0), (60.0, 50.0, 60.0)])
def test_of_equal_dev_scores_the_first_step_is_the_best(scores: tuple[float, ...], tmp_path: Path) -> None:
    """As a training keeps it; steps are compared as numbers: 9 is before 10."""
    steps = [9, 10, 11]
    lines = [{"step": step, "dev_score": score} for step, score in zip(steps, scores, strict=True)]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, [*lines, {"step": 11, "loss": 1.0}])), "utf-8")
    by_step = {str(step): score for step, score in zip(steps, scores, strict=True)}
    training: Any = {"steps": 11, "final_loss": 1.0, "dev_scores": by_step, "dev_curves": {}}
    best = steps[scores.index(60.0)]
    _check_log({**training, "best_step": best}, tmp_path)
    for other in {*steps} - {best}:
        with pytest.raises(DifferenceError, match="best_step"):
            _check_log({**training, "best_step": other}, tmp_path)


@pytest.mark.parametrize("what", ["paper_updates", "fitted", "encoder_key"])
def test_what_fit_json_states_is_that_of_its_recipe(what: str, honest: Path, tmp_path: Path, check: Check) -> None:
    store, records = copied(shutil.copytree(honest, tmp_path / "forged"), "simcse", "pocket-pairs")
    record: Any = copy.deepcopy(records[0])
    row = row_of_record(record, check._recipes)
    check_training(record, row, store)
    place = store.encoder_folder(record["method"]["name"], record["encoder_key"]) / "fit.json"
    fit = read_signed(place)
    if what == "encoder_key":
        fit[what] = records[1][what]
    else:
        fit["training"][what] = record["training"][what] = {"paper_updates": 10, "fitted": False}[what]
    write_signed(place, fit)
    with pytest.raises(DifferenceError):
        check_training(record, row, store)


@pytest.mark.parametrize(
    ("training", "spread", "copied", "seen"),
    [({}, 1.0, True, True), ({"steps": 0}, 1.0, True, False), ({"steps": 2}, 1.0, True, True)]
    + [({}, spread, copied, copied) for spread in (1e-3, 1e-5, 2e-6) for copied in (True, False)]
    + [({"cosine_to_start": near}, 1.0, True, near < 0.999999) for near in (0.9, 0.999, 0.9999999, 1.0)],
)
def test_seeds_that_honestly_agree_are_not_accused(
    training: dict[str, Any], spread: float, copied: bool, seen: bool, tmp_path: Path
) -> None:
    store, gold = Records(tmp_path), np.arange(50) / 50
    for seed in (0, 1):
        drawn = np.random.default_rng(0 if copied else seed).uniform(size=50)
        values = 1 - spread * drawn + min(0.03 * spread, 1e-6) * seed
        store.write(make_record("simcse", "MEN", seed, training=training), (values, gold))
    assert bool(equal_seeds(store.all(), store)) is seen


def test_a_start_is_the_row_of_the_untrained_vectors(
    honest: Path, tmp_path: Path, tiny_bert: Path, check: Check
) -> None:
    record = next(r for r in check.store.all() if r["method"]["name"].startswith("simcse"))
    options: dict[str, Any] = {"results": tmp_path, "backbone": str(tiny_bert), "limit": 40, "quiet": True}
    benchmark.evaluate("cls,avg-last", tasks="pocket-pairs", device="cpu", **options)
    keys = {r["method"]["name"]: r["row_key"] for r in Records(tmp_path).all()}
    row = row_of_record(record, check._recipes)
    check_start({**record, "start_key": keys["cls"]}, row)
    for other in (keys["avg-last"], "0" * 64):
        with pytest.raises(DifferenceError, match="its start_key is not that of the vectors that it starts from"):
            check_start({**record, "start_key": other}, row)


@pytest.mark.parametrize(("count", "places", "seen"), [(8, False, True), (8, True, False), (40, True, True)])
def test_equal_cosines_of_few_pairs_are_equal_seeds(count: int, places: bool, seen: bool, tmp_path: Path) -> None:
    """Places of few pairs are often the same, cosines never."""
    store, gold = Records(tmp_path), np.arange(count) / count
    values = (
        np.random.default_rng(0).permutation(count) + 1.0 if places else np.random.default_rng(0).uniform(size=count)
    )
    for seed in (0, 1):
        store.write(make_record("simcse", "MEN", seed), (values, gold))
    assert bool(equal_seeds(store.all(), store)) is seen


def test_any_column_of_packed_records_that_is_edited_is_refused(honest: Path, tmp_path: Path) -> None:
    store, _ = copied(shutil.copytree(honest, tmp_path / "forged"), "random", "pocket-pairs")
    pack(store.folder)
    path = store.folder / "records.parquet"
    table = pq.read_table(path)
    assert other_columns(Records(store.folder)) == {}
    for name in COLUMNS[1:]:
        values = table[name].to_pylist()
        column = pa.array([edited(values[0]), *values[1:]], table.schema.field(name).type)
        pq.write_table(
            table.set_column(table.schema.get_field_index(name), name, column), path, write_page_checksum=True
        )
        write_sums(store.folder, ["pairs.parquet", "records.parquet"])
        assert len(other_columns(Records(store.folder))) == 1, name


@pytest.mark.parametrize("noise", [1e-6, 1e-7])
def test_a_seed_with_noise_is_the_seed_that_was_copied(honest: Path, tmp_path: Path, noise: float) -> None:
    store, records = copied(shutil.copytree(honest, tmp_path / "forged"), "random", "pocket-pairs")
    assert equal_seeds(records, store) == {}
    predicted, gold = store.pair_scores(records[0])
    drawn = np.random.default_rng(0).normal(0, noise, len(predicted)).clip(-3 * noise, 3 * noise)
    store.write(records[1], (predicted + drawn.astype("float32"), gold))
    assert len(equal_seeds(store.all(), store)) == 1
