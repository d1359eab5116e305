"""Temporary files beside what is written: their names, their locks, and the removal of what killed writers left."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sys
import time
from pathlib import Path

if sys.platform != "win32":
    import fcntl

TEMPORARY_NAME = re.compile(r"\..*\.[a-z0-9_]{8}\.tmp|\.tmp\w{6}")


def temporary_prefix(name: str) -> str:
    """Return how the temporary files of a file of this name begin."""
    return f".{name[:40]}."


def temporary_beside(path: Path) -> Path:
    """Return a new hidden name in the folder of a file."""
    return path.with_name(f"{temporary_prefix(path.name)}{secrets.token_hex(4)}.tmp")


def lock(handle: int) -> bool:
    """Return whether an open file could be locked; the lock ends when the file is closed or the process dies."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove_dead(folder: Path, prefix: str = ".", seconds: float = 3600) -> None:
    """Remove temporary files of killed writers: nobody locks them here, and they are `seconds` old."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.startswith(prefix) and TEMPORARY_NAME.fullmatch(entry.name) and entry.is_file():
                with contextlib.suppress(OSError), Path(entry).open("r+b") as file:
                    if time.time() - os.fstat(file.fileno()).st_mtime >= seconds and lock(file.fileno()):
                        Path(entry).unlink()
