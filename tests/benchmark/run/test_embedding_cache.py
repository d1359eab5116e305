"""The embedding cache: known texts are not encoded again, and nothing that would change a vector is answered by it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import FITTED, Bag, Cli

from benchmark.records.record import check_record
from benchmark.report.columns import columns_of, printed
from benchmark.report.rows import Table
from benchmark.report.table import build_tables
from benchmark.report.write import as_dict, markdown
from benchmark.run import cache as embedding_cache
from benchmark.run.cache import DEFAULT_GB, EmbeddingCache, cache_bytes, embeddings_folder
from benchmark.run.options import RunOptions
from benchmark.run.vectors import VectorStore
from benchmark.tasks.suites import suite
from zoo.encoder import Encoder, Runtime
from zoo.methods.transform import Transform

TEXTS = ["a b", "c", "caf\u00e9", "a\ud800b", ""]
FAST = ("--precision", "fp32", "--limit", "20")


@pytest.fixture(autouse=True)
def _own_embeddings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ZOO_BENCH_EMBEDDING_CACHE")


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that the fake methods encode from now on."""
    seen: list[str] = []
    plain = Bag.encode

    def encode(self: Bag, texts: Sequence[str]) -> Any:
        seen.extend(texts)
        return plain(self, texts)

    monkeypatch.setattr(Bag, "encode", encode)
    monkeypatch.setattr(
        "benchmark.run.plan.vectors_digest", lambda encode, texts: "probes"
    )  # plugins' keys: eight texts a run
    return seen


def add(cache: EmbeddingCache, key: str, texts: list[str], dim: int = 3) -> np.ndarray:
    vectors = np.random.default_rng(len(texts)).normal(size=(len(texts), dim)).astype(np.float32)
    cache.entry(key, None, "cpu").add(texts, vectors, np.arange(len(texts)) != 1, {"rank": np.int64(2)})
    return vectors


def test_what_was_kept_is_found_bit_by_bit_and_no_text_is_in_it() -> None:
    cache = EmbeddingCache()
    vectors = add(cache, "k", TEXTS)
    cached = cache.entry("k", None, "cpu").find([*reversed(TEXTS), "unknown"])
    assert cached is not None
    assert cached.known.tolist() == [True] * 5 + [False]
    np.testing.assert_array_equal(cached.vectors[:5], vectors[::-1])
    assert cached.covered.tolist() == [True, True, True, False, True, False]
    assert cached.facts == {"rank": 2}
    content = b"".join(path.read_bytes() for path in embeddings_folder().rglob("*.safetensors"))
    assert b"caf" not in content


@pytest.mark.parametrize("other", [("l", None, "cpu"), ("k", {"model.safetensors": "0"}, "cpu"), ("k", None, "cuda:1")])
def test_another_encoder_fit_or_device_is_another_entry(other: tuple[Any, ...]) -> None:
    cache = EmbeddingCache()
    add(cache, "k", TEXTS)
    assert cache.entry("k", None, "cpu").find(TEXTS) is not None
    assert cache.entry(*other).find(TEXTS) is None


