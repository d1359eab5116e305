"""Signals, of which the first asks a run to stop after the current batch."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any

from zoo.encoder import Encoder, Runtime
from zoo.encoding import runtimes_changed
from zoo.errors import Interrupted
from zoo.progress import print_safe

SIGNALS = [signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Ctrl-C, the end that a cluster announces, and a terminal that closes (Windows has no such signal)."""


class Stop:
    """Records whether one of SIGNALS has arrived; training, encoding and the runner check it after each batch."""

    def __init__(self, *, tell: bool = True) -> None:
        self.number: int | None = None
        # An encoder that never checks is given few texts at a time.
        self.asked = 0
        # False: another process prints that the signal arrived.
        self.tell = tell

    def __call__(self) -> int | None:
        self.asked += 1
        return self.number

    @contextmanager
    def listening(self) -> Iterator[Stop]:
        """Handle the signals inside the block, in the main thread alone, and print a line at the first."""

        def handle(number: int, _: object) -> None:
            self.number = number
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            if self.tell:
                # The terminal has closed.
                with suppress(OSError):
                    print_safe("zoo-bench: stopping after this batch; a second signal ends it at once.", sys.stderr)

        main = threading.current_thread() is threading.main_thread()
        # What is ignored stays so, as `nohup` wants it.
        handled = [n for n in SIGNALS if main and signal.getsignal(n) is not signal.SIG_IGN]
        before = {n: signal.signal(n, handle) for n in handled}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def check(self) -> None:
        if self.number is not None:
            raise Interrupted(f"stopped by signal {self.number}; the same command goes on from here.", self.number)


class OfParent(Stop):
    """The signals of a worker process are those of the command that started it; it also stops when that has died."""

    def __init__(self, stopped: Any) -> None:
        super().__init__(tell=False)
        self.stopped, self.parent = stopped, os.getppid()

    def __call__(self) -> int | None:
        if self.stopped.is_set() or os.getppid() != self.parent:
            self.number = signal.SIGTERM
        return super().__call__()

    def check(self) -> None:
        self()
        super().check()


def ignore_terminal() -> None:
    """Ignore the signals that a terminal sends to each of its processes: the first of them stops the others."""
    for number in SIGNALS:
        if number != signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)


def start_tracker() -> None:
    """Start multiprocessing's tracker of resources, whose end with a closed terminal would be told at length."""
    # In another thread, or on Windows, signals cannot be handled.
    with suppress(ValueError, AttributeError):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        resource_tracker.ensure_running()
        signal.signal(signal.SIGHUP, before)


@contextmanager
def listening(encoder: Encoder | None, stop: Callable[[], int | None]) -> Iterator[None]:
    """Let an object, and the encoders that it contains, check for this run's signals too inside the block.

    Whether an encoder checks for signals decides about texts per call, and so about last digits of vectors.
    """

    def both(runtime: Runtime) -> Runtime:
        return dataclasses.replace(runtime, stop_signal=lambda: stop() or runtime.stop_signal())

    if encoder is None:
        yield
    else:
        with runtimes_changed(encoder, both):
            yield
