"""SICK relatedness by cosine, and SentEval's supervised relatedness for SICK-R and STS-B (docs/protocol.md)."""

from __future__ import annotations

import numpy as np

from benchmark.data.readers.pairs import Pairs, read_sick
from benchmark.data.sources import DataSource, Located
from benchmark.tasks.base import Lookup, PairsData, Scores, Task, TaskData
from benchmark.tasks.sts import STSBenchmark, check_rows, joined

_FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}


class SickRelatedness(Task):
    """SICK-R test split; SentEval's form keeps the case (the hub's `sickr-sts` is another test set of 9,927 pairs)."""

    title = "SICK relatedness, test"
    dataset, form = "SICK", "tokenised"

    def load(self, data: DataSource, limit: int | None = None) -> TaskData:
        """Read all three splits; only test is scored."""
        located = data.locate(self.dataset, self.form)
        splits = self.read(located)
        return PairsData(located, {"test": splits["test"]}, splits["dev"], splits["train"].texts(), limit)

    def read(self, located: Located) -> dict[str, Pairs]:
        """Return the pairs of train, dev and test."""
        splits = {}
        for split, name in _FILES.items():
            pairs = read_sick(located.files[name])
            check_rows(located, split, len(pairs))
            splits[split] = joined(pairs) if self.form == "tokenised" else pairs
        return splits


class SickRelatednessRaw(SickRelatedness):
    """SICK-R, untokenised."""

    title, form = "SICK relatedness, test, untokenised", "raw"


class RegressorData(TaskData):
    """Train, dev and test pairs in SentEval's order: a regressor on frozen vectors learns, stops and is tested."""

    def __init__(self, located: Located, splits: dict[str, Pairs], limit: int | None) -> None:
        self.located = located
        self.test = splits["test"].head(limit)
        ordered = [_ordered(splits[name].head(limit)) for name in ("train", "dev", "test")]
        self.splits, (*_, self.order) = zip(*ordered, strict=True)
        self.rows = len(self.test)

    def texts(self) -> list[str]:
        """Both sides of all splits: the regressor learns from their vectors."""
        return [text for pairs in self.splits for text in pairs.texts()]

    def tested(self) -> list[str]:
        """Both sides of the test part."""
        return self.test.texts()

    def score(self, vectors: Lookup) -> Scores:
        """Return Spearman (`main`, of `pairs`), Pearson and mean squared error of test, and Pearson of dev."""
        from benchmark.metrics.correlation import correlations
        from benchmark.metrics.probe.protocol import pair_features
        from benchmark.metrics.relatedness import regress

        features = np.concatenate([pair_features(vectors(p.first), vectors(p.second)) for p in self.splits])
        gold = [pairs.gold for pairs in self.splits]
        fit = regress(features, gold[0], gold[1], device=self.device)
        result = correlations(fit.predicted, gold[2])
        in_file_order = np.empty_like(fit.predicted)
        in_file_order[self.order] = fit.predicted
        return {
            "main": result["spearman"],
            "main_metric": "spearman",
            "reason": "constant_scores" if result["spearman"] is None else None,
            **result,
            "mse": float(np.mean((fit.predicted - gold[2]) ** 2)),
            "dev_pearson": fit.dev_pearson,
            "evaluations": fit.evaluations,
            "protocol": "senteval",
            "pairs": (in_file_order, self.test.gold),
        }


def _ordered(pairs: Pairs) -> tuple[Pairs, list[int]]:
    """Return the pairs as SentEval orders them, and the rows (n,) that they are of."""
    # SentEval sorts so, and its shuffling of the training rows starts from this order.
    lengths = [[len(text.split()) for text in side] for side in (pairs.first, pairs.second)]
    keys = list(zip(*lengths, pairs.gold.tolist(), strict=True))
    rows = sorted(range(len(pairs)), key=keys.__getitem__)
    first, second = ([side[row] for row in rows] for side in (pairs.first, pairs.second))
    return Pairs(first, second, pairs.gold[rows], pairs.blank), rows


class SickRegressor(SickRelatedness):
    """SICK-R with SentEval's regressor on frozen vectors: what SentEval proper calls SICKRelatedness."""

    title = "SICK relatedness, SentEval's regressor"
    metric = "Spearman, SentEval's regressor"

    def load(self, data: DataSource, limit: int | None = None) -> RegressorData:
        """Read all three splits (with `limit`, the first of each)."""
        located = data.locate(self.dataset, self.form)
        return RegressorData(located, self.read(located), limit)


class STSBenchmarkRegressor(STSBenchmark):
    """STS-B with SentEval's regressor on frozen vectors: what SentEval proper calls STSBenchmark."""

    title = "STS Benchmark, SentEval's regressor"
    metric = "Spearman, SentEval's regressor"

    def load(self, data: DataSource, limit: int | None = None) -> RegressorData:
        """Read all three splits (with `limit`, the first of each)."""
        located = data.locate(self.dataset, self.form)
        return RegressorData(located, self.read(located), limit)
