"""A vector depends on its text and its encoder alone: not on the texts beside it, their order, or threads."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from architectures import ARCHITECTURES
from fakes import sentences
from test_golden import BUILT_IN, corpus_for, small, stated

from tools.same_bits import in_conditions, texts_beside, unlike
from zoo.check import SENTENCES
from zoo.encoder import Encoder, Run, Runtime, Vectors
from zoo.encoding import TESTED, runtimes_changed, untested_forward

TEXTS = [*SENTENCES[:14], "", "a long text of many words " * 30]


def fitted(name: str, backbone: Path) -> Encoder:
    encoder = small(name, backbone, **stated()[name].get("settings", {}))
    if (corpus := corpus_for(encoder)) is not None:
        encoder.fit(corpus, run=Run(seed=0))
    return encoder.adapt(sentences()) if type(encoder).traits(encoder.recipe).transductive else encoder


FEW = ("avg", "prompt", "whitening", "flow", "infersent-words", "isbert", "static")
METHODS = [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in BUILT_IN]


@pytest.mark.parametrize("name", METHODS)
def test_a_vector_is_its_own(name: str, backbone: Path) -> None:
    encoder = fitted(name, backbone)
    texts = list(SENTENCES) if name == "vectors" else TEXTS
    for precision in ("fp32", "bf16"):
        with runtimes_changed(encoder, lambda runtime, to=precision: dataclasses.replace(runtime, precision=to)):  # type: ignore[misc]
            if name == "vectors":
                assert np.array_equal(encoder.encode(texts)[::-1], encoder.encode(texts[::-1]))
                continue
            assert not unlike(encoder, texts, texts_beside(texts)), f"{name} in {precision}"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.slow
@pytest.mark.parametrize("backbone_name", ["zoo-mini", "zoo-small"])
def test_at_the_widths_of_real_models(backbone_name: str, precision: str) -> None:
    """Kernels are chosen by width: 256 and 384 take others than 32."""
    from zoo.methods.pooled import Average, Cls

    for cls in (Average, Cls):
        recipe = cls.Recipe(backbone=backbone_name)
        encoder: Encoder = cls(recipe, Runtime(precision=precision))  # type: ignore[arg-type]
        assert not unlike(encoder, TEXTS, texts_beside(TEXTS)), cls.__name__


def model_folder(kind: str, folder: Path, backbone: Path, width: int = 32) -> Path:
    """A folder of a random model of two layers of a type of the library, with the tokenizer of `backbone`."""
    from transformers import AutoConfig, AutoModel

    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    config = dict(zip(names, (width, 2 * width, 2, 2, 2), strict=True)) | {"head_dim": width // 2, "vocab_size": 30522}
    config |= {"max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 101, "eos_token_id": 102}
    torch.manual_seed(0)
    special = {key: value for key, value in ARCHITECTURES.get(kind, {}).items() if key not in config}
    AutoModel.from_config(AutoConfig.for_model(kind, **special | config)).save_pretrained(folder)
    for path in backbone.glob("*token*"):
        shutil.copy(path, folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(TESTED))
def test_model_types_of_the_library(kind: str, backbone: Path, tmp_path: Path) -> None:
    from zoo.methods.pretrained import Pretrained

    recipe = Pretrained.Recipe(model=str(model_folder(kind, tmp_path, backbone)), pooling="mean")
    for precision in ("fp32", "bf16"):
        encoder = Pretrained(recipe, Runtime(precision=precision))
        assert not untested_forward(encoder)
        assert not unlike(encoder, TEXTS, texts_beside(TEXTS)), f"{kind} in {precision}"


def test_an_untested_model_type_is_said(backbone: Path, tmp_path: Path) -> None:
    from zoo.methods.pretrained import Pretrained

    recipe = Pretrained.Recipe(model=str(model_folder("deberta", tmp_path, backbone)), pooling="mean")
    assert untested_forward(Pretrained(recipe, Runtime())) == "deberta"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_on_a_gpu_vectors_are_near_beside_any_others(precision: str, record_property: Callable[..., None]) -> None:
    """Libraries choose kernels by the shape of a batch there; which conditions have other bits is recorded."""
    from zoo.check import TOLERANCE
    from zoo.methods.pooled import Average

    encoder = Average(Average.Recipe(backbone="zoo-small"), Runtime(device="cuda", precision=precision))
    beside = texts_beside(TEXTS)
    wanted = encoder.encode([*TEXTS, *beside])[: len(TEXTS)]
    for name, vectors in in_conditions(encoder.encode, TEXTS, beside):
        off = np.abs(vectors - wanted).max() / np.linalg.norm(wanted, axis=1).mean()
        record_property(
            name, f"{int((vectors != wanted).any(axis=1).sum())} of {len(TEXTS)} differ, by up to {off:.1e}"
        )
        assert off <= TOLERANCE[precision], name


def test_a_changed_weight_is_noticed() -> None:
    """Packed weights stay with an encoder: a write to them, and a fit that writes without a trace, make them anew."""
    from zoo.encoding import writing_weights
    from zoo.methods.pooled import Average

    encoder = Average(Average.Recipe(backbone="zoo-mini"), Runtime())
    before = encoder.encode(TEXTS[:2])
    weight = encoder.backbone.network.encoder.layer[0].output.dense.weight
    with torch.no_grad():
        weight.mul_(1.5)
    first = encoder.encode(TEXTS[:2])
    assert not np.array_equal(first, before)
    with writing_weights():
        assert np.array_equal(encoder.encode(TEXTS[:2]), first)
        # As a momentum encoder writes: the tensor's version stays.
        weight.data.mul_(1 / 1.5)
        assert np.allclose(encoder.encode(TEXTS[:2]), before, atol=1e-5)
    assert np.allclose(encoder.encode(TEXTS[:2]), before, atol=1e-5)


def trained(name: str, backbone: Path, precision: str, threads: int) -> Vectors:
    """Vectors of an encoder after ten steps with `threads`."""
    before, encoder = torch.get_num_threads(), small(name, backbone)
    corpus = corpus_for(encoder)
    assert corpus is not None
    try:
        torch.set_num_threads(threads)
        with runtimes_changed(encoder, lambda runtime: dataclasses.replace(runtime, precision=precision)):  # type: ignore[arg-type]
            encoder.fit(corpus, run=Run(seed=0))
            return encoder.encode(TEXTS)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["simcse", "sbert", pytest.param("moco", marks=pytest.mark.slow)])
def test_two_trainings_with_as_many_threads_are_equal(name: str, precision: str, backbone: Path) -> None:
    for threads in (1, 2):
        first, again = (trained(name, backbone, precision, threads) for _ in range(2))
        np.testing.assert_array_equal(first, again, f"{threads} threads")
    start = small(name, backbone).encode(TEXTS)
    assert not np.array_equal(first, start), "it was trained"
