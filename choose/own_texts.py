"""A user's own texts for training: documents and sentences, their language, and their fitness."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmark.data.corpora import normalised, normalised_texts
from benchmark.data.readers.pairs import lines_of, sample_documents
from choose.data import FEWEST, Texts
from zoo.encoder import Corpus
from zoo.errors import MissingError, UsageError
from zoo.paths import user_path

FEWEST_TEXTS = 100
# Two blocks of two need so many: texts with as many are documents.
_SENTENCES = 4
_END = re.compile(r"(?<=[.!?…])[\"')\]”’]*\s+(?=\S)")


@dataclass(frozen=True)
class OwnTexts:
    """Documents of sentences; without `ordered` each is a text without neighbours."""

    name: str
    documents: list[list[str]]
    ordered: bool

    @property
    def texts(self) -> list[str]:
        return [text for document in self.documents for text in document]

    def without(self, tested: Sequence[str], held_out: frozenset[int]) -> tuple[OwnTexts, int]:
        """Remove documents and tested texts; also returns the number of the latter."""
        known = normalised_texts(tested)
        rest = [document for number, document in enumerate(self.documents) if number not in held_out]
        kept = [[text for text in document if normalised(text) not in known] for document in rest]
        removed = sum(map(len, rest)) - sum(map(len, kept))
        return replace(self, documents=[document for document in kept if document]), removed

    def corpus(self) -> Corpus:
        """Raises UsageError for fewer than `FEWEST_TEXTS` different texts."""
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

    An empty line or a file of a folder ends a document. Lines or cells of mostly several sentences are documents too.
    Raises MissingError or UsageError if there is no text.
    """
    if not isinstance(source, str | Path):
        lists = [[document] if isinstance(document, str) else list(document) for document in source]
        return _divided("texts", lists, ordered=any(len(document) > 1 for document in lists))
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
    clean = [[" ".join(text.split()) for text in document if text.strip()] for document in documents]
    clean = [document for document in clean if document]
    sentences = [[part for text in document for part in _END.split(text)] for document in clean]
    if clean and median(map(len, clean)) < 2 and median(map(len, sentences)) >= _SENTENCES:
        return OwnTexts(name, sentences, ordered=True)
    return OwnTexts(name, clean, ordered)


def language_notes(texts: Sequence[str], tested: Sequence[str], encoder: str, languages: Sequence[str]) -> list[str]:
    other, notes = is_other_than_english(texts), []
    if other != is_other_than_english(tested):
        notes.append("The texts and the test are in different languages.")
    if other and {*languages} <= {"en", "english"}:
        what = "is made for English" if languages else "does not state its languages"
        notes.append(f"The texts are not in English, and {encoder} {what}.")
    return notes


_WORDS = re.compile(r"[^\W\d_]+")
_ENGLISH = frozenset("the of and to is in that it for was with on are this be you not what how".split())
# The commonest words of other languages in Latin letters, without those that English has too.
_OTHERS = [
    frozenset(words.split())
    for words in (
        "der die das und ist nicht ein eine mit von zu den auf für ich wie",
        "le la les des et est une dans que pour pas sur du au avec qui",
        "el los las del y es una en que por para con como su al se",
        "il di che è una per non con sono del della le si nel come gli",
        "het een van en dat niet met voor zijn op te wat hoe ik je",
        "o os um uma de do da que não para com em por se mais como",
        "i na nie się jest z do to że w jak co dla po od ze",
        "och att det som en är på för inte med av till den har ett hur",
    )
]


