"""Limits by control groups (containers, SLURM, systemd), and worker processes, which end with their parent."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from multiprocessing.connection import wait
from pathlib import Path, PurePosixPath

# For a training to write its checkpoint, once the command is gone.
_SECONDS = 60.0
_IDLE = threading.Event()
_IDLE.set()


def end_with_parent() -> None:
    """End this worker after its parent: idle at once, else after its task, at the latest after a minute."""
    if parent := parent_process():
        threading.Thread(target=_watch, args=(parent.sentinel,), daemon=True).start()


def _watch(parent: int) -> None:
    wait([parent])
    _IDLE.wait(_SECONDS)
    # The pool's own threads wait for a task that nobody sends.
    os._exit(1)


@contextmanager
def task() -> Iterator[None]:
    _IDLE.clear()
    try:
        yield
    finally:
        _IDLE.set()


_MOUNT = PurePosixPath("/sys/fs/cgroup")
_OWN_GROUPS = PurePosixPath("/proc/self/cgroup")


def threads_here() -> int:
    """Torch's threads, or fewer by the control groups' processors."""
    import torch

    limits = [_processors(folder) for folder in _folders("cpu")]
    return max(int(min(torch.get_num_threads(), *limits)), 1)


def memory_here() -> int:
    """Memory of machine or control group in bytes; 0 if unknown."""
    try:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError):
        return 0
    # Version 2, then version 1.
    names = ("memory.max", "memory.limit_in_bytes")
    return int(min(machine, *(_number(folder / name) for folder in _folders("memory") for name in names)))


def _folders(controller: str) -> Iterator[PurePosixPath]:
    """Folders of this process's groups and all around them; a container often sees its own group at the mount."""
    groups = {_MOUNT: PurePosixPath("/"), _MOUNT / controller: PurePosixPath("/")}
    for line in _text(_OWN_GROUPS).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            groups[_MOUNT] = PurePosixPath(path)
        elif controller in controllers.split(","):
            groups |= {_MOUNT / name: PurePosixPath(path) for name in (controller, controllers)}
    for mount, inner in groups.items():
        for group in (inner, *inner.parents):
            yield mount / str(group).lstrip("/")


def _processors(folder: PurePosixPath) -> float:
    quota, _, period = _text(folder / "cpu.max").partition(" ")
    if quota.isdecimal() and period.isdecimal():
        return int(quota) / max(int(period), 1)
    return _number(folder / "cpu.cfs_quota_us") / max(_number(folder / "cpu.cfs_period_us", 100_000.0), 1)


def _number(file: PurePosixPath, otherwise: float = math.inf) -> float:
    text = _text(file)
    return int(text) if text.isdecimal() else otherwise


def _text(file: PurePosixPath) -> str:
    try:
        return Path(file).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
