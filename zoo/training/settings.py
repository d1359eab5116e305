"""Settings of one training: batches, optimiser, schedule, when a dev score is taken."""

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
    eval_within_epochs: bool = False  # the steps are counted anew in each epoch, whose end is one more occasion
    patience: int | None = None  # dev scores in a row that are no better than the best, after which training ends
    weight_decay: float = 0.0
    optimizer: Literal["adamw", "rmsprop", "sgd", "transformers-adamw"] = "adamw"  # without weight decay it is Adam
    rmsprop_smoothing: float = 0.99  # PyTorch's; TensorFlow's is 0.9
    rmsprop_epsilon: float = 1e-8  # PyTorch's; Keras's is 1e-7, added to the root as well
    adam_betas: tuple[float, float] = (0.9, 0.999)
    adam_epsilon: float = 1e-8
    adam_bias_correction: bool = True  # False: none, as BERT's own code; for transformers-adamw
    schedule: Literal["linear", "constant"] = "linear"  # to 0 at the last step, or flat; both after the warm-up
    rate_until: tuple[tuple[int, float], ...] = ()  # (step, rate) in order, then learning_rate; instead of a schedule
    warmup_steps: int = 0
    steps: int | None = None  # None: as many as the epochs take
    accumulate: int = 1  # parts a batch is cut into, one after the other; a contrastive loss sees one part at a time
    chunk_rows: int | None = None  # gradient cache: rows encoded at a time, for batches larger than memory
    max_grad_norm: float = 1.0
    log_every: int = 10
    unit: str = "sentences"  # what the progress counts
    units_per_row: int = 1
    flops_per_row: float | None = None  # forward and backward; with it the progress states the MFU
