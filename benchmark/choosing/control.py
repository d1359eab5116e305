"""BM25, the control of retrieval: it counts the words that a query and a document share, and knows no meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

CONTROL = "bm25 (control)"

Scores = Callable[[Sequence[str]], NDArray[np.float32]]  # queries -> (queries, documents)


def bm25(documents: Sequence[str]) -> Scores:
    """Return the function that scores all documents for queries, by bm25s with its defaults (k1 1.5, b 0.75).

    A document without a word of the query is not retrieved: its score is -inf.
    Words are runs of two or more letters or digits, in lower case; no language is assumed, so none is left out.
    """
    import bm25s

    def words(texts: Sequence[str]) -> list[list[str]]:
        parts: list[list[str]] = bm25s.tokenize(list(texts), stopwords=None, return_ids=False, show_progress=False)
        return parts

    index = bm25s.BM25()
    index.index(words(documents), show_progress=False)

    def scores(queries: Sequence[str]) -> NDArray[np.float32]:
        rows = [index.get_scores(query) if query else np.zeros(len(documents)) for query in words(queries)]
        every = np.asarray(rows, np.float32)
        return np.where(every > 0, every, -np.inf)

    return scores
