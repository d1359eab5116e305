"""Sentence anisotropy beside the Spearman correlation (PromptBERT Eq. 1, section 3, table 1)."""

from __future__ import annotations

from collections.abc import Sequence

from benchmark.metrics.geometry import anisotropy
from benchmark.run.vectors import VectorStore
from benchmark.tasks.loaded import LoadedTask
from benchmark.tasks.suites import Suite
from zoo.encoder import Corpus, Runtime
from zoo.errors import UsageError
from zoo_bench_papers.analysis.encoders import ChosenEncoder, average, columns, task_scores
from zoo_bench_papers.analysis.result import Analysis, AnalysisTable, Points, Scatter

_SHOWN = 8192


def analyse_anisotropy(
    chosen: Sequence[ChosenEncoder], suite: Suite, tasks: Sequence[LoadedTask], corpus: Corpus, runtime: Runtime
) -> Analysis:
    """Return, for each encoder, the anisotropy of the corpus sentences and the scores x100 on the suite's tasks.

    The paper uses 100,000 random Wikipedia sentences; its code uses the first 100,000 lines of a file, lower-cased and
    cut to 32 words, and also pairs each sentence with itself. Raises UsageError for fewer than two sentences.
    """
    if len(corpus.sentences) < 2:
        raise UsageError(f"corpus {corpus.name} has one sentence; anisotropy is a mean over pairs of sentences.")
    mean, dev, test = f"Avg. ({suite.name})", f"{suite.dev} dev", f"{suite.dev} test"
    rows, notes = [], []
    for encoder_choice in chosen:
        encoder = encoder_choice.obtain()
        store, total = (
            VectorStore(encoder_choice.encoder_for(encoder, corpus.sentences), encoder_choice.name),
            len(corpus.sentences),
        )
        for start in range(0, total, _SHOWN):
            runtime.progress.say(f"{encoder_choice.label()}: {start:,} of {total:,} sentences")
            store.add(corpus.sentences[start : start + _SHOWN])
        vectors, scores = store(corpus.sentences), {}
        for task in tasks:
            runtime.progress.say(f"{encoder_choice.label()}: {task.name}")
            scores[task.name] = task_scores(encoder_choice, encoder, task)
        row = {**encoder_choice.row(), mean: average([main for main, _, _ in scores.values()])}
        test_score, dev_score, _ = scores[suite.dev]
        rows.append({**row, dev: dev_score, test: test_score, "Sentence anisotropy": anisotropy(vectors)})
        notes += [f"n/a: {encoder_choice.label()}: {reason}" for _, _, reason in scores.values() if reason]
    header = {**columns(chosen), mean: 2, dev: 2, test: 2, "Sentence anisotropy": 4}
    table = AnalysisTable("anisotropy", "Correlation and sentence anisotropy", header, rows, notes)
    drawn = [(row, one) for row, one in zip(rows, chosen, strict=True) if row[mean] is not None]
    points = Points(
        "encoders",
        [row["Sentence anisotropy"] for row, _ in drawn],
        [row[mean] for row, _ in drawn],
        [one.label() for _, one in drawn],
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
