"""Vectors that a user brings: every form of the file, what is refused, and what is not in it."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from zoo.check import PROBES
from zoo.conformance import check
from zoo.encoder import Runtime
from zoo.errors import CorruptError, MissingError
from zoo.methods.textvectors import TextVectors
from zoo.recipes import all_recipes

GOLDEN = {"vectors": {"version": 1, "values": [-0.261, -0.0078, -1.0, -0.8097, -0.2961, -0.1582, -1.0, -0.9916]}}

TEXTS = ["a small dog", 'two "marks" and a\ttab', "", "naïve café"]
VECTORS = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def brought(folder: Path, form: str) -> Path:
    """Write the vectors in one of the forms."""
    if form in ("npy", "safetensors"):
        path = folder / f"mine.{form}"
        if form == "npy":
            np.save(path, VECTORS.astype(np.float64))
        else:
            save_file({"vectors": torch.from_numpy(VECTORS)}, path)
        path.with_suffix(".txt").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
        return path
    rows = zip(TEXTS, VECTORS, strict=True)
    lines = "".join(f"{text}\t{' '.join(repr(float(x)) for x in row)}\n" for text, row in rows)
    path = folder / f"mine.{form}"
    path.write_bytes({".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)(lines.encode()))
    return path


@pytest.mark.parametrize("form", ["tsv", "tsv.gz", "tsv.xz", "npy", "safetensors"])
def test_every_form_gives_the_rows_of_the_texts(form: str, tmp_path: Path) -> None:
    encoder = TextVectors(TextVectors.Recipe(path=str(brought(tmp_path, form))), Runtime())
    order = [2, 0, 3, 1, 0]
    np.testing.assert_allclose(encoder.encode([TEXTS[i] for i in order]), VECTORS[order], rtol=1e-6)
    asked = ["a small dog", "A small dog", "another"]
    assert encoder.covers(asked).tolist() == [True, False, False]
    assert not encoder.encode(asked)[1:].any()
    encoder.save(tmp_path / "saved")
    again = TextVectors.load(tmp_path / "saved")
    assert again.fingerprint() == encoder.fingerprint()
    np.testing.assert_array_equal(again.encode(TEXTS), encoder.encode(TEXTS))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a\t1 2\nb\t1\n", ":2: expected a text, a tab"),
        ("a\t1 nan\n", "NaN or infinity"),
        ("a\t1 2\na\t1 3\n", "two different vectors"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(CorruptError, match=words):
        TextVectors(TextVectors.Recipe(path=str(path)), Runtime())


def test_a_matrix_of_another_length_or_a_pickle_is_refused(tmp_path: Path) -> None:
    path = brought(tmp_path, "npy")
    np.save(path, VECTORS[:3])
    with pytest.raises(CorruptError, match=r"has the shape \(3, 3\), and .*4 lines"):
        TextVectors(TextVectors.Recipe(path=str(path)), Runtime())
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(CorruptError, match="cannot be read as a numpy matrix"):
        TextVectors(TextVectors.Recipe(path=str(path)), Runtime())
    path.with_suffix(".txt").unlink()
    with pytest.raises(MissingError, match="zoo-bench data texts"):
        TextVectors(TextVectors.Recipe(path=str(path)), Runtime())


@pytest.mark.parametrize("name", ["vectors", "skipthought", "gensen", "infersent-2", "use"])
def test_the_papers_systems_take_such_a_file_and_say_so_without(name: str, tmp_path: Path) -> None:
    cls, recipe = all_recipes()[name].resolve()
    assert cls is TextVectors
    with pytest.raises(MissingError, match="add path=FILE"):
        cls.sources(recipe, Runtime())
    path = tmp_path / "mine.tsv"
    path.write_text("".join(f"{text}\t{i} {i * i + 1}\n" for i, text in enumerate(PROBES)), encoding="utf-8")
    findings = dict(check(cls, TextVectors.Recipe(path=str(path)), Runtime(), name))
    assert set(findings.values()) == {None}
