"""An encoder's scores on a suite, for analyses that show them beside other values."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from benchmark.run.vectors import VectorStore
from benchmark.tasks.loaded import LoadedTask
from zoo.encoder import Encoder
from zoo_bench_papers.analysis.encoders import ChosenEncoder


def task_scores(
    chosen: ChosenEncoder, encoder: Encoder, task: LoadedTask
) -> tuple[float | None, float | None, str | None]:
    """Return a task's score x100, that of its dev split or None, and the reason if there is no score."""
    if task.data is None:
        return None, None, f"{task.name}: {task.reason}"
    task.data.device = encoder.runtime.device
    vectors = VectorStore(chosen.encoder_for(encoder, task.data.unlabelled()), chosen.name)
    result = task.data.score(vectors)
    try:
        dev = task.data.score_dev(vectors)
    except TypeError:
        # The task has no development split.
        dev = math.nan
    main = None if result["main"] is None else 100 * result["main"]
    return main, dev if math.isfinite(dev) else None, None if main is not None else f"{task.name}: {result['reason']}"


def average(scores: Sequence[float | None]) -> float | None:
    """Return the mean over all tasks; None if any score is missing."""
    present = [score for score in scores if score is not None]
    return statistics.fmean(present) if present and len(present) == len(scores) else None
