"""Reads packs of the Paraphrase Database (PPDB) 2.0 and its human-scored pairs, and splits them for training and test.

A line of a pack: LHS ||| phrase ||| paraphrase ||| features ||| alignment ||| relation; a feature is "name=value".
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from benchmark.data.readers.pairs import Pairs, read_lines
from zoo.encoder import PHRASE_LABELS
from zoo.errors import CorruptError, MissingError
from zoo.files import hash_fraction, iterate_bytes

RELATIONS = ("Equivalence", "ForwardEntailment", "ReverseEntailment", "Independent", "Exclusion", "OtherRelated")

# BURT section 3.1: both directions of entailment are one class; Exclusion and OtherRelated are removed.
LABEL_OF = {
    "Equivalence": PHRASE_LABELS[0],
    "ForwardEntailment": PHRASE_LABELS[1],
    "ReverseEntailment": PHRASE_LABELS[1],
    "Independent": PHRASE_LABELS[2],
}
# BURT, sections 3.1 and 3.2; it tests 32,202 of 1.53 million pairs by an unknown split, here a share of target phrases.
MAX_WORDS = 6
PER_CLASS = 354_000
TEST_SHARE = 0.02

HUMAN_TEST_SHARE = 0.5
# Classes by the raters' mean, 1 (unrelated) to 5 (the same): means that round to 4 or 5 are equivalent, those below 2
# independent; the others (related but not the same) count as entailment. Each class has at least a fifth of the pairs.
EQUIVALENT_FROM = 3.5
INDEPENDENT_BELOW = 2.0

_EQUIVALENCE = re.compile(r"(?:^|\s)Equivalence=(\S*)")
_NONTERMINAL = re.compile(r"\[\S+,\d+\]")
# Malformed lines that a report names; the others are counted.
_NAMED = 5


@dataclass(frozen=True)
class PPDBPair:
    """A line of a pack; `equivalence` is the probability in [0, 1] of equal meaning."""

    target: str
    paraphrase: str
    relation: str
    equivalence: float


@dataclass
class PPDBReport:
    lines: int = 0
    malformed: int = 0
    named: list[str] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)

    def malformed_line(self, where: str, problem: str) -> None:
        self.malformed += 1
        if len(self.named) < _NAMED:
            self.named.append(f"{where}: {problem}")

    def __str__(self) -> str:
        named = "; ".join(self.named) + ("; ..." if self.malformed > len(self.named) else "")
        broken = f"{self.malformed:,} malformed" + (f" ({named})" if named else "")
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.dropped.items()))
        return f"{self.lines:,} lines of PPDB: {broken}; left out: {left_out or 'none'}"


def is_pack(path: Path) -> bool:
    try:
        return any(line.count(b"|||") >= 4 for line in islice(iterate_bytes(path, "PPDB pack"), 20))
    except (CorruptError, MissingError):
        return False


def read_ppdb(path: Path, report: PPDBReport) -> Iterator[PPDBPair]:
    """Yield the pairs of a pack (also .gz and .xz); malformed lines go to the report.

    Raises MissingError for an absent file, CorruptError for a cut archive.
    """
    for number, line in enumerate(iterate_bytes(path, "PPDB pack"), 1):
        report.lines += 1
        try:
            pair = _parse(line.decode("utf-8"))
        except ValueError as error:
            report.malformed_line(f"{path}:{number}", str(error))
            continue
        yield pair


def _parse(line: str) -> PPDBPair:
    fields = [part.strip() for part in line.split("|||")]
    if len(fields) != 6:
        raise ValueError(f"{len(fields)} fields instead of 6")
    _, target, paraphrase, features, _, relation = fields
    if not target or not paraphrase:
        raise ValueError("a phrase is empty")
    if relation not in RELATIONS:
        raise ValueError(f"{relation!r} is no relation")
    match = _EQUIVALENCE.search(features)
    if match is None:
        raise ValueError("no feature Equivalence")
    equivalence = float(match[1])
    if not 0 <= equivalence <= 1:
        raise ValueError(f"Equivalence={match[1]} is outside 0..1")
    return PPDBPair(target, paraphrase, relation, equivalence)


def normalised_phrase(phrase: str) -> str:
    """Return lower case with single blanks; BURT states nothing more about its normalisation."""
    return " ".join(phrase.lower().split())


def filtered(pairs: Iterable[PPDBPair], report: PPDBReport, *, max_words: int = MAX_WORDS) -> Iterator[PPDBPair]:
    """Normalise pairs and apply the filters of BURT (section 3.1); the report counts the reasons.

    Left out are relations without a class, patterns with a gap, phrases longer than `max_words`, pairs of single words
    (BURT uses phrases), equal sides, and repetitions (a pair under several syntactic labels: the first counts).
    """
    seen: set[tuple[str, str]] = set()
    for pair in pairs:
        target, paraphrase = sides = normalised_phrase(pair.target), normalised_phrase(pair.paraphrase)
        words = [len(side.split()) for side in sides]
        if pair.relation not in LABEL_OF:
            reason = f"of relation {pair.relation}"
        elif any(_NONTERMINAL.search(side) for side in (pair.target, pair.paraphrase)):
            reason = "with a gap"
        elif max(words) > max_words:
            reason = f"longer than {max_words} words"
        elif max(words) == 1:
            reason = "of single words"
        elif target == paraphrase:
            reason = "of equal sides"
        elif sides in seen:
            reason = "repeated"
        else:
            seen.add(sides)
            yield PPDBPair(target, paraphrase, pair.relation, pair.equivalence)
            continue
        report.dropped[reason] += 1


def balanced(rows: Iterable[tuple[str, str, str]], per_class: int | None, seed: int = 0) -> list[tuple[str, str, str]]:
    """Sample equally many rows (phrase, paraphrase, label) of each label, in order: at most as many as the rarest has.

    Reservoir sampling reads the rows once, and keeps at most `per_class` of each label.
    """
    generator = random.Random(seed)
    kept: dict[str, list[tuple[int, tuple[str, str, str]]]] = {label: [] for label in PHRASE_LABELS}
    met: Counter[str] = Counter()
    for number, row in enumerate(rows):
        drawn = kept[row[2]]
        met[row[2]] += 1
        if per_class is None or len(drawn) < per_class:
            drawn.append((number, row))
            continue
        slot = generator.randrange(met[row[2]])
        if slot < per_class:
            drawn[slot] = number, row
    each = min(len(drawn) for drawn in kept.values())
    chosen = [item for drawn in kept.values() for item in generator.sample(drawn, each)]
    return [row for _, row in sorted(chosen)]


def ppdb_training_rows(path: Path, report: PPDBReport, per_class: int | None = PER_CLASS) -> list[tuple[str, str, str]]:
    """Return balanced rows (phrase, paraphrase, label); no test target occurs on either side."""
    pairs = (
        pair
        for pair in filtered(read_ppdb(path, report), report)
        if min(hash_fraction(pair.target), hash_fraction(pair.paraphrase)) >= TEST_SHARE
    )
    return balanced(((p.target, p.paraphrase, LABEL_OF[p.relation]) for p in pairs), per_class)


def ppdb_test_pairs(path: Path, report: PPDBReport) -> Pairs:
    """Return the pairs of the test targets; the gold is the equivalence score (BURT 4.2)."""
    pairs = [p for p in filtered(read_ppdb(path, report), report) if hash_fraction(p.target) < TEST_SHARE]
    gold = np.array([p.equivalence for p in pairs], dtype=np.float64)
    return Pairs([p.target for p in pairs], [p.paraphrase for p in pairs], gold)


@dataclass(frozen=True)
class HumanPair:
    """A scored pair: the raters' mean is 1 (unrelated) to 5 (the same)."""

    phrase: str
    paraphrase: str
    score: float

    @property
    def label(self) -> str:
        if self.score >= EQUIVALENT_FROM:
            return PHRASE_LABELS[0]
        return PHRASE_LABELS[2] if self.score < INDEPENDENT_BELOW else PHRASE_LABELS[1]


