"""When the rate begins to fall: a training at a constant rate can be finished from where it stands, and go on later.

Three files of the training's folder decide: the checkpoint; `constant.safetensors`, the checkpoint at which the rate
began to fall, from which the training can go on at the full rate; and `decay.json`, the steps between which it falls.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from zoo.errors import UsageError
from zoo.files import atomic_path, read_json, read_mapping, well_formed, write_json
from zoo.pretraining.recipe import PretrainRecipe
from zoo.training.checkpoint import checkpoint_facts
from zoo.training.folder import BEFORE, LAST

CONSTANT, DECAY, OWN = "constant.safetensors", "decay.json", "recipe.json"
_MAY_CHANGE = ("steps", "decay_steps", "eval_every", "store", "fine_tuning_dropout", "row_stages")


@dataclass(frozen=True)
class Phase:
    """The step from which on the rate falls, and the step at which it is 0 and the training ends."""

    decay_from: int
    total: int


def settled_phase(folder: Path | None, recipe: PretrainRecipe, finish: int | None) -> Phase:
    """Decide where the rate falls, and put the checkpoint there that this training goes on from.

    `finish`: None for the recipe's plan, else the steps of a decay that begins at the last checkpoint (0: as many as
    the recipe's). Raises UsageError where the checkpoints do not allow it.
    """
    wanted = Phase(recipe.decay_from, recipe.steps)
    if folder is None:
        return wanted
    with well_formed(folder / DECAY):
        begun = Phase(**read_json(folder / DECAY)) if (folder / DECAY).is_file() else None
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
    """Note which recipe and text a training's folder is for; raises UsageError when its checkpoint is from others.

    How long the training lasts may change, and what changes no step that was made.
    """
    wanted = {k: v for k, v in asdict(recipe).items() if k not in _MAY_CHANGE} | {"text": stream}
    if (folder / OWN).is_file() and ((folder / LAST).is_file() or (folder / CONSTANT).is_file()):
        found = read_mapping(folder / OWN)
        for key, value in wanted.items():
            if found.get(key) != value:
                raise UsageError(
                    f"{folder} holds a training with another {key} ({found.get(key)!r}, not {value!r}); go on with"
                    " that, delete the folder, or give another --out."
                )
    write_json(folder / OWN, wanted)


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
    """Keep the checkpoint, which is at the decay's first step, and note the decay."""
    copy_file(folder / LAST, folder / CONSTANT)
    write_json(folder / DECAY, {"decay_from": phase.decay_from, "total": phase.total})


def _back_to_constant(folder: Path) -> None:
    (folder / BEFORE).unlink(missing_ok=True)  # of the decay that is given up
    copy_file(folder / CONSTANT, folder / LAST)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file; the copy is whole or not there."""
    with atomic_path(target) as temporary:
        shutil.copyfile(source, temporary)
