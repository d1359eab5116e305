"""Phrase tasks: graded pairs (BiRD, PPDB), the right word among seven (Turney) or thousands (PPDB-XXL).

A right choice has a cosine above all others; a tie counts as wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchmark.data.catalog import Dataset
from benchmark.data.readers.pairs import Pairs
from benchmark.data.readers.phrases import Choice, read_bigram_words, read_bird, read_turney
from benchmark.data.readers.ppdb import PPDBReport, is_pack, ppdb_test_pairs, read_ppdb_human, split_ppdb_human
from benchmark.data.sources import DataSource, Located
from benchmark.metrics.items import accuracy_of, items_part, ranked_part
from benchmark.reasons import reason
from benchmark.tasks.base import Lookup, PairsData, Scores, TaskData, TaskRow, check_rows
from zoo.errors import CorruptError, MissingError
from zoo.files import sha256_file, sha256_json
from zoo.progress import print_safe

PACK = "phrases/ppdb-2.0"
"""The place in a data folder where a pack of PPDB 2.0 is looked for."""


def brought(entry: Dataset, form: str, files: list[Path]) -> Located:
    """Give files unknown to the catalog their own sha256, for keys and records."""
    sha256 = sha256_json({file.name: sha256_file(file) for file in files})
    return Located(entry, form, "folder", {file.name: file for file in files}, sha256)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Scale (n, dim) to length 1, float64; an uncovered text's zero vector stays, with cosine 0."""
    vectors = vectors.astype(np.float64)
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    result: np.ndarray = vectors / np.where(norms == 0, 1, norms)
    return result


class ChoiceData(TaskData):
    metrics = ("items",)

    def __init__(self, located: Located, choices: list[Choice]) -> None:
        self.located, self.choices = located, choices
        self.rows = len(choices)

    def texts(self) -> list[str]:
        return [text for choice in self.choices for text in choice.texts()]

    def score(self, vectors: Lookup) -> Scores:
        """Return accuracy of five choices (`main`) and of all seven; chance is a fifth and a seventh."""
        items = unit(vectors(self.texts())).reshape(self.rows, len(self.choices[0].texts()), -1)
        cosines = np.round(np.einsum("id,icd->ic", items[:, 0], items[:, 1:]), 9)
        first = [cosines[:, 0] > cosines[:, 1:count].max(1) for count in (5, 7)]
        five, seven = (float(np.mean(right)) for right in first)
        constant = not np.ptp(cosines)
        return {
            "main": None if constant else five,
            "main_metric": "accuracy",
            "reason": reason("constant") if constant else None,
            "accuracy": five,
            "accuracy_seven": seven,
            "items": items_part(first[0], [choice.texts() for choice in self.choices]),
        }


class RetrievalData(TaskData):
    metrics = ("items",)

    def __init__(self, located: Located, phrases: list[str], right: list[str], words: list[str]) -> None:
        self.located, self.phrases, self.right = located, phrases, right
        self.words = list(dict.fromkeys(words))
        self.rows = len(phrases)

    def texts(self) -> list[str]:
        return self.phrases + self.words

    def score(self, vectors: Lookup) -> Scores:
        """Return the right word's mean reciprocal rank (`main`) and share at rank 1; ties are lost."""
        cosines = np.round(unit(vectors(self.phrases)) @ unit(vectors(self.words)).T, 9)
        column = {word: number for number, word in enumerate(self.words)}
        right = cosines[np.arange(self.rows), [column[word] for word in self.right]]
        ranks = (cosines >= right[:, None]).sum(1)
        constant, items = not np.ptp(cosines), ranked_part(ranks, [*zip(self.phrases, self.right, strict=True)])
        return {
            "main": None if constant else accuracy_of(items),
            "main_metric": "mrr",
            "reason": reason("constant") if constant else None,
            "items": items,
            "mrr": accuracy_of(items),
            "accuracy": float(np.mean(ranks == 1)),
            "words": len(self.words),
        }


def bigram_relatedness(row: TaskRow, data: DataSource, limit: int | None) -> PairsData:
    located = data.locate(row.dataset, row.form)
    pairs = read_bird(located.files["BiRD.txt"])
    check_rows(located, "test", len(pairs))
    return PairsData(located, {"test": pairs}, limit=limit)


def scored_by_people(row: TaskRow, data: DataSource, limit: int | None) -> PairsData:
    """Read pairs; the training part only serves transductive fits."""
    located = data.locate(row.dataset, row.form)
    train, test = split_ppdb_human(pair for path in located.files.values() for pair in read_ppdb_human(path))
    check_rows(located, "train", len(train))
    check_rows(located, "test", len(test))
    gold = np.array([pair.score for pair in test], dtype=np.float64)
    pairs = Pairs([pair.phrase for pair in test], [pair.paraphrase for pair in test], gold)
    others = [text for pair in train for text in (pair.phrase, pair.paraphrase)]
    return PairsData(located, {"test": pairs}, others=others, limit=limit)


def held_out_of_a_pack(row: TaskRow, data: DataSource, limit: int | None) -> PairsData:
    """Read a pack; raises MissingError without it, CorruptError without test pairs."""
    folder = None if data.folder is None else data.folder / PACK
    packs = [] if folder is None or not folder.is_dir() else [path for path in folder.iterdir() if is_pack(path)]
    if len(packs) != 1:
        raise MissingError(
            f"{row.dataset}: {len(packs)} packs in {PACK} of the data folder instead of one; put a phrasal pack of"
            " PPDB 2.0 (paraphrase.org) there and give the folder with --data or ZOO_BENCH_DATA."
        )
    report = PPDBReport()
    pairs = ppdb_test_pairs(packs[0], report)
    print_safe(f"{packs[0].name}: {report}", sys.stderr)
    if not len(pairs):
        raise CorruptError(f"{packs[0]} holds no pair to test: {report}.")
    entry = Dataset(row.dataset, row.title, "CC BY-SA 3.0 (unported)", rows={"test": len(pairs)})
    return PairsData(brought(entry, row.form, packs), {"test": pairs}, limit=limit)


def questions(row: TaskRow, data: DataSource, limit: int | None) -> ChoiceData:
    located = data.locate(row.dataset, row.form)
    choices = read_turney(located.files["jair.data"])
    check_rows(located, "test", len(choices))
    return ChoiceData(located, choices[:limit])


def words_of_phrases(row: TaskRow, data: DataSource, limit: int | None) -> RetrievalData:
    """Read the first `limit` of each part: test is scored, all words are searched."""
    located = data.locate(row.dataset, row.form)
    parts = {}
    for split in ("train", "dev", "test"):
        parts[split] = read_bigram_words(located.files[f"ppdb.xxl.b2u.{split}"])
        check_rows(located, split, len(parts[split][0]))
    phrases, right = parts["test"]
    words = [word for _, part in parts.values() for word in part[:limit]]
    return RetrievalData(located, phrases[:limit], right[:limit], words)


ROWS = (
    # BURT's phrase set (section 4.2): pairs of a PPDB 2.0 pack held out by their phrase, gold its equivalence score.
    # The phrasal pack must be the only file in the data folder's `phrases/ppdb-2.0`; training leaves these pairs out.
    TaskRow("PPDB", "PPDB 2.0, equivalence score of held-out phrases", "PPDB-2.0", held_out_of_a_pack),
)
