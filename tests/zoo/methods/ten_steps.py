"""Ten steps of a method beside a port of its released loss, from the same weights and on the same batches."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zoo.encoder import Corpus, Run, Runtime
from zoo.engine.dropout import set_dropout
from zoo.training.loop import Objective, train

STEPS = 10
PAGE = Path(__file__).parents[3] / "docs" / "fidelity.md"


def linear_rate(step: int, peak: float, warmup: int, total: int) -> float:
    """Learning rate of a step: up over the warm-up, then down to 0 at the last."""
    return peak * (step / warmup if step < warmup else (total - step) / max(total - warmup, 1))


def stated() -> dict[str, tuple[str, str]]:
    """By recipe, both numbers of docs/fidelity.md; "" for none."""
    rows = re.findall(r"^\| `([\w-]+-repo)` \|([^|]*)\|([^|]*)\|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: (value.strip(), without.strip()) for name, value, without in rows}


def texts_of_first_row(encoder: Any, sentences: list[str]) -> list[str]:
    """Return the texts that the first training row of these sentences is made of, decoded without padding."""
    batch, rows = encoder.training_rows(Corpus("toy", sentences), Run())
    assert rows == len(sentences)
    ids, mask = batch(np.arange(rows))
    return [encoder.backbone.tokenizer.decode(row[seen == 1]) for row, seen in zip(ids[0], mask[0], strict=True)]


def losses_beside(
    encoder: Any,
    corpus: Corpus,
    port: Callable[..., torch.Tensor],
    *,
    rates: dict[str, float] | None = None,
    most_norm: float = 1.0,
) -> tuple[list[float], list[float]]:
    """Return the losses of ten steps of the encoder, and those of `port(objective, *batch)`, a copy of its weights.

    Dropout is off in both, so that nothing is drawn. The port is trained by PyTorch's AdamW without decay under the
    same schedule, its gradients cut to a norm of `most_norm`. `rates` has factors of the rate for parameters by a part
    of their names.
    """
    set_dropout(encoder.backbone.model, 0.0)
    torch.manual_seed(0)
    batch, rows = encoder.training_rows(corpus, Run(seed=3))
    objective: Objective = encoder.objective()
    copied = copy.deepcopy(objective).train()
    given: list[tuple[torch.Tensor, ...]] = []
    ours: list[float] = []
    settings = dataclasses.replace(encoder.settings(), steps=STEPS, log_every=1, warmup_steps=2, accumulate=1)
    train(
        objective,
        lambda numbers: given.append(batch(numbers)) or given[-1],
        rows,
        settings,
        runtime=Runtime(),
        run=Run(seed=3, log_values=lambda _, values: ours.append(values["loss"])),
        backbone=encoder.backbone.model,
        dev_score=None,
    )
    named = [(name, p) for name, p in copied.named_parameters() if p.requires_grad]
    factors = [next((f for part, f in (rates or {}).items() if part in name), 1.0) for name, _ in named]
    optimizer = torch.optim.AdamW(
        [{"params": [p], "factor": f} for (_, p), f in zip(named, factors, strict=True)],
        betas=settings.adam_betas,
        eps=settings.adam_epsilon,
        weight_decay=0.0,
    )
    theirs = []
    for step, tensors in enumerate(given):
        for group in optimizer.param_groups:
            constant = settings.schedule == "constant"
            rate = min(step / 2, 1.0) if constant else linear_rate(step, 1.0, 2, STEPS)
            group["lr"] = settings.learning_rate * rate * group["factor"]
        loss = port(copied, *tensors)
        theirs.append(float(loss.detach()))
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for _, p in named], most_norm)
        optimizer.step()
        optimizer.zero_grad()
    assert len(ours) == STEPS
    return ours, theirs


def cls_vectors(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """[CLS] of the last layer (n, dim) of the model itself."""
    states: torch.Tensor = model(input_ids=ids, attention_mask=mask).last_hidden_state
    return states[:, 0]
