"""Which role each grammatical place of a verb has: the rule, and the verbs that differ."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from zoo.errors import CorruptError
from zoo.files import read_text

TABLE = Path(__file__).parent / "verbs.txt"
NO_ROLE = "none"
_ROLES = ("ARG0", "ARG1", NO_ROLE)
DEFAULTS = {
    "subject": "ARG0",
    "person_alone": "ARG0",
    "thing_alone": "ARG0",
    "passive_subject": "ARG1",
    "object": "ARG1",
    "object_clause": "ARG1",
    "clause": "ARG1",
    "agent": "ARG0",
}


class VerbTable:
    """Roles by verb and place; what is not listed has the place's default."""

    def __init__(self, exceptions: Mapping[tuple[str, str], str]) -> None:
        self.exceptions = exceptions

    def role(self, lemma: str, place: str) -> str | None:
        """Return "ARG0", "ARG1" or None."""
        # be.01 and be.02: what is, or is something, is ARG1; what it is, ARG2.
        if lemma == "be":
            return "ARG1" if place in ("subject", "person_alone", "thing_alone") else None
        role = self.exceptions.get((lemma, place)) or DEFAULTS.get(place)
        return None if role == NO_ROLE else role


def read_verbs(path: Path = TABLE) -> VerbTable:
    """Read lines "PLACE ROLE: verb verb ..."; raises MissingError or CorruptError."""
    exceptions = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        place, _, role = line.partition(":")[0].partition(" ")
        if role not in _ROLES or ":" not in line:
            raise CorruptError(f"{path}, line {number}: not 'PLACE ROLE: verbs'; install zoo-bench again.")
        exceptions.update({(verb, place): role for verb in line.partition(":")[2].split()})
    return VerbTable(exceptions)


@cache
def own_table() -> VerbTable:
    """The table that comes with the package, made by `python -m tools.derive_verbs` from the PropBank frames."""
    return read_verbs()
