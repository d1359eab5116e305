"""A map of sentences and a histogram of cosines, encoder beside encoder: what whitening or training changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmark.metrics.geometry import principal_components, unit_vectors
from benchmark.records.query import Split, scored_pairs
from benchmark.run.vectors import VectorStore
from benchmark.tasks.loaded import LoadedTask
from zoo.encoder import Runtime
from zoo_bench_papers.analysis.encoders import ChosenEncoder, columns
from zoo_bench_papers.analysis.result import Analysis, AnalysisTable, Histogram, Points, Scatter

DRAWN = 100_000
_COSINES = {"Cosine": 3, "SD": 3, "Pairs alike": 3, "Pairs unlike": 3}


def analyse_map(chosen: Sequence[ChosenEncoder], task: LoadedTask, split: Split, runtime: Runtime) -> Analysis:
    """Return, for each encoder, the cosines of scored pairs and of any two sentences, and a plane of the sentences.

    Alike are the pairs in the highest fifth of the gold scores' range, unlike those in the lowest. The plane has the
    first two principal components of the vectors at length 1. Raises MissingError without the data.
    """
    pairs = scored_pairs(task, split)
    assert task.data is not None
    sentences = list(dict.fromkeys(pairs.texts()))
    low, high = float(pairs.gold.min()), float(pairs.gold.max())
    alike, unlike = pairs.gold >= low + 0.8 * (high - low), pairs.gold <= low + 0.2 * (high - low)
    firsts, seconds = np.random.default_rng(0).integers(len(sentences), size=(2, DRAWN))
    apart = firsts != seconds
    words = [float(len(text.split())) for text in sentences]
    rows, figures = [], []
    cosines: dict[str, list[float]] = {}
    for number, encoder in enumerate(chosen, start=1):
        runtime.progress.say(encoder.label())
        vectors = VectorStore(encoder.encoder_for(encoder.obtain(), task.data.unlabelled()), encoder.name)
        vectors.add(sentences)
        unit, first, second = (unit_vectors(vectors(texts)) for texts in (sentences, pairs.first, pairs.second))
        of_any, of_pairs = (unit[firsts[apart]] * unit[seconds[apart]]).sum(axis=1), (first * second).sum(axis=1)
        plane, shares = principal_components(unit.astype(np.float32), 2)
        means = [of_any.mean(), of_any.std(), of_pairs[alike].mean(), of_pairs[unlike].mean()]
        rows.append({**encoder.row(), **dict(zip(_COSINES, map(float, means), strict=True)), "Plane": sum(shares)})
        label = encoder.label()
        cosines |= {f"{label}: any two": of_any.tolist(), f"{label}: alike": of_pairs[alike].tolist()}
        points = Points("sentences", plane[:, 0].tolist(), plane[:, 1].tolist(), (), values=words)
        axes = ("first principal component", "second principal component")
        figures.append(Scatter(f"map-{number}", label, *axes, [points], "words of the sentence"))
    about = [
        f"{len(sentences):,} distinct sentences of {task.name} ({split}). Cosine, SD: of {int(apart.sum()):,} drawn"
        f" pairs of any two of them. Pairs alike: mean cosine of the {int(alike.sum()):,} pairs in the highest fifth of"
        f" the gold scores; unlike: of the {int(unlike.sum()):,} in the lowest. Plane: share of the variance shown."
    ]
    table = AnalysisTable("map", "Cosines", {**columns(chosen), **_COSINES, "Plane": 3}, rows)
    histogram = Histogram("map-cosines", "Cosines of sentences", "cosine", cosines, (-1.0, 1.0))
    conditions = {"task": task.identity(), "split": split}
    return Analysis("map", "Map of sentences", about, [table], [histogram, *figures], conditions)
