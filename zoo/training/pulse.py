"""Processes that train together watch each other: one that is stopped ends the others with a sentence.

Each process has a thread that counts in the store at which the processes meet. It counts while the process computes,
evaluates or waits for the others, and does not where the process is stopped or its machine is gone: so a long
evaluation in one process ends nothing, and no collective operation needs a short time limit of its own.
"""

from __future__ import annotations

import atexit
import functools
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import NoReturn, Protocol

from torch import distributed

from zoo.errors import UsageError

TIMEOUT_VARIABLE = "ZOO_BENCH_RANK_TIMEOUT"
# Python's threads may wait while a large file is read or the machine swaps; a person should not wait much longer.
DEFAULT_TIMEOUT = 60.0
_TO_BEGIN = 10  # a process that has not begun to count is given this many times as long
_LEFT = 1 << 40  # added to the count of a process that ends


class _Store(Protocol):
    def add(self, key: str, amount: int) -> int: ...
    def set(self, key: str, value: str) -> object: ...
    def get(self, key: str) -> bytes: ...


def rank_timeout() -> float:
    """Return after how many seconds without a sign of life a process counts as stopped; raises UsageError."""
    text = os.environ.get(TIMEOUT_VARIABLE, "")
    try:
        seconds = float(text) if text else DEFAULT_TIMEOUT
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds < 1e6:
        raise UsageError(f"{TIMEOUT_VARIABLE} is {text!r}; it must be a number of seconds, at least 1.")
    return seconds


def have_a_place_to_meet() -> bool:
    """Whether torchrun holds the store, before any process has begun; otherwise rank 0 does, later."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


@functools.cache  # once for each process
def watch_other_ranks() -> None:
    """Start to count and to watch, where several processes meet at an address (torchrun, accelerate launch).

    A process that gives no sign of life for `rank_timeout()` seconds ends this one: one sentence, exit code 1. What the
    training has saved stays. Raises UsageError for a timeout that is no number.
    """
    seconds = rank_timeout()
    rank, ranks = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
    if ranks == 1 or "MASTER_PORT" not in os.environ:
        return
    address, port = os.environ.get("MASTER_ADDR", "localhost"), int(os.environ["MASTER_PORT"])
    client = distributed.TCPStore(address, port, is_master=False, timeout=timedelta(seconds=seconds))  # type: ignore[attr-defined]
    # A group of processes that torchrun starts again meets at the same store.
    store = distributed.PrefixStore(f"zoo-bench/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", client)  # type: ignore[attr-defined]
    pulse = Pulse(store, rank, ranks, seconds, _end)
    pulse.begin()
    atexit.register(pulse.leave)


def _end(sentence: str) -> NoReturn:
    # The main thread waits inside a collective operation, where no exception reaches it.
    if sentence:
        print(f"error: {sentence}", file=sys.stderr, flush=True)
    os._exit(1)


class Pulse:
    """Counts of one process among `ranks` in a store; `end` is called with a sentence, or "" where another says it."""

    def __init__(self, store: _Store, rank: int, ranks: int, seconds: float, end: Callable[[str], None]) -> None:
        self.store, self.rank, self.ranks, self.seconds, self.end = store, rank, ranks, seconds, end
        self.every = min(1.0, seconds / 10)
        self.others = [other for other in range(ranks) if other != rank]
        self.counts, self.silent = dict.fromkeys(self.others, 0), dict.fromkeys(self.others, 0)
        self.rounds = 0  # of talks with the store
        self.left = threading.Event()

    def begin(self) -> None:
        """Start the threads; they end with the process."""
        self.store.set(f"who/{self.rank}", f"{os.getpid()} on {socket.gethostname()}")
        for work in (self._talk, self._watch):
            threading.Thread(target=work, name="pulse", daemon=True).start()

    def leave(self) -> None:
        """Tell the others that this process ends of its own will."""
        self.left.set()
        try:
            self.store.add(f"count/{self.rank}", _LEFT)
        except RuntimeError:  # the store has gone before: nobody is left to be told
            return

    def _talk(self) -> None:
        """Count, and see who else did; silence is counted in own rounds, which a suspended machine does not make."""
        while not self.left.is_set():
            try:
                self.store.add(f"count/{self.rank}", 1)
                for other in self.others:
                    count = self.store.add(f"count/{other}", 0)
                    self.silent[other] = 0 if count != self.counts[other] else self.silent[other] + 1
                    self.counts[other] = count
                    patience = self.seconds if count else _TO_BEGIN * self.seconds
                    if count < _LEFT and self.silent[other] * self.every >= patience:
                        self._tell(other, patience)
            except RuntimeError:  # no answer: `_watch` sees that no round ends
                pass
            else:
                self.rounds += 1
            time.sleep(self.every)

    def _tell(self, other: int, patience: float) -> None:
        who = f" (process {self.store.get(f'who/{other}').decode()})" if self.counts[other] else ""
        first = self.store.add(f"told/{other}", 1) == 1
        sentence = (
            f"rank {other} of {self.ranks}{who} has given no sign of life for {patience:g} s: it is stopped, or its"
            " machine is. The others end, for they cannot train without it; what was saved is kept, and the same"
            f" command goes on from there. {TIMEOUT_VARIABLE} sets another number of seconds."
        )
        self.end(sentence if first else "")

    def _watch(self) -> None:
        """See that the store answers; the first of the processes may hold it."""
        seen, silent = 0, 0
        while not self.left.is_set():
            time.sleep(self.every)
            silent = 0 if self.rounds != seen else silent + 1
            seen = self.rounds
            if silent * self.every >= self.seconds + 2 and not self.left.is_set():
                self.end(
                    f"the place where the {self.ranks} processes met has not answered rank {self.rank} for"
                    f" {self.seconds:g} s: rank 0, or what started it, is stopped. This process ends; what was saved is"
                    " kept, and the same command goes on from there."
                )
