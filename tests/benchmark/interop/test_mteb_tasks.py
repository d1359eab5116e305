"""Retrieval, reranking and summarisation of MTEB(eng, v2): mteb's own evaluator on our vectors, in tables, and back.

The hub is not asked: data sets in its form, with the tasks' own names of configurations and columns, are made here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli

import benchmark
from benchmark.report.columns import score_columns

pytestmark = pytest.mark.slow

mteb = pytest.importorskip("mteb", reason="pip install 'zoo-bench[mteb]'")
FAST: dict[str, Any] = {"precision": "fp32", "quiet": True, "embedding_cache": 0.0}
KINDS = ("Retrieval", "Reranking", "Summarization")
TASKS = [task.metadata for task in mteb.get_benchmark("MTEB(eng, v2)").tasks]
NEW = [meta for meta in TASKS if meta.type in KINDS]
SOME = ["ArguAna", "FiQA2018", "AskUbuntuDupQuestions", "MindSmallReranking", "SummEvalSummarization.v2"]
TOPICS = ["old dog", "red lamp", "fast train", "cold rain", "green garden", "small bread"]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """What mteb finds where it would ask the hub: small data sets in the form of each kind of task."""
    from datasets import Dataset, DatasetDict

    generator = np.random.default_rng(0)
    topics = [int(topic) for topic in generator.integers(0, len(TOPICS), 60)]
    documents = [f"Notes on the {TOPICS[topic]}, part {i}." for i, topic in enumerate(topics)]
    queries = [f"What of the {topic}?" for topic in TOPICS]
    ids = [f"q{i // 2}_{i % 2}" for i in range(len(queries))]  # subqueries have the same documents
    relevant = [(one, f"d{i}") for i, topic in enumerate(topics) if i % 3 for one in ids if one[1] == str(topic // 2)]
    ranked = [[f"d{(7 * i + j) % 60}" for j in range(20)] + [f"d{topics.index(i)}"] for i in range(len(queries))]
    parts = {
        "corpus": {"_id": [f"d{i}" for i in range(60)], "title": ["", "A title"] * 30, "text": documents},
        "queries": {"_id": ids, "text": queries},
        "default": {
            "query-id": [query for query, _ in relevant],
            "corpus-id": [document for _, document in relevant],
            "score": [1] * len(relevant),
        },
        "top_ranked": {"query-id": ids, "corpus-ids": ranked},
    }
    summaries = {
        "text": documents[:8],
        "human_summaries": [[f"{topic} and more", topic] for topic in (TOPICS * 2)[:8]],
        "machine_summaries": [[f"the {TOPICS[(i + j) % 6]}" for j in range(4)] for i in range(8)],
        "relevance": [[5.0, 1.0 + i / 8, 2.0, 1.5 + i / 9] for i in range(8)],
        "id": [str(i) for i in range(8)],
    }
    place = "mteb.abstasks.retrieval_dataset_loaders."
    reranking = {meta.dataset["path"] for meta in NEW if meta.type == "Reranking"}
    names = {True: list(parts), False: ["corpus", "queries", "default"]}
    monkeypatch.setattr(place + "get_dataset_config_names", lambda path, *_, **__: names[path in reranking])
    monkeypatch.setattr(place + "get_dataset_split_names", lambda *_, **__: ["test"])
    monkeypatch.setattr(place + "load_dataset", lambda path, config, **_: Dataset.from_dict(parts[config]))
    summarization = DatasetDict({"test": Dataset.from_dict(summaries)})
    monkeypatch.setattr("mteb.abstasks.abstask.load_dataset", lambda *_, **__: summarization)


def main_score(model: Any, name: str) -> float:
    """Return what mteb's evaluator alone gives."""
    task = mteb.get_task(name, languages=["eng"], exclusive_language_filter=True)
    results = mteb.evaluate(model, task, cache=None, co2_tracker=False, show_progress_bar=False)
    return float(results.task_results[0].get_score())


def test_every_task_of_the_benchmark_is_one_of_ours() -> None:
    from benchmark.tasks.mteb import mteb_task

    assert len(TASKS) == 41 and len(NEW) == 13
    for meta in TASKS:
        task = mteb_task(f"mteb:{meta.name}")
        assert task.split == "test" and (meta.main_score in task.metric or meta.type == "STS")


@pytest.mark.parametrize("name", SOME)
def test_a_task_scores_as_in_mteb_and_goes_back_as_its_file(hub: None, name: str, tmp_path: Path, cli: Cli) -> None:
    """Of each kind, also with subqueries; the others differ in their data alone."""
    from mteb.results import TaskResult

    results = benchmark.evaluate("static-avg", tasks=f"mteb:{name}", results=tmp_path / "results", **FAST)
    (record,) = results.records
    scores: Any = record["scores"]
    wanted = main_score(benchmark.for_mteb("static-avg"), name)
    assert scores["main"] == pytest.approx(wanted, abs=1e-6) and 0 < abs(wanted) < 1
    texts = 18 if name.startswith("SummEval") else 66  # distinct ones: summaries, or documents and queries
    assert record["coverage"] is not None and record["coverage"]["texts"] == texts
    assert record["task"]["rows"] == (8 if name.startswith("SummEval") else 6)
    assert cli("export", "*", tmp_path / "files", "--scores", "--results", tmp_path / "results").code == 0
    (path,) = (tmp_path / "files").rglob(f"{name}.json")
    read = TaskResult.from_disk(path)
    assert read.get_score() == pytest.approx(wanted, abs=1e-6) and read.mteb_version == mteb.__version__
    assert len(json.loads(path.read_text("utf-8"))["scores"]["test"][0]) > 6  # all that mteb's evaluator gave


def test_each_measure_is_a_group_of_columns_with_its_own_mean(hub: None, tmp_path: Path) -> None:
    names = "mteb:SCIDOCS,mteb:SummEvalSummarization.v2,mteb:ArguAna,mteb:AskUbuntuDupQuestions"
    results = benchmark.evaluate(["static-avg", "random"], tasks=names, results=tmp_path, seeds=2, **FAST)
    (table,) = benchmark.leaderboard(tmp_path).tables
    assert [column.head for column in score_columns(table.suite)] == [
        "mteb:SummEvalSummarization.v2",
        "mteb:AskUbuntuDupQuestions",
        "mteb:ArguAna",
        "mteb:SCIDOCS",
        "Avg. ndcg_at_10",
    ]
    assert "| Avg. |" not in (tmp_path / "other.md").read_text("utf-8")
    frame = results.to_frame()
    assert [name for name in frame.columns if name.startswith("Avg.")] == ["Avg. ndcg_at_10", "Avg. ndcg_at_10 sd"]
    both = frame.loc["random", ["mteb:ArguAna", "mteb:SCIDOCS"]].mean()
    assert frame.loc["random", "Avg. ndcg_at_10"] == pytest.approx(both) and frame.loc["random", "Seeds"] == 2
    assert all(row.average.mean is None and row.rank is None for row in table.rows)


def test_the_shipped_run_names_all_41() -> None:
    from benchmark.run.options import read_run_file

    (stated,), _ = read_run_file("mteb-eng")
    assert stated["tasks"].split(",") == [f"mteb:{meta.name}" for meta in sorted(TASKS, key=lambda m: (m.type, m.name))]
