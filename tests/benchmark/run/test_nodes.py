"""Good nodes measure every encoder, whatever the others do; a bad node is named once; a reason is printed once."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from benchmark.run import nodes as module
from benchmark.run.nodes import Ground, Nodes, Report
from benchmark.run.runner import Outcome, Runner, Workers
from benchmark.run.stop import Stop
from zoo.errors import ZooError

HERE = Ground({"task a": ("1", ""), "row x": ("2", "")}, {"torch": "2.13.0"}, memory=2**34)


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class WorkerCrashedError(RayError):
    pass


class Fake:
    """Ray with nodes that behave as their name says; what is asked for is there at once, in any order."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, names: list[str], draw: random.Random, hopeless: set[int] = frozenset()) -> None:  # type: ignore[assignment]
        self.names, self.draw, self.hopeless, self.dead = names, draw, hopeless, set[str]()
        self.measured: Counter[str] = Counter()

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"NodeID": name, "NodeName": name, "Alive": name not in self.dead, "Resources": {"CPU": 2.0}}
            for name in self.names
        ]

    def wait(self, refs: list[Any], num_returns: int = 1, timeout: float = 0) -> tuple[list[Any], list[Any]]:
        shuffled = self.draw.sample(refs, len(refs))
        return shuffled[:num_returns], shuffled[num_returns:]

    def ask(self, node: str) -> Any:
        return ("probe", node, object())

    def start(self, plan: Any, node: str, _: float) -> Any:
        return ("encoder", node, plan.number, plan.label, object())

    def get(self, ref: Any) -> Any:
        kind, node = ref[:2]
        fault = node.partition("-")[0]
        if kind == "probe":
            if fault == "package":
                raise RayTaskError(ModuleNotFoundError("No module named 'benchmark'"))
            if fault == "data":
                return Ground({**HERE.parts, "task a": ("other", "no file a.tsv")}, HERE.libraries)
            if fault == "nice":
                return Ground(HERE.parts, {"torch": "2.14.1"}, niceness=15, memory=2**20)
            return HERE
        number, label = ref[2:4]
        if fault == "worker":
            raise WorkerCrashedError
        if fault == "disk":
            raise RayTaskError(OSError(28, "No space left on device"))
        if fault == "flaky" and self.draw.random() < 0.3:
            raise WorkerCrashedError
        if fault == "driver":
            why = "CUDA error: the driver is too old"
            return Report(Outcome(failed=[(f"{label} on t", why)] * 2, doubtful=[why] * 2), 1.0)
        self.measured[node] += 1
        if number in self.hopeless:
            why = f"ValueError: encoder {number} is wrong"
            return Report(Outcome(failed=[(f"{label} on t", why)] * 2, doubtful=[why] * 2), 1.0)
        return Report(Outcome(measured=2), 1.0, lines=("a warning of all",))


def run(fake: Fake, count: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Runner, list[str], Nodes]:
    monkeypatch.setattr(module, "_LOOK", 0.0)
    monkeypatch.setattr(module, "WAIT", 0.0)
    lines: list[str] = []
    row = SimpleNamespace(trained=True, name="row")
    cells = tuple(SimpleNamespace(task=SimpleNamespace(name="t")) for _ in range(2))
    plans: Any = [
        SimpleNamespace(number=i, key=str(i), title=f"row, seed {i}", label="row", cells=cells, row=row, round=1,
                        inputs=SimpleNamespace(row_key="row"))
        for i in range(count)
    ]  # fmt: skip
    nodes = Nodes(
        fake, HERE, lines.append, slots=lambda has: int(has["CPU"]), ask=fake.ask, start=fake.start,
        pending=lambda plan: 2, keep=lambda report: None, least=2**30,
    )  # fmt: skip
    runner: Any = Runner.__new__(Runner)
    runner.run = SimpleNamespace(seconds={}, stretch=1.0, options=SimpleNamespace(fail_fast=False))
    runner.outcome, runner.say, runner.now, runner._causes, runner.after_round = (
        Outcome(), lines.append, lines.append, set(), None,
    )  # fmt: skip
    Workers(2, nodes.submit, nodes.ended, nodes.result).measure(runner, plans, Stop(), {})
    return runner, lines + nodes.summary(), nodes


