"""Alignment and uniformity of encoders on scored pairs (Wang and Isola 2020; SimCSE section 2.3; docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmark.metrics.geometry import alignment, uniformity
from benchmark.records.query import Split, scored_pairs
from benchmark.run.vectors import VectorStore
from benchmark.tasks.loaded import LoadedTask
from zoo.encoder import Runtime
from zoo.errors import UsageError
from zoo_bench_papers.analysis.encoders import ChosenEncoder, columns
from zoo_bench_papers.analysis.result import Analysis, AnalysisTable, Points, Scatter


def analyse_alignment(
    chosen: Sequence[ChosenEncoder], task: LoadedTask, split: Split, threshold: float, runtime: Runtime
) -> Analysis:
    """Return, for each encoder, alignment of the pairs scored above `threshold` and uniformity of all sentences.

    The papers use STS-B and scores above 4 (SimCSE footnote 3; its maintainers: the whole data set). Each distinct
    sentence counts once. Raises MissingError without the data, UsageError without a positive pair.
    """
    pairs = scored_pairs(task, split)
    assert task.data is not None
    positive = np.flatnonzero(pairs.gold > threshold)
    if not len(positive):
        raise UsageError(f"{task.name}, split {split}: no pair is scored above {threshold:g}.")
    first, second = ([side[i] for i in positive] for side in (pairs.first, pairs.second))
    sentences = list(dict.fromkeys(pairs.texts()))
    rows = []
    test = f"{task.name} test"
    for encoder in chosen:
        runtime.progress.say(encoder.label())
        vectors = VectorStore(encoder.encoder_for(encoder.obtain(), task.data.unlabelled()), encoder.name)
        vectors.add([*task.data.texts(), *sentences])
        main = task.data.score(vectors)["main"]
        rows.append(
            {
                **encoder.row(),
                "Alignment": alignment(vectors(first), vectors(second)),
                "Uniformity": uniformity(vectors(sentences)),
                test: None if main is None else 100 * main,
            }
        )
    header = {**columns(chosen), "Alignment": 4, "Uniformity": 4, test: 2}
    about = [
        f"Alignment: mean squared distance of the {len(positive):,} pairs of {task.name} ({split}) scored above"
        f" {threshold:g}. Uniformity: log mean exp(-2 d²) over all pairs of its {len(sentences):,} distinct sentences."
        " Vectors of length 1; lower is better for both.",
        f"{test}: Spearman x100 of cosine.",
    ]
    drawn = [(row, one.label()) for row, one in zip(rows, chosen, strict=True)]
    points = Points(
        "encoders",
        [row["Uniformity"] for row, _ in drawn],
        [row["Alignment"] for row, _ in drawn],
        [label for _, label in drawn],
        values=[row[test] if row[test] is not None else float("nan") for row, _ in drawn],
    )
    figure = Scatter(
        "alignment", "Alignment and uniformity", "uniformity", "alignment", [points], f"{test}, Spearman x100", True
    )
    conditions = {"task": task.identity(), "split": split, "threshold": threshold, "positives": len(positive)}
    return Analysis(
        "alignment",
        "Alignment and uniformity",
        about,
        [AnalysisTable("alignment", "Alignment and uniformity", header, rows)],
        [figure],
        {**conditions, "sentences": len(sentences)},
    )
