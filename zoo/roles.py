"""Prompts of an encoder's queries and documents, and the similarity of its vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

Role = Literal["query", "document"]

_PROMPTS: dict[Role, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}


@dataclass(frozen=True)
class Roles:
    """Prompts by name, the prompt of a text without a role, and the similarity, as sentence-transformers has them."""

    prompts: Mapping[str, str] = field(default_factory=dict)
    default: str = ""
    similarity: str = "cosine"
    stated_by: str = "its folder"
    # What the encoder does with its prompts that nobody would expect.
    note: str = ""

    def prompt(self, role: Role | None) -> str:
        if role is None:
            return self.default
        return next((self.prompts[name] for name in _PROMPTS[role] if name in self.prompts), self.default)

    def named(self, names: Sequence[str], role: Role | None) -> str | None:
        """First prompt of `names`; None if the role's own, or absent."""
        name = next((name for name in names if name in self.prompts), role)
        return None if name is None or name == role else self.prompts[name]

    def silent(self, *roles: Role | None) -> list[str]:
        spoken = {"", self.default, *map(self.prompt, roles)}
        return sorted(name for name, prompt in self.prompts.items() if prompt not in spoken)

    def replaced(self, every: str | None, query: str | None, document: str | None) -> Roles:
        stated = {"query": every if query is None else query, "document": every if document is None else document}
        given = {name: prompt for name, prompt in stated.items() if prompt is not None}
        if every is None and not given:
            return self
        default, kept = (self.default, self.prompts) if every is None else (every, {})
        return replace(self, prompts={**kept, **given}, default=default, stated_by="the recipe")

    def card(self) -> dict[str, Any]:
        if not self.default and not any(self.prompts.values()):
            return {"similarity_fn_name": self.similarity}
        prompts, name = dict(self.prompts), None
        if self.default:
            name = next((key for key, prompt in prompts.items() if prompt == self.default), "default")
            prompts[name] = self.default
        return {"prompts": prompts, "default_prompt_name": name, "similarity_fn_name": self.similarity}

    def facts(self) -> dict[str, str]:
        return {"roles": str(self)} if str(self) else {}

    def __str__(self) -> str:
        """Differences from plain texts and cosines, in words, or ""."""
        named = [role for role in _PROMPTS if self.prompt(role)] + ["every text"] * bool(self.default)
        ours = {name for names in _PROMPTS.values() for name in names}
        others = sorted(name for name, prompt in self.prompts.items() if name not in ours and prompt)
        named += [f"{name} by its name" for name in others if self.prompts[name] != self.default]
        parts = [f"prompts of {self.stated_by}: {', '.join(named)}"] if named else []
        return "; ".join(
            [*parts, *[f"similarity {self.similarity}"] * (self.similarity != "cosine"), *[self.note] * bool(self.note)]
        )


class RoleText(str):
    """A text in a role or behind the first prompt of `names`; it equals no other text, so its vector is kept apart."""

    __slots__ = ("names", "prompt", "role")
    role: Role | None
    prompt: str | None
    names: tuple[str, ...]

    def __new__(
        cls, text: str, role: Role | None = None, prompt: str | None = None, names: tuple[str, ...] = ()
    ) -> Self:
        role_text = super().__new__(cls, text)
        role_text.role, role_text.prompt, role_text.names = role, prompt, names
        return role_text

    def by(self, roles: Roles) -> RoleText:
        return RoleText(self, self.role, roles.named(self.names, self.role)) if self.names else self

    @property
    def kind(self) -> tuple[Role | None, str | None]:
        return self.role, self.prompt

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RoleText) and self.kind == other.kind and str(self) == str(other)

    def __hash__(self) -> int:
        return hash((self.kind, str(self)))


def kind_of(text: str) -> tuple[Role | None, str | None]:
    return text.kind if isinstance(text, RoleText) else (None, None)


def encode_alike(encoder: Any, texts: Sequence[str]) -> NDArray[np.float32]:
    role, prompt = kind_of(texts[0]) if texts else (None, None)
    by = {"query": encoder.encode_query, "document": encoder.encode_document, None: encoder.encode}[role]
    vectors: NDArray[np.float32] = by(list(map(str, texts)), **({} if prompt is None else {"prompt": prompt}))
    return vectors


def roles_of(model: Any) -> Roles:
    prompts = dict(getattr(model, "prompts", None) or {})
    default = prompts.get(getattr(model, "default_prompt_name", None) or "", "")
    return Roles(prompts, default, str(getattr(model, "similarity_fn_name", None) or "cosine"))


def similarities(first: NDArray[Any], second: NDArray[Any], kind: str = "cosine") -> NDArray[Any]:
    """Similarities (n, m) of vectors (n, dim) and (m, dim); a distance has a minus, a zero vector cosine 0."""
    if kind in ("cosine", "dot"):
        sides = [_unit(vectors) if kind == "cosine" else vectors for vectors in (first, second)]
        products: NDArray[Any] = sides[0] @ sides[1].T
        return products
    from scipy.spatial.distance import cdist

    distances: NDArray[Any] = -cdist(first, second, {"euclidean": "euclidean", "manhattan": "cityblock"}[kind])
    return distances


def pair_similarities(first: NDArray[Any], second: NDArray[Any], kind: str = "cosine") -> NDArray[np.float64]:
    """Similarity (n,) of each row of two arrays (n, dim), in float64."""
    first, second = first.astype(np.float64), second.astype(np.float64)
    if kind in ("cosine", "dot"):
        sides = [_unit(vectors) if kind == "cosine" else vectors for vectors in (first, second)]
        products: NDArray[np.float64] = (sides[0] * sides[1]).sum(axis=1)
        return products
    return np.asarray(-np.linalg.norm(first - second, ord={"euclidean": 2, "manhattan": 1}[kind], axis=1))


def _unit(vectors: NDArray[Any]) -> NDArray[Any]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), vectors.dtype)
