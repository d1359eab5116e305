"""The options of encode(), `similarity`, `to`, `repr` and the number of parameters: every encoder has them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoModel

import zoo
from zoo.encoder import NLI_LABELS, PHRASE_LABELS, Encoder, Runtime
from zoo.errors import ContractError, UsageError
from zoo.recipes import all_recipes
from zoo.selection import split_overrides

TEXTS = ["a small dog", "rain", "the old lamp in the garden burns", "rain", ""]


class Counting(Encoder):
    """An encoder as a plugin writes it, whose encode() takes texts alone."""

    Recipe = dict
    dim = 2

    def __init__(self, recipe: Any, runtime: Runtime) -> None:
        super().__init__(recipe, runtime)
        self.calls: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> Any:
        self.calls.append(list(texts))
        return np.array([[len(text), text.count("a")] for text in texts], np.float32).reshape(-1, 2)

    def save(self, folder: Any) -> None: ...

    @classmethod
    def load(cls, folder: Any, runtime: Any = None) -> Any: ...

    def fingerprint(self) -> str:
        return ""


def test_batches_are_small_and_rows_keep_their_order() -> None:
    encoder = Counting({}, Runtime())
    vectors = encoder.encode(TEXTS, batch_size=2)
    assert [len(call) for call in encoder.calls] == [2, 2, 1] and encoder.calls[0] == TEXTS[:2]
    np.testing.assert_array_equal(vectors, encoder.encode(TEXTS))
    assert encoder.calls[-1] == TEXTS, "without options it is called as it is"
    assert encoder.encode([], batch_size=2).shape == (0, 2)
    for wrong in (0, -1, 2.0, True):
        with pytest.raises(UsageError, match="batch_size is"):
            encoder.encode(TEXTS, batch_size=wrong)
    with pytest.raises(TypeError, match="batchsize"):
        encoder.encode(TEXTS, batchsize=2)


def test_vectors_are_normalised_and_a_zero_vector_stays() -> None:
    encoder = Counting({}, Runtime())
    assert np.linalg.norm(encoder.encode(TEXTS, normalize_embeddings=True), axis=1) == pytest.approx([1, 1, 1, 1, 0])
    cosines = encoder.similarity(encoder.encode(TEXTS), encoder.encode(TEXTS[:1])[0])
    assert cosines.shape == (5, 1) and cosines[0, 0] == pytest.approx(1) and cosines[4, 0] == 0
    assert cosines.dtype == np.float32


def test_progress_is_shown_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("avg-last", "whitening:base=avg-last"):
        encoder = zoo.create(name)
        if name != "avg-last":
            encoder = encoder.base  # type: ignore[attr-defined]  # of a method inside another
        shown: list[str] = []
        monkeypatch.setattr("zoo.progress.Progress.bar", _bar(shown))
        encoder.encode(TEXTS)
        assert not shown
        encoder.encode(TEXTS, show_progress_bar=True)
        encoder.encode(TEXTS, show_progress_bar=True, batch_size=2)
        assert {*shown} == {"tokenising", "encoding"} and shown.count("encoding") == 2
        assert not encoder.runtime.progress.enabled


def _bar(shown: list[str]) -> Any:
    from contextlib import contextmanager

    from zoo.progress import Bar

    @contextmanager
    def bar(self: Any, what: str, total: int) -> Any:
        if self.enabled:
            shown.append(what)
        yield Bar()

    return bar


def test_an_encoder_says_what_it_is() -> None:
    encoder = zoo.create("simcse:temperature=0.1")
    assert repr(encoder) == f"SimCSE(temperature=0.1): {encoder.dim} dimensions, cpu, fp32"
    assert repr(Counting({}, Runtime(precision="bf16"))) == "Counting(): 2 dimensions, cpu, bf16"
    assert list(inspect.signature(encoder.encode).parameters) == [
        "texts",
        "batch_size",
        "device",
        "show_progress_bar",
        "normalize_embeddings",
    ]


def test_methods_keep_their_vectors_under_every_option() -> None:
    for name in ("avg-last", "static-avg", "random", "bag-of-words", "pretrained:model=zoo-mini:pooling=mean"):
        encoder = zoo.create(name)
        plain = encoder.encode(TEXTS)
        many = encoder.encode(TEXTS, batch_size=2, device="cpu", show_progress_bar=False, normalize_embeddings=False)
        np.testing.assert_allclose(many, plain, atol=1e-5)
        with pytest.raises(ContractError, match=r"encode\(\[text\]\)"):
            encoder.encode("one text", batch_size=2)


def test_a_device_that_is_not_there_is_said() -> None:
    with pytest.raises(UsageError, match="only cpu, cuda and mps are supported"):
        zoo.create("random").to("meta")


def test_no_label_means_two_things() -> None:
    assert not set(NLI_LABELS) & set(PHRASE_LABELS)


def parameters(name: str, **changes: Any) -> int:
    cls, recipe = all_recipes()[split_overrides(name, "test")[0]].resolve(changes)
    return cls(recipe, Runtime()).parameters()


@pytest.mark.parametrize("name", ["cls", "avg-last", "simcse", "prompt"])
def test_a_backbone_counts_whole(name: str, tiny_bert: Path) -> None:
    model = AutoModel.from_pretrained(tiny_bert, add_pooling_layer=False)
    assert parameters(name, backbone=str(tiny_bert)) == sum(p.numel() for p in model.parameters())


def test_a_map_comes_on_top_and_a_matrix_counts_alone(tiny_bert: Path) -> None:
    model = AutoModel.from_pretrained(tiny_bert, add_pooling_layer=False)
    width = model.config.hidden_size
    model_size = sum(p.numel() for p in model.parameters())
    assert parameters("whitening-full", backbone=str(tiny_bert)) == model_size + width + width * width
    assert parameters("static-avg", backbone=str(tiny_bert)) == model.config.vocab_size * width
    assert parameters("bag-of-words") == parameters("random") == 0
    glove = all_recipes()["glove"]
    cls, recipe = glove.resolve({})
    assert cls(recipe, Runtime()).parameters() == 400_000 * 50
