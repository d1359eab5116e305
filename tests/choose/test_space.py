"""Spaces: the same ranges for all recipes, the points that a paper leaves open, and what moves with a value."""

from __future__ import annotations

from typing import Any

import pytest

from choose.space import default_space, own_values, settings_of, space_of, typed_space
from zoo.errors import UsageError
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

RATES = "1e-06..0.0005:log"


def recipe(name: str = "simcse") -> Any:
    return all_recipes()[name].resolve()[1]


def space(name: str) -> dict[str, Any]:
    (spec,) = parse_methods(name, all_recipes())
    return default_space(spec.resolve()[1], spec)


def test_a_space_has_bounds_multiples_and_lists() -> None:
    space = space_of(recipe(), {"learning_rate": "0.5x..4x:log", "epochs": "1..3", "batch_size": [32, 64]}, "simcse")
    assert (space["learning_rate"].low, space["learning_rate"].high, space["learning_rate"].log) == (
        1.5e-5,
        1.2e-4,
        True,
    )
    assert space["epochs"].integer and 3 in space["epochs"] and 4 not in space["epochs"]
    assert 64 in space["batch_size"] and 128 not in space["batch_size"]


@pytest.mark.parametrize(
    ("stated", "named"), [({"learning_rate": "1e-4..1e-5"}, "LOW..HIGH"), ({"learning_rate": "0..1:log"}, "LOW..HIGH")]
)
def test_a_space_that_does_not_fit_is_named(stated: dict[str, object], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        space_of(recipe(), stated, "simcse")


def test_typed_spaces() -> None:
    assert typed_space(["a=1..2", "b=[3, 4]"]) == {"a": "1..2", "b": [3, 4]}
    with pytest.raises(UsageError, match="learning_rate"):
        typed_space(["learning_rate"])


def test_recipes_have_the_same_ranges_for_the_keys_that_they_have() -> None:
    for name in ("simcse", "ptbert", "promptbert", "promptbert-repo", "isbert", "esimcse", "diffcse", "sbert"):
        assert space(name)["learning_rate"] == RATES
    for name in ("simcse", "ptbert", "promptbert-repo"):
        assert space(name)["temperature"] == "0.02..0.5:log"
        assert space(name)["batch_size"] == [64, 128, 256]
    assert space("simcse")["pooler"] == ["avg", "avg_first_last", "cls", "cls_before_pooler"]
    assert "pooler" not in space("promptbert"), "its vector is the state at [MASK]"
    assert "pooler" not in space("ct"), "the mean, in its paper"
    assert space("ct")["batch_size"] == [16, 64, 128, 256], "its own too"
    assert space("avg-last") == {}


def test_a_recipe_s_own_settings_are_in_its_space() -> None:
    for name, spec in all_recipes().items():
        settings = spec.resolve()[1] if name not in ("pretrained", "mrl", "simcse-words") else None
        stated = {} if settings is None else default_space(settings, spec)
        if stated:
            dimensions = space_of(settings, stated, name)
            outside = {
                key: value for key, value in own_values(settings, dimensions).items() if value not in dimensions[key]
            }
            assert not outside, name


def test_points_that_a_paper_leaves_open_are_tuned() -> None:
    assert {"states", "mlp", "key_start", "key_return_attention"} <= space("ptbert").keys()
    assert space("ptbert")["mlp"] == [False, True]
    assert not {"states", "mlp", "key_start"} & space("ptbert-repo").keys(), "its code decides them"
    assert space("moco-reorder")["augment"] == [["exchange:0.2"], ["exchange:0.1"], ["exchange:0.4"]]
    assert space("clear")["augment"][2][0] == "delete:0.85:word", "not above 1"
    assert "srl" not in space("moco-srl"), "what the recipe is about"
    assert "epochs" not in space("burt"), "the budget"
    assert space("burt")["train_max_length"] == [64, 128, 256]
    assert "key_start" not in space("ptbert:key_start=random"), "typed"
    assert space("ptbert-tokens")["attention_dropout"] == [0.0, 0.1], "as its file states"
    assert space("promcse")["learning_rate"] == "1e-3..3e-1:log", "in the place of the range for all"


def test_a_queue_keeps_its_number_of_batches() -> None:
    for name, batch, size in (
        ("ptbert-repo", 64, 320),
        ("ptbert-repo", 256, 1280),
        ("ptbert", 256, 1024),
        ("moco", 128, 512),
        ("esimcse", 128, 320),
    ):
        assert settings_of(recipe(name), {"batch_size": batch})["queue_size"] == size
    assert settings_of(recipe("ptbert"), {"batch_size": 128, "queue_size": 200})["queue_size"] == 200, "as typed"
    assert settings_of(recipe("ptbert"), {"learning_rate": 1e-5}) == {"learning_rate": 1e-5}
    assert "queue_size" not in settings_of(recipe("simcse"), {"batch_size": 128})


def test_rates_that_fall_move_together_and_the_highest_is_in_the_range_for_all() -> None:
    settings = recipe("ct")
    moved = settings_of(settings, {"learning_rate": 10 * settings.learning_rate})["rates"]
    assert moved == pytest.approx([10 * rate for rate in settings.rates])
    highest = settings.rates[0] / settings.learning_rate
    dimension = space_of(settings, space("ct"), "ct")["learning_rate"]
    assert (highest * dimension.low, highest * dimension.high) == pytest.approx((1e-6, 5e-4))
