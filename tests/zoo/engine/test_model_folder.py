"""A model folder is judged before it is loaded: its code, its tokenizer, its checksums."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone, check_backbone, find_backbone, finding_once
from zoo.engine.model_folder import other_tensors
from zoo.errors import CorruptError, MissingError, UsageError, ZooError
from zoo.files import sha256_file, write_sums
from zoo.methods.pooled import Average, Cls
from zoo.methods.pretrained import Pretrained
from zoo.methods.simcse import SimCSE

ROOT = Path(__file__).resolve().parents[3]


def change(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **values}), encoding="utf-8")


def load(folder: Path) -> Backbone:
    return Backbone.load(str(folder), None, Runtime())


def test_no_call_may_run_a_models_own_code() -> None:
    """In the whole source: each from_pretrained says on its own line that the folder's code is refused."""
    files = [file for room in ("zoo", "benchmark", "choose") for file in (ROOT / room).rglob("*.py")]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    code = [line for line in lines if not line.lstrip().startswith(('"', "#", "'", "f'", 'f"'))]
    calls = [line for line in code if "from_pretrained(" in line or " SentenceTransformer(" in line]
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
    auto_map = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}
    if what == "tokenizer":
        change(
            copied / "tokenizer_config.json",
            auto_map={"AutoTokenizer": [None, "own.OwnTokenizer"]},
            tokenizer_class="OwnTokenizer",
        )
    else:
        change(copied / "config.json", auto_map=auto_map, model_type="own" if what == "config" else "bert")
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


def test_a_pickle_is_read_only_where_it_is_allowed_and_alone(tmp_path: Path) -> None:
    """Of tensors beside the library's: no pickle without leave, none beside safetensors, sharded or not."""
    torch.save({"prefix.a": torch.ones(2)}, tmp_path / "pytorch_model.bin")
    assert other_tensors(tmp_path, "prefix.", allow_pickle=False) == {}
    assert [*other_tensors(tmp_path, "prefix.", allow_pickle=True)] == ["prefix.a"]
    for number, name in enumerate("bc", 1):
        save_file(
            {f"prefix.{name}": torch.ones(2), "other": torch.ones(1)}, tmp_path / f"model-0000{number}.safetensors"
        )
    assert [*other_tensors(tmp_path, "prefix.", allow_pickle=True)] == ["prefix.b", "prefix.c"]
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(print))
    assert [*other_tensors(tmp_path, "prefix.b", allow_pickle=True)] == ["prefix.b"]
    for path in tmp_path.glob("*.safetensors"):
        path.unlink()
    with pytest.raises(pickle.UnpicklingError):
        other_tensors(tmp_path, "prefix.", allow_pickle=True)


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


TEXT = "a small <image> dog"


def with_token_above(folder: Path) -> None:
    """Add a token above the embeddings to a folder's tokenizer, as Gemma 3's for images."""
    stated = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    token = {**stated["added_tokens"][0], "id": max(stated["model"]["vocab"].values()) + 1, "content": "<image>"}
    stated["added_tokens"].append(token)
    (folder / "tokenizer.json").write_text(json.dumps(stated), encoding="utf-8")


def test_a_text_with_a_token_above_the_embeddings_has_its_other_tokens(copied: Path) -> None:
    """transformers and sentence-transformers end in an IndexError there: by each loader such a text is encoded."""
    plain, texts = load(copied).tokenizer(TEXT)["input_ids"], [TEXT, "a small dog"]
    vectors = Average(Average.Recipe(backbone=str(copied)), Runtime()).encode(texts)
    with_token_above(copied)
    backbone = load(copied)
    assert backbone.tokenizer(TEXT)["input_ids"] == plain
    assert max(backbone.tokenizer.get_vocab().values()) < backbone.model.config.vocab_size
    assert np.array_equal(Average(Average.Recipe(backbone=str(copied)), Runtime()).encode(texts), vectors)


def test_by_the_library_too(copied: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules as parts

    transformer = parts.Transformer(str(copied))
    SentenceTransformer(modules=[transformer, parts.Pooling(32, "mean")]).save(str(copied / "saved"))
    tokenizer = Tokenizer.from_file(str(copied / "tokenizer.json"))
    SentenceTransformer(modules=[parts.StaticEmbedding(tokenizer, embedding_dim=8)]).save(str(copied / "static"))
    for folder in (copied / "saved", copied / "static"):
        before = Pretrained(Pretrained.Recipe(model=str(folder)), Runtime()).encode([TEXT])
        with_token_above(folder)
        assert np.array_equal(Pretrained(Pretrained.Recipe(model=str(folder)), Runtime()).encode([TEXT]), before)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_pointer_of_git_lfs_is_named(copied: Path, name: str) -> None:
    (copied / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\n", encoding="utf-8")
    with pytest.raises(CorruptError, match=rf"{name} is a git-lfs pointer.*git lfs pull"):
        load(copied)


def test_a_folder_is_read_once_where_a_plan_says_so_and_else_each_time(tiny_bert: Path, tmp_path: Path) -> None:
    copied = tmp_path / "model"
    shutil.copytree(tiny_bert, copied)
    with finding_once():
        before = find_backbone(str(copied))
        (copied / "config.json").write_text((copied / "config.json").read_text() + " ", encoding="utf-8")
        assert find_backbone(str(copied)) is before
    assert find_backbone(str(copied)).sha256 != before.sha256


def test_encoders_of_a_check_share_tensors_and_no_modules(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    load = Backbone._from_library.__func__  # type: ignore[attr-defined]
    spied = classmethod(lambda cls, source, runtime: loaded.append(source.name) or load(cls, source, runtime))
    monkeypatch.setattr(Backbone, "_from_library", spied)
    recipe, plain = SimCSE.Recipe(backbone=str(tiny_bert)), Average.Recipe(backbone=str(tiny_bert))
    with finding_once(weights=True):
        first, second = (SimCSE(recipe, Runtime()) for _ in range(2))
        average = Average(plain, Runtime())
    assert len(loaded) == 1
    ours, others = first.backbone.network, second.backbone.network
    assert [weight.data_ptr() for weight in ours.parameters()] == [weight.data_ptr() for weight in others.parameters()]
    ours.encoder.layer[0].register_buffer("added", torch.ones(1))
    ours.encoder.layer[1] = torch.nn.Identity()
    assert not hasattr(others.encoder.layer[0], "added") and not isinstance(others.encoder.layer[1], torch.nn.Identity)
    alone = Average(plain, Runtime())
    assert len(loaded) == 1 and alone.backbone.token_vectors.data_ptr() != average.backbone.token_vectors.data_ptr()
    assert np.array_equal(average.encode(["a small dog"]), alone.encode(["a small dog"]))
