"""Recipes from YAML: typed, strict, and what `--methods` makes of them."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from zoo import register_method
from zoo.errors import UsageError
from zoo.files import parse_yaml, read_yaml
from zoo.methods.pooled import Average
from zoo.recipes import all_recipes, build, read_recipe
from zoo.selection import parse_methods

RECIPES = all_recipes()


@dataclass(frozen=True, kw_only=True)
class Sample:
    rate: float = 0.1
    steps: int = 1
    switch: bool = False
    label: str = "x"
    kind: Literal["a", "b"] = "a"
    limit: int | None = None
    names: tuple[str, ...] = ()


def sample(text: str) -> Sample:
    return build(Sample, parse_yaml(text, "here.yaml"), "here.yaml")


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("rate: 3e-5", "rate", 3e-5),  # YAML 1.1 reads this as text
        ("rate: 1", "rate", 1.0),
        ("rate: 0.25", "rate", 0.25),
        ("steps: 7", "steps", 7),
        ("switch: true", "switch", True),
        ("label: 'no'", "label", "no"),
        ("kind: b", "kind", "b"),
        ("limit: 3", "limit", 3),
        ("limit: null", "limit", None),
        ("names: [p, q]", "names", ("p", "q")),
    ],
)
def test_value_becomes_the_declared_type(text: str, field: str, value: Any) -> None:
    value_read = getattr(sample(text), field)
    assert value_read == value and type(value_read) is type(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("steps: true", "steps: expected a whole number, got True"),
        ("steps: 1.5", "expected a whole number"),
        ("steps: '7'", "expected a whole number"),
        ("steps: null", "expected a whole number, got None"),
        ("rate: true", "expected a number"),
        ("rate: fast", "expected a number, got 'fast'"),
        ("rate: .nan", "expected a finite number, got nan"),
        ("rate: nan", "expected a number, got 'nan'"),
        ("switch: 1", "expected true or false"),
        ("label: no", "expected text, got False (put it in quotes)"),
        ("label: 1.0", "expected text, got 1.0 (put it in quotes)"),
        ("kind: c", "'c' is not one of 'a', 'b'"),
        ("kind: [a]", "is not one of"),
        ("limit: many", "limit: expected a whole number"),
        ("names: p", "expected a list"),
        ("names: [1]", "expected text"),
        ("stesp: 1", "unknown key 'stesp'. Did you mean 'steps'?"),
        ("1: 1", "unknown key 1"),
    ],
)
def test_a_wrong_value_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        sample(text)
    assert words in str(caught.value)
    assert str(caught.value).startswith("here.yaml")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "duplicate key 'a'"),
        ("p:\n  q: 1\n  q: 2\n", 3, "duplicate key 'q'"),
        ("a: 1\nb: !!python/object/apply:os.system ['true']\n", 2, "python/object"),
        ("a: !!python/name:os.system\n", 1, "python/name"),
        ("a: 1\nb: [1, 2\nc: 3\n", 3, ""),
        ("a: 1\n\tb: 2\n", 2, ""),
    ],
)
def test_bad_yaml_is_refused_with_file_and_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_yaml(path)
    assert str(caught.value).startswith(f"{path}:{line}")
    assert words in str(caught.value)


def test_unreadable_recipes_are_usage_errors(tmp_path: Path) -> None:
    (tmp_path / "no-method.yaml").write_text("summary: x\n", encoding="utf-8")
    (tmp_path / "key.yaml").write_text("method: cls\nsummary: x\nparameter: {}\n", encoding="utf-8")
    for name, words in {"absent": "does not exist", "no-method": "'method'", "key": "Did you mean"}.items():
        with pytest.raises(UsageError, match=words) as caught:
            read_recipe(tmp_path / f"{name}.yaml")
        assert f"{name}.yaml" in str(caught.value)


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_shipped_recipe_resolves(name: str) -> None:
    cls, recipe = RECIPES[name].resolve()
    assert type(recipe) is cls.Recipe
    assert dataclasses.is_dataclass(recipe)
    with pytest.raises(dataclasses.FrozenInstanceError):
        recipe.backbone = "x"
    assert RECIPES[name].summary
    assert all(not (isinstance(v, float) and math.isnan(v)) for v in dataclasses.asdict(recipe).values())


@pytest.mark.parametrize("name", ["simcse", "ptbert", "whitening", "flow"])
def test_the_paper_recipe_equals_the_dataclass_defaults(name: str) -> None:
    """The defaults are the paper's, so the recipe of the plain name may not differ from them."""
    cls, recipe = RECIPES[name].resolve()
    assert recipe == cls.Recipe()


