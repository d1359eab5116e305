"""The command methods, and what it explains of a recipe."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from fakes import Cli

from benchmark.cli.methods import notes, reasons
from benchmark.tasks import TASKS
from benchmark.tasks.suites import all_suites
from zoo.files import parse_yaml
from zoo.methods.ptbert import PTBert
from zoo.methods.simcse import SimCSE
from zoo.plugins import METHODS
from zoo.recipes import all_recipes, build

# `zoo-bench methods --show`: a recipe with every setting, and where each comes from.


@pytest.mark.slow
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
        "#   For a small backbone",
        "#   (of simcse-sup) 512 triplets",
    ):
        assert line in out
    file = tmp_path / "own.yaml"
    file.write_text("extends: simcse\nsummary: x\nparameters: {temperature: 0.1}\n", encoding="utf-8")
    assert "temperature: 0.1  # own" in cli("methods", "--show", file).out


def test_the_list_is_narrow_and_by_family(cli: Cli) -> None:
    """Every recipe begins a line, under its family, in 100 columns; no summary is cut."""
    lines = cli("methods").out.splitlines()
    assert max(map(len, lines)) <= 100
    under: dict[str, str] = {}
    family = ""
    for line in lines[:-1]:
        if line.startswith("   "):
            pass  # a summary goes on
        elif line.startswith("  "):
            under[line.split()[0]] = family
        else:
            family = line.split(":")[0]
    recipes = all_recipes()
    text = " ".join(" ".join(lines).split()).replace("- ", "-")
    assert all(" ".join(spec.summary.split()).replace("- ", "-") in text for spec in recipes.values())
    assert under == {name: METHODS.card(spec.method).family for name, spec in recipes.items()}
    assert lines[-1].startswith(f"{len(recipes)} recipes;")


@pytest.mark.slow
def test_a_part_of_the_list(cli: Cli) -> None:
    """A glob fits names, a word also summaries and papers; --family takes a family or a method."""

    def names(*words: str) -> set[str]:
        answer = cli("methods", *words, "--json")
        assert answer.code == 0, answer.err
        return {one["name"] for one in json.loads(answer.out)}

    assert names("ct*") == {"ct", "ct-repo", "ct-st"}
    assert names("--family", "transforms") >= {"flow", "whitening", "sbert-flow"}
    assert names("--family", "flow") < names("--family", "transforms")
    assert "ptbert" in names("Tan et al.") and "simcse" not in names("Tan et al.")
    assert names("ct-*,cls*", "--family", "pooling") == {"cls"}
    wrong = cli("methods", "--family", "contrastiv")
    assert wrong.code == 2 and "Did you mean 'contrastive'" in wrong.err
    assert cli("methods", "nothing-like-it").code == 2
    assert cli("methods", "--show").code == 2


def test_tasks_by_family_and_in_full(cli: Cli, data_dir: Path) -> None:
    lines = cli("tasks").out.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0] == "sts:" and any(line.startswith("suite sts: ") for line in lines)
    content = json.loads(cli("tasks", "--json").out)
    assert {one["name"] for one in content["tasks"]} == set(TASKS.names())
    assert {one["name"] for one in content["suites"]} == set(all_suites())
    shown = json.loads(cli("tasks", "STS12,sts", "--show", "--json", "--data", data_dir).out)
    (task,), (suite,) = shown["tasks"], shown["suites"]
    assert (task["rows"], task["found"], task["suites"]) == ({"test": 3108}, "folder", ["sts"])
    assert suite["tasks"][0] == "STS12"
    text = cli("tasks", "STS12", "--show", "--data", data_dir).out
    assert "rows: test 3,108" in text and "found: folder" in text
    assert {one["family"] for one in json.loads(cli("tasks", "--family", "words", "--json").out)["tasks"]} == {"words"}
    assert cli("tasks", "STS21").code == 2


# The reasons that stand beside settings, and the notes of recipes.


def test_reasons_are_the_comments_beside_fields() -> None:
    """Those of a base class count, and a subclass's own take their place."""
    comments = reasons(SimCSE.Recipe)
    assert comments["hard_negative_weight"].startswith("ln alpha")
    assert comments["eval_every"].startswith("Steps between dev scores; the scripts of SimCSE")
    assert comments["dropout"] == "None: the backbone's own, 0.1 for BERT."
    assert "temperature" not in comments  # no comment, no reason
    assert set(reasons(PTBert.Recipe)) >= {"momentum", "heads", "states"}


def test_notes_go_up_the_chain_of_recipes() -> None:
    chain = [name for name, _ in notes(all_recipes()["simcse-sup-small"])]
    assert chain == ["simcse-sup-small", "simcse-sup", "simcse"]
    (only,) = notes(all_recipes()["simcse"])
    assert only[1].endswith("evaluate every 125 steps instead of 250.")
