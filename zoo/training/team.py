"""Processes that torchrun or accelerate launch started: they work separately, and join only for a training."""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from zoo.errors import Interrupted, UsageError

T = TypeVar("T")

# The environment variables by which libraries know that this process is one of several.
_VARIABLES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_RESTART_COUNT",
)
_POLL = 0.05  # seconds between two requests to the store
_GRACE = 8.0  # seconds for all processes to report how a training ended; the launcher kills 30 s after its signal
_LONGEST_TRAINING = timedelta(days=30)  # stopped processes are noticed by zoo.training.pulse


class LeftAloneError(Interrupted):
    """Another process of the group ended or failed, so this one has to end too.

    If several processes are left, `tell` is True in only one of them, which prints the message.
    """

    exit_code = 1

    def __init__(self, message: str, *, tell: bool = True) -> None:
        super().__init__(message)
        self.tell = tell


@dataclass(frozen=True)
class Team:
    """This process and the others of its launcher; rank 0 leads. They join only in `train`."""

    rank: int
    size: int
    local_rank: int  # among the processes of this machine
    variables: dict[str, str]

    @classmethod
    def found(cls) -> Team | None:
        """Return the team of this process, or None if it was started alone.

        The launcher's variables are removed from the environment, so that libraries see a single process until `train`.
        Raises UsageError if the launcher gives no address.
        """
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return None
        variables = {name: os.environ.pop(name) for name in _VARIABLES if name in os.environ}
        if not {"RANK", "MASTER_ADDR", "MASTER_PORT"} <= variables.keys():
            raise UsageError(
                "WORLD_SIZE says that several processes were started, but RANK, MASTER_ADDR or MASTER_PORT is missing;"
                " start them with torchrun or accelerate launch."
            )
        rank = int(variables["RANK"])
        return cls(rank, size, int(variables.get("LOCAL_RANK", rank)), variables)

    @property
    def leads(self) -> bool:
        """Whether this is the process that plans, measures and writes."""
        return self.rank == 0

    @property
    def holds_store(self) -> bool:
        """Whether this process holds the store, so that the others need it alive."""
        return self.leads and self.variables.get("TORCHELASTIC_USE_AGENT_STORE") != "True"

    @functools.cached_property
    def store(self) -> Any:
        """The key-value store of all processes; torchrun holds it, or else rank 0."""
        from torch.distributed.distributed_c10d import PrefixStore
        from torch.distributed.rendezvous import rendezvous

        with self._variables_set():
            store, _, _ = next(rendezvous("env://"))
        # Processes that torchrun restarts use the same store; the prefix separates them from those before.
        return PrefixStore(f"team/{self.variables.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)

    def say(self, key: str, text: str) -> None:
        """Write a text to the store; raises LeftAloneError if the store has ended."""
        with self._store_errors():
            self.store.set(key, text)

    def hear(self, key: str) -> str | None:
        """Return the text under a key, or None if there is none yet; raises LeftAloneError as `say` does."""
        with self._store_errors():
            return self.store.get(key).decode() if self.store.check([key]) else None

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise LeftAloneError(
                f"process {self.rank} of {self.size}: the place where the processes met is gone, for the first of them"
                " or what started it has ended; what was saved is kept and the same command goes on from there."
            ) from error

    def wait(self, keys: dict[int, str], stop: Callable[[], int | None], seconds: float | None = None) -> set[int]:
        """Wait until each process has written its key; return the processes that have not done so in time.

        Raises Interrupted after a signal.
        """
        until = None if seconds is None else time.monotonic() + seconds
        left = set(keys)
        while left := {rank for rank in left if self.hear(keys[rank]) is None}:
            number = stop()
            if number is not None:
                raise Interrupted(f"stopped by signal {number}; the same command goes on from here.", number)
            if until is not None and time.monotonic() > until:
                break
            time.sleep(_POLL)
        return left

    def train(self, number: int, device: str, stop: Callable[[], int | None], fit: Callable[[], T]) -> T:
        """Call `fit` in all processes as one process group and return its result; `number` is the training's number.

        An error of `fit` in every process is raised. If it failed in only some of them, LeftAloneError is raised,
        because the others are waiting or have ended.
        """
        self.say(f"ready/{number}/{self.rank}", "")
        self.wait(self._keys("ready", number), stop)
        with self._variables_set():
            self._join_group(number, device)
            try:
                result = fit()
            except Exception as error:
                self.say(f"ended/{number}/{self.rank}", str(error))
                silent = self.wait(self._keys("ended", number), lambda: None, _GRACE)
                if not silent:
                    self._leave_group()
                    raise
                who = " and ".join(map(str, sorted(silent)))
                raise LeftAloneError(
                    f"process {self.rank} of {self.size}: process {who} ended or is silent, and nothing is trained"
                    f" without it ({_brief(error)}); what was saved is kept and the same command goes on from there.",
                    tell=self.rank == min(set(range(self.size)) - silent),
                ) from error
            self.say(f"ended/{number}/{self.rank}", "")
            self._leave_group()
        return result

    def _keys(self, what: str, number: int) -> dict[int, str]:
        return {rank: f"{what}/{number}/{rank}" for rank in range(self.size)}

    def _join_group(self, number: int, device: str) -> None:
        """Create a process group for this training only, so that nothing of an earlier one can interfere."""
        from torch import distributed
        from torch.distributed.distributed_c10d import PrefixStore

        distributed.init_process_group(
            "nccl" if device.startswith("cuda") else "gloo",
            store=PrefixStore(f"training/{number}", self.store),
            rank=self.rank,
            world_size=self.size,
            timeout=_LONGEST_TRAINING,
        )

    def _leave_group(self) -> None:
        from accelerate.state import AcceleratorState
        from torch import distributed

        distributed.destroy_process_group()
        AcceleratorState._reset_state(reset_partial_state=True)  # accelerate would still hold the group

    @contextmanager
    def _variables_set(self) -> Iterator[None]:
        os.environ.update(self.variables)
        try:
            yield
        finally:
            for name in self.variables:
                os.environ.pop(name, None)


def _brief(error: BaseException) -> str:
    """Return an error's first sentence, without the source location in brackets that some errors begin with."""
    first = re.sub(r"^\[[^]]*\]\s*", "", str(error)).partition(". ")[0].splitlines()
    return f"{type(error).__name__}: {first[0][:200]}" if first else type(error).__name__
