"""Fast encoding: each distinct text once, longest first, in batches halved when memory runs out."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.encoder import Runtime, Vectors
from zoo.engine.narrow import WideProducts, resting_weights, widened
from zoo.engine.tokens import TokenTable, clean_text
from zoo.errors import Interrupted, ZooError

_share: ContextVar[float | None] = ContextVar("share", default=None)


@contextmanager
def without_host(share: float) -> Iterator[None]:
    """Integers stay on the device, shapes follow the batch's (CUDA graphs); at most `share` of places have a token."""
    token = _share.set(share)
    try:
        yield
    finally:
        _share.reset(token)


def share_without_host() -> float | None:
    return _share.get()


@functools.cache
def constant(values: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Integers (n,) on a device, cached for CUDA graphs: never change them."""
    return torch.tensor(values, device=device)


def pinned(batch: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy in memory that the device reads without the host."""
    return batch.contiguous().pin_memory() if device.type == "cuda" else batch


def to_device(batch: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Move to the device; the CPU's tensor stays attached for `host_of`."""
    if device.type == batch.device.type:
        return batch
    # Apple's GPU may read memory that is not pinned only later, when it holds something else.
    moved = pinned(batch, device).to(device, non_blocking=device.type != "mps")
    moved.host = batch  # type: ignore[attr-defined]
    return moved


def host_of(batch: torch.Tensor) -> torch.Tensor:
    """Values on the CPU, after a wait for the device; without a host the tensor itself."""
    if batch.device.type == "cpu" or share_without_host() is not None:
        return batch
    known: torch.Tensor | None = getattr(batch, "host", None)
    return batch.cpu() if known is None else known


def changed(batch: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """change(batch), a view or a repetition, with the host's values if known."""
    result = change(batch)
    if (known := getattr(batch, "host", None)) is not None:
        result.host = change(known)  # type: ignore[attr-defined]
    return result


def flat_rows(batch: torch.Tensor) -> torch.Tensor:
    return changed(batch, lambda rows: rows.flatten(0, 1))


# Padded tokens in a batch. On a CPU small batches keep activations in its cache; a GPU needs large batches.
DEFAULT_BUDGET = {"cpu": 4096, "cuda": 131072, "mps": 16384}

Forward = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""(input_ids, attention_mask), both (rows, length) -> pooled vectors (rows, dim), float32."""


class Unfinished(Interrupted):
    """Stopped between two batches: `rows` (m,) of the table have final `vectors` (m, dim)."""

    rows: NDArray[np.int64] = np.empty(0, np.int64)
    vectors: Vectors = np.empty((0, 0), np.float32)
    texts: Sequence[str] = ()


@dataclass
class EncodingStats:
    texts: int = 0
    tokens: int = 0
    # None: not known.
    truncated: int | None = 0
    seconds: float = 0.0
    token_budget: int | None = None
    halvings: int = 0

    def add_truncated(self, count: int | None) -> None:
        self.truncated = None if count is None or self.truncated is None else self.truncated + count

    def as_dict(self) -> dict[str, Any]:
        rate: dict[str, float | None] = {"texts_per_second": None, "tokens_per_second": None}
        if self.seconds > 0:
            rate = {
                "texts_per_second": round(self.texts / self.seconds, 1),
                "tokens_per_second": round(self.tokens / self.seconds, 1),
            }
        return {**asdict(self), "seconds": round(self.seconds, 6), **rate}


@contextmanager
def autocast(runtime: Runtime) -> Iterator[None]:
    if runtime.precision == "fp32":
        yield
        return
    narrow, device = torch.bfloat16 if runtime.precision == "bf16" else torch.float16, torch.device(runtime.device).type
    with torch.autocast(device, dtype=narrow), WideProducts() if widened(narrow, device) else nullcontext():
        yield


def out_of_memory(error: BaseException) -> bool:
    phrases = ("can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED", "MPS backend out of memory")
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(what in str(error) for what in phrases)
    )


def encode_table(
    table: TokenTable,
    forward: Forward,
    *,
    dim: int,
    pad_id: int,
    runtime: Runtime,
    stats: EncodingStats,
    positions: int | None = None,
) -> Vectors:
    """Vectors (n, dim) float32 of the table's rows; the token budget is halved when memory runs out.

    No row is padded beyond `positions` tokens.
    """
    started = time.perf_counter()
    budget = stats.token_budget or runtime.token_budget or DEFAULT_BUDGET.get(torch.device(runtime.device).type, 8192)
    vectors = np.empty((len(table), dim), dtype=np.float32)
    widths = padded_widths(table.lengths, positions)
    waiting = length_sorted_batches(widths, budget)
    device = torch.device(runtime.device)
    # Vectors on the device are fetched together, because a fetch waits.
    on_device: list[tuple[NDArray[np.int64], torch.Tensor]] = []

    def fetch() -> None:
        if on_device:
            vectors[np.concatenate([rows for rows, _ in on_device])] = (
                torch.cat([some for _, some in on_device]).cpu().numpy()
            )
            on_device.clear()

    done, work, in_all = 0, 0, max(int(table.lengths.sum()), 1)
    packing = resting_weights(keep=device.type == "cpu")
    with torch.inference_mode(), packing, runtime.progress.bar("encoding", len(table)) as bar:
        while waiting:
            rows, full = waiting[0], False
            try:
                with autocast(runtime):
                    batch = table.padded(rows, pad_id, int(widths[rows[0]]))
                    on_device.append((rows, forward(*(to_device(t, device) for t in batch)).float()))
                if device.type == "cpu":
                    fetch()
            except Exception as error:
                if not out_of_memory(error):
                    raise
                budget, full = _halve(budget, len(rows), int(table.lengths[rows].max()), error), True
            # Only now has the error let go of the batch's tensors.
            if full:
                fetch()
                stats.halvings += 1
                rest = np.concatenate(waiting)
                waiting = [rest[batch] for batch in length_sorted_batches(widths[rest], budget)]
                if device.type in ("cuda", "mps"):
                    getattr(torch, device.type).empty_cache()
                continue
            waiting.pop(0)
            done += len(rows)
            work += int(table.lengths[rows].sum())
            # The longest come first: by texts, the rest would seem several times as long as it is.
            bar.update(done, share=work / in_all)
            number = runtime.stop_signal()
            if number and waiting:
                fetch()
                stopped = Unfinished(f"stopped by signal {number}; the same command goes on from here.", number)
                stopped.rows = np.setdiff1d(np.arange(len(table)), np.concatenate(waiting))
                stopped.vectors = vectors[stopped.rows]
                raise stopped
        fetch()
    stats.texts += len(table)
    stats.tokens += int(table.lengths.sum())
    stats.add_truncated(table.truncated)
    stats.seconds += time.perf_counter() - started
    stats.token_budget = budget
    return vectors


def _halve(budget: int, rows: int, longest: int, error: BaseException) -> int:
    if rows == 1:
        raise ZooError(
            f"out of memory while encoding a single text of {longest} tokens: {error}. "
            "Set max_length in the recipe, or use another device."
        ) from error
    tried = rows * longest
    # With few texts a batch may be much smaller than the budget: then half of the batch is the next budget.
    return (tried if 2 * tried < budget else budget) // 2


def encode_unique(texts: Sequence[str], encode: Callable[[list[str]], Vectors]) -> Vectors:
    """Encode each distinct text once; vectors (n, dim) in the order of `texts`."""
    texts = [clean_text(text, i) for i, text in enumerate(texts)]
    distinct = list(dict.fromkeys(texts))
    try:
        vectors = encode(distinct)
    except Unfinished as stopped:
        stopped.texts = [distinct[row] for row in stopped.rows]
        raise
    if len(distinct) == len(texts):
        return vectors
    position = {text: i for i, text in enumerate(distinct)}
    return vectors[[position[text] for text in texts]]


def padded_widths(lengths: NDArray[np.int64], positions: int | None = None) -> NDArray[np.int64]:
    """Width (n,) to which each text is padded: a function of its length alone, so that its vector is one, too."""
    step = np.where(lengths <= 64, 8, np.where(lengths <= 256, 32, 64))
    widths = np.maximum(-(-lengths // step) * step, 8)
    return widths if positions is None else np.maximum(np.minimum(widths, positions), lengths)


def length_sorted_batches(lengths: NDArray[np.int64], token_budget: int) -> list[NDArray[np.int64]]:
    """Rows, longest first, in batches of at most `token_budget` padded tokens, at least one row.

    A batch ends at a change of length.
    """
    order = np.argsort(-lengths, kind="stable")
    ordered = lengths[order]
    changes = np.flatnonzero(np.diff(ordered)) + 1
    batches: list[NDArray[np.int64]] = []
    start = 0
    while start < len(order):
        size = max(token_budget // max(int(ordered[start]), 1), 1)
        end = min(start + size, len(order))
        following = int(np.searchsorted(changes, start, side="right"))
        if following < len(changes):
            end = min(end, int(changes[following]))
        batches.append(order[start:end])
        start = end
    return batches