def repeated_lines(path: Path) -> tuple[int, list[str]]:
    """Return how many parameter lines a recipe file has, and those without which it would be the same recipe."""
    parameters = read_yaml(path).get("parameters") or {}
    spec = read_recipe(path)
    cls, recipe = spec.resolve()
    above = read_recipe(path.with_name(f"{spec.extends}.yaml")).parameters if spec.extends else {}
    repeated = []
    for name in parameters:
        rest = {**above, **{k: v for k, v in parameters.items() if k != name}}
        with contextlib.suppress(UsageError):  # the recipe needs the line
            repeated += [name] if build(cls.Recipe, rest, str(path)) == recipe else []
    return len(parameters), repeated


@pytest.mark.slow
def test_no_line_of_a_shipped_recipe_repeats() -> None:
    """Neither the default of its method nor the recipe that it extends says the same already."""
    by_recipe = {name: repeated_lines(Path(spec.origin)) for name, spec in RECIPES.items()}
    lines, repeated = (
        sum(counts)
        for counts in zip(*((n, len(repeated_names)) for n, repeated_names in by_recipe.values()), strict=True)
    )
    print(f"{len(by_recipe)} recipes, {lines} parameter lines, {repeated} of them repeated")
    assert not {name: repeated_names for name, (_, repeated_names) in by_recipe.items() if repeated_names}


