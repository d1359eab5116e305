"""Divides a user's labelled texts once, so that no text is in two parts; and makes training pairs of a part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmark.choosing.data import FEWEST, UNITS, Texts
from zoo.encoder import Corpus
from zoo.errors import UsageError

# Where a larger share of the rows hangs together by texts, some are left out.
_MOST = 0.6


def divided(data: Texts, parts: Mapping[str, int], seed: int = 0) -> list[Texts]:
    """Return parts of rows that share no text, by names and shares; documents of a search are in all of them.

    Where most rows hang together, those whose texts are of two parts are left out. Raises UsageError where a part is
    too small or has equal scores.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size, generator = len(data.texts), np.random.default_rng(seed)
    joined = data.gold > 0 if data.kind == "retrieval" else np.ones(len(data.gold), np.bool_)
    sides = data.first[joined], data.second[joined]
    group = connected_components(coo_array((np.ones(len(sides[0])), sides), (size, size)), directed=False)[1]
    rows = np.bincount(group[data.first], minlength=size)
    if rows.max() > _MOST * rows.sum():
        group, rows = np.arange(size), np.bincount(data.first, minlength=size)
    order = generator.permutation(size)
    order, part, filled = order[np.argsort(-rows[order], kind="stable")], np.zeros(size, np.intp), np.zeros(len(parts))
    shares = np.array([*parts.values()])
    for place in order[np.isin(order, group)]:
        part[place] = (filled / shares).argmin()
        filled[part[place]] += max(float(rows[place]), 1e-6)
    of_text = part[group]
    first = of_text[data.first]
    same = np.ones(len(first), np.bool_) if data.kind == "retrieval" else first == of_text[data.second]
    return [_checked(_subset(data, np.flatnonzero(same & (first == i)), name), name, data) for i, name in
            enumerate(parts)]  # fmt: skip


def arranged(data: Texts) -> Texts:
    """Return the same rows in an order that their contents decide, so that the table's own order decides nothing.

    What an encoder gets in a batch, and what is drawn, depend on an order.
    """
    texts, n = data.texts, data.queries
    order = np.array([*sorted(range(n), key=texts.__getitem__), *sorted(range(n, len(texts)), key=texts.__getitem__)])
    place = np.argsort(order)
    first, second = place[data.first], place[data.second]
    rows = np.lexsort((data.gold, second, first))
    gold = data.gold[rows]
    if data.kind == "label":
        _, begins, which = np.unique(gold, return_index=True, return_inverse=True)
        gold = np.argsort(np.argsort(begins))[which].astype(np.float64)
    same = None if data.same is None else np.where(data.same < 0, -1, place[data.same])[order[:n]]
    return replace(data, texts=[texts[i] for i in order], first=first[rows], second=second[rows], gold=gold, same=same)


def _subset(data: Texts, rows: NDArray[np.intp], name: str) -> Texts:
    """Return some rows with their texts; of a search, their queries and all documents."""
    first, second = data.first[rows], data.second[rows]
    asked = np.unique(first)
    used = np.concatenate([asked, np.arange(data.queries, len(data.texts))]) if data.queries else np.union1d(
        first, second
    )  # fmt: skip
    same = None
    if data.same is not None:
        same = np.where(data.same[asked] < 0, -1, np.searchsorted(used, data.same[asked]))
    return replace(
        data,
        report=name,
        texts=[data.texts[place] for place in used],
        first=np.searchsorted(used, first),
        second=np.searchsorted(used, second),
        gold=data.gold[rows],
        queries=len(asked) if data.queries else 0,
        same=same,
    )


def _checked(part: Texts, name: str, data: Texts) -> Texts:
    if len(part.gold) == 0 or part.units < FEWEST:
        raise UsageError(
            f"--pairs: {data.units} {UNITS[data.kind]} leave {part.units if len(part.gold) else 0} for the {name}, and"
            f" {FEWEST} are the least (no text is in two parts). Give more, or leave them out."
        )
    if data.kind != "retrieval" and np.ptp(part.gold) == 0:
        raise UsageError(f"all {name} {UNITS[data.kind]} have one score or label; give more of the others.")
    return part


def training_pairs(data: Texts, seed: int = 0) -> Corpus:
    """Return labelled texts as pairs to train on: with their scores, else as entailment (alike) or contradiction.

    Each text with a class is paired with one of its class and one of another, each relevant document's query with it
    and with another document.
    """
    generator = np.random.default_rng(seed)
    if data.kind == "score":
        places = np.stack([data.first, data.second], 1).ravel()
        low = float(data.gold.min())
        return Corpus("the pairs", [data.texts[i] for i in places], scores=(data.gold - low).tolist())
    if data.kind == "binary":
        triples = [(a, b, g > 0) for a, b, g in zip(data.first, data.second, data.gold, strict=True)]
    elif data.kind == "label":
        triples = []
        for place, label in zip(data.first, data.gold, strict=True):
            for alike in (True, False):
                others = data.first[((data.gold == label) == alike) & (data.first != place)]
                triples += [(place, generator.choice(others), alike)] if len(others) else []
    else:
        triples = []
        for asked, answer in zip(data.first[data.gold > 0], data.second[data.gold > 0], strict=True):
            other = generator.integers(data.queries, len(data.texts))
            triples += [(asked, answer, True), (asked, other, False)]
    labels = ["entailment" if alike else "contradiction" for *_, alike in triples]
    return Corpus("the pairs", [data.texts[i] for a, b, _ in triples for i in (a, b)], labels)