def is_other_than_english(texts: Sequence[str], most: int = 2_000) -> bool:
    """True by foreign letters, or by more of another language's commonest words.

    False for English, and without evidence, as in lists of products.
    """
    words = [word for text in texts[:: max(1, len(texts) // most)][:most] for word in _WORDS.findall(text.lower())]
    letters = sum(map(len, words))
    if sum(sum(letter > "\u024f" for letter in word) for word in words) * 2 > letters:
        return True
    counts = Counter(words)
    english, *others = (sum(counts[word] for word in common) for common in (_ENGLISH, *_OTHERS))
    return max(others) > 2 * english and max(others) * 50 >= len(words) > 0


# One document of so many is for development, and one for the test; a long one has at most so many couples.
_SHARE = 5
_MOST = 8
_TITLE_WORDS = 12
_ENDS = (".", "!", "?", "…", ":", ";", '"', "'", ")", "”", "’")

# A document's number, and two of its lines that stand together.
Couple = tuple[int, str, str]


@dataclass(frozen=True)
class Signal:
    """Pairs of held-out documents: 1 for neighbours, 0 for others.

    No document is in both `development` and `test`; `held_out` are the numbers of all their documents.
    """

    development: Texts
    test: Texts
    held_out: frozenset[int]


def document_items(documents: Sequence[Sequence[str]], seed: int = 0) -> Signal:
    """Return the signal of documents; a fifth of them each is development and test.

    A pair is a title and the line below it, if most documents begin with a title; else two neighbouring sentences. As
    many pairs join two documents. Sentences of pairs stand nowhere else. Raises UsageError without documents, or with
    too few pairs.
    """
    if len(documents) < _SHARE:
        raise UsageError(
            f"the texts have no signal of their own: {len(documents)} documents, and {_SHARE} are the least. Put an"
            " empty line after each document, or give --pairs."
        )
    numbers = list(range(len(documents)))
    generator = random.Random(seed)
    generator.shuffle(numbers)
    share = len(documents) // _SHARE
    parts = [sorted(numbers[:share]), sorted(numbers[share : 2 * share])]
    often = Counter(line for lines in documents for line in lines)
    with_title = _have_titles(documents)
    development, test = (_half(documents, part, often, with_title, generator) for part in parts)
    return Signal(development, test, frozenset(numbers[: 2 * share]))


def _half(
    documents: Sequence[Sequence[str]],
    part: Sequence[int],
    often: Counter[str],
    with_title: bool,
    generator: random.Random,
) -> Texts:
    titles = [(i, documents[i][0], documents[i][1]) for i in part if len(documents[i]) > 1]
    couples, what = _single(titles, often) if with_title else [], "titles with the line below"
    if len(couples) < FEWEST:
        what = "neighbouring sentences"
        couples = _single([couple for i in part for couple in _neighbours(i, documents[i], generator)], often)
    generator.shuffle(couples)
    near, far = couples[: len(couples) // 2], _apart(couples[len(couples) // 2 :])
    if len(near) + len(far) < FEWEST or not far:
        raise UsageError(
            f"the texts have too little signal of their own: {len(part)} held-out documents give"
            f" {len(near) + len(far)} pairs, and {FEWEST} are the least. Give more or longer documents, or --pairs."
        )
    texts = [text for pair in [(a, b) for _, a, b in near] + far for text in pair]
    report = f"signal without pairs: {len(near)} {what} against {len(far)} of two documents, of {len(part)} held out"
    first = np.arange(0, len(texts), 2)
    return Texts("binary", report, texts, first, first + 1, np.repeat([1.0, 0.0], [len(near), len(far)]))


def _have_titles(documents: Sequence[Sequence[str]]) -> bool:
    first, second = ([_is_title(lines[place]) for lines in documents if len(lines) > 1] for place in (0, 1))
    return sum(first) * 2 > len(first) and sum(second) * 2 < len(second)


def _is_title(line: str) -> bool:
    return len(line.split()) <= _TITLE_WORDS and not line.rstrip().endswith(_ENDS)


def _neighbours(number: int, lines: Sequence[str], generator: random.Random) -> list[Couple]:
    couples = [(number, lines[place], lines[place + 1]) for place in range(0, len(lines) - 1, 2)]
    return generator.sample(couples, min(_MOST, len(couples)))


def _single(couples: Sequence[Couple], often: Counter[str]) -> list[Couple]:
    return [couple for couple in couples if often[couple[1]] == often[couple[2]] == 1]


def _apart(couples: Sequence[Couple]) -> list[tuple[str, str]]:
    ordered = sorted(couples)
    turned = [*ordered[len(ordered) // 2 :], *ordered[: len(ordered) // 2]]
    return [(a[1], b[2]) for a, b in zip(ordered, turned, strict=True) if a[0] != b[0]]
