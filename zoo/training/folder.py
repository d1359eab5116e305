"""The folder of one training: its log, the last two checkpoints, and the weights of the best dev scores.

A damaged file is renamed, and training resumes from the checkpoint before, or starts again if there is none. A
checkpoint contains the log up to its step, so that resuming does not read the log's file.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from zoo.errors import CorruptError, MissingError, ZooError
from zoo.files import WRONG_CONTENT, write_text
from zoo.tensors import read_tensors, write_tensors

Tensors = dict[str, torch.Tensor]

LAST, BEFORE, LOG = "checkpoint.safetensors", "checkpoint-before.safetensors", "log.jsonl"


@dataclass
class FoundCheckpoint:
    """An undamaged checkpoint: its file, its tensors and metadata, and the weights of its best dev score."""

    path: Path
    tensors: Tensors
    metadata: dict[str, str]
    best: Tensors | None

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that the training stored (step, dev scores, log ...)."""
        facts: dict[str, Any] = json.loads(self.metadata["facts"])
        return facts


@dataclass
class TrainingFolder:
    """Log, checkpoints and best weights in `folder` (None: nothing is written)."""

    folder: Path | None
    say: Callable[[str], None]
    lines: list[str] = field(default_factory=list)
    damaged: list[tuple[Path, str]] = field(default_factory=list)  # (file, reason), filled by `find`
    # Best steps of the second-last and the last checkpoint.
    _bests: tuple[int | None, int | None] = (None, None)

    def log(self, values: dict[str, Any]) -> None:
        """Add a line to the log; if that fails, warn and continue."""
        self.lines.append(json.dumps(values))
        if self.folder is None:
            return
        try:
            with (self.folder / LOG).open("a", encoding="utf-8") as file:
                file.write(self.lines[-1] + "\n")
        except OSError as error:
            self.say(f"warning: {self.folder / LOG} cannot be written ({error.strerror or error}); training goes on.")

    def write_best(self, step: int, weights: Tensors) -> None:
        """Write the weights of the best dev score so far."""
        if self.folder is not None:
            write_tensors(self.folder / f"best-{step}.safetensors", weights)

    def save(self, write: Callable[[Path], None], best_step: int | None) -> None:
        """Write a checkpoint, keep the one before, and remove best weights that neither of the two refers to."""
        assert self.folder is not None
        last, before = self.folder / LAST, self.folder / BEFORE
        if last.exists():
            with contextlib.suppress(OSError):
                last.replace(before)
        try:
            write(last)
        except ZooError:
            if before.exists():
                before.replace(last)
            raise
        self._bests = (self._bests[1], best_step)
        for old in self.folder.glob("best-*.safetensors"):
            if old.name not in {f"best-{step}.safetensors" for step in self._bests}:
                old.unlink(missing_ok=True)

    def find(self) -> FoundCheckpoint | None:
        """Return the newest undamaged checkpoint with its best weights; add damaged files to `damaged`."""
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
        """Rename damaged files, and reset the log to its lines at the checkpoint that was found."""
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
    """Return the facts of a checkpoint; raises ValueError for a value that no training writes."""
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
