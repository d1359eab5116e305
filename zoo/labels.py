"""The labels of training pairs, which decide their objective; and a number in [0, 1) per text, for splits."""

from __future__ import annotations

import hashlib

NLI_LABELS = ("entailment", "neutral", "contradiction")
"""Labels of sentence pairs (natural language inference)."""

PHRASE_LABELS = ("ppdb:equivalence", "ppdb:entailment", "ppdb:independent")
"""Labels of phrase pairs (PPDB); the prefix is needed because NLI has "entailment" too."""


def hash_fraction(text: str) -> float:
    """Return a number in [0, 1) from the sha256 of a text; a split by it depends on no machine and no order."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48  # 48 bits: exact in a float, and never rounded up to 1
