"""Executors: where the encoders of a plan are trained and measured, for the command and for `evaluate` alike.

Built in are this process (`here`), processes of this machine (`processes`: --workers N) and a Ray cluster (`ray`). A
package's entry point in the group `zoo_bench.executors`, or a plugin file, adds another one,
which `--executor NAME` takes. `--shard I/N` gives any of them a part of the plan. Imports no torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.run.options import RunOptions
from zoo.errors import UsageError, did_you_mean
from zoo.progress import Progress
from zoo.registry import METHODS, Registered, Registry, load_plugin_file

if TYPE_CHECKING:
    from benchmark.run.prepare import Inputs, Prepared
    from benchmark.run.runner import Outcome


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run: its options, the command that records state, plugin files, and encoders that were given."""

    options: RunOptions
    command: tuple[str, ...] = ()
    plugins: tuple[Path, ...] = ()
    progress: Progress | None = None  # None: standard error
    given: tuple[tuple[str | None, object], ...] | None = None  # encoders that replace the methods, with their names
    version: str | None = None  # of the encoders that are objects

    def prepare(
        self,
        options: RunOptions | None = None,
        *,
        write: bool = True,
        only: str | None = None,
        inputs: Inputs | None = None,
    ) -> Prepared:
        """Return the plan of the job, of the job with other options, or of the row `only`, as `prepare` does."""
        from benchmark.run.prepare import prepare

        return prepare(
            options or self.options,
            write=write,
            given=self.given,
            version=self.version,
            progress=self.progress,
            only=only,
            inputs=inputs,
        )


class Executor(ABC):
    """One way to carry out a run. An executor made by `--executor NAME://ADDRESS` is given the address."""

    takes_objects = False  # whether it runs in this very process, so that an object can be given

    def __init__(self, address: str | None = None) -> None:
        if address is not None:
            raise UsageError(f"--executor: {type(self).__name__} takes no address; leave out ://{address}.")

    @abstractmethod
    def run(self, job: Job) -> tuple[Prepared, Outcome]:
        """Train and measure every unfinished cell of the job's plan; a failed cell is recorded, and the run goes on.

        Raises UsageError for options that it cannot follow, and Interrupted after a signal, once everything is saved.
        """


_BUILTIN = {"here": "here:Here", "processes": "workers:Processes", "ray": "cluster:Ray"}
EXECUTORS: Registry[type[Executor]] = Registry(
    "executor",
    base="benchmark.run.executors:Executor",
    group="zoo_bench.executors",
    builtin=lambda: {name: Registered(f"{__name__}.{target}", __name__) for name, target in _BUILTIN.items()},
)


def executor_of(options: RunOptions) -> Executor:
    """Return the executor that options name; raises UsageError for an unknown name."""
    chosen = options.executor or ("processes" if options.workers > 1 else "here")
    name, sign, address = chosen.partition("://")
    if name not in EXECUTORS:
        known = f"Known: {', '.join(EXECUTORS.names())}; packages and --plugin add others."
        raise UsageError(
            f"--executor {chosen}: there is none of this name.{did_you_mean(name, EXECUTORS.names())} {known}"
        )
    return EXECUTORS.get(name)(address if sign else None)


def load_plugins(paths: Sequence[Path]) -> dict[Path, str]:
    """Run plugin files, which register methods, tasks and executors; returns the broken ones with the reason."""
    from benchmark.tasks import TASKS

    found = {path: load_plugin_file(path, [METHODS, TASKS, EXECUTORS]) for path in paths}
    return {path: reason for path, reason in found.items() if reason is not None}
