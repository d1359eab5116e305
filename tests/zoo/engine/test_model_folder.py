"""A model folder is judged before anything of it is loaded: its code, its index, its modules, its tokenizer."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone, check_backbone, find_backbone
from zoo.errors import CorruptError, MissingError, UsageError, ZooError
from zoo.files import sha256_file, write_sums
from zoo.formats.sentence_transformers import Layout
from zoo.methods.pooled import Cls
from zoo.methods.pretrained import Pretrained

ROOT = Path(__file__).resolve().parents[3]


def change(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **values}), encoding="utf-8")


def load(folder: Path) -> Backbone:
    return Backbone.load(str(folder), None, Runtime())


@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize("key", ["num_hidden_layers", "num_attention_heads", "hidden_size", "vocab_size"])
def test_a_configuration_of_nothing_is_refused(copied: Path, key: str, value: int) -> None:
    change(copied / "config.json", **{key: value})
    for meet in (lambda: check_backbone(str(copied), None, Runtime()), lambda: load(copied)):
        with pytest.raises(CorruptError, match=rf"config\.json says {key} {value} \(expected >= 1\); fetch"):
            meet()


def test_no_call_may_run_a_models_own_code() -> None:
    """In the whole source: each from_pretrained says on its own line that the folder's code is refused."""
    lines = [line for room in ("zoo", "benchmark") for file in (ROOT / room).rglob("*.py") for line in open(file)]  # noqa: SIM115, PTH123
    calls = [line for line in lines if "from_pretrained(" in line and not line.lstrip().startswith(('"', "#", "'"))]
    calls = [line for line in calls if "torch.nn.EmbeddingBag." not in line]  # it loads no folder, but a tensor
    assert calls, "the helper is gone"
    assert all("trust_remote_code=False" in line or "`" in line for line in calls), calls


@pytest.mark.parametrize("what", ["model", "tokenizer", "config"])
def test_python_in_a_model_folder_never_runs(
    what: str, copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    (copied / "own.py").write_text(
        f"from pathlib import Path\nPath({str(ran)!r}).touch()\n"
        "from transformers import BertConfig, BertModel, BertTokenizerFast\n"
        "class OwnConfig(BertConfig):\n    model_type = 'own'\n"
        "class OwnModel(BertModel):\n    config_class = OwnConfig\n"
        "class OwnTokenizer(BertTokenizerFast):\n    pass\n",
        encoding="utf-8",
    )
    own = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}
    if what == "tokenizer":
        change(
            copied / "tokenizer_config.json",
            auto_map={"AutoTokenizer": [None, "own.OwnTokenizer"]},
            tokenizer_class="OwnTokenizer",
        )
    else:
        change(copied / "config.json", auto_map=own, model_type="own" if what == "config" else "bert")
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # who is asked, agrees
    if what == "config":
        with pytest.raises(UsageError, match=r"code of its own.*refused.*--plugin"):
            load(copied)
        with pytest.raises(UsageError, match="refused"):
            check_backbone(str(copied), None, Runtime())
    else:
        try:
            load(copied)
        except ZooError as error:
            assert "refused" in str(error)
    assert not ran.exists()


def test_a_folder_without_tokenizer_is_refused(copied: Path) -> None:
    for path in copied.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(MissingError, match="no tokenizer"):
        load(copied)
    with pytest.raises(MissingError, match="no tokenizer"):
        Cls(Cls.Recipe(backbone=str(copied)), Runtime())
    with pytest.raises(MissingError, match="no tokenizer"):
        Pretrained(Pretrained.Recipe(model=str(copied), pooling="mean"), Runtime())


def test_another_models_tokenizer_is_refused(copied: Path, tiny_roberta: Path) -> None:
    for path in copied.glob("tokenizer*"):
        path.unlink()
    for path in tiny_roberta.glob("tokenizer*"):
        (copied / path.name).write_bytes(path.read_bytes())
    with pytest.raises(CorruptError, match=r"3,\d\d\d tokens|[\d,]+ tokens, the model has 30,522"):
        load(copied)