def read_ppdb_human(path: Path) -> list[HumanPair]:
    """Read mean score, syntactic label, phrase, paraphrase, every rater's score; tab-separated.

    Raises CorruptError naming the first line of another form.
    """
    pairs = []
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split("\t")
        try:
            score, _, phrase, paraphrase, _ = fields
            pair = HumanPair(phrase, paraphrase, float(score))
        except ValueError:
            raise CorruptError(f"{path}:{number}: expected score, label, phrase, paraphrase, scores.") from None
        if not 1 <= pair.score <= 5:
            raise CorruptError(f"{path}:{number}: score {pair.score} is outside 1..5.")
        pairs.append(pair)
    return pairs


def split_ppdb_human(pairs: Iterable[HumanPair]) -> tuple[list[HumanPair], list[HumanPair]]:
    """Split into (training, test) pairs without common phrases.

    The sha256 of its phrase makes a pair a test pair.
    """
    pairs = list(pairs)
    test = [pair for pair in pairs if hash_fraction(pair.phrase) < HUMAN_TEST_SHARE]
    tested = {side for pair in test for side in (pair.phrase, pair.paraphrase)}
    return [pair for pair in pairs if pair.phrase not in tested and pair.paraphrase not in tested], test


def human_training_rows(paths: Iterable[Path], per_class: int | None = None) -> list[tuple[str, str, str]]:
    """Return balanced rows (phrase, paraphrase, label) for training.

    Pairs of single words are left out, as in packs: they are half of the pairs, and their scores are so low that the
    length of a phrase would predict the class.
    """
    train, _ = split_ppdb_human(pair for path in paths for pair in read_ppdb_human(path))
    phrases = (p for p in train if max(len(side.split()) for side in (p.phrase, p.paraphrase)) > 1)
    return balanced(((p.phrase, p.paraphrase, p.label) for p in phrases), per_class)
