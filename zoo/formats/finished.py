"""Finished encoders: sentence-transformers loads them; the engine takes over at equal vectors."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from zoo.check import ODD_TEXTS, PROBES
from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone, BackboneSource, encoder_of, positions_of, quiet
from zoo.engine.model_folder import (
    cannot_load,
    check_complete,
    check_tokenizer_files,
    check_vocabulary,
    load_pretrained,
    module_folders,
    other_tensors,
    tokens_below,
)
from zoo.engine.states import Pooling
from zoo.engine.tokens import clean_text
from zoo.errors import UsageError
from zoo.files import read_mapping
from zoo.formats.export import dense
from zoo.formats.onnx import OnnxModel, load_onnx
from zoo.paths import is_file
from zoo.roles import Roles

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Module

Backend = Literal["torch", "onnx"]
# The largest difference of a value, relative to the vectors' length.
AGREES = 1e-4
# A sample's long texts grow no further with the limit of a model.
_LONG = 1024


def sample(limit: int | None) -> list[str]:
    """64 texts of many kinds and lengths, two longer than `limit` tokens (or than 1,024)."""
    words = " ".join(PROBES).split()
    longest = min(limit or _LONG, _LONG) + 8
    odd = [clean_text(text, 0) for text in ODD_TEXTS if len(text) < _LONG]
    plain = [*PROBES, PROBES[0].upper(), f"  {PROBES[1]} ", PROBES[2].lower(), f"{PROBES[3]}\n\n{PROBES[4]}", *odd]
    long = [" ".join(itertools.islice(itertools.cycle(words[start:]), longest)) for start in (0, 9)]
    filler = (" ".join((words + words)[5 * n % len(words) :][: 1 + n % 40]) for n in itertools.count())
    return [*plain, *long, *itertools.islice(filler, 64 - len(plain) - len(long))]


def load_finished(
    source: BackboneSource,
    runtime: Runtime,
    pooling: str | None = None,
    max_length: int | None = None,
    onnx: Path | None = None,
) -> SentenceTransformer:
    """A folder by sentence-transformers, in float32, without its code and from safetensors; `pooling` replaces its own.

    Raises UsageError for another kind of model or code of its own; CorruptError for unreadable files and missing
    weights.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules as parts

    what = f"pretrained: {source.name!r}"
    if is_file(source.folder / "modules.json"):
        _check_kind(what, source.folder)
    quiet()
    if onnx is not None:
        model = load_onnx(what, source.folder, onnx, pooling)
    else:
        weights = {"dtype": torch.float32, "use_safetensors": None if runtime.allow_pickle else True}
        where: dict[str, Any] = {"device": runtime.device, "local_files_only": True, "model_kwargs": weights}
        try:
            model = SentenceTransformer(str(source.folder), trust_remote_code=False, **where)
        except Exception as error:
            # An error of any kind means that the library cannot load this folder.
            raise cannot_load(what, source.folder, error) from error
    transformers = [module for module in model.modules() if isinstance(module, parts.Transformer)]
    folders = [folder for folder in module_folders(source.folder) if _is_transformer(folder)]
    for transformer, folder in zip(transformers, folders, strict=False):
        _check_transformer(what, folder, transformer)
    _check_pooled(what, source.folder, model)
    if pooling is not None:
        pools = [module for module in model if isinstance(module, parts.Pooling)]
        if not pools:
            raise UsageError(f"{what} pools by no module that `pooling` could change; leave it out.")
        pools[0].pooling_mode = pooling
    for part in model:
        if isinstance(part, parts.StaticEmbedding):
            part.tokenizer = tokens_below(part.tokenizer, part.embedding.num_embeddings)
    for part in transformers:
        network = part.auto_model
        positions = positions_of(encoder_of(network.outline[0] if isinstance(network, OnnxModel) else network))
        limits = [max_length or part.max_seq_length, positions]
        part.max_seq_length = min(filter(None, limits), default=None)
    return model.eval()


