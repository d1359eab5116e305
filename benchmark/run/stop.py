"""Signals, of which the first asks a run to stop after the current batch, and what a method changes in its process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from zoo.errors import Interrupted
from zoo.exits import told_exits
from zoo.progress import print_safe


class Stop:
    """Records whether SIGINT or SIGTERM has arrived; training, encoding and the runner check it after each batch."""

    def __init__(self, *, tell: bool = True) -> None:
        self.number: int | None = None
        self.asked = 0  # the number of checks: an encoder that never checks is given few texts at a time
        self.tell = tell  # False: another process prints that the signal arrived

    def __call__(self) -> int | None:
        self.asked += 1
        return self.number

    @contextmanager
    def listening(self) -> Iterator[Stop]:
        """Handle the signals inside the block, and print a line as soon as the first one arrives.

        Python gives signals to the main thread alone: in any other one the block is the same without them.
        """

        def handle(number: int, _: object) -> None:
            self.number = number
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            if self.tell:
                print_safe("zoo-bench: stopping after this batch; a second signal ends it at once.", sys.stderr)

        handled = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        before = {n: signal.signal(n, handle) for n in handled}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def check(self) -> None:
        """Raise Interrupted if a signal has arrived."""
        if self.number is not None:
            raise Interrupted(f"stopped by signal {self.number}; the same command goes on from here.", self.number)


@contextmanager
def contained() -> Iterator[None]:
    """Restore, after the block, the working folder, streams, signal handlers, and the settings of numpy and torch.

    Inside the block, `os._exit` raises ContractError.
    """
    import numpy as np
    import torch

    folder, streams, deepest = Path.cwd(), (sys.stdout, sys.stderr), sys.getrecursionlimit()
    main = threading.current_thread() is threading.main_thread()  # no other thread can change a handler
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM) if main}
    errors, variables = np.geterr(), dict(os.environ)
    dtype, gradients, threads = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads()
    strict = _deterministic()
    try:
        with told_exits():
            yield
    finally:
        sys.stdout, sys.stderr = streams
        sys.setrecursionlimit(deepest)
        with suppress(OSError):  # the folder no longer exists
            os.chdir(folder)
        for number, handler in handlers.items():
            if signal.getsignal(number) is not handler and not _is_default(number):
                signal.signal(number, handler)
        np.seterr(**errors)
        if dict(os.environ) != variables:
            os.environ.clear()
            os.environ.update(variables)
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(gradients)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if _deterministic() != strict:  # else PyTorch would import its compiler, which takes a second and 100 MB
            torch.use_deterministic_algorithms(strict[0], warn_only=strict[1])


def _deterministic() -> tuple[bool, bool]:
    import torch

    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _is_default(number: int) -> bool:
    # After a first signal the run itself installs the default handler, so that a second signal ends the process.
    return signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)
