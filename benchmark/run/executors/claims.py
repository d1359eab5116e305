"""Divides encoders among processes: a process claims one by making a file, which only one process can do."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoo.errors import MissingError
from zoo.files import read_json, write_json


@dataclass
class Claims:
    """A folder that the workers of one run share, as one of them uses it; it is deleted after the run."""

    folder: Path
    owner: int  # the number of the worker
    finished: list[str] = field(default_factory=list)  # keys of the encoders that it has finished

    def take(self, key: str) -> bool:
        """Claim an encoder; returns whether nobody has claimed it before."""
        own = self.folder / f"owner-{self.owner}"
        own.write_text(str(self.owner))
        try:
            os.link(own, self._claim(key))  # at once with its owner's number, wherever this process is killed
        except FileExistsError:
            return False
        return True

    def finish(self, key: str, outcome: Mapping[str, Any]) -> None:
        """Note that an encoder is finished, and what this worker has done so far."""
        self.finished.append(key)
        write_json(self.folder / f"outcome-{self.owner}.json", {"finished": self.finished, "outcome": dict(outcome)})

    def unfinished(self, keys: Iterable[str]) -> tuple[list[str], dict[str, Any]]:
        """Return which encoders the worker, now dead, had claimed and not finished, and what it has done."""
        try:
            known = read_json(self.folder / f"outcome-{self.owner}.json")
        except MissingError:
            known = {"finished": [], "outcome": {}}
        claimed = [
            key for key in keys if self._claim(key).is_file() and self._claim(key).read_text() == str(self.owner)
        ]
        return [key for key in claimed if key not in known["finished"]], known["outcome"]

    def release(self, key: str) -> None:
        """Give an encoder back, so that another worker can claim it."""
        self._claim(key).unlink()

    def _claim(self, key: str) -> Path:
        return self.folder / f"{key[:32]}.claim"
