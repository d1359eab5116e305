"""What identifies a model folder: the content of every file that is loaded, of its own and from elsewhere."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

from zoo.engine.hub_models import from_hub
from zoo.engine.model_folder import check_weights, module_folders
from zoo.engine.named import NOT_READ
from zoo.errors import CorruptError, MissingError
from zoo.files import SUMS, read_mapping, read_sums, sha256_file, sha256_json
from zoo.paths import is_dir, is_file

HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$")
_SHA256 = re.compile(r"[0-9a-f]{64}$")
_READ = (".json", ".txt", ".model", ".tiktoken", ".codes", ".jinja", ".safetensors", ".bin")
# What a module may load from another place: keys of these files name it.
_NAMES_A_PLACE = ("adapter_config.json", "sentence_*_config.json")
_PLACES = re.compile(r"(base_model|tokenizer)_name_or_path|\w+_file")


def loaded_sha256(name: str, folder: Path, *, allow_pickle: bool) -> str:
    """Return the sha256 of all that a folder loads, of its own and from elsewhere."""
    inside, elsewhere = folder_sha256(folder), {}
    for stated, named in places_named(folder).items():
        place, what = Path(named), f"backbone {name!r}: {stated} is {named!r}"
        if is_file(place):
            elsewhere[stated] = sha256_file(place)
            continue
        if not is_dir(place) and not HUB_ID.match(named):
            raise MissingError(f"{what}, which is neither here nor a hub id (owner/name); bring it there.")
        there = place.resolve() if is_dir(place) else from_hub(named, None)
        if "base_model" in stated:
            check_weights(what, there, allow_pickle=allow_pickle)
        elsewhere[stated] = folder_sha256(there)
    return sha256_json([inside, elsewhere]) if elsewhere else inside


def places_named(folder: Path) -> dict[str, str]:
    """Return what the modules of a folder load from elsewhere: an adapter's base, or another tokenizer.

    The keys are where it is stated, the values a file, a folder or a hub id.
    """
    places: dict[str, str] = {}
    for part in module_folders(folder):
        for path in sorted(path for name in _NAMES_A_PLACE for path in part.glob(name)):
            stated = read_mapping(path)
            values = [stated, *(value for value in stated.values() if isinstance(value, dict))]
            named = {key: str(place) for held in values for key, place in held.items() if place and _PLACES.match(key)}
            where = path.relative_to(folder).as_posix()
            places |= {f"{where}: {key}": place for key, place in named.items() if Path(place).resolve() != part}
    return places


def _pieces(index: Path) -> set[str]:
    """Return the files that an index of weights names."""
    stated = read_mapping(index).get("weight_map")
    return {str(name) for name in stated.values()} if isinstance(stated, dict) else set()


@functools.lru_cache(maxsize=64)
def _file_sha256(path: Path, size: int, mtime: int) -> str:
    return sha256_file(path)


def folder_sha256(folder: Path) -> str:
    """Return the sha256 over all that loading reads: weights, configuration, tokenizer, also in module subfolders."""
    paths = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.suffix in _READ]
    paths = [p for p in paths if p.name not in NOT_READ]
    # Module folders of sentence-transformers are numbered, or modules.json names them; onnx, openvino and the like are
    # other copies of the model.
    parts = module_folders(folder)
    modules = set(parts) - {folder}
    paths = [
        p for p in paths if p.parent == folder or p.relative_to(folder).parts[0][0].isdigit() or modules & {*p.parents}
    ]
    # Pieces of the weights may lie in a folder of their own.
    listed = {part / name for part in parts for index in part.glob("*.index.json") for name in _pieces(index)}
    paths += sorted(path for path in listed - {*paths} if is_file(path))
    safe = {p.parent for p in paths if p.suffix == ".safetensors"}
    paths = [p for p in paths if p.suffix != ".bin" or p.parent not in safe]
    hashes = {}
    for path in paths:
        stat = path.stat()
        name = os.path.relpath(path, folder).replace(os.sep, "/")
        sha256 = hashes[name] = _file_sha256(path, stat.st_size, stat.st_mtime_ns)
        # The hub's cache stores large files under their sha256.
        blob = path.resolve()
        if blob.parent.name == "blobs" and _SHA256.match(blob.name) and blob.name != sha256:
            raise CorruptError(f"{path} is damaged (its sha256 is not the hub's); delete {blob} and fetch it again.")
    for name, sha256 in read_sums(folder).items():
        if hashes.get(name, sha256) != sha256:
            raise CorruptError(
                f"{folder / name} is damaged or was changed: its sha256 is not the one in {SUMS} beside it."
                f" Restore it, or delete {SUMS} if the change was meant."
            )
    return sha256_json(hashes)
