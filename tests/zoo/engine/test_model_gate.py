"""Every loader of models refuses every kind of damage: none gives vectors of weights that the library made up."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone
from zoo.errors import ZooError
from zoo.methods.pretrained import Pretrained

st = pytest.importorskip("sentence_transformers", reason="pip install 'zoo-bench[st]'")
modules = pytest.importorskip("sentence_transformers.models")

TEXTS = ["A small dog runs.", "rain"]


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    value = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(change(value)), encoding="utf-8")


def transformer(folder: Path) -> Path:
    """The folder of the transformer: the model's own, or a module's."""
    return folder if (folder / "model.safetensors").is_file() else folder / "0_Transformer"


def weights(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = transformer(folder) / "model.safetensors"
        save_file({k: v.contiguous() for k, v in change(load_file(path)).items()}, path, {"format": "pt"})

    return damage


def no_tokenizer(folder: Path) -> None:
    for path in transformer(folder).glob("tokenizer*"):
        path.unlink()


def pipe(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = transformer(folder) / name
        path.unlink()
        os.mkfifo(path)

    return damage


def config(**values: Any) -> Callable[[Path], None]:
    return lambda folder: edit(transformer(folder) / "config.json", lambda stated: {**stated, **values})


def cut(folder: Path) -> None:
    path = transformer(folder) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


OF_ALL: dict[str, Callable[[Path], None]] = {
    "no tokenizer": no_tokenizer,
    "no weights": lambda folder: (transformer(folder) / "model.safetensors").unlink(),
    "a layer is missing": weights(lambda t: {k: v for k, v in t.items() if "layer.1." not in k}),
    "all names changed": weights(lambda t: {f"x{k}": v for k, v in t.items()}),
    "half as wide": weights(lambda t: {k: v[..., : v.shape[-1] // 2] for k, v in t.items()}),
    "cut off": cut,
    "weights are a pipe": pipe("model.safetensors"),
    "configuration is a pipe": pipe("config.json"),
    "fewer layers than none": config(num_hidden_layers=0),
    "a million layers": config(num_hidden_layers=10**6),
    "a vocabulary of millions": config(vocab_size=10**7),
    "another activation": config(hidden_act="mypkg.nn.Swish2"),
    "native code of the hub": config(attn_implementation="owner/repository@main"),
    "native code of the hub, privately": config(_attn_implementation_internal="owner/repository"),
}
OF_MODULES: dict[str, Callable[[Path], None]] = {
    "reversed": lambda folder: edit(folder / "modules.json", lambda listed: listed[::-1]),
    "the pooling first": lambda folder: edit(folder / "modules.json", lambda m: [m[1], m[0], *m[2:]]),
    "Dense of other sizes": lambda folder: edit(folder / "2_Dense/config.json", lambda c: {**c, "in_features": 31}),
    "Dense of a billion": lambda folder: edit(folder / "2_Dense/config.json", lambda c: {**c, "out_features": 10**9}),
    "activation of its own": lambda folder: edit(
        folder / "2_Dense/config.json", lambda c: {**c, "activation_function": "mypkg.nn.Swish2"}
    ),
}


def plain(folder: Path, tiny_bert: Path) -> Path:
    return Path(shutil.copytree(tiny_bert, folder))


def stock(folder: Path, tiny_bert: Path, activation: torch.nn.Module | None = None) -> Path:
    torch.manual_seed(2)
    dense = modules.Dense(32, 20, activation_function=activation or torch.nn.Tanh())
    parts = [modules.Transformer(str(tiny_bert)), modules.Pooling(32, pooling_mode="mean"), dense]
    st.SentenceTransformer(modules=parts, device="cpu").save(str(folder))
    return folder


def prompted(folder: Path, tiny_bert: Path) -> Path:
    stock(folder, tiny_bert)
    name = "config_sentence_transformers.json"
    edit(folder / name, lambda c: {**c, "prompts": {"query": "query: "}, "default_prompt_name": "query"})
    return folder


def unknown(folder: Path, tiny_bert: Path) -> Path:
    """With a module of the library that the engine does not know."""
    stock(folder, tiny_bert)
    modules.LayerNorm(20).save(str(folder / "3_LayerNorm")) if (folder / "3_LayerNorm").mkdir() is None else None
    module = {"idx": 3, "name": "3", "path": "3_LayerNorm", "type": "sentence_transformers.models.LayerNorm"}
    edit(folder / "modules.json", lambda listed: [*listed, module])
    return folder


def backbone(folder: Path) -> Any:
    return Backbone.load(str(folder), None, Runtime())


def finished(folder: Path) -> Any:
    return Pretrained(Pretrained.Recipe(model=str(folder)), Runtime()).encode(TEXTS)


LOADERS: dict[str, tuple[Callable[..., Path], Callable[[Path], Any]]] = {
    "backbone": (plain, backbone),
    "stock modules": (stock, finished),
    "the library: a default prompt": (prompted, finished),
    "the library: an activation": (lambda folder, tiny: stock(folder, tiny, torch.nn.ReLU()), finished),
    "the library: an unknown module": (unknown, finished),
}


@pytest.fixture(scope="module")
def made(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A whole folder for each loader."""
    top = tmp_path_factory.mktemp("whole")
    return {name: build(top / f"m{i}", tiny_bert) for i, (name, (build, _)) in enumerate(LOADERS.items())}


@pytest.mark.parametrize("loader", LOADERS)
def test_a_whole_folder_loads(loader: str, made: dict[str, Path]) -> None:
    assert LOADERS[loader][1](made[loader]) is not None


@pytest.mark.timeout(120)
@pytest.mark.parametrize("damage", [*OF_ALL, *OF_MODULES])
@pytest.mark.parametrize("loader", LOADERS)
def test_no_loader_takes_a_damaged_folder(loader: str, damage: str, made: dict[str, Path], tmp_path: Path) -> None:
    if damage in OF_MODULES and loader == "backbone":
        pytest.skip("a plain checkpoint has no modules")
    folder = Path(shutil.copytree(made[loader], tmp_path / "damaged"))
    (OF_ALL | OF_MODULES)[damage](folder)
    with pytest.raises(ZooError) as caught:
        LOADERS[loader][1](folder)
    assert str(folder) in str(caught.value) and "\n" not in str(caught.value).strip()
