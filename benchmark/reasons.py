"""Reasons for n/a or failed cells: all in this package's own words. The rest quote an error's own text.

`docs/reference/missing.md` is this table; `python -m benchmark.reasons` prints it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zoo.progress import counted


class Reason(NamedTuple):
    """The words of a reason, its condition, and its remedy."""

    text: str
    when: str
    remedy: str


REASONS = {
    "quoted": Reason(
        "{error}",
        "Data, weights, a training text or a package are not here (n/a), or what is here is damaged (failed).",
        "The error names it, with the command that brings it.",
    ),
    "uncovered": Reason(
        "{without:,} of its {texts:,} texts have no vector in the file",
        "A method that must know every text, as `vectors`, does not.",
        "Add the texts to the file.",
    ),
    "simplex": Reason(
        "the map fitted to its {texts:,} distinct texts has rank {rank:,}: it puts them all equally far apart, so that"
        " cosines say nothing of them",
        "A transform is fitted to about as many texts as it has dimensions.",
        "Fit it to more texts, or keep fewer components.",
    ),
    "untrainable": Reason(
        "{encoder} has no trainable backbone whose pooled states are its vectors: it is not fine-tuned.",
        "A task of `finetune` trains the encoder itself.",
        "None: the method has no score there.",
    ),
    "constant": Reason(
        "constant scores: the encoder gives all pairs the same",
        "All predictions of a task are equal, or almost.",
        "Look at the training: the vectors have collapsed.",
    ),
    "constant_vectors": Reason(
        "constant_vectors", "All texts of a classification have the same vector.", "As for constant scores."
    ),
    "no pair": Reason("no pair", "The part of the task that was asked for is empty.", "Take a larger `--limit`."),
    "one pair": Reason("one pair, and a correlation needs two", "`--limit 1`.", "Take a larger `--limit`."),
    "equal gold": Reason(
        "all gold scores are {score:g}", "Nothing can correlate with them.", "Take a larger `--limit`, or other data."
    ),
    "no known text": Reason(
        "no pair with two known texts: every pair has a zero vector",
        "No word of the texts is in the method's vocabulary.",
        "Take vectors of the texts' language.",
    ),
    "sentence not finite": Reason(
        "a sentence's vector is not finite", "A vector has NaN or an infinity.", "Measure in float32."
    ),
    "not finite": Reason("the score is {score}", "A task computed NaN or an infinity.", "Measure in float32."),
    "unrecordable": Reason(
        "it cannot be recorded: {error}",
        "The recipe, the sources or the facts of a plugin are no plain values.",
        "Change the plugin; `zoo-bench doctor NAME` names the place.",
    ),
    "contradiction": Reason(
        "conflict: records of one cell ({key}) have the scores {scores}, in {places}; keep one",
        "A results folder was put together from others.",
        "Remove one of the files.",
    ),
    "other data": Reason(
        "conflict: {task} was measured on other data ({digest}) than in most rows ({most})",
        "The column ranks only rows on the same data and the same version of the task.",
        "Measure the row on the same data.",
    ),
    "other gold": Reason(
        "conflict: {task} was measured on other gold scores ({digest}) than in most rows ({most})",
        "As above, of the gold scores.",
        "Measure the row on the same data.",
    ),
    "two versions": Reason(
        "it was measured by two versions of its task or metric; measure it again: {command}",
        "The seeds of a row were measured before and after the number changed.",
        "The command in it.",
    ),
    "two data": Reason(
        "conflict: records of different data; keep one kind in the folder",
        "The seeds of a row were measured on different data.",
        "Measure them again on one.",
    ),
    "two vectors": Reason(
        "conflict: records of different vectors; keep one kind in the folder",
        "A row has two records of one seed and task.",
        "Keep one of them.",
    ),
    "subset": Reason(
        "a subset has no correlation",
        "`--aggregation mean` or `wmean` needs a score of every subset.",
        "Take `--aggregation all`.",
    ),
    "not run": Reason("not run", "No record of the cell is in the folder.", "Run the row on the task."),
    "seeds": Reason("{done} of {seeds} seeds; ", "Stands before the reason of the others.", "Run the other seeds."),
    "tasks": Reason("{done} of {tasks} tasks", "A mean needs every task that was asked for.", "Run the other tasks."),
    "no mean": Reason("no mean of all tasks", "The suite has none: its tasks are not on one scale.", "None."),
}


def in_a_line(status: str, why: str, about: Sequence[str]) -> str:
    """Return a reason with the number of its cells, one of `about` each, and some of their names."""
    names = list(dict.fromkeys(filter(None, about)))
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    of = f" of {', '.join(names[:4])}{more}" if names else ""
    return f"{status}: {counted(len(about), 'cell')}{of}: {why}"


def reason(name: str, /, **values: object) -> str:
    return REASONS[name].text.format(**values)


def page() -> str:
    lines = [f"| {text.strip()} | {when} | {remedy} |" for text, when, remedy in REASONS.values()]
    return "\n".join(["| reason | when | what helps |", "|:--|:--|:--|", *lines]) + "\n"


if __name__ == "__main__":
    print(page(), end="")
