"""A record is bound to what made it: any field of any record that is edited and signed again is refused."""

from __future__ import annotations

import copy
import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes import make_record

import benchmark
from benchmark.checking.bound import (
    STATED,
    DifferenceError,
    _check_log,
    check_start,
    check_training,
    equal_seeds,
    other_columns,
)
from benchmark.checking.encoders import row_of_record
from benchmark.checking.verify import Check, verify
from benchmark.data.sources import DataSource
from benchmark.keys import cell_key, encoder_key, ingredients
from benchmark.metrics.items import accuracy_of, items_part, right_of
from benchmark.records.folder import Records
from benchmark.records.pack import pack
from benchmark.records.packed import COLUMNS
from benchmark.records.record import Record, parse_record
from benchmark.run.measure import EncoderMeasurement
from benchmark.run.plan import Cell
from benchmark.tasks.loaded import TaskIdentity
from zoo.errors import CorruptError, MissingError
from zoo.files import read_signed, sha256_json, write_signed, write_sums
from zoo.recipes import build

TASKS = "pocket-pairs,pocket-topics"
# What a run need not state: what it started from, a study, a label, what an object leaves open.
OPTIONAL = {"start_key", "method.tuned", "method.typed", "method.unstated"}
# What a writer of long ago might have left out together, to be read less strictly.
TOGETHER = ("version", "recipe_name", "overrides", "traits", "recipe")


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """Return the results of an untrained, a random and a trained row on a backbone given by its path."""
    folder = tmp_path_factory.mktemp("honest")
    options: dict[str, Any] = {"backbone": str(tiny_bert), "train_sentences": 40, "limit": 40, "seeds": 2}
    benchmark.evaluate(
        "bag-of-words:dim=64,random:dim=64,simcse:batch_size=8:steps=2:learning_rate=1e-2",
        tasks=TASKS,
        results=folder,
        quiet=True,
        device="cpu",
        **options,
    )
    return folder


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell of one encoder is measured once: what is edited in its record does not change its vectors."""
    measure, known = EncoderMeasurement.measure_cell, dict[Any, Any]()

    def measure_cell(self: EncoderMeasurement, cell: Cell) -> Any:
        key = self.plan.key, cell.task.name, cell.task.data and cell.task.data.rows
        known[key] = known.get(key) or measure(self, cell)
        return copy.deepcopy(known[key])

    monkeypatch.setattr(EncoderMeasurement, "measure_cell", measure_cell)


@pytest.fixture(scope="module")
def check(honest: Path, tiny_bert: Path) -> Check:
    """Return the check of the honest folder, whose encoders are kept."""
    return Check(Records(honest), DataSource.from_options(None, hub=False), weights=[tiny_bert])


def leaves(value: Any, where: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the place of each value of a record, and of each mapping and list in it."""
    if where:
        yield where
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in items:
        yield from leaves(part, (*where, str(name)))


