"""What a paper's table needs: its printed rows that no recipe measures, and files that are not here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from zoo_bench_papers.items import Item, PaperOptions, Step
from zoo_bench_papers.needs import Survey

RUN = {"suite": "pocket", "methods": ["skipthought", "simcse"], "backbone": "zoo-mini"}


def missing(folder: Path, *, needs: tuple[str, ...] = (), **options: str) -> list[str]:
    item = Item(name="t", what="a table", paper="p", needs=needs, steps=(Step(command="run", options=RUN),))
    demand = Survey(PaperOptions(results=folder, options=options)).demand(item)
    return [need for need, here in demand.items() if not here]


@pytest.mark.parametrize("cited", [True, False])
@pytest.mark.parametrize("recipes", [(), ("simcse",)])
def test_a_cited_row_without_a_recipe_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cited: bool, recipes: tuple[str, ...]
) -> None:
    """Rows that a paper took from elsewhere, each named once, unless a recipe of ours measures them."""
    rows = [SimpleNamespace(method=name, cited=cited, recipes=recipes) for name in ("CLEAR", "CLEAR", "BigBird")]
    monkeypatch.setattr(Item, "lines", lambda _: [SimpleNamespace(row=row) for row in rows])
    named = [need for need in missing(tmp_path) if "would make" in need]
    assert named == (["what would make the rows CLEAR, BigBird"] if cited and not recipes else [])


def test_files_texts_and_backbones_that_are_not_here_are_missing(tmp_path: Path) -> None:
    assert missing(tmp_path) == ["a file: skipthought:path=FILE"]
    assert missing(tmp_path, needs=("a human",))[-1] == "a human"
    text = tmp_path / "own.txt"
    assert missing(tmp_path, corpus=str(text), methods="simcse") == [str(text)]
    text.write_text("A line.\n", encoding="utf-8")
    assert missing(tmp_path, corpus=str(text), methods="simcse") == []
    assert missing(tmp_path, backbone="no-such-model", methods="simcse") == ["no-such-model"]