def write_recipe(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(f"summary: {name}\n{text}\n", encoding="utf-8")
    return path


def test_extends_takes_method_and_parameters(tmp_path: Path) -> None:
    write_recipe(tmp_path, "one", "method: simcse\npaper: p\ncontrol: true\nparameters: {epochs: 2, batch_size: 8}")
    write_recipe(tmp_path, "two", "extends: one\nparameters: {epochs: 3, temperature: 0.5}")
    three = read_recipe(write_recipe(tmp_path, "three", "extends: two\nparameters: {temperature: 0.05}"))
    assert three.parameters == {"epochs": 3, "batch_size": 8, "temperature": 0.05}
    assert (three.method, three.extends, three.summary) == ("simcse", "two", "three")
    assert three.paper == "" and three.control is False, "a source is one recipe's own, and so is a control"
    _, recipe = three.resolve({"backbone": "elsewhere", "epochs": 9})
    assert (recipe.epochs, recipe.batch_size, recipe.temperature, recipe.backbone) == (3, 8, 0.05, "elsewhere")


def test_a_file_of_ones_own_extends_a_shipped_recipe(tmp_path: Path) -> None:
    file = write_recipe(tmp_path, "simcse", "extends: simcse\nparameters: {epochs: 2}")
    assert read_recipe(file).resolve()[1] == dataclasses.replace(RECIPES["simcse"].resolve()[1], epochs=2)
    beside = parse_methods(str(write_recipe(tmp_path, "more", "extends: simcse")), RECIPES)[0]
    assert beside.resolve()[1] == RECIPES["simcse"].resolve()[1], "the shipped one, whatever lies beside the file"
    settings_file = write_recipe(tmp_path, "my-simcse", "extends: simcse\nparameters: {epochs: 2}")
    assert parse_methods(str(settings_file), RECIPES)[0].resolve()[1].epochs == 2


def test_a_file_extends_a_plugins_method(tmp_path: Path, clean_registries: None) -> None:
    """By the method's name, with its own defaults; two generations down too. Without a summary, the settings are it."""

    @register_method("letters")
    class Letters(Average):
        """Of a plugin."""

    assert Letters.Recipe is Average.Recipe
    (tmp_path / "first.yaml").write_text("extends: letters\nparameters: {layers: top2}\n", encoding="utf-8")
    (tmp_path / "second.yaml").write_text("extends: first\nsummary: more\n", encoding="utf-8")
    first, second = (read_recipe(tmp_path / f"{name}.yaml") for name in ("first", "second"))
    assert (first.method, first.summary) == ("letters", "letters, layers top2")
    assert (second.method, second.summary, dict(second.parameters)) == ("letters", "more", {"layers": "top2"})
    assert second.resolve()[1].layers == "top2"
    with pytest.raises(UsageError, match=r"Did you mean 'letters'.*methods of --plugin"):
        (tmp_path / "third.yaml").write_text("extends: leters\n", encoding="utf-8")
        read_recipe(tmp_path / "third.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("extends: prompt-brt", "extends the unknown recipe 'prompt-brt'. Did you mean 'promptbert'"),
        ("extends: ../configs/simcse", "extends the unknown recipe"),
        ("extends: itself", "extends the unknown recipe 'itself'"),
        ("extends: left", "`extends` goes in a circle: left > right > left."),
        ("extends: simcse\nmethod: simcse", "states either 'method' or 'extends'"),
        ("paper: x", "states either 'method' or 'extends'"),
        ("extends: 3", "extends: expected text, got 3"),
        ("extends: simcse\nextends: moco", "duplicate key 'extends'"),
        ("extends: simcse\nparameters: {epochs: 1, epochs: 1}", "duplicate key 'epochs'"),
        ("extends: simcse\nparameters: {temprature: 1}", "Did you mean 'temperature'?"),
        ("extends: broken", "broken.yaml: unknown key 'sumary'"),
    ],
)
def test_a_wrong_extends_is_refused(tmp_path: Path, text: str, words: str) -> None:
    write_recipe(tmp_path, "left", "extends: right")
    write_recipe(tmp_path, "right", "extends: left")
    write_recipe(tmp_path, "broken", "extends: simcse\nsumary: x")
    path = write_recipe(tmp_path, "itself", text)
    with pytest.raises(UsageError) as caught:
        read_recipe(path).resolve()
    assert words in str(caught.value) and str(tmp_path) in str(caught.value)


def test_shipped_recipes_extend_recipes_of_their_method() -> None:
    for spec in RECIPES.values():
        assert not spec.extends or RECIPES[spec.extends].method == spec.method, spec.name


def test_defaults_fill_only_keys_that_the_recipe_leaves() -> None:
    spec = parse_methods("simcse:temperature=0.1", RECIPES)[0]
    _, recipe = spec.resolve({"backbone": "elsewhere", "temperature": 9.0, "no_such_key": 1})
    assert recipe.backbone == "elsewhere"
    assert recipe.temperature == 0.1


def test_globs_choose_in_order_and_an_empty_one_is_refused() -> None:
    names = [spec.name for spec in parse_methods("cls, STATIC-*", RECIPES)]
    assert names == ["cls", *sorted(n for n in RECIPES if n.startswith("static-"))]
    with pytest.raises(UsageError, match=r"matches nothing; known: .*ptbert"):
        parse_methods("zzz*", RECIPES)


def test_overrides_are_typed_named_and_leave_the_recipe_alone() -> None:
    specs = parse_methods("simcse:learning_rate=1e-5:batch_size=8,simcse", RECIPES)
    assert [s.name for s in specs] == ["simcse:learning_rate=1e-5:batch_size=8", "simcse"]
    first, second = (s.resolve()[1] for s in specs)
    assert (first.learning_rate, first.batch_size) == (1e-5, 8)
    assert (second.learning_rate, second.batch_size) == (3e-5, 64)


def test_an_override_may_be_a_list() -> None:
    names = ["burt-small:objectives=[nli, pi]:negatives=1", "burt:paraphrases=[]", "cls"]
    specs = parse_methods(",".join(names), RECIPES)
    assert [spec.name for spec in specs] == names
    _, recipe = specs[0].resolve({})
    assert (recipe.objectives, recipe.negatives) == (("nli", "pi"), 1)  # type: ignore[attr-defined]


