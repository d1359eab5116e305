"""Progress of long work: a bar on a terminal, elsewhere a line every few seconds, or nothing."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO


class Bar:
    """The progress of one task; `update` is cheap and may be called often."""

    def update(self, done: int, note: str = "") -> None:
        """Show that `done` of the total are finished."""


class Progress:
    """Where progress is shown; by default standard error, because standard output is for results."""

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        enabled: bool = True,
        seconds_between_lines: float = 10.0,
        speaker: str = "",
    ) -> None:
        self.stream = stream
        self.enabled = enabled
        self.seconds_between_lines = seconds_between_lines
        self.speaker = speaker

    @staticmethod
    def silent() -> Progress:
        """Return a Progress that shows nothing."""
        return Progress(enabled=False)

    def say(self, text: str) -> None:
        """Print one line."""
        if self.enabled:
            _show(self.speaker + text, self.stream or sys.stderr)

    @contextmanager
    def bar(self, what: str, total: int) -> Iterator[Bar]:
        """Show the progress of `what` over `total` items."""
        stream = self.stream or sys.stderr
        drawn = self.enabled and stream.isatty() and not self.speaker
        shown = _rich_bar(what, total, stream) if drawn else self.lines(what, total)
        with shown as bar:
            yield bar

    @contextmanager
    def lines(self, what: str, total: int) -> Iterator[Bar]:
        """Show progress as lines, on a terminal too."""
        stream = self.stream or sys.stderr
        yield _Lines(self.speaker + what, total, stream, self.seconds_between_lines) if self.enabled else Bar()


class _Lines(Bar):
    def __init__(self, what: str, total: int, stream: TextIO, seconds: float) -> None:
        self.what, self.total, self.stream, self.seconds = what, total, stream, seconds
        self.started = self.last = time.monotonic()
        self.first: int | None = None

    def update(self, done: int, note: str = "") -> None:
        now = time.monotonic()
        if self.first is None:
            self.first, self.started = done, now
        if now - self.last < self.seconds:
            return
        self.last = now
        rate = (done - self.first) / max(now - self.started, 1e-9)
        remaining = f", {clock((self.total - done) / rate)} left" if rate > 0 else ""
        _show(f"{self.what}: {done}/{self.total}{remaining}{', ' + note if note else ''}", self.stream)


def _show(text: str, stream: TextIO) -> None:
    # The reader has left, as `head` does: progress ends no run.
    with suppress(OSError):
        print_safe(text, stream)


@contextmanager
def _rich_bar(what: str, total: int, stream: TextIO) -> Iterator[Bar]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns: list[Any] = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    ]
    with RichProgress(*columns, console=Console(file=stream), transient=True) as rich_progress:
        task = rich_progress.add_task(_shown(what, stream), total=total, note="")

        class RichBar(Bar):
            def update(self, done: int, note: str = "") -> None:
                rich_progress.update(task, completed=done, note=_shown(note, stream))

        yield RichBar()


def _shown(text: str, stream: TextIO) -> str:
    from rich.markup import escape

    return escape(fit_to(text, stream))


def clock(seconds: float) -> str:
    """Return seconds as 1:02:03 or 4:05."""
    total_seconds = round(max(seconds, 0))
    hours, rest = divmod(total_seconds, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


_ASCII = str.maketrans(
    {"±": "+-", "–": "-", "—": "-", "→": "->", "×": "x", "…": "...", "≈": "~", "─": "-", "ρ": "rho", "⚠": "!"}
)


_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def without_orders(text: str) -> str:
    """Return text with its control characters shown as \\xNN, so that a terminal cannot act on escape sequences."""
    return _CONTROL_CHARACTERS.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def clean_line(text: str) -> str:
    """Return text on one line, without control characters: whatever its author wrote, it begins no other line."""
    return without_orders(" ".join(text.split()))


def fit_to(text: str, stream: TextIO) -> str:
    """Return `text` without control characters and with only characters that `stream` can print."""
    text = without_orders(text)
    encoding = getattr(stream, "encoding", None) or "ascii"
    try:
        text.encode(encoding)
        return text
    except (UnicodeEncodeError, LookupError):
        return text.translate(_ASCII).encode("ascii", "replace").decode("ascii")


def print_safe(text: str, stream: TextIO) -> None:
    """Print a line, also on a terminal that does not support UTF-8."""
    print(fit_to(text, stream), file=stream, flush=True)
