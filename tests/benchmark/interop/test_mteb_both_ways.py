"""Our encoders inside mteb's own evaluator, and mteb's tasks here: the same scores, whoever computes them.

The hub is not asked: what mteb would fetch is made here, from the shared data or on the spot.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli

import benchmark
import zoo
from benchmark.data.readers.pairs import Pairs
from benchmark.data.sources import DataSource
from benchmark.tasks import TASKS
from zoo.encoder import Runtime
from zoo.errors import MissingError, UsageError

pytestmark = pytest.mark.slow

mteb = pytest.importorskip("mteb", reason="pip install 'zoo-bench[mteb]'")
FAST: dict[str, Any] = {"precision": "fp32", "quiet": True, "embedding_cache": 0.0}


def as_dataset(pairs: Pairs) -> Any:
    from datasets import Dataset, DatasetDict

    columns = {"sentence1": pairs.first, "sentence2": pairs.second, "score": pairs.gold.tolist()}
    return DatasetDict({"test": Dataset.from_dict(columns)})


def injected(pairs: Pairs) -> Any:
    """A task of mteb, of its own class, on these pairs."""
    task = mteb.get_task("STSBenchmark")
    task.dataset, task.data_loaded = as_dataset(pairs), True
    return task


def pairs_of(name: str, data: DataSource, limit: int | None = None) -> Pairs:
    """Return the pairs of one of our tasks, its subsets one after the other."""
    subsets = TASKS.get(name).load(data, limit).subsets.values()  # type: ignore[attr-defined]
    sides = ([text for one in subsets for text in getattr(one, side)] for side in ("first", "second"))
    return Pairs(*sides, np.concatenate([one.gold for one in subsets]))


def by_mteb(model: Any, task: Any) -> dict[str, float]:
    """Return what mteb's evaluator gives for the test split."""
    results = mteb.evaluate(model, task, cache=None, co2_tracker=False, show_progress_bar=False)
    scores: dict[str, float] = results.task_results[0].scores["test"][0]
    return scores


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What mteb finds where it would ask the hub, by the data set's place."""
    held: dict[str, Any] = {}
    monkeypatch.setattr("mteb.abstasks.abstask.load_dataset", lambda path, **_: held[path])
    return held


def test_minilm_scores_the_same_in_mteb_and_here(minilm: Path, data_dir: Path) -> None:
    """The library's model in mteb's own wrapper, our engine's in the adapter, and ours alone: equal to 0.01 of 100."""
    import sentence_transformers as st

    pairs = pairs_of("STS16-raw", DataSource(data_dir, hub=False), 12)
    here = benchmark.evaluate(f"pretrained:model={minilm}", tasks="STS16-raw", limit=12, data=data_dir, **FAST)
    wanted = here.records[0]["scores"]["all"]
    adapted = benchmark.for_mteb(zoo.create(f"pretrained:model={minilm}"), name="all-MiniLM-L6-v2")
    for model in (st.SentenceTransformer(str(minilm), device="cpu"), adapted):
        scores = by_mteb(model, injected(pairs))
        assert 100 * scores["cosine_spearman"] == pytest.approx(100 * wanted["spearman"], abs=0.01)
        assert 100 * scores["cosine_pearson"] == pytest.approx(100 * wanted["pearson"], abs=0.01)
        assert scores["spearman"] == pytest.approx(scores["cosine_spearman"], abs=1e-4)
    meta = adapted.mteb_model_meta
    assert (meta.name, meta.embed_dim, meta.max_tokens) == ("zoo-bench/all-MiniLM-L6-v2", 384, 256)
    assert meta.n_parameters is not None and 22e6 < meta.n_parameters < 23e6


def test_what_was_trained_here_is_measured_there(tiny_bert: Path, tmp_path: Path) -> None:
    """An encoder, the folder that it is saved in and its vectors as a function score the same; other weights do not."""
    method = f"simcse:backbone={tiny_bert}:batch_size=4:learning_rate=0.01"
    encoder = zoo.fit(method, [f"Sentence {i} about lamp {i % 5}." for i in range(16)], runtime=Runtime())
    zoo.save(encoder, tmp_path / "kept")
    pairs = pairs_of("pocket-pairs", DataSource(None, hub=False))
    models = [benchmark.for_mteb(one) for one in (encoder, tmp_path / "kept", str(tmp_path / "kept"), encoder.encode)]
    scores = [by_mteb(model, injected(pairs))["cosine_spearman"] for model in models]
    here = benchmark.evaluate(encoder, tasks="pocket-pairs", **FAST).records[0]["scores"]["main"]
    assert scores == pytest.approx([here] * 4, abs=0.01)  # its cosines are near 1, where mteb rounds to float32
    assert len(set(scores)) == 1
    before = benchmark.for_mteb(zoo.create(method))
    assert before.mteb_model_meta.revision != models[0].mteb_model_meta.revision == models[1].mteb_model_meta.revision
    assert models[0].mteb_model_meta.name == "zoo-bench/simcse"
    assert by_mteb(before, injected(pairs))["cosine_spearman"] != pytest.approx(here, abs=1e-4)