@pytest.mark.slow
@pytest.mark.parametrize("bad", ["pytorch_model.bin", "../elsewhere.safetensors", "absent.safetensors", 3])
def test_an_index_that_leads_elsewhere_is_refused(copied: Path, bad: object) -> None:
    names = list(load_file(copied / "model.safetensors"))
    (copied / "model.safetensors").rename(copied / "model-00001-of-00001.safetensors")
    torch.save({}, copied / "pytorch_model.bin")
    index = {"metadata": {}, "weight_map": dict.fromkeys(names, "model-00001-of-00001.safetensors")}
    (copied / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert load(copied).dim == 32
    index["weight_map"][names[0]] = bad  # type: ignore[index]
    (copied / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(ZooError, match=r"index\.json"):
        find_backbone(str(copied))


@pytest.mark.parametrize(
    "text", ["null", "{}", "[]", "[1]", '[{"type": "x"}]', '[{"path": "../..", "type": "x"}]', "{", "[" * 9999]
)
def test_a_wrong_list_of_modules_is_one_sentence(copied: Path, text: str) -> None:
    (copied / "modules.json").write_text(text, encoding="utf-8")
    with pytest.raises(ZooError, match=r"modules\.json"):
        find_backbone(str(copied))
    with pytest.raises(ZooError, match=r"modules\.json"):
        Pretrained(Pretrained.Recipe(model=str(copied), pooling="mean"), Runtime())


@pytest.mark.parametrize("settings", ["[]", '{"max_seq_length": "long"}', '{"max_seq_length": -1}'])
def test_wrong_settings_of_a_module_are_one_sentence(copied: Path, settings: str) -> None:
    modules = [{"path": "", "type": "sentence_transformers.models.Transformer"}]
    (copied / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (copied / "sentence_bert_config.json").write_text(settings, encoding="utf-8")
    with pytest.raises(CorruptError):
        Layout.read(find_backbone(str(copied)), str(copied), None)


def test_the_bundled_model_is_the_one_that_was_bundled() -> None:
    """Its SHA256SUMS is right, and covers what loading reads."""
    folder = find_backbone("zoo-mini").folder
    listed = dict(
        reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    )
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= listed.keys()
    assert all(sha256_file(folder / name) == sha256 for name, sha256 in listed.items())


def test_a_changed_file_of_a_folder_with_sums_is_told(copied: Path) -> None:
    write_sums(copied)
    find_backbone(str(copied))
    content = bytearray((copied / "model.safetensors").read_bytes())
    content[-5] ^= 4
    (copied / "model.safetensors").write_bytes(bytes(content))
    os.utime(copied / "model.safetensors", (1, 1))
    with pytest.raises(CorruptError, match=r"model\.safetensors is damaged or was changed.*delete SHA256SUMS"):
        find_backbone(str(copied))
    (copied / "SHA256SUMS").unlink()
    assert re.fullmatch("[0-9a-f]{64}", find_backbone(str(copied)).sha256)


def test_a_damaged_file_of_the_hubs_cache_is_told(copied: Path, tmp_path: Path) -> None:
    """There a large file lies under its sha256, and the model's folder links to it."""
    weights = copied / "model.safetensors"
    blob = tmp_path / "blobs" / sha256_file(weights)
    blob.parent.mkdir()
    weights.rename(blob)
    weights.symlink_to(blob)
    assert load(copied).dim == 32
    content = bytearray(blob.read_bytes())
    content[-5] ^= 4
    blob.write_bytes(bytes(content))
    os.utime(blob, (1, 1))
    with pytest.raises(CorruptError, match=f"damaged.*delete {blob}"):
        find_backbone(str(copied))


@pytest.mark.parametrize("name", ["~nobody-of-this-name/model", "a\0b", "x" * 5000, "folder/" + "y" * 300])
def test_a_name_that_no_path_can_have_is_one_sentence(name: str) -> None:
    with pytest.raises(ZooError):
        find_backbone(name)


@pytest.mark.parametrize("path", ["\ud800", "\0", "a" * 3000])
def test_a_modules_path_that_no_folder_can_have_is_told(copied: Path, path: str) -> None:
    modules = [{"path": path, "type": "sentence_transformers.models.Transformer"}]
    (copied / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    with pytest.raises(CorruptError, match="a module's path is no path"):
        find_backbone(str(copied))
