"""Divides encoders among processes: a process claims one by making a file, which only one process can do."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.errors import MissingError
from zoo.files import read_json, write_json


@dataclass
class Claims:
    """A folder that the workers of one run share, as one of them uses it; it is deleted after the run."""

    folder: Path
    owner: int  # the number of the worker

    def take(self, key: str) -> bool:
        """Claim an encoder; returns whether nobody has claimed it before."""
        own = self.folder / f"owner-{self.owner}"
        if not own.is_file():  # a second writing would empty its claims for a moment, in which it may be killed
            own.write_text(str(self.owner))
        try:
            os.link(own, self._claim(key))  # at once with its owner's number, wherever this process is killed
        except FileExistsError:
            return False
        return True

    def finish(self, key: str, outcome: Mapping[str, Any]) -> None:
        """Note that an encoder is finished, and what this worker has done so far."""
        write_json(self.folder / f"outcome-{self.owner}.json", {"last": key, "outcome": dict(outcome)})
        self._claim(key).with_suffix(".done").touch()

    def unfinished(self, keys: Iterable[str]) -> tuple[list[str], dict[str, Any]]:
        """Return which encoders the worker, now dead, had claimed and not finished, and what it has done."""
        try:
            known = read_json(self.folder / f"outcome-{self.owner}.json")
        except MissingError:
            known = {"last": None, "outcome": {}}
        left = [key for key in keys if key != known["last"] and not self._claim(key).with_suffix(".done").is_file()]
        claims = ((key, self._claim(key)) for key in left)
        return [key for key, claim in claims if claim.is_file() and claim.read_text() == str(self.owner)], known[
            "outcome"
        ]

    def release(self, key: str) -> None:
        """Give an encoder back, so that another worker can claim it."""
        self._claim(key).unlink()

    def _claim(self, key: str) -> Path:
        return self.folder / f"{key[:32]}.claim"
