"""SemEval-2013 task 5(a): does a two-word phrase mean the same as a word? Frozen vectors, a classifier on top.

The classifier is SentEval's for MRPC, on [|u-v| ; u*v]: folds of the training part choose its penalty. The frozen rows
of BURT's table 3 have a classifier on such vectors too, unnamed by BURT. `threshold_accuracy` needs no classifier: a
cosine threshold, chosen on the training part, separates the classes.
"""

from __future__ import annotations

import numpy as np

from benchmark.data.catalog import dataset
from benchmark.data.readers.phrases import read_semeval_bigrams, read_semeval_instances
from benchmark.data.readers.transfer import Labelled
from benchmark.data.sources import DataSource, Located
from benchmark.tasks.base import Lookup, Scores, TaskRow, check_rows
from benchmark.tasks.phrases import brought, unit
from benchmark.tasks.transfer import TransferData
from zoo.errors import CorruptError

ORGANISERS = "phrases/SemEval2013-5a"
"""The place in a data folder for the organisers' own files, which no hub provides and whose sha256 is not known."""

_DATASET, _SPLITS = "SemEval2013-5a", ("train", "test")
# BURT section 4.2.
_ORGANISERS_ROWS = {"train": 11722, "test": 7814}


def best_threshold(scores: np.ndarray, labels: np.ndarray) -> float:
    """Return the lowest threshold for class 1 (at or above it) with the fewest errors."""
    order = np.argsort(scores, kind="stable")
    ranked, above = scores[order], labels[order]
    # With the threshold at sorted row i, ones before it and zeros from it on are wrong; it must be at a new value.
    wrong = np.concatenate([[0], np.cumsum(above)]) + np.concatenate([[0], np.cumsum((1 - above)[::-1])])[::-1]
    divides = np.concatenate([[True], np.diff(ranked) > 0, [True]])
    best = int(np.argmin(np.where(divides, wrong, len(scores) + 1)))
    return float(ranked[best]) if best < len(ranked) else float("inf")


class SemEvalData(TransferData):
    def score(self, vectors: Lookup) -> Scores:
        scores = super().score(vectors)
        sides = [(unit(vectors(part.first)), unit(vectors(part.second or []))) for part in self.parts]
        train, test = (np.round(np.einsum("ij,ij->i", first, second), 9) for first, second in sides)
        predicted = test >= best_threshold(train, self.parts[0].labels)
        return {**scores, "threshold_accuracy": float(np.mean(predicted == self.parts[1].labels))}


def read_parts(data: DataSource) -> tuple[Located, list[Labelled]]:
    """Read both parts in the existing form, with checked numbers of rows."""
    located = _organisers(data)
    if located is None:
        located = data.locate(_DATASET, "plain")
        parts = [read_semeval_bigrams(located.files[f"en.{split}Set"]) for split in _SPLITS]
        for split, part in zip(_SPLITS, parts, strict=True):
            check_rows(located, split, len(part))
        return located, parts
    parts = []
    for split in _SPLITS:
        files = (located.files[_instances(split, kind)] for kind in ("positive", "negative"))
        parts.append(read_semeval_instances(*files))
        if len(parts[-1]) != _ORGANISERS_ROWS[split]:
            raise CorruptError(
                f"{ORGANISERS} {split}: {len(parts[-1])} items instead of the organisers' {_ORGANISERS_ROWS[split]}."
            )
    return located, parts


def frozen(row: TaskRow, data: DataSource, limit: int | None) -> SemEvalData:
    """Read `limit` rows of each class, at least 20 for the folds."""
    located, parts = read_parts(data)
    return SemEvalData(located, parts, "full", False, limit)


def _instances(split: str, kind: str) -> str:
    return f"en.{split}Set.{kind}Instances-v2"


def _organisers(data: DataSource) -> Located | None:
    folder = None if data.folder is None else data.folder / ORGANISERS
    if folder is None or not folder.is_dir():
        return None
    names = [_instances(split, kind) for split in _SPLITS for kind in ("positive", "negative")]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise CorruptError(f"{folder} lacks {', '.join(missing)}; give all four files, or remove the folder.")
    return brought(dataset(_DATASET), "organisers", [folder / name for name in names])


# The items with a phrase of two words (11,175 and 7,490; Yu and Dredze's form). Where the data folder has the
# organisers' files (`phrases/SemEval2013-5a/en.trainSet.positiveInstances-v2`, `...negativeInstances-v2`, and the same
# for `en.testSet`), all 11,722 and 7,814 items are used; the sha256 in records tells the two forms apart.
ROWS = (
    TaskRow(
        "SemEval2013-5a",
        "SemEval-2013 5(a), phrase or not",
        _DATASET,
        frozen,
        metric="accuracy, SentEval's full setting",
    ),
)
