"""Predicates of a dependency parse, and the words in their grammatical places.

Syntax comes first and alone; the roles of the places are the verbs' affair (`VerbTable`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from zoo.errors import CorruptError
from zoo.files import read_text
from zoo.srl.parse import Frame, Parse, Tokens

TABLE = Path(__file__).parent / "verbs.txt"
NO_ROLE = "none"
_ROLES = ("ARG0", "ARG1", NO_ROLE)
DEFAULTS = {
    "subject": "ARG0",
    "person_alone": "ARG0",
    "thing_alone": "ARG0",
    "passive_subject": "ARG1",
    "object": "ARG1",
    "object_clause": "ARG1",
    "clause": "ARG1",
    "agent": "ARG0",
}


class VerbTable:
    """Roles by verb and place; unlisted verbs have the place's default."""

    def __init__(self, exceptions: Mapping[tuple[str, str], str]) -> None:
        self.exceptions = exceptions

    def role(self, lemma: str, place: str) -> str | None:
        # be.01 and be.02: what is, or is something, is ARG1; what it is, ARG2.
        if lemma == "be":
            return "ARG1" if place in ("subject", "person_alone", "thing_alone") else None
        role = self.exceptions.get((lemma, place)) or DEFAULTS.get(place)
        return None if role == NO_ROLE else role


def read_verbs(path: Path = TABLE) -> VerbTable:
    """Read lines "PLACE ROLE: verb verb ..."; raises MissingError or CorruptError."""
    exceptions = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        place, _, role = line.partition(":")[0].partition(" ")
        if role not in _ROLES or ":" not in line:
            raise CorruptError(f"{path}, line {number}: not 'PLACE ROLE: verbs'; install zoo-bench again.")
        exceptions.update({(verb, place): role for verb in line.partition(":")[2].split()})
    return VerbTable(exceptions)


@cache
def own_table() -> VerbTable:
    """The package's table, made by `python -m tools.derive_verbs` from the PropBank frames."""
    return read_verbs()


_SUBJECTS = ("nsubj", "nsubjpass", "csubj", "csubjpass")
_CLAUSES = ("ccomp", "xcomp")
# Verb forms here are auxiliaries, modifiers or prepositions ("stated goals", "including", "based on").
_NO_PREDICATE = frozenset("aux auxpass amod compound prep mark case prt neg advmod punct".split())
_RELATIVE_TAGS = frozenset({"WDT", "WP"})
_RELATIVE_ADVERBS = frozenset("where when why how whereby wherever whenever whose".split())
_PERSONS = frozenset("i you u he she we they who me him her us them one people someone everyone anyone".split())
_RAISING = frozenset({"seem", "appear", "happen"})


@dataclass
class Places:
    """Head word of each grammatical place of a verb, and a foreign branch below it."""

    verb: int
    passive: bool
    heads: dict[str, int] = field(default_factory=dict)
    without: dict[str, int | None] = field(default_factory=dict)
    # Persons act where things undergo ("I moved").
    person: bool = False

    def fill(self, place: str, head: int, without: int | None = None) -> None:
        if place not in self.heads:
            self.heads[place], self.without[place] = head, without

    def context(self, place: str) -> str:
        """The place in the verb table: its meaning depends on the verb's other places."""
        has_object, has_clause = "object" in self.heads, "clause" in self.heads
        if place == "subject":
            if self.passive:
                return "passive_subject_object" if has_object else "passive_subject"
            if has_object or has_clause:
                return "subject"
            return "person_alone" if self.person else "thing_alone"
        if place == "object":
            return "object_clause" if has_clause else "object"
        if place == "clause":
            return "clause_object" if has_object else "clause"
        return place


