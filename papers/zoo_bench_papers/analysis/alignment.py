"""Alignment and uniformity, and anisotropy beside Spearman (PromptBERT Eq. 1, table 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmark.metrics.geometry import Matrix, alignment, anisotropy, uniformity, unit_vectors
from benchmark.records.query import Split, scored_pairs
from benchmark.run.vectors import VectorStore
from benchmark.tasks.loaded import LoadedTask
from benchmark.tasks.suites import Suite
from zoo.encoder import Corpus, Runtime
from zoo.errors import UsageError
from zoo_bench_papers.analysis.encoders import ChosenEncoder, average, columns, task_scores
from zoo_bench_papers.analysis.result import Analysis, AnalysisTable, Points, Scatter

_SHOWN = 8192


def alignment_error(first: Matrix, second: Matrix) -> float:
    """Return the standard error of `alignment` over pairs (n, dim)."""
    return _of_mean(np.square(unit_vectors(first) - unit_vectors(second)).sum(axis=1))


def uniformity_error(vectors: Matrix, chunk: int = 2048) -> float:
    """Return the standard error of `uniformity` over sentences (n, dim): the mean over pairs has two of each."""
    unit = unit_vectors(vectors)
    blocks = (unit[start : start + chunk] for start in range(0, len(unit), chunk))
    each = np.concatenate([np.exp(4.0 * (block @ unit.T) - 4.0).sum(axis=1) for block in blocks]) - 1.0
    return 2 * _of_mean(each) / float(each.mean())


def anisotropy_error(vectors: Matrix) -> float:
    """Return the standard error of `anisotropy` over sentences (n, dim)."""
    unit = unit_vectors(vectors)
    return 2 * _of_mean((unit @ unit.sum(axis=0) - 1.0) / (len(unit) - 1))


def _of_mean(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def analyse_anisotropy(
    chosen: Sequence[ChosenEncoder], suite: Suite, tasks: Sequence[LoadedTask], corpus: Corpus, runtime: Runtime
) -> Analysis:
    """Anisotropy of the corpus sentences and scores x100 on the suite's tasks, for each encoder.

    The paper uses 100,000 random Wikipedia sentences; its code the first 100,000 lines of a file, lower-cased and cut
    to 32 words, each paired with itself too. Raises UsageError for fewer than two sentences.
    """
    if len(corpus.sentences) < 2:
        raise UsageError(f"corpus {corpus.name} has one sentence; anisotropy is a mean over pairs of sentences.")
    mean, dev, test = f"Avg. ({suite.name})", f"{suite.dev} dev", f"{suite.dev} test"
    rows, notes = [], []
    for encoder_choice in chosen:
        encoder, total = encoder_choice.obtain(), len(corpus.sentences)
        store = VectorStore(encoder_choice.encoder_for(encoder, corpus.sentences), encoder_choice.name)
        for start in range(0, total, _SHOWN):
            runtime.progress.say(f"{encoder_choice.label()}: {start:,} of {total:,} sentences")
            store.add(corpus.sentences[start : start + _SHOWN])
        vectors, scores = store(corpus.sentences), {}
        for task in tasks:
            runtime.progress.say(f"{encoder_choice.label()}: {task.name}")
            scores[task.name] = task_scores(encoder_choice, encoder, task)
        row = {**encoder_choice.row(), mean: average([main for main, _, _ in scores.values()])}
        test_score, dev_score, _ = scores[suite.dev]
        measured = {"Sentence anisotropy": anisotropy(vectors), "Sentence anisotropy, error": anisotropy_error(vectors)}
        rows.append({**row, dev: dev_score, test: test_score, **measured})
        notes += [f"n/a: {encoder_choice.label()}: {reason}" for _, _, reason in scores.values() if reason]
    header = {**columns(chosen), mean: 2, dev: 2, test: 2, "Sentence anisotropy": 4, "Sentence anisotropy, error": 4}
    table = AnalysisTable("anisotropy", "Correlation and sentence anisotropy", header, rows, notes)
    drawn = [(row, encoder.label()) for row, encoder in zip(rows, chosen, strict=True) if row[mean] is not None]
    points = Points(
        "encoders",
        [row["Sentence anisotropy"] for row, _ in drawn],
        [row[mean] for row, _ in drawn],
        [label for _, label in drawn],
        colour="#1f77b4",
    )
    figure = Scatter("anisotropy", "Anisotropy and correlation", "sentence anisotropy", mean, [points], named=True)
    about = [
        f"Anisotropy: |mean cosine| of all pairs of {len(corpus.sentences):,} sentences of {corpus.name}"
        " (PromptBERT Eq. 1): 0 is isotropic, 1 the opposite.",
        suite.note,
    ]
    conditions = {"corpus": corpus.identity(), "tasks": [task.identity() for task in tasks]}
    return Analysis("anisotropy", "Sentence anisotropy", about, [table], [figure], conditions)


def analyse_alignment(
    chosen: Sequence[ChosenEncoder], task: LoadedTask, split: Split, threshold: float, runtime: Runtime
) -> Analysis:
    """Alignment of pairs scored above `threshold` and uniformity of all sentences, for each encoder.

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
                "Alignment, error": alignment_error(vectors(first), vectors(second)),
                "Uniformity": uniformity(vectors(sentences)),
                "Uniformity, error": uniformity_error(vectors(sentences)),
                test: None if main is None else 100 * main,
            }
        )
    kinds = ("Alignment", "Alignment, error", "Uniformity", "Uniformity, error")
    header = {**columns(chosen), **dict.fromkeys(kinds, 4), test: 2}
    about = [
        f"Alignment: mean squared distance of the {len(positive):,} pairs of {task.name} ({split}) scored above"
        f" {threshold:g}. Uniformity: log mean exp(-2 d²) over all pairs of its {len(sentences):,} distinct sentences."
        " Vectors of length 1; lower is better for both. Error: the standard error of other pairs or sentences.",
        f"{test}: Spearman x100 of cosine.",
    ]
    points = Points(
        "encoders",
        [row["Uniformity"] for row in rows],
        [row["Alignment"] for row in rows],
        [encoder.label() for encoder in chosen],
        values=[math.nan if row[test] is None else row[test] for row in rows],
    )
    figure = Scatter(
        "alignment", "Alignment and uniformity", "uniformity", "alignment", [points], f"{test}, Spearman x100", True
    )
    conditions = {"task": task.identity(), "split": split, "threshold": threshold, "positives": len(positive)}
    conditions["sentences"] = len(sentences)
    table = AnalysisTable("alignment", "Alignment and uniformity", header, rows)
    return Analysis("alignment", "Alignment and uniformity", about, [table], [figure], conditions)