@pytest.mark.parametrize("seed", range(80))
def test_good_nodes_measure_all_whatever_the_others_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    kinds = ["package", "data", "worker", "disk", "driver", "nice", "flaky"]
    names = [f"{draw.choice(kinds)}-{i}" for i in range(draw.randint(0, 5))]
    while sum(name.startswith("driver") for name in names) > 2:
        names.remove(next(name for name in names if name.startswith("driver")))
    names += [f"good-{i}" for i in range(draw.randint(1, 2))]
    count = draw.randint(1, 30)
    hopeless = set(draw.sample(range(count), draw.randint(0, count // 3)))
    fake = Fake(draw.sample(names, len(names)), draw, hopeless)
    runner, lines, _ = run(fake, count, monkeypatch)
    assert runner.outcome.measured == 2 * (count - len(hopeless))
    assert len(runner.outcome.failed) == 2 * len(hopeless), "only an encoder's own faults are its cells'"
    for name in names:
        named = [line for line in lines if line.startswith(f"node {name} is left out")]
        assert len(named) <= 1 and len(named) >= name.startswith(("package", "data")), name
        assert not name.startswith(("good", "nice")) or not named
    for number in hopeless:
        ended = next(line for line in lines if line.startswith("[") and f"row, seed {number}:" in line)
        assert "failed" in ended and "finished" not in ended
    for _, why in runner.outcome.failed:
        assert sum(f": failed: {why}" in line for line in lines) == 1
    assert sum("a warning of all" in line for line in lines) <= 1
    assert all(sum(line == other for other in lines) == 1 for line in lines if not line.startswith("["))


def test_a_nice_node_with_other_libraries_is_used_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, lines, _ = run(Fake(["nice-0"], random.Random(0)), 3, monkeypatch)
    assert runner.outcome.measured == 6
    text = "\n".join(lines)
    assert "torch 2.14.1 (here 2.13.0)" in text and "niceness 15" in text and "RAY_worker_niceness=0" in text
    assert "may need 1.0 GiB" in text


@pytest.mark.parametrize("kinds", [["package"], ["data", "package"], ["disk"], ["disk", "data"]])
def test_without_a_good_node_the_run_ends_with_the_reasons(kinds: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = {"package": "no package benchmark", "data": "task a: no file a.tsv", "disk": "No space left"}
    with pytest.raises(ZooError, match="no node of the Ray cluster") as caught:
        run(Fake([f"{kind}-0" for kind in kinds], random.Random(0)), 4, monkeypatch)
    assert all(reasons[kind] in str(caught.value) for kind in kinds)


def test_an_encoder_that_always_loses_its_worker_fails_with_its_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, lines, _ = run(Fake(["worker-0"], random.Random(0)), 2, monkeypatch)
    assert len(runner.outcome.failed) == 4 and "lost 4 times (WorkerCrashedError)" in runner.outcome.failed[0][1]
    assert not any("finished" in line for line in lines)


def test_a_node_that_goes_and_one_that_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(["good-0", "worker-0"], random.Random(1))
    nodes = Nodes(
        fake, HERE, [].append, slots=lambda has: 1, ask=fake.ask, start=fake.start, pending=lambda plan: 1,
        keep=lambda report: None,
    )  # fmt: skip
    nodes.look()
    fake.dead.add("good-0")
    fake.names.append("good-1")
    monkeypatch.setattr(module, "_LOOK", 0.0)
    nodes.look()
    assert nodes.nodes["good-0"].fault == "it is gone" and "good-1" in nodes.nodes


def test_a_silent_head_is_said_and_then_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    fake = Fake(["good-0"], random.Random(1))
    nodes = Nodes(
        fake, HERE, lines.append, slots=lambda has: 1, ask=fake.ask, start=fake.start, pending=lambda plan: 1,
        keep=lambda report: None, address="127.0.0.1:1",
    )  # fmt: skip
    monkeypatch.setattr(module, "_LOOK", 0.0)
    nodes.look()
    nodes.look()
    assert len(lines) == 1 and "does not answer; what is finished is kept" in lines[0]
    monkeypatch.setattr(module, "_SILENCE", 0.0)
    with pytest.raises(ZooError, match="start the cluster again"):
        nodes.look()
