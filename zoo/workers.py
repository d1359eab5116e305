"""Worker processes end with the process that started them, also where that was killed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from multiprocessing.connection import wait

# For a training to write its checkpoint, once the command is gone.
_SECONDS = 60.0
_IDLE = threading.Event()
_IDLE.set()


def end_with_parent() -> None:
    """End this worker when its parent has ended: idle at once, else after its task, at the latest after a minute."""
    if parent := parent_process():
        threading.Thread(target=_watch, args=(parent.sentinel,), daemon=True).start()


def _watch(parent: int) -> None:
    wait([parent])
    _IDLE.wait(_SECONDS)
    # The pool's own threads wait for a task that nobody sends.
    os._exit(1)


@contextmanager
def task() -> Iterator[None]:
    """Mark a block as a task that is ended before the worker."""
    _IDLE.clear()
    try:
        yield
    finally:
        _IDLE.set()