def edited(value: Any) -> Any:
    """Return a value of the same kind that is another one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1 if isinstance(value, int) else 1.03 * value + 0.02
    if isinstance(value, str):
        return ("1" if value[0] == "0" else "0") + value[1:] if value else "x"
    if isinstance(value, list):
        return value[1:] if value else ["x"]
    return "x" if value is None else dict(list(value.items())[1:]) if value else {"x": 1}


def at(record: Any, where: tuple[str, ...]) -> tuple[Any, Any]:
    """Return the mapping or list that contains a place, and its last step."""
    for step in where[:-1]:
        record = record[int(step) if isinstance(record, list) else step]
    return record, int(where[-1]) if isinstance(record, list) else where[-1]


def is_stated(where: tuple[str, ...], more: set[str]) -> bool:
    """Return whether a place is in a field that nothing here can say again."""
    return any(".".join(where[: name.count(".") + 1]) == name for name in {*STATED, *more})


def word_of(record: Any, check: Check) -> str:
    """Return the verdict on a record that is signed again; readers leave out what is no record."""
    try:
        return check.verdict(parse_record(json.dumps({**record, "sha256": sha256_json(record)}), "")).word
    except CorruptError:
        return "differs"


def test_the_fields_of_a_record_are_compared_or_are_stated_with_a_reason() -> None:
    assert {name.split(".")[0] for name in STATED} <= Record.__annotations__.keys()


def test_the_page_lists_the_fields_that_are_the_senders_word() -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/diff-and-verify.md").read_text("utf-8")
    assert [name for name in STATED if f"`{name}`" not in page] == []


CELLS = [("bag-of-words", "pocket-topics"), ("random", "pocket-pairs"), ("simcse", "pocket-pairs")]


@pytest.mark.parametrize(("name", "task"), [*CELLS, pytest.param("simcse", "pocket-topics", marks=pytest.mark.slow)])
def test_any_field_that_is_edited_is_refused(honest: Path, check: Check, name: str, task: str) -> None:
    """Each value is replaced by another one of its kind, and taken out; the record is signed again by its writer."""
    records = [r for r in check.store.all() if r["task"]["name"] == task and r["method"]["name"].startswith(name)]
    record: Any = records[0]
    check._tasks_of.clear()
    assert check.verdicts(records)[0].word == "verified"
    places = list(leaves(record))
    assert len(places) > 80
    passed = []
    for where in places:
        for how in ("edited", "taken out"):
            if is_stated(where, OPTIONAL if how == "taken out" else set()) or where == ("schema",):
                continue
            forged = copy.deepcopy(record)
            holder, last = at(forged, where)
            if how == "edited":
                holder[last] = edited(holder[last])
            elif holder[last] is None:
                continue
            else:
                del holder[last]
            if word_of(forged, check) == "verified":
                passed.append((how, ".".join(where)))
    assert passed == []


@pytest.mark.parametrize("name", ["bag-of-words", "random", "simcse"])
@pytest.mark.parametrize("digest", ["", "0" * 64])
def test_fields_that_are_taken_out_together_relax_no_check(honest: Path, check: Check, name: str, digest: str) -> None:
    """Of a method's version, recipe, settings and traits any two or more are left out, with all but one score."""
    before: Any = next(r for r in check.store.all() if r["method"]["name"].startswith(name) and r["status"] == "ok")
    assert word_of(before, check) == "verified"
    for count in range(2, len(TOGETHER) + 1):
        for fields in itertools.combinations(TOGETHER, count):
            forged = copy.deepcopy(before)
            forged["code"] = {"digest": digest} if digest else {}
            forged["scores"] = {k: forged["scores"][k] for k in ("main", "main_metric", "reason")}
            for field in fields:
                del forged["method"][field]
            assert word_of(forged, check) == "differs", fields


@pytest.mark.parametrize("version", [2, 7])
def test_a_record_of_another_version_is_not_verified(honest: Path, check: Check, version: int) -> None:
    before: Any = next(r for r in check.store.all() if r["method"]["name"].startswith("bag") and r["status"] == "ok")
    forged = copy.deepcopy(before)
    forged["method"]["version"] = version
    assert word_of(forged, check) == "differs"
    assert word_of({**forged, "method": {**forged["method"], "version": 0}}, check) == "differs"
    assert word_of(resigned(forged, check, before), check) == "not verifiable"


def resigned(record: Any, check: Check, before: Record) -> Any:
    """Return the record with keys that fit what it states, as a careful forger would write them."""
    row = row_of_record(before, check._recipes)
    dev = (record["training"] or {}).get("dev_task")
    made_of = ingredients(
        row.cls,
        build(row.cls.Recipe, record["method"]["recipe"], ""),
        row.traits,
        record["method"]["sources"],
        corpus=(record["training"] or {}).get("corpus"),
        dev=check._task_named(dev, None).identity() if dev else None,
        precision=record["precision"],
        limit=record["limit"],
        version=record["method"]["version"],
    )
    row = made_of.key()
    encoder = encoder_key(row, record["seed"])
    identity: Any = {k: v for k, v in record["task"].items() if k in TaskIdentity.__annotations__}
    return {**record, "row_key": row, "encoder_key": encoder, "key": cell_key(encoder, identity)}


