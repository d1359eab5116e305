"""Negates a sentence by rules over its parse: "not" after the auxiliary, or a form of "do" before the verb."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zoo.srl.parse import Parse

_DO = {"VBZ": "does", "VBP": "do", "VBD": "did"}


def negated(parse: Parse) -> str | None:
    """Return the words with the main verb negated, or without its "not", joined by blanks; None where no rule fits."""
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
    """Yield each sentence's negation: by the rules, which need spaCy, or else "Not " before it."""
    if not rules:
        yield from (f"Not {sentence}" for sentence in sentences)
        return
    from zoo.srl.spacy_labeller import SpacyLabeller

    for sentence, parse in zip(sentences, SpacyLabeller().parse(sentences), strict=True):
        yield negated(parse) or f"Not {sentence}"
