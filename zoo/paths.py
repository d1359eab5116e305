"""Paths: users', this machine's cache folder, and folders shipped with a package."""

from __future__ import annotations

import importlib.util
import os
import re
import stat
import tempfile
from pathlib import Path

from zoo.errors import MissingError, UsageError

# The name of a model's folder in the hub's cache, and names that say nothing of their content.
_CACHED = re.compile(r"models--.+?--(.+)")
_GENERIC = re.compile(r"(0_Transformer|best|checkpoint[-_]?\d*|encoder|final|last|model|output|snapshots|step[-_]?\d+)")


def user_path(text: str | Path) -> Path:
    """A user's path, ~ expanded; raises UsageError if no file can have it."""
    try:
        path = Path(text).expanduser()
        os.fsencode(path)
    except (RuntimeError, ValueError) as error:
        reason = str(error).rstrip(".")
        raise UsageError(f"{str(text)!r} is no path: {reason}.") from error
    if "\0" in str(path):
        raise UsageError(f"{str(text)!r} is no path: it holds a NUL character.")
    return path


def is_dir(path: Path) -> bool:
    """False also for too long a name; raises MissingError without permission."""
    try:
        return path.is_dir()
    except PermissionError as error:
        raise MissingError(f"{path} cannot be read: {error.strerror}.") from error
    except OSError:
        return False


def is_file(path: Path) -> bool:
    """False also for too long a name; raises MissingError without permission."""
    try:
        return path.is_file()
    except PermissionError as error:
        raise MissingError(f"{path} cannot be read: {error.strerror}.") from error
    except OSError:
        return False


def no_file(path: Path) -> str:
    """Kind of a file for a single reader, as the pipe of <(COMMAND), which has a writer; "" for others."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return ""
    if stat.S_ISFIFO(mode) and not str(path).startswith(("/dev/", "/proc/")):
        return "a named pipe, which may wait for ever; give a file or <(COMMAND)"
    return "a device; give a file" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISSOCK(mode) else ""


def saved_encoder(path: str | Path) -> Path | None:
    folder = user_path(path)
    places = (folder, folder / "encoder")
    # A plugin's `save` may write any file; `zoo.save` and a run write method.json beside it.
    return next((p for p in places if is_file(p / "recipe.json") or is_file(p / "method.json")), None)


def own_name(place: str, parts: int = 1) -> str:
    """Last part of a path or hub id, with earlier parts if as general as `checkpoint-500`."""
    steps = [step for step in re.split(r"[\\/]+", place) if step not in ("", ".", "..", "~")]
    for i, step in enumerate(steps):
        if (cached := _CACHED.fullmatch(step)) and steps[i + 1 : i + 2] == ["snapshots"]:
            # Leaves out the folder named by a commit.
            steps = [*steps[:i], cached[1], *steps[i + 3 :]]
            break
    wanted = parts
    while wanted < len(steps) and _GENERIC.fullmatch(steps[-wanted]):
        wanted += 1
    return "/".join(steps[-wanted:]) or place


def snapshot_hint(folder: Path) -> str:
    """A remedy for a model's whole folder in the hub's cache, "" for any other."""
    if not folder.name.startswith("models--"):
        return ""
    name = folder.name.removeprefix("models--").replace("--", "/")
    snapshots = sorted((folder / "snapshots").glob("*"))
    return f"it is the hub's cache of {name}: give {name}" + (f", or {snapshots[-1]}" if snapshots else "")


def cache_folder() -> Path:
    """Folder of downloads and measurements (`ZOO_BENCH_CACHE`)."""
    import platformdirs

    named = os.environ.get("ZOO_BENCH_CACHE")
    if named:
        return user_path(named)
    try:
        return Path(platformdirs.user_cache_dir("zoo-bench")).expanduser()
    except RuntimeError:
        # A user of a machine may have neither HOME nor a line in passwd.
        return Path(tempfile.gettempdir()) / f"zoo-bench-{os.getuid()}"


def resource_folder(package: str, name: str) -> Path:
    """Folder shipped in a package, or at the top of a checkout; raises MissingError."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingError(f"the package {package} is not installed; install zoo-bench again.")
    root = Path(spec.origin).resolve().parent
    for candidate in (root / name, root.parent / name):
        if candidate.is_dir():
            return candidate
    raise MissingError(f"the installation lacks {name} beside {root}; install zoo-bench again.")
