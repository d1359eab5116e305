"""Turns a call of `os._exit`, which ends a process without any message, into an ordinary error."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from zoo.errors import ContractError


class _Blocks(threading.local):
    depth = 0  # number of `told_exits` blocks that this thread is inside
    process = 0  # id of the process in which it entered them


_LEAVE = os._exit
_BLOCKS = _Blocks()


def _refuse(status: int) -> NoReturn:
    # Other threads, and a process that was forked inside the block, may call os._exit: that is not the block's code.
    if _BLOCKS.depth and _BLOCKS.process == os.getpid():
        raise ContractError(
            f"os._exit({status!r}) was called, which ends the whole process without a word; raise an error."
        )
    _LEAVE(status)


@contextmanager
def told_exits() -> Iterator[None]:
    """Make `os._exit` raise ContractError inside the block in this thread, also if it is imported there by name."""
    before = os._exit, _BLOCKS.depth, _BLOCKS.process
    _BLOCKS.depth, _BLOCKS.process = _BLOCKS.depth + 1, os.getpid()
    os._exit = _refuse
    try:
        yield
    finally:
        os._exit, _BLOCKS.depth, _BLOCKS.process = before
