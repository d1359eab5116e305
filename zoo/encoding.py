"""Options of `encode` for every method, and moves of an encoder with all its parts."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.errors import ContractError, UsageError
from zoo.machine import Runtime
from zoo.progress import Progress

Vectors = NDArray[np.float32]


def with_options(method: Callable[..., Vectors]) -> Callable[..., Vectors]:
    """Add the options of `Encoder.encode`; the result raises ContractError for one string."""

    @functools.wraps(method)
    def encode(
        self: Any,
        texts: Sequence[str],
        *,
        batch_size: int | None = None,
        device: str | None = None,
        show_progress_bar: bool = False,
        normalize_embeddings: bool = False,
        **more: Any,
    ) -> Vectors:
        # A text's characters would be taken for texts.
        if isinstance(texts, str):
            raise ContractError("encode() takes a list of texts; put the one text into a list: encode([text]).")
        if device is not None:
            self.to(device)
        encode_batch = functools.partial(method, self, **more)
        if batch_size is not None:
            vectors = _in_batches(encode_batch, list(texts), batch_size, Progress(enabled=show_progress_bar))
        elif show_progress_bar:
            with runtimes_changed(self, lambda runtime: replace(runtime, progress=Progress())):
                vectors = encode_batch(texts)
        else:
            vectors = encode_batch(texts)
        return normalised(vectors) if normalize_embeddings else vectors

    signature = inspect.signature(encode, follow_wrapped=False)
    shown = [part for name, part in signature.parameters.items() if name != "more"]
    encode.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return encode


_written = [0, 0]
"""How often a fit began or ended in this process, and how many are under way."""


def weights_written() -> int:
    return _written[0]


def weights_move() -> bool:
    """True while weights are written."""
    return _written[1] > 0


@contextmanager
def writing_weights() -> Iterator[None]:
    """State that the block writes weights: what is kept of them is made anew (some writes leave no trace in torch)."""
    _written[:] = _written[0] + 1, _written[1] + 1
    try:
        yield
    finally:
        _written[:] = _written[0] + 1, _written[1] - 1


def that_writes(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A fit inside `writing_weights`."""

    @functools.wraps(fit)
    def fit_writing(*args: Any, **options: Any) -> Any:
        with writing_weights():
            return fit(*args, **options)

    return fit_writing


def _in_batches(encode: Callable[[list[str]], Vectors], texts: list[str], size: int, progress: Progress) -> Vectors:
    if type(size) is not int or size < 1:
        raise UsageError(f"batch_size is {size!r:.100}; give a whole number of at least 1.")
    parts = []
    with progress.bar("encoding", len(texts)) as bar:
        for start in range(0, max(len(texts), 1), size):
            parts.append(encode(texts[start : start + size]))
            bar.update(min(start + size, len(texts)))
    return np.concatenate(parts)


def normalised(vectors: Vectors) -> Vectors:
    """Vectors (n, dim) of length 1; zero vectors stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)


def parts_of(encoder: object, seen: set[int] | None = None) -> Iterator[Any]:
    seen = set() if seen is None else seen
    if id(encoder) in seen:
        return
    seen.add(id(encoder))
    inside = getattr(encoder, "__dict__", {})
    if isinstance(inside.get("runtime"), Runtime):
        yield encoder
    for value in inside.values():
        if callable(getattr(type(value), "fingerprint", None)):
            yield from parts_of(value, seen)


# Model types of which a test shows that a text has the same bits beside any others, on a CPU.
TESTED = frozenset(
    "bert roberta xlm-roberta camembert albert distilbert electra mpnet deberta-v2 modernbert eurobert nomic_bert"
    " gpt2 llama mistral qwen2 qwen3 gemma2 gemma3_text opt t5".split()
)


def untested_forward(encoder: object) -> str:
    """The model types of an encoder outside `TESTED`, joined."""
    networks = [getattr(getattr(part, "backbone", None), "network", None) for part in parts_of(encoder)]
    return ", ".join(sorted({network.config.model_type for network in networks if network is not None} - TESTED))


@contextmanager
def runtimes_changed(encoder: object, change: Callable[[Runtime], Runtime]) -> Iterator[None]:
    before = [(part, part.runtime) for part in parts_of(encoder)]
    try:
        for part, runtime in before:
            part.runtime = change(runtime)
        yield
    finally:
        for part, runtime in before:
            part.runtime = runtime


def moved(value: Any, device: str) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(moved(part, device) for part in value) if type(value) in (list, tuple) else value
    if isinstance(value, dict) and type(value) is dict:
        return {name: moved(part, device) for name, part in value.items()}
    return value.to(device) if callable(getattr(value, "to", None)) else value
