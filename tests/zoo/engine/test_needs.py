"""A backbone that lacks what a recipe needs is refused in a sentence, by every recipe; the others train on it."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from zoo.encoder import Corpus, Encoder, Run, Runtime
from zoo.errors import UsageError, ZooError
from zoo.methods.base import BackboneEncoder
from zoo.methods.pretrained import Pretrained
from zoo.plugins import METHODS
from zoo.recipes import all_recipes

WORDS = ("A man", "The old dog"), ("sees", "has"), ("the car", "a boat", "her house", "two balls")
SENTENCES = [" ".join(words) for words in product(*WORDS)]
LABELS = ["entailment", "contradiction", "ppdb:equivalence", "ppdb:independent"] * 2
LACKS = {"mask token": "mask token", "padding token": "padding token", "MLM head": "MLM head", "first token": "[CLS]"}


def recipes() -> list[str]:
    """Return a recipe for each method and combination of needs."""
    names: dict[object, str] = {}
    for name, spec in all_recipes().items():
        if issubclass(METHODS.get(spec.method), BackboneEncoder) and spec.method != "pretrained":
            cls, recipe = spec.resolve()
            names.setdefault((cls, cls.needs(recipe)), name)
    return list(names.values())


@pytest.fixture(scope="module")
def lacking(tiny_mlm: Path, tiny_causal: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Folders of backbones by what they lack."""
    from transformers import PreTrainedTokenizerFast

    folder, tokens = tmp_path_factory.mktemp("lacking"), ("unk", "cls", "sep", "mask", "pad")
    places = {"first token": tiny_causal, "MLM head": tiny_causal}
    for name, need in (("mask", "mask token"), ("pad", "padding token")):
        places[need] = folder / name
        shutil.copytree(tiny_mlm, places[need], ignore=shutil.ignore_patterns("*token*"))
        special = {f"{token}_token": f"[{token.upper()}]" for token in tokens if token != name}
        PreTrainedTokenizerFast(tokenizer_file=str(tiny_mlm / "tokenizer.json"), **special).save_pretrained(
            places[need]
        )
    return places


def resolved(name: str, backbone: Path) -> tuple[type[BackboneEncoder], object]:
    cls, recipe = all_recipes()[name].resolve({"backbone": str(backbone)})
    small = {"batch_size": 8, "eval_every": 100, "epochs": 1}
    fields = {field.name for field in dataclasses.fields(recipe)}
    return cls, dataclasses.replace(recipe, **{key: value for key, value in small.items() if key in fields})


def encoder_of(name: str, backbone: Path) -> Encoder:
    cls, recipe = resolved(name, backbone)
    return cls(recipe, Runtime())


@pytest.mark.parametrize("name", recipes())
@pytest.mark.parametrize("need", LACKS)
def test_what_a_recipe_needs_is_refused_in_a_sentence(name: str, need: str, lacking: Mapping[str, Path]) -> None:
    cls, recipe = resolved(name, lacking[need])
    if need not in cls.needs(recipe):
        return
    with pytest.raises(UsageError) as refused:
        encoder_of(name, lacking[need])
    # A decoder lacks several things; any of them is a reason.
    needs = [words for other, words in LACKS.items() if other in cls.needs(recipe)]
    assert any(words in str(refused.value) for words in needs)
    if "[CLS]" in str(refused.value):
        check_instead(str(refused.value), cls, recipe)
    if need != "first token":
        with pytest.raises(UsageError, match=r"needs an? "):
            cls.sources(recipe, Runtime())


def check_instead(message: str, cls: type[BackboneEncoder], recipe: Any) -> None:
    """The setting that the message names makes the encoder; or it names another method, which does."""
    assert ("this recipe's" in message) != ("another method, such as avg-last" in message)
    setting = re.search(r"this recipe's (\w+)=(\w+)\.", message)
    if setting is None:
        encoder = encoder_of("avg-last", Path(recipe.backbone))
    else:
        encoder = cls(dataclasses.replace(recipe, **{setting[1]: setting[2]}), Runtime())
    assert encoder.dim


def test_a_teacher_is_named_as_the_teacher(lacking: Mapping[str, Path]) -> None:
    cls, recipe = resolved("rankcse-repo", lacking["MLM head"])
    with pytest.raises(UsageError, match=r"its teacher diffcse: the recipe needs an? "):
        cls.sources(recipe, Runtime())


@pytest.mark.slow
@pytest.mark.parametrize("name", recipes())
@pytest.mark.parametrize("need", LACKS)
def test_any_other_recipe_trains_or_says_why_not(name: str, need: str, lacking: Mapping[str, Path]) -> None:
    try:
        encoder = encoder_of(name, lacking[need])
        labels = LABELS if encoder.traits(encoder.recipe).needs_pairs else None
        encoder.fit(Corpus("toy", SENTENCES, labels, None if labels else [0, 8]), dev_score=lambda _: 50.0, run=Run())
    except ZooError as error:
        assert "\n" not in str(error)
        return
    first, second = encoder.encode(["The dog", "The ball of a child"])
    assert abs(first - second).max() > 1e-6


def test_a_finished_encoder_is_read_as_its_folder_says(tiny_causal: Path) -> None:
    encoder = Pretrained(Pretrained.Recipe(model=str(tiny_causal), pooling="cls"), Runtime())
    first, second = encoder.encode(["The dog", "The ball of a child"])
    assert abs(first - second).max() < 1e-6
