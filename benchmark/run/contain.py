"""Restores what a method changed in its process, so that the next methods find the process unchanged."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from zoo.exits import told_exits


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
    strict, warned = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
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
        torch.use_deterministic_algorithms(strict, warn_only=warned)


def _is_default(number: int) -> bool:
    # After a first signal the run itself installs the default handler, so that a second signal ends the process.
    return signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)
