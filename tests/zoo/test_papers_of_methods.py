"""The papers of the methods: every recipe has its own, every page of the handbook cites what it describes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zoo.papers import HANDBOOK, PAPERS, handbook_page, papers_of
from zoo.recipe import all_recipes
from zoo.registry import METHODS

PAGES = Path(__file__).parents[2] / "docs" / "methods"
BUILT_IN = [spec for spec in all_recipes().values() if METHODS.is_builtin(spec.method)]
NO_PAPER = {"bag-of-words", "random", "pretrained", "vectors", "wordvectors"}  # controls, and what a user brings


def said(page: str) -> str:
    return " ".join((PAGES / f"{page}.md").read_text(encoding="utf-8").split())


def test_every_recipe_has_a_paper() -> None:
    assert {spec.name for spec in BUILT_IN if not papers_of(spec)} == NO_PAPER


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
    assert papers_of(all_recipes()[name]) == papers


def test_every_method_has_the_page_that_lists_it() -> None:
    """The table here and the lists in the pages are the same."""
    listed = {path.stem: re.search(r"<!-- recipes: (.+?) -->", said(path.stem)) for path in PAGES.glob("*.md")}
    assert {page: tuple(found[1].split(", ")) for page, found in listed.items() if found} == HANDBOOK
    assert {spec.name for spec in BUILT_IN if handbook_page(spec.method) is None} == set()
    assert handbook_page("a plugin's") is None


@pytest.mark.parametrize("name", sorted({name for spec in BUILT_IN for name in papers_of(spec)}))
def test_the_handbook_cites_with_the_address(name: str) -> None:
    """Authors, title, venue, year and the link, as the table has them, in some page of a method that is from it."""
    paper = PAPERS[name]
    pages = {handbook_page(spec.method) for spec in BUILT_IN if name in papers_of(spec)}
    cited = f"{paper.authors}. [*{paper.title}.*]({paper.url}) {f'{paper.venue} ' if paper.venue else ''}{paper.year}."
    assert any(cited in said(str(page)) for page in pages), cited


def test_the_table_has_no_paper_that_nothing_is_from() -> None:
    assert set(PAPERS) == {name for spec in BUILT_IN for name in papers_of(spec)}
    assert all(
        re.fullmatch(r"https://(aclanthology|arxiv|openreview)\.(org|net)/\S+", one.url) for one in PAPERS.values()
    )
