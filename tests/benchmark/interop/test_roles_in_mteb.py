"""Prompts, roles and similarity of a folder: mteb's value of sentence-transformers' own model, through every door.

The hub is not asked: a small data set stands where mteb would fetch one, in the form of each kind of task.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import benchmark
from benchmark.report.conditions import roles
from benchmark.report.signature import signature
from zoo.roles import Roles

mteb = pytest.importorskip("mteb", reason="pip install 'zoo-bench[mteb]'")
FAST: dict[str, Any] = {"precision": "fp32", "quiet": True, "embedding_cache": 0.0}
TASKS = {
    "STSBenchmark": "STS",
    "ArguAna": "Retrieval",
    "Banking77Classification": "Classification",
    "TwitterSemEval2015": "PairClassification",
    "TwentyNewsgroupsClustering.v2": "Clustering",
    "SummEvalSummarization.v2": "Summarization",
}
_ALONE = ("Retrieval", "Classification", "Clustering")
PROMPTS: dict[str, dict[str, str]] = {
    "none": {},
    "queries and documents": {"query": "query: what is ", "document": "passage: "},
    "passages": {"query": "query: what is ", "passage": "passage: of a dog "},
    "a default": {"all": "similar: ", "query": "ask "},
    "of each kind": {kind: f"the {kind} of " for kind in TASKS.values()},
    "of each kind and role": {f"{kind}-document": f"{kind}: " for kind in TASKS.values()} | {"document": "dog "},
    "of each task": {**{name: f"{name}: " for name in TASKS}, "ArguAna-query": "counter: ", "STS": "never: "},
    "a default and one of STS": {"all": "similar: ", "STS": "the red dog of "},
}
CARDS: dict[str, dict[str, Any]] = {
    name: {"prompts": prompts, "default_prompt_name": "all" if "all" in prompts else None}
    for name, prompts in PROMPTS.items()
}
CARDS |= {
    name: {"prompts": {"query": "the "}, "similarity_fn_name": name} for name in ("dot", "euclidean", "manhattan")
}
CARDS["fewer dimensions"] = {"truncate_dim": 4, "prompts": {"STS": "old "}}
KINDS = {"Dense": sorted(CARDS), "Router": ["none", "queries and documents", "a default and one of STS"]}
GRID = [(kind, card) for kind, cards in KINDS.items() for card in cards]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data of each task, where mteb would ask the hub; in ArguAna, a query is a document too."""
    from datasets import Dataset, DatasetDict

    generator = np.random.default_rng(5)
    words = "old new red green dog lamp rain train bread garden is what of a the in query".split()

    def texts(count: int, length: int = 5) -> list[str]:
        return [" ".join(generator.choice(words, length)) for _ in range(count)]

    documents = texts(50, 6)
    parts = {
        "corpus": {"_id": [f"d{i}" for i in range(50)], "title": ["", "Title"] * 25, "text": documents},
        "queries": {"_id": [f"q{i}" for i in range(20)], "text": [*documents[:3], *texts(17, 3)]},
        "default": {
            "query-id": [f"q{i // 3}" for i in range(60)],
            "corpus-id": [f"d{i}" for i in generator.integers(0, 50, 60)],
            "score": [1] * 60,
        },
    }

    def labelled(count: int) -> Any:
        labels = generator.integers(0, 3, count).tolist()
        sides = [f"{words[label]} {text}" for label, text in zip(labels, texts(count), strict=True)]
        return Dataset.from_dict({"text": sides, "label": labels})

    pairs = {"sentence1": texts(60), "sentence2": texts(60)}
    paired = {"sent1": texts(60), "sent2": texts(60), "labels": generator.integers(0, 2, 60).tolist()}
    summaries = {
        "text": texts(6),
        "human_summaries": [texts(2) for _ in range(6)],
        "machine_summaries": [texts(4) for _ in range(6)],
        "relevance": generator.uniform(1, 5, (6, 4)).tolist(),
    }
    held = {
        "STS": {"test": Dataset.from_dict({**pairs, "score": generator.uniform(0, 5, 60).round(1).tolist()})},
        "Classification": {"train": labelled(60), "test": labelled(40)},
        "PairClassification": {"test": Dataset.from_dict(paired)},
        "Clustering": {"test": Dataset.from_dict({"sentences": [texts(40)], "labels": [(words * 3)[:40]]})},
        "Summarization": {"test": Dataset.from_dict(summaries)},
    }
    kinds = {mteb.get_task(name).metadata.dataset["path"]: kind for name, kind in TASKS.items()}
    place = "mteb.abstasks.retrieval_dataset_loaders."
    monkeypatch.setattr(place + "get_dataset_config_names", lambda *_, **__: list(parts))
    monkeypatch.setattr(place + "get_dataset_split_names", lambda *_, **__: ["test"])
    monkeypatch.setattr(place + "load_dataset", lambda path, config, **_: Dataset.from_dict(parts[config]))
    monkeypatch.setattr("mteb.abstasks.abstask.load_dataset", lambda path, **_: DatasetDict(held[kinds[path]]))


