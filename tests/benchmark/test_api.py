"""The Python door: recipes, encoders, library models and functions, measured as the command line measures them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli

import benchmark
import zoo
from zoo.errors import UsageError

pytestmark = pytest.mark.slow

WORDS = {"tasks": "pocket-words", "precision": "fp32", "embedding_cache": 0.0}


def lengths(texts: list[str]) -> Any:
    return np.array([[len(text), text.count("a"), 1.0] for text in texts])


def test_a_recipe_gives_what_the_command_gives(cli: Cli, tmp_path: Path) -> None:
    results = benchmark.evaluate("avg-last", **WORDS)
    frame = results.to_frame()
    assert frame.index.tolist() == ["avg-last"] and frame.columns.tolist() == ["pocket-words", "Seeds", "Conditions"]
    words = "run --methods avg-last --tasks pocket-words --precision fp32 --results".split()
    assert cli(*words, tmp_path).code == 0
    (record,) = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "records").rglob("*.json")]
    assert results.records[0]["scores"] == record["scores"] and results.records[0]["key"] == record["key"]
    assert frame.loc["avg-last", "pocket-words"] == 100 * record["scores"]["main"]
    assert "avg-last" in str(results) and "<table" in results._repr_html_()


def test_a_library_model_equals_pretrained_to_the_last_digit(minilm: Path) -> None:
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(str(minilm), device="cpu")
    given = benchmark.evaluate(library, limit=60, **WORDS)
    recipe = benchmark.evaluate(f"pretrained:model={minilm}", limit=60, **WORDS)
    assert given.records[0]["scores"] == recipe.records[0]["scores"]


def test_a_function_is_timed_and_identified_by_its_vectors(tmp_path: Path) -> None:
    first = benchmark.evaluate(lengths, results=tmp_path, **WORDS)
    (record,) = first.records
    assert record["method"]["name"] == "lengths" and record["encoding"]["seconds"] >= 0
    again = benchmark.evaluate(lengths, results=tmp_path, **WORDS)
    assert (again.outcome.measured, again.outcome.kept) == (1, 0) and again.records[0]["key"] == record["key"]
    assert record["precision"] == "fp32" and "precision" in record["method"]["unstated"]
    versions = [benchmark.evaluate(lengths, version="1", results=tmp_path, **WORDS).outcome.kept for _ in range(2)]
    assert versions == [0, 1]
    other = benchmark.evaluate(lambda texts: lengths(texts)[:, ::-1] ** 2, name="lengths", results=tmp_path, **WORDS)
    assert other.records[0]["key"] != record["key"]


def test_two_results_are_compared_as_the_command_does(cli: Cli, tmp_path: Path) -> None:
    first, second = (benchmark.evaluate(name, quiet=True, **WORDS) for name in ("avg-last", "cls"))
    compared = benchmark.compare(first, second, tasks="pocket-words")
    for results in (first, second):
        results.save(tmp_path)
    words = ("--results", tmp_path, "--tasks", "pocket-words")
    assert json.loads(cli("compare", "avg-last", "cls", *words, "--json").out) == compared.as_dict()
    named = benchmark.compare("avg-last", "cls", results=tmp_path, tasks="pocket-words")
    assert named.as_dict() == compared.as_dict()
    line = compared.to_frame().loc[("pocket-words", "pocket-words")]
    assert line["A - B"] == pytest.approx(
        100 * (first.records[0]["scores"]["main"] - second.records[0]["scores"]["main"])
    )
    assert line["Low"] <= line["A - B"] <= line["High"] and "noise of the pairs" in str(compared)
    assert "<table" in compared._repr_html_() and "A: avg-last [" in compared._repr_html_()
    assert benchmark.compare(first, second).comparisons == compared.comparisons  # the tasks with pair scores
    with pytest.raises(UsageError, match="not one of each"):
        benchmark.compare(first, "cls")


def test_the_leaderboard_is_what_the_command_writes(cli: Cli, tmp_path: Path) -> None:
    benchmark.evaluate("avg-last", results=tmp_path / "results", quiet=True, **WORDS)
    board = benchmark.leaderboard(tmp_path / "results", out=tmp_path / "ours")
    answer = cli("leaderboard", "--results", tmp_path / "results", "--out", tmp_path / "theirs")
    assert answer.code == 0
    for path in (tmp_path / "theirs").iterdir():
        assert path.read_bytes() == (tmp_path / "ours" / path.name).read_bytes()
    assert board.written == [tmp_path / "ours" / "pocket.md"] and str(board.written[0]) in str(board)
    assert board.to_frame().index.tolist() == ["avg-last"] and "zoo-mini, fp32" in board._repr_html_()


def test_an_object_is_refused_where_processes_share_the_plan() -> None:
    with pytest.raises(UsageError, match="measured in this process"):
        benchmark.evaluate(lengths, workers=2, **WORDS)


def test_names_and_texts_are_escaped_in_a_notebook() -> None:
    shown = benchmark.evaluate(lengths, name="<b>&", quiet=True, **WORDS)._repr_html_()
    assert "&lt;b&gt;&amp;" in shown and "<b>" not in shown


def test_one_string_gives_one_vector_at_the_door(tmp_path: Path) -> None:
    encoder = zoo.create("static-avg")
    vector = zoo.encode(encoder, "one text")
    assert vector.shape == (encoder.dim,)
    np.testing.assert_array_equal(vector, encoder.encode(["one text"])[0])
    np.testing.assert_array_equal(zoo.encode("static-avg", ["one text", "two"])[0], vector)
    zoo.save(encoder, str(tmp_path))
    np.testing.assert_array_equal(zoo.encode(tmp_path, "one text"), vector)
    with pytest.raises(UsageError, match="sentences, not one string"):
        zoo.fit("simcse", "one text")


def test_the_door_is_light() -> None:
    code = "import sys, benchmark; benchmark.evaluate; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
