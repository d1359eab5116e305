"""Vectors with fewer dimensions, and as int8 or bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.errors import UsageError, ZooError

FORMATS = ("float32", "int8", "binary")
SEARCHES = {
    "float32": "",
    "int8": "int8: codes of sentence-transformers' quantize_embeddings, compared one by one ({})",
    "binary": "binary: bits, compared by their Hamming distance",
}
"""For which codes and which search a row of each format is true."""


def variants(
    vectors: NDArray[Any], dims: Sequence[int] = (), formats: Sequence[str] = ("float32",)
) -> Iterator[tuple[int, str, int, NDArray[np.float32]]]:
    """Yield (width, number format, bytes per text, vectors) for each width and number format of vectors (n, dim).

    Without `dims` the width is the vectors' own; wider ones are left out. int8 and binary are sentence-transformers'
    quantisation of vectors of length 1: the ranges of int8 are those of these vectors. A bit counts as -1 or 1, so that
    cosines have the order of Hamming distances. Raises UsageError for an unknown format or where no width fits,
    ZooError for vectors that are not finite.
    """
    from sentence_transformers.util.quantization import quantize_embeddings

    if unknown := set(formats) - {*FORMATS}:
        raise UsageError(f"--bytes {min(unknown)} is none of {', '.join(FORMATS)}.")
    if not np.isfinite(vectors).all():
        raise ZooError("some of its vectors are not finite.")
    dimensions = vectors.shape[1]
    if not (widths := [width for width in dims or [dimensions] if 0 < width <= dimensions]):
        raise UsageError(f"its vectors have {dimensions} dimensions, and --dims names none up to that.")
    for width in widths:
        cut = np.ascontiguousarray(vectors[:, :width], np.float32)
        unit = cut / np.maximum(np.linalg.norm(cut, axis=1, keepdims=True), 1e-12)
        for form in formats:
            if form == "float32":
                yield width, form, 4 * width, cut
            elif form == "int8":
                # As it takes by itself, with a warning.
                ranges = np.stack([unit.min(axis=0), unit.max(axis=0)])
                yield width, form, width, np.asarray(quantize_embeddings(unit, "int8", ranges=ranges), np.float32)
            else:
                packed = np.asarray(quantize_embeddings(unit, precision="ubinary"))
                signs = 2 * np.unpackbits(packed, axis=1, count=width).astype(np.float32) - 1
                yield width, form, packed.shape[1], signs
