"""The nodes of a Ray cluster: each is asked before it gets encoders, and a bad one is named once and left out.

A fault of a machine is booked as the machine's: its encoder goes to another node, and only what fails there too is the
encoder's.
"""

from __future__ import annotations

import socket
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmark.run.runner import WAIT, Outcome
from zoo.errors import ZooError, error_text
from zoo.progress import Bar, clock, counted

if TYPE_CHECKING:
    from benchmark.records.record import Record
    from benchmark.run.plan import EncoderPlan, Run
    from benchmark.tasks.base import PairScores

RETRIES = 3
# So many encoders in a row that lost their worker are a node's fault.
_LOSSES = 2
# Seconds between two looks at which nodes there are, and for which the head may be silent.
_LOOK, _SILENCE = 5.0, 20.0
_NAMED = 3


@dataclass(frozen=True)
class Ground:
    """What a run rests on by what people call it (a digest, and why it is absent), and what a node is like."""

    parts: Mapping[str, tuple[str, str]]
    libraries: Mapping[str, str]
    niceness: int = 0
    memory: int = 0

    def differs(self, here: Ground) -> str:
        """Return why this node cannot measure the command's run; "" where it can."""
        about = defaultdict[str, list[str]](list)
        for name, (digest, _) in here.parts.items():
            there, why = self.parts.get(name, ("", "it is unknown there"))
            if there != digest:
                about[why or "other data, weights or versions than those of the command"].append(name)
        more = {why: f" and {len(of) - _NAMED} more" if len(of) > _NAMED else "" for why, of in about.items()}
        return "; ".join(f"{', '.join(of[:_NAMED])}{more[why]}: {why}" for why, of in about.items())

    def notes(self, here: Ground, least: int) -> list[str]:
        """Return what a person should know of a node that can measure."""
        names = sorted(self.libraries.keys() | here.libraries.keys())
        pairs = [(name, self.libraries.get(name, "none"), here.libraries.get(name, "none")) for name in names]
        others = [f"{name} {there} (here {ours})" for name, there, ours in pairs if there != ours]
        notes = [f"it has {', '.join(others)}: last digits may differ"] if others else []
        if self.niceness > max(here.niceness, 0):
            notes.append(
                f"its workers have niceness {self.niceness} and wait for other work; start it with"
                " RAY_worker_niceness=0 ray start ..."
            )
        if 0 < self.memory < least:
            gib = [f"{value / 2**30:.1f}" for value in (least, self.memory)]
            notes.append(f"a training may need {gib[0]} GiB of memory, and it has {gib[1]}")
        return notes


def ground_of(run: Run, libraries: Mapping[str, str], niceness: int, memory: int) -> Ground:
    """Return what a prepared run rests on; versions of parts are in these keys, bytes of code are not."""
    from zoo.files import sha256_json

    parts = {f"task {task.name}": (sha256_json(task.identity()), task.reason or "") for task in run.tasks}
    for plan in run.encoders:
        why = plan.inputs.missing or plan.inputs.failed or ""
        parts[f"row {plan.label}"] = (sha256_json([plan.inputs.row_key, bool(why)]), why)
    return Ground(parts, libraries, niceness, memory)


@dataclass(frozen=True)
class Report:
    """What a worker did; records with their pair scores and files of encoders, if it had a folder of its own."""

    outcome: Outcome | None
    seconds: float
    records: Sequence[tuple[Record, PairScores | None]] = ()
    files: Mapping[str, bytes] | None = None
    # What it had to say, which the command prints.
    lines: tuple[str, ...] = ()


@dataclass(eq=False)
class Node:
    key: str
    name: str
    slots: int
    busy: int = 0
    asked: bool = False
    # Why it is left out.
    fault: str = ""
    ready: bool = False
    # Encoders in a row that lost their worker.
    lost: int = 0
    # Encoders that failed here and were measured elsewhere.
    blamed: int = 0


@dataclass(eq=False)
class Job:
    """An encoder on its way through the nodes."""

    plan: EncoderPlan
    patience: float
    # How many of its cells had no score when it came.
    pending: int
    measured: int = 0
    refused: set[str] = field(default_factory=set)
    # Why it failed, by node.
    doubted: dict[str, str] = field(default_factory=dict)
    tries: int = 0
    node: Node | None = None
    started: float = 0.0
    outcome: Outcome | None = None
    seconds: float = 0.0


