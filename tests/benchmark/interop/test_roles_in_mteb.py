"""Prompts and similarity of a folder: mteb's value of sentence-transformers' own model, here and through `for_mteb`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import benchmark
from benchmark.report.conditions import roles
from benchmark.report.signature import signature

pytestmark = pytest.mark.slow

mteb = pytest.importorskip("mteb", reason="pip install 'zoo-bench[mteb]'")
FAST: dict[str, Any] = {"precision": "fp32", "quiet": True}
CARDS: dict[str, dict[str, Any]] = {
    "queries and documents": {"prompts": {"query": "query: what is ", "document": "passage: "}},
    "a default for all": {"prompts": {"all": "similar: ", "query": "ask "}, "default_prompt_name": "all"},
    "dot products": {"prompts": {"query": "the "}, "similarity_fn_name": "dot"},
    "distances": {"similarity_fn_name": "euclidean"},
    "a prompt of one task": {"prompts": {"ArguAna-query": "counter: ", "document": "a document "}},
}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data of ArguAna, where mteb would ask the hub: a query is a document too."""
    from datasets import Dataset

    generator = np.random.default_rng(5)
    words = "old new red green dog lamp rain train bread garden is what of a the in query".split()
    documents = [" ".join(generator.choice(words, 6)) for _ in range(50)]
    queries = [*documents[:3], *(" ".join(generator.choice(words, 3)) for _ in range(17))]
    parts = {
        "corpus": {"_id": [f"d{i}" for i in range(50)], "title": ["", "Title"] * 25, "text": documents},
        "queries": {"_id": [f"q{i}" for i in range(20)], "text": queries},
        "default": {
            "query-id": [f"q{i // 3}" for i in range(60)],
            "corpus-id": [f"d{i}" for i in generator.integers(0, 50, 60)],
            "score": [1] * 60,
        },
    }
    place = "mteb.abstasks.retrieval_dataset_loaders."
    monkeypatch.setattr(place + "get_dataset_config_names", lambda *_, **__: list(parts))
    monkeypatch.setattr(place + "get_dataset_split_names", lambda *_, **__: ["test"])
    monkeypatch.setattr(place + "load_dataset", lambda path, config, **_: Dataset.from_dict(parts[config]))


def saved(folder: Path, bert: Path, card: dict[str, Any]) -> Path:
    """Write a random encoder whose vectors differ in length, and its card."""
    import sentence_transformers as st
    from sentence_transformers.sentence_transformer import modules

    torch.manual_seed(3)
    parts = [modules.Transformer(str(bert)), modules.Pooling(32, "mean"), modules.Dense(32, 8)]
    st.SentenceTransformer(modules=parts, device="cpu").save(str(folder))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(card), encoding="utf-8")
    return folder


def by_mteb(model: Any) -> float:
    results = mteb.evaluate(model, mteb.get_task("ArguAna"), cache=None, co2_tracker=False, show_progress_bar=False)
    return float(results.task_results[0].get_score())


@pytest.mark.parametrize("card", CARDS)
def test_mteb_gives_the_same_value_through_every_door(hub: None, card: str, tiny_bert: Path, tmp_path: Path) -> None:
    import sentence_transformers as st

    folder = saved(tmp_path / "st-folder", tiny_bert, CARDS[card])
    library = st.SentenceTransformer(str(folder), device="cpu")
    wanted = by_mteb(library)
    plain = saved(tmp_path / "plain", tiny_bert, {})
    assert wanted != pytest.approx(by_mteb(st.SentenceTransformer(str(plain), device="cpu")), abs=1e-4)
    method = f"pretrained:model={folder}"
    for encoder in (str(folder), folder, method, library, benchmark.for_mteb(folder)._encode.args[0]):
        assert by_mteb(benchmark.for_mteb(encoder)) == pytest.approx(wanted, abs=1e-6)
    for encoder, kept in ((method, tmp_path / "results"), (folder, None), (library, None)):
        results = benchmark.evaluate(encoder, tasks="mteb:ArguAna", results=kept, **FAST)
        assert results.records[0]["scores"]["main"] == pytest.approx(wanted, abs=1e-6)  # type: ignore[index]


def test_the_embedding_cache_keeps_roles_apart(hub: None, tiny_bert: Path, tmp_path: Path) -> None:
    """A second run reads queries and documents from it, each in its role, and gives the same score."""
    folder = saved(tmp_path / "st", tiny_bert, CARDS["queries and documents"])
    first, again = (benchmark.evaluate(f"pretrained:model={folder}", tasks="mteb:ArguAna", **FAST) for _ in range(2))
    assert again.records[0]["encoding"]["cached"] == 70  # type: ignore[index]
    assert again.records[0]["scores"]["main"] == first.records[0]["scores"]["main"]  # type: ignore[index]


def test_roles_stand_in_the_row_and_the_signature_and_prompts_in_the_key(
    hub: None, tiny_bert: Path, tmp_path: Path
) -> None:
    folder = saved(tmp_path / "st", tiny_bert, CARDS["queries and documents"])
    encoders = {
        "card": f"pretrained:model={folder}",
        "own": f"pretrained:model={folder}:query_prompt=ask",
        "none": f"pretrained:model={saved(tmp_path / 'plain', tiny_bert, {})}",
    }
    results = benchmark.evaluate(encoders, tasks="mteb:ArguAna", **FAST)
    assert len({record["encoder_key"] for record in results.records}) == 3
    (table,) = results.tables
    stated = {row.name: roles(row) for row in table.rows}
    assert stated == {
        "card": "prompts of its folder: query, document",
        "own": "prompts of the recipe: query, document",
        "none": "",
    }
    assert "|prompts of its folder: query, document|prompts of the recipe: query, document|" in signature(table)
    assert "prompts of its folder: query, document" in str(results)
