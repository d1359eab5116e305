"""A call of `os._exit` ends a process without a word: inside `told_exits` it is an error like any other."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from zoo.errors import ContractError


class _Blocks(threading.local):
    depth = 0  # blocks that this thread is in
    process = 0  # that they were entered in


_LEAVE = os._exit
_BLOCKS = _Blocks()


def _refuse(status: int) -> NoReturn:
    # Another thread, and a process that was forked inside the block, may leave: nobody else's work ends with them.
    if _BLOCKS.depth and _BLOCKS.process == os.getpid():
        raise ContractError(
            f"os._exit({status!r}) was called, which ends the whole process without a word; raise an error."
        )
    _LEAVE(status)


@contextmanager
def told_exits() -> Iterator[None]:
    """Make `os._exit` raise ContractError in this thread inside the block, also where its name is imported there."""
    before = os._exit, _BLOCKS.depth, _BLOCKS.process
    _BLOCKS.depth, _BLOCKS.process = _BLOCKS.depth + 1, os.getpid()
    os._exit = _refuse
    try:
        yield
    finally:
        os._exit, _BLOCKS.depth, _BLOCKS.process = before
