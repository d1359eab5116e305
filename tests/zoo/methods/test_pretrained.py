"""Finished encoders, measured as they are: equal to what sentence-transformers makes of the same folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentence_transformers as st
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers.sentence_transformer import modules

from zoo.conformance import check
from zoo.encoder import Runtime
from zoo.errors import CorruptError, UsageError, ZooError
from zoo.methods.pooled import Average, Cls
from zoo.methods.pretrained import Pretrained

GOLDEN = {
    "pretrained": {
        "version": 2,
        "settings": {"pooling": "mean"},
        "values": [-1.0, 0.5516, -0.2157, 0.3331, 0.5266, -0.5792, -0.7365, 1.0],
    }
}

TEXTS = ["A small dog runs.", "rain", "The Committee POSTPONED its decision.", "rain", "word " * 100]


def ours(folder: Path, **recipe: Any) -> Pretrained:
    return Pretrained(Pretrained.Recipe(model=str(folder), **recipe), Runtime())


def library(folder: Path) -> Any:
    return st.SentenceTransformer(str(folder), device="cpu").encode(TEXTS, show_progress_bar=False)


def build(folder: Path, tiny_bert: Path, *after: Any, mode: str = "mean", max_seq_length: int | None = None) -> Path:
    """A sentence-transformers folder on the tiny BERT, saved by the library itself."""
    torch.manual_seed(2)
    transformer = modules.Transformer(str(tiny_bert), max_seq_length=max_seq_length)
    model = st.SentenceTransformer(modules=[transformer, modules.Pooling(32, pooling_mode=mode), *after], device="cpu")
    model.save(str(folder))
    return folder


def assert_same(folder: Path) -> Pretrained:
    encoder = ours(folder)
    wanted = library(folder)
    vectors = encoder.encode(TEXTS)
    assert vectors.dtype == np.float32 and vectors.shape == (len(TEXTS), encoder.dim)
    np.testing.assert_allclose(vectors, wanted, atol=1e-5)
    return encoder


@pytest.mark.slow
def test_released_minilm_gives_the_librarys_vectors(minilm: Path) -> None:
    encoder = assert_same(minilm)
    assert encoder.library is None and encoder.length_limit == 256
    np.testing.assert_allclose(np.linalg.norm(encoder.encode(TEXTS), axis=1), 1, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["cls", "mean", "max", "lasttoken", "weightedmean"])
def test_every_pooling_gives_the_librarys_vectors(tiny_bert: Path, tmp_path: Path, mode: str) -> None:
    encoder = assert_same(build(tmp_path / "m", tiny_bert, mode=mode))
    assert (encoder.library is None) is (mode in ("cls", "mean", "max"))


@pytest.mark.slow
def test_dense_and_normalize_give_the_librarys_vectors(tiny_bert: Path, tmp_path: Path) -> None:
    dense = modules.Dense(32, 12), modules.Dense(12, 20, bias=False, activation_function=torch.nn.Identity())
    encoder = assert_same(build(tmp_path / "m", tiny_bert, *dense, modules.Normalize()))
    assert encoder.dim == 20 and encoder.library is None


def test_what_follows_the_pooling_is_the_librarys_own(tiny_bert: Path, tmp_path: Path) -> None:
    dense = modules.Dense(32, 32, activation_function=torch.nn.GELU(), use_residual=True)
    assert assert_same(build(tmp_path / "m", tiny_bert, dense, modules.LayerNorm(32))).library is None


@pytest.mark.slow
def test_a_model_that_the_library_runs_keeps_the_contract(tiny_bert: Path, tmp_path: Path) -> None:
    folder = build(tmp_path / "m", tiny_bert, mode="lasttoken")
    assert assert_same(folder).facts() == {"run_by": "sentence-transformers"}
    findings = check(Pretrained, Pretrained.Recipe(model=str(folder)), Runtime(), "foreign")
    assert {what: wrong for what, wrong in findings if wrong} == {}


@pytest.mark.slow
@pytest.mark.parametrize("limit", [None, 16, 64])
def test_long_texts_are_cut_where_the_library_cuts_them(tiny_bert: Path, tmp_path: Path, limit: int | None) -> None:
    encoder = assert_same(build(tmp_path / "m", tiny_bert, max_seq_length=limit))
    assert encoder.length_limit == (limit or 512)


def test_a_model_without_transformer_goes_through_the_library(tiny_bert: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    static = modules.StaticEmbedding(tokenizer, embedding_dim=8)
    st.SentenceTransformer(modules=[static], device="cpu").save(str(tmp_path / "m"))
    encoder = assert_same(tmp_path / "m")
    cost = encoder.encoding_stats()
    assert encoder.dim == 8 and cost["texts"] == len(set(TEXTS)) and cost["seconds"] > 0


def in_subfolder(folder: Path) -> Path:
    """Move the transformer where older releases keep it."""
    (folder / "0_Transformer").mkdir()
    for path in folder.iterdir():
        if path.is_file() and path.name not in ("modules.json", "config_sentence_transformers.json", "README.md"):
            shutil.move(path, folder / "0_Transformer" / path.name)
    listed = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    listed[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(listed), encoding="utf-8")
    return folder


def test_a_transformer_in_a_subfolder_loads_and_saves(tiny_bert: Path, tmp_path: Path) -> None:
    folder = in_subfolder(build(tmp_path / "m", tiny_bert))
    encoder = assert_same(folder)
    encoder.save(tmp_path / "saved")
    loaded = Pretrained.load(tmp_path / "saved")
    assert loaded.fingerprint() == encoder.fingerprint()
    np.testing.assert_array_equal(loaded.encode(TEXTS), encoder.encode(TEXTS))


def test_lower_casing_of_the_folder_is_kept(tiny_cased: Path, tmp_path: Path) -> None:
    folder = build(tmp_path / "m", tiny_cased)
    path = folder / "sentence_bert_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**settings, "do_lower_case": True}), encoding="utf-8")
    assert_same(folder)


@pytest.mark.slow
def test_a_plain_checkpoint_needs_a_pooling_and_then_has_it(tiny_bert: Path) -> None:
    with pytest.raises(UsageError, match=r"pooling=mean \(or cls") as caught:
        ours(tiny_bert)
    assert caught.value.exit_code == 2 and str(tiny_bert) in str(caught.value)
    cls = Cls(Cls.Recipe(backbone=str(tiny_bert)), Runtime())
    np.testing.assert_array_equal(ours(tiny_bert, pooling="cls").encode(TEXTS), cls.encode(TEXTS))
    for layers in ("top2", "first-last-h0", "first-last-h1"):
        average = Average(Average.Recipe(backbone=str(tiny_bert), layers=layers), Runtime())
        np.testing.assert_array_equal(ours(tiny_bert, pooling=layers).encode(TEXTS), average.encode(TEXTS))


@pytest.mark.parametrize("kind", ["my_package.Normalize", "custom_st.Transformer"])
def test_foreign_code_is_not_taken_for_the_stock_module(tiny_bert: Path, tmp_path: Path, kind: str) -> None:
    folder = build(tmp_path / "m", tiny_bert, modules.Normalize())
    listed = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    listed[0 if kind.endswith("Transformer") else 2]["type"] = kind
    (folder / "modules.json").write_text(json.dumps(listed), encoding="utf-8")
    with pytest.raises(ZooError):
        ours(folder).encode(TEXTS)


def pickled_dense(folder: Path, factor: float = 1.0) -> None:
    weights = {"linear.weight": torch.eye(32) * factor, "linear.bias": torch.zeros(32)}
    torch.save(weights, folder / "2_Dense" / "pytorch_model.bin")


def test_a_pickled_module_is_refused_unless_allowed(tiny_bert: Path, tmp_path: Path) -> None:
    folder = build(tmp_path / "m", tiny_bert, modules.Dense(32, 32))
    (folder / "2_Dense" / "model.safetensors").unlink()
    pickled_dense(folder)
    with pytest.raises(UsageError, match="--allow-pickle"):
        ours(folder)


def test_a_pickled_module_runs_no_code_even_when_allowed(tiny_bert: Path, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "ran",)

    folder = build(tmp_path / "m", tiny_bert, modules.Dense(32, 32))
    (folder / "2_Dense" / "model.safetensors").unlink()
    torch.save({"linear.weight": Evil()}, folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(CorruptError, match="cannot be loaded"):
        Pretrained(Pretrained.Recipe(model=str(folder)), Runtime(allow_pickle=True))
    assert not (tmp_path / "ran").exists()


def edited(path: Path, **values: Any) -> None:
    stated = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.write_text(json.dumps({**stated, **values}), encoding="utf-8")


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_folder_that_pads_on_the_left_is_padded_on_the_right_and_its_row_says_so(
    tiny_bert: Path, tmp_path: Path, side: str
) -> None:
    """BERT's positions are absolute: padded on the left, a text's vector would depend on the longest of its batch."""
    plain = ours(build(tmp_path / "plain", tiny_bert))
    folder = build(tmp_path / "padded", tiny_bert)
    edited(next(folder.rglob("tokenizer_config.json")), padding_side=side)
    encoder = ours(folder)
    np.testing.assert_array_equal(encoder.encode(TEXTS), plain.encode(TEXTS))
    np.testing.assert_array_equal(np.concatenate([encoder.encode([text]) for text in TEXTS]), plain.encode(TEXTS))
    assert ("padded on the right" in str(encoder.roles)) == (side == "left")


SETTINGS: dict[str, dict[str, Any]] = {
    "sentence_roberta_config.json": {"max_seq_length": 16},
    "tokenizer_args": {"model_max_length": 12},
    "processing_kwargs": {"text": {"max_length": 9, "truncation": True}},
    "processor_kwargs": {"truncation_side": "left", "model_max_length": 9},
    "config_args": {"hidden_act": "relu"},
    "modality_config": {"text": {"method": "forward", "method_output_name": "pooler_output"}},
    "truncate_dim": {},
    "default_prompt_name": {},
}


@pytest.mark.parametrize("key", SETTINGS)
def test_every_setting_of_a_folder_counts_as_in_the_library(tiny_bert: Path, tmp_path: Path, key: str) -> None:
    """Settings that an own reader of these folders once ignored, and the wrong vectors were scored."""
    folder = build(tmp_path / "m", tiny_bert)
    before = library(folder)
    transformer, model = folder / "sentence_bert_config.json", folder / "config_sentence_transformers.json"
    if key.endswith(".json"):
        transformer.rename(folder / key)
        edited(folder / key, **SETTINGS[key])
    elif key == "truncate_dim":
        edited(model, truncate_dim=8)
    elif key == "default_prompt_name":
        edited(model, prompts={"query": "query: "}, default_prompt_name="query")
    else:
        more = {"module_output_name": "sentence_embedding"} if key == "modality_config" else {}
        edited(transformer, **{key: SETTINGS[key]}, **more)
        if key == "modality_config":
            listed = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
            (folder / "modules.json").write_text(json.dumps(listed[:1]), encoding="utf-8")
    vectors = assert_same(folder).encode(TEXTS)
    assert vectors.shape != before.shape or not np.allclose(vectors, before, atol=1e-3)


@pytest.mark.parametrize("wrong", ["missing layer", "own activation"])
def test_a_damaged_or_other_folder_is_one_sentence(tiny_bert: Path, tmp_path: Path, wrong: str) -> None:
    folder = build(tmp_path / "m", tiny_bert, modules.Dense(32, 12))
    weights = folder / "model.safetensors"
    if wrong == "missing layer":
        kept = {name: tensor for name, tensor in load_file(weights).items() if "layer.1." not in name}
        save_file(kept, weights, {"format": "pt"})
    else:
        edited(folder / "2_Dense" / "config.json", activation_function="mypkg.nn.Swish2")
    with pytest.raises(ZooError, match=str(folder)) as caught:
        ours(folder)
    assert "\n" not in str(caught.value)


def test_a_router_is_run_by_the_library(tiny_bert: Path, tmp_path: Path) -> None:
    parts = [modules.Transformer(str(tiny_bert)), modules.Pooling(32)]
    router = modules.Router.for_query_document(query_modules=parts, document_modules=parts, default_route="document")
    folder = tmp_path / "m"
    st.SentenceTransformer(modules=[router], device="cpu").save(str(folder))
    assert assert_same(folder).library is not None


@pytest.mark.parametrize("kind", ["t5", "bart", "xlnet"])
def test_other_architectures_give_the_librarys_vectors(kind: str, tiny_bert: Path, tmp_path: Path) -> None:
    """With a decoder or without a table of positions; a plain checkpoint with a decoder is its encoder."""
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    sizes: dict[str, Any] = {"vocab_size": 30522, "d_model": 32, "pad_token_id": 0}
    sizes |= {
        "t5": {"d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2},
        "bart": {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2},
        "xlnet": {"n_layer": 1, "n_head": 2, "d_inner": 32},
    }[kind]
    torch.manual_seed(0)
    model = AutoModel.from_config(AutoConfig.for_model(kind, **sizes))
    model.save_pretrained(tmp_path / "plain")
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path / "plain")
    assert_same(build(tmp_path / "m", tmp_path / "plain"))
    plain = ours(tmp_path / "plain", pooling="mean")
    vectors = plain.encode(TEXTS[:2])
    if kind == "bart":
        ids = plain.backbone.tokenizer(TEXTS[:1], return_tensors="pt", return_token_type_ids=False)
        wanted = model.eval().encoder(**ids).last_hidden_state.mean(1).detach().numpy()
        np.testing.assert_allclose(vectors[:1], wanted, atol=1e-5)
    plain.backbone.write_checkpoint(tmp_path / "again")
    np.testing.assert_array_equal(ours(tmp_path / "again", pooling="mean").encode(TEXTS[:2]), vectors)
