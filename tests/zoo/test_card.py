"""Cards of methods: each has its family, its papers and its page, read without loading it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zoo.errors import UsageError
from zoo.methods import TABLE
from zoo.plugins import FAMILIES, METHODS, register_method
from zoo.recipes import all_recipes, papers_of

ROOT = Path(__file__).parents[2]
RECIPES = all_recipes()
BUILT_IN = [spec for spec in RECIPES.values() if METHODS.is_builtin(spec.method)]
NO_PAPER = {"bag-of-words", "random", "pretrained", "vectors", "wordvectors"}  # controls, and what a user brings


def names_of(name: str) -> list[str]:
    """Return the names of the papers of a recipe."""
    return [paper.name for paper in papers_of(RECIPES[name], RECIPES)]


def test_the_table_is_what_the_modules_register() -> None:
    """Each `@register_method("NAME")` of the methods' files has its row, and every family has a method."""
    builtin = [name for name in METHODS.names() if METHODS.is_builtin(name)]
    registered = {}
    for path in (ROOT / "zoo" / "methods").glob("*.py"):
        for name, cls in re.findall(r"^@register_method\((.*)\)\nclass (\w+)", path.read_text("utf-8"), re.MULTILINE):
            registered[name] = f"{path.stem}:{cls}"
    assert registered == {f'"{name}"': row[0] for name, row in TABLE.items()}
    for name, (target, *_) in TABLE.items():
        assert METHODS.get(name).__name__ == target.partition(":")[2] and METHODS.name_of(METHODS.get(name)) == name
    assert {METHODS.card(name).family for name in builtin} == set(FAMILIES) - {"plugins"}
    assert METHODS.card("of-nobody").family == "plugins"


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(UsageError, match=r"method 'mine': unknown family 'contrastiv'.*'contrastive'"):
        register_method("mine", family="contrastiv")


def test_every_recipe_has_a_paper() -> None:
    assert {spec.name for spec in BUILT_IN if not names_of(spec.name)} == NO_PAPER


@pytest.mark.parametrize(
    ("name", "papers"),
    [
        ("simcse", ["SimCSE"]),
        ("simcse-crop", ["SimCSE", "PT-BERT"]),
        ("whitening-nli-h0", ["BERT-whitening", "SimCSE", "PromptBERT"]),
        ("sbert-whitening", ["BERT-whitening", "SBERT"]),
        ("sbert-st", ["SBERT"]),
        ("esimcse-repo", ["ESimCSE"]),
        ("usif-tokens", ["uSIF"]),
        ("optiprompt", ["PromptBERT", "OptiPrompt"]),
    ],
)
def test_a_name_within_another_is_no_paper(name: str, papers: list[str]) -> None:
    """The method's own paper comes first; "SBERT-whitening" names no SBERT."""
    assert names_of(name) == papers


def test_a_citation_is_named_by_its_recipe_and_stated_once() -> None:
    """Each address is that of a paper, and the paper of each card is one that a recipe states."""
    citing = [(spec.name, spec.citation) for spec in BUILT_IN if spec.citation is not None]
    papers = {paper.name: paper for _, paper in citing}
    assert len(papers) == len(citing)
    assert all(paper.name in names_of(name) for name, paper in citing)
    assert all(
        re.fullmatch(r"https://(aclanthology|arxiv|openreview|doi)\.(org|net)/\S+", one.url) for one in papers.values()
    )
    assert {METHODS.card(spec.method).paper for spec in BUILT_IN} <= {"", *papers}


def test_pages_that_cards_name_exist() -> None:
    named = {METHODS.card(spec.method).page for spec in BUILT_IN} - {""}
    assert named == {path.stem for path in (ROOT / "docs" / "methods").glob("*.md")}
    assert METHODS.card("a plugin's").page == ""
