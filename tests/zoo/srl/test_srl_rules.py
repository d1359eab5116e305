"""What the rules make of each construction, by spaCy's parse and by parses written by hand."""

from __future__ import annotations

import pytest

from zoo.srl.parse import Frame, Parse
from zoo.srl.rules import Rules, VerbTable, find_frames, own_table
from zoo.srl.spacy_labeller import SpacyLabeller

# sentence -> ARG0 | PRED | ARGM-NEG | ARG1 of each predicate, as PropBank has them
CONSTRUCTIONS = {
    "active": ("The cat chased the dog.", ["The cat|chased||the dog"]),
    "passive with agent": ("The dog was chased by the cat.", ["by the cat|chased||The dog"]),
    "passive without agent": ("The dog was chased.", ["|chased||The dog"]),
    "passive of a ditransitive": ("He was given a book.", ["|given||a book"]),
    "ditransitive": ("I gave him a book.", ["I|gave||a book"]),
    "unaccusative": ("The sun rises.", ["|rises||The sun"]),
    "unergative": ("The woman smiled.", ["The woman|smiled||"]),
    "that-clause": ("He said that she left.", ["He|said||that she left", "she|left||"]),
    "subject control": ("She wants to go home.", ["She|wants||to go home", "She|go||"]),
    "object control": ("She asked him to leave.", ["She|asked||to leave", "him|leave||"]),
    "clause with an accusative subject": (
        "He wants her to read the book.",
        ["He|wants||her to read the book", "her|read||the book"],
    ),
    "raising": ("He seems to like her.", ["|seems||He", "He|like||her"]),
    "predicate adjective with an infinitive": ("She is able to swim.", ["|is||She", "She|swim||"]),
    "subject relative clause": ("I met the man who saw Mary.", ["I|met||the man who saw Mary", "the man|saw||Mary"]),
    "object relative clause": ("The book that I read was long.", ["I|read||The book", "|was||The book that I read"]),
    "relative clause without pronoun": ("The book I read was long.", ["I|read||The book", "|was||The book I read"]),
    "relative clause with a stranded preposition": (
        "The house he lives in is old.",
        ["he|lives||", "|is||The house he lives in"],
    ),
    "relative adverb": ("The city where he lives grew.", ["he|lives||", "|grew||The city where he lives"]),
    "infinitival relative clause": ("She has a book to read.", ["She|has||a book to read", "|read||a book"]),
    "present participle as modifier": (
        "The woman standing there smiled.",
        ["|standing||The woman", "The woman standing there|smiled||"],
    ),
    "past participle as modifier": (
        "The car sold yesterday was red.",
        ["|sold||The car", "|was||The car sold yesterday"],
    ),
    "conjoined verbs, shared subject": (
        "He opened the box and saw the ring.",
        ["He|opened||the box", "He|saw||the ring"],
    ),
    "conjoined verbs, shared object": ("They buy and sell shares.", ["They|buy||shares", "They|sell||shares"]),
    "negation": ("She did not read the book.", ["She|read|not|the book"]),
    "contracted negation": ("She didn't read the book.", ["She|read|n't|the book"]),
    "never": ("He never eats meat.", ["He|eats|never|meat"]),
    "imperative": ("Close the door.", ["|Close||the door"]),
    "existential": ("There is hope.", ["|is||hope"]),
    "copula": ("She is a doctor.", ["|is||She"]),
    "extraposed clause": ("It is clear that he left.", ["|is||that he left", "he|left||"]),
    "expletive of a raising verb": ("It seems that he left.", ["|seems||that he left", "he|left||"]),
    "have to": ("He has to pay the bill.", ["He|pay||the bill"]),
    "going to": ("They are going to build a house.", ["They|build||a house"]),
    "used to": ("We used to play chess.", ["We|play||chess"]),
    "perfect and progressive": ("They have been reading the book.", ["They|reading||the book"]),
    "question for the subject": ("Who wrote the letter?", ["Who|wrote||the letter"]),
    "question for the object": ("What did she buy?", ["she|buy||What"]),
    "particle": ("She turned off the light.", ["She|turned off||the light"]),
    "particle taken for a preposition": ("They called off the meeting.", ["They|called off||the meeting"]),
    "verb form as modifier": ("The retired teacher read a book.", ["The retired teacher|read||a book"]),
    "no verb": ("An old red car.", []),
    "two sentences": ("I saw a dog. It chased the cat.", ["I|saw||a dog", "It|chased||the cat"]),
}


def written(frame: Frame) -> str:
    return "|".join(" ".join(frame.words(p)) for p in (frame.arg0, frame.predicate, frame.neg, frame.arg1))


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_construction(labeller: SpacyLabeller, name: str) -> None:
    sentence, expected = CONSTRUCTIONS[name]
    assert [written(frame) for frame in labeller.label([sentence])[0]] == expected


def test_careless_forms_of_be_are_be(labeller: SpacyLabeller) -> None:
    [frame] = labeller.label([["It", "s", "the", "best", "pizza", "."]])[0]
    assert (frame.arg0, frame.predicate, frame.arg1) == ((), (1,), (0,))


