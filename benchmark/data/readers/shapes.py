"""The tables that are read without a question: documented shapes, by the names and the form of their columns.

A shape has its source, its columns by name (without case and signs; `<name>1, <name>2` is any name with the ends of
`ENDS`), and the form of its value. Beside it may stand, unused, the columns of `ASIDE` and columns with
one value. A new shape is one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from zoo.encoder import NLI_LABELS

Kind = Literal[
    "texts", "labelled texts", "pairs", "triples", "scored pairs", "judged pairs", "binary pairs", "labelled pairs"
]
Form = Literal["", "number", "binary", "nli", "class"]

SCORE = "score scores similarityscore similarity relatednessscore relatedness gold goldscore goldstandard meanscore"
LABEL = "label labels goldlabel"
SAME = "isduplicate duplicate same issame equal isequal match ismatch paraphrase isparaphrase similar issimilar quality"
GRADE = "relevance isrelevant relevant rel relevancelabel relevancescore relevancejudgment grade qrel isselected"
CLASS = "label labels class category topic intent goldlabel labeltext"
VALUES = frozenset(f"{SCORE} {LABEL} {SAME} {GRADE} {CLASS}".split())
NEGATIVE = "negative negatives neg hardneg hardnegative hardnegatives"
TEXT = "text sentence sentences review tweet utterance content document body comment"
ASKING, ANSWERING = "query question", "document doc passage answer context response positive"
ANCHOR = "anchor query question sentence premise"
NUMBERED = "<name>1"
ENDS = (("1", "2"), ("a", "b"), ("0", "1"), ("left", "right"), ("first", "second"))
# In training files, the names of lists and the column that each value belongs to.
NESTED = dict.fromkeys("pos poss positivepassages positivectxs positives".split(), "positive")
NESTED |= dict.fromkeys("negativepassages negativectxs hardnegativectxs".split(), "negative")
NESTED |= {"passagetext": "passage", "queries": "query", "documents": "document"}
ASIDE = frozenset(
    "id idx index nr no row number indexlevel0 level0 unnamed0 pairid captionid promptid queryid questionid"
    " documentid docid corpusid passageid qid pid qid1 qid2 id1 id2 1id 2id sid oldindex querytype answers"
    " wellformedanswers url page link genre dataset filename file year date split splits set lang lang1 lang2"
    " language languages domain source source1 source2 sentence1binaryparse sentence2binaryparse sentence1parse"
    " sentence2parse annotatorlabels label1 label2 label3 label4 label5 entailmentjudgment entailmentlabel"
    " labeltext posscores negscores posid negid vector embedding embeddings annotator annotatorid annotationid"
    " annotatedby rater worker workerid coder user username email emailaddress hitid hittypeid assignmentid"
    " assignmentstatus worktimeinseconds createdat updatedat leadtime timestamp inputhash taskhash viewid"
    " sessionid note notes remark remarks comments meta metadata".split()
)
# Two words of a label; the first says that two texts are alike.
WORDS = {("1", "0"), ("true", "false"), ("yes", "no"), ("same", "different"), ("match", "mismatch")}
WORDS |= {(word, f"not_{word}") for word in "duplicate equivalent paraphrase entailment similar same match".split()}
EMPTY = frozenset({"", "-", "nan", "none", "null", "na", "n/a"})
NLI = dict(zip("012", NLI_LABELS, strict=True)) | {name: name for name in NLI_LABELS}


@dataclass(frozen=True)
class Shape:
    source: str
    kind: Kind
    first: str
    second: str = ""
    value: str = ""
    form: Form = ""
    negative: str = ""

    def texts(self, names: Mapping[str, str]) -> Iterator[list[str]]:
        """Yield the text columns that a table has, as it writes them."""
        if self.first == NUMBERED:
            ends = [(name.removesuffix(a), a, b) for name in names for a, b in ENDS if name.endswith(a)]
            yield from ([names[stem + a], names[stem + b]] for stem, a, b in ends if stem + b in names
                        and is_text_name(stem) and stem + a not in ASIDE)  # fmt: skip
        elif self.second:
            pairs = product(self.first.split(), self.second.split())
            yield from ([names[a], names[b]] for a, b in pairs if a in names and b in names)
        else:
            yield from ([names[name]] for name in self.first.split() if name in names)


def plain(name: object) -> str:
    """Return the last part of a name, without case and signs."""
    return re.sub(r"[\W_]+", "", str(name).rpartition(".")[2].lower())


def is_text_name(stem: str) -> bool:
    return not stem.isdecimal() and stem not in ASIDE and stem not in f"{SCORE} {LABEL} {GRADE} {SAME}".split()


SHAPES = (
    Shape("sentence-transformers (anchor, positive, negative); FlagEmbedding, Tevatron, DPR, MTEB Reranking",
          "triples", ANCHOR, "positive answer document passage", negative=NEGATIVE),
    Shape("SimCSE: sent0, sent1, hard_neg", "triples", "sent0", "sent1", negative=NEGATIVE),
    Shape("MTEB PairClassification, QQP, PAWS, MRPC: two texts and 0 or 1", "binary pairs", NUMBERED,
          value=f"{LABEL} {SAME} {SCORE}", form="binary"),
    Shape("SNLI, SICK-E: two texts and a label of inference", "labelled pairs", NUMBERED,
          value=f"{LABEL} {SCORE} entailmentjudgment", form="nli"),
    Shape("MultiNLI, all-nli: premise, hypothesis, label", "labelled pairs", "premise", "hypothesis", LABEL, "nli"),
    Shape("STS Benchmark, SICK-R, MTEB STS; sentence-transformers (sentence_A, sentence_B, score)", "scored pairs",
          NUMBERED, value=f"{SCORE} {LABEL}", form="number"),
    Shape("BEIR and MTEB judgements beside their texts; MS MARCO (is_selected)", "judged pairs", ASKING, ANSWERING,
          GRADE, "number"),
    Shape("sentence-transformers (anchor, positive), (query, answer)", "pairs", ASKING, ANSWERING),
    Shape("sentence-transformers (anchor, positive)", "pairs", "anchor sentence", "positive"),
    Shape("sentence-transformers (sentence1, sentence2); parallel sentences", "pairs", NUMBERED),
    Shape("MTEB Classification and Clustering, SentEval: a text and its label", "labelled texts", TEXT, value=CLASS,
          form="class"),
    Shape("One text a row", "texts", TEXT),
    Shape("BEIR's corpus, Wikipedia: a title and its text", "texts", "title", "text"),
)  # fmt: skip
# Without a header: the forms of the columns in their order.
PLACES: tuple[tuple[str, Kind, str], ...] = (
    ("STS Benchmark's files: genre, file, year, id, score, two texts", "scored pairs", "* * * * number text text"),
    ("a score and two texts", "scored pairs", "number text text"),
    ("two texts and a label of inference", "labelled pairs", "text text nli"),
    ("two texts and 0 or 1", "binary pairs", "text text binary"),
    ("two texts and a score", "scored pairs", "text text number"),
    ("MS MARCO: ids and texts in turn", "pairs", "id text id text"),
    ("sentence-transformers: lists of three texts", "triples", "text text text"),
    ("two texts", "pairs", "text text"),
    ("one text a row", "texts", "text"),
)  # fmt: skip
KNOWN = frozenset(
    name for shape in SHAPES for names in (shape.first, shape.second, shape.value, shape.negative)
    for name in names.split()
)  # fmt: skip


def listed(names: Sequence[str]) -> int:
    """Return how many of a header's names are listed."""
    by_plain = {plain(name): name for name in names if name}
    numbered = {name for texts in SHAPES[2].texts(by_plain) for name in texts}
    return sum(name in numbered or plain(name) in KNOWN for name in names)


# Lists that several shapes share, the longest first.
_SHARED = {"<negative>": NEGATIVE, "<class>": CLASS, "<grade>": GRADE, "<score>": SCORE, "<same>": SAME,
           "<label>": LABEL, "<text>": TEXT}  # fmt: skip


def _names(names: str) -> str:
    for word, several in _SHARED.items():
        names = names.replace(several, word)
    return " | ".join(names.split())


def rows_of_shapes() -> list[list[str]]:
    """Return a line for each shape: its source, columns, value, and what it is read as; then the lists of names."""
    forms = {"number": "a number", "binary": "0 or 1, yes or no", "nli": "entailment, neutral, contradiction (0, 1, 2)",
             "class": "any", "": ""}  # fmt: skip
    rows = []
    for shape in SHAPES:
        second = "<name>2" if shape.first == NUMBERED else shape.second
        texts = "; ".join(_names(names) for names in (shape.first, second, shape.negative) if names)
        rows.append([shape.source, texts, _names(shape.value), forms[shape.form], shape.kind])
    rows += [[source, f"no header: {', '.join(places.split())}", "", "", kind] for source, kind, places in PLACES]
    return rows + [[word, " | ".join(names.split()), "", "", ""] for word, names in _SHARED.items()]
