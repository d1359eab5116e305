"""zoo's own functions, and the cards of methods."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoo
from zoo.api import check_files
from zoo.check import PROBES
from zoo.errors import CorruptError, MissingError, UsageError
from zoo.methods import TABLE
from zoo.methods.pooled import Average
from zoo.plugins import FAMILIES, METHODS, register_method
from zoo.recipes import all_recipes, papers_of

# Encoders to use: `create` makes a recipe's, `load` gives back what was saved, of whatever method.


def test_a_name_that_is_not_one_recipe_is_refused() -> None:
    with pytest.raises(UsageError, match=r"unknown method 'simcze'.*simcse"):
        zoo.create("simcze")
    with pytest.raises(UsageError, match=r"'static-freq-s\*' names 3 recipes"):
        zoo.create("static-freq-s*")


@pytest.mark.slow
def test_a_folder_that_does_not_say_its_method_asks_for_it(tiny_bert: Path, tmp_path: Path) -> None:
    """Encoder.save alone writes no method.json; so did runs of older versions."""
    encoder = zoo.create(f"avg-last:backbone={tiny_bert}")
    encoder.save(tmp_path)
    with pytest.raises(MissingError, match="which states the method; name it"):
        zoo.load(tmp_path)
    assert np.array_equal(zoo.load(tmp_path, method="avg").encode(PROBES), encoder.encode(PROBES))
    with pytest.raises(MissingError, match="is not a folder"):
        zoo.load(tmp_path / "nowhere")


def test_a_plugin_that_is_not_loaded_is_named(tiny_bert: Path, tmp_path: Path) -> None:
    class Stranger(Average):
        pass

    zoo.save(Stranger(Average.Recipe(backbone=str(tiny_bert)), zoo.Runtime()), tmp_path)
    with pytest.raises(MissingError, match=r"saved by .*Stranger .*not registered here"):
        zoo.load(tmp_path)
    (tmp_path / "method.json").write_text('{"method": "av', encoding="utf-8")
    with pytest.raises(CorruptError, match=r"method\.json"):
        zoo.load(tmp_path)


@pytest.mark.parametrize("name", ["9" * 3000, "\0", "absent"])
def test_a_file_that_no_folder_can_have_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(CorruptError, match="damaged or missing"):
        check_files(tmp_path, {name: "0" * 64})


@pytest.mark.parametrize("seed", [-1, 2**40, 1.5])
def test_a_seed_that_no_generator_takes_is_refused(seed: Any) -> None:
    with pytest.raises(UsageError, match=f"seed is {seed}"):
        zoo.fit("simcse:backbone=zoo-mini", ["A text.", "Another."], seed=seed)


@pytest.mark.slow
def test_a_trained_encoder_comes_back_trained(tiny_bert: Path, tmp_path: Path) -> None:
    """A run's folder is taken as well as the folder in it."""
    encoder = zoo.create(f"simcse:backbone={tiny_bert}:batch_size=4:learning_rate=0.01")
    before = encoder.encode(PROBES)
    encoder.fit(zoo.Corpus("toy", [f"sentence number {i}" for i in range(16)]), run=zoo.Run())
    zoo.save(encoder, tmp_path / "run" / "encoder")
    for place in (tmp_path / "run", str(tmp_path / "run" / "encoder")):
        vectors = zoo.load(place).encode(PROBES)
        assert np.array_equal(vectors, encoder.encode(PROBES)) and not np.allclose(vectors, before)


# Cards of methods: each has its family, its papers and its page, read without loading it.

ROOT = Path(__file__).parents[2]
RECIPES_CARD = all_recipes()
BUILT_IN = [spec for spec in RECIPES_CARD.values() if METHODS.is_builtin(spec.method)]
NO_PAPER = {"bag-of-words", "random", "pretrained", "vectors", "wordvectors"}  # controls, and what a user brings


def names_of(name: str) -> list[str]:
    return [paper.name for paper in papers_of(RECIPES_CARD[name], RECIPES_CARD)]


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