def test_a_label_does_not_depend_on_the_other_sentences(labeller: SpacyLabeller) -> None:
    sentences = [sentence for sentence, _ in CONSTRUCTIONS.values()]
    together = labeller.label(sentences)
    assert together == [labeller.label([sentence])[0] for sentence in sentences]
    assert labeller.label(sentences[::-1]) == together[::-1]


def test_words_already_split_are_kept_as_they_are(labeller: SpacyLabeller) -> None:
    words = ["She", "doesn't", "read", "e-books", "."]
    frame = labeller.label([words])[0][-1]
    assert frame.tokens == tuple(words)
    assert frame.words(frame.arg1) == ["e-books"]


# Parses by hand: word/lemma/tag/relation/head, heads counted from 0. They run without spaCy.


def parsed(text: str) -> Parse:
    rows = [item.split("/") for item in text.split()]
    words, lemmas, tags, relations, heads = zip(*rows, strict=True)
    return Parse(words, lemmas, tags, relations, tuple(map(int, heads)))


CHASED = parsed("dogs/dog/NNS/nsubj/1 chased/chase/VBD/ROOT/1 old/old/JJ/amod/3 cats/cat/NNS/dobj/1 ././././1")


def test_places_of_a_parse_by_hand() -> None:
    rules = Rules(CHASED)
    assert rules.predicates() == [1]
    places = rules.places(1)
    assert not places.passive
    assert places.heads == {"subject": 0, "object": 3}
    assert rules.span(places, "object") == (2, 3)
    assert rules.span(places, "clause") == ()


def test_the_verb_table_decides_the_roles() -> None:
    [usual] = find_frames(CHASED, VerbTable({}))
    assert (usual.arg0, usual.arg1) == ((0,), (2, 3))
    [turned] = find_frames(CHASED, VerbTable({("chase", "subject"): "ARG1", ("chase", "object"): "none"}))
    assert (turned.arg0, turned.arg1) == ((), (0,))


@pytest.mark.parametrize(("subject", "place"), [("it/it/PRP", "thing_alone"), ("I/I/PRP", "person_alone")])
def test_persons_act_where_things_undergo(subject: str, place: str) -> None:
    parse = parsed(f"{subject}/nsubj/1 moved/move/VBD/ROOT/1")
    assert Rules(parse).places(1).context("subject") == place
    [frame] = find_frames(parse, VerbTable({("move", "thing_alone"): "ARG1"}))
    assert (frame.arg0, frame.arg1) == (((0,), ()) if place == "person_alone" else ((), (0,)))


def test_of_two_clauses_the_one_after_the_verb_is_the_object() -> None:
    parse = parsed("go/go/VB/ccomp/2 they/they/PRP/nsubj/2 said/say/VBD/ROOT/2 we/we/PRP/nsubj/4 lost/lose/VBD/ccomp/2")
    assert Rules(parse).places(2).heads == {"clause": 4, "subject": 1}
    clauses = parsed("go/go/VB/ccomp/2 they/they/PRP/nsubj/2 said/say/VBD/ROOT/2")
    assert Rules(clauses).places(2).heads == {"clause": 0, "subject": 1}


def test_a_purpose_shares_the_subject() -> None:
    parse = parsed("she/she/PRP/nsubj/1 ran/run/VBD/ROOT/1 to/to/TO/aux/3 win/win/VB/advcl/1")
    assert Rules(parse).places(3).heads == {"subject": 0}
    participle = parsed("she/she/PRP/nsubj/1 ran/run/VBD/ROOT/1 winning/win/VBG/advcl/1")
    assert Rules(participle).places(2).heads == {}


def test_punctuation_at_the_ends_is_no_part_of_an_argument() -> None:
    parse = parsed(
        "saw/see/VB/ROOT/0 (/(/-LRB-/punct/2 dogs/dog/NNS/dobj/0 ,/,/,/punct/2 cats/cat/NNS/conj/2 )/)/-RRB-/punct/2"
    )
    [frame] = find_frames(parse, VerbTable({}))
    assert frame.words(frame.arg1) == ["dogs", ",", "cats"]


def test_the_package_s_table_knows_its_classics() -> None:
    table = own_table()
    assert table.role("arrive", "thing_alone") == table.role("fall", "thing_alone") == "ARG1"
    assert table.role("eat", "person_alone") == "ARG0"
    assert table.role("eat", "object") == "ARG1"
    assert table.role("eat", "dative") is None
    assert table.role("be", "subject") == "ARG1"
    assert table.role("be", "attribute") is None


@pytest.mark.parametrize(("between", "shared"), [("", True), ("early/early/RB/advmod/1", False)])
def test_verbs_share_an_object_where_nothing_stands_between(between: str, shared: bool) -> None:
    at = 3 + bool(between)
    parse = parsed(
        f"they/they/PRP/nsubj/1 buy/buy/VBP/ROOT/1 {between} and/and/CC/cc/1 sell/sell/VBP/conj/1"
        f" shares/share/NNS/dobj/{at}"
    )
    assert Rules(parse).places(1).heads == {"subject": 0, **({"object": at + 1} if shared else {})}
