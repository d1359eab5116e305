"""The reasons that stand beside settings, and the notes of recipes."""

from __future__ import annotations

from benchmark.cli.methods import notes, reasons
from zoo.methods.ptbert import PTBert
from zoo.methods.simcse import SimCSE
from zoo.recipes import all_recipes


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