def test_mteb_sts_here_is_our_untokenised_task(hub: Any, data_dir: Path, cli: Cli, tmp_path: Path) -> None:
    """Run by name, recorded with its pairs, and exported under mteb's name to a file that mteb reads."""
    from mteb.results import TaskResult

    hub["mteb/stsbenchmark-sts"] = as_dataset(pairs_of("STS-B-raw", DataSource(data_dir, hub=False)))
    words = ("run", "--methods", "static-avg", "--tasks", "mteb:STSBenchmark,STS-B-raw", "--data", data_dir)
    answer = cli(*words, "--precision", "fp32", "--out", tmp_path / "results")
    assert answer.code == 0, answer.err
    assert "mteb:STSBenchmark" in answer.out
    records = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "results" / "records").rglob("*.json")]
    theirs, ours = sorted(records, key=lambda record: record["task"]["name"], reverse=True)
    assert theirs["scores"]["all"] == ours["scores"]["all"]
    assert (theirs["task"]["rows"], theirs["task"]["dataset"]) == (1379, "mteb/stsbenchmark-sts") and theirs["pairs"]
    assert cli("export", "*", tmp_path / "files", "--scores", "--results", tmp_path / "results").code == 0
    (path,) = (tmp_path / "files").rglob("STSBenchmark.json")
    read = TaskResult.from_disk(path)
    assert read.get_score() == pytest.approx(ours["scores"]["main"])
    assert read.dataset_revision == f"sha256:{theirs['task']['sha256']}"


def test_the_rest_is_scored_by_mteb_itself(hub: Any, tmp_path: Path) -> None:
    """Classification: mteb's evaluator on our vectors gives what mteb gives for the encoder, and its file."""
    from datasets import Dataset, DatasetDict
    from mteb.results import TaskResult

    from benchmark.interop.results import export_results

    generator = np.random.default_rng(0)
    kinds = [["red rose", "green leaf", "tall tree"], ["fast car", "old bus", "long train"]]

    def part(count: int) -> Any:
        labels = generator.integers(0, 2, count)
        texts = [f"A {generator.choice(kinds[label])} number {i}." for i, label in enumerate(labels)]
        return Dataset.from_dict({"text": texts, "label": labels.tolist(), "label_text": ["x"] * count})

    hub["mteb/banking77"] = DatasetDict({"train": part(40), "test": part(30)})
    state = np.random.get_state()[1].tolist()  # type: ignore[index,union-attr]  # noqa: NPY002
    results = benchmark.evaluate("static-avg", tasks="mteb:Banking77Classification", **FAST)
    assert np.random.get_state()[1].tolist() == state, "mteb's seeds stay mteb's"  # type: ignore[index,union-attr]  # noqa: NPY002
    (record,) = results.records
    wanted = by_mteb(benchmark.for_mteb("static-avg"), mteb.get_task("Banking77Classification"))
    assert record["scores"]["main_metric"] == "accuracy" and record["coverage"]["texts"] == 30
    assert record["scores"]["main"] == pytest.approx(wanted["main_score"], abs=1e-6)
    results.save(tmp_path / "results")
    path, *_ = export_results(results.records, tmp_path / "files")
    read = TaskResult.from_disk(path)
    assert read.get_score() == pytest.approx(wanted["main_score"], abs=1e-6) and read.task_name == path.stem
    assert read.scores["test"][0].keys() >= {"accuracy", "f1", "main_score", "hf_subset"}
    with pytest.raises(UsageError, match="leave --limit out"):
        benchmark.evaluate("static-avg", tasks="mteb:Banking77Classification", limit=5, **FAST)


def test_what_mteb_cannot_measure_is_refused() -> None:
    with pytest.raises(UsageError, match=r"simcse has to be trained first: .*zoo\.fit"):
        benchmark.for_mteb("simcse")
    with pytest.raises(UsageError, match="fitted to all texts of a task"):
        benchmark.for_mteb("whitening-target")


def test_without_mteb_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "mteb", None)
    with pytest.raises(MissingError, match=r"zoo-bench\[mteb\]"):
        benchmark.evaluate("static-avg", tasks="mteb:STS12", **FAST)
    for module in ("benchmark.interop.mteb_encoder", "benchmark.tasks.mteb_model", "mteb.models.abs_encoder"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingError, match=r"zoo-bench\[mteb\]"):
        benchmark.for_mteb("static-avg")
