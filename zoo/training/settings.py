"""Settings of one training: batches, optimiser, schedule, and when to evaluate on the development set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Optimisation settings; the defaults are those of SimCSE's trainer (docs/methods.md, common defaults)."""

    batch_size: int
    learning_rate: float
    epochs: int
    eval_every: int
    eval_within_epochs: bool = False  # count steps from the start of each epoch, and evaluate at its end too
    looks: int | None = None  # dev scores at so many equal parts of the steps, the last at their end, not `eval_every`
    patience: int | None = None  # training ends after this many dev scores in a row without a new best
    weight_decay: float = 0.0
    optimizer: Literal["adamw", "rmsprop", "sgd", "transformers-adamw"] = "adamw"  # adamw without weight decay is Adam
    rmsprop_smoothing: float = 0.99  # PyTorch's default; TensorFlow's is 0.9
    rmsprop_epsilon: float = 1e-8  # PyTorch's default; Keras's is 1e-7. Both are added to the root
    adam_betas: tuple[float, float] = (0.9, 0.999)
    adam_epsilon: float = 1e-8
    adam_bias_correction: bool = True  # False: no correction, as in BERT's own code; only for transformers-adamw
    schedule: Literal["linear", "constant"] = "linear"  # after the warm-up: to 0 at the last step, or constant
    rate_until: tuple[tuple[int, float], ...] = ()  # (end step, rate) ..., then learning_rate; replaces the schedule
    warmup_steps: int = 0
    steps: int | None = None  # None: the steps of all epochs
    accumulate: int = 1  # gradient accumulation: parts of a batch; a contrastive loss sees one part at a time
    chunk_rows: int | None = None  # gradient cache: rows encoded at a time, for batches that do not fit in memory
    tokens: int = 0  # encoded at a time, in all passes, at most: for the memory that a training says it needs
    max_grad_norm: float = 1.0
    log_every: int = 10
    unit: str = "sentences"  # that the progress counts
    units_per_row: int = 1
