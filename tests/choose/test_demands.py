"""What a user demands of a choice: a budget, floors, a baseline, a precision; and what the verdict says of itself."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from test_choose import noisy, scored, table

import benchmark
from benchmark.cli.main import main
from choose.candidates import read_wordings
from choose.demands import Floor, query_times
from choose.ranking import Ranking, reached
from choose.shown import _tie
from zoo.errors import CorruptError, MissingError, UsageError, ZooError

GOOD, BAD = noisy(0.3), noisy(4.0)


def slow(texts: list[str]) -> np.ndarray:
    time.sleep(0.02)
    return GOOD(texts)


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    return table(tmp_path / "my.csv", ["a", "b", "same"], [[a, b, int(s == 1)] for a, b, s in scored(120)])


def test_what_is_over_the_budget_is_shown_and_cannot_win(labels: Path) -> None:
    choice = benchmark.choose(labels, {"slow": slow, "bad": BAD}, max_ms=15, quiet=True)
    assert choice.winner == "bad" and [*choice.frame.index] == ["bad", "slow"]
    assert choice.frame.loc["slow", "score"] > choice.frame.loc["bad", "score"]
    assert not choice.frame.loc["slow", "may_be_best"] and choice.frame.loc["slow", "behind"] < 0
    assert "Over the budget, so that it cannot win: slow" in choice.verdict and "--max-ms 15" in choice.verdict
    none = benchmark.choose(labels, {"slow": slow, "bad": BAD}, max_mb=100, quiet=True)  # nobody knows their weights
    assert none.winner is None and not none.met and "no encoder is within the budget" in none.verdict


def test_costs_are_measured(labels: Path) -> None:
    row = benchmark.choose(labels, "static-freq-sub-case-pun", quiet=True).as_dict()["rows"][0]
    assert 0 < row["ms_p50"] <= row["ms_p95"] and row["load_seconds"] > 0
    assert row["weights_mb"] > 1 and row["memory_mb"] >= 0


@pytest.mark.parametrize(
    ("least", "winner", "met"), [(80, "a", True), (79.9, "a", True), (80.1, "a", False), (1, None, False)]
)
def test_a_floor_is_reached_from_its_value_on(least: float, winner: str | None, met: bool) -> None:
    frame = pandas.DataFrame({"score": [80.0, 90.0]}, index=["a", "b"])
    assert reached(Ranking(frame, winner, [], None), Floor("score", least)) is met


def test_floors_decide(labels: Path) -> None:
    encoders = {"good": GOOD, "bad": BAD}
    met = benchmark.choose(labels, encoders, floors=["AUC=50", "accuracy=1"], quiet=True)
    assert met.met and "It reaches the floor AUC 50" in met.verdict
    missed = benchmark.choose(labels, encoders, floors=["auc=50", "Accuracy=100.5"], quiet=True)
    assert not missed.met and "does not reach the floor accuracy 100.5" in missed.verdict
    assert [floor["met"] for floor in missed.as_dict()["floors"]] == [True, False]
    with pytest.raises(UsageError, match=r"no 'nDCG@10' here.*AUC"):
        benchmark.choose(labels, encoders, floors=["nDCG@10=3"], quiet=True)
    with pytest.raises(UsageError, match="METRIC=VALUE"):
        benchmark.choose(labels, encoders, floors=["AUC"], quiet=True)


def test_a_baseline_is_beaten_where_the_winner_is_told_apart(labels: Path) -> None:
    beaten = benchmark.choose(labels, {"good": GOOD, "bad": BAD}, baseline="bad", quiet=True)
    assert beaten.met and "good is better than the baseline bad beyond noise" in beaten.verdict
    alike = benchmark.choose(labels, {"good": noisy(2.0), "other": noisy(2.01)}, baseline="other", quiet=True)
    assert not alike.met and alike.as_dict()["baseline_beaten"] is False
    best = benchmark.choose(labels, {"good": GOOD, "bad": BAD}, baseline="good", quiet=True)
    assert not best.met and "Nothing is better than the baseline good" in best.verdict
    over = benchmark.choose(labels, {"slow": slow, "bad": BAD}, max_ms=15, baseline="slow", quiet=True)
    assert over.winner == "bad" and not over.met
    nobody = benchmark.choose(labels, {"good": GOOD, "bad": BAD}, max_mb=100, baseline="bad", quiet=True)
    assert nobody.winner is None and nobody.as_dict()["baseline_beaten"] is False
    assert "None is not better than the baseline bad" in nobody.verdict
    with pytest.raises(ZooError, match=r"the baseline could not be measured.*nothing-of-this-name"):
        benchmark.choose(labels, {"good": GOOD}, baseline="nothing-of-this-name", quiet=True)


def test_a_threshold_at_a_precision_has_its_recall(labels: Path) -> None:
    row = benchmark.choose(labels, {"good": GOOD}, at_precision=0.95, quiet=True).frame.iloc[0]
    assert row["threshold_at_precision_low"] <= row["threshold_at_precision"]
    assert row["recall_at_precision_low"] <= row["recall_at_precision"] <= row["recall_at_precision_high"] <= 100
    rows = [[a, b, s] for a, b, s in scored(60)]
    with pytest.raises(UsageError, match="--at-precision needs"):
        benchmark.choose(table(labels.parent / "s.csv", ["a", "b", "score"], rows), {"g": GOOD}, at_precision=0.9)


def test_exit_codes_and_json(tmp_path: Path, labels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["choose", str(labels), "--encoders", "bag-of-words", "--json"]
    for more, code in (([], 0), (["--floor", "AUC=1"], 0), (["--floor", "AUC=100.5"], 1), (["--max-ms", "0"], 1)):
        with pytest.raises(SystemExit) as end:
            main([*words, *more])
        answer = json.loads(capsys.readouterr().out)
        assert (end.value.code or 0) == code
        assert answer["met"] is not bool(code) and answer["version"] and "cpu" in answer["device"]
        assert answer["winner"] == (None if "--max-ms" in more else "bag-of-words") and answer["tied"] == []
        assert all(key.isidentifier() for row in answer["rows"] for key in row)


def test_a_narrow_terminal_has_the_columns_that_matter(labels: Path) -> None:
    name = "an-organisation-with-a-long-name/a-model-of-a-long-name-v1.5"
    choice = benchmark.choose(labels, {name: GOOD, "bad": BAD}, at_precision=0.9, quiet=True)
    lines = choice.shown(80).splitlines()
    assert max(map(len, lines)) <= 80 and "an-organisati" in choice.shown(80)
    head = next(line for line in lines if "tie" in line)
    assert [*head.split()][:4] == ["AUC", "tie", "behind", "ms"] and any(line.startswith("--wide: ") for line in lines)
    assert name in str(choice) and "threshold at precision" in str(choice) and "--wide" not in str(choice)


def test_the_verdict_says_that_no_finished_encoder_took_part(labels: Path) -> None:
    alone = benchmark.choose(labels, "bag-of-words,./nothing-here", quiet=True)
    assert "No finished encoder took part (./nothing-here failed)" in alone.verdict
    assert "No finished encoder" not in benchmark.choose(labels, {"good": GOOD}, quiet=True).verdict


def test_bm25_is_a_control_of_retrieval(tmp_path: Path) -> None:
    rows = [[f"what is word{i} for", f"word{i} stands for thing {i}"] for i in range(40)]
    choice = benchmark.choose(table(tmp_path / "my.csv", ["query", "document"], rows), {"bad": BAD}, quiet=True)
    assert choice.winner == "bm25 (control)" and choice.frame.loc["bm25 (control)", "score"] == pytest.approx(100)
    assert "BM25 only counts common words" in choice.verdict


def test_int8_above_its_own_float32_is_explained(tmp_path: Path) -> None:
    """One large dimension of noise hides what the others say; int8 gives each dimension the same range."""
    topic = noisy(0.3)

    def encode(texts: list[str]) -> np.ndarray:
        noise = [15.0 if sum(text.encode()) * 37 % 101 > 50 else -15.0 for text in texts]
        return np.column_stack([topic(texts), np.array(noise, np.float32)])

    path = table(tmp_path / "my.csv", ["a", "b", "score"], scored(200))
    choice = benchmark.choose(path, {"e": encode}, formats=("float32", "int8"), quiet=True)
    assert choice.winner == "e int8" and "above its own larger vectors (e) by more than noise" in choice.verdict


def test_near_duplicates_are_said(tmp_path: Path) -> None:
    rows = [[f"{i % 5} please send back order {i}", f"topic {i % 5}"] for i in range(60)]
    choice = benchmark.choose(table(tmp_path / "my.csv", ["text", "label"], rows), {"good": GOOD}, quiet=True)
    assert "60 of 60 texts have a near-duplicate" in choice.verdict


def test_recipes_learn_from_the_texts_that_are_named(tmp_path: Path, labels: Path) -> None:
    recipe = "static-contrastive:positives=halves:steps=3:batch_size=16"
    lines = "".join(f"{i} is the number of this line of text, and there are others\n" for i in range(200))
    (tmp_path / "text.txt").write_text(lines, encoding="utf-8")
    row = benchmark.choose(labels, recipe, corpus=str(tmp_path / "text.txt"), quiet=True).frame.iloc[0]
    assert row["trained_on"] == "trained on 200 sentences of text.txt"
    choice = benchmark.choose(labels, recipe, corpus="own", quiet=True)
    assert "sentences of the table itself" in str(choice)


def test_wordings_are_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("search:\n  query: 'search: '\nall: {prompt: 'text: '}\n", encoding="utf-8")
    none, card, query, every = read_wordings(["none", "card", tmp_path / "w.yaml"])
    assert (none.prompt("query"), none.prompt(None), card.prompt("query")) == ("", "", None)
    assert (query.prompt("query"), query.prompt("document"), every.prompt("document")) == ("search: ", None, "text: ")
    for content in ("a: {question: x}", "a: text", "", "a: {query: 3}"):
        (tmp_path / "w.yaml").write_text(content, encoding="utf-8")
        with pytest.raises(UsageError, match="a wording is NAME"):
            read_wordings([tmp_path / "w.yaml"])
    (tmp_path / "w.yaml").write_text("a: [", encoding="utf-8")
    with pytest.raises(CorruptError, match="neither YAML nor JSON"):
        read_wordings([tmp_path / "w.yaml"])
    with pytest.raises(MissingError, match="there is no such file"):
        read_wordings(["nothing.yaml"])
    with pytest.raises(UsageError, match="'card' twice"):
        read_wordings(["card", "card"])


def test_wordings_are_rows_that_score_as_in_the_library(tiny_bert: Path, tmp_path: Path) -> None:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import evaluation, modules

    torch.manual_seed(3)
    parts = [modules.Transformer(str(tiny_bert)), modules.Pooling(32)]
    for weight in parts[0].parameters():
        # Otherwise the library ranks by rounding what is tied here.
        weight.data.mul_(10)
    SentenceTransformer(modules=parts, prompts={"query": "what is it: "}, device="cpu").save(str(tmp_path / "st"))
    words = "rain dog tree house river old small red man woman talk play".split()
    generator = np.random.default_rng(0)
    text = [" ".join(generator.choice(words, 5)) + f" {i}" for i in range(60)]
    path = table(tmp_path / "q.csv", ["query", "document"], [[text[i], text[30 + i]] for i in range(30)])
    (tmp_path / "w.yaml").write_text("red: {query: 'red small: ', document: 'dog: '}", encoding="utf-8")
    encoders = {"folder": str(tmp_path / "st"), "object": SentenceTransformer(str(tmp_path / "st"), device="cpu")}
    prompts = ["none", "card", tmp_path / "w.yaml"]
    frame = benchmark.choose(path, {**encoders, "words": GOOD}, prompts=prompts, quiet=True).frame
    assert {"folder [prompts: none]", "object [prompts: card]", "words"} <= {*frame.index} and len(frame) == 8
    evaluator = {f"q{i}": text[i] for i in range(30)}, {f"d{i}": text[30 + i] for i in range(30)}
    for wording, query, document in (("none", "", ""), ("card", "what is it: ", ""), ("red", "red small: ", "dog: ")):
        library = evaluation.InformationRetrievalEvaluator(
            *evaluator, {f"q{i}": {f"d{i}"} for i in range(30)}, query_prompt=query, corpus_prompt=document
        )
        expected = 100 * library(encoders["object"])["cosine_ndcg@10"]
        for name in ("folder", "object"):
            assert frame.loc[f"{name} [prompts: {wording}]", "score"] == pytest.approx(expected, abs=1e-3)


def test_a_backend_without_its_file_fails_for_that_encoder_alone(labels: Path, minilm: Path) -> None:
    choice = benchmark.choose(labels, [str(minilm), "bag-of-words"], backend="onnx", quiet=True)
    assert "has no ONNX file" in choice.failed[str(minilm)] and choice.frame.index.tolist() == ["bag-of-words"]


@pytest.mark.parametrize(("best", "shown"), [([True, False], ["", ""]), ([True, True], ["≈", "≈"])])
def test_a_winner_with_which_nothing_is_tied_has_no_mark(best: list[bool], shown: list[str]) -> None:
    rows: list[dict[str, Any]] = [{"over_budget": "", "may_be_best": value} for value in best]
    assert [_tie(sum(best) < 2)(row) for row in rows] == shown


def test_the_time_that_most_queries_take_is_above_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def encode(texts: list[str]) -> None:
        nonlocal now
        now += float(texts[0])

    monkeypatch.setattr("choose.demands.time.perf_counter", lambda: now)
    times = query_times(encode, [str(0.001 * n) for n in range(1, 42)])
    assert times == pytest.approx({"ms_p50": 21, "ms_p95": 39})
