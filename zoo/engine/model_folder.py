"""Model folders: none of their Python code or pickles is loaded; weights are complete and fit the tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.errors import CorruptError, MissingError, UsageError, ZooError
from zoo.extras import optional
from zoo.files import read_json, read_mapping
from zoo.paths import is_file

if TYPE_CHECKING:
    from collections.abc import Collection

    import torch
    from tokenizers import Tokenizer
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

# The files of the transformers library's tokenizers; a BPE vocabulary in two files has vocab.json.
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.tiktoken", "*.bpe.codes", "bpe.codes")
_SAFE = ("model*.safetensors", "adapter_model.safetensors")
_LOADED = ("model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors", "pytorch_model*")
# Weights that are not read here, and what their owner can do.
_OTHER_WEIGHTS = {
    "*.onnx": "let onnxruntime run that file: `pip install 'zoo-bench[onnx]'`, then pretrained:model=...:backend=onnx",
    "openvino_model*.xml": "an ONNX file: optimum-intel 2.2, which opens OpenVINO's, needs transformers below 5.6",
    "model.*.safetensors": "rename that variant to model.safetensors",
    "*.gguf": "take the model that was quantised to this file",
    "tf_model.h5": "convert these weights of TensorFlow",
    "flax_model.msgpack": "convert these weights of Flax",
}
# A share of the embeddings' rows: some models have unused rows, up to a round number.
_LEAST_VOCABULARY = 0.75
_MOST_LAYERS, _LARGE = 1000, 10_000_000
_SIZES = ("hidden_size", "d_model", "n_embd", "dim", "intermediate_size", "embedding_size", "vocab_size")
# What wraps a model and writes its weights names them so.
_WRAPPED = {"_orig_mod.": "torch.compile", "module.": "DataParallel"}
# A file that git-lfs left as a pointer begins like this.
_LFS = b"version https://git-lfs"


def load_pretrained(kind: Any, folder: Path, **options: object) -> Any:
    """Load `kind` from a local folder without running its Python code."""
    return kind.from_pretrained(folder, trust_remote_code=False, local_files_only=True, **options)


def other_tensors(folder: Path, start: str, *, allow_pickle: bool) -> dict[str, torch.Tensor]:
    """Tensors named from `start` on; a pickle only if allowed and alone, tensors only."""
    import torch
    from safetensors import safe_open

    tensors: dict[str, torch.Tensor] = {}
    safe = sorted(folder.glob("model*.safetensors"))
    for path in safe:
        with safe_open(str(path), framework="pt") as file:
            tensors |= {name: file.get_tensor(name) for name in file.keys() if name.startswith(start)}  # noqa: SIM118
    for path in sorted(folder.glob("pytorch_model*.bin")) if allow_pickle and not safe else ():
        content = torch.load(path, map_location="cpu", weights_only=True)
        tensors |= {name: tensor for name, tensor in content.items() if name.startswith(start)}
    return tensors


def cannot_load(what: str, folder: Path, error: Exception) -> ZooError:
    message = " ".join(str(error).split())
    if "trust_remote_code" in message or "custom code" in message:
        return UsageError(
            f"{what} in {folder} asks to run Python code of its own, which is refused: nothing of it was run. If you"
            " have read that code and trust it, load the model in a plugin of yours (--plugin FILE.py)."
        )
    if "ignore_mismatched_sizes" in message:
        return CorruptError(
            f"{what} in {folder} has weights of other shapes than its config.json states: they do not belong together,"
            " so fetch the folder again or correct the configuration."
        )
    if not any(any(folder.rglob(name)) for name in _LOADED):
        for pattern, remedy in _OTHER_WEIGHTS.items():
            if (other := next(iter(sorted(folder.rglob(pattern))), None)) is not None:
                return MissingError(
                    f"{what} has no model.safetensors in {folder}, but {other.relative_to(folder)}. Fetch the"
                    f" safetensors, or {remedy}."
                )
    lines = str(error).strip().splitlines() or [type(error).__name__]
    first = " ".join([lines[0], *lines[1:2]] if lines[0].endswith(":") else lines[:1])
    return CorruptError(f"{what} in {folder} cannot be loaded: {first.rstrip('.')}.")


def config_of(what: str, folder: Path) -> PreTrainedConfig:
    from transformers import AutoConfig

    try:
        config: PreTrainedConfig = load_pretrained(AutoConfig, folder)
    except Exception as error:
        # The library raises many kinds.
        raise cannot_load(what, folder, error) from error
    return config


def module_folders(folder: Path) -> list[Path]:
    """A model's folders: its own, or its modules' and a Router's routes."""
    listed = folder / "modules.json"
    if not is_file(listed):
        return [folder]
    try:
        parts = [folder / module["path"] for module in read_json(listed)]
    except (TypeError, KeyError) as error:
        raise CorruptError(f"{listed} does not list the modules of a sentence-transformers model.") from error
    # A part that is elsewhere has no share in the folder's identity.
    for part in parts:
        if not part.resolve().is_relative_to(folder.resolve()):
            raise UsageError(f"{listed}: the module {part} is outside its folder; copy it there.")
    routes = [
        part / route
        for part in parts
        for path in (part / "router_config.json", part / "config.json")
        if is_file(path)
        for route in read_mapping(path).get("types", ())
    ]
    return list(dict.fromkeys([*parts, *routes]))


def _formats(part: Path) -> tuple[bool, bool]:
    return any(any(part.glob(name)) for name in _SAFE), any(part.glob("*.bin"))


def has_weights(folder: Path) -> bool:
    return any(any(_formats(part)) for part in module_folders(folder))


