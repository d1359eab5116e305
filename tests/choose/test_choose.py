"""`choose`: it ranks encoders on a user's own table, and is as certain as it claims to be."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.metrics import roc_auc_score

import benchmark
from benchmark.checking.sizes import variants
from benchmark.cli.main import main
from benchmark.metrics.correlation import cosine
from benchmark.records.folder import Records
from benchmark.records.query import spearman
from benchmark.records.record import main_score
from benchmark.stats.bootstrap import measured, resample
from benchmark.stats.clusters import clusters_of
from choose.data import read_texts
from choose.measures import threshold
from choose.shown import drawn
from tools.studies.choose import coverage, wrong_winners
from zoo.errors import CorruptError, UsageError, ZooError

Function = Callable[[list[str]], np.ndarray]


def noisy(noise: float, dim: int = 16) -> Function:
    """Return an encoder whose vectors of "N ..." point where N says, with noise that depends on the text."""

    def encode(texts: list[str]) -> np.ndarray:
        vectors = []
        for text in texts:
            seed = int.from_bytes(hashlib.sha256(f"{noise} {text}".encode()).digest()[:4])
            topic = np.random.default_rng(int(text.split()[0]) if text[0].isdigit() else 0).normal(size=dim)
            vectors.append(topic + noise * np.random.default_rng(seed).normal(size=dim))
        return np.array(vectors, np.float32)

    return encode


def broken(texts: list[str]) -> np.ndarray:
    raise RuntimeError("no memory")


def table(path: Path, head: list[str], rows: list[list[object]]) -> Path:
    """Write a csv with a BOM, CRLF and quotes, as a spreadsheet does."""
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows([head, *rows])
    return path


def scored(n: int) -> list[list[object]]:
    """Return pairs whose score is 1 where the topics are equal, and less the farther they are."""
    return [[f"{i % 7} left, {i}", f"{(i + i // 7 % 3) % 7} right {i}", 1 - i // 7 % 3 / 4] for i in range(n)]


ENCODERS = {"good": noisy(0.3), "bad": noisy(4.0), "broken": broken}


@pytest.mark.parametrize(
    ("head", "rows", "kind", "measure_name"),
    [
        (["Satz a", "Satz b", "score"], scored(120), "score", "Spearman"),
        (["a", "b", "same"], [[a, b, int(s == 1)] for a, b, s in scored(120)], "binary", "AUC"),
        (["query", "document"], [[f"{i} question", f"{i} answer"] for i in range(60)], "retrieval", "nDCG@10"),
        (["text", "label"], [[f"{i % 4} text {i}", f"topic {i % 4}"] for i in range(60)], "label", "5-NN accuracy"),
    ],
)
def test_each_kind_of_table_is_recognised_and_ranked(
    tmp_path: Path, head: list[str], rows: list[list[object]], kind: str, measure_name: str
) -> None:
    choice = benchmark.choose(table(tmp_path / "my.csv", head, rows), ENCODERS, quiet=True)
    content = choice.as_dict()
    assert (content["kind"], content["measure"]) == (kind, measure_name)
    frame = choice.frame.drop(index="bm25 (control)", errors="ignore")
    assert [*frame.index] == ["good", "bad"]
    assert frame["may_be_best"].tolist() == [True, False]
    assert "good is first" in choice.verdict and "no memory" in choice.failed["broken"]
    assert all(row["low"] <= row["score"] <= row["high"] and row["ms_p50"] > 0 for row in content["rows"])


def test_who_is_not_told_apart_is_named_with_the_pairs_that_would_tell(tmp_path: Path) -> None:
    path = table(tmp_path / "my.csv", ["a", "b", "score"], scored(60))
    choice = benchmark.choose(path, {"one": noisy(2.0), "two": noisy(2.01)}, quiet=True)
    assert choice.frame["may_be_best"].all()
    assert "Tied with it" in choice.verdict and "would show it" in choice.verdict


@pytest.mark.parametrize(
    ("head", "rows"),
    [
        (["text"], [[f"{i} a"] for i in range(40)]),
        (["sentence1", "sentence2", "score"], []),
        (["sentence1", "sentence2", "score"], [[f"{i} a", f"{i} b", "very"] for i in range(40)]),
        (["sentence1", "sentence2", "score"], scored(3)),
        (["sentence1", "sentence2", "score"], [[f"{i} a", f"{i} b", 3] for i in range(40)]),
    ],
    ids=["one column", "a header only", "scores as text", "three pairs", "constant scores"],
)
def test_a_table_that_cannot_rank_is_refused_by_name(tmp_path: Path, head: list[str], rows: list[list[object]]) -> None:
    with pytest.raises((UsageError, CorruptError), match=r"my\.csv"):
        benchmark.choose(table(tmp_path / "my.csv", head, rows), ENCODERS, quiet=True)


def test_encoders_that_all_fail_are_an_error(tmp_path: Path) -> None:
    path = table(tmp_path / "my.csv", ["a", "b", "score"], scored(60))
    constant = {"constant": lambda texts: np.ones((len(texts), 4), np.float32)}
    with pytest.raises(ZooError, match="constant"):
        benchmark.choose(path, constant, quiet=True)


def test_widths_and_number_formats_are_rows_from_the_same_vectors(tmp_path: Path) -> None:
    path = table(tmp_path / "my.csv", ["a", "b", "score"], scored(60))
    formats = ("float32", "int8", "binary")
    choice = benchmark.choose(path, {"e": noisy(0.3, 64)}, dims=(16, 64), formats=formats, quiet=True)
    frame = choice.frame
    assert dict(zip(frame.index, frame["bytes"], strict=True)) == {
        **{"e dims=16": 64, "e dims=16 int8": 16, "e dims=16 binary": 2},
        **{"e dims=64": 256, "e dims=64 int8": 64, "e dims=64 binary": 8},
    }
    # For which codes and which search each is true, once for all rows.
    for words in (
        "int8: codes of sentence-transformers' quantize_embeddings, compared one by one (cosine)",
        "binary: bits",
    ):
        assert str(choice).count(words) == 1 and set(frame["search"]) >= {""}


def test_smaller_vectors_score_as_in_sentence_transformers() -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from sentence_transformers.util.quantization import quantize_embeddings
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    generator = np.random.default_rng(0)
    tokenizer = Tokenizer(WordLevel({f"w{i}": i for i in range(50)}, unk_token="w0"))
    tokenizer.pre_tokenizer = Whitespace()
    weights = generator.normal(size=(50, 32)) * generator.uniform(0.2, 2, 32)
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu")
    first, second = ([" ".join(f"w{i}" for i in generator.integers(50, size=4)) for _ in range(80)] for _ in "ab")
    gold = generator.random(80)
    vectors = model.encode([*first, *second])
    for width, form, size, of in variants(vectors, (8, 32), ("float32", "int8", "binary")):
        cosines = cosine(of[:80], of[80:])
        if form == "binary":  # cosines of -1 and 1 are Hamming distances
            packed = np.asarray(quantize_embeddings(vectors[:, :width], "ubinary"))
            differing = np.unpackbits(packed[:80] ^ packed[80:], axis=1).sum(axis=1)
            np.testing.assert_allclose(cosines, 1 - 2 * differing / width)
            assert size == packed[0].nbytes
            continue
        scores = EmbeddingSimilarityEvaluator(first, second, gold, precision=form, truncate_dim=width)(model)
        expected = next(100 * value for name, value in scores.items() if "spearman" in name)
        assert spearman(cosines, gold) == pytest.approx(expected, abs=1e-3)


def test_rows_of_a_table_at_smaller_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"tasks": "pocket-words,pocket-phrases", "controls": False, "quiet": True, "results": tmp_path}
    benchmark.evaluate("static-freq-sub-case-pun", **options)
    benchmark.evaluate("bag-of-words", **{**options, "tasks": "pocket-phrases"})
    with pytest.raises(SystemExit) as end:
        main(["leaderboard", "--results", str(tmp_path), "--dims", "64,9999", "--bytes", "float32,binary", "--json"])
    content = json.loads(capsys.readouterr().out)
    (sizes,) = content["sizes"]
    assert not end.value.code and "pocket-words" in sizes["missing"]["bag-of-words"]
    full_size, *smaller = sizes["lines"]
    store = Records(tmp_path)
    scores = {r["task"]["name"]: 100 * main_score(r) for r in store.all() if "static" in r["method"]["name"]}
    assert {task: full_size[task] for task in scores} == pytest.approx(scores)
    assert full_size["score low"] < full_size["score"] < full_size["score high"] and full_size["change"] is None
    assert [(line["dims"], line["bytes"]) for line in smaller] == [(64, 256), (64, 8)]
    changes = [line["score"] - full_size["score"] for line in smaller]
    assert [line["change"] for line in smaller] == pytest.approx(changes)
    assert all(line["change low"] < line["change"] < line["change high"] for line in smaller)
    assert (tmp_path / "pocket-sizes.csv").read_text(encoding="utf-8").count("\n") == 4


def test_measures_are_those_of_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    gold, scores = (generator.random(80) < 0.4).astype(float), generator.normal(size=(2, 80)).round(1)
    np.testing.assert_allclose(measured(scores, gold, "auc"), [roc_auc_score(gold, one) for one in scores])
    again = np.tile(gold, 2), np.tile(scores[0], 2)  # a resample with each pair twice has the same area
    np.testing.assert_allclose(measured(again[1][None], again[0], "auc"), measured(scores[:1], gold, "auc"))
    assert resample(scores, gold, metric="auc", resamples=300).std() > 0.01


def test_equal_cosines_are_never_parted_by_a_threshold() -> None:
    cosines, gold = np.repeat([0.2, 0.6, 0.9], 20), np.repeat([0.0, 1.0, 1.0], 20)
    limits = threshold(cosines, gold, clusters_of(np.arange(60)))
    assert 0.2 < (limits["threshold"] or 0) < 0.6 and limits["accuracy"] == 100


def test_the_command_prints_json_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "my.csv", ["a", "b", "score"], scored(60))
    words = ["choose", str(path), "--encoders", "bag-of-words,nothing", "--json"]
    with pytest.raises(SystemExit) as end:
        main([*words, "--plot", str(tmp_path / "p.png")])
    content = json.loads(capsys.readouterr().out)
    assert not end.value.code and content["rows"][0]["name"] == "bag-of-words" and "nothing" in content["failed"]
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_options_name_columns_and_kind(tmp_path: Path) -> None:
    rows = [[i, *row] for i, row in enumerate([[a, b, int(s == 1)] for a, b, s in scored(60)])]
    path = table(tmp_path / "my.csv", ["score", "x", "y", "z"], rows)
    assert read_texts(path, "x,y,z", "score").kind == "score"
    with pytest.raises(UsageError, match="label"):
        read_texts(path, "x,y,z", "label")


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["100 unrelated rows", "10 queries x 30 documents", "30 queries x 10 documents"])
@pytest.mark.parametrize("kind", ["score", "binary", "retrieval"])
def test_a_wrong_winner_is_named_in_at_most_5_percent(kind: str, rows: str) -> None:
    """Also where rows share a query or a document, on which an encoder errs as a whole."""
    assert wrong_winners(kind, 100, rows) <= 0.11  # 5 % and three standard errors of 100 draws


def test_pairs_that_share_a_text_are_drawn_together(tmp_path: Path) -> None:
    rows = [[f"{i % 10} {i // 10} q", f"{(i + i // 30) % 10} right {i}", i // 30 % 2] for i in range(60)]
    data = read_texts(table(tmp_path / "my.csv", ["a", "b", "same"], rows), "a,b,same")
    assert data.clusters.effective == 60 and "drawn together" not in data.report
    rows = [[f"{i // 6} q", right, value] for i, (_, right, value) in enumerate(rows)]
    data = read_texts(table(tmp_path / "my.csv", ["a", "b", "same"], rows), "a,b,same")
    assert data.clusters.effective == 10 and "drawn together: as much as 10 unrelated pairs" in data.report
    rows = [[f"{i} q", f"{i // 3} answer"] for i in range(60)]
    data = read_texts(table(tmp_path / "my.csv", ["query", "document"], rows))
    assert data.clusters.effective == 20 and "as much as 20 unrelated queries" in data.report


@pytest.mark.slow
def test_intervals_of_thresholds_cover_the_best_threshold() -> None:
    assert min(coverage(draws=50).values()) >= 0.86  # 95 % less three standard errors


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_a_finished_encoder_scores_as_in_the_librarys_own_evaluators(
    similarity: str, tiny_bert: Path, tmp_path: Path
) -> None:
    """Queries and documents have their prompts, pairs the default one, and similarity is that of the folder.

    Rows judged 0 are candidates, not relevant. A folder and an object are measured alike.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import evaluation, modules

    torch.manual_seed(2)
    parts = [modules.Transformer(str(tiny_bert)), modules.Pooling(32), modules.Dense(32, 16)]
    prompts = {"query": "what is it about the small red dog of which we read: ", "document": "p: ", "sts": "as: "}
    model = SentenceTransformer(
        modules=parts, device="cpu", prompts=prompts, default_prompt_name="sts", similarity_fn_name=similarity
    )
    model.save(str(tmp_path / "st"))
    words = "rain dog tree house river old small red man woman talk play".split()
    generator = np.random.default_rng(0)
    text = [" ".join(generator.choice(words, 5)) + f" {i}" for i in range(120)]
    rows = [[text[i], text[60 + (i + k) % 60], int(k < 2)] for k in (0, 1, 7) for i in range(60)]
    path = table(tmp_path / "judged.csv", ["query", "document", "relevance"], rows)
    frame = benchmark.choose(path, {"folder": str(tmp_path / "st"), "object": model}, quiet=True).frame
    frame = frame.drop(index="bm25 (control)")
    evaluator = evaluation.InformationRetrievalEvaluator(
        {f"q{i}": text[i] for i in range(60)},
        {f"d{i}": text[60 + i] for i in range(60)},
        {f"q{i}": {f"d{i}", f"d{(i + 1) % 60}"} for i in range(60)},
    )
    by_library = evaluator(model)
    names = {"score": "ndcg@10", "recall_at_1": "recall@1", "recall_at_10": "recall@10", "mrr_at_10": "mrr@10"}
    for column, name in names.items():
        assert frame[column].tolist() == pytest.approx([100 * by_library[f"{similarity}_{name}"]] * 2, abs=1e-6)
    assert "prompts of its folder: query, document, every text" in frame["roles"]["folder"]
    gold = generator.random(60).round(2)
    path = table(tmp_path / "sts.csv", ["a", "b", "score"], [[text[i], text[60 + i], gold[i]] for i in range(60)])
    frame = benchmark.choose(path, {"folder": str(tmp_path / "st"), "object": model}, quiet=True).frame
    expected = (
        100 * evaluation.EmbeddingSimilarityEvaluator(text[:60], text[60:], gold)(model)[f"spearman_{similarity}"]
    )
    assert frame["score"].tolist() == pytest.approx([expected] * 2, abs=1e-2)
    assert "no text has its prompts document, query; one is used by --prompts FILE" in frame["roles"]["folder"]


