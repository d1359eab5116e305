"""Test items, right or wrong: a bit each, enough for the accuracy to the last digit.

An accuracy is the mean over the parts of a test set (its folds, or a single part) of the share of right items, then
over several fine-tunings. For a mean reciprocal rank an item counts as its reciprocal rank.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Any, Required, TypedDict

import msgspec
import numpy as np
from numpy.typing import NDArray

from zoo.errors import CorruptError


class ItemsPart(TypedDict, total=False):
    """Bits of right items; records with equal `gold_sha256` are comparable."""

    # Base64 of a bit an item, run after run, with zeros up to a whole byte; the number of items in each part.
    right: Required[str]
    parts: Required[list[Annotated[int, msgspec.Meta(gt=0)]]]
    runs: Required[Annotated[int, msgspec.Meta(gt=0)]]
    # Of the answers, in this order; the right answers' ranks (absent: an accuracy); decimals to which SentEval rounds.
    gold_sha256: Required[Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]]
    ranks: list[Annotated[int, msgspec.Meta(gt=0)]]
    # A number an item, such as its average precision, whose mean is the score.
    values: list[Annotated[float, msgspec.Meta(ge=-1, le=1)]]
    decimals: int


def items_part(
    right: NDArray[np.bool_], answers: Sequence[object], parts: Sequence[int] = (), decimals: int | None = None
) -> ItemsPart:
    """Pack items (n,), or (runs, n); the right answers (n,) identify the test set.

    `parts` has the number of items of each part; () for a single part.
    """
    runs = np.atleast_2d(right)
    kept: ItemsPart = {
        "right": _text(runs),
        "parts": [int(size) for size in parts or (runs.shape[1],)],
        "runs": len(runs),
        "gold_sha256": sha256("\n".join(map(str, answers)).encode("utf-8", "surrogatepass")).hexdigest(),
    }
    return kept if decimals is None else {**kept, "decimals": decimals}


def right_of(items: ItemsPart) -> NDArray[np.bool_]:
    """Return (runs, n); raises CorruptError for fewer or more bits than items."""
    runs, size = items["runs"], sum(items["parts"])
    try:
        packed = np.frombuffer(base64.b64decode(items["right"], validate=True), np.uint8)
    except ValueError as error:
        raise CorruptError(f"the bits of its items are no base64 ({error}); measure it again.") from error
    bits = np.unpackbits(packed)
    if len(packed) != -(-runs * size // 8) or bits[runs * size :].any():
        raise CorruptError(f"it has {8 * len(packed)} bits for {runs * size} items; measure it again.")
    result: NDArray[np.bool_] = bits[: runs * size].reshape(runs, size).astype(np.bool_)
    return result


def ranked_part(ranks: NDArray[np.integer], answers: Sequence[object]) -> ItemsPart:
    """Pack ranks (n,) of the right answers (n,), from 1."""
    return {**items_part(ranks == 1, answers), "ranks": ranks.tolist()}


def valued_part(values: Sequence[float] | NDArray[np.floating], answers: Sequence[object]) -> ItemsPart:
    """Pack a number of each item (n,), from -1 to 1, whose mean is the score; the answers (n,) identify the test set.

    Examples:
        >>> accuracy_of(valued_part([0.25, 1.0, 0.25], "abc"))
        0.5
    """
    numbers = np.asarray(values, np.float64)
    return {**items_part(numbers == 1, answers), "values": numbers.tolist()}


def values_of(items: ItemsPart) -> NDArray[np.float64]:
    """Return each item's value (runs, n): 1 or 0, its own, or the reciprocal rank.

    Raises CorruptError as `right_of` does.

    Examples:
        >>> values_of(ranked_part(np.array([1, 4, 2]), "abc")).tolist()
        [[1.0, 0.25, 0.5]]
    """
    right = right_of(items)
    if "values" in items:
        values = np.array(items["values"], np.float64)
        if not np.array_equal(right, [values == 1]):
            raise CorruptError("its items are not right where their value is 1; measure it again.")
        return values[None]
    if "ranks" not in items:
        return right.astype(np.float64)
    ranks = np.array(items["ranks"])
    if not np.array_equal(right, [ranks == 1]):
        raise CorruptError("its items are not right where their rank is 1; measure it again.")
    return 1.0 / ranks[None]


def joined(runs: Sequence[ItemsPart]) -> ItemsPart | None:
    if not runs:
        return None
    right = np.concatenate([right_of(run) for run in runs])
    return {**runs[0], "right": _text(right), "runs": len(right)}


def _text(right: NDArray[np.bool_]) -> str:
    return base64.b64encode(np.packbits(right).tobytes()).decode("ascii")


def item_weights(parts: Sequence[int]) -> NDArray[np.float64]:
    """Return weights (n,), 1 on average: every part has the same weight in an accuracy."""
    sizes = np.asarray(parts)
    result: NDArray[np.float64] = np.repeat(sizes.sum() / (len(sizes) * sizes), sizes)
    return result


def accuracy_of(items: ItemsPart) -> float:
    """Return the accuracy, or the mean reciprocal rank, as a fraction.

    Examples:
        >>> accuracy_of(items_part(np.array([True, False, True, True]), "abba", [2, 2]))
        0.75
    """
    decimals, cuts = items.get("decimals"), np.cumsum(items["parts"])[:-1]

    def rounded(percent: Any) -> Any:
        return round(percent, decimals)

    runs = []
    for run in values_of(items):
        shares = [np.mean(part) for part in np.split(run, cuts)]
        if decimals is not None:
            runs.append(float(rounded(np.mean([float(rounded(100 * share)) for share in shares]))) / 100)
        else:
            runs.append(float(np.mean(shares)))
    return float(np.mean(runs))


def fold_items(vectors: NDArray[np.float32], labels: list[str], folds: int = 5) -> ItemsPart:
    """Classify standardised vectors (n, dim) by logistic regression in stratified folds."""
    # These take half a second, and other scores need none of them.
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
    splits = StratifiedKFold(folds, shuffle=True, random_state=1111)
    matrix, classes = vectors.astype(np.float64), np.asarray(labels)
    tested, right = [], []
    for train, test in splits.split(matrix, classes):
        right.append(probe.fit(matrix[train], classes[train]).predict(matrix[test]) == classes[test])
        tested.append(test)
    order = np.concatenate(tested)
    return items_part(np.concatenate(right), classes[order].tolist(), list(map(len, tested)))
