"""The speed of a matrix product, with which a rate of FLOP/s is compared."""

from __future__ import annotations

import time
from collections.abc import Callable


def matrix_speed(device: str, precision: str, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return FLOP/s of a matrix product of typical shape on the device, measured in a fifth of a second."""
    import torch

    on_gpu = device.startswith("cuda")
    # Large and many, so that a GPU does not wait for calls.
    rows, at_once = (65536, 20) if on_gpu else (2048, 1)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    x = torch.randn(rows, 768, device=device).to(dtype)
    w = torch.randn(3072, 768, device=device).to(dtype)
    repeats = 0
    with torch.inference_mode():
        torch.nn.functional.linear(x, w)[0].sum().item()
        started = clock()
        while clock() - started < 0.2:
            for _ in range(at_once):
                y = torch.nn.functional.linear(x, w)
            y[0].sum().item()
            repeats += at_once
    return repeats * 2 * rows * 768 * 3072 / (clock() - started)
