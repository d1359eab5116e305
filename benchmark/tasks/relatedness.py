"""SICK relatedness by cosine, and SentEval's supervised relatedness for SICK-R and STS-B (docs/protocol.md)."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmark.data.readers.pairs import Pairs, read_sick
from benchmark.data.sources import Located
from benchmark.tasks.base import Lookup, Scores, TaskData, TaskRow, check_rows
from benchmark.tasks.sts import Splits, in_form, stsb_splits, three_splits

_FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}


def sick_splits(located: Located) -> Splits:
    splits = {}
    for split, name in _FILES.items():
        pairs = read_sick(located.files[name])
        check_rows(located, split, len(pairs))
        splits[split] = in_form(pairs, located.form)
    return splits


class RegressorData(TaskData):
    """Pairs in SentEval's order, to fit (train), stop (dev) and test a regressor."""

    metrics = ("correlation", "probe", "relatedness")

    def __init__(self, located: Located, splits: Splits, limit: int | None) -> None:
        self.located, self.train = located, splits["train"]
        self.test = splits["test"].head(limit)
        ordered = [_ordered(splits[name].head(limit)) for name in ("train", "dev", "test")]
        self.splits, (*_, self.order) = zip(*ordered, strict=True)
        self.rows = len(self.test)

    def texts(self) -> list[str]:
        return [text for pairs in self.splits for text in pairs.texts()]

    def tested(self) -> list[str]:
        return self.test.texts()

    def score(self, vectors: Lookup) -> Scores:
        """Return Spearman (`main`, of `pairs`), Pearson and mean squared error of test, Pearson of dev."""
        from benchmark.metrics.correlation import correlations, undefined
        from benchmark.metrics.probe.protocol import pair_features
        from benchmark.metrics.relatedness import regress

        features = np.concatenate([pair_features(vectors(p.first), vectors(p.second)) for p in self.splits])
        gold = [pairs.gold for pairs in self.splits]
        fit = regress(features, gold[0], gold[1], device=self.device)
        predicted = fit.predicted.astype(np.float32).astype(np.float64)
        result = correlations(predicted, gold[2])
        in_file_order = np.empty_like(predicted)
        in_file_order[self.order] = predicted
        return {
            "main": result["spearman"],
            "main_metric": "spearman",
            "reason": undefined(predicted, gold[2]),
            **result,  # type: ignore[typeddict-item]
            "mse": float(np.mean((predicted - gold[2]) ** 2)),
            "dev_pearson": fit.dev_pearson,
            "evaluations": fit.evaluations,
            "protocol": "senteval",
            "pairs": (in_file_order, self.test.gold),
        }


def _ordered(pairs: Pairs) -> tuple[Pairs, list[int]]:
    """Sort as SentEval; also returns row numbers (n,) in the data."""
    # SentEval sorts like this, and its shuffling of the training rows starts from this order.
    lengths = [[len(text.split()) for text in side] for side in (pairs.first, pairs.second)]
    keys = list(zip(*lengths, pairs.gold.tolist(), strict=True))
    rows = sorted(range(len(pairs)), key=keys.__getitem__)
    first, second = ([side[row] for row in rows] for side in (pairs.first, pairs.second))
    return Pairs(first, second, pairs.gold[rows], pairs.blank), rows


# SentEval's files keep the case; the hub's `sickr-sts` is another test set with 9,927 pairs. SentEval itself calls the
# regressors SICKRelatedness and STSBenchmark; typed, these names are the tasks scored by cosine, as in SimCSE's code.
_test = partial(three_splits, splits=sick_splits)
_stsb = partial(three_splits, splits=stsb_splits, use=RegressorData)
_sick = partial(three_splits, splits=sick_splits, use=RegressorData)
_REGRESSOR = "SentEval's regressor"
ROWS = (
    TaskRow("SICK-R", "SICK relatedness, test", "SICK", _test, "tokenised", aliases=("SICKRelatedness",)),
    TaskRow("SICK-R-raw", "SICK relatedness, test, untokenised", "SICK", _test, "raw"),
    TaskRow(
        "STS-B-regressor", f"STS Benchmark, {_REGRESSOR}", "STSBenchmark", _stsb, "tokenised", f"Spearman, {_REGRESSOR}"
    ),
    TaskRow(
        "SICK-R-regressor", f"SICK relatedness, {_REGRESSOR}", "SICK", _sick, "tokenised", f"Spearman, {_REGRESSOR}"
    ),
)
