"""Divides encoders among processes: a process claims one by creating a folder, which only one process can do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Claims:
    """A folder that the workers of one run share; it is deleted after the run."""

    folder: Path

    def take(self, encoder_key: str) -> bool:
        """Claim an encoder; returns whether this process is the first to do so."""
        try:
            (self.folder / encoder_key[:32]).mkdir()
        except FileExistsError:
            return False
        return True
