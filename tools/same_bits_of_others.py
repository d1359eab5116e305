"""The table of libraries of docs/same-bits.md: rows with equal bits alone and in batches of 32, on the same weights."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmark.data.sources import DataSource
from benchmark.records.query import scored_pairs, spearman
from benchmark.tasks.loaded import load_tasks
from zoo.encoder import Runtime, Vectors

Encode = Callable[[list[str]], Vectors]
BACKBONE = Path(__file__).parents[1] / "zoo" / "models" / "zoo-mini"
_BATCH = 32
_PACKAGES = ("torch", "sentence-transformers", "transformers", "onnxruntime", "openvino", "model2vec")


def _library(folder: Path, dtype: torch.dtype = torch.float32) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": dtype})


def _by_library(model: Any) -> Encode:
    return lambda texts: model.encode(texts, batch_size=_BATCH, convert_to_tensor=True).float().numpy()


def _export(folder: Path) -> Path:
    """The transformer as an ONNX file, by the inputs that a BERT has."""
    part, path = _library(folder)[0], folder / "model.onnx"

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = part.auto_model

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            states: torch.Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            return states

    tokens = part.tokenizer(["a small dog", "rain in the garden"], padding=True, return_tensors="pt")
    names = ["input_ids", "attention_mask"]
    axes = {name: {0: "batch", 1: "tokens"} for name in [*names, "states"]}
    given = tuple(tokens[name] for name in names)
    torch.onnx.export(
        States(), given, str(path), input_names=names, output_names=["states"], dynamic_axes=axes, dynamo=False
    )
    return path


def _by_graph(folder: Path, states: Callable[[dict[str, Any]], Any]) -> Encode:
    """Means of a graph's states, in batches in the order given."""
    tokenizer = _library(folder)[0].tokenizer

    def encode(texts: list[str]) -> Vectors:
        parts = []
        for start in range(0, len(texts), _BATCH):
            tokens = tokenizer(texts[start : start + _BATCH], padding=True, truncation=True, return_tensors="np")
            mask = tokens["attention_mask"][:, :, None].astype(np.float32)
            given = {name: tokens[name].astype(np.int64) for name in ("input_ids", "attention_mask")}
            parts.append((np.asarray(states(given), np.float32) * mask).sum(1) / mask.sum(1))
        return np.concatenate(parts)

    return encode


def encoders(folder: Path) -> Iterator[tuple[str, Encode]]:
    """Encoders of a folder of a BERT, each by one library; one that is not installed is left out."""
    import onnxruntime
    from model2vec import StaticModel
    from onnxruntime.quantization import quantize_dynamic
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    from zoo.methods.pooled import Average
    from zoo.methods.static import Static

    library = _library(folder)
    yield "sentence-transformers, fp32", _by_library(library)
    yield "sentence-transformers, bf16", _by_library(_library(folder, torch.bfloat16))
    quantized: Any = torch.ao.quantization
    int8 = quantized.quantize_dynamic(_library(folder), {torch.nn.Linear}, dtype=torch.qint8)
    yield "torch, dynamic int8", _by_library(int8)
    path = _export(folder)
    quantize_dynamic(path, path.with_name("int8.onnx"))
    for name, file in (("fp32", path), ("dynamic int8", path.with_name("int8.onnx"))):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        yield f"onnxruntime, {name}", _by_graph(folder, lambda given, by=session: by.run(["states"], given)[0])  # type: ignore[misc]
    try:
        import openvino  # type: ignore[import-not-found]
    except ImportError:
        pass
    else:
        compiled = openvino.Core().compile_model(str(path), "CPU")
        yield "OpenVINO, fp32", _by_graph(folder, lambda given: compiled(given)[0])
    embeddings = library[0].auto_model.get_input_embeddings().weight.detach().numpy()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    static = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=embeddings)], device="cpu")
    yield "sentence-transformers, static table", _by_library(static)
    model2vec = StaticModel(embeddings, Tokenizer.from_file(str(folder / "tokenizer.json")))
    yield "model2vec", lambda texts: np.asarray(model2vec.encode(texts, batch_size=_BATCH, use_multiprocessing=False))
    for precision in ("fp32", "bf16"):
        average = Average(Average.Recipe(backbone=str(folder)), Runtime(precision=precision))
        yield f"zoo-bench, {precision}", average.encode
    yield "zoo-bench, static table", Static(Static.Recipe(backbone=str(folder)), Runtime()).encode


def _score(vectors: Vectors, places: list[tuple[int, int]], gold: Any) -> float:
    rows = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    cosines = np.array([rows[a] @ rows[b] for a, b in places])
    return float(spearman(cosines, np.asarray(gold)) or 0.0)


def others(data: Path, pairs: int | None = None) -> Iterator[str]:
    """The lines of the table, on the texts of the first pairs of STS-B's test."""
    (task,) = load_tasks(["STS-B"], DataSource(data), None)
    scored = scored_pairs(task, "test")
    return table(scored.first[:pairs], scored.second[:pairs], scored.gold[:pairs])


def table(first: Sequence[str], second: Sequence[str], gold: Sequence[float] | NDArray[Any]) -> Iterator[str]:
    """The lines of the table, on the texts of pairs (n,) and their gold scores (n,)."""
    texts = list(dict.fromkeys([*first, *second]))
    place = {text: number for number, text in enumerate(texts)}
    places = [(place[a], place[b]) for a, b in zip(first, second, strict=True)]
    yield f"{len(texts):,} texts; {', '.join(_versions())}; {torch.get_num_threads()} thread"
    yield ""
    yield "| library | equal bits | largest difference | Spearman, each text alone | in batches of 32 |"
    yield "|:--|--:|--:|--:|--:|"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(shutil.copytree(BACKBONE, Path(temporary) / "backbone"))
        for name, encode in encoders(folder):
            together = np.asarray(encode(texts))
            alone = np.concatenate([encode([text]) for text in texts])
            equal = 100 * float((alone == together).all(axis=1).mean())
            most = float(np.abs(alone - together).max() / np.linalg.norm(together, axis=1).mean())
            scores = " | ".join(f"{_score(vectors, places, gold):.2f}" for vectors in (alone, together))
            yield f"| {name} | {equal:.4g} % | {most:.0e} | {scores} |"


def _versions() -> Iterator[str]:
    for name in _PACKAGES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
