"""The device and the precision that a command computes with."""

from __future__ import annotations

import logging
import os

from zoo.encoder import Runtime
from zoo.hardware import choose_device, choose_precision
from zoo.progress import Progress


def make_runtime(device: str = "auto", precision: str = "auto", *, allow_pickle: bool = False) -> Runtime:
    """Choose device and precision and silence the libraries' own messages; raises UsageError for a wrong device."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    logging.getLogger("accelerate").setLevel(logging.ERROR)
    chosen = choose_device(device)
    return Runtime(chosen, choose_precision(precision, chosen), allow_pickle=allow_pickle, progress=Progress())
