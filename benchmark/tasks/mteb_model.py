"""A function of texts in their roles as a model of mteb. Imports mteb, and with it torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from mteb.models.abs_encoder import AbsEncoder, get_prompt_name
from mteb.models.model_meta import ModelMeta, ScoringFunction
from mteb.types import PromptType

from zoo.encoder import Vectors
from zoo.roles import Role, Roles, RoleText, pair_similarities, similarities

_ROLES: dict[PromptType | None, Role] = {PromptType.query: "query", PromptType.document: "document"}


class _Asked(dict[str, str]):
    """Empty prompts, to record the requested names."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __contains__(self, name: object) -> bool:
        self.names.append(str(name))
        return False


def prompt_names(task_metadata: Any, prompt_type: PromptType | None) -> tuple[str, ...]:
    asked = _Asked()
    get_prompt_name(asked, task_metadata, prompt_type)
    return tuple(asked.names)


def role_of(prompt_type: PromptType | None) -> Role | None:
    return _ROLES.get(prompt_type)


class TextModel(AbsEncoder):
    """A model for mteb: batches of texts to vectors (n, dim), float32, in the encoder's roles."""

    mteb_model_meta: ModelMeta

    def __init__(self, encode: Callable[[list[str]], Vectors], roles: Roles, meta: ModelMeta | None = None) -> None:
        self.model = None
        self._encode = encode
        self._roles, self.model_prompts = roles, dict(roles.prompts)
        self.similarity_name = roles.similarity
        self.mteb_model_meta = meta or ModelMeta.create_empty({"similarity_fn_name": ScoringFunction(roles.similarity)})

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return similarities (n, m); mteb itself computes no distances."""
        if self.similarity_name in ("cosine", "dot"):
            return super().similarity(embeddings1, embeddings2)
        values = similarities(np.atleast_2d(embeddings1), np.atleast_2d(embeddings2), self.similarity_name)
        return torch.from_numpy(values)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return similarities (n,) of rows."""
        if self.similarity_name in ("cosine", "dot"):
            return super().similarity_pairwise(embeddings1, embeddings2)
        first, second = np.atleast_2d(embeddings1), np.atleast_2d(embeddings2)
        return torch.from_numpy(pair_similarities(first, second, self.similarity_name))

    def encode(self, inputs: Any, *, task_metadata: Any = None, prompt_type: Any = None, **_: object) -> Vectors:
        """Return vectors (n, dim), behind the task's prompt by mteb's rules, or their role's."""
        role = role_of(prompt_type)
        names = () if task_metadata is None else prompt_names(task_metadata, prompt_type)
        prompt = self._roles.named(names, role)
        texts: list[str] = [RoleText(text, role, prompt) for batch in inputs for text in batch["text"]]
        return np.asarray(self._encode(texts), dtype=np.float32)
