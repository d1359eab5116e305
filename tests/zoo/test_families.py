"""Families of methods, and the reasons that stand beside settings."""

from __future__ import annotations

from zoo.explain import notes, reasons
from zoo.families import FAMILIES, PLUGINS, family_of
from zoo.methods.ptbert import PTBert
from zoo.methods.simcse import SimCSE
from zoo.recipe import all_recipes
from zoo.registry import METHODS


def test_every_built_in_method_has_one_family() -> None:
    listed = [method for _, methods in FAMILIES.values() for method in methods]
    assert len(listed) == len(set(listed))
    assert set(listed) == {name for name in METHODS.names() if METHODS.is_builtin(name)}
    assert family_of("of-nobody") == PLUGINS


def test_reasons_are_the_comments_beside_fields() -> None:
    """Those of a base class count, and a subclass's own take their place."""
    found = reasons(SimCSE.Recipe)
    assert found["hard_negative_weight"].startswith("ln alpha")
    assert found["eval_every"].startswith("steps between dev scores; the scripts of SimCSE")
    assert found["dropout"] == "None: the backbone's own, 0.1 for BERT"
    assert "temperature" not in found  # no comment, no reason
    assert set(reasons(PTBert.Recipe)) >= {"momentum", "heads", "states"}


def test_notes_go_up_the_chain_of_recipes() -> None:
    chain = [name for name, _ in notes(all_recipes()["simcse-sup-small"])]
    assert chain == ["simcse-sup-small", "simcse-sup", "simcse"]
    (only,) = notes(all_recipes()["simcse"])
    assert only[1].endswith("evaluate every 125 steps instead of 250.")
