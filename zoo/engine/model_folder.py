"""Checks of a model folder before loading: no Python code, no pickle, complete weights, a matching tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.engine.model_sizes import check_sizes, check_stated_counts
from zoo.errors import CorruptError, MissingError, UsageError, ZooError
from zoo.files import read_json, read_mapping
from zoo.paths import is_file

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

# The files of the transformers library's tokenizers; a BPE vocabulary in two files has vocab.json.
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.tiktoken", "*.bpe.codes", "bpe.codes")
_LEAST_VOCABULARY = 0.75  # of the rows of the embeddings; some models have unused rows, up to a round number

# Under the names that every architecture's configuration answers to.
_AT_LEAST_ONE = ("num_hidden_layers", "num_attention_heads", "hidden_size", "vocab_size")


def load_pretrained(kind: Any, folder: Path, **options: object) -> Any:
    """Return what `kind` loads from a local folder; Python code in the folder is not run."""
    return kind.from_pretrained(folder, trust_remote_code=False, local_files_only=True, **options)


def cannot_load(what: str, folder: Path, error: Exception) -> ZooError:
    """Return the ZooError to raise for an error, of any kind, of the transformers library."""
    if "trust_remote_code" in str(error) or "custom code" in str(error):
        return UsageError(
            f"{what} in {folder} asks to run Python code of its own (auto_map), which is refused: nothing of it was"
            " run. If you have read that code and trust it, load the model in a plugin of yours (--plugin FILE.py),"
            " which runs as your own code."
        )
    if "ignore_mismatched_sizes" in str(error):  # the library's advice to its caller; its report of the shapes is long
        return CorruptError(
            f"{what} in {folder} has weights of other shapes than its config.json states: they do not belong together,"
            " so fetch the folder again or correct the configuration."
        )
    lines = str(error).strip().splitlines() or [type(error).__name__]
    said = " ".join([lines[0], *lines[1:2]] if lines[0].endswith(":") else lines[:1])
    return CorruptError(f"{what} in {folder} cannot be loaded: {said.rstrip('.')}.")


def config_of(what: str, folder: Path) -> PreTrainedConfig:
    """Return a model folder's configuration; raises CorruptError or UsageError where it cannot be read or used.

    One whose model is larger than the folder's weights is refused before the model is built, and one that asks for
    native code of the hub before the library sees it.
    """
    from transformers import AutoConfig

    try:
        if is_file(folder / "config.json"):
            _check_attention(what, folder, read_mapping(folder / "config.json"))
        check_stated_counts(what, folder)
        config: PreTrainedConfig = load_pretrained(AutoConfig, folder)
        _check_at_least_one(what, folder, config)
        check_sizes(what, folder, config)
    except ZooError:
        raise
    except Exception as error:  # the library raises many kinds
        raise cannot_load(what, folder, error) from error
    return config


def _check_attention(what: str, folder: Path, stated: Any) -> None:
    # The library downloads and runs a compiled kernel where an implementation is named as a repository: owner/name.
    for key, value in stated.items() if isinstance(stated, dict) else enumerate(stated):
        if isinstance(value, dict | list):
            _check_attention(what, folder, value)
        elif "implementation" in str(key) and isinstance(value, str) and "/" in value:
            raise UsageError(
                f"{what}: {folder / 'config.json'} says {key} {value!r:.80}, compiled code of another repository, which"
                " is refused: take that line out, and the model computes its attention here."
            )


def _check_at_least_one(what: str, folder: Path, config: PreTrainedConfig) -> None:
    # The library builds a model of none or fewer, which fails on the first text or has no states.
    for key in _AT_LEAST_ONE:
        value = getattr(config, key, None)
        if isinstance(value, int) and value < 1:
            own = config.attribute_map.get(key, key)
            raise CorruptError(
                f"{what}: {folder / 'config.json'} says {own} {value} (expected >= 1); fetch the folder again or"
                " correct the configuration."
            )


def listed_modules(folder: Path) -> list[dict[str, str]]:
    """Return path and type of each module that modules.json lists, [] without that file; raises CorruptError."""
    path = folder / "modules.json"
    if not is_file(path):
        return []
    listed = read_json(path)
    if not isinstance(listed, list) or not listed:
        raise CorruptError(f"{path} does not list the modules of a sentence-transformers model.")
    for module in listed:
        if not isinstance(module, dict) or not all(isinstance(module.get(key), str) for key in ("path", "type")):
            raise CorruptError(f"{path}: a module has no path or no type; write the model again.")
        try:
            inside = (folder / module["path"]).resolve()
            inside.exists()  # it need not, but its name must be one that a folder can have
        except (OSError, ValueError) as error:
            raise CorruptError(f"{path}: a module's path is no path ({module['path']!r:.100}).") from error
        if not inside.is_relative_to(folder.resolve()):
            raise UsageError(f"{path} names a module outside its folder ({module['path']!r}); put it inside.")
    return [{"path": module["path"], "type": module["type"]} for module in listed]


def module_folders(folder: Path) -> list[Path]:
    """Return the folders that a model consists of: its own, or those that its modules.json lists."""
    return list(dict.fromkeys(folder / module["path"] for module in listed_modules(folder))) or [folder]


def _check_regular(what: str, folder: Path) -> None:
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.exists() and not path.is_file() and not path.is_dir():
            raise CorruptError(
                f"{what}: {path} is a pipe or a device, which a model's files are not; put the file itself there."
            )


def check_weights(what: str, folder: Path, *, allow_pickle: bool) -> None:
    """Check the weights in every folder that is loaded: the model's own, or those that modules.json lists.

    Raises MissingError if there are none, UsageError if they are pickle only, CorruptError for an index that names a
    file outside its folder, and for anything that is no regular file, whose reading might never end.
    """
    _check_regular(what, folder)
    found = False
    for part in module_folders(folder):
        _check_regular(what, part)
        for index in sorted(part.glob("*.safetensors.index.json")):
            _check_index(what, index)
        safe = any(part.glob("*.safetensors")) if part != folder else any(part.glob("model*.safetensors"))
        pickled = any(part.glob("*.bin"))
        found |= safe or pickled
        if pickled and not safe and not allow_pickle:
            raise UsageError(
                f"{what} has weights only as pickle (*.bin in {part}), which can run code when loaded. Convert it to"
                " safetensors, or pass --allow-pickle if you trust its source (loaded with weights_only)."
            )
    if not found:
        raise MissingError(f"{what}: {folder} has no weights (*.safetensors).")


def _check_index(what: str, index: Path) -> None:
    shards = read_mapping(index).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(name, str) for name in shards.values()):
        raise CorruptError(f"{what}: {index} does not say which file has which weight.")
    for name in sorted(set(shards.values())):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise CorruptError(f"{what}: {index} names {name!r}, which is no safetensors file of this folder; refused.")
        if not is_file(index.parent / name):
            raise MissingError(f"{what}: {index} names {name}, which is not there; fetch the model again.")


def check_loaded(what: str, folder: Path, kind: Any, config: PreTrainedConfig) -> None:
    """Raise CorruptError if a folder lacks a weight of a model class: the library makes it up at random.

    A pooler, which many checkpoints lack and no pooling here reads, may be missing.
    """
    _, loading = load_pretrained(kind, folder, config=config, output_loading_info=True)
    missing = sorted(name for name in loading["missing_keys"] if not name.startswith("pooler."))
    if missing:
        raise CorruptError(
            f"{what} in {folder} lacks {len(missing)} weights, first {missing[0]}; they would be random."
        )


def check_tokenizer_files(what: str, folder: Path) -> None:
    """Raise MissingError for a folder without a tokenizer, which would silently make every word unknown."""
    if not any(any(folder.glob(name)) for name in _TOKENIZERS):
        raise MissingError(
            f"{what}: {folder} has no tokenizer (none of {', '.join(_TOKENIZERS[:4])}), so every word would be"
            " unknown; copy the tokenizer's files beside the weights."
        )


def check_vocabulary(what: str, folder: Path, tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig) -> None:
    """Raise CorruptError if the tokenizer has more tokens than the model has embedding rows, or far fewer."""
    rows, words = getattr(config, "vocab_size", None), len(tokenizer)
    if isinstance(rows, int) and not _LEAST_VOCABULARY * rows <= words <= rows:
        raise CorruptError(
            f"{what}: the tokenizer in {folder} knows {words:,} tokens, the model has {rows:,} (vocab_size): they do"
            " not belong together."
        )
