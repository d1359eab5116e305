"""Hugging Face hub models, complete in the cache or fetched into it; backbones with names of their own.

A model folder's identity is the content of every file it loads, from elsewhere too.
"""

from __future__ import annotations

import fnmatch
import functools
import importlib.util
import os
import re
from collections.abc import Sequence
from pathlib import Path

from zoo.engine.model_folder import check_tokenizer_files, check_weights, has_weights, module_folders
from zoo.errors import CorruptError, MissingError, did_you_mean
from zoo.files import SUMS, read_mapping, read_sums, sha256_file, sha256_json
from zoo.paths import cache_folder, is_dir, is_file, resource_folder
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
    """Folder of this module's backbone, None for another name; raises MissingError if absent."""
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
    package, _, inner = LABELLED_PACKAGES[name].partition("/")
    spec = importlib.util.find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / inner / "config.json").is_file():
            return Path(place) / inner
    raise MissingError(f"backbone {name!r} is a package that is not installed: `pip install {name}`.")


def stated_ancestry(name: str, folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ancestors by a folder's own statement; and those (or itself) trained on labelled pairs."""
    if name in LABELLED_PACKAGES:
        return (), (name,)
    if not (folder / PRETRAINING).is_file():
        return (), ()
    stated = read_mapping(folder / PRETRAINING).get("ancestry", {})
    return tuple(stated.get("ancestors", ())), tuple(stated.get("labelled", ()))


HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$")
_SHA256 = re.compile(r"[0-9a-f]{64}$")
_READ = (".json", ".txt", ".model", ".tiktoken", ".codes", ".jinja", ".safetensors", ".bin")
# What a module may load from another place: keys of these files name it.
_NAMES_A_PLACE = ("adapter_config.json", "sentence_*_config.json")
_PLACES = re.compile(r"(base_model|tokenizer)_name_or_path|\w+_file")


def loaded_sha256(name: str, folder: Path, *, allow_pickle: bool) -> str:
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
    """Sources outside the folder, an adapter's base or another tokenizer, by the place of their statement."""
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
    stated = read_mapping(index).get("weight_map")
    return {str(name) for name in stated.values()} if isinstance(stated, dict) else set()


@functools.lru_cache(maxsize=64)
def _file_sha256(path: Path, size: int, mtime: int) -> str:
    return sha256_file(path)


def folder_sha256(folder: Path) -> str:
    """Sha256 of all loaded files: weights, configuration, tokenizer, also in module subfolders."""
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


_ADVICE = ("Please make sure", "If you are trying", "For more", "Make sure")
_WANTED = ["*.json", "*.txt", "*.model"]


@functools.lru_cache(maxsize=64)
def from_hub(name: str, revision: str | None, onnx: str | None = None) -> Path:
    """A hub model's cache folder, after missing files of the cached commit are fetched.

    `onnx` names an ONNX file to fetch too; "" is model.onnx, or all if there is none.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.constants import HF_HUB_CACHE, HF_HUB_OFFLINE
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    at = f" at revision {revision}" if revision else ""
    # The message goes into records, which are published.
    cache = str(HF_HUB_CACHE).replace(str(Path.home()), "~", 1)
    looked = (
        f"backbone {name!r}{at}: not a folder here, not bundled ({', '.join(BUNDLED)}), not in the hub cache {cache}"
    )
    hint = did_you_mean(name, [*BUNDLED, *MADE, *LABELLED_PACKAGES])
    remedy = f"Fetch it where there is a network (`hf download {name}`), give a folder, or use --backbone {BUNDLED[0]}."
    cached, is_whole = _cached(name, revision, onnx)
    if cached is not None:
        if is_whole:
            return cached
        looked, hint = f"backbone {name!r}{at}: perhaps only a part of it is in the hub cache {cache}", ""
        remedy = f"Fetch the rest where there is a network: `hf download {name}`."
    offline = HF_HUB_OFFLINE or os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "ON", "YES")
    try:
        if offline:
            raise MissingError(f"{looked}, and HF_HUB_OFFLINE is set.{hint} {remedy}")
        wanted = revision if cached is None else cached.name
        # A short request first, because a download retries for minutes when the hub cannot be reached.
        info = HfApi().model_info(name, revision=wanted, timeout=5)
        files = [file.rfilename for file in info.siblings or []]
        patterns = _patterns(files, onnx)
        return Path(snapshot_download(name, revision=wanted, allow_patterns=patterns, etag_timeout=5))
    except Exception as error:
        # An error of any kind means that the checkpoint cannot be downloaded.
        if cached is not None and _seems_whole(cached):
            return cached
        if isinstance(error, MissingError):
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # What follows is the client's advice to its caller; a gate's own reason stands in a line of its own.
        reason = " ".join(line for line in lines[:4] if not line.startswith(_ADVICE))[:600].rstrip(". ")
        reason = reason or type(error).__name__
        status = getattr(getattr(error, "response", None), "status_code", 0)
        if isinstance(error, GatedRepoError):
            remedy = f"Accept its licence on https://huggingface.co/{name} and log in: `hf auth login`."
        elif isinstance(error, RepositoryNotFoundError):
            remedy = f"If it is private, log in (`hf auth login`) with an account that may read it. {remedy}"
        elif status == 429 or status >= 500:
            remedy = f"Try again later, or give a folder: `hf download {name}` keeps what it has fetched."
        raise MissingError(f"{looked}, and the hub gave: {reason}.{hint} {remedy}") from error


def _patterns(files: Sequence[str], onnx: str | None) -> list[str]:
    weights = "*.safetensors" if any(file.endswith(".safetensors") for file in files) else "*.bin"
    if onnx is None:
        return [*_WANTED, weights]
    named = onnx or any(file.rpartition("/")[2] == "model.onnx" for file in files)
    # Its tensors may lie beside it, in model.onnx_data.
    return [*_WANTED, weights, f"*{onnx or 'model.onnx'}*" if named else "*.onnx*"]


def _cached(name: str, revision: str | None, onnx: str | None) -> tuple[Path | None, bool]:
    from huggingface_hub import get_cached_repo_tree, try_to_load_from_cache

    files = ("config.json", "modules.json", "tokenizer_config.json", "tokenizer.json")
    try:
        cached = [
            path for file in files if isinstance(path := try_to_load_from_cache(name, file, revision=revision), str)
        ]
    except ValueError:
        cached = []
    if not cached:
        return None, False
    folder = Path(cached[0]).parent
    try:
        listed = [file.path for file in get_cached_repo_tree(name, revision=folder.name)]
    except Exception:
        # An error of any kind means that no download of the model has begun.
        return folder, False
    patterns = _patterns(listed, onnx)
    wanted = [file for file in listed if any(fnmatch.fnmatch(file, pattern) for pattern in patterns)]
    return folder, all((folder / file).exists() for file in wanted)


def _seems_whole(folder: Path) -> bool:
    if not has_weights(folder):
        return False
    try:
        for part in module_folders(folder)[:1]:
            check_tokenizer_files("", part)
    except MissingError:
        return False
    return is_file(folder / "config.json") or is_file(folder / "modules.json")
