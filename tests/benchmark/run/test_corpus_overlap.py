"""What records of before do not say of their training text is found again from the data, or said to be lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fakes import Cli, hexes, make_record

from benchmark.data.corpora import load_corpus, overlap
from benchmark.data.sources import DataSource
from benchmark.records.known_overlap import read_overlap, with_overlap
from benchmark.records.store import Records
from benchmark.tasks.loaded import load_tasks

HERE = DataSource(None, hub=False)
POCKET = ("pocket-pairs", "pocket-words", "pocket-phrases", "pocket-topics")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Records of before: trained on a file that has two test texts of one task and one of another."""
    tasks = {task.name: task.data for task in load_tasks(list(POCKET), HERE, None)}
    pairs, topics = (list(dict.fromkeys(tasks[name].tested())) for name in ("pocket-pairs", "pocket-topics"))
    text = tmp_path / "mine.txt"
    text.write_text("\n".join([pairs[0].upper(), pairs[1], topics[0], "of nothing that is tested"]), encoding="utf-8")
    corpus = load_corpus(str(text), HERE, None)
    store = Records(tmp_path / "out")
    for name in POCKET:
        training = {"corpus": {**corpus.identity(), "name": str(text)}, "corpus_sentences_in_test": 9}
        sha256 = tasks[name].located.sha256
        command = ["zoo-bench", "run", "--methods", "m", "--corpus", str(text)]
        store.write(make_record("m", name, 0, training=training, data_sha256=sha256, command=command))
    return tmp_path / "out"


@pytest.mark.slow
def test_the_test_texts_are_found_again(results: Path, cli: Cli) -> None:
    """The table says a bound, and the number once the command was run; records stay as they are."""
    before = {path: path.read_bytes() for path in (results / "records").glob("*/*.json")}
    assert cli("leaderboard", "--results", results).code == 0
    assert "⚠ at most 36 training sentences" in (results / "pocket.md").read_text(encoding="utf-8")
    answer = cli("data", "overlap", "--results", results)
    assert answer.code == 0, answer.err
    assert cli("leaderboard", "--results", results).code == 0
    assert "⚠ 3 test texts are in the training text" in (results / "pocket.md").read_text(encoding="utf-8")
    assert before == {path: path.read_bytes() for path in (results / "records").glob("*/*.json")}
    (found,) = json.loads((results / "overlap.json").read_text(encoding="utf-8")).values()
    (task,) = load_tasks(["pocket-pairs"], HERE, None)
    assert task.data is not None
    corpus = load_corpus(str(results.parent / "mine.txt"), HERE, None)
    assert found["pocket-pairs"]["digests"] == overlap(corpus, task.data.tested())
    assert {name: len(entry["digests"]) for name, entry in found.items() if entry["digests"]} == {
        "pocket-pairs": 2,
        "pocket-topics": 1,
    }


def test_another_text_is_left_out_with_the_reason(results: Path, cli: Cli) -> None:
    """A corpus that is no longer the same says nothing of what was trained on then."""
    (results.parent / "mine.txt").write_text("something else\n")
    answer = cli("data", "overlap", "--results", results)
    assert answer.code == 1
    assert "another sha256" in answer.err
    assert read_overlap(results) == {}


def test_only_the_same_corpus_and_data_are_completed(results: Path, cli: Cli) -> None:
    """Other data of the task, another corpus, and a record with an overlap of its own stay as they are."""
    assert cli("data", "overlap", "--results", results).code == 0
    known = read_overlap(results)
    record: Any = Records(results).all()[0]
    assert with_overlap([record], known)[0]["training"]["overlap"]["texts"] > 0
    own = {"texts": 1, "digests": []}
    for changed in (
        {**record, "task": {**record["task"], "sha256": hexes("other")}},
        {**record, "training": {**record["training"], "corpus": {"name": "x", "sha256": hexes("other")}}},
        {**record, "training": {**record["training"], "overlap": own}},
        {**record, "training": None},
    ):
        assert with_overlap([changed], known) == [changed]


def test_without_records_that_lack_it_there_is_nothing_to_do(tmp_path: Path, cli: Cli) -> None:
    Records(tmp_path).write(make_record("m", "pocket-pairs"))
    answer = cli("data", "overlap", "--results", tmp_path)
    assert answer.code != 0 and "no record" in answer.err
