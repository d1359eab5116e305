"""The conditions that every measurement of speed states, and its CSV file."""

from __future__ import annotations

import importlib.metadata
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.files import write_text
from zoo.machine import cpu_name


def conditions(device: str, *packages: str) -> dict[str, Any]:
    """Return the processor, the device, the number of threads, and the versions of torch and of `packages`."""
    import torch

    name = torch.cuda.get_device_name() if device.startswith("cuda") else cpu_name()
    versions = {package: importlib.metadata.version(package) for package in ("zoo-bench", "torch", *packages)}
    return {"hardware": name, "device": device, "threads": torch.get_num_threads(), **versions}


def median_times(rows: Sequence[Mapping[str, Any]], command: str) -> tuple[float, float]:
    """Return the medians of the wall and the CPU seconds of a command's rows."""
    of_command = [row for row in rows if row["command"] == command]
    return statistics.median(row["wall_seconds"] for row in of_command), statistics.median(
        row["cpu_seconds"] for row in of_command
    )


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> None:
    """Write the single measurements as CSV, each with its conditions."""
    import pandas

    write_text(path, pandas.DataFrame([{**row, **about} for row in rows], dtype=object).to_csv(index=False))
