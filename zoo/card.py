"""The card of a method: what lists, citations and the handbook say of it, read without loading the method."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FAMILIES = {
    "controls": "what every method is measured against",
    "pooling": "a backbone's states pooled, nothing is trained",
    "words": "static token embeddings and word vectors, averaged",
    "transforms": "a linear map or a flow fitted on vectors",
    "prompts": "a template and its [MASK] state",
    "contrastive": "trained by contrast of sentences (simcse-sup: with labels)",
    "siamese": "trained on labelled pairs",
    "finished": "encoders and vectors made elsewhere, measured as they are",
    "plugins": "methods of plugins",
}
"""The families of methods in the order of lists, each with its description."""


@dataclass(frozen=True, kw_only=True)
class MethodCard:
    """What is known of a method before it is loaded; `register_method` beside its class states it."""

    family: str = "plugins"  # one of FAMILIES
    paper: str = ""  # the name of the paper that each of its recipes cites first; "" if they name their own
    page: str = ""  # the page of the handbook that somebody wrote, docs/methods/PAGE.md; "": it is made from the card


UNSTATED = MethodCard()


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper as it is cited, stated by the recipe of what it describes; `venue` is "" for a preprint."""

    name: str  # as recipes name it
    title: str
    authors: str
    venue: str = ""
    year: int
    url: str

    def cited(self) -> str:
        """Return authors, title, venue and year on one line."""
        return f"{self.authors}. {self.title}. {f'{self.venue} ' if self.venue else ''}{self.year}."


_STATED = re.compile(r"^@register_method\((.*?)\)(?: *#.*?)?\nclass (\w+)", re.MULTILINE | re.DOTALL)


def written_cards(folder: Path) -> Iterator[tuple[str, str, str, MethodCard]]:
    """Yield (name, module, class, card) of each class below `@register_method(...)` in the files of a folder.

    Only the text is read: no module is imported, and no file is parsed as a whole, which would take ten times as long.
    """
    for path in sorted(folder.glob("*.py")):
        for stated, cls in _STATED.findall(path.read_text(encoding="utf-8")):
            call = ast.parse(f"card({stated})", str(path), mode="eval").body
            assert isinstance(call, ast.Call)
            card = MethodCard(**{str(key.arg): ast.literal_eval(key.value) for key in call.keywords})
            yield ast.literal_eval(call.args[0]), path.stem, cls, card
