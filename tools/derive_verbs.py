"""Makes `verbs.txt` from the annotated examples of the PropBank frames: `python -m tools.derive_verbs FRAMES.tar.xz`.

Each example is parsed. For each grammatical place that the rules find for its verb, the annotated role is one vote.
"""

from __future__ import annotations

import argparse
import math
import tarfile
import textwrap
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.score_srl import head_word, read_conllu
from zoo.errors import CorruptError
from zoo.files import reading, sha256_file, write_text
from zoo.srl.parse import Parse
from zoo.srl.rules import DEFAULTS, NO_ROLE, TABLE, Rules
from zoo.srl.spacy_labeller import DEFAULT_MODEL, SpacyLabeller

Votes = Mapping[tuple[str, str], Mapping[str, float]]  # (lemma, place) -> role -> weight

# One example of a first sense outvotes the default.
_DEFAULT_VOTE = 0.5
# Votes for subjects that are things count so much in decisions on persons, and the reverse.
_SIBLING_SHARE = 0.2
_SIBLINGS = {"person_alone": "thing_alone", "thing_alone": "person_alone"}
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]"}
_HEADER = """\
# The role of a verb's grammatical place where it is not the usual one (zoo/srl/rules.py).
# Derived by `python -m tools.derive_verbs` from the PropBank frames (https://github.com/propbank/propbank-frames),
# whose licence, CC BY-SA 4.0, this list keeps. Source sha256: {sha256}
# Parser: {identity}
"""


@dataclass(frozen=True)
class Example:
    """A sentence of the frames: its words, the verb, the sense number, and spans (first, last) with their roles."""

    words: tuple[str, ...]
    verb: int
    sense: int
    arguments: tuple[tuple[str, int, int], ...]


def read_frames(archive: Path) -> tuple[list[Example], set[str]]:
    """Read the examples of a tar archive of frame files, and the verbs none of whose senses has an ARG0."""
    examples: list[Example] = []
    agents: dict[str, bool] = {}
    for root in _documents(archive):
        for roleset in root.iter("roleset"):
            verbs = [(alias.text or "").strip().lower() for alias in roleset.iter("alias") if alias.get("pos") == "v"]
            sense = (roleset.get("id") or "").rpartition(".")[2]
            if not verbs or not sense.isdigit():
                # Nouns, adjectives and light verbs (take.LV).
                continue
            has_agent = any(role.get("n") == "0" for role in roleset.iter("role"))
            for verb in verbs:
                agents[verb] = agents.get(verb, False) or has_agent
            examples.extend(filter(None, (_example(node, int(sense)) for node in roleset.iter("example"))))
    return examples, {verb for verb, has_agent in agents.items() if not has_agent and "_" not in verb}


def _documents(archive: Path) -> Iterator[ElementTree.Element]:
    try:
        with reading(archive), tarfile.open(archive) as tar:
            for member in sorted((m for m in tar if m.isfile() and m.name.endswith(".xml")), key=lambda m: m.name):
                file = tar.extractfile(member)
                try:
                    yield ElementTree.fromstring(file.read() if file else b"")
                except ElementTree.ParseError as error:
                    print(f"left out: {member.name} is not well-formed ({error})")
    except (tarfile.TarError, ValueError) as error:
        raise CorruptError(f"{archive} is not a whole tar archive ({error}).") from error


def _example(node: ElementTree.Element, sense: int) -> Example | None:
    words = (node.findtext("text") or "").split()
    place = next((rel.get("relloc", "") for rel in node.iter("rel")), "").split()
    # Old position -> new, without traces ("*PRO*").
    new: dict[int, int] = {}
    for i, word in enumerate(words):
        if not (word.startswith("*") and word.strip("*")):
            new[i] = len(new)
    if not place or not place[0].isdigit() or int(place[0]) not in new:
        return None
    spans = [(arg.get("type", ""), arg.get("start", ""), arg.get("end", "")) for arg in node.iter("arg")]
    arguments = tuple(
        (role, new[int(first)], new[int(last)])
        for role, first, last in spans
        if first.isdigit() and last.isdigit() and int(first) in new and int(last) in new
    )
    return Example(tuple(_BRACKETS.get(words[i], words[i]) for i in new), new[int(place[0])], max(sense, 1), arguments)


