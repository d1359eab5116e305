"""A record is bound to what made it: any field of any record that is edited and signed again is refused."""

from __future__ import annotations

import copy
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from edits import at, edited, is_stated, leaves, word_of

from benchmark.checking.bound import (
    STATED,
)
from benchmark.checking.recorded import row_of_record
from benchmark.checking.verify import Check, verify
from benchmark.keys import cell_key, encoder_key, ingredients
from benchmark.records.folder import Records
from benchmark.records.record import Record
from benchmark.tasks.loaded import TaskIdentity
from zoo.recipes import build

pytestmark = pytest.mark.usefixtures("once")
# What a run need not state: what it started from, a study, a label, what an object leaves open.
OPTIONAL = {"start_key", "method.tuned", "method.typed", "method.unstated"}
# What a writer of long ago might have left out together, to be read less strictly.
TOGETHER = ("version", "recipe_name", "overrides", "traits", "recipe")


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