def check_weights(what: str, folder: Path, *, allow_pickle: bool) -> None:
    """Raise MissingError without weights or peft, CorruptError for git-lfs pointers, UsageError for pickle only."""
    parts = module_folders(folder)
    for part in parts:
        for path in sorted(part.glob("*")):
            if is_file(path) and path.stat().st_size < 1024 and path.read_bytes().startswith(_LFS):
                raise CorruptError(f"{what}: {path} is a git-lfs pointer, not the file itself; run `git lfs pull`.")
        if is_file(part / "adapter_config.json"):
            check_adapter(what, folder, part)
        safe, pickled = _formats(part)
        if pickled and not safe and not allow_pickle:
            raise UsageError(
                f"{what} has weights only as pickle (*.bin in {part}), which can run code when loaded. Convert it to"
                " safetensors, or pass --allow-pickle if you trust its source (loaded with weights_only)."
            )
        _check_sizes(what, part)
    if parts == [folder] and not has_weights(folder):
        raise MissingError(f"{what}: {folder} has no weights (model.safetensors).")


def _check_sizes(what: str, part: Path) -> None:
    """Raise CorruptError for a config.json larger than its weights: building it would not end."""
    try:
        config = read_mapping(part / "config.json")
    except (MissingError, CorruptError):
        # Who loads the model says so.
        return
    parts = [config, *(value for value in config.values() if isinstance(value, dict))]
    held = sum(path.stat().st_size for name in (_SAFE[0], "*.bin") for path in part.glob(name))
    for name, value in ((name, value) for level in parts for name, value in level.items() if isinstance(value, int)):
        # With four bits a number, a byte has two; a small file may be what is damaged.
        most = max(2 * held, _LARGE) if name in _SIZES else value
        if value > (_MOST_LAYERS if "layer" in name else most):
            raise CorruptError(
                f"{what}: {part / 'config.json'} states {name} {value:,}, more than its weights can hold; fetch"
                " the folder again or correct the configuration."
            )


def check_adapter(what: str, folder: Path, part: Path) -> None:
    """Raise UsageError for an adapter outside of sentence-transformers' folders, MissingError without its peft."""
    if not is_file(folder / "modules.json"):
        raise UsageError(
            f"{what}: {part} is an adapter of peft (adapter_config.json), which changes another model's weights; merge"
            " both (merge_and_unload of peft) and give the folder that you save then."
        )
    optional("peft", "peft", f"{what}: {part} is an adapter (adapter_config.json), which")
    import transformers
    from transformers.integrations.peft import MIN_PEFT_VERSION
    from transformers.utils.peft_utils import check_peft_version

    try:
        check_peft_version(MIN_PEFT_VERSION)
    except ValueError as error:
        version = transformers.__version__
        raise MissingError(
            f"{what}: {part} is an adapter (adapter_config.json), and transformers {version} loads it by peft"
            f" {MIN_PEFT_VERSION} or newer: pip install -U peft, or 'transformers<{version.rpartition('.')[0]}'."
        ) from error


def check_complete(what: str, folder: Path, missing: Collection[str], unknown: Collection[str]) -> None:
    """Raise CorruptError for missing weights: the library would fill them at random; `unknown`: alien weights."""
    prefix = next((prefix for prefix in _WRAPPED if unknown and all(name.startswith(prefix) for name in unknown)), "")
    if missing and prefix:
        raise CorruptError(
            f"{what}: the weights in {folder} are named {prefix}*, as {_WRAPPED[prefix]} names those that it wraps."
            f" Save the model inside, model.{prefix.rstrip('.')}; or rename them by safetensors.torch:"
            f" save_file({{n.removeprefix('{prefix}'): w for n, w in load_file(FILE).items()}}, FILE,"
            " {'format': 'pt'})."
        )
    if missing:
        raise CorruptError(
            f"{what} in {folder} lacks {len(missing)} weights, first {min(missing)}; they would be random."
        )


def check_tokenizer_files(what: str, folder: Path) -> None:
    """Raise MissingError without a tokenizer, because every word would silently be unknown."""
    if not any(any(folder.glob(name)) for name in _TOKENIZERS):
        raise MissingError(
            f"{what}: {folder} has no tokenizer (none of {', '.join(_TOKENIZERS[:4])}), so every word would be"
            " unknown; copy the tokenizer's files beside the weights."
        )


def check_vocabulary(what: str, folder: Path, tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig) -> None:
    """Raise CorruptError if the tokenizer has more words than the model embedding rows, or far fewer.

    Added tokens above the rows, as Gemma's for images, leave the tokenizer; a token of every text and the padding stay.
    """
    rows, words = getattr(config, "vocab_size", None), len(tokenizer)
    if not isinstance(rows, int):
        return
    plain_words, used = (
        words - len(tokenizer.added_tokens_decoder),
        [tokenizer.pad_token_id or 0, *tokenizer("a").input_ids],
    )
    if not (_LEAST_VOCABULARY * rows <= words and plain_words <= rows and max(used) < rows):
        raise CorruptError(
            f"{what}: the tokenizer in {folder} has {words:,} tokens, the model has {rows:,} (vocab_size): they do"
            " not belong together."
        )
    state: Any = tokenizer
    if getattr(state, "backend_tokenizer", None) is not None:
        state._tokenizer = tokens_below(state.backend_tokenizer, rows)


def tokens_below(tokenizer: Tokenizer, rows: int) -> Tokenizer:
    """Tokenizer without added tokens of ids `rows` or more, outside the table."""
    from tokenizers import Tokenizer

    if all(token < rows for token in tokenizer.get_added_tokens_decoder()):
        return tokenizer
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["id"] < rows]
    return Tokenizer.from_str(json.dumps(state))
