"""`zoo-bench methods --show`: a recipe with every setting, and where each comes from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from fakes import Cli

from zoo.recipe import all_recipes, build, parse_yaml


def test_a_shown_recipe_is_the_resolved_one(cli: Cli) -> None:
    """It is YAML again, and builds an equal recipe, for recipes of every kind of value."""
    for name in ("simcse-sup-small", "burt-small", "ptbert-repo", "promptbert-same-template", "ct-st", "random"):
        answer = cli("methods", "--show", name)
        assert answer.code == 0, answer.err
        content = parse_yaml(answer.out, name)
        cls, recipe = all_recipes()[name].resolve()
        assert build(cls.Recipe, content["parameters"], name) == recipe
        assert set(content["parameters"]) == {field.name for field in dataclasses.fields(recipe)}
        assert content["method"] == all_recipes()[name].method
        assert content.get("control", False) == (name == "random")


def test_each_setting_says_which_recipe_states_it(cli: Cli, tmp_path: Path) -> None:
    out = cli("methods", "--show", "simcse-sup-small:epochs=9").out
    for line in (
        "epochs: 9  # command line",
        "batch_size: 512  # simcse-sup",
        'pooler: "avg"  # simcse-sup-small',
        "temperature: 0.05  # default",
        'extends: "simcse-sup"',
    ):
        assert line in out
    own = tmp_path / "own.yaml"
    own.write_text("extends: simcse\nsummary: x\nparameters: {temperature: 0.1}\n", encoding="utf-8")
    assert "temperature: 0.1  # own" in cli("methods", "--show", own).out


def test_an_unknown_name_is_refused(cli: Cli) -> None:
    answer = cli("methods", "--show", "simsce")
    assert answer.code == 2 and "Did you mean 'simcse'" in answer.err
