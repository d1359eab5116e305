"""Where and how an encoder computes, and what it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from zoo.progress import Progress

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Runtime:
    """Where and how an encoder computes; never part of a recipe."""

    device: str = "cpu"
    precision: str = "fp32"  # "fp32" or "bf16" (autocast; pooling and scoring stay float32)
    token_budget: int | None = None  # padded tokens in a batch; None: a default for the device
    allow_pickle: bool = False
    progress: Progress = field(default_factory=Progress.silent)
    # Returns the number of a signal that was received, or None; encoding calls it after each batch and may stop.
    stop_signal: Callable[[], int | None] = lambda: None
