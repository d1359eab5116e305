"""Says in words how two measured cells, or rows, differ: what of their keys, and what beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

from benchmark.identity import Ingredients
from benchmark.records.schema import Record
from zoo.errors import UsageError, did_you_mean

_SHORTEST = 4  # characters of a key
_WHY = {one.name: str(one.metadata["why"]) for one in fields(Ingredients)} | {
    "task": "the data, by its content, and the task's version",
    "seed": "the seed of a training",
}


def record_with(records: Sequence[Record], key: str) -> tuple[Record, bool]:
    """Return the record whose key begins with `key`, and whether that is the key of a cell, not of a row or an encoder.

    Raises UsageError where none begins so, or several do.
    """
    if len(key) < _SHORTEST:
        raise UsageError(f"{key!r}: give at least {_SHORTEST} characters of a key.")
    for level in ("key", "encoder_key", "row_key"):
        found = {str(record[level]): record for record in records if str(record[level]).startswith(key)}
        if len(found) > 1:
            raise UsageError(
                f"{len(found)} keys begin with {key}: {', '.join(one[:12] for one in sorted(found)[:4])} ..."
            )
        if found:
            return next(iter(found.values())), level == "key"
    near = did_you_mean(key, sorted({record["key"][: len(key)] for record in records}))
    raise UsageError(f"no key begins with {key!r}.{near} The field `key` of a record has it.")


def differences(first: Record, second: Record, cells: bool) -> dict[str, list[str]]:
    """Return sentences on two records: `in_keys`, with the reason why it is in keys, and `beside`, what is in no key.

    Without `cells`, task, seed and scores are left out: rows or encoders are compared.
    """
    of_keys = [
        f"{name}: {_said(a)} and {_said(b)} ({_WHY[name.partition('.')[0]]})"
        for name, a, b in _unequal(_in_keys(first, cells), _in_keys(second, cells))
    ]
    same = first["key"] == second["key"] if cells else first["row_key"] == second["row_key"]
    if not same and not of_keys:
        of_keys.append(
            "nothing that records state: the method's version was raised, or a plugin or an object has other vectors"
        )
    return {
        "in_keys": of_keys,
        "beside": [
            f"{name}: {_said(a)} and {_said(b)}"
            for name, a, b in _unequal(_beside(first, cells), _beside(second, cells))
        ],
    }


def _in_keys(record: Record, cells: bool) -> dict[str, object]:
    method = record["method"]
    training: Mapping[str, object] = record["training"] or {}
    held = {
        "protocol": record["protocol"],
        "code": method["class"].rpartition(".")[2],
        "recipe": method["recipe"],
        "sources": method["sources"],
        "corpus": training.get("corpus"),
        "dev": training.get("dev_task"),
        "precision": record["precision"],
        "limit": record["limit"],
    }
    task = {name: value for name, value in record["task"].items() if name not in ("source", "rows")}
    return held | ({"task": task, "seed": record["seed"]} if cells else {})


def _beside(record: Record, cells: bool) -> dict[str, object]:
    code: Mapping[str, object] = record.get("code", {})
    scores: Mapping[str, object] = record["scores"] or {}
    packages = record["environment"]["packages"]
    held = {
        "name": record["method"]["name"],
        "code of the method": code.get("digest"),
        "code of the scorer": code.get("scorer"),
        "commit": code.get("commit"),
        **{name: packages.get(name) for name in ("torch", "transformers")},
    }
    return held | ({"status": record["status"], "score": scores.get("main")} if cells else {})


def _unequal(first: Mapping[str, object], second: Mapping[str, object]) -> Iterator[tuple[str, object, object]]:
    """Yield (name, value, value) of what differs, with the names of what is inside."""
    for name in dict.fromkeys((*first, *second)):
        a, b = first.get(name), second.get(name)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            yield from ((f"{name}.{inner}", x, y) for inner, x, y in _unequal(a, b))
        elif a != b:
            yield name, a, b


def _said(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text[:12] if len(text) == 64 else text[:100]
