"""Finds the training texts of backbones and word vectors by name, and leaves out the sentences that tasks test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmark.data.catalog import catalog
from benchmark.data.corpora import normalised
from benchmark.data.readers.pairs import iterate_text
from benchmark.data.sources import DataSource
from benchmark.tasks import TASKS
from zoo.errors import MissingError
from zoo.progress import Progress
from zoo_bench_papers.pretraining.texts import PlainTexts

DEFAULT = ("wiki", "books")


def tested_sentences(data: DataSource) -> tuple[frozenset[str], list[str]]:
    """Return the normalised texts of every task whose data is found, and the data sets that are missing."""
    texts: set[str] = set()
    missing: set[str] = set()
    for _, task in TASKS.load_all():
        if task is None:
            continue
        try:
            texts |= {normalised(text) for text in task.load(data).unlabelled()}
        except MissingError:
            missing.add(task.dataset)
    return frozenset(texts - {""}), sorted(missing)


def find_texts(names: Sequence[str], data: DataSource) -> list[Path]:
    """Return the files for catalog names and paths; raises MissingError for a text that is not found."""
    paths = []
    for name in names or DEFAULT:
        entry = catalog().get(name)
        path = next(iter(data.locate(name, "plain").files.values())) if entry is not None else Path(name)
        if not path.is_file():
            raise MissingError(f"text {name} is neither a file nor a text of the catalog (`zoo-bench data list`).")
        paths.append(path)
    return paths


def clean_texts(names: Sequence[str], data: DataSource, progress: Progress) -> PlainTexts:
    """Return the texts without the sentences that tasks test, and print the number of these sentences."""
    paths = find_texts(names, data)
    exclude, missing = tested_sentences(data)
    progress.say(f"{len(exclude):,} tested sentences are left out of the text")
    if missing:
        progress.say(
            f"these data sets are not on this machine, so their sentences stay in the text if it has them:"
            f" {', '.join(missing)}"
        )
    return PlainTexts(paths, iterate_text, exclude, normalised)


def text_options(names: Sequence[str]) -> str:
    """Return `--text` options for these texts that hold on any machine: catalog names, and file names without paths."""
    return " ".join(f"--text {name if name in catalog() else Path(name).name}" for name in names or DEFAULT)
