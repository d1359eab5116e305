"""Makes overlap.json for a results folder whose records do not state which test texts were in the training text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmark.data.corpora import load_corpus, load_pairs, normalised_texts, overlap
from benchmark.data.sources import DataSource
from benchmark.records.known_overlap import FILE, read_overlap
from benchmark.records.schema import CorpusPart, Record
from benchmark.records.store import Records
from benchmark.tasks.loaded import load_tasks
from zoo.encoder import Corpus
from zoo.errors import MissingError, ZooError
from zoo.files import write_json


def write_overlap(results: Path, data: DataSource) -> tuple[Path, list[str]]:
    """Write overlap.json for records without an overlap; returns its path, and the reasons for records left out.

    A training text is made again from the record's command, and left out where its sha256 differs. Raises MissingError
    where no record lacks an overlap.
    """
    lacking = [r for r in Records(results).all() if _lacks(r)]
    if not lacking:
        raise MissingError(f"no record in {results} has a training text and lacks its overlap with the test texts.")
    found, problems = read_overlap(results), []
    by_corpus: dict[str, list[Record]] = {}
    for record in lacking:
        by_corpus.setdefault(_corpus_of(record)["sha256"], []).append(record)
    for sha256, mine in by_corpus.items():
        name = _corpus_of(mine[0])["name"]
        try:
            texts = normalised_texts(_corpus(mine, sha256, data).sentences)
        except ZooError as error:
            problems.append(f"{name}: {error}")
            continue
        entries = found.setdefault(sha256, {})
        for task in load_tasks(sorted({r["task"]["name"] for r in mine}), data, None):
            if task.data is None:
                problems.append(f"{name}: {task.name}: {task.reason}")
                continue
            tested = normalised_texts(task.data.tested())
            digests = overlap(texts, tested)
            entries[task.name] = {"sha256": task.data.located.sha256, "texts": len(tested), "digests": digests}
    write_json(results / FILE, found)
    return results / FILE, problems


def _lacks(record: Record) -> bool:
    return bool(_corpus_of(record)) and "overlap" not in (record["training"] or {}) and record["limit"] is None


def _corpus_of(record: Record) -> CorpusPart:
    return (record["training"] or {}).get("corpus") or {}


def _corpus(records: Sequence[Record], sha256: str, data: DataSource) -> Corpus:
    """Return the training text of records, made again from their commands; raises MissingError where none fits."""
    about = _corpus_of(records[0])
    of_corpus = partial(load_corpus, documents="documents" in about)
    option, load = ("--train-sentences", of_corpus) if "sentences" in about else ("--train-pairs", load_pairs)
    for count in _counts([r["command"] for r in records], option):
        corpus = load(about["name"], data, count)
        if corpus.sha256() == sha256:
            return corpus
    raise MissingError(f"the text here has another sha256 than {sha256[:12]}, which the records were trained on.")


def _counts(commands: Iterable[Sequence[Any]], option: str) -> list[int | None]:
    """Return the distinct values of an option in the commands; None stands for a command without it."""
    counts: dict[int | None, None] = {}
    for command in commands:
        given = [str(word) for word in command]
        text = given[given.index(option) + 1] if option in given[:-1] else ""
        counts[int(text) if text.isdigit() else None] = None
    return list(counts)
