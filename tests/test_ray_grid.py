"""The grid of simulated GPUs: its shares by hand, and a small grid that loses its only node and gets another one."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from ray_grid import Grid, Node, run_grid, share

from benchmark.run.executors.board import ray_messages
from zoo.progress import Progress


def test_a_share_counts_overlapping_spans_once() -> None:
    assert share([(0, 2), (1, 3), (9, 99)], (0, 10)) == pytest.approx(0.4)
    assert share([], (0, 10)) == 0 and share([(-5, 50)], (0, 10)) == 1


def test_a_gpu_counts_while_its_node_is_there() -> None:
    """Two GPUs of a node that is killed at 10, two of one that joins at 12; the last start is at 20, the end at 30."""
    fits = [
        {"node": "a", "gpu": "0", "worker": "1", "begin": 1.0, "end": 9.0},
        {"node": "a", "gpu": "1", "worker": "2", "begin": 5.0, "end": None},
        {"node": "b", "gpu": "0", "worker": "3", "begin": 16.0, "end": 30.0},
        {"node": "b", "gpu": "1", "worker": "4", "begin": 20.0, "end": 30.0},
    ]
    tasks = {"1": (0.0, 9.0), "3": (14.0, 30.0), "4": (20.0, 30.0)}  # Ray's log does not have the killed one
    grid = Grid([Node("a", -5.0, 10.0), Node("b", 12.0)], 2, fits, tasks, 3, 30.0, "")
    assert grid.shares(False, False) == pytest.approx([8 / 9, 5 / 9, 4 / 8, 0 / 8])
    assert grid.shares(True, False) == pytest.approx([9 / 10, 5 / 10, 6 / 8, 0 / 8])
    assert grid.shares(True, True) == pytest.approx([9 / 10, 5 / 10, 16 / 18, 10 / 18])
    assert "busy (a task runs on it), to the last start: smallest 0.0%, mean 53.8%" in grid.told()


@pytest.mark.slow
@pytest.mark.flaky(reruns=2)
def test_a_small_grid_loses_its_node_and_gets_another(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="pip install 'zoo-bench[ray]'")
    with ray_messages(Progress.silent()):
        grid = run_grid(tmp_path, nodes=1, gpus=2, methods=1, seeds=3, seconds=1.0)
    assert grid.records == 3 and "3 cells measured, 0 kept from before, 0 failed, 0 n/a" in grid.said
    ended = [fit for fit in grid.fits if fit["end"]]
    assert len({fit["worker"] for fit in ended}) == len(ended) >= 3  # a process for each encoder
    assert {fit["node"] for fit in ended} == {node.id for node in grid.nodes}
    assert {fit["gpu"] for fit in grid.fits} == {"0", "1"}
    for gpu in {(fit["node"], fit["gpu"]) for fit in ended}:  # one encoder on a GPU at a time
        spans = sorted((fit["begin"], fit["end"]) for fit in ended if (fit["node"], fit["gpu"]) == gpu)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert all(0 < each <= 1 for each in grid.shares(True, True))
