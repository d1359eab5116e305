"""Signals: the first one asks a run to stop after the current batch, the second one ends the process."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from zoo.errors import Interrupted
from zoo.progress import print_safe


class Stop:
    """Whether SIGINT or SIGTERM has come; training, encoding and the runner ask after each batch."""

    def __init__(self, *, tell: bool = True, launched: bool = False) -> None:
        self.number: int | None = None
        self.asked = 0  # how often it was asked: an encoder that never asks is given few texts at a time
        self.tell = tell  # False: another process says that the signal was heard
        # One Ctrl-C reaches what torchrun launched twice: from the terminal, and from torchrun, which ends by force.
        self.launched = launched

    def __call__(self) -> int | None:
        self.asked += 1
        return self.number

    @contextmanager
    def listening(self) -> Iterator[Stop]:
        """Handle the signals inside the block, and say at once that the first one was heard."""

        def handle(number: int, _: object) -> None:
            self.number = number
            if self.launched:
                signal.signal(number, signal.SIG_IGN)
            else:
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            if self.tell:
                second = "" if self.launched else "; a second signal ends it at once"
                print_safe(f"zoo-bench: stopping after this batch{second}.", sys.stderr)

        before = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def check(self) -> None:
        """Raise Interrupted when a signal came."""
        if self.number is not None:
            raise Interrupted(f"stopped by signal {self.number}; the same command goes on from here.", self.number)
