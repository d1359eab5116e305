"""Divides encoders among processes: creating a folder claims one, which succeeds for one process only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Claims:
    """A folder that the workers of one run share; it lives as long as the run."""

    folder: Path

    def take(self, encoder_key: str) -> bool:
        """Return whether this process is the first to ask for the encoder."""
        try:
            (self.folder / encoder_key[:32]).mkdir()
        except FileExistsError:
            return False
        return True
