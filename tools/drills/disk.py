"""A disk that is full at every size: each command that writes ends with a sentence, loses nothing, and goes on later.

The disk is a tmpfs in a mount namespace of its own, which needs no root where user namespaces are allowed; elsewhere
the limit is that of one file (RLIMIT_FSIZE).
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import random
import resource
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.drills.common import (
    ROOT,
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
_RUN = "run"


@dataclass(frozen=True)
class Writer:
    """A command that writes: its words for the folder of the disk, and what lies in that folder before."""

    words: Callable[[Path], Sequence[object]]
    before: Path | None = None


def writers(folder: Path, model: Path) -> dict[str, Writer]:
    """Return every command that writes, by name; what it reads lies beside the disk."""
    kept, table, texts = folder / "rehearsal", folder / "table.tsv", folder / "texts.txt"
    plain = folder / "plain.txt"
    lines = (ROOT / "benchmark" / "data" / "pocket" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    table.write_text("".join(f"{a}\t{b}\t{i % 5}\n" for i, (a, b) in enumerate(itertools.pairwise(lines[:60]))))
    # Documents of ten sentences.
    texts.write_text("\n\n".join("\n".join(lines[start : start + 10]) for start in range(0, 200, 10)) + "\n")
    # The sentences themselves are test texts, which no pretraining reads.
    plain.write_text("".join(f"{line[:-1]} for the {n % 97}th time.\n" for n, line in enumerate(lines)))
    small = ("--precision", "fp32", "--device", "cpu")
    simcse = "simcse:batch_size=16:train_max_length=16"
    train = ("--train-sentences", 64, "--backbone", model, *small)
    return {
        _RUN: Writer(lambda out: training_run(model, out)),
        "cache": Writer(lambda out: [*training_run(model, folder / "beside", methods=("avg-last",)), "--remeasure"]),
        "page": Writer(lambda out: ["leaderboard", "--results", kept, "--out", out]),
        "pack": Writer(lambda out: ["pack", "--results", out], kept),
        "export": Writer(lambda out: ["export", "simcse*", out / "exported", "--results", kept]),
        "tune": Writer(
            lambda out: [
                "tune",
                simcse,
                "--space",
                "temperature=[0.05,0.1]",
                "--dev",
                "pocket-pairs",
                "--corpus",
                "pocket-text",
                "--trials",
                2,
                "--results",
                out,
                *train,
            ]
        ),
        "choose": Writer(
            lambda out: ["choose", table, "--encoders", "bag-of-words,random", "--plot", out / "p.png", *small]
        ),
        "adapt": Writer(
            lambda out: [
                "adapt",
                texts,
                "--methods",
                simcse,
                "--seeds",
                2,
                "--budget",
                "2 updates",
                "--encoder",
                model,
                "--out",
                out,
                *small,
            ]
        ),
        "claims": Writer(lambda out: ["claims", "--results", out], kept),
        "compare": Writer(
            lambda out: ["ablation", "whitening:k=8", "simcse*", "--tex", out / "t.tex", "--results", kept]
        ),
        "analyze": Writer(
            lambda out: ["analyze", "pairs", "--methods", "*", "--suite", "pocket", "--results", kept, "--out", out]
        ),
        "texts": Writer(lambda out: ["data", "texts", "--suite", "pocket", "--out", out / "texts.txt"]),
        "new": Writer(lambda out: ["new", "task", "mine"]),
        "pretrain": Writer(
            lambda out: [
                "pretrain",
                "tiny:held_out_rows=8",
                "--text",
                plain,
                "--steps",
                3,
                "--out",
                out / "model",
                *small,
            ]
        ),
    }


def disk(sizes: int, seed: int, only: Sequence[str] = ()) -> int:
    """Run each command at so many sizes of the disk, from what lies there to what it needs."""
    verdict = Verdict("disk")
    with workplace() as folder:
        preload(folder / "first")
        model = tiny_bert(folder / "model")
        preload(folder / "first", command(*training_run(model, folder / "rehearsal")))

        def all_sizes() -> int:
            (folder / "disk").mkdir()
            mounted = _own_disk(folder / "disk")
            print("a tmpfs of its own" if mounted else "RLIMIT_FSIZE", flush=True)
            rng = random.Random(seed)
            for name, writer in writers(folder, model).items():
                if not only or name in only:
                    _all_sizes(verdict, folder, name, writer, sizes, mounted, rng)
            return verdict.end()

        # In a process of its own: the namespace goes with it.
        ended = forked(all_sizes, folder / "all", most_seconds=3600)
        print(ended.out, ended.err, sep="", end="")
        return ended.code


def _prepared(folder: Path, writer: Writer) -> Path:
    """Return the folder on the emptied disk, with what lies there before."""
    out = folder / "disk" / "out"
    for path in out.parent.iterdir():
        shutil.rmtree(path, ignore_errors=True)
    if writer.before is None:
        out.mkdir()
    else:
        shutil.copytree(writer.before, out)
    os.chdir(out)
    os.environ["ZOO_BENCH_CACHE"] = str(folder / "disk" / "cache")
    shutil.rmtree(folder / "beside", ignore_errors=True)
    return out


def _bytes(place: Path) -> list[int]:
    return [path.stat().st_blocks * 512 for path in place.rglob("*")]


def _all_sizes(
    verdict: Verdict, folder: Path, name: str, writer: Writer, sizes: int, mounted: bool, rng: random.Random
) -> None:
    place = folder / "disk"
    _limit(place, None, mounted)
    out = _prepared(folder, writer)
    start = sum(_bytes(place)) if mounted else 0
    run = command(*writer.words(out), checkpoint_steps=1 if name == _RUN else None)
    first = forked(run, folder / "logs")
    if first.code != 0:
        verdict.fault(f"{name} with room failed: {first.err[-1000:]}")
        return
    wanted = results_of(out) if name == _RUN else None
    # A run has temporary files beside those that stay.
    most = int((2 if name == _RUN else 1.2) * (sum(_bytes(place)) - start)) if mounted else max(_bytes(place))
    for number in range(sizes):
        verdict.tried += 1
        _limit(place, None, mounted)
        _prepared(folder, writer)
        size = start + int(most * (number + rng.random()) / sizes)
        ended = _with_limit(run, folder, size, mounted)
        for fault in ended.faults():
            verdict.fault(f"{name}, {size:,} bytes: {fault}")
        if ended.code not in (0, 1):
            verdict.fault(f"{name}, {size:,} bytes: exit code {ended.code}: {ended.err[-500:]}")
        elif ended.code == 1 and not any(
            word in ended.err for word in ("space", "cannot write", "failed", "too large")
        ):
            verdict.fault(f"{name}, {size:,} bytes: ended without a reason: {ended.err[-500:]}")
        verdict.count(f"{name} ended with {ended.code}")
        kept = _whole_records(out)
        _limit(place, None, mounted)
        again = ended if ended.code == 0 and name != _RUN else forked(run, folder / "logs")
        if again.code != 0:
            verdict.fault(f"{name}, {size:,} bytes, then room: exit code {again.code}: {again.err[-500:]}")
        if name == _RUN:
            for file, content in kept.items():
                if (out / file).read_bytes() != content:
                    verdict.fault(f"{size:,} bytes: {file} was measured, and was measured again")
            if gaps := differences(wanted, results_of(out)):
                verdict.fault(f"{size:,} bytes: results differ: {'; '.join(gaps[:3])}")
        if list(out.rglob("*.corrupt")) or list(out.rglob("*.damaged")):
            verdict.fault(f"{name}, {size:,} bytes: a full disk damaged a file")


def _whole_records(out: Path) -> dict[str, bytes]:
    """Return the records with a score: what must not be lost."""
    kept = {}
    for path in (out / "records").rglob("*.json"):
        content = path.read_bytes()
        if b'"status": "ok"' in content:
            kept[path.relative_to(out).as_posix()] = content
    return kept


def _with_limit(run: Callable[[], object], folder: Path, size: int, mounted: bool) -> Ended:
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
        there = os.statvfs(place)
        used = (there.f_blocks - there.f_bfree) * there.f_frsize
        options = f"size={2**30 if size is None else max(size, used, 4096)}".encode()
        if ctypes.CDLL(None, use_errno=True).mount(b"none", bytes(place), b"tmpfs", _REMOUNT, options) != 0:
            raise OSError(ctypes.get_errno(), f"the disk cannot be given {size} bytes")


def _own_disk(place: Path) -> bool:
    """Mount a tmpfs that only this process and its children see; return whether that is allowed."""
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
