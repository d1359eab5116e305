"""Vectors of whole texts from a user's file, made by an encoder that is not part of this project.

Two forms: lines of a text, a tab and numbers separated by blanks or tabs (.tsv, also .gz and .xz); or a matrix (.npy,
or .safetensors with the tensor `vectors`) and beside it a .txt file with the same stem and one text per line.
"""

from __future__ import annotations

import tokenize
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zoo.errors import CorruptError, MissingError
from zoo.files import WRONG_CONTENT, iterate_bytes, sha256_file, sha256_json
from zoo.tensors import read_tensors

_MATRICES = (".npy", ".safetensors")


def find_text_vectors(path: str | None) -> list[Path]:
    """Return the file, and for a matrix also the file of its texts; raises MissingError with the remedy."""
    if path is None:
        raise MissingError("vectors of texts: no file is given; add path=FILE to the method, as in vectors:path=FILE.")
    file = Path(path).expanduser()
    files = [file, file.with_suffix(".txt")] if file.suffix in _MATRICES else [file]
    for candidate in files:
        if not candidate.is_file():
            raise MissingError(
                f"vectors of texts: {candidate} does not exist; `zoo-bench data texts` writes what to encode."
            )
    return [one.resolve() for one in files]


def text_vectors_identity(files: list[Path]) -> dict[str, object]:
    """Return name and sha256 of the files, without their paths, which differ between machines."""
    digests = {file.name: sha256_file(file) for file in files}
    return {"name": files[0].name, "sha256": sha256_json(digests), "local": True}


def read(files: list[Path]) -> tuple[dict[str, int], NDArray[np.float32]]:
    """Return the row of each text, and the vectors (n, dim) float32.

    Raises CorruptError for a file that cannot be read, a malformed line, a number that is not finite, or a text with
    two different vectors.
    """
    if files[0].suffix in _MATRICES:
        vectors, texts = _matrix(files[0]), [line for _, line in _lines(files[1])]
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise CorruptError(f"{files[0]} has the shape {vectors.shape}, and {files[1]} {len(texts)} lines.")
    else:
        texts, vectors = _tab_separated(files[0])
    if not len(texts):
        raise CorruptError(f"{files[0]} holds no text.")
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        raise CorruptError(f"{files[0]}: the vector of {texts[int(np.argmin(finite))][:80]!r} has NaN or infinity.")
    rows: dict[str, int] = {}
    for number, text in enumerate(texts):
        if rows.setdefault(text, number) != number and not np.array_equal(vectors[rows[text]], vectors[number]):
            raise CorruptError(f"{files[0]}: {text[:80]!r} has two different vectors.")
    return rows, vectors


def _matrix(path: Path) -> NDArray[np.float32]:
    if path.suffix == ".safetensors":
        tensors, _ = read_tensors(path)
        if "vectors" not in tensors:
            raise CorruptError(f"{path} has the tensors {', '.join(tensors)}; the one wanted is `vectors`.")
        return np.asarray(tensors["vectors"].float().numpy(), np.float32)
    try:
        return np.asarray(np.load(path, allow_pickle=False), np.float32)
    except (OSError, EOFError, SyntaxError, tokenize.TokenError, *WRONG_CONTENT) as error:
        raise CorruptError(f"{path} cannot be read as a numpy matrix: {error}.") from error


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers; only a line feed ends a line, because texts may contain other separators."""
    for number, line in enumerate(iterate_bytes(path), 1):
        try:
            yield number, line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise CorruptError(f"{path}:{number}: byte {line[error.start]:#x} is not utf-8.") from error


def _tab_separated(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    texts: list[str] = []
    rows: list[NDArray[np.float32]] = []
    for number, line in _lines(path):
        text, tab, values = line.rpartition("\t")
        if len(values.split()) == 1 and "\t" in text:
            text, tab, values = line.partition("\t")
        try:
            row = np.array(values.split(), np.float32)
        except ValueError:
            row = np.empty(0, np.float32)
        if not tab or not len(row) or (rows and len(row) != len(rows[0])):
            raise CorruptError(f"{path}:{number}: expected a text, a tab, and as many numbers as in the first line.")
        texts.append(text)
        rows.append(row)
    return texts, np.stack(rows) if rows else np.empty((0, 0), np.float32)
