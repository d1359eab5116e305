"""A function of texts as a model of mteb. Imports mteb, and with it torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta, ScoringFunction

from zoo.encoder import Vectors


class TextModel(AbsEncoder):
    """The model that mteb calls: it maps batches of texts to vectors (n, dim), float32; similarity is the cosine."""

    mteb_model_meta: ModelMeta

    def __init__(self, encode: Callable[[list[str]], Vectors], meta: ModelMeta | None = None) -> None:
        self.model = None
        self._encode = encode
        self.mteb_model_meta = meta or ModelMeta.create_empty({"similarity_fn_name": ScoringFunction.COSINE})

    def encode(self, inputs: Any, **_: object) -> Vectors:
        """Return the vectors (n, dim) of all texts of a loader, in their order; mteb's prompts are not used."""
        texts = [text for batch in inputs for text in batch["text"]]
        return np.asarray(self._encode(texts), dtype=np.float32)
