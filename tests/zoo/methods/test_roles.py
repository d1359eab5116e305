"""Prompts, roles and similarity of finished encoders: those of sentence-transformers itself, for the same folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentence_transformers as st
import torch
from sentence_transformers.sentence_transformer import modules

import zoo
from zoo.encoder import Corpus, Run, Runtime
from zoo.errors import ContractError
from zoo.formats.export import write_sentence_transformers
from zoo.methods.pretrained import Pretrained
from zoo.methods.randomvectors import RandomVectors
from zoo.roles import pair_similarities

WORDS = "river lamp train sea map".split()
TEXTS = ["A small dog runs.", "rain", "The Committee POSTPONED its decision.", "word " * 600]
BOTH = {"query": "query: what is ", "document": "passage: "}
CARDS: dict[str, dict[str, Any]] = {
    "queries and documents": {"prompts": BOTH},
    "passages": {"prompts": {"query": "q: ", "passage": "p: "}},
    "a default for all": {"prompts": {"sts": "similar: ", **BOTH}, "default_prompt_name": "sts"},
    "a default alone": {"prompts": {"corpus": "c: "}, "default_prompt_name": "corpus"},
    "none": {},
}


def folder_with(folder: Path, bert: Path, card: dict[str, Any], *after: Any, include: bool = True) -> Path:
    torch.manual_seed(2)
    parts = [modules.Transformer(str(bert)), modules.Pooling(32, "mean", include_prompt=include), *after]
    st.SentenceTransformer(modules=parts, device="cpu").save(str(folder))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(card), encoding="utf-8")
    return folder


def both(folder: Path, **recipe: Any) -> tuple[Pretrained, Any]:
    encoder = Pretrained(Pretrained.Recipe(model=str(folder), **recipe), Runtime())
    return encoder, st.SentenceTransformer(str(folder), device="cpu")


@pytest.mark.parametrize("include", [True, False], ids=["engine", "library"])
@pytest.mark.parametrize("card", CARDS)
def test_texts_queries_and_documents_have_the_librarys_vectors(
    card: str, include: bool, tiny_bert: Path, tmp_path: Path
) -> None:
    """Where the pooling leaves the prompt's tokens out, the library encodes."""
    encoder, library = both(folder_with(tmp_path, tiny_bert, CARDS[card], include=include))
    assert (encoder.library is None) == include
    for method in ("encode", "encode_query", "encode_document"):
        np.testing.assert_allclose(getattr(encoder, method)(TEXTS), getattr(library, method)(TEXTS), atol=1e-5)


@pytest.mark.parametrize("kind", ["cosine", "dot", "euclidean", "manhattan"])
def test_similarity_is_that_of_the_folder(kind: str, tiny_bert: Path, tmp_path: Path) -> None:
    encoder, library = both(folder_with(tmp_path, tiny_bert, {"similarity_fn_name": kind}, modules.Dense(32, 8)))
    vectors = encoder.encode(TEXTS)
    np.testing.assert_allclose(
        encoder.similarity(vectors, vectors[:2]), library.similarity(vectors, vectors[:2]), 1e-4, 1e-4
    )
    expected = library.similarity_pairwise(vectors, vectors[::-1].copy())
    np.testing.assert_allclose(pair_similarities(vectors, vectors[::-1], kind), expected, 1e-4, 1e-4)


def test_prompts_of_the_recipe_replace_those_of_the_folder(tiny_bert: Path, tmp_path: Path) -> None:
    """`prompt` stands before every text, the others before their role; all are named in the facts."""
    folder = folder_with(tmp_path, tiny_bert, {"prompts": BOTH})
    plain, library = both(folder)
    assert plain.facts()["roles"] == "prompts of its folder: query, document"
    encoder, _ = both(folder, query_prompt="ask: ")
    np.testing.assert_allclose(encoder.encode_query(TEXTS), library.encode(TEXTS, prompt="ask: "), atol=1e-5)
    np.testing.assert_allclose(encoder.encode_document(TEXTS), plain.encode_document(TEXTS), atol=1e-6)
    encoder, _ = both(folder, prompt="all: ", document_prompt="")
    assert encoder.facts()["roles"] == "prompts of the recipe: query, every text"
    for vectors in (encoder.encode(TEXTS), encoder.encode_query(TEXTS)):
        np.testing.assert_allclose(vectors, library.encode(TEXTS, prompt="all: "), atol=1e-5)
    np.testing.assert_allclose(encoder.encode_document(TEXTS), library.encode(TEXTS, prompt=""), atol=1e-5)
    assert len({one.fingerprint() for one in (plain, encoder)}) == 2


