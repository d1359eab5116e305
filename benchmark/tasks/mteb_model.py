"""A function of texts in their roles as a model of mteb. Imports mteb, and with it torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta, ScoringFunction
from mteb.types import PromptType

from zoo.encoder import Vectors
from zoo.roles import Role, Roles, RoleText, pair_similarities, similarities


class TextModel(AbsEncoder):
    """The model that mteb calls: it maps batches of texts to vectors (n, dim), float32, in the roles of the encoder."""

    mteb_model_meta: ModelMeta

    def __init__(self, encode: Callable[[list[str]], Vectors], roles: Roles, meta: ModelMeta | None = None) -> None:
        self.model = None
        self._encode = encode
        self.model_prompts: dict[str, str] = dict(roles.prompts)
        self.similarity_name = roles.similarity
        self.mteb_model_meta = meta or ModelMeta.create_empty({"similarity_fn_name": ScoringFunction(roles.similarity)})

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return the similarities (n, m) of vectors; mteb itself computes no distances."""
        if self.similarity_name in ("cosine", "dot"):
            return super().similarity(embeddings1, embeddings2)
        values = similarities(np.atleast_2d(embeddings1), np.atleast_2d(embeddings2), self.similarity_name)
        return torch.from_numpy(values)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return the similarity (n,) of each row."""
        if self.similarity_name in ("cosine", "dot"):
            return super().similarity_pairwise(embeddings1, embeddings2)
        first, second = np.atleast_2d(embeddings1), np.atleast_2d(embeddings2)
        return torch.from_numpy(pair_similarities(first, second, self.similarity_name))

    def encode(self, inputs: Any, *, task_metadata: Any = None, prompt_type: Any = None, **_: object) -> Vectors:
        """Return vectors (n, dim) of a loader's texts, behind the task's prompt by mteb's rules, or their role's."""
        roles: dict[Any, Role] = {PromptType.query: "query", PromptType.document: "document"}
        role = roles.get(prompt_type)
        name = self.get_prompt_name(task_metadata, prompt_type) if self.model_prompts and task_metadata else None
        prompt = None if name is None or name == role else self.model_prompts[name]
        texts: list[str] = [RoleText(text, role, prompt) for batch in inputs for text in batch["text"]]
        return np.asarray(self._encode(texts), dtype=np.float32)
