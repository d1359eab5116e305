"""Training state in one safetensors file: weights, optimiser, schedule, random state, step; written atomically."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import nn

from zoo.errors import CorruptError
from zoo.files import WRONG_CONTENT
from zoo.tensors import write_tensors


def random_state() -> dict[str, torch.Tensor]:
    """Return the state of torch's generators (CPU, the current CUDA device and MPS) as byte tensors."""
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    if torch.backends.mps.is_available():
        state["mps"] = torch.mps.get_rng_state()
    return state


def set_random_state(state: dict[str, torch.Tensor]) -> None:
    """Restore a state that `random_state` returned."""
    torch.set_rng_state(state["cpu"])
    if torch.cuda.is_available() and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])
    if torch.backends.mps.is_available() and "mps" in state:
        torch.mps.set_rng_state(state["mps"])


@contextmanager
def undisturbed(*modules: nn.Module) -> Iterator[None]:
    """Restore all random states and the modules' train/eval modes after the block."""
    modes = [(part, part.training) for module in modules for part in module.modules()]
    state, python_state, numpy_state = random_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
        set_random_state(state)
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002


def at_rest(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the weights beside which adapters are trained, by name: they never change, so that no file keeps them.

    That a weight has no gradient does not say so: the weights of a momentum encoder have none.
    """
    return {name: weight for name, weight in model.named_parameters() if getattr(weight, "at_rest", False)}


def changing(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return a model's state without the weights at rest."""
    resting = at_rest(model)
    return {name: tensor for name, tensor in model.state_dict().items() if name not in resting}


def save_checkpoint(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
    facts: dict[str, object],
) -> None:
    """Write everything that a training needs to resume; `facts` are JSON values (step, dev scores, log ...)."""
    tensors = {f"model/{name}": tensor for name, tensor in changing(model).items()}
    packed = optimizer.state_dict()
    numbers: dict[str, dict[str, object]] = {}
    for index, state in packed["state"].items():
        for name, value in state.items():
            if isinstance(value, torch.Tensor):
                tensors[f"optimizer/{index}/{name}"] = value
            else:
                numbers.setdefault(str(index), {})[name] = value
    tensors |= {f"random/0/{name}": tensor for name, tensor in random_state().items()}
    metadata = {
        "facts": json.dumps(facts, allow_nan=False),
        "optimizer_numbers": json.dumps(numbers),
        "param_groups": json.dumps(packed["param_groups"]),
        "scheduler": json.dumps(scheduler.state_dict(), default=_refuse_value),
    }
    write_tensors(path, tensors, metadata)


def _refuse_value(value: object) -> NoReturn:
    # LambdaLR's state has None for functions; any other value that JSON cannot represent is an error.
    raise TypeError(f"cannot store {type(value).__name__} in a checkpoint")


def restore_checkpoint(
    path: Path,
    tensors: dict[str, torch.Tensor],
    metadata: dict[str, str],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
) -> dict[str, Any]:
    """Restore the contents of a checkpoint and return its facts; raises CorruptError."""
    try:
        facts: dict[str, object] = json.loads(metadata["facts"])
        groups = json.loads(metadata["param_groups"])
        state: dict[int, dict[str, object]] = {int(k): v for k, v in json.loads(metadata["optimizer_numbers"]).items()}
        scheduler_state = json.loads(metadata["scheduler"])
        weights = {}
        generators = {}
        for key, tensor in tensors.items():
            kind, _, name = key.partition("/")
            if kind == "model":
                weights[name] = tensor
            elif kind == "random":
                generators[name.removeprefix("0/")] = tensor
            else:
                index, _, field = name.partition("/")
                state.setdefault(int(index), {})[field] = tensor
        for group in groups:
            # JSON made the tuple a list.
            if "betas" in group:
                group["betas"] = tuple(group["betas"])
        _check_groups(optimizer.param_groups, groups)
        model.load_state_dict(at_rest(model) | weights)
        optimizer.load_state_dict({"state": state, "param_groups": groups})
        _check_schedule(scheduler.state_dict(), scheduler_state)
        scheduler.load_state_dict(scheduler_state)
        set_random_state(generators)
    except (*WRONG_CONTENT, RuntimeError) as error:
        raise CorruptError(f"{path} does not fit this training ({error}).") from error
    return facts


# Integers up to here are exact as floats.
_MOST_STEPS = 2**53


def _check_schedule(expected: dict[str, Any], read: dict[str, Any]) -> None:
    """Raise ValueError if a value in a schedule's state has another type than in this training."""
    for name, setting in expected.items():
        other = read[name]
        pairs = zip(setting, other, strict=True) if isinstance(setting, list) else [(setting, other)]
        if not all(_same_type(one, another) for one, another in pairs):
            raise ValueError(f"the schedule's {name} is {other!r:.40}")


def _same_type(value: object, other: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return type(other) is type(value)
    return isinstance(other, int | float) and not isinstance(other, bool) and abs(other) < _MOST_STEPS


def _check_groups(expected: list[dict[str, object]], read: list[dict[str, object]]) -> None:
    """Raise ValueError if a setting of the optimiser has another type, or as text or bool another value, than here."""
    for group, theirs in zip(expected, read, strict=True):
        for name, value in group.items():
            other = theirs[name]
            # They say how a step is computed, and which weights: torch checks them.
            if name in ("foreach", "fused", "params"):
                same = isinstance(other, type(value) | bool | None)
            elif value is None or isinstance(value, bool | str):
                same = type(other) is type(value) and other == value
            elif isinstance(value, tuple):
                pairs = zip(value, other, strict=True) if isinstance(other, tuple) else [(value, other)]
                same = all(_same_type(one, another) for one, another in pairs)
            else:
                same = _same_type(value, other)
            if not same:
                raise ValueError(f"{name} is {other!r:.40}")