def renamed(record: Any) -> None:
    record["method"]["name"] = record["method"]["recipe_name"] = "ptbert"
    record["method"]["overrides"] = {}


def recipe(record: Any) -> None:
    record["method"]["recipe"]["temperature"] = 0.1


def text(record: Any) -> None:
    record["training"]["corpus"]["sentences"] = 1_000_000


def updates(record: Any) -> None:
    record["training"]["steps"] = 15_625


def precision(record: Any) -> None:
    record["precision"] = "bf16"


def weights(record: Any) -> None:
    record["method"]["sources"]["backbone"]["sha256"] = "0" * 64


def label(record: Any) -> None:
    record["method"] |= {"typed": record["method"]["name"], "name": "ptbert", "recipe_name": "ptbert"}


def best(record: Any) -> None:
    record["training"]["best_step"] = 1


def far(record: Any) -> None:
    record["training"]["cosine_to_start"] = 0.5


def clean(record: Any) -> None:
    record["training"]["overlap"]["digests"] = ["0" * 10]


def known(record: Any) -> None:
    record["coverage"]["covered"] -= 1


def larger(record: Any) -> None:
    record["facts"]["parameters"] *= 2


def subset(record: Any) -> None:
    next(iter(record["scores"]["subsets"].values()))["pearson"] += 0.001


def reason(record: Any) -> None:
    record["reason"] = "it was lucky"


def trained(record: Any) -> None:
    record["training"] = None


FORGERIES = [
    renamed,
    recipe,
    text,
    updates,
    precision,
    weights,
    label,
    best,
    far,
    clean,
    known,
    larger,
    subset,
    reason,
    trained,
]


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forgery_with_keys_that_fit_is_refused(
    honest: Path, tmp_path: Path, check: Check, forgery: Callable[[Any], None]
) -> None:
    """Record and keys are written anew, and the encoder's folder has the name that they give."""
    folder = shutil.copytree(honest, tmp_path / "forged")
    store = Records(folder)
    records = [r for r in store.all() if r["method"]["name"].startswith("simcse") and r.get("pairs")]
    shutil.rmtree(folder / "records")
    for record in records:
        pairs = check.store.pair_scores(record)
        before, forged = store.encoder_folder(record["method"]["name"], record["encoder_key"]), copy.deepcopy(record)
        forgery(forged)
        forged: Any = resigned(forged, check, record)  # type: ignore[no-redef]
        after = store.encoder_folder(forged["method"]["name"], forged["encoder_key"])
        if before.is_dir() and before != after:
            before.rename(after)
        store.write(forged, pairs)
    verified = verify(folder, weights=check.weights)
    assert verified.exit_code() == 1
    assert "verified" not in {verdict.word for verdict in verified.verdicts}


def copied(folder: Path, name: str, task: str = "") -> tuple[Records, list[Record]]:
    """Return a folder's records of a method, of one task if it is named, after the others were taken out."""
    store = Records(folder)
    kept = []
    for record in store.all():
        if record["method"]["name"].startswith(name) and record["task"]["name"].startswith(task):
            kept.append(record)
        else:
            store.path(record["method"]["name"], record["task"]["name"], record["key"]).unlink()
    return store, kept


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
    """Also where the record states the same."""
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
    ("training", "spread", "seen"),
    [({}, 1.0, True), ({}, 1e-4, False), ({"steps": 0}, 1.0, False), ({"steps": 2}, 1.0, True)]
    + [({"steps": 2, "cosine_to_start": cosine}, 1.0, cosine < 0.999999) for cosine in (0.9, 0.999, 0.9999999, 1.0)],
)
def test_seeds_that_honestly_agree_are_not_accused(
    training: dict[str, Any], spread: float, seen: bool, tmp_path: Path
) -> None:
    """Collapsed, or not moved by a training."""
    store, gold = Records(tmp_path), np.arange(50) / 50
    for seed in (0, 1):
        values = 1 - spread * np.random.default_rng(0).uniform(size=50) + 1e-7 * seed
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
