"""The catalog describes what is there: complete entries, right counts, the same gold in both spellings."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from benchmark.data.catalog import catalog
from benchmark.data.readers.pairs import iterate_text
from benchmark.data.sources import DataSource
from benchmark.tasks import TASKS
from benchmark.tasks.base import PairsData
from benchmark.tasks.suites import all_suites
from zoo.errors import MissingError

# Scored test pairs as SentEval and the papers have them (docs/protocol.md; SICK's and STS-B's own papers).
PAPERS = {"STS12": 3108, "STS13": 1500, "STS14": 3750, "STS15": 3000, "STS16": 1186, "STS-B": 1379, "SICK-R": 4927}


@pytest.mark.parametrize("name", list(catalog()))
def test_every_entry_is_complete(name: str) -> None:
    """Licence, title, files with checksums, counts that add up."""
    entry = catalog()[name]
    assert entry.licence.strip()
    assert entry.title.strip()
    assert entry.forms
    unknown = not all(form.known for form in entry.forms.values())
    assert unknown or (entry.lines if entry.kind in ("corpus", "nli") else entry.rows)
    if entry.subsets:
        assert sum(entry.subsets.values()) == entry.rows["test"]
    for form in entry.forms.values():
        assert form.files
        assert not Path(form.folder).is_absolute()
        assert ".." not in Path(form.folder).parts
        for file, sha256 in form.files.items():
            assert sha256 is None or re.fullmatch(r"[0-9a-f]{64}", sha256)
            assert Path(file).name == file
        if form.hub is not None and form.hub.get("revision") is not None:
            assert re.fullmatch(r"[0-9a-f]{40}", form.hub["revision"])


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS.names())
def test_every_task_loads_with_the_counts_of_the_catalog(name: str, data_dir: Path) -> None:
    """Every built-in task reads its data, from verified files, with the stated number of rows."""
    task = TASKS.get(name)
    # Its six data sets are checked for themselves, and test_evalrank.py counts its pairs.
    if name.startswith("evalrank"):
        return
    if task.dataset not in catalog():
        remedy = {"PPDB": "put a phrasal pack", "heros-order": "put the file"}[name]  # their files have no known sha256
        with pytest.raises(MissingError, match=remedy):
            task.load(DataSource(data_dir, hub=False))
        return
    data = task.load(DataSource(data_dir, hub=False))
    split = "dev" if name == "STS-B-dev" else "test"
    if name.removesuffix("-raw") == "stsb-dev-disjoint":  # 1,500 pairs without those that are test pairs as well
        assert data.rows == 369
        return
    if name.removesuffix("-raw") == "stsb-once":  # 1,379 test pairs without those that occur twice
        assert data.rows == 1362
        return
    assert data.rows == catalog()[task.dataset].rows[split]
    expected = PAPERS.get(name.removesuffix("-raw"))
    assert expected in (None, data.rows)
    if isinstance(data, PairsData):
        assert all(text.strip() for text in data.texts())
        subsets = catalog()[task.dataset].subsets
        assert {k: len(v) for k, v in data.subsets.items()} == dict(subsets or {split: data.rows})


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PAPERS))
def test_raw_and_tokenised_are_the_same_pairs(name: str, data_dir: Path) -> None:
    """The same gold in the same order; the texts differ in spelling only."""
    source = DataSource(data_dir, hub=False)
    tokenised, raw = (TASKS.get(task).load(source) for task in (name, f"{name}-raw"))
    assert isinstance(tokenised, PairsData)
    assert isinstance(raw, PairsData)
    assert list(tokenised.subsets) == list(raw.subsets)
    differing = 0
    for subset, pairs in tokenised.subsets.items():
        other = raw.subsets[subset]
        assert np.array_equal(pairs.gold, other.gold)
        differing += sum(a != b for a, b in zip(pairs.texts(), other.texts(), strict=True))
        words = [[set(re.findall(r"[a-z]{3,}", t.lower())) for t in p.texts()] for p in (pairs, other)]
        shared = [len(a & b) / max(len(a | b), 1) for a, b in zip(*words, strict=True) if a | b]
        assert np.mean(shared) > 0.97
    assert differing > 0
    assert (tokenised.dev is None) == (raw.dev is None)
    if tokenised.dev is not None and raw.dev is not None:
        assert np.array_equal(tokenised.dev.gold, raw.dev.gold)


def test_suites_name_known_things() -> None:
    """Every suite's tasks, dev task and corpus exist; a column for every task."""
    for suite in all_suites().values():
        assert set(suite.tasks) <= set(TASKS.names())
        assert suite.dev in TASKS.names()
        assert catalog()[suite.corpus].kind == "corpus"
        assert len(suite.columns) == len(suite.tasks) == len(set(suite.tasks))


def test_pocket_text_has_the_stated_lines() -> None:
    """The bundled corpus has as many sentences as the catalog says."""
    located = DataSource(None, hub=False).locate("pocket-text", "plain")
    assert located.source == "bundled"
    (path,) = located.files.values()
    assert sum(1 for _ in iterate_text(path)) == catalog()["pocket-text"].lines


def test_pocket_training_text_holds_no_test_text() -> None:
    """Unsupervised training never sees a test sentence, in the bundled data either."""
    from benchmark.data.corpora import load_corpus, overlap

    source = DataSource(None, hub=False)
    corpus = load_corpus("pocket-text", source, None)
    for name in all_suites()["pocket"].tasks:
        assert overlap(corpus, TASKS.get(name).load(source).texts()) == []
