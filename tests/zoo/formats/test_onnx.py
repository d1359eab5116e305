"""ONNX files of a folder: onnxruntime gives PyTorch's vectors, and what it reads is the identity."""

from __future__ import annotations

import re
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules

from zoo.check import ODD_TEXTS, PROBES, deviation
from zoo.encoder import Runtime
from zoo.engine.tokens import clean_text
from zoo.errors import CorruptError, MissingError, UsageError
from zoo.methods.pretrained import Pretrained

ort = pytest.importorskip("onnxruntime", reason="pip install 'zoo-bench[onnx]'")
onnx = pytest.importorskip("onnx", reason="pip install onnx")
TEXTS = [*PROBES, *(clean_text(text, 0) for text in ODD_TEXTS), " ".join(PROBES * 40), "", "dog"]


PAGE = Path(__file__).resolve().parents[3] / "docs" / "methods" / "finished.md"


def exported(folder: Path) -> Path:
    """Write the transformer as an ONNX file by the page's program."""
    program = re.search(r"```python\n(# to_onnx\.py.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert program is not None
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr(sys, "argv", ["to_onnx.py", str(folder)])
        exec(program[1], {})
    return folder / "onnx" / "model.onnx"


@pytest.fixture(scope="module")
def folder(tiny_bert: Path, tiny_roberta: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that gives a copy of a folder with its ONNX files: of float32, int8, and with outer tensors."""
    kept: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in kept:
            place = tmp_path_factory.mktemp("onnx") / kind
            torch.manual_seed(5)
            parts: list[Any] = [modules.Transformer(str(tiny_roberta if kind == "roberta" else tiny_bert))]
            parts += [modules.Pooling(32, "cls" if kind == "dense" else "mean")]
            parts += [modules.Dense(32, 8), modules.Normalize()] if kind == "dense" else []
            prompts = {"query": "query: ", "document": "a text "} if kind == "dense" else {}
            library = SentenceTransformer(modules=parts, device="cpu", prompts=prompts)
            library.save(str(place))
            path = exported(place)
            from onnxruntime.quantization import quantize_dynamic

            quantize_dynamic(path, path.with_name("model_qint8_avx512.onnx"))
            onnx.save(
                onnx.load(path),
                path.with_name("outer.onnx"),
                save_as_external_data=True,
                location="outer.data",
                size_threshold=0,
            )
            kept[kind] = place
        return Path(shutil.copytree(kept[kind], tmp_path_factory.mktemp("copy") / kind))

    return make


def ours(folder: Path, **recipe: Any) -> Pretrained:
    return Pretrained(Pretrained.Recipe(model=str(folder), **recipe), Runtime())


def by_onnx(folder: Path, **recipe: Any) -> Pretrained:
    return ours(folder, backend="onnx", **recipe)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "roberta", "dense"])
def test_an_exported_folder_gives_the_vectors_of_pytorch(kind: str, folder: Callable[[str], Path]) -> None:
    """Also of texts longer than the model, of roles with prompts, and with tensors in a file beside it."""
    place = folder(kind)
    plain = ours(place)
    for recipe in ({}, {"file_name": "outer.onnx"}, {"file_name": "onnx/model.onnx"}):
        encoder = by_onnx(place, **recipe)
        assert deviation(encoder.encode(TEXTS), plain.encode(TEXTS)) < 1e-5
        assert deviation(encoder.encode_query(TEXTS), plain.encode_query(TEXTS)) < 1e-5
        assert (encoder.dim, encoder.parameters()) == (plain.dim, plain.parameters())
        assert encoder.facts()["run_by"].startswith("onnxruntime, ")
    int8 = by_onnx(place, file_name="model_qint8_avx512.onnx")
    vectors = int8.encode(TEXTS)
    assert 1e-4 < deviation(vectors, plain.encode(TEXTS)) < 0.5
    # No text's vector depends on its neighbours, although such a graph scales a batch together.
    for chosen in ([0], [3, -1, 5], range(len(TEXTS) - 1, -1, -1)):
        np.testing.assert_array_equal(int8.encode([TEXTS[i] for i in chosen]), vectors[list(chosen)])


@pytest.mark.slow
def test_what_onnxruntime_reads_is_the_identity(folder: Callable[[str], Path]) -> None:
    place = folder("bert")

    def identities() -> list[str]:
        recipes: list[dict[str, Any]] = [{}, {"backend": "onnx"}, {"backend": "onnx", "file_name": "outer.onnx"}]
        return [
            Pretrained.sources(Pretrained.Recipe(model=str(place), **recipe), Runtime())["backbone"]["sha256"]
            for recipe in recipes
        ]

    before = identities()
    assert len(set(before)) == 3
    for name, changed in (("model.onnx", 1), ("outer.onnx", 2), ("outer.data", 2)):
        path = place / "onnx" / name
        content = path.read_bytes()
        path.write_bytes(content + b"\0")
        assert [i for i, (old, new) in enumerate(zip(before, identities(), strict=True)) if old != new] == [changed]
        path.write_bytes(content)


@pytest.mark.slow
def test_a_folder_of_an_onnx_file_alone(folder: Callable[[str], Path]) -> None:
    """Without weights of torch; without modules.json, too, if the pooling is named."""
    place = folder("bert")
    wanted = ours(place).encode(TEXTS)
    (place / "model.safetensors").unlink()
    (place / "onnx" / "model.onnx").rename(place / "model.onnx")
    shutil.rmtree(place / "onnx")
    assert deviation(by_onnx(place).encode(TEXTS), wanted) < 1e-5
    (place / "modules.json").unlink()
    assert deviation(by_onnx(place, pooling="mean").encode(TEXTS), wanted) < 1e-5
    with pytest.raises(UsageError, match="Name it"):
        by_onnx(place)


@pytest.mark.slow
def test_mistakes_are_one_sentence(folder: Callable[[str], Path], tiny_bert: Path) -> None:
    place = folder("bert")
    with pytest.raises(MissingError, match=r"no ONNX file q.onnx, but onnx/model.onnx, .*; copy it there"):
        by_onnx(place, file_name="q.onnx")
    with pytest.raises(UsageError, match="goes with backend=onnx"):
        ours(place, file_name="model.onnx")
    (place / "onnx" / "model.onnx").unlink()
    with pytest.raises(UsageError, match=r"several ONNX files; name one: file_name="):
        by_onnx(place)
    (place / "onnx" / "outer.data").unlink()
    with pytest.raises(CorruptError, match="cannot be loaded by onnxruntime"):
        by_onnx(place, file_name="outer.onnx")
    with pytest.raises(MissingError, match="no ONNX file"):
        by_onnx(tiny_bert, pooling="mean")


def test_without_onnxruntime_the_extra_is_named(folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder("bert")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingError, match=r"pip install 'zoo-bench\[onnx\]'"):
        by_onnx(place)
