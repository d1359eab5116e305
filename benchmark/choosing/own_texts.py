"""A user's own texts to train on: their documents and sentences, and what makes them unfit for training."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmark.choosing.language import is_other_than_english
from benchmark.data.corpora import normalised, normalised_texts
from benchmark.data.readers.pairs import lines_of, sample_documents
from zoo.encoder import Corpus
from zoo.errors import MissingError, UsageError
from zoo.paths import user_path

FEWEST_TEXTS = 100
# Two blocks of two need so many: texts with as many are documents.
_SENTENCES = 4
_END = re.compile(r"(?<=[.!?…])[\"')\]”’]*\s+(?=\S)")


@dataclass(frozen=True)
class OwnTexts:
    """Documents, each its sentences in order; without `ordered` each is one text that has no neighbours."""

    name: str
    documents: list[list[str]]
    ordered: bool

    @property
    def texts(self) -> list[str]:
        """All sentences."""
        return [text for document in self.documents for text in document]

    def without(self, tested: Sequence[str], held_out: frozenset[int]) -> tuple[OwnTexts, int]:
        """Return the texts but those documents and the texts that are tested, and how many of the latter there were."""
        known = normalised_texts(tested)
        rest = [document for number, document in enumerate(self.documents) if number not in held_out]
        kept = [[text for text in document if normalised(text) not in known] for document in rest]
        removed = sum(map(len, rest)) - sum(map(len, kept))
        return replace(self, documents=[document for document in kept if document]), removed

    def corpus(self) -> Corpus:
        """Return them as a training text, each once where they have no order.

        Raises UsageError for fewer than `FEWEST_TEXTS` different texts.
        """
        texts = self.texts
        distinct = list(dict.fromkeys(texts))
        if len({normalised(text) for text in distinct}) < FEWEST_TEXTS:
            alike = f", of which {len(distinct):,} differ" if len(distinct) < len(texts) else ""
            raise UsageError(
                f"{self.name} has {len(texts):,} texts to train on{alike}; fewer than {FEWEST_TEXTS} different ones"
                " teach nothing. Give more."
            )
        if not self.ordered:
            return Corpus(self.name, distinct)
        starts = [0, *accumulate(map(len, self.documents))][: len(self.documents)]
        return Corpus(self.name, texts, documents=starts)


def read_own_texts(source: Any, columns: str | None = None) -> OwnTexts:
    """Read a file of lines, a table's text column, a folder of .txt files, or lists of texts or of documents.

    An empty line ends a document, and so does a file's end in a folder. Lines or cells that mostly have several
    sentences are documents too, and are divided into these. Raises MissingError or UsageError where there is no text.
    """
    if not isinstance(source, str | Path):
        lists = [[one] if isinstance(one, str) else list(one) for one in source]
        return _divided("texts", lists, ordered=any(len(one) > 1 for one in lists))
    path = user_path(str(source))
    if path.is_dir():
        files = sorted(path.glob("*.txt"))
        documents = [[line for line in lines_of(file) if line.strip()] for file in files]
        if not any(documents):
            raise UsageError(f"{path} has no .txt file with text; give such a folder, a file of lines, or a table.")
        return _divided(path.resolve().name, documents, ordered=True)
    if not path.is_file():
        raise MissingError(f"{path}: there is no such file.")
    lines, starts, ended = sample_documents(lines_of(path, columns), None)
    if not lines:
        raise UsageError(f"{path} has no text; give one text a line, a table, or documents with empty lines between.")
    bounds = [*starts, len(lines)] if ended else range(len(lines) + 1)
    return _divided(path.name, [lines[i:j] for i, j in pairwise(bounds)], ordered=ended)


def _divided(name: str, documents: list[list[str]], *, ordered: bool) -> OwnTexts:
    """Return documents with sentences of their own where most of them are one long text."""
    clean = [[" ".join(text.split()) for text in document if text.strip()] for document in documents]
    clean = [document for document in clean if document]
    sentences = [[part for text in document for part in _END.split(text)] for document in clean]
    if clean and median(map(len, clean)) < 2 and median(map(len, sentences)) >= _SENTENCES:
        return OwnTexts(name, sentences, ordered=True)
    return OwnTexts(name, clean, ordered)


def language_notes(texts: Sequence[str], tested: Sequence[str], encoder: str, languages: Sequence[str]) -> list[str]:
    """Return what the languages of texts and of the test say against the encoder, whose card names `languages`."""
    other, notes = is_other_than_english(texts), []
    if other != is_other_than_english(tested):
        notes.append("The texts and the test are in different languages.")
    if other and {*languages} <= {"en", "english"}:
        what = "is made for English" if languages else "does not state its languages"
        notes.append(f"The texts are not in English, and {encoder} {what}.")
    return notes