class Nodes:
    """Places encoders on the nodes that can measure them; `submit`, `ended` and `result` serve `Workers`."""

    def __init__(
        self,
        ray: Any,
        here: Ground,
        say: Callable[[str], None],
        *,
        slots: Callable[[Mapping[str, float]], int],
        ask: Callable[[str], Any],
        start: Callable[[EncoderPlan, str, float], Any],
        pending: Callable[[EncoderPlan], int],
        keep: Callable[[Report], None],
        least: int = 0,
        address: str = "",
        bar: Bar | None = None,
    ) -> None:
        self._ray, self._here, self._say, self._least, self._bar = ray, here, say, least, bar or Bar()
        self._slots, self._ask, self._start, self._pending, self._keep = slots, ask, start, pending, keep
        self._address, self._silent, self._looked = address, 0.0, 0.0
        self.nodes: dict[str, Node] = {}
        self._probes: dict[Any, Node] = {}
        self.running: dict[Any, Job] = {}
        self._waiting: deque[Job] = deque()
        self._finished = 0
        # (A node's name, what failed there for another to do) and how often; and what was printed.
        self.moved: Counter[tuple[str, str]] = Counter()
        self._printed: set[str] = set()

    def submit(self, plan: EncoderPlan, patience: float) -> Job:
        job = Job(plan, patience, self._pending(plan))
        self._waiting.append(job)
        return job

    def result(self, _: EncoderPlan, job: Job) -> tuple[Outcome | None, float]:
        return job.outcome, job.seconds

    def ended(self, _: Sequence[Job]) -> list[Job]:
        """Return the encoders that ended within a moment; raises ZooError where no node or no head is left."""
        self.look()
        self._place()
        refs = [*self._probes, *self.running]
        if not refs:
            if not self._usable():
                faults = "; ".join(f"{node.name}: {node.fault}" for node in self.nodes.values() if node.fault)
                raise ZooError(
                    f"no node of the Ray cluster can measure this run ({faults or 'there is none'}); what is finished"
                    " is kept, and the same command goes on once a node can."
                )
            time.sleep(WAIT)
            return []
        done, rest = self._ray.wait(refs, num_returns=1, timeout=WAIT)
        if done and rest:
            done += self._ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        finished = []
        for ref in done:
            if ref in self._probes:
                self._answered(self._probes.pop(ref), ref)
            elif self._came_back(job := self.running.pop(ref), ref):
                finished.append(job)
        self._finished += len(finished)
        self._show()
        return finished

    def look(self) -> None:
        """Look for nodes that came or went, and whether the head answers; raises ZooError where it does not."""
        now = time.monotonic()
        if self._looked and now < self._looked + _LOOK:
            return
        self._looked = now
        if self._address and not _answers(self._address):
            what = f"the head of the Ray cluster at {self._address} does not answer"
            if not self._silent:
                self._silent = now
                self._say(f"{what}; what is finished is kept; waiting {_SILENCE:.0f} s for it")
            elif now > self._silent + _SILENCE:
                raise ZooError(
                    f"{what} for {now - self._silent:.0f} s; what is finished is kept: start the cluster again, and"
                    " the same command goes on."
                )
            return
        if self._silent:
            self._say(f"the head of the Ray cluster at {self._address} answers again")
            self._silent = 0.0
        self._listed(self._ray.nodes())

    def _listed(self, listed: Sequence[Mapping[str, Any]]) -> None:
        alive = {node["NodeID"]: node for node in listed if node["Alive"]}
        for key, node in self.nodes.items():
            if key not in alive and node.fault != "it is gone":
                self.leave_out(node, "it is gone")
        names = Counter(node.get("NodeName", "") for node in listed)
        for key, about in alive.items():
            name = about.get("NodeName") or key[:8]
            if key not in self.nodes and (slots := self._slots(about["Resources"])):
                self.nodes[key] = node = Node(key, f"{name} ({key[:6]})" if names[name] > 1 else name, slots)
                self._probes[self._ask(key)] = node

    def leave_out(self, node: Node, why: str) -> None:
        """Name a node once, with the reason, and give it nothing more."""
        if not node.fault:
            self._say(f"node {node.name} is left out: {why}")
        node.fault, node.ready = why, False

    def _answered(self, node: Node, ref: Any) -> None:
        try:
            ground: Ground = self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            self.leave_out(node, self._reason(error))
            return
        if node.fault:
            return
        if why := ground.differs(self._here):
            self.leave_out(node, why)
            return
        node.ready = True
        for note in ground.notes(self._here, self._least):
            self._say(f"node {node.name}: {note}")

    def _reason(self, error: Exception) -> str:
        """Return the reason of an error of Ray: a task's own error, or what became of its worker, in a line."""
        cause = getattr(error, "cause", None) or error
        if isinstance(cause, ModuleNotFoundError) or "No module named" in str(cause):
            name = str(cause).rpartition("No module named ")[2].split()[0].strip("'\".;")
            return f"it has no package {name}; install there what the command has"
        if isinstance(cause, AttributeError) or "Can't get attribute" in str(cause):
            return f"it has another version of zoo-bench ({error_text(cause):.120}); install the command's there"
        if cause is error:
            return f"its worker was lost ({type(error).__name__})"
        return error_text(cause)

    def _usable(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.ready]

    def _place(self) -> None:
        """Start what waits on free nodes, each encoder on a node where it has not failed, if there is one."""
        usable = self._usable()
        for _ in range(len(self._waiting)):
            free = [node for node in usable if node.busy < node.slots]
            if not free:
                return
            job = self._waiting.popleft()
            if job.refused >= {node.key for node in usable}:
                job.refused = set()
            free = [node for node in free if node.key not in job.refused]
            if not free:
                self._waiting.append(job)
                continue
            node = min(free, key=lambda node: node.busy / node.slots)
            node.busy += 1
            job.node, job.started = node, time.monotonic()
            self.running[self._start(job.plan, node.key, job.patience)] = job

    def _came_back(self, job: Job, ref: Any) -> bool:
        """Book what came of an encoder; returns whether it has ended, and not moved to another node."""
        node = job.node
        assert node is not None
        node.busy -= 1
        try:
            report: Report = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:
            # An encoder's own failure is a record: what is raised here is the machine's.
            why = self._reason(error)
            self.leave_out(node, why)
            return self._moved(job, node, why)
        except self._ray.exceptions.RayError as error:
            why, node.lost = self._reason(error), node.lost + 1
            if node.lost >= _LOSSES and len(self._usable()) > 1:
                self.leave_out(node, f"{why}, {counted(node.lost, 'encoder')} in a row")
            job.tries += 1
            if job.tries > RETRIES:
                why = f"its worker was lost {job.tries} times ({type(error).__name__}); the same command measures it"
                cells = [f"{job.plan.label} on {cell.task.name}" for cell in job.plan.cells][: job.pending]
                job.outcome = Outcome(failed=[(cell, why) for cell in cells])
                return True
            return self._moved(job, node, why)
        node.lost = 0
        self._keep(report)
        for line in report.lines:
            self.once(f"{node.name}: {line}", line)
        outcome = report.outcome
        if outcome is not None:
            job.measured += outcome.measured
            others = {other.key for other in self._usable()} - job.refused - {node.key}
            if outcome.doubtful and others and len(job.doubted) < RETRIES:
                job.doubted[node.key] = outcome.doubtful[0]
                return self._moved(job, node, outcome.doubtful[0])
            if not outcome.doubtful:
                self._blame(job)
            outcome.measured, outcome.kept = job.measured, len(job.plan.cells) - job.pending
        job.outcome, job.seconds = outcome, report.seconds
        return True

    def _blame(self, job: Job) -> None:
        """Leave out a node of which a second encoder that failed there has been measured by another."""
        for key, why in job.doubted.items():
            self.nodes[key].blamed += 1
            if self.nodes[key].blamed >= _LOSSES:
                self.leave_out(self.nodes[key], f"what failed there was measured elsewhere: {why}")

    def _moved(self, job: Job, node: Node, why: str) -> bool:
        self.moved[node.name, why] += 1
        if not node.fault:
            self.once(f"node {node.name}: {job.plan.title}: {why}; it is tried again", f"{node.name} {why}")
        job.refused.add(node.key)
        self._waiting.appendleft(job)
        return False

    def once(self, text: str, key: str) -> None:
        if key not in self._printed:
            self._printed.add(key)
            self._say(text)

    def summary(self) -> list[str]:
        """Return a line for each reason for which several encoders moved."""
        counts = [(name, why, count) for (name, why), count in self.moved.items() if count > 1]
        return [f"node {name}: {counted(count, 'encoder')} tried again: {why}" for name, why, count in counts]

    def _show(self) -> None:
        total = self._finished + len(self._waiting) + len(self.running)
        oldest = min(self.running.values(), key=lambda job: job.started, default=None)
        note = f"{len(self.running)} run on {len(self._usable())} nodes" if oldest else "waiting for the nodes' answers"
        if oldest is not None and oldest.node is not None:
            since = clock(time.monotonic() - oldest.started)
            note += f", {oldest.plan.title} for {since} on {oldest.node.name}"
        self._bar.update(self._finished, note, self._finished / max(total, 1))


def _answers(address: str) -> bool:
    """Return whether something listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    with suppress(OSError, ValueError), socket.create_connection((host.strip("[]"), int(port)), timeout=2.0):
        return True
    return False
