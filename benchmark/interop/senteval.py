"""Runs a zoo encoder in SentEval by the functions `batcher` and `prepare` of its engine.

For people with SentEval installed; this project does not need it:

    bridge = SentEvalBridge(encoder)
    engine = senteval.engine.SE(senteval_parameters(folder), bridge.batcher, bridge.prepare)
    print(engine.eval(["MR", "CR"]))
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from zoo.encoder import Encoder, Vectors

Tokens = Sequence[str | bytes]


def senteval_parameters(folder: Path, *, fast: bool = False) -> dict[str, object]:
    """Return SentEval's full setting (10 folds, Adam) or its fast setting."""
    if fast:
        classifier = {"nhid": 0, "optim": "rmsprop", "batch_size": 128, "tenacity": 3, "epoch_size": 2}
    else:
        classifier = {"nhid": 0, "optim": "adam", "batch_size": 64, "tenacity": 5, "epoch_size": 4}
    return {"task_path": str(folder), "usepytorch": True, "kfold": 5 if fast else 10, "classifier": classifier}


def _text(tokens: Tokens) -> str:
    # Some of SentEval's loaders return bytes; an empty line of CR or MPQA is an empty text, as in our tasks.
    return " ".join(token.decode("utf-8") if isinstance(token, bytes) else token for token in tokens)


class SentEvalBridge:
    """Encodes all sentences of a task at once."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self._rows: dict[str, int] = {}
        self._vectors: Vectors = np.empty((0, encoder.dim), np.float32)
        self._adapted = encoder

    def prepare(self, params: object, samples: Sequence[Tokens]) -> None:
        """Encode sentences (lists of tokens); transductive methods are fitted on them first."""
        texts = list(dict.fromkeys(_text(tokens) for tokens in samples))
        self._adapted = self.encoder.adapt(texts)
        self._vectors = self._adapted.encode(texts)
        self._rows = {text: row for row, text in enumerate(texts)}

    def batcher(self, params: object, batch: Sequence[Tokens]) -> Vectors:
        """Return vectors (n, dim); unprepared sentences are encoded now."""
        texts = [_text(tokens) for tokens in batch]
        if all(text in self._rows for text in texts):
            return self._vectors[[self._rows[text] for text in texts]]
        return self._adapted.encode(texts)