def test_a_row_whose_vectors_order_otherwise_has_no_smaller_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"tasks": "pocket-phrases", "controls": False, "quiet": True, "results": tmp_path}
    benchmark.evaluate("bag-of-words", **options)
    others = lambda *_: lambda texts: np.random.default_rng(0).normal(size=(len(texts), 64))  # noqa: E731
    monkeypatch.setattr("benchmark.checking.sizes._vectors", others)
    with pytest.raises(SystemExit):
        main(["leaderboard", "--results", str(tmp_path), "--dims", "64", "--json"])
    (sizes,) = json.loads(capsys.readouterr().out)["sizes"]
    assert sizes["lines"] == [] and "otherwise than when it was scored" in sizes["missing"]["bag-of-words"]


@pytest.mark.parametrize("rows", [1, 3, 9])
def test_the_picture_has_the_colours_of_the_claims_and_each_encoders_interval(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best, those that may be as good, those below it, and those over the budget; names are no formulas."""
    figure = pytest.importorskip("matplotlib.figure").Figure
    from matplotlib.colors import to_hex

    shown: list[Any] = []
    monkeypatch.setattr(figure, "savefig", lambda self, path, **_: (shown.append(self), Path(path).write_bytes(b"x")))
    names = [f"$model_{place}^x" for place in range(rows)]
    scores = np.linspace(80, 60, rows)
    columns = {"score": scores, "low": scores - 2, "high": scores + 1, "texts_per_second": [np.nan, *scores[1:]]}
    marks: dict[str, Any] = {"may_be_best": np.arange(rows) < 2, "over_budget": ["", "", "too slow", *[""] * 6][:rows]}
    marks["one_training"] = np.zeros(rows, bool)
    drawn(pandas.DataFrame({**columns, **marks}, index=names), "score", tmp_path / "p.png")
    axes = shown[0].axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == names
    bars = [line for line in axes.lines if len(line.get_xdata()) == 2]
    np.testing.assert_allclose([bar.get_xdata() for bar in bars], np.column_stack([columns["low"], columns["high"]]))
    colours = ["#1a7f37", "#6b6b6b", "#a65d00", *["#b3261e"] * 6]
    assert [to_hex(bar.get_color()) for bar in bars] == colours[:rows]