@pytest.mark.parametrize(("part", "other"), [("libraries", {"torch": "0"}), ("cpu_name", "C"), ("instructions", "I")])
def test_other_libraries_and_processors_are_another_entry(
    part: str, other: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of a network has vectors of several processors, which round differently."""
    cache = EmbeddingCache()
    add(cache, "k", TEXTS)
    monkeypatch.setattr(f"benchmark.keys.{part}", lambda: other)
    assert cache.entry("k", None, "cpu").find(TEXTS) is None


def test_segments_are_small_and_only_those_needed_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_cache, "_SEGMENT_BYTES", 24)  # two rows of three numbers
    cache = EmbeddingCache()
    vectors = add(cache, "k", TEXTS)
    paths = sorted(embeddings_folder().rglob("*.safetensors"))
    assert len(paths) == 3
    for path in paths:
        os.utime(path, (1, 1))
    cached = cache.entry("k", None, "cpu").find(TEXTS[:1])
    assert cached is not None
    np.testing.assert_array_equal(cached.vectors, vectors[:1])
    assert sorted(path.stat().st_mtime == 1 for path in paths) == [False, True, True]


@pytest.mark.parametrize(
    "damage", [lambda b: b[: len(b) // 2], lambda b: b[:-9] + bytes([b[-9] ^ 1]) + b[-8:], lambda b: b""]
)
def test_a_damaged_segment_is_set_aside_and_encoded_again(damage: Any) -> None:
    lines: list[str] = []
    cache = EmbeddingCache(say=lines.append)
    add(cache, "k", TEXTS)
    (path,) = embeddings_folder().rglob("*.safetensors")
    path.write_bytes(damage(path.read_bytes()))
    assert cache.entry("k", None, "cpu").find(TEXTS) is None
    assert len(lines) == 1 and str(path) in lines[0]
    assert path.with_name(path.name + ".corrupt").is_file() and not path.is_file()
    vectors = add(cache, "k", TEXTS)
    cached = cache.entry("k", None, "cpu").find(TEXTS)
    assert cached is not None and (cached.vectors == vectors).all()


def test_the_longest_unused_goes_first() -> None:
    cache = EmbeddingCache(gigabytes=3500 / 10**9)
    for i, key in enumerate("abc"):
        add(cache, key, [f"text {j}" for j in range(50)], dim=1)  # some 1,250 bytes
        for path in cache.entry(key, None, "cpu").folder.iterdir():
            os.utime(path, (100 + i, 100 + i))
        if key == "b":
            assert cache.entry("a", None, "cpu").find(["text 0"]) is not None  # used just now
    assert [cache.entry(key, None, "cpu").find(["text 0"]) is not None for key in "abc"] == [True, False, True]
    assert 0 < cache_bytes() <= 3500


def test_a_full_disk_stops_nothing(tmp_path: Path) -> None:
    """A real failing write: no file may grow beyond 50 bytes."""
    resource = pytest.importorskip("resource")
    lines: list[str] = []
    cache = EmbeddingCache(say=lines.append)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, before[1]))
    try:
        add(cache, "k", TEXTS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(lines) == 1 and "not kept" in lines[0] and str(tmp_path) in lines[0]
    assert cache_bytes() == 0
    add(cache, "k", TEXTS)
    assert cache.entry("k", None, "cpu").find(TEXTS) is not None


def test_a_store_encodes_only_what_the_cache_lacks(fakes: None) -> None:
    asked: list[str] = []

    class Asked(Bag):
        def encode(self, texts: Sequence[str]) -> np.ndarray:
            asked.extend(texts)
            return super().encode(texts)

    entry = EmbeddingCache().entry("k", None, "cpu")
    obtained: list[Encoder] = []

    def obtain() -> Encoder:
        obtained.append(Asked(Asked.Recipe(), Runtime()))
        return obtained[-1]

    first = VectorStore(obtain, "x", lambda: entry)
    wanted = first(["a b", "c", "d e"])
    again = VectorStore(obtain, "x", lambda: entry)
    np.testing.assert_array_equal(again(["d e", "a b"]), wanted[[2, 0]])
    assert (len(obtained), again.cached) == (1, 2)
    np.testing.assert_array_equal(again(["new", "c"])[1], wanted[1])
    assert asked == ["a b", "c", "d e", "new"]
    assert (len(obtained), again.cached) == (2, 3)


def records(out: Path) -> dict[tuple[str, str], dict[str, Any]]:
    by_cell = {}
    for path in (out / "records").glob("*/*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        check_record(record, str(path))
        by_cell[record["method"]["name"], record["task"]["name"]] = record
    return by_cell


def unlike(record: dict[str, Any]) -> dict[str, Any]:
    """What must not differ between a record of encoded and one of cached vectors."""
    return {k: record.get(k) for k in ("key", "status", "scores", "pairs", "coverage", "facts", "training")}


def same_but_costs(cold: Table, warm: Table) -> None:
    """The outputs of two tables differ in what was measured in one alone: times, speed and memory."""
    for output in ("markdown", "terminal", "html", "latex", "frame"):
        texts = [printed(columns_of(table, output), table.rows) for table in (cold, warm)]
        assert texts[0] == texts[1], output
    costs = {"texts_per_second", "peak_memory_mb"}
    pages: list[Any] = [as_dict(table, drawn=True) for table in (cold, warm)]
    assert pages[0]["columns"] == pages[1]["columns"]
    for before, after in zip(pages[0].pop("rows"), pages[1].pop("rows"), strict=True):
        assert not costs & {key for key, value in after.items() if value is not None}
        (why,) = after.pop("not_available")
        assert "--remeasure --embedding-cache 0" in why
        strip = [{key: value for key, value in row.items() if key not in costs} for row in (before, after)]
        assert strip[0] == strip[1]
    # They state the folder of a run.
    assert all(page.pop("commands") for page in pages) and pages[0] == pages[1]
    cost = {column.name: column for column in columns_of(warm, "cost")}
    assert {cost[name].text(row) for name in costs for row in warm.rows} == {"n/a: from the embedding cache"}


def test_another_results_folder_encodes_nothing(fakes: None, cli: Cli, tmp_path: Path, encoded: list[str]) -> None:
    """Scores, pair scores, coverage and facts are the same; the record says that nothing was encoded."""
    common = ("run", "--tasks", "pocket-words,pocket-pairs", "--seeds", 1, *FAST)
    assert cli(*common, "--out", tmp_path / "a", "--methods", "bag,fitted").code == 0
    first = len(encoded)
    assert cli(*common, "--out", tmp_path / "b", "--methods", "bag").code == 0
    assert len(encoded) == first > 0
    before, after = records(tmp_path / "a"), records(tmp_path / "b")
    assert {task for _, task in after} == {task for name, task in before if name == "bag"}
    for key, record in after.items():
        assert unlike(record) == unlike(before[key])
        assert record["encoding"]["cached"] > 0 == record["encoding"]["texts"]
        assert record["encoding"]["truncated"] is None, "nobody counted"
        assert "cached" not in before[key]["encoding"]
        assert record["encoding"]["peak_memory_mb"] is None and before[key]["encoding"]["peak_memory_mb"]
    cold, warm = (
        build_tables([record for (name, _), record in side.items() if name == "bag"], [suite("pocket")])[0]
        for side in (before, after)
    )
    same_but_costs(cold, warm)
    # As docs/protocol.md says: this measures them.
    again = (*common, "--out", tmp_path / "b", "--methods", "bag", "--remeasure", "--embedding-cache", 0)
    assert cli(*again).code == 0
    assert all(r["encoding"]["texts"] and r["encoding"]["peak_memory_mb"] for r in records(tmp_path / "b").values())
    (table,) = build_tables([*records(tmp_path / "b").values()], [suite("pocket")])
    assert "embedding cache" not in markdown(table)


@pytest.mark.slow
def test_a_deleted_record_needs_no_training_and_no_weights(
    fakes: None, cli: Cli, tmp_path: Path, encoded: list[str]
) -> None:
    common = ("run", "--methods", "fitted", "--seeds", 1, "--results", tmp_path / "a", *FAST)
    assert cli(*common).code == 0
    before = records(tmp_path / "a")
    for path in [*(tmp_path / "a" / "records").rglob("*.json"), *(tmp_path / "a").rglob("encoder/*")]:
        path.unlink()
    encoded.clear()
    assert cli(*common).code == 0
    assert (encoded, FITTED) == ([], ["Fitted"])
    after = records(tmp_path / "a")
    assert {key: unlike(record) for key, record in after.items()} == {k: unlike(r) for k, r in before.items()}


@pytest.mark.slow
def test_transductive_encoders_are_not_read_from_the_cache(
    fakes: None, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_bert: Path
) -> None:
    learned: list[int] = []
    plain = Transform.adapt

    def adapt(self: Any, texts: Sequence[str]) -> Encoder:
        learned.append(len(texts))
        return plain(self, texts)

    monkeypatch.setattr(Transform, "adapt", adapt)
    common = ("run", "--methods", "whitening:fit_on=target", "--backbone", tiny_bert, "--tasks", "pocket-words", *FAST)
    for out in ("a", "b"):
        assert cli(*common, "--out", tmp_path / out).code == 0
    assert len(learned) == 2 and cache_bytes() == 0
    plugin = tmp_path / "again.py"
    plugin.write_text(
        "from benchmark.tasks import TASKS, Task, register_task\n"
        "@register_task('again')\n"
        "class Again(Task):\n"
        "    title, dataset = 'The same texts', 'pocket-words'\n"
        "    def load(self, data, limit=None): return TASKS.get('pocket-words').load(data, limit)\n"
    )
    tasks = ("--plugin", plugin, "--tasks", "pocket-pairs,again")  # and pocket-words
    assert cli(*common, *tasks, "--out", tmp_path / "c").code == 0
    assert len(learned) == 4  # once for both tasks on the same texts
    scores = {task: record["scores"] for (_, task), record in records(tmp_path / "c").items()}
    assert scores["pocket-words"] == scores["again"] != scores["pocket-pairs"]
    (before,) = (record["scores"] for record in records(tmp_path / "a").values())
    assert scores["pocket-words"] == before


@pytest.mark.slow
def test_a_task_that_trains_the_encoder_gets_a_real_one(fakes: None, cli: Cli, tmp_path: Path) -> None:
    plugin = tmp_path / "trains.py"
    plugin.write_text(
        "from benchmark.tasks import TASKS, Task, register_task\n"
        "@register_task('trains')\n"
        "class Trains(Task):\n"
        "    title, dataset = 'Trains', 'pocket-words'\n"
        "    def load(self, data, limit=None):\n"
        "        inner = TASKS.get('pocket-words').load(data, limit)\n"
        "        class Data(type(inner)):\n"
        "            def score_encoder(self, encoder, vectors, run):\n"
        "                assert (encoder.encode(self.texts()) == vectors(self.texts())).all()\n"
        "                return self.score(vectors)\n"
        "        inner.__class__ = Data\n"
        "        return inner\n"
    )
    for out in ("a", "b"):
        common = ("--methods", "bag", "--tasks", "trains", "--out", tmp_path / out, *FAST)
        assert cli("run", "--plugin", plugin, *common).code == 0
    assert records(tmp_path / "b")["bag", "trains"]["encoding"]["cached"] > 0


def test_vectors_are_kept_unless_that_is_refused() -> None:
    assert RunOptions(methods="cls").embedding_cache == DEFAULT_GB > 0
