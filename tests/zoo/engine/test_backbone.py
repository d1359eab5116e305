"""Finding and loading checkpoints: bundled, folder, hub; never half-loaded, never by pickle unasked."""

from __future__ import annotations

import json
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone, find_backbone
from zoo.errors import CorruptError, MissingError, UsageError, ZooError
from zoo.methods.pooled import Cls

RUNTIME = Runtime()


def weights_to_pickle(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def test_bundled_backbone_is_found_by_name() -> None:
    source = find_backbone("zoo-mini")
    assert (source.name, source.location) == ("zoo-mini", "zoo-mini")
    assert (source.folder / "model.safetensors").is_file()
    assert set(source.identity()) == {"name", "revision", "sha256"}


def test_a_folder_is_found_its_identity_does_not_name_it(tiny_bert: Path, copied: Path) -> None:
    first, second = find_backbone(str(tiny_bert)), find_backbone(str(copied))
    assert first.sha256 == second.sha256
    assert str(tiny_bert.parent) not in json.dumps(first.identity())


def test_loaded_states_are_those_of_transformers(tiny_bert: Path) -> None:
    backbone = Backbone.load(str(tiny_bert), None, RUNTIME)
    ids = torch.tensor([[101, 1037, 2235, 102]])
    with torch.inference_mode():
        wanted = AutoModel.from_pretrained(tiny_bert).eval()(ids).last_hidden_state
        torch.testing.assert_close(backbone.model(ids).last_hidden_state, wanted, rtol=0, atol=1e-6)
    assert not backbone.model.training
    assert (backbone.dim, backbone.max_length) == (32, 512)


def test_roberta_positions_start_after_the_padding_row(tiny_roberta: Path) -> None:
    """The longest allowed text runs; one token more does not."""
    backbone = Backbone.load(str(tiny_roberta), None, RUNTIME)
    assert backbone.max_length == 128
    with torch.inference_mode():
        backbone.model(torch.full((1, 128), 7))
        with pytest.raises((IndexError, RuntimeError)):
            backbone.model(torch.full((1, 129), 7))


@pytest.mark.usefixtures("no_network")
def test_a_missing_hub_model_offline_is_told_with_the_remedy() -> None:
    with pytest.raises(MissingError) as caught:
        find_backbone("nobody/no-such-model")
    for words in ("nobody/no-such-model", "HF_HUB_OFFLINE", "hf download nobody/no-such-model", "zoo-small", "cache"):
        assert words in str(caught.value)


def test_the_reason_names_no_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes into records, and they are published."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(Path.home() / "some" / "hub"))
    with pytest.raises(MissingError, match="not in the hub cache ~") as caught:
        find_backbone("nobody/nothing-of-this-name")
    assert str(Path.home()) not in str(caught.value)


def test_an_unreachable_hub_is_asked_once_and_told_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def unreachable(*_: object, **__: object) -> None:
        asked.append(1)
        raise ConnectionError("no route to host")

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail(f"waits for {seconds} s"))
    with pytest.raises(MissingError, match="no route to host") as caught:
        find_backbone("nobody/no-such-model", "v2")
    assert asked == [1]
    assert "revision v2" in str(caught.value) and "hf download" in str(caught.value)


def test_a_folder_without_model_is_told(tmp_path: Path, copied: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingError, match=r"no config\.json"):
        find_backbone(str(tmp_path / "empty"))
    (copied / "model.safetensors").unlink()
    with pytest.raises(MissingError, match="no weights"):
        find_backbone(str(copied))


def test_pickle_is_refused_unless_allowed_same_vectors_then(tiny_bert: Path, copied: Path) -> None:
    weights_to_pickle(copied)
    with pytest.raises(UsageError, match="--allow-pickle"):
        Cls(Cls.Recipe(backbone=str(copied)), RUNTIME)
    loaded = Cls(Cls.Recipe(backbone=str(copied)), Runtime(allow_pickle=True))
    original = Cls(Cls.Recipe(backbone=str(tiny_bert)), RUNTIME)
    np.testing.assert_array_equal(loaded.encode(["a dog"]), original.encode(["a dog"]))


@pytest.mark.parametrize("beside", ["1_Dense/model.safetensors", "onnx/model.safetensors", "adapter.safetensors"])
def test_pickle_weights_are_refused_whatever_lies_beside_them(copied: Path, beside: str) -> None:
    weights_to_pickle(copied)
    (copied / beside).parent.mkdir(exist_ok=True)
    save_file({"x": torch.zeros(1)}, copied / beside)
    with pytest.raises(ZooError):
        Cls(Cls.Recipe(backbone=str(copied)), RUNTIME)


