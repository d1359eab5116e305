"""SICK relatedness, unsupervised cosine on the 4,927 test pairs (METHODS section 9)."""

from __future__ import annotations

from benchmark.data.readers import read_sick
from benchmark.data.sources import DataSource
from benchmark.tasks.base import PairsData, Task
from benchmark.tasks.sts import check_rows, joined

_FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}


class SickRelatedness(Task):
    """SICK-R test split; SentEval's form keeps the case (the hub's `sickr-sts` is another test set of 9,927 pairs)."""

    title = "SICK relatedness, test"
    dataset, form = "SICK", "tokenised"

    def load(self, data: DataSource, limit: int | None = None) -> PairsData:
        """Read all three splits; only test is scored."""
        located = data.locate(self.dataset, self.form)
        splits = {}
        for split, name in _FILES.items():
            pairs = read_sick(located.files[name])
            check_rows(located, split, len(pairs))
            splits[split] = joined(pairs) if self.form == "tokenised" else pairs
        return PairsData(located, {"test": splits["test"]}, splits["dev"], splits["train"].texts(), limit)


class SickRelatednessRaw(SickRelatedness):
    """SICK-R, untokenised."""

    title, form = "SICK relatedness, test, untokenised", "raw"