@pytest.fixture
def saved(tiny_bert: Path, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a random encoder, whose vectors differ in length, and its card."""
    import sentence_transformers
    import torch
    from sentence_transformers.sentence_transformer import modules

    def save(card: dict[str, Any], kind: str = "Dense", seed: int = 3) -> Path:
        torch.manual_seed(seed)
        folder = tmp_path / f"st-{len(list(tmp_path.iterdir()))}"

        def tower() -> list[Any]:
            return [modules.Transformer(str(tiny_bert)), modules.Pooling(32, "mean"), modules.Dense(32, 8)]

        towers = {"query": tower(), "document": tower()}
        parts = tower() if kind == "Dense" else [modules.Router(towers, default_route="document")]
        sentence_transformers.SentenceTransformer(modules=parts, device="cpu").save(str(folder))
        (folder / "config_sentence_transformers.json").write_text(json.dumps(card), encoding="utf-8")
        return folder

    return save


def by_mteb(model: Any, task: str = "ArguAna") -> float:
    results = mteb.evaluate(model, mteb.get_task(task), cache=None, co2_tracker=False, show_progress_bar=False)
    return float(results.task_results[0].get_score())


def library(folder: Path) -> Any:
    import sentence_transformers

    return sentence_transformers.SentenceTransformer(str(folder), device="cpu")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "card"), GRID)
def test_every_task_has_mtebs_value_through_every_door(
    hub: None, kind: str, card: str, saved: Callable[..., Path]
) -> None:
    folder = saved(CARDS[card], kind)
    model, ours = library(folder), benchmark.for_mteb(folder)
    # mteb itself compares single pairs by no distance.
    measured = [name for name, kind in TASKS.items() if kind in _ALONE or card not in ("euclidean", "manhattan")]
    wanted = {task: by_mteb(model, task) for task in measured}
    assert {task: by_mteb(ours, task) for task in measured} == pytest.approx(wanted, abs=1e-6)
    tasks = ",".join(f"mteb:{task}" for task in measured)
    for encoder in (f"pretrained:model={folder}", model):
        records = benchmark.evaluate(encoder, tasks=tasks, **FAST).records
        here = {record["task"]["name"].partition(":")[2]: record["scores"]["main"] for record in records}  # type: ignore[index]
        assert here == pytest.approx(wanted, abs=1e-6)


def test_a_prompt_that_only_tasks_of_its_name_have_is_named_too() -> None:
    assert str(Roles({"STS": "a ", "query": "", "web_query": "b "})) == (
        "prompts of its folder: STS by its name, web_query by its name"
    )


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["query", "document", "all", "STS", "STS-query", "STSBenchmark", "STSBenchmark-query", "QQ"]),
        st.text(st.characters(codec="ascii"), max_size=3),
    ),
    st.sampled_from([None, "query", "document"]),
)
def test_the_names_of_prompts_are_mtebs(prompts: dict[str, str], asked: str | None) -> None:
    from mteb.models.abs_encoder import get_prompt_name
    from mteb.types import PromptType

    from benchmark.tasks.mteb_model import prompt_names, role_of

    meta, kind = mteb.get_task("STSBenchmark").metadata, asked and PromptType(asked)
    name = get_prompt_name(prompts, meta, kind)
    expected = None if name is None or name == asked else prompts[name]
    assert Roles(prompts).named(prompt_names(meta, kind), role_of(kind)) == expected


@pytest.mark.slow
def test_a_recipes_prompt_replaces_all_of_the_folders(hub: None, saved: Callable[..., Path]) -> None:
    plain, named = saved({}), saved(CARDS["of each task"])
    methods = [f"pretrained:model={folder}:prompt=red" for folder in (plain, named)]
    first, second = (benchmark.evaluate(one, tasks="mteb:STSBenchmark", **FAST).records[0] for one in methods)
    assert first["scores"]["main"] == second["scores"]["main"]  # type: ignore[index]


@pytest.mark.slow
def test_two_local_models_have_two_results_in_one_cache(hub: None, saved: Callable[..., Path], tmp_path: Path) -> None:
    """mteb files a local model of sentence-transformers under no name of its own; ours have a revision each."""
    folders = [saved({}, seed=seed) for seed in (1, 2)]
    cache = mteb.cache.ResultCache(tmp_path / "cache")
    options: dict[str, Any] = {"cache": cache, "co2_tracker": False, "show_progress_bar": False}

    def cached(model: Any) -> float:
        results = mteb.evaluate(model, mteb.get_task("STSBenchmark"), **options)
        return float(results.task_results[0].get_score())

    wanted = [by_mteb(library(folder), "STSBenchmark") for folder in folders]
    assert wanted[0] != pytest.approx(wanted[1], abs=1e-3)
    for door in (str, library, lambda folder: f"pretrained:model={folder}", lambda folder: library(folder).encode):
        assert [cached(benchmark.for_mteb(door(folder))) for folder in folders] == pytest.approx(wanted, abs=1e-6)


@pytest.mark.slow
def test_the_embedding_cache_keeps_roles_apart(hub: None, saved: Callable[..., Path]) -> None:
    """A second run reads queries and documents from it, each in its role, and gives the same score."""
    folder, options = saved(CARDS["queries and documents"]), {**FAST, "embedding_cache": 1.0}
    first, again = (benchmark.evaluate(f"pretrained:model={folder}", tasks="mteb:ArguAna", **options) for _ in range(2))
    assert again.records[0]["encoding"]["cached"] == 70  # type: ignore[index]
    assert again.records[0]["scores"]["main"] == first.records[0]["scores"]["main"]  # type: ignore[index]


@pytest.mark.slow
def test_roles_stand_in_the_row_and_the_signature_and_prompts_in_the_key(hub: None, saved: Callable[..., Path]) -> None:
    folder = saved(CARDS["queries and documents"])
    encoders = {
        "card": f"pretrained:model={folder}",
        "own": f"pretrained:model={folder}:query_prompt=ask",
        "none": f"pretrained:model={saved({})}",
    }
    results = benchmark.evaluate(encoders, tasks="mteb:ArguAna", **FAST)
    assert len({record["encoder_key"] for record in results.records}) == 3
    (table,) = results.tables
    stated = {row.name.partition(" (")[0]: roles(row) for row in table.rows}
    assert stated == {
        "card": "prompts of its folder: query, document",
        "own": "prompts of the recipe: query, document",
        "none": "",
    }
    assert "|roles prompts of its folder: query, document+prompts of the recipe: query, document|" in signature(table)
    assert "prompts of its folder: query, document" in str(results)