def count_votes(examples: Sequence[Example], parses: Iterable[Parse]) -> Votes:
    """Sum, for each verb and place, the weight of the examples that give it a role; first senses weigh most."""
    votes: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for example, parse in zip(examples, parses, strict=True):
        rules = Rules(parse)
        if not rules.is_predicate(example.verb):
            continue
        heads = [-1 if head == i else head for i, head in enumerate(parse.heads)]
        roles = {
            head_word(tuple(range(first, last + 1)), heads): role
            for role, first, last in example.arguments
            if not role.startswith(("R-", "C-"))
        }
        places = rules.places(example.verb)
        for place, head in places.heads.items():
            # A place without an annotated role is usually a wrong parse.
            if head in roles:
                role = roles[head] if roles[head] in ("ARG0", "ARG1") else NO_ROLE
                votes[parse.lemmas[example.verb], places.context(place)][role] += 1 / math.sqrt(example.sense)
    return votes


def decide(votes: Votes, agentless: Iterable[str]) -> dict[tuple[str, str], str]:
    """Return the role of each verb and place that differs from the place's default, by majority."""
    agentless = set(agentless)
    pairs = set(votes) | {(verb, place) for verb in agentless for place in ("subject", *_SIBLINGS)}
    pairs |= {(verb, _SIBLINGS[place]) for verb, place in votes if place in _SIBLINGS}
    exceptions = {}
    for verb, place in sorted(pairs):
        usual = DEFAULTS.get(place, NO_ROLE)
        tally = defaultdict(float, votes.get((verb, place), {}))
        for role, weight in votes.get((verb, _SIBLINGS.get(place, "")), {}).items():
            tally[role] += _SIBLING_SHARE * weight
        expected = "ARG1" if verb in agentless and (place == "subject" or place in _SIBLINGS) else usual
        tally[expected] += _DEFAULT_VOTE
        role, weight = max(tally.items(), key=lambda item: (item[1], item[0] == usual))
        if role != usual and 2 * weight > sum(tally.values()):
            exceptions[verb, place] = role
    return exceptions


def as_text(exceptions: Mapping[tuple[str, str], str]) -> str:
    """Return the lines of `verbs.txt`."""
    grouped: dict[str, list[str]] = defaultdict(list)
    for (verb, place), role in exceptions.items():
        if verb and not any(character.isspace() for character in verb + place):
            grouped[f"{place} {role}: "].append(verb)
    lines: list[str] = []
    for prefix, verbs in sorted(grouped.items()):
        wrapped = textwrap.wrap(" ".join(sorted(verbs)), 118 - len(prefix), break_on_hyphens=False)
        lines.extend(prefix + part for part in wrapped)
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(prog="python -m tools.derive_verbs", description="Make the verb table.")
    parser.add_argument("frames", type=Path, help="tar archive of PropBank frame files")
    parser.add_argument("--without", type=Path, nargs="*", default=[], help="gold files whose sentences must not vote")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--out", type=Path, default=TABLE)
    options = parser.parse_args(arguments)
    barred = {"".join(s.words).lower() for path in options.without for s in read_conllu(path)[0]}
    examples, agentless = read_frames(options.frames)
    kept = [example for example in examples if "".join(example.words).lower() not in barred]
    labeller = SpacyLabeller(options.model)
    exceptions = decide(count_votes(kept, labeller.parse([example.words for example in kept])), agentless)
    header = _HEADER.format(sha256=sha256_file(options.frames), identity=labeller.identity().rpartition(", ")[0])
    write_text(options.out, header + as_text(exceptions))
    print(f"{len(kept)} of {len(examples)} examples voted, {len(exceptions)} exceptions, {options.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
