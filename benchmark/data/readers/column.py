"""A column of a table, and the evidence of its name and cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from benchmark.data.readers.cells import is_number
from benchmark.data.readers.labels import alike_of, says_unlike
from zoo.encoder import NLI_LABELS

# The names of a role's columns, singular, without case and signs; of texts the first that is there counts.
FIRST = "premise anchor query question first source text sentence content review tweet utterance".split()
SECOND = "hypothesis positive pos positivepassage positivectx document doc passage answer second target".split()
SECOND += "paraphrase response context text".split()
_VALUES = {
    "grade": re.compile(r"(is)?rel|qrels?|.*(relevan|judge?ment|grade|judged|isselected).*"),
    "score": re.compile(r"(mean)?scores?|(similarity|relatedness)(score)?|sim|gold|gs|rating"),
    "label": re.compile(
        r"(gold)?labels?|class|category|topic|intent|(is)?(duplicate|paraphrase|same|equal|similar)|entailmentjudgment"
    ),
}
_NEGATIVE = re.compile(r"(hard)?neg(ative)?(s|passages?|ctxs?)?\d*")
# sent0 and sent1, question1 and question2: a stem and two ends.
_STEMS = ("sentence", "sent", "text", "question", "s", "word", "phrase", "term", "query", "string", "document")
NUMBERED = [(stem + one, stem + two) for stem in _STEMS for one, two in (("0", "1"), ("1", "2"), ("a", "b"))]
ASKS, _ANSWERS = ("query", "question"), ("document", "doc", "passage", "answer")
# Names that do not say which of two texts asks, nor whether a number is a grade.
ANY_TEXT, _ANY_NUMBER = ("text", "sentence", "content", "review", "tweet", "utterance"), ("score", "label")
_ID = re.compile(r"(?i:|(.*[\W_])?(id|idx|index|row)|[qdp]id|docid|pairid)|.*[a-z]I[dD]")
_TOKEN, _ZEROS, _YEAR = re.compile(r"\S*\d\S*|\S+://\S+"), re.compile(r"0\d+"), re.compile(r"(19|20)\d\d")
_LANGUAGE = re.compile(r"[a-z]{2,3}([-_]\w+)?")
_WHO = re.compile(r"annotator|annotatedby|rater|ratedby|worker|coder")
_SPLITS = {"train", "training", "dev", "development", "valid", "validation", "test"}
# Fewer rows show nothing about what a column is; what is longer than a class's name is a text.
FEW, LONGEST_NAME, MOST_WORDS = 6, 40, 3
# So many queries are the least of a search: as many short texts that repeat may ask, fewer are classes.
QUERIES = 20
# A judgement has at most so many grades.
_GRADES = 6
PRINTED = 12


def plain(name: str) -> str:
    """Return the last part of a name, without case and signs."""
    return re.sub(r"[\W_]+", "", name.rpartition(".")[2].lower())


def mostly(cells: Sequence[str], kind: Callable[[str], bool]) -> bool:
    """True if half of the non-empty cells are of a kind; the others are then errors."""
    filled = [cell for cell in cells if cell]
    return bool(filled) and 2 * sum(map(kind, filled)) >= len(filled)


def is_nli(cell: str) -> bool:
    return cell.lower() in NLI_LABELS


def is_short(cells: Sequence[str]) -> bool:
    return all(len(cell.split()) <= MOST_WORDS and len(cell) <= LONGEST_NAME for cell in cells)


def is_class(cells: Sequence[str]) -> bool:
    counts = Counter(filter(None, cells))
    often = 3 * len(counts) <= counts.total() or 2 * max(counts.values(), default=0) >= counts.total()
    return counts.total() >= FEW and often and is_short([*counts])


@dataclass(frozen=True, eq=False)
class Column:
    """A column, perhaps a list beside a text; its name is None without a header."""

    place: int
    name: str
    cells: list[str]
    named: bool = True
    is_list: bool = False
    was_list: bool = False

    @cached_property
    def looks(self) -> tuple[str, str]:
        """The look (number, words, class, text, list, constant, aside, empty), and the reason for the last two."""
        filled = [cell for cell in self.cells if cell]
        kinds = set(filled)
        if self.is_list or not filled:
            numbers = mostly(filled, is_number) and not self._states
            return ("empty", "empty") if not filled else ("aside", "lists of numbers") if numbers else ("list", "")
        if "lang" in self.key and all(map(_LANGUAGE.fullmatch, kinds)):
            return "aside", "languages"
        if len(kinds) == 1 and len(self.cells) >= FEW:
            return "constant", "constant"
        if mostly(filled, is_number):
            integers = [int(cell) for cell in kinds if cell.isdecimal()]
            once = len(integers) == len(filled)
            if (once and len(integers) > 2 and max(integers) - min(integers) < len(integers)) or any(
                map(_ZEROS.fullmatch, kinds)
            ):
                return "aside", "numbers of rows"
            if _ID.fullmatch(self.name) and len(integers) == len(kinds) and (once or len(kinds) >= QUERIES):
                return "aside", "ids"
            return ("aside", "years") if all(map(_YEAR.fullmatch, kinds)) else ("number", "")
        if mostly(filled, is_nli) or (len(filled) >= FEW and alike_of({cell.lower() for cell in kinds})):
            return "words", ""
        if {cell.lower() for cell in kinds} <= _SPLITS:
            return "aside", "splits"
        if _WHO.fullmatch(self.key) and is_short([*kinds]):
            return "aside", "annotators"
        if all(map(_TOKEN.fullmatch, kinds)) and (len(kinds) >= QUERIES or len(kinds) == len(filled)):
            return "aside", "ids"
        sparse = 2 * len(filled) < len(self.cells)
        return ("class", "") if is_class(filled) else ("aside", "mostly empty") if sparse else ("text", "")

    @property
    def look(self) -> str:
        return self.looks[0]

    @cached_property
    def key(self) -> str:
        return re.sub(r"(?<=..[^s])s$", "", plain(self.name)) if self.named else ""

    @cached_property
    def levels(self) -> int:
        return len(set(self.cells) - {""})

    @property
    def _states(self) -> str:
        kinds = (kind for kind, names in _VALUES.items() if names.fullmatch(self.key))
        return next(kinds, "score" * says_unlike(self.name)) if self.key else ""

    @cached_property
    def value(self) -> str:
        is_text = self.look == "list" or (self.look in ("text", "empty") and not is_short(self.cells))
        return "" if is_text else self._states

    @property
    def is_any(self) -> bool:
        unknown = not self.value or self.key in _ANY_NUMBER
        return self.look == "number" and unknown and not says_unlike(self.name)

    @property
    def can_be_text(self) -> bool:
        return self.look in ("text", "list", "class", "constant")

    @property
    def may_be_text(self) -> bool:
        return self.look == "class" and (self.levels >= QUERIES or mostly(self.cells, lambda cell: " " in cell))

    @property
    def is_negative(self) -> bool:
        return self.named and _NEGATIVE.fullmatch(plain(self.name)) is not None

    @property
    def states_text(self) -> bool:
        return self.key in (*FIRST, *SECOND) or self.is_negative

    def is_form_of(self, text: Column) -> bool:
        """True for another form of a text, as sentence1_parse of sentence1."""
        words = ([{*re.findall(r"\w+", cell)} for cell in column.cells] for column in (text, self))
        return self.name.startswith(text.name) and all(few <= many for few, many in zip(*words, strict=False))


@dataclass(frozen=True)
class Roles:
    texts: list[Column]
    value: Column | None = None
    negatives: Sequence[Column] = ()
    unused: dict[str, str] | None = None

    @property
    def judged(self) -> bool:
        """True for judgements of answers to a query, by name or in a query's list."""
        value = self.value if len(self.texts) == 2 else None
        if value is None or value.value == "grade":
            return value is not None
        graded = self.repeated and 2 < value.levels <= _GRADES and value.is_any
        return (value.was_list and self.texts[0].key in ASKS) or (graded and self.asks)

    @property
    def asks(self) -> bool:
        return self.texts[0].key in ASKS or self.texts[1].key in _ANSWERS

    @property
    def repeated(self) -> bool:
        return any(2 * text.levels <= len(text.cells) for text in self.texts)
