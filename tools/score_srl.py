"""Precision and recall of a labeller against PropBank: `python -m tools.score_srl FILE.conllu`.

The gold format is that of Universal Propositions (English EWT): CoNLL-U with the sense of each predicate in column 11
and one column of roles for each predicate after it, each role on the head word of its argument.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zoo.errors import CorruptError, ZooError
from zoo.files import read_text
from zoo.srl.parse import Frame, Labeller, Tokens
from zoo.srl.spacy_labeller import make_labeller

ROLES = {"ARG0": "arg0", "ARG1": "arg1", "ARGM-NEG": "neg"}
# Senses of auxiliaries: be + participle, have + participle, do-support, have to, going to, used to. They have no roles.
AUXILIARY = frozenset({"be.03", "have.01", "do.01", "have.02", "go.04", "use.03"})
_VERBAL = ("VERB", "AUX")


@dataclass(frozen=True)
class GoldSentence:
    """Words, heads of the gold tree (-1: root) and, for each verbal predicate, the head words of its roles.

    A role has several heads if its constituent is split over the tree; any of them counts as right.
    """

    words: tuple[str, ...]
    heads: tuple[int, ...]
    predicates: dict[int, dict[str, frozenset[int]]]
    left_out: Counter[str] = field(default_factory=Counter)


def read_conllu(path: Path) -> tuple[list[GoldSentence], int]:
    """Return the annotated sentences and the number of others; raises MissingError, or CorruptError with the line."""
    sentences, unannotated = [], 0
    for number, comments, rows in _blocks(path):
        if any(comment.startswith("# propbank =") for comment in comments):
            unannotated += 1
            continue
        try:
            sentences.append(_sentence([row for row in rows if row[0].isdigit()]))
        except (IndexError, ValueError) as error:
            raise CorruptError(f"{path}, sentence before line {number}: not CoNLL-U with roles ({error}).") from error
    return sentences, unannotated


def _blocks(path: Path) -> Iterator[tuple[int, list[str], list[list[str]]]]:
    lines = read_text(path).splitlines()
    comments: list[str] = []
    rows: list[list[str]] = []
    for number, line in enumerate([*lines, ""], 1):
        if line.startswith("#"):
            comments.append(line)
        elif line:
            rows.append(line.split("\t"))
        elif rows:
            yield number, comments, rows
            comments, rows = [], []


def _sentence(rows: list[list[str]]) -> GoldSentence:
    senses = [(i, row[10]) for i, row in enumerate(rows) if row[10] != "_"]
    if any(len(row) < 11 + len(senses) for row in rows):
        raise ValueError(f"fewer than {len(senses)} columns of roles")
    left_out: Counter[str] = Counter()
    predicates = {}
    for column, (i, sense) in enumerate(senses, 11):
        if rows[i][3] not in _VERBAL or sense in AUXILIARY:
            left_out["auxiliary" if rows[i][3] in _VERBAL else "nominal"] += 1
            continue
        roles = {role: frozenset(j for j, row in enumerate(rows) if row[column] == role) for role in ROLES}
        predicates[i] = {role: heads for role, heads in roles.items() if heads}
    words = tuple(row[1] for row in rows)
    return GoldSentence(words, tuple(int(row[6]) - 1 for row in rows), predicates, left_out)


def head_word(span: Tokens, heads: Sequence[int]) -> int | None:
    """Return a span's head word in a tree: of words whose head is outside, the highest and then the first; or None."""
    inside = set(span)

    def depth(i: int) -> int:
        steps = 0
        while heads[i] >= 0 and steps <= len(heads):
            i, steps = heads[i], steps + 1
        return steps

    return min((i for i in span if heads[i] not in inside), key=lambda i: (depth(i), i), default=None)


@dataclass
class Count:
    """Numbers of right, labelled and gold items."""

    right: int = 0
    labelled: int = 0
    gold: int = 0

    @property
    def precision(self) -> float:
        """Right / labelled; 0 when nothing is labelled."""
        return self.right / self.labelled if self.labelled else 0.0

    @property
    def recall(self) -> float:
        """Right / gold; 0 when there is no gold."""
        return self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.right / (self.labelled + self.gold) if self.right else 0.0


def score(gold: Sequence[GoldSentence], labelled: Sequence[Sequence[Frame]]) -> dict[str, Count]:
    """Return counts of "predicate", of each role, and of each role "given" its predicate (only predicates in both).

    An argument is right when the head, in the gold tree, of the labelled span is a gold head of the predicate's role.
    """
    counts = {"predicate": Count()} | {name: Count() for role in ROLES for name in (role, f"{role} given")}
    for sentence, frames in zip(gold, labelled, strict=True):
        by_verb = {frame.predicate[0]: frame for frame in frames}
        both = sentence.predicates.keys() & by_verb.keys()
        _add(counts["predicate"], len(both), len(by_verb), len(sentence.predicates))
        for role, attribute in ROLES.items():
            wanted = {verb: roles[role] for verb, roles in sentence.predicates.items() if role in roles}
            spans = {verb: span for verb, frame in by_verb.items() if (span := getattr(frame, attribute))}
            right = sum(head_word(span, sentence.heads) in wanted.get(verb, ()) for verb, span in spans.items())
            _add(counts[role], right, len(spans), len(wanted))
            _add(counts[f"{role} given"], right, len(spans.keys() & both), len(wanted.keys() & both))
    return counts


def _add(count: Count, right: int, labelled: int, gold: int) -> None:
    count.right, count.labelled, count.gold = count.right + right, count.labelled + labelled, count.gold + gold


def table(counts: dict[str, Count]) -> str:
    """Return the counts as a Markdown table, scores x100."""
    rows = [
        f"| {name} | {100 * c.precision:.1f} | {100 * c.recall:.1f} | {100 * c.f1:.1f} | {c.gold} |"
        for name, c in counts.items()
    ]
    return "\n".join(["| | precision | recall | F1 | gold |", "|---|---:|---:|---:|---:|", *rows])


def score_file(path: Path, labeller: Labeller) -> tuple[dict[str, Count], str]:
    """Score a labeller on the words of a gold file; return counts and a line that describes the scored sentences."""
    gold, unannotated = read_conllu(path)
    left_out = sum((sentence.left_out for sentence in gold), Counter[str]())
    about = (
        f"{path.name}: {len(gold)} sentences; not scored: {unannotated} unannotated sentences, "
        f"{left_out['auxiliary']} auxiliaries, {left_out['nominal']} nominal predicates"
    )
    return score(gold, labeller.label([sentence.words for sentence in gold])), about


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of one file."""
    parser = argparse.ArgumentParser(prog="python -m tools.score_srl", description="Score semantic roles against gold.")
    parser.add_argument("file", type=Path, help="CoNLL-U with PropBank columns (Universal Propositions)")
    parser.add_argument("--model", help="spaCy model: an installed package or a folder")
    options = parser.parse_args(arguments)
    try:
        labeller = make_labeller(options.model)
        counts, about = score_file(options.file, labeller)
    except ZooError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{labeller.identity()}\n{about}\n\n{table(counts)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