class Rules:
    def __init__(self, parse: Parse) -> None:
        self.parse = parse

    def predicates(self) -> list[int]:
        return [i for i in range(len(self.parse.words)) if self.is_predicate(i)]

    def is_predicate(self, i: int) -> bool:
        """True for a verb that is no auxiliary, modifier or preposition."""
        return self.parse.is_verb(i) and self.parse.relations[i] not in _NO_PREDICATE and not self._semi_auxiliary(i)

    def _semi_auxiliary(self, i: int) -> bool:
        """True for "going to", "have to" and "used to" before a verb: PropBank gives these senses no roles."""
        parse = self.parse
        complement = parse.child(i, ("xcomp",))
        if complement is None or complement < i or parse.tags[complement] not in ("VB", "VBP", "VBN"):
            return False
        if not parse.is_infinitive(complement) or parse.children(i, ("dobj",)):
            return False
        word = parse.words[i].lower()
        return (
            parse.lemmas[i] == "have"
            or (word in ("going", "gon") and bool(parse.children(i, ("aux",))))
            or (word == "used" and not parse.children(i, ("auxpass",)))
        )

    def passive(self, i: int) -> bool:
        """True for a passive, also without auxiliary ("the book sold there", "had it fixed")."""
        parse = self.parse
        while not parse.children(i, ("auxpass", "nsubjpass", "csubjpass")):
            if parse.relations[i] == "acl" and parse.tags[i] in ("VBN", "VBD"):
                return not parse.children(i, _SUBJECTS)
            if parse.tags[i] != "VBN" or parse.children(i, ("aux",)):
                return False
            if parse.relations[i] != "conj" or parse.children(i, _SUBJECTS):
                return parse.relations[i] in ("advcl", "ccomp", "xcomp", "oprd", "pcomp", "ROOT", "dep")
            # As in "was bought and sold".
            i = parse.heads[i]
        return True

    def places(self, i: int) -> Places:
        """Subject, agent, object, dative, clause, attribute and prep_WORD of verb i."""
        parse = self.parse
        places = Places(i, self.passive(i))
        if subject := self.subject(i):
            places.fill("subject", *subject)
        for child in parse.children(i):
            match parse.relations[child]:
                case "dobj":
                    places.fill("object", *(self._antecedent(child, i) or (child, None)))
                case "ccomp" | "xcomp":
                    if places.heads.get("clause", i) < i < child:
                        # Of two, the one before the verb is rather a loose clause.
                        del places.heads["clause"]
                    places.fill("clause", child)
                case "attr" | "acomp" | "oprd":
                    places.fill("attribute", child)
                case "prep":
                    places.fill(f"prep_{parse.words[child].lower()}", child)
                case "prt" if (noun := parse.child(child, ("pobj",))) is not None:
                    # As in "call off the meeting", where "off" is taken for a preposition.
                    places.fill("object", noun)
                case "dative" | "agent" as relation:
                    places.fill(relation, child)
        self._fill_gap(i, places)
        self._share_object(i, places)
        self._expletives(i, places)
        places.person = "subject" in places.heads and parse.words[places.heads["subject"]].lower() in _PERSONS
        return places

    def span(self, places: Places, place: str) -> Tokens:
        """Words of a place without punctuation at its ends, () if not filled."""
        if place not in places.heads:
            return ()
        parse = self.parse
        span = list(parse.subtree(places.heads[place], places.without[place]))
        while len(span) > 1 and parse.relations[span[-1]] == "punct":
            span.pop()
        while len(span) > 1 and parse.relations[span[0]] == "punct":
            span.pop(0)
        return tuple(span)

    def subject(self, i: int) -> tuple[int, int | None] | None:
        """Head (and branch to omit) of verb i's subject, own or shared, or None."""
        parse = self.parse
        while True:
            if subjects := parse.children(i, _SUBJECTS):
                return self._antecedent(subjects[-1], i) or (subjects[-1], None)
            head, relation = parse.heads[i], parse.relations[i]
            if head == i or parse.children(i, ("expl",)):
                return None
            # As in "the man standing there", but not in "a book to read" or "the right to go".
            if relation in ("relcl", "acl"):
                return None if parse.is_infinitive(i) else (head, i)
            if relation in _CLAUSES and not parse.is_finite(i):
                if parse.relations[head] in ("acomp", "attr", "oprd") and not parse.is_verb(head):
                    # As in "she is able to go".
                    head = parse.heads[head]
                controller = parse.child(head, ("dobj", "dative"))
                if controller is not None and controller < i:
                    return self._antecedent(controller, i) or (controller, None)
                if relation == "ccomp" and parse.tags[i] not in ("VB", "VBG"):
                    return None
            elif not (relation == "conj" and parse.is_verb(head)) and not (
                relation == "advcl" and parse.is_infinitive(i)
            ):
                return None
            i = head

    def _antecedent(self, pronoun: int, verb: int) -> tuple[int, int] | None:
        """A relative pronoun's noun, less the relative clause; None for any other word."""
        parse = self.parse
        clause = self._relative_clause(verb)
        relative = parse.tags[pronoun] in _RELATIVE_TAGS
        if clause is None or not (relative or (parse.words[pronoun].lower() == "that" and pronoun < clause)):
            return None
        return parse.heads[clause], clause

    def _relative_clause(self, verb: int) -> int | None:
        """Verb of the relative clause around `verb`, through complements and coordination only."""
        parse = self.parse
        while parse.relations[verb] in ("ccomp", "xcomp", "conj"):
            verb = parse.heads[verb]
        return verb if parse.relations[verb] == "relcl" else None

    def _fill_gap(self, i: int, places: Places) -> None:
        """ "The book (that) I read", "a book to read": the noun is the object the clause lacks."""
        parse = self.parse
        clause = self._relative_clause(i)
        if clause is None or places.passive or parse.lemmas[i] == "be" or places.heads.keys() & {"object", "clause"}:
            return
        if self._gap_elsewhere(clause) or parse.relations[i] == "conj":
            return
        subject, noun = places.heads.get("subject"), parse.heads[clause]
        if subject == noun or (subject is None and not parse.is_infinitive(clause)):
            return
        # Not "the house he lives in".
        if all(parse.children(p) for p in parse.children(i, ("prep",))):
            places.fill("object", noun, clause)

    def _gap_elsewhere(self, clause: int) -> bool:
        """True if the relative word shows a gap other than an object: where, whose, in which, who came."""
        parse = self.parse
        return any(
            parse.words[j].lower() in _RELATIVE_ADVERBS
            or (parse.tags[j] in _RELATIVE_TAGS and parse.relations[j] in ("pobj", "nsubj", "nsubjpass"))
            for j in parse.subtree(clause)
            if j <= clause
        )

    def _share_object(self, i: int, places: Places) -> None:
        """ "They buy and sell shares": the last verb's object is also the first's."""
        parse = self.parse
        if places.passive or places.heads.keys() & {"object", "clause", "attribute"}:
            return
        for other in parse.children(i, ("conj",)):
            shared = parse.child(other, ("dobj",))
            between = [c for c in parse.children(i) if i < c < other and parse.relations[c] not in ("cc", "punct")]
            if shared is not None and not between:
                places.fill("object", shared)

    def _expletives(self, i: int, places: Places) -> None:
        """ "There is hope": hope is the subject. "It is clear that he left": the clause is, and "it" is none."""
        parse = self.parse
        subject, attribute = places.heads.get("subject"), places.heads.get("attribute")
        if parse.lemmas[i] == "be" and attribute is not None and parse.children(i, ("expl",)):
            places.fill("subject", attribute)
        if subject is None or subject > i or parse.words[subject].lower() != "it":
            return
        if parse.lemmas[i] in _RAISING and "clause" in places.heads:
            del places.heads["subject"]
        if parse.lemmas[i] == "be" and attribute is not None:
            clause = places.heads.get("clause", parse.child(attribute, _CLAUSES))
            if clause is not None and clause > attribute:
                places.heads["subject"], places.without["subject"] = clause, None
                places.heads.pop("clause", None)


def find_frames(parse: Parse, verbs: VerbTable) -> list[Frame]:
    rules = Rules(parse)
    frames = []
    for verb in rules.predicates():
        places = rules.places(verb)
        spans: dict[str, Tokens] = {}
        for place in places.heads:
            role = verbs.role(parse.lemmas[verb], places.context(place))
            if role is not None:
                spans.setdefault(role, rules.span(places, place))
        predicate = (verb, *parse.children(verb, ("prt",)))
        neg = tuple(parse.children(verb, ("neg",)))
        frames.append(Frame(parse.words, predicate, spans.get("ARG0", ()), spans.get("ARG1", ()), neg))
    return frames
