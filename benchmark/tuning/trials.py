"""The trials of a study: a folder with a signed file for each that has ended.

`001.json` is the first. `001.begun` says which process works at a trial, so that another one takes the next; it is no
lock: at worst two processes make one trial, and the first file stays.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from zoo.errors import CorruptError
from zoo.files import read_json, read_signed, well_formed, write_signed

State = Literal["complete", "pruned", "failed"]


@dataclass(frozen=True)
class Trial:
    """One trial that has ended."""

    number: int
    values: Mapping[str, Any]
    state: State
    # Of a pruned trial its last look's, x100; the looks are at equal parts of the training.
    score: float | None = None
    looks: list[float] = field(default_factory=list)
    reason: str = ""
    # Digest of the code that trained and scored it; older files state none.
    code: str | None = None


class Trials:
    """The files of one study; `study` is the sha256 of what its trials share, which each file repeats.

    `code` is the digest of the code that makes new trials.
    """

    def __init__(self, folder: Path, study: str, say: Callable[[str], None], code: str | None = None) -> None:
        self.folder, self.study, self.say, self.code = folder, study, say, code
        folder.mkdir(parents=True, exist_ok=True)

    def read(self) -> list[Trial]:
        """Return the trials that have ended, in order; raises CorruptError for a file that is not what was written."""
        return sorted(map(self._read, self.folder.glob("*.json")), key=lambda trial: trial.number)

    def _read(self, path: Path) -> Trial:
        remedy = "Delete it: the same command makes this trial again."
        try:
            content = read_signed(path)
            study = content.pop("study", None)
            with well_formed(path):
                trial = Trial(**content)
        except CorruptError as error:
            raise CorruptError(f"{error} {remedy}") from error
        if study != self.study or path.name != self._name(trial.number):
            raise CorruptError(f"{path} is a trial of another study or number. {remedy}")
        return trial

    def write(self, trial: Trial) -> None:
        """Write a trial, unless another process has written it first."""
        path = self.folder / self._name(trial.number)
        if not path.exists():
            write_signed(path, {"study": self.study, **asdict(trial)})

    def begin(self, budget: int) -> int | None:
        """Return the first trial up to `budget` that is neither ended nor begun by a living process, and begin it."""
        for number in range(1, budget + 1):
            path = self.folder / self._name(number, "begun")
            if (self.folder / self._name(number)).exists() or self._is_begun(path):
                continue
            # Of a process that was killed.
            path.unlink(missing_ok=True)
            try:
                with path.open("x", encoding="utf-8") as file:
                    json.dump({"host": platform.node(), "process": os.getpid()}, file)
            except FileExistsError:
                # Begun in this instant.
                continue
            return number
        return None

    def leave(self, number: int) -> None:
        """Give a trial back that was begun."""
        (self.folder / self._name(number, "begun")).unlink(missing_ok=True)

    def _is_begun(self, path: Path) -> bool:
        """Return whether another process works at a trial; a line names one of another machine."""
        if not path.exists():
            return False
        try:
            owner = read_json(path)
            host, process = owner["host"], int(owner["process"])
        except (CorruptError, KeyError, TypeError):
            # Begun in this instant, or cut off.
            return False
        if host != platform.node():
            self.say(f"{path} is of process {process} on {host}; delete it if that process has ended.")
            return True
        return process != os.getpid() and _is_alive(process)

    @staticmethod
    def _name(number: int, ending: str = "json") -> str:
        return f"{number:03d}.{ending}"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # Of another user.
        return True
    return True