def test_pickle_that_runs_code_does_not_run_even_when_allowed(copied: Path, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "ran",)

    torch.save({"embeddings.word_embeddings.weight": Evil()}, copied / "pytorch_model.bin")
    (copied / "model.safetensors").unlink()
    with pytest.raises(CorruptError, match="cannot be loaded"):
        Cls(Cls.Recipe(backbone=str(copied)), Runtime(allow_pickle=True))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.99])
def test_truncated_weights_are_told_by_folder(copied: Path, keep: float) -> None:
    path = copied / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(CorruptError, match="cannot be loaded") as caught:
        Backbone.load(str(copied), None, RUNTIME)
    assert str(copied) in str(caught.value)


def test_missing_weights_are_named_not_made_up(copied: Path) -> None:
    weights = load_file(copied / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, copied / "model.safetensors", {"format": "pt"})
    with pytest.raises(CorruptError, match=r"lacks 1 weights, first .*encoder\.layer\.1\.output\.dense\.weight"):
        Backbone.load(str(copied), None, RUNTIME)


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module."])
def test_wrapped_weights_are_named_with_a_remedy(copied: Path, prefix: str) -> None:
    file = copied / "model.safetensors"
    wrapped = {prefix + name: weight for name, weight in load_file(file).items()}
    save_file(wrapped, file, {"format": "pt"})
    with pytest.raises(CorruptError, match=f"are named {prefix}") as caught:
        Backbone.load(str(copied), None, RUNTIME)
    printed = str(caught.value).partition("safetensors.torch: ")[2].removesuffix(".")
    eval(printed, {"save_file": save_file, "load_file": load_file, "FILE": file})
    Backbone.load(str(copied), None, RUNTIME)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json", "tokenizer_config.json"])
def test_identity_changes_with_a_byte_of_any_loaded_file(copied: Path, name: str) -> None:
    before = find_backbone(str(copied)).sha256
    content = bytearray((copied / name).read_bytes())
    content[-1] ^= 1
    (copied / name).write_bytes(bytes(content))
    assert find_backbone(str(copied)).sha256 != before


def test_identity_ignores_what_is_not_loaded(copied: Path) -> None:
    before = find_backbone(str(copied)).sha256
    (copied / "README.md").write_text("words", encoding="utf-8")
    (copied / "onnx").mkdir()
    (copied / "onnx" / "model.bin").write_bytes(b"x")
    assert find_backbone(str(copied)).sha256 == before


def test_an_untrained_backbone_is_only_named_and_comes_back(tiny_bert: Path, tmp_path: Path) -> None:
    backbone = Backbone.load(str(tiny_bert), None, RUNTIME)
    (tmp_path / "saved").mkdir()
    backbone.save(tmp_path / "saved", trained=False)
    assert [p.name for p in (tmp_path / "saved").iterdir()] == ["backbone.json"]
    assert Backbone.restore(tmp_path / "saved", RUNTIME).weights_sha256() == backbone.weights_sha256()


def test_a_trained_backbone_comes_back_without_its_origin(copied: Path, tmp_path: Path) -> None:
    backbone = Backbone.load(str(copied), None, RUNTIME)
    with torch.no_grad():
        backbone.model.embeddings.word_embeddings.weight.add_(0.5)
    saved = tmp_path / "saved"
    saved.mkdir()
    backbone.save(saved, trained=True)
    for path in copied.iterdir():
        path.unlink()
    copied.rmdir()
    restored = Backbone.restore(saved, RUNTIME)
    assert restored.weights_sha256() == backbone.weights_sha256()
    text = "A dog, UNKNOWNISH words & naïve ones"
    assert restored.tokenizer(text)["input_ids"] == backbone.tokenizer(text)["input_ids"]
    assert not [p for p in saved.rglob("*") if p.suffix in (".bin", ".pt", ".pkl")]


def test_an_untrained_backbone_whose_origin_changed_is_refused(copied: Path, tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    Backbone.load(str(copied), None, RUNTIME).save(tmp_path / "saved", trained=False)
    weights = load_file(copied / "model.safetensors")
    save_file({name: tensor * 2 for name, tensor in weights.items()}, copied / "model.safetensors", {"format": "pt"})
    with pytest.raises(CorruptError, match="is not the one"):
        Backbone.restore(tmp_path / "saved", RUNTIME)
