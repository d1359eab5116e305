"""What workers and the command tell each other: progress, checkpoints of trainings, and files to go on from."""

from __future__ import annotations

import asyncio
import importlib
import io
import re
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, NamedTuple, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from zoo.errors import MissingError
from zoo.progress import Bar, Progress

_OF_RAY = re.compile(r"(?:\x1b\[\d+m)*\(raylet[^)]*\)(?:\x1b\[\d+m)* (.*)")
_MESSAGE_WIDTH = 240  # characters of a message of Ray that are shown; it may end with pages of Ray's own log

_SECONDS = 2.0  # seconds between two messages about a bar
_STALE = 30.0  # seconds after which a state is outdated, for example because its worker was lost


Files = dict[str, NDArray[np.uint8]]
"""The bytes of files by their paths in a results folder."""


class News(NamedTuple):
    """What workers have told since the last reading; the keys are those of encoders."""

    lines: list[str]
    states: dict[str, str]  # only recent ones
    saved: dict[str, Files]  # the last checkpoint of a training, with all files that it needs
    wanted: list[str]  # encoders whose files a worker waits for


def ray_library() -> Any:
    """Return the module `ray`; raises MissingError without the extra."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise MissingError("--executor ray needs the extra: pip install 'zoo-bench[ray]'.") from error


class Board:
    """A Ray actor: what workers have told since the last reading, and the files that the command gives to them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.states: dict[str, tuple[str, float]] = {}
        self.saved: dict[str, Files] = {}
        self.wanted: list[str] = []
        self.given: dict[str, asyncio.Future[Files]] = {}

    def say(self, line: str) -> None:
        """Add a line."""
        self.lines.append(line)

    def at(self, key: str, state: str) -> None:
        """Set the state of an encoder."""
        self.states[key] = state, time.monotonic()

    def save(self, key: str, files: Files) -> None:
        """Keep the files of an encoder's last checkpoint until the command takes them."""
        self.saved[key] = files

    async def ask(self, key: str) -> Files:
        """Return the files that the command has of an encoder, once it has given them."""
        self.given[key] = asyncio.get_running_loop().create_future()
        self.wanted.append(key)
        return await self.given[key]

    def give(self, key: str, files: Files) -> None:
        """Answer a worker that asks for the files of an encoder."""
        answer = self.given.pop(key, None)
        if answer is not None and not answer.done():
            answer.set_result(files)

    def take(self) -> News:
        """Return what was told since the last call."""
        now = time.monotonic()
        states = {key: state for key, (state, at) in self.states.items() if now - at < _STALE}
        news = News(self.lines, states, self.saved, self.wanted)
        self.lines, self.saved, self.wanted = [], {}, []
        return news


class BoardProgress(Progress):
    """Progress of one encoder, written to a board (a Ray actor's handle); bars become states there."""

    def __init__(self, board: Any, key: str, before: str) -> None:
        super().__init__()
        self.board, self.key, self.before = board, key, before

    def say(self, text: str) -> None:
        """Tell one line."""
        self.board.say.remote(self.before + text)

    @contextmanager
    def bar(self, what: str, total: int) -> Iterator[Bar]:
        """Yield a bar that updates the board at most every `_SECONDS`."""
        yield _State(self.board, self.key, what, total)


class _State(Bar):
    def __init__(self, board: Any, key: str, what: str, total: int) -> None:
        self.board, self.key, self.what, self.total = board, key, what, total
        self.last = 0.0

    def update(self, done: int, note: str = "") -> None:
        """Show that `done` of the total are finished."""
        now = time.monotonic()
        if now - self.last >= _SECONDS:
            self.last = now
            self.board.at.remote(self.key, f"{self.what} {done}/{self.total}{', ' + note if note else ''}")


@contextmanager
def ray_messages(progress: Progress) -> Iterator[None]:
    """Say the first line of each message that Ray prints about lost workers and machines.

    Ray prints them to the standard output, which is for results: `--json` prints a document there.
    """
    with redirect_stdout(cast("TextIO", _Messages(progress, sys.stdout))):
        yield


class _Messages(io.TextIOBase):
    """Passes on what is printed; messages of Ray are shortened and go to the progress."""

    def __init__(self, progress: Progress, other: TextIO) -> None:
        self.progress, self.other = progress, other
        self.ended = False  # whether the last text was a message, whose line end comes on its own

    def write(self, text: str) -> int:
        message = _OF_RAY.match(text)
        if message:
            self.progress.say("Ray: " + textwrap.shorten(message[1], _MESSAGE_WIDTH, placeholder=" ..."))
        elif not (self.ended and text == "\n"):
            self.other.write(text)
        self.ended = message is not None
        return len(text)

    def flush(self) -> None:
        self.other.flush()
