"""Finished encoders with an ONNX file as transformer, run by onnxruntime (extra `onnx`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from zoo.engine.model_folder import cannot_load
from zoo.errors import CorruptError, MissingError, UsageError, ZooError
from zoo.extras import optional
from zoo.files import read_json, read_mapping, sha256_file
from zoo.paths import is_file

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers.modeling_outputs import BaseModelOutput

_STATES = ("last_hidden_state", "token_embeddings")
_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
# What a row says of an encoder that gets no batches.
ALONE = ", each text alone"
_DTYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


def onnx_file(folder: Path, name: str | None) -> Path:
    """The ONNX file of this name, else model.onnx, else the only file; raises MissingError or UsageError."""
    files = sorted([*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")])
    wanted = "model.onnx" if name is None else name
    named = [path for path in files if wanted in (path.name, path.relative_to(folder).as_posix())]
    if not files or (name is not None and not named):
        what = f"no ONNX file {name}" if name else "no ONNX file (onnx/*.onnx, model.onnx)"
        there = f", but {_listed(files, folder)}" if files else ""
        raise MissingError(
            f"pretrained: {folder} has {what}{there}; copy it there, make it"
            " (docs/methods/finished.md, `to_onnx.py`), or leave out backend=onnx."
        )
    if not named and len(files) > 1:
        listed = _listed(files, folder)
        raise UsageError(
            f"pretrained: {folder} has several ONNX files; name one: file_name={files[0].name} ({listed})."
        )
    # The folder `onnx` first, as the library looks.
    return max(named or files, key=lambda path: len(path.parts))


def _listed(files: list[Path], folder: Path) -> str:
    return ", ".join(path.relative_to(folder).as_posix() for path in files)


def onnx_parts(path: Path) -> list[Path]:
    graph = path.read_bytes()
    beside = sorted(other for other in path.parent.rglob("*") if other.is_file() and other.suffix != ".onnx")
    return [path, *(other for other in beside if other.relative_to(path.parent).as_posix().encode() in graph)]


def onnx_digests(path: Path) -> dict[str, str]:
    return {part.relative_to(path.parent).as_posix(): sha256_file(part) for part in onnx_parts(path)}


def _session(path: Path) -> Any:
    onnxruntime = optional("onnxruntime", "onnx", "backend=onnx")
    options = onnxruntime.SessionOptions()
    # As many threads as torch has, so that processes beside each other do not fight for cores.
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        # The library raises classes of its own for a damaged file, an operator it lacks and a file of tensors that is
        # not there.
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise CorruptError(f"pretrained: {path} cannot be loaded by onnxruntime: {reason}.") from error


class OnnxModel(torch.nn.Module):
    """Ids and mask (n, length) -> states (n, length, dim), float32, by onnxruntime on the processor."""

    def __init__(self, path: Path, config: Any) -> None:
        from transformers import AutoModel

        super().__init__()
        self.config, self.session = config, _session(path)
        with torch.device("meta"):
            # Its sizes alone: a list, because nothing of it can be moved to a device.
            self.outline = [AutoModel.from_config(config, trust_remote_code=False)]
        if hasattr(self.outline[0], "pooler"):
            self.outline[0].pooler = None
        self.inputs = {part.name: _DTYPES.get(part.type) for part in self.session.get_inputs()}
        outputs = [part.name for part in self.session.get_outputs() if len(part.shape or ()) == 3]
        states = next((name for name in _STATES if name in outputs), outputs[0] if len(outputs) == 1 else None)
        unknown = [name for name, dtype in self.inputs.items() if name not in _INPUTS or dtype is None]
        if unknown or states is None:
            problem = f"asks for {unknown[0]}" if unknown else "does not give the states of tokens (n, length, dim)"
            raise UsageError(f"pretrained: {path} {problem}; export it as a feature extraction.")
        self.states: str = states
        # Such a graph scales the activations of a batch together, so that a text's vector depends on its neighbours.
        self.alone = b"DynamicQuantizeLinear" in path.read_bytes()

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        **_: Any,
    ) -> BaseModelOutput:
        from transformers.modeling_outputs import BaseModelOutput

        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        given = {
            "input_ids": input_ids,
            "attention_mask": mask,
            "token_type_ids": torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids,
            "position_ids": (mask.cumsum(dim=1) - 1).clamp(min=0),
        }
        feed = {name: given[name].numpy().astype(dtype) for name, dtype in self.inputs.items()}
        (states,) = self.session.run([self.states], feed)
        return BaseModelOutput(last_hidden_state=torch.from_numpy(np.asarray(states, np.float32)))


def load_onnx(what: str, folder: Path, path: Path, pooling: str | None) -> SentenceTransformer:
    """A sentence-transformers folder with its transformer, the first module, run by onnxruntime; else UsageError.

    A folder without modules.json has `pooling`.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules as parts
    from sentence_transformers.util.misc import import_module_class

    class OnnxTransformer(parts.Transformer):
        def _load_model(self, model_name_or_path: str, transformer_task: Any, config: Any, *_: Any, **more: Any) -> Any:
            return OnnxModel(path, config)

    stated = is_file(folder / "modules.json")
    listed = read_json(folder / "modules.json") if stated else [{"path": "", "type": f"{parts.__name__}.Transformer"}]
    card = folder / "config_sentence_transformers.json"
    about: Mapping[str, Any] = read_mapping(card) if is_file(card) else {}
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        kinds = [import_module_class(part["type"], str(folder), trust_remote_code=False) for part in listed]
        if kinds[0] is not parts.Transformer:
            raise UsageError(
                f"{what}: {folder} begins with {kinds[0].__name__}; backend=onnx runs a Transformer alone."
            )
        modules: list[Any] = [
            kind.load(str(folder), subfolder=part["path"], **options)
            for kind, part in zip([OnnxTransformer, *kinds[1:]], listed, strict=True)
        ]
        if not stated:
            modules += [parts.Pooling(modules[0].get_embedding_dimension(), pooling)]
        names = ("prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim")
        known = {name: about[name] for name in names if about.get(name) is not None}
        return SentenceTransformer(modules=modules, device="cpu", trust_remote_code=False, **known)
    except ZooError:
        raise
    except Exception as error:
        # The libraries raise many kinds.
        raise cannot_load(what, folder, error) from error
