"""A dependency parse as plain tuples, and the interface of semantic-role labellers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Frame:
    """A predicate with the arguments of PT-BERT's augmentation; () if absent."""

    tokens: tuple[str, ...]
    # The verb first, then its particle.
    predicate: Tokens
    arg0: Tokens = ()
    arg1: Tokens = ()
    neg: Tokens = ()

    def words(self, positions: Tokens) -> list[str]:
        return [self.tokens[i] for i in positions]


class Labeller(Protocol):
    def identity(self) -> str:
        """Name and version of everything behind the frames: equal identities mean equal frames."""
        ...

    def label(self, sentences: Sequence[str] | Sequence[Sequence[str]]) -> list[list[Frame]]:
        """Frames of each sentence (a text, or its words), in the order of the predicates."""
        ...


@dataclass(frozen=True)
class Parse:
    """Words with lemma, Penn tag, relation (ClearNLP's labels, as spaCy's English models) and head (a root: itself)."""

    words: tuple[str, ...]
    lemmas: tuple[str, ...]
    tags: tuple[str, ...]
    relations: tuple[str, ...]
    heads: tuple[int, ...]

    @cached_property
    def _children(self) -> list[list[int]]:
        children: list[list[int]] = [[] for _ in self.words]
        for i, head in enumerate(self.heads):
            if head != i:
                children[head].append(i)
        return children

    def children(self, i: int, relations: Collection[str] | None = None) -> list[int]:
        return [c for c in self._children[i] if relations is None or self.relations[c] in relations]

    def child(self, i: int, relations: Collection[str]) -> int | None:
        children = self.children(i, relations)
        return children[0] if children else None

    def subtree(self, i: int, without: int | None = None) -> tuple[int, ...]:
        """Positions of word i and all below it, ascending, less the branch at `without`."""
        tokens, waiting = [], [i]
        while waiting:
            j = waiting.pop()
            tokens.append(j)
            waiting.extend(c for c in self._children[j] if c != without)
        return tuple(sorted(tokens))

    def is_verb(self, i: int) -> bool:
        return self.tags[i].startswith("VB")

    def is_infinitive(self, i: int) -> bool:
        return any(self.tags[c] == "TO" for c in self.children(i, ("aux",)))

    def is_finite(self, i: int) -> bool:
        finite = ("VBD", "VBZ", "VBP")
        auxiliaries = self.children(i, ("aux", "auxpass"))
        return self.tags[i] in finite or any(self.tags[c] in (*finite, "MD") for c in auxiliaries)
