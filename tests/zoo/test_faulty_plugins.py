"""A mutation of a right plugin makes a wrong one, which `doctor` names with the plugin's line; odd right ones pass."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from zoo.check import problem_of
from zoo.conformance import check
from zoo.encoder import Runtime
from zoo.errors import UsageError
from zoo.identity import code_sha256
from zoo.plugins import METHODS, load_plugin_file
from zoo.recipes import all_recipes

FITTED = """
import zlib
from dataclasses import asdict, dataclass
import numpy as np
from zoo import Encoder, FitReport, Runtime, Traits, register_method
from zoo.files import read_json, sha256_json, write_json
from zoo.recipes import build

@dataclass(frozen=True, kw_only=True)
class HashedRecipe:
    width: int = 16
    power: float = 1.0
    lower: bool = True

@register_method("NAME")
class Hashed(Encoder):
    "Words hashed into columns, without the mean of some sentences."
    Recipe = HashedRecipe

    def __init__(self, recipe, runtime):
        super().__init__(recipe, runtime)
        self.dim = recipe.width
        self.mean = np.zeros(self.dim, np.float32)
        self.seen = None

    @classmethod
    def traits(cls, recipe):
        return Traits(needs_corpus=True, stochastic=True)

    def raw(self, texts):
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in enumerate(texts):
            for word in ["<s>", *(text.lower() if self.recipe.lower else text).split()]:
                code = zlib.crc32(word.encode("utf-8", "surrogatepass"))
                vectors[row, code % self.dim] += (code % 7 + 1.0) ** self.recipe.power
        return vectors

    def fit(self, corpus, *, dev_score=None, run):
        drawn = np.random.default_rng(run.seed).permutation(len(corpus.sentences))[:20]
        self.mean = self.raw([corpus.sentences[row] for row in drawn]).mean(axis=0)
        return FitReport(fitted=True, sentences=len(drawn))

    def encode(self, texts):
        return self.raw(texts) - self.mean

    def save(self, folder):
        write_json(folder / "hashed.json", {"recipe": asdict(self.recipe), "mean": self.mean.tolist()})

    @classmethod
    def load(cls, folder, runtime=None):
        content = read_json(folder / "hashed.json")
        encoder = cls(build(cls.Recipe, content["recipe"], str(folder)), runtime or Runtime())
        encoder.mean = np.array(content["mean"], np.float32)
        return encoder

    def fingerprint(self):
        return sha256_json([asdict(self.recipe), self.mean.tolist()])
"""

LOSS = """
import random
from dataclasses import dataclass
from torch.nn import functional as F
from zoo import register_method
from zoo.methods.simcse import SimCSE, SimCSEObjective, SimCSERecipe

@dataclass(frozen=True, kw_only=True)
class HingeRecipe(SimCSERecipe):
    batch_size: int = 8
    steps: int | None = 1
    learning_rate: float = 1e-3
    margin: float = 0.1

class HingeObjective(SimCSEObjective):
    recipe: HingeRecipe

    def contrast(self, h, h_plus, *others):
        cosines = F.cosine_similarity(h[:, None], h_plus[None], dim=-1)
        over = (cosines - cosines.diagonal()[:, None] + self.recipe.margin).clamp_min(0)
        return over.mean()

@register_method("NAME")
class Hinge(SimCSE[HingeRecipe]):
    "A hinge over the cosines of sentences, each without some words in its second view."
    loss_of_batch = HingeObjective

    def views(self, corpus, draw):
        return [(text, self.shortened(text, draw)) for text in corpus.sentences]

    def shortened(self, text, draw):
        return " ".join(word for word in text.split() if draw.random() > 0.3) or text
"""

PLAIN = FITTED.split("    def save(self")[0]
PLAIN = PLAIN[: PLAIN.index("    @classmethod\n    def traits")] + PLAIN[PLAIN.index("    def raw") :]
PLAIN = PLAIN[: PLAIN.index("    def fit(")] + PLAIN[PLAIN.index("    def encode") :]
"""A method that learns nothing: its `save`, `load` and `fingerprint` are the defaults."""

SHORT = {
    "ENCODE": "return self.raw(texts) - self.mean",
    "FIT": "drawn = np.random.default_rng(run.seed).permutation(len(corpus.sentences))[:20]",
}
PLAIN = PLAIN.replace(SHORT["ENCODE"], "return self.raw(texts)")
BASES = {"method": PLAIN, "odd": PLAIN, "transform": FITTED, "loss": LOSS}
MUTATIONS = yaml.safe_load(Path(__file__).with_name("faulty_plugins.yaml").read_text(encoding="utf-8"))
FAULTS = [(kind, mutation) for kind in ("method", "transform", "loss") for mutation in MUTATIONS[kind]]


def mutated(kind: str, mutation: dict[str, str]) -> str:
    """Return a right plugin's text with one mutation."""
    text, old = BASES[kind], SHORT.get(mutation["old"], mutation["old"])
    old = old if old in text else old.replace(" - self.mean", "")
    assert old in text
    return text.replace(old, mutation["new"], 1)


def plugin(text: str, folder: Path, name: str) -> list[tuple[str, str | None]]:
    path = folder / "plugin.py"
    path.write_text(text.replace("NAME", name), encoding="utf-8")
    METHODS.names()
    before = dict(METHODS._entries)
    try:
        assert load_plugin_file(path, [METHODS]) is None
        cls = METHODS.get(name)
        recipe: list[object] = []
        if problem := problem_of(cls, lambda: recipe.append(cls.Recipe()), "Recipe"):
            return [("recipe", problem)]
        return list(check(cls, recipe[0], Runtime(), name))  # type: ignore[arg-type]
    finally:
        METHODS._entries = before


