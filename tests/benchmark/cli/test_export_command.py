"""`zoo-bench export`: from a run's results to a folder that sentence-transformers opens, with a card."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from fakes import Cli

import zoo

TEXTS = ["A small dog runs.", "rain"]


@pytest.fixture
def results(cli: Cli, tiny_bert: Path, tmp_path: Path) -> Path:
    """Two seeds of a trained method, one that learns nothing and one that cannot be expressed."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"Sentence number {i} of a toy.\n" for i in range(16)), encoding="utf-8")
    common = ("--tasks", "pocket-words", "--precision", "fp32", "--limit", "20", "--corpus", corpus, "--seeds", "2")
    methods = "simcse:batch_size=4:learning_rate=0.01,avg-last,isbert"
    answer = cli("run", "--methods", methods, "--backbone", tiny_bert, "--out", tmp_path / "results", *common)
    assert answer.code == 0, answer.err
    return tmp_path / "results"


NAME = "simcse:batch_size=4:learning_rate=0.01"


def test_a_trained_method_is_exported_with_its_card(cli: Cli, results: Path, tmp_path: Path) -> None:
    st = pytest.importorskip("sentence_transformers")
    answer = cli("export", NAME, tmp_path / "one", "--results", results, "--seed", "1")
    assert answer.code == 0, answer.err
    assert "seed 1" in answer.out
    records = [json.loads(path.read_text(encoding="utf-8")) for path in results.glob("records/simcse*/*.json")]
    record = next(r for r in records if r["seed"] == 1)
    trained = zoo.load(next(results.glob(f"encoders/*-{record['encoder_key'][:16]}")))
    vectors = st.SentenceTransformer(str(tmp_path / "one"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(vectors, trained.encode(TEXTS), atol=1e-5)
    card = (tmp_path / "one" / "README.md").read_text(encoding="utf-8")
    assert f"| {record['scores']['main_metric']} | {100 * record['scores']['main']:.2f} |" in card
    assert 'SentenceTransformer("one")' in card and "16 sentences of" in card and "learning_rate: 0.01" in card
    assert str(tmp_path) not in card and str(tmp_path) not in (tmp_path / "one" / "config.json").read_text()
    first = cli("export", NAME, tmp_path / "two", "--results", results)
    assert first.code == 0 and "seed 0" in first.out


def test_what_cannot_be_exported_is_said_in_a_sentence(cli: Cli, results: Path, tmp_path: Path) -> None:
    cases: dict[tuple[str, ...], str] = {
        ("avg-last",): "learned nothing",
        ("isbert",): "no stock module",
        ("simcze",): "no record of 'simcze'",
        (NAME, "--seed", "7"): "has no seed 7 in .*there are 0, 1",
    }
    for (method, *more), words in cases.items():
        answer = cli("export", method, tmp_path / "out", "--results", results, *more)
        assert answer.code != 0 and re.search(words, answer.err), answer.err
        assert answer.err.count("\n") == 1 and not (tmp_path / "out").exists()
    for folder in results.glob("encoders/simcse*/encoder"):
        shutil.rmtree(folder)
    answer = cli("export", NAME, tmp_path / "out", "--results", results)
    assert answer.code != 0 and "is gone" in answer.err
