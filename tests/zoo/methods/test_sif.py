"""SIF on words and on tokens, against the papers' formulas."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.decomposition import TruncatedSVD
from transformers import AutoModel, AutoTokenizer

import zoo
from zoo.encoder import Corpus, Run, Runtime
from zoo.errors import ContractError
from zoo.methods.moco import MoCo
from zoo.methods.pooled import Average
from zoo.methods.sif import SIF
from zoo.methods.sif_tokens import TokenSIF
from zoo.methods.simcse import SimCSE
from zoo.methods.twoviews import TwoViews

GOLDEN = {
    "sif": {
        "version": 1,
        "values": [0.1427, -0.8974, 1.0, -0.2125, 0.1427, -0.8974, 1.0, -0.2125],
        # Few words are as rare as the paper's a here, where a / (a + p) is nearly a / p.
        "also": [({"a": 0.1}, [0.3422, -0.9829, 1.0, -0.0603, 0.3423, -0.983, 1.0, -0.0604])],
    },
    "sif-tokens": {"version": 1, "values": [0.1243, -0.5539, -1.0, 0.3285, 0.1243, -0.5539, -1.0, 0.3285]},
}


# SIF and uSIF against slow re-computations of docs/methods.md that work on words, with scikit-learn's SVD.

UNKNOWN = "zzzz"
Table = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """Words whose frequencies fall as Zipf's law has them; one of them, and one text, without a vector."""
    rng = np.random.default_rng(1)
    words = np.array([f"w{i}" for i in range(60)] + [UNKNOWN])
    p = 1 / np.arange(1, len(words) + 1)
    sentences = [" ".join(rng.choice(words, rng.integers(3, 12), p=p / p.sum())) for _ in range(300)]
    return Corpus("toy", [*sentences, UNKNOWN])


@pytest.fixture(scope="module")
def table() -> Table:
    """Vectors of most words of the corpus, and of two words that it lacks."""
    rng = np.random.default_rng(2)
    return {w: rng.normal(0.3, 1, 10).round(4) for w in [*(f"w{i}" for i in range(60)), "never", "seen"]}


