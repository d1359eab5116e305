"""What an encoder costs here: the time of one query, texts per second, the time to load it, and its memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from zoo.encoder import Runtime
from zoo.limits import threads_here
from zoo.machine import cpu_name

# Texts are timed one by one; a slow encoder has fewer.
_QUERIES, _FEWEST, _SECONDS = 50, 5, 2.0


def query_times(encode: Callable[[list[str]], Any], texts: Sequence[str]) -> dict[str, float]:
    """Return the median and the 95th percentile of the milliseconds that one text takes, alone in its call."""
    # The first call is slower.
    encode([texts[0]])
    taken: list[float] = []
    began = time.perf_counter()
    for text in texts[:: max(1, len(texts) // _QUERIES)][:_QUERIES]:
        started = time.perf_counter()
        encode([text])
        taken.append(1000 * (time.perf_counter() - started))
        if len(taken) >= _FEWEST and time.perf_counter() - began > _SECONDS:
            break
    middle, most = np.quantile(taken, (0.5, 0.95))
    return {"ms_p50": float(middle), "ms_p95": float(most)}


def device_name(runtime: Runtime) -> str:
    """Return the device with its hardware and precision, for a reader who compares times."""
    if runtime.device.startswith("cuda"):
        import torch

        return f"{runtime.device} ({torch.cuda.get_device_name(runtime.device)}), {runtime.precision}"
    threads = threads_here()
    return f"{runtime.device} ({cpu_name()}, {threads} thread{'s' * (threads > 1)}), {runtime.precision}"
