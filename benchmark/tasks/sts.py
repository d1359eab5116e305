"""Semantic textual similarity: STS12-16 and the STS Benchmark, unsupervised cosine (docs/protocol.md).

The tokenised tasks read SentEval's files (Moses tokens, lower-cased) and join the tokens with single blanks, as the
papers' evaluations do. The `-raw` tasks read the untokenised text of today's hub copies.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from benchmark.data.readers.pairs import Pairs, read_hub_rows, read_sts, read_stsb
from benchmark.data.sources import DataSource, Located
from benchmark.tasks.base import PairsData, Task, TaskData
from zoo.errors import CorruptError


def joined(pairs: Pairs) -> Pairs:
    """Join the tokens of SentEval's form with single blanks."""
    return dataclasses.replace(
        pairs, first=[" ".join(t.split()) for t in pairs.first], second=[" ".join(t.split()) for t in pairs.second]
    )


def check_rows(located: Located, split: str, found: int) -> None:
    """Raise CorruptError unless a split has the catalog's number of scored rows."""
    expected = located.dataset.rows[split]
    if found != expected:
        raise CorruptError(
            f"{located.dataset.name} ({located.form}) {split}: {found} scored rows instead of {expected}."
        )


class _YearTask(Task):
    extra_fields: ClassVar[int] = 0

    def load(self, data: DataSource, limit: int | None = None) -> PairsData:
        """Read all subsets of the year; a hub copy has none, so `mean` and `wmean` equal `all` there."""
        located = data.locate(self.dataset, self.form)
        if located.from_hub_rows:
            subsets = {"test": read_hub_rows(located.files["test.jsonl"])}
        else:
            subsets = {
                name: read_sts(
                    located.files[f"STS.input.{name}.txt"],
                    located.files[f"STS.gs.{name}.txt"],
                    extra_fields=self.extra_fields,
                )
                for name in located.dataset.subsets
            }
            if self.form == "tokenised":
                subsets = {name: joined(pairs) for name, pairs in subsets.items()}
            counts = {name: len(pairs) for name, pairs in subsets.items()}
            if counts != dict(located.dataset.subsets):
                raise CorruptError(f"{self.dataset} ({self.form}): scored rows {counts} differ from the catalog's.")
        check_rows(located, "test", sum(len(pairs) for pairs in subsets.values()))
        return PairsData(located, subsets, limit=limit)


class STS12(_YearTask):
    """SemEval-2012 task 6."""

    title = "STS 2012"
    dataset, form = "STS12", "tokenised"


class STS13(_YearTask):
    """*SEM 2013 shared task, without SMT (licence)."""

    title = "STS 2013 (without SMT)"
    dataset, form = "STS13", "tokenised"


class STS14(_YearTask):
    """SemEval-2014 task 10."""

    title = "STS 2014"
    dataset, form = "STS14", "tokenised"


class STS15(_YearTask):
    """SemEval-2015 task 2."""

    title = "STS 2015"
    dataset, form = "STS15", "tokenised"


class STS16(_YearTask):
    """SemEval-2016 task 1."""

    title = "STS 2016"
    dataset, form = "STS16", "tokenised"


class STS12Raw(STS12):
    """STS12, untokenised."""

    title, form = "STS 2012, untokenised", "raw"


class STS13Raw(STS13):
    """STS13, untokenised."""

    title, form = "STS 2013, untokenised", "raw"


class STS14Raw(STS14):
    """STS14, untokenised."""

    title, form = "STS 2014, untokenised", "raw"


class STS15Raw(STS15):
    """STS15, untokenised."""

    title, form = "STS 2015, untokenised", "raw"


class STS16Raw(STS16):
    """STS16, untokenised; its files name the two sources of each pair in further fields."""

    title, form = "STS 2016, untokenised", "raw"
    extra_fields = 2


class STSBenchmark(Task):
    """STS Benchmark test split, unsupervised cosine (SentEval proper trains a regressor under this name)."""

    title = "STS Benchmark, test"
    dataset, form = "STSBenchmark", "tokenised"

    def load(self, data: DataSource, limit: int | None = None) -> TaskData:
        """Read all three splits: test is scored, dev picks checkpoints, train only serves transductive fits."""
        located = data.locate(self.dataset, self.form)
        splits = self.read(located)
        return PairsData(located, {"test": splits["test"]}, splits["dev"], splits["train"].texts(), limit)

    def read(self, located: Located) -> dict[str, Pairs]:
        """Return the pairs of train, dev and test."""
        splits = {}
        for split in ("train", "dev", "test"):
            if located.from_hub_rows:
                pairs = read_hub_rows(located.files[f"{split}.jsonl"])
            else:
                pairs = read_stsb(located.files[f"sts-{split}.csv"], extra_fields=2 if self.form == "raw" else 0)
            check_rows(located, split, len(pairs))
            splits[split] = joined(pairs) if self.form == "tokenised" else pairs
        return splits


class STSBenchmarkDev(STSBenchmark):
    """The pairs that pick checkpoints, as the papers' ablations score them; never beside test scores."""

    title = "STS Benchmark, dev"

    def load(self, data: DataSource, limit: int | None = None) -> TaskData:
        """Read all three splits: dev is scored, the others only serve transductive fits."""
        located = data.locate(self.dataset, self.form)
        splits = self.read(located)
        others = splits["train"].texts() + splits["test"].texts()
        return PairsData(located, {"dev": splits["dev"]}, others=others, limit=limit)


class STSBenchmarkRaw(STSBenchmark):
    """STS Benchmark, untokenised."""

    title, form = "STS Benchmark, test, untokenised", "raw"
