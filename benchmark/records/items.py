"""The items of a record: scores of pairs or bits of answers, and their identity."""

from __future__ import annotations

from typing import NamedTuple

from benchmark.records.record import PairsPart, Record
from zoo.errors import MissingError
from zoo.files import sha256_json


def pairs_of(record: Record) -> PairsPart:
    """Return a record's pairs; raises MissingError if there are none."""
    pairs = record.get("pairs")
    if not pairs:
        raise MissingError(
            f"{record['method']['name']} on {record['task']['name']}: the record has no pair scores; delete it and"
            " run the method again, which keeps them (without training again where the encoder is still in the folder)."
        )
    return pairs


class ItemsIdentity(NamedTuple):
    """Digests of item scores, and of gold scores or answers; equal gold makes records comparable."""

    sha256: str
    gold_sha256: str


def items_identity(record: Record) -> ItemsIdentity:
    """Return the digests; raises MissingError if neither pair scores nor bits were kept."""
    if items := record.get("items"):
        return ItemsIdentity(sha256_json(items), items["gold_sha256"])
    pairs = pairs_of(record)
    return ItemsIdentity(pairs["sha256"], pairs["gold_sha256"])