@pytest.mark.parametrize("keys", [{}, {"prompt": "all: "}, {"query_prompt": "ask: "}], ids=str)
def test_an_export_keeps_the_roles(keys: dict[str, str], tiny_bert: Path, tmp_path: Path) -> None:
    card = {"prompts": {"sts": "similar: ", **BOTH}, "default_prompt_name": "sts", "similarity_fn_name": "dot"}
    encoder, _ = both(folder_with(tmp_path / "st", tiny_bert, card), **keys)
    write_sentence_transformers(encoder, tmp_path / "export")
    library = st.SentenceTransformer(str(tmp_path / "export"), device="cpu")
    assert library.similarity_fn_name == "dot"
    for method in ("encode", "encode_query", "encode_document"):
        np.testing.assert_allclose(getattr(encoder, method)(TEXTS), getattr(library, method)(TEXTS), atol=1e-5)


@pytest.mark.parametrize("card", ["queries and documents", "passages", "a default alone"])
def test_a_map_of_its_vectors_keeps_its_prompts(card: str, tiny_bert: Path, tmp_path: Path) -> None:
    """Whitened and exported, an encoder like E5 has one vector for a query and another for a passage."""
    place = folder_with(tmp_path / "st", tiny_bert, {**CARDS[card], "similarity_fn_name": "dot"})
    encoder = zoo.create(f"whitening:base=pretrained:backbone={place}")
    encoder.fit(Corpus("toy", [f"The {a} is near the {b}." for a in WORDS for b in WORDS]), run=Run())
    assert encoder.facts()["roles"] == str(both(place)[0].roles).partition(";")[0]
    base = both(place)[0]
    for method in ("encode", "encode_query", "encode_document"):
        mapped = encoder.transform(getattr(base, method)(TEXTS))  # type: ignore[attr-defined]
        vectors = getattr(encoder, method)(TEXTS, normalize_embeddings=True, batch_size=2)
        np.testing.assert_allclose(vectors, mapped, atol=1e-5)
    write_sentence_transformers(encoder, tmp_path / "export")
    library = st.SentenceTransformer(str(tmp_path / "export"), device="cpu")
    for method in ("encode", "encode_query", "encode_document"):
        np.testing.assert_allclose(getattr(encoder, method)(TEXTS), getattr(library, method)(TEXTS), atol=1e-4)


@pytest.mark.parametrize("role", ["query", "document"])
def test_an_export_with_other_vectors_of_a_role_is_not_written(role: str, tiny_bert: Path, tmp_path: Path) -> None:
    encoder, _ = both(folder_with(tmp_path / "st", tiny_bert, {"prompts": BOTH}))
    by = getattr(encoder, f"encode_{role}")
    setattr(encoder, f"encode_{role}", lambda texts, **options: by([f"{text} again" for text in texts], **options))
    kind = {"query": "queries", "document": "documents"}[role]
    with pytest.raises(ContractError, match=f"vectors of {kind} are not those of the exported folder"):
        write_sentence_transformers(encoder, tmp_path / "export")
    assert not (tmp_path / "export").exists()


def test_cut_texts_are_counted_by_engine_and_library(tiny_bert: Path, tmp_path: Path) -> None:
    for include in (True, False):
        encoder, _ = both(folder_with(tmp_path / str(include), tiny_bert, {}, include=include), max_length=16)
        encoder.encode(TEXTS)
        assert encoder.encoding_stats()["truncated"] == 1


def test_other_encoders_have_one_role() -> None:
    encoder = RandomVectors(RandomVectors.Recipe(), Runtime())
    np.testing.assert_array_equal(encoder.encode_query(TEXTS[:2]), encoder.encode(TEXTS[:2]))
    np.testing.assert_array_equal(encoder.encode_document(TEXTS[:2]), encoder.encode(TEXTS[:2]))
    assert not str(encoder.roles)
