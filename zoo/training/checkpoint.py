"""Training state in a safetensors file, written atomically."""

from __future__ import annotations

import contextlib
import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import nn

from zoo.errors import CorruptError, MissingError, ZooError
from zoo.files import WRONG_CONTENT, write_text
from zoo.tensors import copied, read_tensors, write_copied

Tensors = dict[str, torch.Tensor]


def random_state() -> Tensors:
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    if torch.backends.mps.is_available():
        state["mps"] = torch.mps.get_rng_state()
    return state


def set_random_state(state: dict[str, torch.Tensor]) -> None:
    torch.set_rng_state(state["cpu"])
    if torch.cuda.is_available() and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])
    if torch.backends.mps.is_available() and "mps" in state:
        torch.mps.set_rng_state(state["mps"])


@contextmanager
def undisturbed(*modules: nn.Module) -> Iterator[None]:
    """Restore random states and the modules' train/eval modes after the block."""
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
    """Weights beside adapters, by name: they never change, unlike a momentum encoder's, and no file keeps them."""
    return {name: weight for name, weight in model.named_parameters() if getattr(weight, "at_rest", False)}


def changing(model: nn.Module) -> dict[str, torch.Tensor]:
    resting = at_rest(model)
    return {name: tensor for name, tensor in model.state_dict().items() if name not in resting}


def checkpoint_of(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
    facts: dict[str, object],
) -> tuple[Tensors, dict[str, str]]:
    """A copy of all state for a resumption, as `write_copied` takes it; `facts` are JSON values."""
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
    return copied(tensors), metadata


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
    for name, setting in expected.items():
        other = read[name]
        pairs = zip(setting, other, strict=True) if isinstance(setting, list) else [(setting, other)]
        if not all(_same_type(*pair) for pair in pairs):
            raise ValueError(f"the schedule's {name} is {other!r:.40}")


def _same_type(value: object, other: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return type(other) is type(value)
    return isinstance(other, int | float) and not isinstance(other, bool) and abs(other) < _MOST_STEPS


def _check_groups(expected: list[dict[str, object]], read: list[dict[str, object]]) -> None:
    """Raise ValueError for a setting of another type, or another text or bool."""
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
                same = all(_same_type(*pair) for pair in pairs)
            else:
                same = _same_type(value, other)
            if not same:
                raise ValueError(f"{name} is {other!r:.40}")


LAST, BEFORE, LOG = "checkpoint.safetensors", "checkpoint-before.safetensors", "log.jsonl"


@dataclass
class FoundCheckpoint:
    path: Path
    tensors: Tensors
    metadata: dict[str, str]
    best: Tensors | None

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads(self.metadata["facts"])
        return facts


@dataclass
class TrainingFolder:
    folder: Path | None
    say: Callable[[str], None]
    lines: list[str] = field(default_factory=list)
    damaged: list[tuple[Path, str]] = field(default_factory=list)  # (file, reason), filled by `find`
    # Best steps of the second-last and the last checkpoint.
    _bests: tuple[int | None, int | None] = (None, None)

    def log(self, values: dict[str, Any]) -> None:
        """Add a line to the log; a failure is only a warning."""
        self.lines.append(json.dumps(values))
        if self.folder is None:
            return
        try:
            with (self.folder / LOG).open("a", encoding="utf-8") as file:
                file.write(self.lines[-1] + "\n")
        except OSError as error:
            self.say(f"warning: {self.folder / LOG} cannot be written ({error.strerror or error}); training goes on.")

    def write_best(self, step: int, weights: Tensors) -> None:
        if self.folder is not None:
            write_copied(self.folder / f"best-{step}.safetensors", weights)

    def save(self, tensors: Tensors, metadata: dict[str, str], best_step: int | None) -> None:
        """Write a copied checkpoint, keep the previous, and remove best weights of neither."""
        assert self.folder is not None
        last, before = self.folder / LAST, self.folder / BEFORE
        if last.exists():
            with contextlib.suppress(OSError):
                last.replace(before)
        try:
            write_copied(last, tensors, metadata)
        except ZooError:
            if before.exists():
                before.replace(last)
            raise
        self._bests = (self._bests[1], best_step)
        for old in self.folder.glob("best-*.safetensors"):
            if old.name not in {f"best-{step}.safetensors" for step in self._bests}:
                old.unlink(missing_ok=True)

    def find(self) -> FoundCheckpoint | None:
        """Return the newest undamaged checkpoint; add damaged files to `damaged`."""
        if self.folder is None:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in (self.folder / LAST, self.folder / BEFORE):
            if not path.exists():
                continue
            at_fault = path
            try:
                tensors, metadata = read_tensors(path, unsigned=False)
                facts, best = _checked(json.loads(metadata["facts"])), None
                if facts["best_step"] is not None:
                    at_fault = self.folder / f"best-{facts['best_step']}.safetensors"
                    best = read_tensors(at_fault, unsigned=False)[0]
            except (CorruptError, MissingError, *WRONG_CONTENT) as error:
                self.damaged.append((path, str(error)))
                if at_fault != path:
                    self.damaged.append((at_fault, str(error)))
                continue
            self._bests = (None, facts["best_step"])
            return FoundCheckpoint(path, tensors, metadata, best)
        return None

    def begin(self, checkpoint: FoundCheckpoint | None) -> None:
        if self.folder is None:
            return
        self.lines = [] if checkpoint is None else checkpoint.facts["log"]
        for path, reason in self.damaged:
            if path.exists():
                with contextlib.suppress(OSError):
                    path.replace(path.with_name(path.name + ".damaged"))
            if path.name in (LAST, BEFORE):
                self.say(f"warning: {reason} It is set aside as {path.name}.damaged.")
        if self.damaged:
            start = (
                "training starts anew"
                if checkpoint is None
                else f"training goes on from the checkpoint {checkpoint.path}"
            )
            self.say(f"warning: {start}.")
        if checkpoint is not None:
            write_text(self.folder / LOG, "".join(line + "\n" for line in self.lines))
        else:
            (self.folder / LOG).unlink(missing_ok=True)


def _checked(facts: dict[str, Any]) -> dict[str, Any]:
    scores, best, loss = facts["dev_scores"], facts["best_step"], facts["last_loss"]
    right = {
        "step": _is_step(facts["step"]),
        "dev_scores": isinstance(scores, dict) and all(_is_step(int(k)) and _is_number(v) for k, v in scores.items()),
        "log": isinstance(facts["log"], list) and all(map(_is_entry, facts["log"])),
        "seconds": _is_number(facts["seconds"]),
        "last_loss": loss is None or _is_number(loss),
        "best_step": best is None or (_is_step(best) and str(best) in scores),
    }
    if not all(right.values()):
        wrong = ", ".join(name for name, held in right.items() if not held)
        raise ValueError(f"its facts are not those of a training: {wrong}")
    return facts


def _is_step(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _is_number(value: object) -> bool:
    # NaN compares as false; a whole number can be larger than all of float64.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_entry(line: object) -> bool:
    entry = json.loads(line) if isinstance(line, str) else None
    return isinstance(entry, dict) and _is_step(entry.get("step"))
