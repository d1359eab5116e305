"""Tasks with training of the whole encoder: STS-B and SICK-R on their scores, SemEval-2013 5(a) on its classes.

No shipped suite has them beside frozen tasks. The encoder's weights are restored afterwards. Encoders other than
pooled transformers have no score here (n/a).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from benchmark.data.readers.transfer import Labelled
from benchmark.data.sources import DataSource, Located
from benchmark.metrics.items import items_part, joined
from benchmark.reasons import reason
from benchmark.tasks.base import Lookup, Scores, TaskData, TaskRow
from benchmark.tasks.relatedness import sick_splits
from benchmark.tasks.semeval import read_parts
from benchmark.tasks.sts import Splits, stsb_splits, three_splits
from zoo.files import read_signed, write_signed

if TYPE_CHECKING:
    from zoo.encoder import Encoder, Run

SEEDS = (0, 1, 2)
"""Seeds for fine-tuning an encoder that has no seed; an encoder with a seed is fine-tuned once, with that seed."""


class FinetuneData(TaskData):
    trains_encoder = True
    main: ClassVar[str]

    def score(self, vectors: Lookup) -> Scores:
        """Raise TypeError: this task needs the encoder."""
        raise TypeError(f"{type(self).__name__} trains the encoder itself; score_encoder does")

    def score_encoder(self, encoder: Encoder, vectors: Lookup, run: Run) -> Scores:
        """Return the scores, without a seed means over `SEEDS`; raises MissingError if untrainable."""
        stochastic = type(encoder).traits(encoder.recipe).stochastic
        by_seed = {seed: self._kept(encoder, run, seed) for seed in ((run.seed,) if stochastic else SEEDS)}
        items = joined([scores.pop("items") for scores in by_seed.values() if "items" in scores])
        names = list(next(iter(by_seed.values())))
        values = {name: [scores[name] for scores in by_seed.values()] for name in names}
        complete = {name: None if None in several else float(np.mean(several)) for name, several in values.items()}
        main = complete[self.main]
        return {
            "main": main,
            "main_metric": self.main,
            "reason": reason("constant") if main is None else None,
            **complete,  # type: ignore[typeddict-item]
            "by_seed": {str(seed): scores for seed, scores in by_seed.items()},
            **({} if items is None else {"items": items}),
        }

    def _kept(self, encoder: Encoder, run: Run, seed: int) -> dict[str, Any]:
        if run.folder is None:
            return self.fine_tune(encoder, replace(run, seed=seed))
        folder = run.folder / f"seed-{seed}"
        if not (folder / "scores.json").is_file():
            write_signed(folder / "scores.json", self.fine_tune(encoder, replace(run, seed=seed, folder=folder)))
        scores: dict[str, Any] = read_signed(folder / "scores.json")
        return scores

    @abstractmethod
    def learned(self) -> list[str]:
        """Return the texts of an epoch."""

    @abstractmethod
    def fine_tune(self, encoder: Encoder, run: Run) -> dict[str, Any]: ...


class ScoredFinetuneData(FinetuneData):
    """Pairs scored from `low` to `high`, for training, choice of the epoch and test by cosine."""

    metrics = ("correlation", "finetuning")

    main = "spearman"

    def __init__(self, located: Located, splits: Splits, limit: int | None, *, low: float, high: float) -> None:
        self.located, self.low, self.high = located, low, high
        self.splits = {name: pairs.head(limit) for name, pairs in splits.items()}
        self.rows = len(self.splits["test"])

    def texts(self) -> list[str]:
        return self.splits["test"].texts()

    def unlabelled(self) -> list[str]:
        return [text for pairs in self.splits.values() for text in pairs.texts()]

    def learned(self) -> list[str]:
        return self.splits["train"].texts()

    def fine_tune(self, encoder: Encoder, run: Run) -> dict[str, Any]:
        from benchmark.metrics.correlation import correlations, cosine
        from benchmark.metrics.finetuning import fine_tuned_by_score

        def measured(split: str) -> dict[str, float | None]:
            pairs = self.splits[split]
            return correlations(cosine(encoder.encode(pairs.first), encoder.encode(pairs.second)), pairs.gold)

        def dev_score() -> float:
            value = measured("dev")["spearman"]
            return float("nan") if value is None else 100 * value

        train = self.splits["train"]
        gold = (train.gold - self.low) / (self.high - self.low)
        with fine_tuned_by_score(encoder, (train.first, train.second), gold, dev_score, run):
            return {**measured("test"), "dev_spearman": measured("dev")["spearman"]}


class LabelledFinetuneData(FinetuneData):
    metrics = ("finetuning", "items")

    main = "accuracy"

    def __init__(self, located: Located, parts: list[Labelled], limit: int | None) -> None:
        self.located = located
        self.parts = [part.head(limit) for part in parts]
        self.rows = len(self.parts[-1])

    def texts(self) -> list[str]:
        return self.parts[-1].texts()

    def unlabelled(self) -> list[str]:
        return [text for part in self.parts for text in part.texts()]

    def learned(self) -> list[str]:
        return self.parts[0].texts()

    def fine_tune(self, encoder: Encoder, run: Run) -> dict[str, Any]:
        from benchmark.metrics.finetuning import fine_tuned_right

        (train, learned), (test, labels) = (((p.first, p.second or []), p.labels) for p in self.parts)
        right = fine_tuned_right(encoder, train, learned, test, labels, run)
        return {"accuracy": float(np.mean(right)), "items": items_part(right, labels.tolist())}


def phrase_or_not(row: TaskRow, data: DataSource, limit: int | None) -> LabelledFinetuneData:
    """Read both parts of SemEval-2013 5(a); `limit` is per class."""
    located, parts = read_parts(data)
    return LabelledFinetuneData(located, parts, limit)


# Cosine regression on the scores of the training split, from the lowest to the highest; the epoch with the best dev
# score is kept. SemEval's classifier reads [u; v; |u-v|], as for BERT and BURT in BURT's table 3.
_SCORED = "Spearman, cosine, fine-tuned"
_STSB = partial(three_splits, splits=stsb_splits, use=partial(ScoredFinetuneData, low=0, high=5))
_SICK = partial(three_splits, splits=sick_splits, use=partial(ScoredFinetuneData, low=1, high=5))
_PHRASES = "SemEval-2013 5(a), phrase or not, fine-tuned"
ROWS = (
    TaskRow("stsb-finetune", "STS Benchmark, fine-tuned", "STSBenchmark", _STSB, "tokenised", _SCORED),
    TaskRow("sickr-finetune", "SICK relatedness, fine-tuned", "SICK", _SICK, "tokenised", _SCORED),
    TaskRow("semeval2013-5a-finetune", _PHRASES, "SemEval2013-5a", phrase_or_not, metric="accuracy, fine-tuned"),
)
