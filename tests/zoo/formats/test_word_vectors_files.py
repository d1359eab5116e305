"""Files of word vectors, written here by hand in every form; and what is said of damaged ones."""

from __future__ import annotations

import gzip
import lzma
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from zoo.errors import CorruptError, UsageError, ZooError
from zoo.formats.word_vectors import find_word_vectors, read_counts, read_word_vectors, word_vectors_identity

WORDS = ["the", ",", "caf\u00e9", "New_York", "a\u00a0b", "\u65e5\u672c"]
VALUES = np.array([[0.418, -1e-05, 3.0], [1.5, 2.25, -0.1], [7.0, 8.0, 9.0], [0.1, 0.2, 0.3], [4, 5, 6], [1, 0, 0]])


def text_of(words: list[str], header: bool = False, end: str = "\n") -> bytes:
    lines = [f"{len(words)} 3"] if header else []
    lines += [" ".join([word, *map(str, row)]) for word, row in zip(words, VALUES.tolist(), strict=False)]
    return (end.join(lines) + end).encode()


def binary_of(words: list[str], newline: bytes = b"\n") -> bytes:
    rows = [w.encode() + b" " + struct.pack("<3f", *v) + newline for w, v in zip(words, VALUES.tolist(), strict=False)]
    return f"{len(words)} 3\n".encode() + b"".join(rows)


FORMS: dict[str, tuple[str, bytes]] = {
    "GloVe text": ("v.txt", text_of(WORDS)),
    "word2vec text": ("v.vec", text_of(WORDS, header=True)),
    "fastText text, a blank at each end": ("v.vec", text_of(WORDS, header=True, end=" \n")),
    "Windows line ends": ("v.txt", text_of(WORDS, end="\r\n")),
    "tabs": ("v.txt", text_of(WORDS).replace(b" ", b"\t")),
    "a tab after the word": ("v.txt", re.sub(rb"(?m)^([^ ]+) ", rb"\1\t", text_of(WORDS))),
    "two blanks": ("v.txt", text_of(WORDS).replace(b" ", b"  ")),
    "a byte order mark": ("v.txt", b"\xef\xbb\xbf" + text_of(WORDS)),
    "a byte order mark and a header": ("v.vec", b"\xef\xbb\xbf" + text_of(WORDS, header=True)),
    "gzip": ("v.txt.gz", gzip.compress(text_of(WORDS))),
    "xz": ("v.vec.xz", lzma.compress(text_of(WORDS, header=True))),
    "word2vec binary": ("v.bin", binary_of(WORDS)),
    "binary without newlines": ("v.bin", binary_of(WORDS, b"")),
    "binary, gzip": ("GoogleNews.bin.gz", gzip.compress(binary_of(WORDS))),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_words_and_vectors(form: str, tmp_path: Path) -> None:
    name, content = FORMS[form]
    (tmp_path / name).write_bytes(content)
    rows, vectors = read_word_vectors(str(tmp_path / name))
    assert rows == {word: i for i, word in enumerate(WORDS)}
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, VALUES.astype(np.float32))
    rows, vectors = read_word_vectors(str(tmp_path / name), 2)
    assert (list(rows), vectors.shape) == (WORDS[:2], (2, 3))


@pytest.mark.slow
@pytest.mark.parametrize("header", [True, False])
def test_a_long_file_is_read_whole_with_pythons_numbers(header: bool, tmp_path: Path) -> None:
    """More lines than are parsed at once, numbers of every length."""
    values = np.random.default_rng(0).normal(size=(9000, 4)) * np.geomspace(1e-9, 1e9, 9000)[:, None]
    lines = [f"w{i} " + " ".join(map(repr, row)) for i, row in enumerate(values.tolist())]
    path = tmp_path / "long.txt"
    path.write_text("\n".join([*(["9000 4"] if header else []), *lines]) + "\n", encoding="utf-8")
    rows, vectors = read_word_vectors(str(path))
    assert list(rows) == [f"w{i}" for i in range(9000)]
    np.testing.assert_array_equal(vectors, values.astype(np.float32))


