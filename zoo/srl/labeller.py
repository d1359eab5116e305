"""What a semantic-role labeller is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Frame:
    """One predicate with the arguments that PT-BERT's augmentation keeps; an absent one is ()."""

    tokens: tuple[str, ...]
    # The verb first, then its particle.
    predicate: Tokens
    arg0: Tokens = ()
    arg1: Tokens = ()
    neg: Tokens = ()

    def words(self, positions: Tokens) -> list[str]:
        return [self.tokens[i] for i in positions]


class Labeller(Protocol):
    """Sentences in, frames out."""

    def identity(self) -> str:
        """Name and version of everything that decides the frames: equal identities mean equal frames."""
        ...

    def label(self, sentences: Sequence[str] | Sequence[Sequence[str]]) -> list[list[Frame]]:
        """Frames of each sentence (a text, or its words), in the order of the predicates."""
        ...
