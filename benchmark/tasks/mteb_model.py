"""An encoder, or a function of texts, as a model of mteb. Imports mteb, and with it torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta, ScoringFunction
from mteb.types import PromptType

from zoo.encoder import Encoder, Vectors
from zoo.roles import Roles, pair_similarities, similarities


class TextModel(AbsEncoder):
    """The model that mteb calls: it maps batches of texts to vectors (n, dim), float32, in the roles of the encoder."""

    mteb_model_meta: ModelMeta

    def __init__(self, encoder: Encoder | Callable[[list[str]], Vectors], meta: ModelMeta | None = None) -> None:
        self.model = None
        self._encoder = encoder
        roles = encoder.roles if isinstance(encoder, Encoder) else Roles()
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
        """Return the vectors (n, dim) of all texts of a loader, in their order.

        A prompt is the one that mteb's rules choose among the encoder's; without one it is that of the role.
        """
        texts = [text for batch in inputs for text in batch["text"]]
        if not isinstance(self._encoder, Encoder):
            return np.asarray(self._encoder(texts), dtype=np.float32)
        name = self.get_prompt_name(task_metadata, prompt_type) if self.model_prompts and task_metadata else None
        options = {"prompt": self.model_prompts[name]} if name else {}
        methods = {PromptType.query: self._encoder.encode_query, PromptType.document: self._encoder.encode_document}
        return np.asarray(methods.get(prompt_type, self._encoder.encode)(texts, **options), dtype=np.float32)
