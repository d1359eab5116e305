"""Semantic textual similarity tasks: STS12-16 and the STS Benchmark, scored by cosine (docs/protocol.md).

The tokenised tasks read SentEval's files (Moses tokens, lower-cased) and join the tokens with single blanks, as the
papers' evaluations do. The `-raw` tasks read the untokenised text of today's hub copies.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from functools import partial

from benchmark.data.readers.pairs import Pairs, read_hub_rows, read_sts, read_stsb
from benchmark.data.sources import DataSource, Located
from benchmark.tasks.base import PairsData, TaskData, TaskRow, check_rows
from benchmark.tasks.overlap import DEV, DISJOINT, dev_rows_in_tests, in_tests
from zoo.errors import CorruptError
from zoo.files import sha256_json

Splits = dict[str, Pairs]
"""The pairs of train, dev and test."""


def joined(pairs: Pairs) -> Pairs:
    return dataclasses.replace(
        pairs, first=[" ".join(t.split()) for t in pairs.first], second=[" ".join(t.split()) for t in pairs.second]
    )


def in_form(pairs: Pairs, form: str) -> Pairs:
    return joined(pairs) if form == "tokenised" else pairs


def year(row: TaskRow, data: DataSource, limit: int | None, *, extra_fields: int = 0) -> PairsData:
    """Read a year; a hub copy has no subsets, so `mean` and `wmean` equal `all` there."""
    located = data.locate(row.dataset, row.form)
    if located.from_hub_rows:
        subsets = {"test": read_hub_rows(located.files["test.jsonl"])}
    else:
        subsets = {
            name: in_form(
                read_sts(
                    located.files[f"STS.input.{name}.txt"],
                    located.files[f"STS.gs.{name}.txt"],
                    extra_fields=extra_fields,
                ),
                row.form,
            )
            for name in located.dataset.subsets
        }
        counts = {name: len(pairs) for name, pairs in subsets.items()}
        if counts != dict(located.dataset.subsets):
            raise CorruptError(f"{row.dataset} ({row.form}): scored rows {counts} differ from the catalog's.")
    check_rows(located, "test", sum(len(pairs) for pairs in subsets.values()))
    return PairsData(located, subsets, limit=limit)


def stsb_splits(located: Located) -> Splits:
    splits = {}
    for split in ("train", "dev", "test"):
        if located.from_hub_rows:
            pairs = read_hub_rows(located.files[f"{split}.jsonl"])
        else:
            pairs = read_stsb(located.files[f"sts-{split}.csv"], extra_fields=2 if located.form == "raw" else 0)
        check_rows(located, split, len(pairs))
        splits[split] = in_form(pairs, located.form)
    return splits


def cosine_of_test(located: Located, splits: Splits, limit: int | None) -> PairsData:
    """Score test; dev chooses checkpoints, train serves transductive fits alone."""
    test_name = "STS-B" if located.form == "tokenised" else "STS-B-raw"
    in_test = dev_rows_in_tests(test_name, located.sha256) if located.dataset.name == "STSBenchmark" else None
    pairs_data = PairsData(located, {"test": splits["test"]}, splits["dev"], limit=limit, train=splits["train"])
    pairs_data.dev_in_test = in_test
    return pairs_data


def cosine_of_dev(located: Located, splits: Splits, limit: int | None) -> PairsData:
    """Score dev; the other splits serve transductive fits alone."""
    others = splits["test"].texts()
    return PairsData(located, {"dev": splits["dev"]}, others=others, limit=limit, train=splits["train"])


def disjoint(row: TaskRow, data: DataSource, limit: int | None) -> PairsData:
    """Score development pairs outside the test pairs of STS12-16 and STS-B; an unknown overlap is measured."""
    located = data.locate(row.dataset, row.form)
    splits, origin = stsb_splits(located), DISJOINT[row.name]
    rows = dev_rows_in_tests(origin, located.sha256)
    if rows is None:
        tests = {test.name: test.load(data) for test in ROWS if test.name in DEV[origin]}
        rows = in_tests(splits["dev"], tests)
    dev = splits["dev"].without(rows)
    located = dataclasses.replace(located, sha256=sha256_json([located.sha256, rows]))
    others = splits["test"].texts()
    pairs_data = PairsData(located, {"dev": dev}, dev, others, limit=limit, train=splits["train"])
    pairs_data.dev_in_test = []
    return pairs_data


def without_duplicates(row: TaskRow, data: DataSource, limit: int | None) -> PairsData:
    """Score test pairs whose texts, in either order, are no other pair of train, dev or test."""
    located = data.locate(row.dataset, row.form)
    splits = stsb_splits(located)
    pairs = {split: [frozenset(both) for both in zip(p.first, p.second, strict=True)] for split, p in splits.items()}
    times = Counter(pair for of_split in pairs.values() for pair in of_split)
    again = {split: {i for i, pair in enumerate(pairs[split]) if times[pair] > 1} for split in ("dev", "test")}
    test, dev = (splits[split].without(again[split]) for split in ("test", "dev"))
    repeats = dev_rows_in_tests("STS-B" if row.form == "tokenised" else "STS-B-raw", located.sha256)
    located = dataclasses.replace(located, sha256=sha256_json([located.sha256, sorted(again["test"])]))
    pairs_data = PairsData(located, {"test": test}, dev, limit=limit, train=splits["train"])
    kept = [i for i in range(len(pairs["dev"])) if i not in again["dev"]]
    pairs_data.dev_in_test = None if repeats is None else [new for new, old in enumerate(kept) if old in set(repeats)]
    return pairs_data


def three_splits(
    row: TaskRow,
    data: DataSource,
    limit: int | None,
    *,
    splits: Callable[[Located], Splits],
    use: Callable[[Located, Splits, int | None], TaskData] = cosine_of_test,
) -> TaskData:
    located = data.locate(row.dataset, row.form)
    return use(located, splits(located), limit)


# *SEM 2013 is without its SMT subset (licence). The raw files of 2016 name both sources of each pair in extra fields.
_YEARS = {2012: "STS 2012", 2013: "STS 2013 (without SMT)", 2014: "STS 2014", 2015: "STS 2015", 2016: "STS 2016"}

# SentEval itself trains a regressor under the name STS Benchmark. Here dev pairs pick checkpoints; ablations of papers
# score them, but not in one table with test scores.
_test = partial(three_splits, splits=stsb_splits)
_dev = partial(three_splits, splits=stsb_splits, use=cosine_of_dev)
ROWS = (
    *(
        TaskRow(f"STS{y % 100}", title, f"STS{y % 100}", year, "tokenised", aliases=(f"STS{y}",))
        for y, title in _YEARS.items()
    ),
    *(
        TaskRow(
            f"STS{y % 100}-raw",
            f"STS {y}, untokenised",
            f"STS{y % 100}",
            partial(year, extra_fields=2 if y == 2016 else 0),
            "raw",
        )
        for y in _YEARS
    ),
    TaskRow("STS-B", "STS Benchmark, test", "STSBenchmark", _test, "tokenised", aliases=("STSBenchmark",)),
    TaskRow("STS-B-dev", "STS Benchmark, dev", "STSBenchmark", _dev, "tokenised", aliases=("STSBenchmark-dev",)),
    *(
        TaskRow(name, f"STS Benchmark, dev without test pairs of STS12-16{more}", "STSBenchmark", disjoint, form)
        for name, more, form in (
            ("stsb-dev-disjoint", "", "tokenised"),
            ("stsb-dev-disjoint-raw", ", untokenised", "raw"),
        )
    ),
    *(
        TaskRow(
            name, f"STS Benchmark, test without pairs that occur twice{more}", "STSBenchmark", without_duplicates, form
        )
        for name, more, form in (("stsb-once", "", "tokenised"), ("stsb-once-raw", ", untokenised", "raw"))
    ),
    TaskRow(
        "STS-B-raw", "STS Benchmark, test, untokenised", "STSBenchmark", _test, "raw", aliases=("STSBenchmark-raw",)
    ),
)
