"""Training curves for TensorBoard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from zoo.errors import MissingError


def tensorboard_log(folder: Path) -> Callable[[int, Mapping[str, float]], None]:
    """Return what writes a training's values to TensorBoard's event files; raises MissingError without the extra."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingError("--tensorboard needs the extra: pip install 'zoo-bench[tensorboard]'.") from error
    writer = SummaryWriter(str(folder))

    def log(step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(f"training/{name}", value, step)
        writer.flush()

    return log
