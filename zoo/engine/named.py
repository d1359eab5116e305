"""Backbones with names of their own: bundled, trained by a command, or Python packages; and the ancestry of weights."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from zoo.errors import MissingError
from zoo.files import read_mapping
from zoo.paths import cache_folder, resource_folder
from zoo.selection import BUNDLED, LABELLED_PACKAGES, MADE

DEFAULT_BACKBONE = os.environ.get("ZOO_BENCH_BACKBONE") or BUNDLED[0]
"""The backbone of a recipe that names none; docs/protocol.md has the rule of its choice."""
CLONED = ("zoo-mini",)
"""Which of MADE have their weights in the repository."""
PRETRAINING = "pretraining.json"
"""The file in which `zoo-bench pretrain` states how it made a folder."""
NOT_READ = (PRETRAINING, "overlap.json")
"""Files that state how a checkpoint was made and in how many seconds; loading does not read them."""


def named_folder(name: str) -> Path | None:
    """Return the folder of a backbone of this module, None for another name; raises MissingError if it is not here."""
    if name in BUNDLED:
        return resource_folder("zoo", "models") / name
    if name in MADE:
        return _made(name)
    return _packaged(name) if name in LABELLED_PACKAGES else None


def _made(name: str) -> Path:
    cached = cache_folder() / "models" / name
    for folder in (resource_folder("zoo", "models") / name, cached):
        if (folder / "config.json").is_file():
            return folder
    texts = " ".join(f"--text {text}" for text in MADE[name])
    clone = f" give the folder of a clone of zoo-bench that has it (zoo/models/{name}), or" if name in CLONED else ""
    raise MissingError(
        f"backbone {name!r} is not beside this installation (a wheel leaves it out) and not in the cache;{clone}"
        f" make it with `zoo-bench pretrain {name} {texts} --out {cached}`."
    )


def _packaged(name: str) -> Path:
    """Return the model folder in an installed package, which is found without importing it."""
    package, _, inner = LABELLED_PACKAGES[name].partition("/")
    spec = importlib.util.find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / inner / "config.json").is_file():
            return Path(place) / inner
    raise MissingError(f"backbone {name!r} is a package that is not installed: `pip install {name}`.")


def stated_ancestry(name: str, folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ancestors that a folder states, and which of them (or itself) were trained on labelled pairs."""
    if name in LABELLED_PACKAGES:
        return (), (name,)
    if not (folder / PRETRAINING).is_file():
        return (), ()
    stated = read_mapping(folder / PRETRAINING).get("ancestry", {})
    return tuple(stated.get("ancestors", ())), tuple(stated.get("labelled", ()))
