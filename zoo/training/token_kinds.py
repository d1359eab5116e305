"""Kinds and nearest neighbours of a vocabulary's tokens."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.engine.backbone import Backbone, sha256_weights
from zoo.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# OTHER is text that is never inserted ([UNK], [unused7]).
SPECIAL, WORD, PIECE, OTHER = range(4)
_OTHER = re.compile(r"\[unused\d+\]|<unused\d+>|madeupword\d+")
_NEIGHBOURS = 8


def token_kinds(tokenizer: PreTrainedTokenizerBase) -> NDArray[np.int8]:
    """SPECIAL, WORD (its start), PIECE or OTHER for each id; raises UsageError without word marks.

    The mark is the most frequent of WordPiece's ##, byte-level BPE's Ġ and SentencePiece's ▁.
    """
    vocabulary = tokenizer.get_vocab()
    marks = Counter(mark for mark in ("##", "Ġ", "▁") for token in vocabulary if token.startswith(mark))
    if not marks:
        raise UsageError("the vocabulary marks words neither with ## nor with Ġ or ▁; augmentations cannot find them.")
    ((mark, _),) = marks.most_common(1)
    kinds = np.full(max(vocabulary.values()) + 1, OTHER, np.int8)
    for token, index in vocabulary.items():
        if not _OTHER.fullmatch(token):
            kinds[index] = WORD if token.startswith(mark) != (mark == "##") else PIECE
    kinds[tokenizer.all_special_ids] = SPECIAL
    if tokenizer.unk_token is not None:
        kinds[tokenizer.unk_token_id] = OTHER
    return kinds


def nearest_tokens(vectors: torch.Tensor, k: int, kinds: NDArray[np.int8], chunk: int = 1024) -> NDArray[np.int32]:
    """The k nearest ids of each id by cosine of static vectors (len(kinds), dim), filled up with -1.

    Words have words, pieces pieces; special and other tokens have none and are none.
    """
    result = np.full((len(kinds), k), -1, np.int32)
    unit = torch.nn.functional.normalize(vectors[: len(kinds)].detach().float(), dim=1)
    for kind in (WORD, PIECE):
        ids = np.flatnonzero(kinds == kind)
        among = unit[torch.from_numpy(ids).to(unit.device)]
        for start in range(0, len(ids), chunk):
            cosines = among[start : start + chunk] @ among.T
            cosines.diagonal(start).fill_(-torch.inf)
            best = cosines.topk(min(k, len(ids) - 1)).indices.cpu().numpy()
            result[ids[start : start + chunk], : best.shape[1]] = ids[best]
    return result


# Those of the last backbone, from which many encoders start.
_last_neighbours: dict[str, NDArray[np.int32]] = {}


def neighbours_of(backbone: Backbone, kinds: NDArray[np.int8]) -> NDArray[np.int32]:
    key = sha256_weights(backbone.model.get_input_embeddings()) + hashlib.sha256(kinds.tobytes()).hexdigest()
    if key not in _last_neighbours:
        neighbours = nearest_tokens(backbone.token_vectors, _NEIGHBOURS, kinds)
        _last_neighbours.clear()
        _last_neighbours[key] = neighbours
    return _last_neighbours[key]
