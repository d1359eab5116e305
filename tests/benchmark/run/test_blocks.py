"""Signals: said at once; inside an encoding that never asks for one acted on within blocks, what was encoded stays."""

from __future__ import annotations

import io
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Bag, planned_run

from benchmark.data.sources import DataSource
from benchmark.records.folder import Records
from benchmark.run.cache import EmbeddingCache
from benchmark.run.options import RunOptions
from benchmark.run.plan import Run
from benchmark.run.runner import Runner
from benchmark.run.stop import Stop
from benchmark.run.vectors import Blocks, VectorStore
from benchmark.tasks.loaded import load_tasks
from zoo.encoder import Runtime
from zoo.errors import Interrupted
from zoo.methods.pooled import Average
from zoo.plugins import METHODS
from zoo.progress import Progress
from zoo.recipes import RecipeSpec

STOPS_AT = 100  # texts


class Slow(Bag):
    """A hundredth of a second a text, nothing asked; the signal comes while a block is encoded."""

    calls: list[int] = []  # noqa: RUF012
    stopping = False

    def encode(self, texts: Any) -> Any:
        type(self).calls.append(len(texts))
        before = sum(type(self).calls) - len(texts)
        time.sleep(0.01 * len(texts))
        if type(self).stopping and before < STOPS_AT <= before + len(texts):
            os.kill(os.getpid(), signal.SIGTERM)
        return super().encode(texts)


@pytest.fixture
def slow(clean_registries: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Slow]]:
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))
    METHODS.register("slow")(Slow)
    yield Slow
    Slow.calls, Slow.stopping = [], False


def planned(folder: Path, stream: io.StringIO | None = None) -> Run:
    specs = [RecipeSpec("slow", "slow", "", "", "test")]
    loaded = load_tasks(["pocket-words", "pocket-pairs"], DataSource(None, hub=False), None)
    runtime = Runtime(progress=Progress(stream or io.StringIO()))
    return planned_run(RunOptions(methods="slow", results=folder), specs, loaded, runtime=runtime)


@pytest.mark.slow
def test_a_signal_is_acted_on_within_blocks(slow: type[Slow], tmp_path: Path) -> None:
    """The next run encodes what is left and nothing again."""
    stream = io.StringIO()
    run = planned(tmp_path, stream)
    texts = {text for cell in run.encoders[0].cells if cell.task.data for text in cell.task.data.texts()}
    assert len(texts) > 1000, "at once they would take ten seconds"
    Slow.calls, Slow.stopping = [], True
    with pytest.raises(Interrupted) as stopped:
        Runner(run).measure_all()
    assert stopped.value.exit_code == 128 + signal.SIGTERM and "warning" not in stream.getvalue()
    probed, blocks = Slow.calls[:5], Slow.calls[5:]
    assert probed == [8, 8, 3, 1, 4] and sum(blocks) == 256
    assert Records(tmp_path).all() == []

    Slow.calls, Slow.stopping = [], False
    outcome = Runner(run).measure_all()
    assert (outcome.measured, outcome.failed) == (2, [])
    alone = [1] * 8 * len(run.tasks)
    assert sum(Slow.calls[5:]) == len(texts) - sum(blocks) + len(alone) and Slow.calls[-8:] == alone[:8]


@pytest.mark.slow
def test_what_was_encoded_stays_when_a_method_fails(slow: type[Slow], tmp_path: Path) -> None:
    plan = planned(tmp_path)

    class Failing(Slow):
        def encode(self, texts: Any) -> Any:
            if sum(Slow.calls) > 200:
                raise RuntimeError("enough")
            return super().encode(texts)

    Slow.calls = []
    entry = EmbeddingCache().entry(plan.encoders[0].key, None, "cpu")
    blocks = Blocks()
    blocks.shorten()
    store = VectorStore(Failing(Failing.Recipe(), Runtime()), "failing", lambda: entry, blocks=blocks)
    texts = [f"text {i}" for i in range(500)]
    with pytest.raises(RuntimeError, match="enough"):
        store.add(texts)
    cached = entry.find(texts)
    assert cached is not None and cached.known.sum() == len(store.rows) == sum(Slow.calls) > 200
    plain = Bag(Bag.Recipe(), Runtime()).encode(texts)
    assert np.array_equal(cached.vectors[cached.known], plain[cached.known])