def padded_right(model: SentenceTransformer) -> str:
    """Pad on the right where positions count from the first column; return what a row says of that, or "".

    Padded on the left, as such a folder states, a text's positions would depend on the longest text of its batch.
    """
    notes = []
    for part in model.modules():
        tokenizer, network = getattr(part, "tokenizer", None), getattr(part, "auto_model", None)
        if network is None or tokenizer is None or getattr(tokenizer, "padding_side", "right") != "left":
            continue
        if any(isinstance(getattr(m, "position_embeddings", None), torch.nn.Embedding) for m in network.modules()):
            tokenizer.padding_side = "right"
            notes.append("padded on the right, not on the left as its folder states: its positions are absolute")
    return "; ".join(dict.fromkeys(notes))


def taken_over(model: SentenceTransformer, source: BackboneSource) -> tuple[Backbone, Pooling, list[Module]] | None:
    from sentence_transformers.sentence_transformer import modules as parts

    if [type(module) for module in model][:2] != [parts.Transformer, parts.Pooling]:
        return None
    modules: list[Any] = list(model)
    first, second, *after = modules
    if first.tokenizer is None or second.pooling_mode not in ("cls", "mean", "max") or not second.include_prompt:
        # The engine would pool the tokens of a prompt too.
        return None
    return Backbone(encoder_of(first.auto_model), first.tokenizer, source), second.pooling_mode, after