def test_a_list_for_a_single_value_is_several_rows() -> None:
    """For a key that is a list itself it is one."""
    text = "simcse:temperature=[0.05,0.1]:batch_size=[32, 64],burt:objectives=[nli,pi]"
    specs = parse_methods(text, RECIPES)
    assert [spec.name for spec in specs] == [
        *(f"simcse:temperature={t}:batch_size={b}" for t in (0.05, 0.1) for b in (32, 64)),
        "burt:objectives=[nli,pi]",
    ]
    recipe = specs[1].resolve()[1]
    assert (recipe.temperature, recipe.batch_size) == (0.05, 64)
    assert [spec.name for spec in parse_methods(specs[1].name, RECIPES)] == [specs[1].name], "a row's name is typed"


@pytest.mark.parametrize("value", ["[X], that is [MASK] .", "a:b=c, [X] [MASK]", "it's [X], [MASK]."])
def test_nothing_inside_quotes_parts_methods_or_settings(value: str) -> None:
    for quoted in (f'"{value}"', "'" + value.replace("'", "''") + "'"):
        spec, last = parse_methods(f"prompt:template={quoted}:pool=avg,cls", RECIPES)
        assert (spec.parameters["template"], spec.parameters["pool"], last.name) == (value, "avg", "cls")


@pytest.mark.parametrize(
    "text", ["simcse:batch_size=1", "cosent:batch_size=1", "isbert:batch_size=1", "static-contrastive:batch_size=1"]
)
def test_a_batch_of_one_is_refused_where_a_batch_is_compared(text: str) -> None:
    with pytest.raises(UsageError, match="batch_size 1 trains nothing"):
        parse_methods(text, RECIPES)[0].resolve()
    for other in ("ptbert:batch_size=1", "tsdae:batch_size=1"):  # a queue has negatives; an autoencoder needs none
        parse_methods(other, RECIPES)[0].resolve()


def test_a_recipe_file_is_a_method(tmp_path: Path) -> None:
    path = tmp_path / "warm.yaml"
    path.write_text("method: simcse\nsummary: warm\nparameters: {temperature: 1}\n", encoding="utf-8")
    plain, changed = parse_methods(f"{path},{path}:epochs=3", RECIPES)
    assert (plain.name, changed.name) == ("warm", "warm:epochs=3")
    assert plain.resolve()[1].temperature == 1.0
    assert changed.resolve()[1].epochs == 3


def test_open_points_are_inherited_until_they_are_stated(tmp_path: Path) -> None:
    write_recipe(tmp_path, "one", "method: simcse\nopen: {pooler: here cls, augment: none here}")
    two = read_recipe(write_recipe(tmp_path, "two", "extends: one\nparameters: {pooler: avg}"))
    assert two.open == {"augment": "none here"}, "what a recipe states itself is not open in it"
    assert read_recipe(write_recipe(tmp_path, "three", "extends: two\nopen: {}")).open == {}
    assert read_recipe(write_recipe(tmp_path, "four", "extends: two\nopen: {epochs: one here}")).open.keys() == {
        "epochs"
    }
    with pytest.raises(UsageError, match="open: expected a mapping"):
        read_recipe(write_recipe(tmp_path, "five", "extends: two\nopen: [pooler]"))


def test_open_points_are_settings_of_the_recipe_or_its_data() -> None:
    stated = {name: spec for name, spec in RECIPES.items() if spec.open}
    assert {"ptbert", "ptbert-tokens", "moco-delete", "moco-srl", "clear", "burt"} <= stated.keys()
    for name, spec in stated.items():
        fields = {field.name for field in dataclasses.fields(spec.resolve()[0].Recipe)}
        assert spec.open.keys() <= {*fields, "pairs"}, name
        assert all(spec.open.values()), name
    assert not RECIPES["ptbert-repo"].open and "augment" not in RECIPES["moco"].open
