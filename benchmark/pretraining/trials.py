"""Tables of trials: variants of one recipe, each trained on the same number of tokens and scored in the same way."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.encoder import Run, Runtime
from zoo.engine.named import PRETRAINING
from zoo.errors import MissingError, UsageError, did_you_mean
from zoo.files import read_mapping, well_formed, write_json, write_text
from zoo.paths import resource_folder
from zoo.pretraining.pretrain import Wishes, pretrain
from zoo.pretraining.recipe import PretrainRecipe, read_pretrain_recipe
from zoo.pretraining.setting import PlainTexts, find_names
from zoo.recipe import build, read_yaml

_KEYS = ("recipe", "tokens", "base", "trials")
_COLUMNS = ("trial", "changed", "steps", "tokens", "loss", "accuracy", "pseudo_perplexity", "tokens_per_second", "note")


@dataclass(frozen=True)
class Trial:
    """One line of a table: its name, the fields it changes, and the resulting recipe."""

    name: str
    changed: Mapping[str, object]
    recipe: PretrainRecipe


def read_trials(name: str, tokens: int | None = None) -> list[Trial]:
    """Return the trials of a table, given by name or YAML file; `tokens` overrides the table's; raises UsageError."""
    folder = resource_folder("benchmark", "configs") / "trials"
    path = Path(name) if name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
    known = [file.stem for file in sorted(folder.glob("*.yaml"))]
    if not path.is_file():
        raise UsageError(f"unknown table of trials {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}.")
    with well_formed(path, UsageError):
        return _read(path, tokens)


def _read(path: Path, tokens: int | None) -> list[Trial]:
    table = read_yaml(path)
    if not isinstance(table, dict) or not set(table) <= set(_KEYS) or not isinstance(table.get("trials"), dict):
        raise UsageError(f"{path}: a table of trials has the keys {', '.join(_KEYS)}.")
    base = dataclasses.asdict(read_pretrain_recipe(str(table.get("recipe", "zoo-mini")))) | (table.get("base") or {})
    wanted = tokens or table.get("tokens")
    if type(wanted) is not int or wanted < 1:
        raise UsageError(f"{path}: tokens must be a whole number, got {wanted!r}.")
    found = []
    for trial, changed in table["trials"].items():
        if not isinstance(changed, dict):
            raise UsageError(f"{path}: trial {trial} must be a mapping of recipe fields, got {changed!r}.")
        recipe = build(PretrainRecipe, base | changed, f"{path}: {trial}")
        steps = max(wanted // (recipe.batch_rows * recipe.row_length), 1)
        found.append(Trial(str(trial), changed, dataclasses.replace(recipe, steps=steps)))
    return found


def chosen_trials(trials: Sequence[Trial], names: Sequence[str]) -> list[Trial]:
    """Return the trials with these names (none: all); raises UsageError for a name that the table does not have."""
    known = {trial.name: trial for trial in trials}
    for name in names:
        if name not in known:
            raise UsageError(f"no trial {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}.")
    return [known[name] for name in names] if names else list(trials)


def run_trials(
    trials: Sequence[Trial], chosen: Sequence[Trial], texts: PlainTexts, out: Path, *, runtime: Runtime, run: Run
) -> list[dict[str, object]]:
    """Train the chosen trials that are not finished below `out`; return a line for each finished trial, in order.

    A trial whose teacher is not on this machine is n/a with the reason. Names are checked before any training.
    """
    reasons: dict[str, str] = {}
    for trial in chosen:
        try:
            find_names(trial.recipe)
        except MissingError as error:
            reasons[trial.name] = str(error)
    lines = []
    for trial in trials:
        finished = _finished(out / trial.name, trial.recipe)
        if trial not in chosen and not finished:
            continue
        if trial.name not in reasons and not finished:
            runtime.progress.say(f"trial {trial.name}: {_changed(trial.changed)}")
            own = dataclasses.replace(run, folder=out / trial.name / "training", seed=trial.recipe.seed)
            pretrain(trial.recipe, texts, out / trial.name, runtime=runtime, run=own, wishes=Wishes())
        lines.append(_line(trial, out / trial.name, reasons.get(trial.name)))
    return lines


def _finished(folder: Path, recipe: PretrainRecipe) -> bool:
    if not (folder / PRETRAINING).is_file():
        return False
    return bool(read_mapping(folder / PRETRAINING)["recipe"] == json.loads(json.dumps(dataclasses.asdict(recipe))))


def _changed(changed: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in changed.items()) or "nothing"


def _line(trial: Trial, folder: Path, reason: str | None) -> dict[str, Any]:
    line = dict.fromkeys(_COLUMNS) | {"trial": trial.name, "changed": _changed(trial.changed)}
    if reason is not None:
        return line | {"note": f"n/a: {reason}"}
    facts = read_mapping(folder / PRETRAINING)
    return line | {
        "steps": facts["steps"],
        "tokens": facts["tokens_seen"],
        "loss": math.log(facts["held_out_pseudo_perplexity"]),
        "accuracy": 100 * facts["held_out_accuracy"],
        "pseudo_perplexity": facts["held_out_pseudo_perplexity"],
        "tokens_per_second": facts["tokens_per_second"],
        "note": f"{facts['device']}, {facts['precision']}, seed {facts['recipe']['seed']}",
    }


def write_table(lines: Sequence[Mapping[str, object]], out: Path) -> str:
    """Write the table as trials.md, .csv and .json below `out`; returns the text of trials.md."""
    head = "| trial | changed | steps | tokens | held-out loss | accuracy, % | pseudo-perplexity | tokens/s | |\n"
    text = head + "|---|---|---:|---:|---:|---:|---:|---:|---|\n"
    for line in lines:
        text += f"| {line['trial']} | {line['changed']} | "
        if line["loss"] is None:
            text += f"n/a | n/a | n/a | n/a | n/a | n/a | {line['note']} |\n"
            continue
        text += (
            f"{line['steps']:,} | {line['tokens']:,} | {line['loss']:.3f} | {line['accuracy']:.2f} |"
            f" {line['pseudo_perplexity']:.1f} | {line['tokens_per_second']:,.0f} | {line['note']} |\n"
        )
    write_text(out / "trials.md", text)
    write_json(out / "trials.json", list(lines))
    rows = io.StringIO()
    writer = csv.DictWriter(rows, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    write_text(out / "trials.csv", rows.getvalue())
    return text
