"""The encoding engine: order, duplicates, budgets, out of memory, odd texts; against transformers' own forward."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from zoo.encoder import Runtime
from zoo.engine.batching import EncodingStats, encode_table, encode_unique, out_of_memory
from zoo.engine.tokens import TokenTable
from zoo.errors import ZooError
from zoo.methods.pooled import Average, Cls
from zoo.methods.static import Static

TEXTS = [
    "A small dog runs across the wet grass.",
    "rain",
    "Two women are talking while a third one reads a long letter from her brother in the old town.",
    "Why does bread rise?",
    "rain",
    "the market fell by 3 % on Monday , its worst day since May",
    "A small dog runs across the wet grass.",
]
ODD = [
    "",
    " \t\n ",
    "a",
    "word " * 10_000,
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "שלום עולם مرحبا",
    "a\x00b",
    "lone \ud800 surrogate",
    "line\r\nend",
    "\ufeffmark",
]


@pytest.fixture
def average(tiny_bert: Path) -> Average:
    return Average(Average.Recipe(backbone=str(tiny_bert)), Runtime())


def ragged(lengths: list[int]) -> TokenTable:
    """Row i holds lengths[i] tokens, all i."""
    ids = np.repeat(np.arange(len(lengths)), lengths).astype(np.int32)
    return TokenTable(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def sums(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """A stand-in for a model: number and sum of the real tokens, which no batching may change."""
    return torch.stack([mask.sum(1).float(), (ids * mask).sum(1).float()], 1)


def run_table(lengths: list[int], forward: Any, budget: int | None, stats: EncodingStats | None = None) -> np.ndarray:
    runtime = Runtime(token_budget=budget)
    return encode_table(ragged(lengths), forward, dim=2, pad_id=0, runtime=runtime, stats=stats or EncodingStats())


def wanted_sums(lengths: list[int]) -> np.ndarray:
    return np.array([[n, i * n] for i, n in enumerate(lengths)], np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("layers", ["cls", "last", "first-last-h0", "first-last-h1", "top2"])
@pytest.mark.parametrize("backbone", ["tiny_bert", "tiny_roberta"])
def test_vectors_equal_transformers_one_sentence_at_a_time(
    backbone: str, layers: str, request: pytest.FixtureRequest
) -> None:
    """Batches, padding, sorting and duplicates leave no trace: each vector is that of its sentence alone."""
    folder: Path = request.getfixturevalue(backbone)
    runtime = Runtime(token_budget=64)
    if layers == "cls":
        vectors = Cls(Cls.Recipe(backbone=str(folder)), runtime).encode(TEXTS)
    else:
        vectors = Average(Average.Recipe(backbone=str(folder), layers=layers), runtime).encode(TEXTS)
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    for text, vector in zip(TEXTS, vectors, strict=True):
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        with torch.inference_mode():
            h = model(ids, output_hidden_states=True).hidden_states
        alone = {
            "cls": h[2][0, 0],
            "last": h[2][0].mean(0),
            "first-last-h0": (h[0][0] + h[2][0]).mean(0) / 2,
            "first-last-h1": (h[1][0] + h[2][0]).mean(0) / 2,
            "top2": (h[1][0] + h[2][0]).mean(0) / 2,
        }[layers]
        np.testing.assert_allclose(vector, alone.numpy(), atol=1e-5)


def test_result_has_the_order_of_the_texts_in_every_permutation(average: Average) -> None:
    vectors = average.encode(TEXTS)
    order = np.random.default_rng(0).permutation(len(TEXTS))
    again = average.encode([TEXTS[i] for i in order])
    np.testing.assert_allclose(again, vectors[order], atol=1e-6)
    assert vectors.dtype == np.float32 and vectors.shape == (len(TEXTS), 32)


def test_duplicates_are_encoded_once_and_are_equal(average: Average, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 0
    forward = average.forward

    def counted(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        nonlocal rows
        rows += len(ids)
        return forward(ids, mask)

    monkeypatch.setattr(average, "forward", counted)
    vectors = average.encode(TEXTS * 3)
    assert rows == len(set(TEXTS))
    np.testing.assert_array_equal(vectors[1], vectors[4])
    np.testing.assert_array_equal(vectors[: len(TEXTS)], vectors[len(TEXTS) : 2 * len(TEXTS)])
    assert average.encoding_stats()["texts"] == len(set(TEXTS))


def test_batches_are_longest_first_and_within_the_token_budget() -> None:
    shapes: list[tuple[int, ...]] = []

    def forward(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        shapes.append(tuple(ids.shape))
        return sums(ids, mask)

    lengths = np.random.default_rng(1).integers(1, 30, 100).tolist()
    np.testing.assert_array_equal(run_table(lengths, forward, 120), wanted_sums(lengths))
    assert all(rows * width <= 120 for rows, width in shapes)
    widths = [width for _, width in shapes]
    assert widths == sorted(widths, reverse=True) and widths[0] == 32


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError()])
def test_out_of_memory_halves_the_budget_with_equal_result(error: BaseException) -> None:
    lengths = np.random.default_rng(2).integers(1, 30, 200).tolist()
    largest: list[int] = []

    def forward(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if ids.numel() > 150:
            raise error
        largest.append(ids.numel())
        return sums(ids, mask)

    stats = EncodingStats()
    np.testing.assert_array_equal(run_table(lengths, forward, 1024, stats), wanted_sums(lengths))
    assert stats.token_budget == 128 and stats.halvings == 3
    assert max(largest) <= 128
    run_table(lengths, forward, 1024, stats)
    assert stats.halvings == 3, "the smaller budget is kept for the next call"


def test_a_batch_that_did_not_fit_is_gone_before_the_next() -> None:
    held: list[weakref.ref[torch.Tensor]] = []

    def forward(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if held:
            assert held[0]() is None
            return sums(ids, mask)
        activations = ids * 2
        held.append(weakref.ref(activations))
        raise torch.OutOfMemoryError("once")

    np.testing.assert_array_equal(run_table([3, 5, 4], forward, 200), wanted_sums([3, 5, 4]))


def test_out_of_memory_with_one_text_is_told_with_advice() -> None:
    def forward(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(ZooError, match=r"single text.*max_length"):
        run_table([50, 3], forward, 64)


def test_another_error_is_not_taken_for_memory() -> None:
    def forward(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("shape mismatch")

    with pytest.raises(RuntimeError, match="shape mismatch"):
        run_table([3], forward, 64)
    assert not out_of_memory(RuntimeError("shape mismatch"))
    assert out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"))
    assert out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))


@pytest.mark.parametrize("backbone", ["tiny_bert", "tiny_roberta"])
@pytest.mark.parametrize("cls", [Cls, Average, Static])
def test_odd_texts_are_finite_and_none_is_lost(backbone: str, cls: Any, request: pytest.FixtureRequest) -> None:
    encoder = cls(cls.Recipe(backbone=str(request.getfixturevalue(backbone))), Runtime())
    vectors = encoder.encode([*ODD, "a plain sentence"])
    assert vectors.shape == (len(ODD) + 1, encoder.dim)
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(vectors[-1], encoder.encode(["a plain sentence"])[0], atol=1e-6)


def test_truncated_texts_are_counted(average: Average) -> None:
    average.encode(["word " * 10_000, "short", "word " * 700])
    stats = average.encoding_stats()
    assert stats["truncated"] == 2 and stats["texts"] == 3
    assert stats["tokens"] == 512 + 3 + 512


def test_max_length_of_the_recipe_cuts(tiny_bert: Path) -> None:
    encoder = Average(Average.Recipe(backbone=str(tiny_bert), max_length=6), Runtime())
    vectors = encoder.encode(["one two three four five six seven", "one two three four"])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)
    assert encoder.encoding_stats()["truncated"] == 1


def test_no_texts_give_no_rows_but_the_width(average: Average) -> None:
    vectors = average.encode([])
    assert vectors.shape == (0, 32) and vectors.dtype == np.float32


def test_encode_unique_spreads_rows_back() -> None:
    seen: list[str] = []

    def encode(texts: list[str]) -> np.ndarray:
        seen.extend(texts)
        return np.array([[ord(t)] for t in texts], np.float32)

    assert encode_unique(["b", "a", "b", "c", "a"], encode)[:, 0].tolist() == [ord(c) for c in "babca"]
    assert seen == ["b", "a", "c"]


@pytest.mark.slow
def test_bf16_gives_float32_vectors_near_those_of_fp32(tiny_bert: Path, tmp_path: Path) -> None:
    """In a process of its own with oneDNN capped: uncapped bfloat16 kills the process on some virtual machines."""
    code = """
import sys
import numpy as np
from zoo.encoder import Runtime
from zoo.methods.pooled import Average
texts = ["A small dog runs.", "rain", "Two women talk while a third one reads a letter."]
made = {p: Average(Average.Recipe(backbone=sys.argv[1]), Runtime(precision=p)).encode(texts) for p in ("bf16", "fp32")}
np.savez(sys.argv[2], **made)
"""
    command = [sys.executable, "-c", code, str(tiny_bert), str(tmp_path / "made.npz")]
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    vectors = np.load(tmp_path / "made.npz")
    assert vectors["bf16"].dtype == np.float32
    assert 0 < np.abs(vectors["bf16"] - vectors["fp32"]).max() < 0.05 * np.linalg.norm(vectors["fp32"], axis=1).mean()


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", None), ("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_a_table_is_encoded_in_the_precision_of_the_runtime(precision: Any, dtype: torch.dtype | None) -> None:
    kinds = []

    def forward(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        kinds.append(torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None)
        return sums(ids, mask)

    runtime = Runtime("cpu", precision)
    vectors = encode_table(ragged([2]), forward, dim=2, pad_id=0, runtime=runtime, stats=EncodingStats())
    assert kinds == [dtype] and vectors.tolist() == [[2, 0]]
