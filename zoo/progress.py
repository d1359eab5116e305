"""Progress of long work: a live line on a terminal, elsewhere a line soon and then each minute, or nothing."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.live import Live

T = TypeVar("T")
# Between two states of a live line.
_SECONDS_LIVE = 0.2
# From the line before to the first of a task in a log: a reader then knows that something goes on.
_SECONDS_FIRST = 15.0


class Bar:
    def update(self, done: int, note: str = "", share: float | None = None) -> None:
        """Show `done` items; `share` of the work, if items differ in size."""


class Progress:
    """Progress on standard error: a terminal has a live line; elsewhere long work has a line a minute."""

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        enabled: bool = True,
        seconds_between_lines: float = 60.0,
        speaker: str = "",
    ) -> None:
        self.stream = stream
        self.enabled = enabled
        self.seconds_between_lines = seconds_between_lines
        self.speaker = speaker
        self._now = ""
        self._line: Live | None = None
        self._shown = time.monotonic()

    @staticmethod
    def silent() -> Progress:
        return Progress(enabled=False)

    def say(self, text: str) -> None:
        if self.enabled:
            self._draw("")
            self._show(self.speaker + text)
            self._draw(self._now)

    def now(self, text: str) -> None:
        """Show the present work: a live line ("" ends it), elsewhere a line; among several speakers a prefix."""
        if self.enabled and text and not self._live and not self.speaker:
            self._show(text)
        self._now = text
        self._draw(text)

    @contextmanager
    def bar(self, what: str, total: int) -> Iterator[Bar]:
        if not self.enabled:
            yield Bar()
        elif self._live:
            try:
                yield _Counted(what, total, _SECONDS_LIVE, lambda text: self._draw(_joined(self._now, text)))
            finally:
                self._draw(self._now)
        else:
            before = self.speaker + (f"{self._now}: " if self._now and self.speaker else "")
            seconds = self.seconds_between_lines
            soon = min(max(self._shown + _SECONDS_FIRST - time.monotonic(), 0.0), seconds)
            yield _Counted(before + what, total, seconds, self._show, soon)

    def chunks(self, what: str, items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
        """Yield `size` items after the other, and show how far that is."""
        with self.bar(what, len(items)) as bar:
            for start in range(0, len(items), size):
                bar.update(start)
                yield items[start : start + size]

    def _show(self, text: str) -> None:
        # The reader has left, as `head` does: progress ends no run.
        with suppress(OSError):
            print_safe(text, self._out)
        self._shown = time.monotonic()

    @property
    def _out(self) -> TextIO:
        return self.stream or sys.stderr

    @property
    def _live(self) -> bool:
        return self._out.isatty() and not self.speaker

    def _draw(self, text: str) -> None:
        if not self.enabled or not self._live or not (text or self._line):
            return
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        # The reader has left, as `head` does: progress ends no run.
        with suppress(OSError):
            if not text and self._line is not None:
                self._line.stop()
                self._line = None
                return
            if self._line is None:
                self._line = Live(
                    console=Console(file=self._out, legacy_windows=False, color_system=None),
                    auto_refresh=False,
                    transient=True,
                    redirect_stdout=False,
                    redirect_stderr=False,
                )
                self._line.start()
            shown = Text(fit_to(clean_line(text), self._out), no_wrap=True, overflow="crop")
            self._line.update(shown, refresh=True)


class _Counted(Bar):
    def __init__(
        self, what: str, total: int, seconds: float, show: Callable[[str], None], soon: float | None = None
    ) -> None:
        self.what, self.total, self.show, self.seconds = what, total, show, seconds
        self.started = time.monotonic()
        self.due = self.started + (seconds if soon is None else soon)
        self.first: float | None = None

    def update(self, done: int, note: str = "", share: float | None = None) -> None:
        now = time.monotonic()
        share = done / max(self.total, 1) if share is None else share
        if self.first is None:
            self.first, self.started = share, now
        if now < self.due:
            return
        self.due = now + self.seconds
        rate = (share - self.first) / max(now - self.started, 1e-9)
        remaining = f", {clock((1 - share) / rate)} left" if rate > 0 else ""
        self.show(f"{self.what}: {done}/{self.total}{remaining}{', ' + note if note else ''}")


def _joined(now: str, text: str) -> str:
    return f"{now}; {text}" if now else text


def counted(number: int, noun: str) -> str:
    """Return "1 cell", "2 cells"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def clock(seconds: float) -> str:
    total_seconds = round(max(seconds, 0))
    hours, rest = divmod(total_seconds, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


_ASCII = str.maketrans(
    {"±": "+-", "–": "-", "—": "-", "→": "->", "×": "x", "…": "...", "≈": "~", "─": "-", "ρ": "rho", "⚠": "!"}
)


_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def without_orders(text: str) -> str:
    r"""Text with control characters as \xNN: no escape sequence acts on a terminal."""
    return _CONTROL_CHARACTERS.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def clean_line(text: str) -> str:
    """Text on one line, without control characters: it can begin no other line."""
    return without_orders(" ".join(text.split()))


def fit_to(text: str, stream: TextIO) -> str:
    text = without_orders(text)
    encoding = getattr(stream, "encoding", None) or "ascii"
    try:
        text.encode(encoding)
        return text
    except (UnicodeEncodeError, LookupError):
        return text.translate(_ASCII).encode("ascii", "replace").decode("ascii")


def print_safe(text: str, stream: TextIO) -> None:
    print(fit_to(text, stream), file=stream, flush=True)
