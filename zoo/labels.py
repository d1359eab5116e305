"""Labelled pairs: the labels that say which objective a pair is for, and a split of texts by their sha256."""

from __future__ import annotations

import hashlib

NLI_LABELS = ("entailment", "neutral", "contradiction")
"""Of sentence pairs (natural language inference)."""

PHRASE_LABELS = ("ppdb:equivalence", "ppdb:entailment", "ppdb:independent")
"""Of phrase pairs (PPDB); with a prefix, as NLI has an entailment too."""


def hash_fraction(text: str) -> float:
    """Return where in [0, 1) the sha256 of a text lies: a split by it is the same everywhere and in any order."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48  # 48 bits: exact in a float, and never rounded up to 1
