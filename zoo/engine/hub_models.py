"""Models of the Hugging Face hub: whole from the cache, or fetched into it."""

from __future__ import annotations

import fnmatch
import functools
import os
from collections.abc import Sequence
from pathlib import Path

from zoo.engine.model_folder import check_tokenizer_files, has_weights, module_folders
from zoo.errors import MissingError, did_you_mean
from zoo.paths import is_file
from zoo.selection import BUNDLED, LABELLED_PACKAGES, MADE

_ADVICE = ("Please make sure", "If you are trying", "For more", "Make sure")
_WANTED = ["*.json", "*.txt", "*.model"]


@functools.lru_cache(maxsize=64)
def from_hub(name: str, revision: str | None, onnx: str | None = None) -> Path:
    """Return a hub model's folder in the cache; what is missing there of the cached commit is fetched first.

    With `onnx` so is the ONNX file of that name; "" stands for model.onnx, or for all without one.
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
    """Return the patterns of what is read of a model's files."""
    weights = "*.safetensors" if any(file.endswith(".safetensors") for file in files) else "*.bin"
    if onnx is None:
        return [*_WANTED, weights]
    named = onnx or any(file.rpartition("/")[2] == "model.onnx" for file in files)
    # Its tensors may lie beside it, in model.onnx_data.
    return [*_WANTED, weights, f"*{onnx or 'model.onnx'}*" if named else "*.onnx*"]


def _cached(name: str, revision: str | None, onnx: str | None) -> tuple[Path | None, bool]:
    """Return a hub model's folder in the cache, None without one; and whether it is known to have all that is read."""
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
    """Return whether a cached model that cannot be compared with the hub has weights and a tokenizer to be read."""
    if not has_weights(folder):
        return False
    try:
        for part in module_folders(folder)[:1]:
            check_tokenizer_files("", part)
    except MissingError:
        return False
    return is_file(folder / "config.json") or is_file(folder / "modules.json")