def test_a_method_on_a_backbone_asks_for_itself(tiny_bert: Path) -> None:
    """Also where one batch is all: the probe of a run tells by that which methods ask."""
    from zoo import create

    asked: list[None] = []
    encoder = create(f"avg-last:backbone={tiny_bert}", Runtime(stop_signal=lambda: asked.append(None)))
    asked.clear()
    encoder.encode(["one", "two"])
    assert len(asked) == 1


def sentences(count: int) -> list[str]:
    """Texts of many lengths, so that a block has many batches whose rows are not those of its start."""
    words = "a dog runs over the old hill and the rain falls on one more garden".split()
    return [f"{i} " + " ".join(words[: i * 7 % len(words)]) for i in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("asked", [9, 14])
def test_a_stop_within_a_block_keeps_its_finished_batches(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: Any, asked: int
) -> None:
    """With what the next run encodes of the block, every bit is that of a run without a stop."""
    from zoo import create

    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path))
    texts = sentences(300)
    entry = EmbeddingCache().entry("key", None, "cpu")

    def store(stop_at: int | None, place: Any = entry) -> VectorStore:
        calls = iter(range(10**9))
        runtime = Runtime(
            precision=precision, token_budget=160, stop_signal=lambda: (next(calls) == stop_at and 15) or None
        )
        return VectorStore(
            create(f"avg-last:backbone={tiny_bert}", runtime), "avg", lambda: place, blocks=Blocks(size=120)
        )

    full = store(None, None)
    full.add(texts)
    stopped = store(asked)
    with pytest.raises(Interrupted):
        stopped.add(texts)
    kept = entry.find(texts)
    assert kept is not None and 0 < int(kept.known.sum()) == len(stopped.rows) < 300
    assert int(kept.known.sum()) % 120, "it stopped at the end of a block"

    resumed = store(None)
    assert np.array_equal(resumed(texts), full(texts))
    assert resumed.cached == len(stopped.rows) and resumed.timed.texts == 300 - resumed.cached


def test_a_method_with_a_map_of_its_own_keeps_whole_blocks(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the engine gave is not the method's vector, and a product's last digits depend on its rows."""
    from zoo import create

    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path))
    entry = EmbeddingCache().entry("key", None, "cpu")
    inner = create(f"avg-last:backbone={tiny_bert}", Runtime())

    class Mapped(type(inner)):  # type: ignore[misc]
        def encode(self, texts: Any) -> Any:
            return 2 * super().encode(texts)

    calls = iter(range(10**9))
    runtime = Runtime(token_budget=160, stop_signal=lambda: (next(calls) == 16 and 15) or None)
    store = VectorStore(Mapped(inner.recipe, runtime), "mapped", lambda: entry, blocks=Blocks(size=120))
    with pytest.raises(Interrupted):
        store.add(sentences(300))
    kept = entry.find(sentences(300))
    assert kept is not None and int(kept.known.sum()) == len(store.rows) in (120, 240)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.usefixtures("signals")
def test_a_signal_is_answered_at_once(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    with Stop().listening() as stop:
        os.kill(os.getpid(), number)
        assert "stopping after this batch" in capsys.readouterr().err
        assert stop() == number
        with pytest.raises(Interrupted):
            stop.check()


def test_a_signal_that_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop().listening() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop() is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_encoding_stops_within_a_batch(tiny_bert: Path) -> None:
    """Of a hundred batches of one text each, three are encoded when the signal is there at the third question."""
    asked: list[int] = []

    def stop() -> int | None:
        asked.append(1)
        return signal.SIGTERM if len(asked) >= 3 else None

    encoder = Average(Average.Recipe(backbone=str(tiny_bert)), Runtime(token_budget=8, stop_signal=stop))
    with pytest.raises(Interrupted, match="signal 15"):
        encoder.encode([f"one {number} two three four five" for number in range(100)])
    assert len(asked) == 3
