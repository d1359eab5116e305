"""Settings of a training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Defaults are those of SimCSE's trainer (docs/methods.md, common defaults)."""

    batch_size: int
    learning_rate: float
    epochs: int
    eval_every: int
    eval_within_epochs: bool = False
    # Dev scores at so many equal parts of the steps, not every `eval_every`.
    looks: int | None = None
    patience: int | None = None
    weight_decay: float = 0.0
    optimizer: Literal["adamw", "rmsprop", "sgd", "transformers-adamw"] = "adamw"
    # PyTorch's defaults. TensorFlow's smoothing is 0.9, Keras's epsilon 1e-7.
    rmsprop_smoothing: float = 0.99
    rmsprop_epsilon: float = 1e-8
    adam_betas: tuple[float, float] = (0.9, 0.999)
    adam_epsilon: float = 1e-8
    # False as in BERT's own code; only for transformers-adamw.
    adam_bias_correction: bool = True
    schedule: Literal["linear", "constant"] = "linear"
    rate_until: tuple[tuple[int, float], ...] = ()  # (end step, rate) ..., then learning_rate; replaces the schedule
    warmup_steps: int = 0
    steps: int | None = None
    # Gradient accumulation: a contrastive loss sees one part of a batch at a time.
    accumulate: int = 1
    # Gradient cache: rows encoded at a time, for batches that do not fit in memory.
    chunk_rows: int | None = None
    # Most tokens encoded at a time, in all passes, for the memory that a training says it needs.
    tokens: int = 0
    max_grad_norm: float = 1.0
    log_every: int = 10
    unit: str = "sentences"
    units_per_row: int = 1
