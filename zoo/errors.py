"""Errors for people: one sentence of thing, place and remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# An error may quote all that it was given.
_MOST = 4_000


class ZooError(Exception):
    """An expected failure; `exit_code` is the command's, `anywhere` says whether each machine has it."""

    exit_code, anywhere = 1, False

    def __init__(self, *parts: object) -> None:
        # A message may quote a file, a name or a library's error; their line breaks are replaced by blanks.
        super().__init__(*(_on_one_line(part) if isinstance(part, str) else part for part in parts))


def _on_one_line(text: str) -> str:
    lines = text.splitlines()
    return text if lines == [text] else " ".join(filter(None, map(str.strip, lines)))


class UsageError(ZooError):
    """A wrong request (unknown name, bad recipe); nothing was run."""

    exit_code, anywhere = 2, True


class MissingError(ZooError):
    """Absent data, weights or package; the message has the remedy."""


class CorruptError(ZooError):
    """A truncated, changed or malformed file."""


class ContractError(ZooError):
    """An encoder broke the contract (shape, dtype, order, finite values)."""

    anywhere = True


class TrainingError(ZooError):
    """Training cannot go on; the last good checkpoint is kept."""

    anywhere = True


class Interrupted(ZooError):
    """Stopped by a signal after saving; the same command resumes."""

    def __init__(self, message: str, signal_number: int = 2) -> None:
        super().__init__(message)
        self.signal_number = signal_number

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        return 128 + self.signal_number


def error_text(error: BaseException) -> str:
    """An error's text, cut to `_MOST`; with the class name unless a ZooError."""
    text = str(error) if isinstance(error, ZooError) else f"{type(error).__name__}: {error}"
    return text if len(text) <= _MOST else f"{text[:_MOST]} ..."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Hint " Did you mean 'x'?" for close names, else an empty text."""
    by_lower = {k.lower(): k for k in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=3, cutoff=0.6)
    if not close:
        return ""
    return " Did you mean " + " or ".join(repr(by_lower[c]) for c in close) + "?"
