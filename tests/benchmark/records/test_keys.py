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
EQUAL = {"all-MiniLM-L6-v2": 1, "words": 15, "zoo-mini": 240, "zoo-small": 79, "zoo-small-course": 16}  # rows
DIGESTS = {  # of the names and keys of all cells of a folder, in order
    "all-MiniLM-L6-v2": "772ef0852ff53fbd62a4f8acc16899f9c1ccc280a91e9557251b6687f8351318",
    "words": "87dac8131cf73b1b26a6c28a4b40aeafd5f9856136a6d6ce52f029b01802fe3e",
    "zoo-mini": "6c7f77ab53f0613aeabdee371ed4b026c6d3837d73ad43fc806acc6c39a9c50c",
    "zoo-mini-float32": "8c4cb3a32c6241ff444e3f93358e872bd85fdc32c2dab834f75deabc27921e87",
    "zoo-small": "471e06197facf16379e8923a1a998c3fda22b1dab63e38e15358ff25a68334f7",
    "zoo-small-course": "f557e932d5b7867b677e89d510b2f645675781e99b74aa1202ffbe6a7263efbd",
    "zoo-small-curve": "943226e7a2a9bc47b314733ffd1fe8378ad206f97c5d82b09f1361fdf22f6cc3",
    "zoo-small-tuned": "6b49133fdb6f235147b08864819960dea6f283a8b4248d1168fdf6e9a75e6a22",
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
    named = {kind: _without_own_name(source) for kind, source in sources.items()}
    recipe, fields = dict(method["recipe"]), {field.name: field for field in dataclasses.fields(cls.Recipe)}
    places: dict[str, Any] = {"model": named["backbone"], **named} if "backbone" in named else named
    recipe |= {key: places[key]["name"] for key in SOURCES if key in recipe and key in places}
    at_default = {k for k, v in recipe.items() if fields[k].metadata.get("added") and v == plain(fields[k].default)}
    recipe = {k: v for k, v in recipe.items() if k not in at_default}
    return Ingredients(
        protocol=record["protocol"],
        code=method_identity(cls, version=method["version"]),
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
