"""Keys of published records: recomputed from what the records state, they are the keys under which they are kept."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from benchmark.keys import Ingredients, _without_own_name, _without_own_text, cell_key, encoder_key
from benchmark.records.folder import Records
from benchmark.records.record import Record, plain
from benchmark.tasks.loaded import TaskIdentity
from zoo.plugins import METHODS, method_identity
from zoo.recipes import SOURCES

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]
EQUAL = {"all-MiniLM-L6-v2": 1, "words": 15, "zoo-mini": 133, "zoo-small": 78, "zoo-small-course": 16}  # rows
DIGESTS = {  # of the names and keys of all cells of a folder, in order
    "all-MiniLM-L6-v2": "a71dbe6c65f7647d4c9869b521a19d96ec5e38969b4d47def80176c0a93b30a2",
    "words": "9baf4e0efa2dfba45a16def2079c2186b3d54ee0dbcde13c004736bf85bd75db",
    "zoo-mini": "e109b41734542814bf6f61b6e079970119f0f25892a5c509a67cc98651112463",
    "zoo-mini-float32": "6641655d6e30c06ffe1d04170e8f99ccff562fd70c27fc715f316d161e934de8",
    "zoo-small": "daddeee06cac04e1f3c7eada75e4096a3aec28a78b902e6290b875140e4ec7ce",
    "zoo-small-course": "964a7538b2197e1a7a3ef0392b89ac7e60b1c638b7336e82f18520bc91c78ea1",
    "zoo-small-curve": "a5a6c13c56977e2f46fbe1680ae5087c0883161dc5ffe53368be83416a852332",
    "zoo-small-tuned": "96cc5983dcc3c3fe4549df840bb3f61313c1d44b9a00b2829939cc1dd717e221",
}
CLASSES = {f"{cls.__module__}.{cls.__qualname__}": cls for cls in map(METHODS.get, METHODS.names())}


def row_key(record: Record, tasks: dict[str, Any]) -> str | None:
    """Return the key of a record's row as today's code makes it, or None where the record lacks what it is made of."""
    method, training = record["method"], dict[str, Any](record["training"] or {})
    cls, traits, sources = CLASSES.get(method["class"]), method["traits"], method["sources"]
    learns = traits.get("needs_corpus", False) or traits.get("needs_pairs", False)
    picks = traits.get("picks_checkpoint", False)
    if cls is None or (learns and not training.get("corpus")) or (picks and training.get("dev_task") not in tasks):
        return None
    # Key of the version that made it.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cls, "version", method.get("version", 1))
        code = method_identity(cls)
    named = {kind: _without_own_name(source) for kind, source in sources.items()}
    recipe, fields = dict(method["recipe"]), {field.name: field for field in dataclasses.fields(cls.Recipe)}
    places: dict[str, Any] = {"model": named["backbone"], **named} if "backbone" in named else named
    recipe |= {key: places[key]["name"] for key in SOURCES if key in recipe and key in places}
    at_default = {k for k, v in recipe.items() if fields[k].metadata.get("added") and v == plain(fields[k].default)}
    recipe = {k: v for k, v in recipe.items() if k not in at_default}
    return Ingredients(
        protocol=record["protocol"],
        code=code,
        recipe=recipe,
        sources=named,
        corpus=_without_own_text(training["corpus"]) if learns else None,
        dev=tasks[training["dev_task"]] if picks else None,
        precision=record["precision"],
        limit=record["limit"],
    ).key()


def test_keys_of_published_records() -> None:
    """A change that gives finished cells another key would measure them all again.

    The key is of the version of a method that measured. The other rows were measured with other development pairs, or
    have no training text (n/a).
    """
    kept = {name: Records(ROOT / "leaderboards" / name).all() for name in EQUAL}
    identity = TaskIdentity.__annotations__
    tasks = {
        r["task"]["name"]: {k: v for k, v in r["task"].items() if k in identity} for rs in kept.values() for r in rs
    }
    counts: dict[str, int] = {}
    for name, records in kept.items():
        for record in records:
            assert record["encoder_key"] == encoder_key(record["row_key"], record["seed"])
            task: Any = {k: v for k, v in record["task"].items() if k in identity}
            assert record["key"] == cell_key(record["encoder_key"], task)
        rows = {(r["row_key"], r["method"]["name"]): r for r in sorted(records, key=lambda r: r["status"] == "ok")}
        counts[name] = sum(row_key(record, tasks) == record["row_key"] for record in rows.values())
    assert counts == EQUAL


@pytest.mark.parametrize("folder", DIGESTS)
def test_every_published_cell_is_read_under_its_key(folder: str) -> None:
    """Each counts, and none is taken for an older version of another."""
    names = ("row_key", "encoder_key", "key", "status")
    cells = [
        [record["method"]["name"], record["task"]["name"], *(record[name] for name in names)]  # type: ignore[literal-required]
        for record in Records(ROOT / "leaderboards" / folder).all()
    ]
    assert hashlib.sha256(json.dumps(cells).encode()).hexdigest() == DIGESTS[folder]
