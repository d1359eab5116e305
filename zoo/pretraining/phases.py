"""The decay of the rate: a training at a constant rate can be finished at any step, and continued later.

Three files of the training's folder hold its state: the checkpoint; `constant.safetensors`, the checkpoint at the start
of the decay, from which training can continue at the full rate; and `decay.json`, the first and last step of the decay.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from zoo.errors import UsageError
from zoo.files import atomic_path, read_signed, well_formed, write_signed
from zoo.pretraining.recipe import PretrainRecipe
from zoo.training.checkpoint import checkpoint_facts
from zoo.training.folder import BEFORE, LAST

CONSTANT, DECAY, OWN = "constant.safetensors", "decay.json", "recipe.json"
_MAY_CHANGE = ("steps", "decay_steps", "eval_every", "store", "fine_tuning_dropout", "row_stages")


@dataclass(frozen=True)
class Phase:
    """The step at which the rate starts to fall, and the step at which it is 0 and the training ends."""

    decay_from: int
    total: int


def settled_phase(folder: Path | None, recipe: PretrainRecipe, finish: int | None) -> Phase:
    """Return when the rate falls, and restore the checkpoint from which this training has to continue.

    `finish`: None for the recipe's plan, else the steps of a decay that starts at the last checkpoint (0: the recipe's
    number). Raises UsageError if the checkpoints do not allow it.
    """
    wanted = Phase(recipe.decay_from, recipe.steps)
    if folder is None:
        return wanted
    with well_formed(folder / DECAY):
        begun = Phase(**read_signed(folder / DECAY)) if (folder / DECAY).is_file() else None
    at = checkpoint_facts(folder / LAST)["step"] if (folder / LAST).is_file() else None
    if finish is not None:
        return _finish(folder, recipe, finish, begun, at)
    if begun is not None and (begun != wanted or at is None):
        if wanted.decay_from < begun.decay_from or not (folder / CONSTANT).is_file():
            raise UsageError(
                f"the rate of {folder} falls from step {begun.decay_from:,} to {begun.total:,}; this plan has it fall"
                f" from step {wanted.decay_from:,}, which cannot be made of it. Give --finish, more --steps, or another"
                " folder."
            )
        _back_to_constant(folder)
        if begun != wanted:
            (folder / DECAY).unlink()
    elif begun is None and recipe.decay_steps is not None and at is not None and at > wanted.decay_from:
        raise UsageError(
            f"the checkpoint in {folder} is at step {at:,}, past step {wanted.decay_from:,} from which the rate would"
            " fall; give --finish STEPS to let it fall from there, or more --steps."
        )
    return wanted


def check_own(folder: Path, recipe: PretrainRecipe, stream: str) -> None:
    """Write the recipe and text of a training to its folder; raises UsageError if its checkpoint is of others.

    Fields that do not change the steps already made, such as the number of steps, may differ.
    """
    wanted = {k: v for k, v in asdict(recipe).items() if k not in _MAY_CHANGE} | {"text": stream}
    if (folder / OWN).is_file() and ((folder / LAST).is_file() or (folder / CONSTANT).is_file()):
        found = read_signed(folder / OWN)
        for key, value in wanted.items():
            if found.get(key) != value:
                raise UsageError(
                    f"{folder} holds a training with another {key} ({found.get(key)!r}, not {value!r}); go on with"
                    " that, delete the folder, or give another --out."
                )
    write_signed(folder / OWN, wanted)


def _finish(folder: Path, recipe: PretrainRecipe, finish: int, begun: Phase | None, at: int | None) -> Phase:
    if recipe.decay_steps is None:
        raise UsageError(
            "--finish needs a recipe whose rate stays constant after the warm-up: this one has no decay_steps, so its"
            " rate falls from the warm-up on."
        )
    steps = finish or recipe.decay_steps
    if begun is not None and begun.total - begun.decay_from == steps and at is not None:
        return begun
    if begun is not None:
        if not (folder / CONSTANT).is_file():
            raise UsageError(f"{folder} has no {CONSTANT}, the checkpoint from which the rate fell; nothing to finish.")
        _back_to_constant(folder)
        at = begun.decay_from
    if at is None:
        raise UsageError(f"--finish: {folder} has no checkpoint to finish from; train first, without it.")
    begin_decay(folder, phase := Phase(at, at + steps))
    return phase


def begin_decay(folder: Path, phase: Phase) -> None:
    """Copy the checkpoint, which is at the decay's first step, and write the decay's steps."""
    copy_file(folder / LAST, folder / CONSTANT)
    write_signed(folder / DECAY, {"decay_from": phase.decay_from, "total": phase.total})


def _back_to_constant(folder: Path) -> None:
    (folder / BEFORE).unlink(missing_ok=True)  # it belongs to the abandoned decay
    copy_file(folder / CONSTANT, folder / LAST)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file atomically."""
    with atomic_path(target) as temporary:
        shutil.copyfile(source, temporary)