@pytest.fixture(scope="module")
def path(table: Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sif") / "v.txt"
    path.write_text("".join(f"{w} {' '.join(map(str, v.tolist()))}\n" for w, v in table.items()), encoding="utf-8")
    return path


TEXTS = ["w0 w1 w2", "w50 never w0 w0", "seen", f"w3 {UNKNOWN} w7", "w9", "w1 w30 w31 w32 w2"]


def exact_svd(rows: np.ndarray, count: int) -> TruncatedSVD:
    return TruncatedSVD(n_components=count, algorithm="arpack", random_state=0).fit(rows)


def slow_sif(texts: list[str], target: list[str], counts: Counter[str], table: Table) -> np.ndarray:
    total = sum(counts.values())

    def mean(text: str) -> np.ndarray:
        words = [w for w in text.split() if w in table]
        weighted = [1e-3 / (1e-3 + counts[w] / total) * table[w] if w in counts else table[w] for w in words]
        return sum(weighted, np.zeros(10)) / max(len(words), 1)

    first = exact_svd(np.array([mean(t) for t in target]), 1).components_
    x = np.array([mean(t) for t in texts])
    return x - x @ first.T * first


def slow_usif(texts: list[str], target: list[str], counts: Counter[str], table: Table) -> np.ndarray:
    total, size = sum(counts.values()), len(counts)
    p = {w: n / total for w, n in counts.items()}
    alpha = sum(q > 1 - (1 - 1 / size) ** 11 for q in p.values()) / size
    assert 0 < alpha < 1
    a = (1 - alpha) / (alpha * 0.5 * size)

    def vector(text: str) -> np.ndarray:
        words = [w for w in text.split() if w in table]
        if not words:
            return np.full(10, a)
        v = np.array([table[w] for w in words])
        v = v / np.linalg.norm(v, axis=0)
        return np.mean([a / (a / 2 + p.get(w, min(p.values()))) * row for w, row in zip(words, v, strict=True)], axis=0)

    svd = exact_svd(np.array([vector(t) for t in target]), 5)
    x = np.array([vector(t) for t in texts])
    for sigma, direction in zip(svd.singular_values_, svd.components_, strict=True):
        x = x - sigma**2 / (svd.singular_values_**2).sum() * np.outer(x @ direction, direction)
    return x


def make(path: Path, **recipe: object) -> SIF:
    kind = {"components": 5} if recipe.get("weighting") == "usif" else {}
    return SIF(SIF.Recipe(path=str(path), **{**kind, **recipe}), Runtime())


@pytest.mark.parametrize("fit_on", ["target", "corpus"])
@pytest.mark.parametrize(("weighting", "slow"), [("sif", slow_sif), ("usif", slow_usif)])
def test_vectors_are_those_of_the_slow_definition(
    weighting: str, slow: object, fit_on: str, path: Path, corpus: Corpus, table: Table
) -> None:
    encoder = make(path, weighting=weighting, fit_on=fit_on)
    assert encoder.fit(corpus, run=Run()).fitted
    target = TEXTS * 2 + ["w5 w6", UNKNOWN] if fit_on == "target" else list(corpus.sentences)
    adapted = encoder.adapt(target)
    assert (adapted is encoder) is (fit_on == "corpus")
    counts = Counter(w for s in corpus.sentences for w in s.split())
    wanted = slow(TEXTS, target, counts, table)  # type: ignore[operator]
    np.testing.assert_allclose(adapted.encode(TEXTS), wanted, atol=1e-6)
    assert adapted.covers([*TEXTS, UNKNOWN]).tolist() == [True] * 6 + [False]


def test_a_file_of_frequencies_replaces_the_corpus(path: Path, corpus: Corpus, tmp_path: Path) -> None:
    counts = Counter(w for s in corpus.sentences for w in s.split())
    file = tmp_path / "counts.txt"
    file.write_text("".join(f"{w} {n}\n" for w, n in counts.items()), encoding="utf-8")
    for weighting in ("sif", "usif"):
        counted = make(path, weighting=weighting)
        counted.fit(corpus, run=Run())
        given = make(path, weighting=weighting, frequencies=str(file))
        assert not given.fit(None, run=Run()).fitted
        np.testing.assert_array_equal(given.adapt(TEXTS).encode(TEXTS), counted.adapt(TEXTS).encode(TEXTS))
        assert given.facts() == counted.facts()
    assert set(SIF.sources(given.recipe, Runtime())) == {"path", "frequencies"}
    assert SIF.sources(given.recipe, Runtime())["frequencies"]["name"] == "counts.txt"


def test_traits_say_what_is_read() -> None:
    def needs(**recipe: object) -> tuple[bool, bool]:
        traits = SIF.traits(SIF.Recipe(**recipe))
        return traits.needs_corpus, traits.transductive

    assert needs() == (True, True)
    assert needs(frequencies="f") == (False, True)
    assert needs(fit_on="corpus") == (True, False)
    assert needs(fit_on="corpus", frequencies="f") == (True, False)


def test_adapting_leaves_the_original_untouched(path: Path, corpus: Corpus) -> None:
    encoder = make(path)
    encoder.fit(corpus, run=Run())
    before, mark = encoder.encode(TEXTS), encoder.fingerprint()
    marks = {mark, encoder.adapt(TEXTS).fingerprint(), encoder.adapt(TEXTS[:3]).fingerprint()}
    np.testing.assert_array_equal(encoder.encode(TEXTS), before)
    assert encoder.fingerprint() == mark and len(marks) == 3


def test_no_component_leaves_the_weighted_mean(path: Path, corpus: Corpus, table: Table) -> None:
    encoder = make(path, components=0)
    encoder.fit(corpus, run=Run())
    vectors = encoder.adapt(TEXTS).encode(["seen", "never seen"])
    np.testing.assert_allclose(vectors, [table["seen"], (table["seen"] + table["never"]) / 2], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("weighting", ["sif", "usif"])
def test_token_embeddings_are_weighted_the_same_way(
    weighting: str, tiny_bert: Path, pocket_sentences: list[str], tmp_path: Path
) -> None:
    """The slow definition over a file of the token embeddings, on texts cut into tokens beforehand."""
    recipe = {"weighting": weighting, "components": 3}
    corpus = Corpus("pocket", pocket_sentences[:120])
    encoder = TokenSIF(TokenSIF.Recipe(backbone=str(tiny_bert), **recipe), Runtime())
    encoder.fit(corpus, run=Run())
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    pieces = [" ".join(tokenizer.tokenize(s)) for s in corpus.sentences]
    file = tmp_path / "tokens.vec"
    used = sorted({token for text in pieces for token in text.split()})
    rows = encoder.words.vectors[tokenizer.convert_tokens_to_ids(used)]
    file.write_text("".join(f"{t} {' '.join(map(repr, r.tolist()))}\n" for t, r in zip(used, rows, strict=True)))
    other = SIF(SIF.Recipe(path=str(file), **recipe), Runtime())
    other.fit(Corpus("pieces", pieces), run=Run())
    wanted = other.adapt(pieces[:40]).encode(pieces[:9])
    vectors = encoder.adapt(corpus.sentences[:40]).encode(corpus.sentences[:9])
    np.testing.assert_allclose(vectors, wanted, atol=1e-6 * np.abs(wanted).max() + 1e-7)
    encoder.save(tmp_path / "saved")
    assert TokenSIF.load(tmp_path / "saved").fingerprint() == encoder.fingerprint()
    assert encoder.covers(["", "a dog"]).tolist() == [False, True]


# The pooler "sif": each token weighs a / (a + p), p counted in the training text, in training and at test.

POOLED_TEXTS = [f"The {a} is near the {b}." for a in "river lamp train garden".split() for b in "sea map town".split()]
CORPUS = Corpus("toy", POOLED_TEXTS)


def weights_of(tokenizer: object, a: float) -> dict[int, float]:
    counts = Counter(i for text in POOLED_TEXTS for i in tokenizer(text)["input_ids"])  # type: ignore[operator]
    total = sum(counts.values())
    return {i: a / (a + count / total) for i, count in counts.items()}


def expected(folder: Path, texts: list[str], a: float) -> np.ndarray:
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    weights, rows = weights_of(tokenizer, a), []
    for text in texts:
        encoded = tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            states = model(**encoded).last_hidden_state[0].double().numpy()
        token_weights = np.array([weights.get(int(i), 1.0) for i in encoded["input_ids"][0]])
        rows.append(token_weights @ states / token_weights.sum())
    return np.array(rows)


def test_the_mean_is_weighted_by_counts_of_the_training_text(tiny_bert: Path, tmp_path: Path) -> None:
    encoder = Average(Average.Recipe(backbone=str(tiny_bert), layers="sif", sif_a=0.01), Runtime())
    plain = Average(Average.Recipe(backbone=str(tiny_bert)), Runtime())
    texts = [*POOLED_TEXTS[:3], "a word that is not in them", "river"]
    assert np.allclose(encoder.encode(texts), plain.encode(texts), atol=1e-6)  # until tokens are counted
    assert encoder.fit(CORPUS, run=Run()).fitted
    wanted = expected(tiny_bert, texts, 0.01)
    assert np.abs(encoder.encode(texts) - wanted).max() < 1e-5
    assert np.abs(plain.encode(texts) - wanted).max() > 0.01
    zoo.save(encoder, tmp_path)
    again = zoo.load(tmp_path)
    assert np.abs(again.encode(texts) - wanted).max() < 1e-5 and again.fingerprint() == encoder.fingerprint()
    with pytest.raises(ContractError, match="counts tokens in a corpus"):
        encoder.fit(None, run=Run())


@pytest.mark.parametrize("cls", [SimCSE, MoCo, TwoViews])
def test_contrastive_methods_train_and_test_with_it(cls: type, tiny_bert: Path, tmp_path: Path) -> None:
    fields = {"backbone": str(tiny_bert), "pooler": "sif", "batch_size": 4, "sif_a": 0.01}
    fields |= {"queue_size": 8} if cls is MoCo else {}
    fields |= {"shuffle": (False, True)} if cls is TwoViews else {}
    encoder = cls(cls.Recipe(**fields), Runtime())
    encoder.fit(CORPUS, run=Run(seed=1))
    ones = torch.ones(len(encoder.token_weights.weights))
    for token, weight in weights_of(encoder.backbone.tokenizer, 0.01).items():
        ones[token] = weight
    assert torch.allclose(encoder.token_weights.weights, ones, atol=1e-6)
    vectors = encoder.encode(POOLED_TEXTS)
    encoder.save(tmp_path)
    assert np.allclose(cls.load(tmp_path).encode(POOLED_TEXTS), vectors, atol=1e-6)
    encoder.token_weights.weights.fill_(1)
    assert np.abs(encoder.encode(POOLED_TEXTS) - vectors).max() > 1e-3  # the weights are read at test
