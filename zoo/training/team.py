"""The processes that torchrun or accelerate launch started: each alone by default, all together for a training."""

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

# What tells libraries that this process is one of several.
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
_POLL = 0.05  # seconds between two questions to the store
_GRACE = 8.0  # seconds in which all processes say how a training ended; the launcher kills 30 s after its signal
_LONGEST_TRAINING = timedelta(days=30)  # who is stopped is found out otherwise, see zoo.training.pulse


class LeftAloneError(Interrupted):
    """Another process of the group ended or failed alone; this one can only end too.

    Where several are left, `tell` is True in one of them.
    """

    exit_code = 1

    def __init__(self, message: str, *, tell: bool = True) -> None:
        super().__init__(message)
        self.tell = tell


@dataclass(frozen=True)
class Team:
    """This process and the others; `rank` 0 leads. Nothing but `train` joins them."""

    rank: int
    size: int
    local_rank: int  # among those of this machine
    variables: dict[str, str]

    @classmethod
    def found(cls) -> Team | None:
        """Return the team of this process, or None where it was started alone.

        The variables that tell so are taken out of the environment: until `train`, whatever counts processes counts
        one. Raises UsageError for a launcher that gives no address to meet at.
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
        """Whether the others can meet only as long as this process lives."""
        return self.leads and self.variables.get("TORCHELASTIC_USE_AGENT_STORE") != "True"

    @functools.cached_property
    def store(self) -> Any:
        """The key-value store at which the processes meet; torchrun holds it, or else rank 0."""
        from torch.distributed.distributed_c10d import PrefixStore
        from torch.distributed.rendezvous import rendezvous

        with self._shown():
            store, _, _ = next(rendezvous("env://"))
        # Processes that torchrun starts again find the same store.
        return PrefixStore(f"team/{self.variables.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)

    def say(self, key: str, text: str) -> None:
        """Put a text into the store; raises LeftAloneError where that has gone."""
        with self._store_there():
            self.store.set(key, text)

    def hear(self, key: str) -> str | None:
        """Return the text under a key, or None while nobody has put one; raises LeftAloneError as `say` does."""
        with self._store_there():
            return self.store.get(key).decode() if self.store.check([key]) else None

    @contextmanager
    def _store_there(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise LeftAloneError(
                f"process {self.rank} of {self.size}: the place where the processes met is gone, for the first of them"
                " or what started it has ended; what was saved is kept and the same command goes on from there."
            ) from error

    def wait(self, keys: dict[int, str], stop: Callable[[], int | None], seconds: float | None = None) -> set[int]:
        """Wait until each process has put something under its key; returns those that have not in time.

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
        """Call `fit` in all processes as one group and return what it gives; `number` is that of the training.

        What `fit` raises in every process is raised. Raises LeftAloneError where it failed in some of them only: the
        others then wait in vain, or have ended.
        """
        self.say(f"ready/{number}/{self.rank}", "")
        self.wait(self._keys("ready", number), stop)
        with self._shown():
            self._join(number, device)
            try:
                result = fit()
            except Exception as error:
                self.say(f"ended/{number}/{self.rank}", str(error))
                silent = self.wait(self._keys("ended", number), lambda: None, _GRACE)
                if not silent:
                    self._part()
                    raise
                who = " and ".join(map(str, sorted(silent)))
                raise LeftAloneError(
                    f"process {self.rank} of {self.size}: process {who} ended or is silent, and nothing is trained"
                    f" without it ({_told(error)}); what was saved is kept and the same command goes on from there.",
                    tell=self.rank == min(set(range(self.size)) - silent),
                ) from error
            self.say(f"ended/{number}/{self.rank}", "")
            self._part()
        return result

    def _keys(self, what: str, number: int) -> dict[int, str]:
        return {rank: f"{what}/{number}/{rank}" for rank in range(self.size)}

    def _join(self, number: int, device: str) -> None:
        """Form a process group of its own for a training: what an earlier one left cannot reach it."""
        from torch import distributed
        from torch.distributed.distributed_c10d import PrefixStore

        distributed.init_process_group(
            "nccl" if device.startswith("cuda") else "gloo",
            store=PrefixStore(f"training/{number}", self.store),
            rank=self.rank,
            world_size=self.size,
            timeout=_LONGEST_TRAINING,
        )

    def _part(self) -> None:
        from accelerate.state import AcceleratorState
        from torch import distributed

        distributed.destroy_process_group()
        AcceleratorState._reset_state(reset_partial_state=True)  # it remembers the group

    @contextmanager
    def _shown(self) -> Iterator[None]:
        os.environ.update(self.variables)
        try:
            yield
        finally:
            for name in self.variables:
                os.environ.pop(name, None)


def _told(error: BaseException) -> str:
    """Return an error's first sentence, without the place in a library's own source that some begin with."""
    first = re.sub(r"^\[[^]]*\]\s*", "", str(error)).partition(". ")[0].splitlines()
    return f"{type(error).__name__}: {first[0][:200]}" if first else type(error).__name__
