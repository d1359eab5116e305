"""HEROS (Chiang et al. 2023): the replaced words an encoder takes for a change of meaning. Nothing is trained.

The file is the authors' `heros.tsv` (hub: dcml0714/Heros): a sentence a line and its versions, each with a few words
replaced, a column per kind. The card names Negation twice and a column its text calls "Random MLM".
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmark.data.catalog import Dataset
from benchmark.data.readers.pairs import _fields, read_lines
from benchmark.data.sources import DataSource, Located
from benchmark.metrics.items import items_part
from benchmark.reasons import reason
from benchmark.tasks import plain_name
from benchmark.tasks.base import Lookup, Scores, TaskData, TaskRow
from benchmark.tasks.phrases import brought, unit
from zoo.errors import CorruptError, MissingError

FILE = "heros.tsv"
"""The place in a data folder; no sha256 of the file is known, so its own is in records."""

KINDS = ("synonym", "antonym", "negation", "random", "typo")


def read_heros(path: Path) -> dict[str, list[str]]:
    """Read columns, `original` first; a second column Negation must equal the first."""
    lines = read_lines(path)
    head = [plain_name(name) for name in (lines or [""])[0].split("\t")]
    head = ["random" if name == "randommlm" else name for name in head]
    if {*head} != {"original", *KINDS} or len(head) - len({*head}) != head.count("negation") - 1:
        raise CorruptError(
            f"{path}:1: the header is not Original, Synonym, Antonym, Negation, Random, Typo, in any order; "
            "name the columns so, separated by tabs."
        )
    rows = [_fields(line, len(head), len(head), f"{path}:{number}") for number, line in enumerate(lines[1:], 2)]
    columns: dict[str, list[str]] = {}
    for name, texts in zip(head, zip(*rows, strict=True), strict=False):
        if columns.setdefault(name, list(texts)) != list(texts):
            raise CorruptError(f"{path}:1: two columns {name} differ; leave the right one.")
        if not all(text.strip() for text in texts):
            raise CorruptError(f"{path}: a text of the column {name} is empty; restore the file.")
    if len(rows) < 2:
        raise CorruptError(f"{path}: fewer than two sentences; restore the file.")
    return {name: columns[name] for name in ("original", *KINDS)}


class HerosScores(Scores, total=False):
    """By kind the mean `cosine` with the original and `normalised`; `random_pairs` is the cosine at its 0.

    `over_antonym` and `over_negation` are the shares of originals nearer to the synonym than to that version.
    """

    kinds: dict[str, dict[str, float | None]]
    random_pairs: float
    over_antonym: float
    over_negation: float


class HerosData(TaskData):
    metrics = ("items",)

    def __init__(self, located: Located, columns: dict[str, list[str]]) -> None:
        self.located, self.columns = located, columns
        self.rows = len(columns["original"])

    def texts(self) -> list[str]:
        return [text for texts in self.columns.values() for text in texts]

    def score(self, vectors: Lookup) -> HerosScores:
        """Return as `main` the share of originals nearer to the synonym than to antonym and negation."""
        versions = unit(vectors(self.texts())).reshape(len(self.columns), self.rows, -1)
        original = versions[0]
        cosines = np.round(np.einsum("knd,nd->kn", versions[1:], original), 9)
        of = dict(zip(KINDS, cosines, strict=True))
        # The squared length of the sum holds each pair of different originals twice, and each original with itself.
        alone = (original**2).sum()
        between = float(((original.sum(axis=0) ** 2).sum() - alone) / (self.rows * (self.rows - 1)))
        means = {kind: float(cosine.mean()) for kind, cosine in of.items()}
        nearer = {kind: of["synonym"] > of[kind] for kind in ("antonym", "negation")}
        both = nearer["antonym"] & nearer["negation"]
        constant = not np.ptp(cosines)
        return {
            "main": None if constant else float(np.mean(both)),
            "main_metric": "synonym_nearest",
            "reason": reason("constant") if constant else None,
            "kinds": {
                kind: {"cosine": mean, "normalised": None if constant else (mean - between) / (1 - between)}
                for kind, mean in means.items()
            },
            "random_pairs": between,
            "over_antonym": float(nearer["antonym"].mean()),
            "over_negation": float(nearer["negation"].mean()),
            "items": items_part(both, self.columns["original"]),
        }


def replaced_words(row: TaskRow, data: DataSource, limit: int | None) -> HerosData:
    """Read the first `limit` originals, at least two; raises MissingError or CorruptError."""
    path = None if data.folder is None else data.folder / FILE
    if path is None or not path.is_file():
        raise MissingError(
            f"{row.dataset}: no {FILE} in the data folder; put the file of the hub's data set dcml0714/Heros there and"
            " give the folder with --data or ZOO_BENCH_DATA."
        )
    columns = read_heros(path)
    entry = Dataset(row.dataset, row.title, row.licence, citation=row.citation, rows={"test": len(columns["original"])})
    first = None if limit is None else max(limit, 2)
    return HerosData(brought(entry, row.form, [path]), {name: texts[:first] for name, texts in columns.items()})


class _Heros(TaskRow):
    licence = "Apache-2.0"
    citation = "Chiang et al. 2023, Revealing the Blind Spot of Sentence Encoder Evaluation by HEROS"


ROWS = (
    _Heros(
        "heros-order",
        "HEROS, synonym nearer than antonym and negation",
        "HEROS",
        replaced_words,
        metric="share of sentences",
    ),
)
