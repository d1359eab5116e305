"""Encoders to use: made from a recipe, or read from the folder that they were saved in, whatever their method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.errors import CorruptError, MissingError, UsageError
from zoo.files import hashes_of, read_mapping, sha256_file, well_formed, write_json
from zoo.recipe import all_recipes, parse_methods
from zoo.registry import METHODS

if TYPE_CHECKING:
    from zoo.encoder import Encoder, Runtime, Vectors

_METHOD = "method.json"


def create(method: str, runtime: Runtime | None = None) -> Encoder:
    """Return the encoder of one recipe, `name:key=value` as --methods takes it; what has to be trained is untrained.

    Raises UsageError for a name that is not known, or more than one.
    """
    from zoo.encoder import Runtime

    specs = parse_methods(method, all_recipes())
    if len(specs) != 1:
        raise UsageError(f"{method!r} names {len(specs)} recipes; name one.")
    cls, recipe = specs[0].resolve()
    return cls(recipe, runtime or Runtime())


def encode(encoder: Encoder[Any] | str | Path, texts: str | Sequence[str], runtime: Runtime | None = None) -> Vectors:
    """Return the vectors of texts (n, dim), float32, or of one string (dim,).

    `encoder` is an encoder, a recipe as `create` takes it, or the path of a folder as `load` takes it.
    """
    if isinstance(encoder, str):
        encoder = create(encoder, runtime)
    elif isinstance(encoder, Path):
        encoder = load(encoder, runtime)
    vectors = encoder.encode([texts] if isinstance(texts, str) else list(texts))
    return vectors[0] if isinstance(texts, str) else vectors


def fit(
    method: str,
    sentences: Sequence[str],
    *,
    labels: Sequence[str] | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    runtime: Runtime | None = None,
) -> Encoder[Any]:
    """Return the encoder of one recipe, trained on sentences; with `labels`, sentences 2i and 2i + 1 are the pair i.

    Nothing picks a checkpoint: the last one is kept. `folder` holds checkpoints, from which the same call goes on.
    Raises UsageError for a recipe that is not known, or more than one, and for one string in place of sentences.
    """
    from zoo.encoder import Corpus, Run

    if isinstance(sentences, str):
        raise UsageError("fit takes a list of sentences, not one string; put them into a list.")
    encoder = create(method, runtime)
    encoder.fit(Corpus("sentences", sentences, labels), run=Run(None if folder is None else Path(folder), seed))
    return encoder


def save(encoder: Encoder, folder: str | Path) -> None:
    """Write the encoder, its method's name and the sha256 of each file, so that `load` needs the folder alone."""
    folder = Path(folder)
    encoder.save(folder)
    files = {name: sha256 for name, sha256 in hashes_of(folder).items() if name != _METHOD}
    said = {"method": METHODS.name_of(type(encoder)), "class": type(encoder).__qualname__, "files": files}
    write_json(folder / _METHOD, said)


def check_files(folder: Path, hashes: object) -> None:
    """Raise CorruptError unless each file of an encoder's folder has the sha256 that it was saved with."""
    if not isinstance(hashes, dict):
        raise CorruptError(f"{folder}: nothing says which files the encoder has; train it again.")
    for name, expected in hashes.items():
        path = folder / name
        if not path.is_file() or sha256_file(path) != expected:
            raise CorruptError(f"{path} is damaged or missing (its sha256 is not the one it was saved with).")


def load(folder: str | Path, runtime: Runtime | None = None, *, method: str | None = None) -> Encoder:
    """Return the encoder that `save` or a run put into a folder.

    Raises MissingError where nothing is saved or the method is not registered here (a plugin's), CorruptError for a
    damaged file. `method` names the method of a folder that does not say it: one that Encoder.save wrote by itself.
    """
    folder = Path(folder)
    if not (folder / "recipe.json").is_file() and (folder / "encoder" / "recipe.json").is_file():
        folder = folder / "encoder"  # a run's folder holds the training's log as well
    if (folder / _METHOD).is_file() and "files" in (saved := read_mapping(folder / _METHOD)):
        check_files(folder, saved["files"])
    if method is None:
        if not folder.is_dir():
            raise MissingError(f"{folder} is not a folder; name one that a run wrote, results/encoders/NAME-KEY.")
        if not (folder / _METHOD).is_file():
            raise MissingError(f"{folder} has no {_METHOD}, so nothing says which method it is of; name it: method=...")
        saved = read_mapping(folder / _METHOD)
        if not {"method", "class"} <= saved.keys():
            raise CorruptError(f"{folder / _METHOD} does not say the method; name it: method=...")
        method = saved["method"]
        if not isinstance(method, str | None):
            raise CorruptError(f"{folder / _METHOD} names no method ({method!r:.40}); name it: method=...")
        if method is None or method not in METHODS:
            raise MissingError(
                f"{folder} was saved by {saved['class']} (method {method!r}), which is not registered here; import or"
                " install the plugin that registers it."
            )
    with well_formed(f"the encoder in {folder}"):
        return METHODS.get(method).load(folder, runtime)
