"""A disk that is full at every size: a run ends with a sentence, loses nothing, and goes on once there is room.

The disk is a tmpfs in a mount namespace of its own, which needs no root where user namespaces are allowed; elsewhere
the limit is that of one file (RLIMIT_FSIZE).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import resource
import shutil
from pathlib import Path

from tools.drills.common import (
    Ended,
    Verdict,
    command,
    differences,
    forked,
    preload,
    results_of,
    tiny_bert,
    training_run,
    workplace,
)

_NEWNS, _NEWUSER, _REMOUNT = 0x00020000, 0x10000000, 32


def disk(sizes: int, seed: int) -> int:
    """Run at so many sizes of the disk, from nothing to enough."""
    verdict = Verdict("disk")
    with workplace() as folder:
        preload(folder / "first")
        model = tiny_bert(folder / "model")
        preload(folder / "first", command(*training_run(model, folder / "rehearsal")))
        os.environ["ZOO_BENCH_CACHE"] = str(folder / "whole" / "cache")
        first = forked(command(*training_run(model, folder / "whole"), checkpoint_steps=1), folder / "logs")
        if first.code != 0:
            verdict.fault(f"the run with room failed: {first.err[-1000:]}")
            return verdict.end()
        wanted = results_of(folder / "whole")
        needed = sum(path.stat().st_size + 4096 for path in (folder / "whole").rglob("*"))
        largest = max(path.stat().st_size for path in (folder / "whole").rglob("*"))

        def all_sizes() -> int:
            mounted = _own_disk(folder / "disk")
            print(f"{'a tmpfs of its own' if mounted else 'RLIMIT_FSIZE'}; {needed:,} bytes are enough", flush=True)
            rng = random.Random(seed)
            most = 2 * needed if mounted else largest
            for number in range(sizes):
                size = int(most * (number + rng.random()) / sizes)
                _one_size(verdict, folder, model, size, wanted, mounted)
            return verdict.end()

        # In a process of its own: the namespace goes with it.
        ended = forked(all_sizes, folder / "all", most_seconds=3600)
        print(ended.out, ended.err, sep="", end="")
        return ended.code


def _one_size(verdict: Verdict, folder: Path, model: Path, size: int, wanted: object, mounted: bool) -> None:
    verdict.tried += 1
    place = folder / "disk"
    out = place / "out"
    os.environ["ZOO_BENCH_CACHE"] = str(place / "cache")
    for path in place.iterdir():
        shutil.rmtree(path, ignore_errors=True)
    run = command(*training_run(model, out), checkpoint_steps=1)
    ended = _with_limit(run, folder, size, mounted)
    for fault in ended.faults():
        verdict.fault(f"{size:,} bytes: {fault}")
    if ended.code not in (0, 1):
        verdict.fault(f"{size:,} bytes: exit code {ended.code}: {ended.err[-500:]}")
    verdict.count(f"ended with {ended.code}")
    kept = _whole_records(out)
    _limit(place, None, mounted)
    again = forked(run, folder / "logs")
    if again.code != 0:
        verdict.fault(f"{size:,} bytes, then room: exit code {again.code}: {again.err[-500:]}")
    for name, content in kept.items():
        if (out / name).read_bytes() != content:
            verdict.fault(f"{size:,} bytes: {name} was measured, and was measured again")
    gaps = differences(wanted, results_of(out))
    if gaps:
        verdict.fault(f"{size:,} bytes: results differ: {'; '.join(gaps[:3])}")
    if list(out.rglob("*.corrupt")) or list(out.rglob("*.damaged")):
        verdict.fault(f"{size:,} bytes: a full disk damaged a file")


def _whole_records(out: Path) -> dict[str, bytes]:
    """Return the records with a score: what must not be lost."""
    kept = {}
    for path in (out / "records").rglob("*.json"):
        content = path.read_bytes()
        if b'"status": "ok"' in content:
            kept[path.relative_to(out).as_posix()] = content
    return kept


def _with_limit(run: object, folder: Path, size: int, mounted: bool) -> Ended:
    assert callable(run)
    if mounted:
        _limit(folder / "disk", size, mounted)
        return forked(run, folder / "logs")

    def limited() -> object:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return run()

    return forked(limited, folder / "logs")


def _limit(place: Path, size: int | None, mounted: bool) -> None:
    """Give the mounted disk a size in bytes (None: room enough); it is never made smaller than what it holds."""
    if mounted:
        options = f"size={2**30 if size is None else max(size, 4096)}".encode()
        if ctypes.CDLL(None, use_errno=True).mount(b"none", bytes(place), b"tmpfs", _REMOUNT, options) != 0:
            raise OSError(ctypes.get_errno(), f"the disk cannot be given {size} bytes")


def _own_disk(place: Path) -> bool:
    """Mount a tmpfs that only this process and its children see; return whether that is allowed."""
    place.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEWNS if user == 0 else _NEWNS | _NEWUSER) != 0:
        return False
    with contextlib.suppress(OSError):
        if user != 0:
            Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
            Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
            Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")
    # MS_REC | MS_PRIVATE: nobody else sees it.
    libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None)
    return bool(libc.mount(b"none", bytes(place), b"tmpfs", 0, b"size=1g") == 0)