def case(kind: str, mutation: dict[str, str]) -> Any:
    marks = [pytest.mark.slow] if kind == "loss" else []
    return pytest.param(kind, mutation, id=f"{kind}: {mutation['what']}", marks=marks)


@pytest.mark.parametrize(("kind", "mutation"), [case(*row) for row in FAULTS])
def test_a_faulty_method_is_named_in_one_line_with_its_own(kind: str, mutation: dict[str, str], tmp_path: Path) -> None:
    problems = [problem for _, problem in plugin(mutated(kind, mutation), tmp_path, "faulty") if problem]
    assert len(problems) == 1 and mutation["words"] in problems[0] and problems[0].count("plugin.py:") == 1


def test_what_a_fit_leaves_in_memory_alone_is_named(tmp_path: Path) -> None:
    learned = "self.mean = self.raw([corpus.sentences[row] for row in drawn]).mean(axis=0)"
    text = FITTED.replace(learned, f"{learned}\n        KEPT.setdefault(str(self.recipe), self.mean)")
    text = text.replace('np.array(content["mean"], np.float32)', "KEPT[str(encoder.recipe)]")
    text = text.replace("@dataclass", "KEPT = {}\n\n@dataclass", 1)
    (problem,) = [problem for _, problem in plugin(text, tmp_path, "forgetful") if problem]
    assert re.fullmatch(r"load\(\) fails in another process: .*KeyError.*plugin\.py:\d+, in load: .*", problem)


def test_a_method_of_an_imported_module_is_found_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "beside")
    (tmp_path / "beside" / "helper_i.py").write_text(PLAIN.replace("NAME", "imported"), encoding="utf-8")
    assert [problem for _, problem in plugin("import helper_i", tmp_path, "imported") if problem] == []


TAKEN = ["simcse", "SimCSE", "avg-last", "Avg-Last", "PTBERT-REPO"]
"""Names of methods and recipes, in any case."""
NO_NAMES = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "a\\b",
    "a:b",
    "a,b",
    "a b",
    "a\nb",
    "*",
    "a*",
    "[a]",
    "-x",
    "_x",
    "x.yaml",
    "x.py",
]
"""What a command line, a file or a glob reads otherwise."""


@pytest.mark.parametrize("name", [*TAKEN, *NO_NAMES])
def test_a_name_that_is_taken_or_none_is_refused_with_its_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    path.write_text(PLAIN.replace('"NAME"', repr(name)), encoding="utf-8")
    METHODS.names()
    before = dict(METHODS._entries)
    try:
        with pytest.raises(UsageError, match=r"Rename (the method|one|it)\.") as caught:
            load_plugin_file(path, [METHODS])
            all_recipes()
    finally:
        METHODS._entries = before
    assert f"{path}:15" in str(caught.value)


@pytest.mark.parametrize("name", ["simcse2", "my-bag", "Bag_2", "b.2", "c++", "méthode"])
def test_other_names_are_right(name: str, tmp_path: Path) -> None:
    assert [problem for _, problem in plugin(PLAIN, tmp_path, name) if problem] == []


# The words of the import; the files in the order of imports, the last of which is edited.
HELPERS = {
    "beside": ("import helper_a", ["helper_a.py"]),
    "inside a function": ("def scale():\n    import helper_b", ["helper_b.py"]),
    "of a helper": ("import helper_c", ["helper_c.py", "helper_d.py"]),
    "everything of it": ("from helper_e import *", ["helper_e.py"]),
    "in a package": ("from helpers_f import scale", ["helpers_f/__init__.py", "helpers_f/scale.py"]),
    "its package": ("import helpers_g.scale", ["helpers_g/scale.py", "helpers_g/__init__.py"]),
    "by its name": ("import importlib\nimportlib.import_module('helper_h')", ["helper_h.py"]),
    "a library's name": ("import turtle", ["turtle.py"]),
    "another library's name": ("import cosent", ["cosent.py"]),
    "the plugin's name": ("import plugin", ["plugin.py"]),
    "no letters of ASCII": ("import hälfte", ["hälfte.py"]),
}


@pytest.mark.parametrize("what", HELPERS)
def test_an_edited_helper_is_another_identity(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, names = HELPERS[what]
    (tmp_path / "beside").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "beside")
    files = [tmp_path / "beside" / name for name in names]
    for file, following in zip(files, [*names[1:], ""], strict=True):
        file.parent.mkdir(exist_ok=True)
        of_package = "__init__" in file.name or "/" in following
        file.write_text("" if of_package or not following else f"import {following[:-3]}", encoding="utf-8")
    path = tmp_path / "method.py"
    path.write_text(f"{words}\n{PLAIN}".replace("NAME", "helped-method"), encoding="utf-8")
    before, loaded = dict(METHODS._entries), {*sys.modules}
    try:
        assert load_plugin_file(path, [METHODS]) is None
        cls = METHODS.get("helped-method")
        first = code_sha256(cls)
        files[-1].write_text("SCALE = 2\n", encoding="utf-8")
        assert code_sha256(cls) != first
    finally:
        METHODS._entries = before
        for name in {*sys.modules} - loaded:
            del sys.modules[name]


@pytest.mark.parametrize("mutation", MUTATIONS["odd"], ids=lambda mutation: mutation["what"])
def test_a_right_method_that_looks_odd_passes(mutation: dict[str, str], tmp_path: Path) -> None:
    assert [problem for _, problem in plugin(mutated("odd", mutation), tmp_path, "odd") if problem] == []


@pytest.mark.parametrize("text", [FITTED, PLAIN, LOSS], ids=["transform", "method", "loss"])
def test_the_right_ones_pass(text: str, tmp_path: Path) -> None:
    assert [problem for _, problem in plugin(text, tmp_path, "right") if problem] == []
