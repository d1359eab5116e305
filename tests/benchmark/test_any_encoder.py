"""Encoders of every kind, from every thread, with options that are checked, and what comes back of them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import benchmark
from benchmark.run.objects import ObjectEncoder
from benchmark.run.options import RunOptions
from zoo.errors import ContractError, UsageError, ZooError
from zoo.plugins import method_identity

WORDS: dict[str, Any] = {"tasks": "pocket-words", "precision": "fp32", "embedding_cache": 0.0, "quiet": True}


def lengths(texts: list[str]) -> Any:
    return np.array([[len(text), text.count("a"), 1.0] for text in texts])


def score(encoder: Any, **more: Any) -> float:
    return float(benchmark.evaluate(encoder, **WORDS, **more).records[0]["scores"]["main"])  # type: ignore[index]


def powers(n: int, texts: list[str]) -> Any:
    return lengths(texts) ** n


class Holder:
    """An object with `encode` and nothing else."""

    def encode(self, sentences: list[str]) -> Any:
        return [torch.tensor(row, requires_grad=True) for row in lengths(sentences)]


def client(texts: list[str]) -> list[list[float]]:
    """As a client of an API: it gives lists of numbers."""
    rows: list[list[float]] = lengths(texts).tolist()
    return rows


@pytest.fixture(scope="module")
def wanted() -> float:
    return score(lengths)


def test_an_object_and_a_client_score_as_their_function(wanted: float) -> None:
    assert score(Holder()) == score(client) == wanted


@pytest.mark.parametrize(
    ("encoder", "error"),
    [
        (lambda texts: lengths(texts)[: 200 if len(texts) > 16 else None], ZooError),
        (lambda texts: lengths(texts)[:, : 2 if len(texts) > 16 else 3], ZooError),
        (lambda texts: "none", ContractError),
        (lambda texts: lengths(texts).astype(np.int8), UsageError),
    ],
)
def test_what_is_wrong_in_one_batch_names_the_encoder(encoder: Any, error: Any) -> None:
    with pytest.raises(error, match="mine"):
        benchmark.evaluate(encoder, name="mine", **WORDS)


@pytest.mark.slow
def test_a_hugging_face_model_is_mean_pooled_and_that_is_said(tiny_bert: Path) -> None:
    from transformers import AutoModel, AutoTokenizer, pipeline

    model, tokenizer = AutoModel.from_pretrained(tiny_bert).float(), AutoTokenizer.from_pretrained(tiny_bert)
    results = benchmark.evaluate((model, tokenizer), **WORDS)
    (condition,) = results.to_frame()["Conditions"]
    assert condition == f"{tiny_bert.name}, mean pooling, fp32"
    assert "run_by" not in results.records[0]["facts"], "the engine runs it"
    assert results.records[0]["method"]["name"] == tiny_bert.name
    recipe = score(f"avg-last:backbone={tiny_bert}")
    assert results.records[0]["scores"]["main"] == recipe  # type: ignore[index]
    assert score(pipeline("feature-extraction", model=model, tokenizer=tokenizer)) == recipe
    changed = model.forward
    model.forward = lambda **inputs: changed(**{**inputs, "token_type_ids": 1 - inputs["token_type_ids"]})
    other = benchmark.evaluate((tokenizer, model), **WORDS).records[0]  # what a patched model gives, not its files
    assert other["facts"]["run_by"] == "transformers" and other["scores"]["main"] != recipe  # type: ignore[index]
    for half in (model, tokenizer):
        with pytest.raises(UsageError, match=r"\(model, tokenizer\)"):
            benchmark.evaluate(half, **WORDS)
    with pytest.raises(UsageError, match=r"training mode.*\.eval\(\)"):
        benchmark.evaluate((model.train(), tokenizer), **WORDS)


class Module(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.dropout = torch.nn.Linear(3, 4), torch.nn.Dropout(0.5)

    def forward(self, texts: list[str]) -> torch.Tensor:
        rows: torch.Tensor = self.dropout(self.linear(torch.tensor(lengths(texts), dtype=torch.float32)))
        return rows


def test_a_module_in_training_mode_is_told_the_remedy() -> None:
    module = Module()
    for encoder in (module, module.forward):
        with pytest.raises(UsageError, match=r"Module is in training mode.*call \.eval\(\)"):
            benchmark.evaluate(encoder, **WORDS)
    assert -1 <= score(module.eval()) <= 1


def test_a_cross_encoder_has_no_vectors() -> None:
    cross = type("CrossEncoder", (Module,), {"__module__": "sentence_transformers.cross_encoder"})
    with pytest.raises(UsageError, match="scores pairs"):
        benchmark.evaluate(cross(), **WORDS)


@pytest.mark.slow
def test_several_encoders_share_a_table(wanted: float, tmp_path: Path) -> None:
    results = benchmark.evaluate({"mine": lengths, "its": Holder(), "drawn": "random:dim=8"}, seeds=2, **WORDS)
    frame = results.to_frame()
    drawn = "drawn (random:dim=8)"
    assert set(frame.index) == {"mine", "its", drawn} and frame.loc["mine", "pocket-words"] == 100 * wanted
    assert frame["Seeds"].to_dict() == {"mine": 1, "its": 1, drawn: 2}
    first, second = (100 * r["scores"]["main"] for r in results.records if r["method"]["name"] == "drawn")  # type: ignore[index]
    assert frame.loc[drawn, "pocket-words sd"] == pytest.approx(np.std([first, second], ddof=1))
    assert np.isnan(frame.loc["mine", "pocket-words sd"])  # type: ignore[arg-type]
    listed = benchmark.evaluate(["random", lengths], results=tmp_path, **WORDS)
    assert set(listed.to_frame().index) == {"random", "lengths"}
    plain = benchmark.evaluate({"a": "random", "b": "static-avg"}, results=tmp_path, **WORDS)
    assert set(plain.to_frame().index) == {"a (random)", "b (static-avg)"}
    for wrong, more, message in (
        ([lengths, lengths], {}, "two encoders are called 'lengths'; give a dict"),
        ([lengths, Holder()], {"name": "x"}, "name several by a dict"),
        ([], {}, "no encoder is given"),
        ({"x": "random,bag-of-words", "y": lengths}, {}, "'x' names 2 recipes"),
    ):
        with pytest.raises(UsageError, match=message):
            benchmark.evaluate(wrong, **WORDS, **more)


@pytest.mark.parametrize("name", ["simcsee", "random:dimm=8", "no-*"])
def test_a_wrong_recipe_beside_an_object_is_named_before_data_is_read(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr("benchmark.run.prepare.load_tasks", lambda names, *_: read.extend(names))
    with pytest.raises(UsageError, match=re.escape(name.partition(":")[0])):
        benchmark.evaluate({"a": name, "b": lengths}, **WORDS)
    assert not read


def test_the_identity_of_an_object_holds_no_file_of_this_project() -> None:
    assert method_identity(ObjectEncoder) == f"object, version {ObjectEncoder.version}"


@pytest.mark.slow
def test_only_the_tasks_that_were_asked_for_have_columns(data_dir: Path) -> None:
    asked = {**WORDS, "tasks": "STS-B", "limit": 20, "data": data_dir}
    single = benchmark.evaluate(lengths, **asked)
    assert single.to_frame().columns.tolist() == ["STS-B", "Seeds", "Conditions"]
    for shown in (str(single), single._repr_html_()):
        assert "n/a" not in shown and "Avg." not in shown and "STS-B (of STS12-16" in shown
    two = benchmark.evaluate(lengths, **{**asked, "tasks": ["STS-B", "SICK-R"]})
    assert two.to_frame().columns.tolist() == ["STS-B", "SICK-R", "Avg.", "Seeds", "Conditions"]
    several = benchmark.evaluate(lengths, **{**WORDS, "tasks": "pocket"})
    assert "Avg." in several.to_frame().columns and "Avg." in str(several)


def test_a_result_shows_itself_in_a_few_lines(tmp_path: Path) -> None:
    results = benchmark.evaluate({f"row {n}": functools.partial(powers, n) for n in range(1, 13)}, **WORDS)
    assert len(repr(results)) < 1200 and "row 1" in repr(results) and "... and 2 more rows" in repr(results)
    results.save(tmp_path)
    assert len(repr(benchmark.leaderboard(tmp_path))) < 2500


def test_options_are_named_for_editors_and_a_typo_is_said() -> None:
    shown = inspect.signature(benchmark.evaluate).parameters
    hidden = {one.name for one in dataclasses.fields(RunOptions)} - shown.keys()
    assert hidden == {"methods", "suites", "file"}
    assert shown["seeds"].default is None and "options" not in shown
    evaluate: Callable[..., Any] = benchmark.evaluate
    with pytest.raises(UsageError, match=r"evaluate has no option 'sedes'\. Did you mean 'seeds'\?"):
        evaluate("random", sedes=2)
