"""Functions for users of encoders: create, train, encode, save, load."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.errors import CorruptError, MissingError, UsageError
from zoo.files import hashes_of, read_mapping, sha256_file, well_formed, write_json, writing
from zoo.paths import is_file, saved_encoder
from zoo.plugins import METHODS
from zoo.recipes import all_recipes
from zoo.selection import MODEL_FILES, model_folder, parse_methods, saved_named

if TYPE_CHECKING:
    from zoo.encoder import Encoder, Runtime, Vectors

_METHOD = "method.json"


def create(method: str, runtime: Runtime | None = None) -> Encoder:
    """Return the untrained encoder of a recipe.

    Args:
        method: The recipe as in --methods: `name` or `name:key=value`.
        runtime: Device and precision; by default the CPU and fp32.

    Returns:
        The encoder, with the settings of the recipe.

    Raises:
        UsageError: The name is unknown, or the text names several recipes.

    Examples:
        >>> import zoo
        >>> len(zoo.create("static-avg").encode(["a dog", "a cat"]))
        2
    """
    from zoo.encoder import Runtime

    specs = parse_methods(method, all_recipes())
    if len(specs) != 1:
        raise UsageError(f"{method!r} names {len(specs)} recipes; name one.")
    cls, recipe = specs[0].resolve()
    return cls(recipe, runtime or Runtime())


def encode(encoder: Encoder | str | Path, texts: str | Sequence[str], runtime: Runtime | None = None) -> Vectors:
    """Return the vectors of texts.

    Args:
        encoder: An object with `encode`, a recipe as for `create`, or a folder as for `load`.
        texts: n texts, or one string.
        runtime: Device and precision of a recipe or a folder; by default the CPU and fp32.

    Returns:
        The vectors (n, dim), float32, or the vector (dim,) of one string.

    Raises:
        UsageError: `encoder` is none of these.

    Examples:
        >>> import zoo
        >>> zoo.encode("static-avg", "a dog").ndim
        1
    """
    if isinstance(encoder, Path) or (isinstance(encoder, str) and saved_named(encoder)):
        encoder = load(encoder, runtime)
    elif isinstance(encoder, str):
        encoder = create(encoder, runtime)
    elif not callable(getattr(encoder, "encode", None)):
        raise UsageError(
            f"{type(encoder).__name__} is no encoder; give a recipe's name, a folder, a zoo Encoder or a model of"
            " sentence-transformers. A function of texts returns its vectors itself."
        )
    vectors = encoder.encode([texts] if isinstance(texts, str) else list(texts))
    return vectors[0] if isinstance(texts, str) else vectors


def fit(
    method: str,
    sentences: Sequence[str],
    *,
    labels: Sequence[str] | None = None,
    documents: Sequence[int] | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    runtime: Runtime | None = None,
) -> Encoder:
    """Return the encoder of a recipe, trained on sentences; without a development set the last weights are kept.

    Args:
        method: The recipe as in --methods: `name` or `name:key=value`.
        sentences: The training sentences; with `labels`, sentences 2i and 2i + 1 are the pair i.
        labels: A label per pair, such as "entailment".
        documents: The number of each document's first sentence, for recipes that train on neighbours.
        seed: The seed of all randomness, from 0 to 2**32 - 1.
        folder: The folder of checkpoints, from which the same call resumes.
        runtime: Device and precision; by default the CPU and fp32.

    Returns:
        The trained encoder.

    Raises:
        UsageError: The recipe is unknown or several, `sentences` is one string, or all sentences are equal.
        MissingError: The recipe needs labels or documents.

    Examples:
        >>> import zoo
        >>> zoo.fit("bag-of-words", ["a dog", "a cat"]).encode(["a dog"]).shape
        (1, 4096)
    """
    from zoo.check import doubts_of
    from zoo.encoder import Corpus, Run

    if isinstance(sentences, str):
        raise UsageError("fit takes a list of sentences, not one string; put them into a list.")
    if type(seed) is not int or not 0 <= seed < 2**32:
        raise UsageError(f"seed is {seed!r:.100}; give a whole number from 0 to 2**32 - 1.")
    encoder = create(method, runtime)
    corpus = Corpus("sentences", sentences, labels, documents)
    for doubt in doubts_of(corpus):
        encoder.runtime.progress.say(f"warning: {doubt}.")
    encoder.fit(corpus, run=Run(None if folder is None else Path(folder), seed))
    return encoder


def save(encoder: Encoder, folder: str | Path) -> None:
    """Write the encoder, its method's name and the sha256 of each file; `load` needs only the folder.

    Args:
        encoder: The encoder, trained or not.
        folder: The folder; a missing folder is created.
    """
    folder = Path(folder)
    builtin = METHODS.is_builtin(METHODS.name_of(type(encoder)) or "")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    # What a plugin's code raises is its own fault, and no folder's.
    with writing(folder) if builtin else nullcontext():
        encoder.save(folder)
    files = {name: sha256 for name, sha256 in hashes_of(folder).items() if name != _METHOD}
    about = {"method": METHODS.name_of(type(encoder)), "class": type(encoder).__qualname__, "files": files}
    write_json(folder / _METHOD, about)


def check_files(folder: Path, hashes: object) -> None:
    """Raise CorruptError for a file with another sha256 than at saving."""
    if not isinstance(hashes, dict):
        raise CorruptError(f"{folder}: its list of the encoder's files is missing; train it again.")
    for name, expected in hashes.items():
        path = folder / name
        if not is_file(path) or sha256_file(path) != expected:
            raise CorruptError(f"{path} is damaged or missing (its sha256 is not the one it was saved with).")


def load(folder: str | Path, runtime: Runtime | None = None, *, method: str | None = None) -> Encoder:
    """Return the encoder of a folder by `save` or a run, or the finished model of a folder.

    Args:
        folder: The folder.
        runtime: Device and precision; by default the CPU and fp32.
        method: The method's name, needed only after `Encoder.save`.

    Returns:
        An encoder with the saved encoder's vectors.

    Raises:
        MissingError: The folder has no encoder, or its method (of a plugin) is not registered here.
        CorruptError: A file is damaged.
        UsageError: The finished model does not state its pooling.
    """
    folder = Path(folder)
    saved_in = saved_encoder(folder)
    if saved_in is None and method is None and any(is_file(folder / name) for name in MODEL_FILES):
        return create(f"pretrained:model={model_folder(str(folder))}", runtime)
    folder = saved_in or folder
    if (folder / _METHOD).is_file() and "files" in (saved := read_mapping(folder / _METHOD)):
        check_files(folder, saved["files"])
    if method is None:
        if not folder.is_dir():
            raise MissingError(f"{folder} is not a folder; name one that a run wrote, results/encoders/NAME-KEY.")
        if not (folder / _METHOD).is_file():
            raise MissingError(f"{folder} has no {_METHOD}, which states the method; name it: method=...")
        saved = read_mapping(folder / _METHOD)
        if not {"method", "class"} <= saved.keys():
            raise CorruptError(f"{folder / _METHOD} states no method; name it: method=...")
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
