"""The items of a record: scores of pairs or bits of answers, and what makes those of two records comparable."""

from __future__ import annotations

from typing import NamedTuple

from benchmark.records.record import PairsPart, Record
from zoo.errors import MissingError
from zoo.files import sha256_json


def pairs_of(record: Record) -> PairsPart:
    """Return a record's statement about its pair scores; raises MissingError where none were kept."""
    pairs = record.get("pairs")
    if not pairs:
        raise MissingError(
            f"{record['method']['name']} on {record['task']['name']}: the record has no pair scores; delete it and"
            " run the method again, which keeps them (without training again where the encoder is still in the folder)."
        )
    return pairs


class ItemsIdentity(NamedTuple):
    """Digests of a record's item scores, and of the gold scores or answers that make two records comparable."""

    sha256: str
    gold_sha256: str


def items_identity(record: Record) -> ItemsIdentity:
    """Return what identifies a record's pair scores, or its bits; raises MissingError where neither was kept."""
    if items := record.get("items"):
        return ItemsIdentity(sha256_json(items), items["gold_sha256"])
    pairs = pairs_of(record)
    return ItemsIdentity(pairs["sha256"], pairs["gold_sha256"])
