"""Heartbeats of processes that train together: if one stops, the others end with an error message.

A thread in each process increases a counter in the key-value store that all processes use. It counts while the process
computes, evaluates or waits for the others; it stops if the process is stopped or its machine is lost. So a long
evaluation in one process ends no training, and collective operations need no short time limits.
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
# Seconds. Threads may be delayed while a large file is read or the machine swaps; users should not wait much longer.
DEFAULT_TIMEOUT = 60.0
_TO_BEGIN = 10  # a process that has not yet counted has this many times the timeout
_LEFT = 1 << 40  # added to the counter of a process that ends normally


class _Store(Protocol):
    def add(self, key: str, amount: int) -> int: ...
    def set(self, key: str, value: str) -> object: ...
    def get(self, key: str) -> bytes: ...


def rank_timeout() -> float:
    """Return the number of seconds without a heartbeat after which a process counts as stopped; raises UsageError."""
    text = os.environ.get(TIMEOUT_VARIABLE, "")
    try:
        seconds = float(text) if text else DEFAULT_TIMEOUT
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds < 1e6:
        raise UsageError(f"{TIMEOUT_VARIABLE} is {text!r}; it must be a number of seconds, at least 1.")
    return seconds


def have_a_place_to_meet() -> bool:
    """Return whether torchrun holds the store, which then exists before any process; otherwise rank 0 creates it."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


@functools.cache  # once for each process
def watch_other_ranks() -> None:
    """Start this process's heartbeat and watch the others, if torchrun or accelerate launch started several processes.

    If another process has no heartbeat for `rank_timeout()` seconds, this one prints an error and exits with code 1;
    saved checkpoints stay. Raises UsageError for a timeout that is not a number.
    """
    seconds = rank_timeout()
    rank, ranks = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
    if ranks == 1 or "MASTER_PORT" not in os.environ:
        return
    address, port = os.environ.get("MASTER_ADDR", "localhost"), int(os.environ["MASTER_PORT"])
    client = distributed.TCPStore(address, port, is_master=False, timeout=timedelta(seconds=seconds))  # type: ignore[attr-defined]
    # Processes that torchrun restarts use the same store; the prefix separates them from those before.
    store = distributed.PrefixStore(f"zoo-bench/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", client)  # type: ignore[attr-defined]
    pulse = Pulse(store, rank, ranks, seconds, _end)
    pulse.begin()
    atexit.register(pulse.leave)


def _end(sentence: str) -> NoReturn:
    # An exception would not reach the main thread, which waits inside a collective operation.
    if sentence:
        print(f"error: {sentence}", file=sys.stderr, flush=True)
    os._exit(1)


class Pulse:
    """The heartbeat of one of `ranks` processes; `end` gets the error message, or "" if another process prints it."""

    def __init__(self, store: _Store, rank: int, ranks: int, seconds: float, end: Callable[[str], None]) -> None:
        self.store, self.rank, self.ranks, self.seconds, self.end = store, rank, ranks, seconds, end
        self.every = min(1.0, seconds / 10)
        self.others = [other for other in range(ranks) if other != rank]
        self.counts, self.silent = dict.fromkeys(self.others, 0), dict.fromkeys(self.others, 0)
        self.rounds = 0  # finished exchanges with the store
        self.left = threading.Event()

    def begin(self) -> None:
        """Start the threads; they end with the process."""
        self.store.set(f"who/{self.rank}", f"{os.getpid()} on {socket.gethostname()}")
        for work in (self._talk, self._watch):
            threading.Thread(target=work, name="pulse", daemon=True).start()

    def leave(self) -> None:
        """Tell the others that this process ends normally."""
        self.left.set()
        try:
            self.store.add(f"count/{self.rank}", _LEFT)
        except RuntimeError:  # the store has ended already, and with it the others
            return

    def _talk(self) -> None:
        """Count, and check the others' counters; silence counts own rounds, none of which pass in suspension."""
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
            except RuntimeError:  # no answer: `_watch` notices that rounds no longer increase
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
        """End this process if the store, which rank 0 may hold, does not answer."""
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