@pytest.mark.parametrize("make", [text_of, binary_of])
def test_of_a_word_that_comes_twice_the_first_counts(make: Callable[[list[str]], bytes], tmp_path: Path) -> None:
    path = tmp_path / ("v.bin" if make is binary_of else "v.txt")
    path.write_bytes(make(["x", "y", "x", "z"]))
    rows, vectors = read_word_vectors(str(path))
    assert rows == {"x": 0, "y": 1, "z": 2}
    np.testing.assert_array_equal(vectors, VALUES[[0, 1, 3]].astype(np.float32))


def test_bytes_that_are_not_utf8_are_replaced_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In text and in word2vec's binary form; gensim does it with errors="replace"."""
    (tmp_path / "v.txt").write_bytes(b"a 1 2\ncaf\xe9 3 4\n 5 6\n")
    (tmp_path / "v.bin").write_bytes(b"2 1\na \0\0\0\0\xe4\xb8 \0\0\0\0")
    rows, vectors = read_word_vectors(str(tmp_path / "v.txt"))
    assert (list(rows), vectors.tolist()) == (["a", "caf\ufffd", ""], [[1, 2], [3, 4], [5, 6]])
    assert list(read_word_vectors(str(tmp_path / "v.bin"))[0]) == ["a", "\ufffd"]
    errors = capsys.readouterr().err
    assert "v.txt: 1 words are not UTF-8" in errors and "v.bin: 1 words are not UTF-8" in errors


def test_words_with_blanks_inside_are_kept(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text(". . . 3 4\nthe 1 2\nat name@domain.com 5 6\n", encoding="utf-8")
    rows, vectors = read_word_vectors(str(tmp_path / "v.txt"))
    assert list(rows) == [". . .", "the", "at name@domain.com"]
    assert vectors.tolist() == [[3, 4], [1, 2], [5, 6]]


many = b"".join(b"w%d 1 2 3\n" % i for i in range(5000))
DAMAGE: dict[str, tuple[str, bytes, str]] = {
    "a number is missing": ("v.txt", b"a 1 2 3\nb 1 2\n", r"v\.txt: line 2: expected a word and 3 numbers"),
    "far down, with a header": ("v.vec", b"5001 3\n" + many + b"x 1 2\n", "line 5002"),
    "NaN": ("v.txt", b"a 1 2 3\nb 1 nan 3\n", "line 2: NaN or infinity"),
    "cut": ("v.vec", text_of(WORDS, header=True).rsplit(b"\n", 2)[0] + b"\n", "5 lines .* header states 6"),
    "cut gzip": ("v.txt.gz", gzip.compress(many)[:-20], "cannot be read to its end"),
    "binary cut": ("v.bin", binary_of(WORDS)[:-7], "5 whole words, but its header states 6"),
    "binary NaN": ("v.bin", b"2 1\na \0\0\0\0b " + struct.pack("<f", np.nan), "word 2: NaN"),
    "a zip archive": ("glove.6B.zip", b"PK\x03\x04" + bytes(40), "zip archive; unpack it"),
    "a fastText model": ("cc.en.300.bin", struct.pack("<i", 793712314) + bytes(40), r"give the \.vec file"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_an_error_that_names_the_place(kind: str, tmp_path: Path) -> None:
    name, content, words = DAMAGE[kind]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ZooError, match=words) as caught:
        read_word_vectors(str(tmp_path / name))
    assert isinstance(
        caught.value, UsageError if kind.startswith("a ") and kind != "a number is missing" else CorruptError
    )
    assert name in str(caught.value)


def test_counts_are_added_up_and_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "counts.txt.gz"
    path.write_bytes(gzip.compress(b"the 10\ncat 2\nthe 1\n"))
    assert read_counts(str(path)) == {"the": 11, "cat": 2}
    for content, words in ((b"the 10\ncat\n", "line 2"),):
        (tmp_path / "bad.txt").write_bytes(content)
        with pytest.raises(CorruptError, match=words):
            read_counts(str(tmp_path / "bad.txt"))


def test_the_identity_is_the_content_and_the_name_not_the_place(tmp_path: Path) -> None:
    identities = []
    for folder, content in (("a", b"x 1\n"), ("b", b"x 1\n"), ("c", b"x 2\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "v.txt").write_bytes(content)
        identities.append(word_vectors_identity(find_word_vectors(str(tmp_path / folder / "v.txt"), "word vectors")))
    assert identities[0] == identities[1] != identities[2]
    assert identities[0]["name"] == "v.txt"
