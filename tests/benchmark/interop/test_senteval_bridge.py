"""The bridge answers what SentEval's engine asks, in the way it asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fakes import Bag

from benchmark.interop.senteval import SentEvalBridge, senteval_parameters
from zoo.encoder import Runtime

SAMPLES = [["a", "small", "dog"], ["rain"], [], [b"caf\xc3\xa9", "au", "lait"], ["rain"], ["why", "not", "?"]]


class Attributes(dict[str, Any]):
    """SentEval's parameters: a dictionary whose entries are attributes, None where there is none."""

    __getattr__ = dict.get


class FakeEngine:
    """Does with `batcher` and `prepare` what SentEval's engine and its tasks do: all samples, then sorted batches."""

    def __init__(self, params: dict[str, Any], batcher: Callable[..., Any], prepare: Callable[..., Any]) -> None:
        self.params, self.batcher, self.prepare = Attributes(params), batcher, prepare
        self.params.setdefault("batch_size", 2)

    def vectors(self, samples: Sequence[Any]) -> tuple[list[Any], np.ndarray]:
        self.prepare(self.params, samples)
        ordered = sorted(samples, key=len)
        size = self.params.batch_size
        parts = [self.batcher(self.params, ordered[i : i + size]) for i in range(0, len(ordered), size)]
        return ordered, np.vstack(parts)


def test_batches_are_the_encoder_s_vectors_in_order(tmp_path: Path) -> None:
    """Tokens are joined with blanks, bytes decoded, empty lines kept; every text is encoded once."""
    asked: list[list[str]] = []

    class Counting(Bag):
        def encode(self, texts: Sequence[str]) -> np.ndarray:
            asked.append(list(texts))
            return super().encode(texts)

    encoder = Counting(Bag.Recipe(), Runtime())
    bridge = SentEvalBridge(encoder)
    engine = FakeEngine(senteval_parameters(tmp_path), bridge.batcher, bridge.prepare)
    ordered, vectors = engine.vectors(SAMPLES)
    assert asked == [["a small dog", "rain", "", "café au lait", "why not ?"]]
    texts = [" ".join(t.decode() if isinstance(t, bytes) else t for t in tokens) for tokens in ordered]
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors, Bag(Bag.Recipe(), Runtime()).encode(texts))


def test_a_batch_without_prepare_is_encoded_too() -> None:
    """SentEval's `prepare` may be left out."""
    bridge = SentEvalBridge(Bag(Bag.Recipe(), Runtime()))
    expected = Bag(Bag.Recipe(), Runtime()).encode(["rain", "a b"])
    assert np.array_equal(bridge.batcher(Attributes(), [["rain"], ["a", "b"]]), expected)


def test_a_transductive_method_adapts_to_each_task() -> None:
    """`prepare` is where a method may fit on the texts of the task, and the next task starts from the encoder again."""
    seen: list[list[str]] = []

    class Adapting(Bag):
        def adapt(self, texts: Sequence[str]) -> Bag:
            seen.append(list(texts))
            changed = Bag(self.recipe, self.runtime)
            changed.shift = np.full(self.dim, float(len(texts)))
            return changed

    bridge = SentEvalBridge(Adapting(Bag.Recipe(), Runtime()))
    plain = Bag(Bag.Recipe(), Runtime())
    for task in ([["one"], ["two"]], [["three"]]):
        bridge.prepare(Attributes(), task)
        expected = plain.encode([task[0][0]]) + len(task)
        assert np.array_equal(bridge.batcher(Attributes(), task[:1]), expected)
    assert seen == [["one", "two"], ["three"]]


def test_parameters_are_those_of_the_settings(tmp_path: Path) -> None:
    """The dictionaries say what benchmark.metrics.probe.protocol does under the same names."""
    from benchmark.metrics.probe.protocol import FAST, FULL

    for setting, fast in ((FULL, False), (FAST, True)):
        given = senteval_parameters(tmp_path, fast=fast)
        assert given["kfold"] == setting.folds
        assert given["task_path"] == str(tmp_path)
        assert given["classifier"] == {
            "nhid": setting.recipe.hidden,
            "optim": setting.recipe.optimiser,
            "batch_size": setting.recipe.batch_size,
            "tenacity": setting.recipe.tenacity,
            "epoch_size": setting.recipe.epoch_size,
        }