def noted(what: str, model: Any, roles: Roles) -> Roles:
    """The roles, with the library's unexpected use of prompts; raises UsageError if a chat template refuses them."""
    keeps = all(getattr(module, "include_prompt", True) for module in model)
    prompts = sorted({roles.default, *roles.prompts.values()} - {""})
    if "message" in getattr(model[0], "modality_config", ()):
        return replace(roles, note=_in_template(what, model[0], prompts, keeps))
    if keeps or not callable(tokenizer := getattr(model[0], "tokenizer", None)):
        return roles

    def ids(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    # A tokenizer of bytes joins the blank at the end of a prompt to the next word, and the library counts the tokens
    # of the prompt alone.
    joined = [prompt for prompt in prompts if ids(f"{prompt}word")[: len(ids(prompt))] != ids(prompt)]
    if not joined:
        return roles
    note = f"a text's first word is left out with the prompt {joined[0]!r}: move its last blank to the texts"
    return replace(roles, note=note)


def _in_template(what: str, transformer: Any, prompts: list[str], keeps: bool) -> str:
    from jinja2 import TemplateError

    def ids(prompt: str) -> list[int]:
        try:
            return list(transformer.preprocess(["word"], prompt=prompt)["input_ids"][0].tolist())
        except TemplateError as error:
            raise UsageError(
                f"{what}: its chat template refuses the prompt {prompt!r} ({error}): leave the prompts out"
                " (prompt=''), or let the template take a message of the system."
            ) from error

    ignored = [prompt for prompt in prompts if ids(prompt) == ids("")]
    note = "each text stands in the folder's chat template"
    if ignored:
        return f"{note}, which ignores the prompt {ignored[0]!r}"
    return note if keeps or not prompts else f"{note}, and the pooling takes the prompt too"


def pooled_elsewhere(folder: Path, tokenizer: Any) -> str:
    config = read_mapping(folder / "config.json")
    name = str((config.get("architectures") or [""])[0])
    # As its SentenceTransformer decides.
    if not name.endswith("ForCausalLM") or not config.get("is_causal", True):
        return ""
    template = " and put each text into its chat template" if tokenizer.chat_template else ""
    return f"sentence-transformers itself would pool the last token ({name}){template}"


def cut_texts(model: Any, texts: list[str]) -> int | None:
    """Return how many texts the model cuts; None if its tokenizer or its limit is not known."""
    from tokenizers import Tokenizer

    tokenizer, limit = getattr(model[0], "tokenizer", None), model.max_seq_length
    if isinstance(tokenizer, Tokenizer):
        # A StaticEmbedding is cut by its tokenizer alone.
        every = Tokenizer.from_str(tokenizer.to_str())
        every.no_truncation()
        most = (tokenizer.truncation or {}).get("max_length", float("inf"))
        return sum(1 for row in every.encode_batch(texts, add_special_tokens=False) if len(row.ids) > most)
    if not callable(tokenizer) or not limit:
        return None
    if limit == float("inf"):
        return 0
    rows = tokenizer(texts, truncation=False, verbose=False)["input_ids"] if texts else []
    return sum(1 for row in rows if len(row) > limit)


def trained_pooler(source: BackboneSource, runtime: Runtime) -> Dense:
    """A checkpoint's own pooler, a linear layer and tanh; raises UsageError if there is none."""
    from transformers import AutoModel

    what = f"pretrained: {source.name!r}"
    # As SimCSE's code and its descendants save it.
    if head := other_tensors(source.folder, "mlp.dense.", allow_pickle=runtime.allow_pickle):
        return dense(head["mlp.dense.weight"], head["mlp.dense.bias"], "Tanh")
    try:
        safe = None if runtime.allow_pickle else True
        model, loading = load_pretrained(AutoModel, source.folder, output_loading_info=True, use_safetensors=safe)
    except Exception as error:
        # The library raises many kinds.
        raise cannot_load(what, source.folder, error) from error
    layer = getattr(getattr(model, "pooler", None), "dense", None)
    if layer is None or any(name.startswith("pooler.") for name in loading["missing_keys"]):
        raise UsageError(f"{what} has no trained pooler in {source.folder}; name another pooling, such as cls.")
    return dense(layer.weight.detach(), layer.bias.detach(), "Tanh")


def _check_kind(what: str, folder: Path) -> None:
    """Raise UsageError for a folder the library would load, with only a log line, as another model."""
    path = folder / "config_sentence_transformers.json"
    kind = read_mapping(path).get("model_type", "SentenceTransformer") if is_file(path) else "SentenceTransformer"
    listed = (folder / "modules.json").read_text(encoding="utf-8")
    for other, package in (("SparseEncoder", "sparse_encoder"), ("CrossEncoder", "cross_encoder")):
        kind = other if f"sentence_transformers.{package}." in listed else kind
    if kind != "SentenceTransformer":
        raise UsageError(
            f"{what}: {folder} is a {kind} of sentence-transformers, not a SentenceTransformer; in Python, give"
            " evaluate() a function of texts that returns its vectors."
        )
    for part in module_folders(folder):
        stated = read_mapping(part / "config.json") if is_file(part / "config.json") else {}
        activation = str(stated.get("activation_function") or "torch.")
        # The library would take Tanh instead.
        if "in_features" in stated and not activation.startswith("torch."):
            raise UsageError(
                f"{what}: {part / 'config.json'} names the activation {activation!r:.80}, which is code of its own"
                " and is not run; load the model in a plugin of yours (--plugin FILE.py)."
            )


def _check_pooled(what: str, folder: Path, model: SentenceTransformer) -> None:
    """Raise UsageError for modules that end in vectors of tokens."""
    try:
        model.encode(["a"])
    except KeyError as error:
        if error.args != ("sentence_embedding",):
            raise
        listed = ", ".join(type(module).__name__ for module in model)
        raise UsageError(
            f"{what}: {folder / 'modules.json'} lists {listed} and no module that pools the tokens of a text. Add"
            " sentence-transformers' Pooling to it; or delete modules.json, and name the pooling (:pooling=mean)."
        ) from error


def _is_transformer(folder: Path) -> bool:
    if is_file(folder / "adapter_config.json"):
        return True
    stated = read_mapping(folder / "config.json") if is_file(folder / "config.json") else {}
    return bool(stated.get("model_type", "model2vec") != "model2vec")


def _check_transformer(what: str, folder: Path, transformer: Any) -> None:
    # Tokenizers of characters or bytes have no file.
    if getattr(transformer.tokenizer, "vocab_files_names", True):
        check_tokenizer_files(what, folder)
    model = transformer.auto_model
    if transformer.tokenizer is not None:
        check_vocabulary(what, folder, transformer.tokenizer, model.config)
    if is_file(folder / "adapter_config.json") or isinstance(model, OnnxModel):
        return
    try:
        _, loading = load_pretrained(type(model), folder, config=model.config, output_loading_info=True)
    except Exception as error:
        # The library raises many kinds.
        raise cannot_load(what, folder, error) from error
    reads_pooler = "pooler" in str(transformer.modality_config)
    missing = {name for name in loading["missing_keys"] if reads_pooler or not name.startswith("pooler.")}
    check_complete(what, folder, missing, loading["unexpected_keys"])
