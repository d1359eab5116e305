"""Limits of control groups: whichever version, at whatever depth."""

from pathlib import Path, PurePosixPath

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zoo import limits

PARTS = st.lists(st.sampled_from(["system.slice", "slurmstepd.scope", "job_7", "step_0", "docker-1.scope"]), max_size=4)


def write(folder: Path, version: int, cpus: int | None, memory: int | None) -> None:
    if version == 2:
        files = {
            "cpu.max": "max 100000" if cpus is None else f"{cpus * 50_000} 50000",
            "memory.max": "max" if memory is None else str(memory),
        }
    else:
        files = {
            "cpu.cfs_quota_us": "-1" if cpus is None else str(cpus * 100_000),
            "cpu.cfs_period_us": "100000",
            "memory.limit_in_bytes": str(2**63 - 4096 if memory is None else memory),
        }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text + "\n")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    version=st.sampled_from([1, 2]),
    path=PARTS,
    limits_by_depth=st.lists(
        st.tuples(st.none() | st.integers(1, 8), st.none() | st.integers(2**30, 2**33)), min_size=5, max_size=5
    ),
    mounts=st.sampled_from([("cpu", "memory"), ("cpu,cpuacct", "memory")]),
    own_group_at_mount=st.booleans(),
)
def test_the_smallest_limit_of_a_group_and_those_around_it(
    tmp_path_factory, monkeypatch, version, path, limits_by_depth, mounts, own_group_at_mount
):
    tmp_path = tmp_path_factory.mktemp("groups")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 16)
    monkeypatch.setattr(limits, "_MOUNT", PurePosixPath(tmp_path))
    monkeypatch.setattr(limits, "_OWN_GROUPS", PurePosixPath(tmp_path / "own"))
    stated = "/" + "/".join(path)
    lines = [f"0::{stated}"] if version == 2 else [f"{n}:{names}:{stated}" for n, names in enumerate(mounts, 2)]
    (tmp_path / "own").write_text("9:pids:/elsewhere\n" + "\n".join(lines) + "\n")
    # In a container the mount is the process's own group.
    depth = 0 if own_group_at_mount else len(path)
    for level in range(depth + 1):
        for mount in ("",) if version == 2 else mounts:
            write(tmp_path.joinpath(mount, *path[:level]), version, *limits_by_depth[level])
    cpus, memory = zip(*limits_by_depth[: depth + 1], strict=True)
    assert limits.threads_here() == min([16, *filter(None, cpus)])
    machine = limits.os.sysconf("SC_PHYS_PAGES") * limits.os.sysconf("SC_PAGE_SIZE")
    assert limits.memory_here() == min([machine, *filter(None, memory)])


@pytest.mark.parametrize("text", ["", "\n", "garbage", "0:", "0::", ":::::", "4:memory:relative/path"])
def test_without_a_readable_group_the_machine_counts(tmp_path, monkeypatch, text):
    (tmp_path / "own").write_text(text)
    monkeypatch.setattr(limits, "_MOUNT", PurePosixPath(tmp_path / "none"))
    monkeypatch.setattr(limits, "_OWN_GROUPS", PurePosixPath(tmp_path / "own"))
    assert limits.threads_here() == torch.get_num_threads()
    assert limits.memory_here() > 0
