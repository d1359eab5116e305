"""Encoders to use: `create` makes a recipe's, `load` gives back what was saved, of whatever method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import DECODERS
from one_recipe import has_backbone, one_recipe_a_method

import zoo
from zoo.api import check_files
from zoo.check import PROBES
from zoo.errors import CorruptError, MissingError, UsageError
from zoo.methods.pooled import Average

# Those whose settings change what is saved, or that are made small.
OTHERS = {
    "avg": "avg-last",
    "static": "static-freq",
    "wordvectors": "glove",
    "sif-tokens": "usif-tokens",
    "static-contrastive": "static-contrastive:steps=2",
    "model2vec": "model2vec:dim=8",
    "whitening": "whitening:k=8",
    "flow": "flow-nli-h0",
    "simcse": "simcse-sup",
    "simcse-words": "simcse-words:steps=2:table_steps=2",
    "moco": "moco:queue_size=64",
    "twoviews": "clear",
    "infersent": "infersent:lstm_dim=8",
    "infersent-words": "infersent-glove:lstm_dim=8",
}
# `pretrained` has other words for its backbone, `vectors` a file of the user's; both have tests of their own.
RECIPES = {**one_recipe_a_method(), **OTHERS}
METHODS_MADE = sorted(set(RECIPES) - {"pretrained", "vectors"})


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS_MADE)
def test_any_encoder_comes_back_from_its_folder_alone(
    method: str, tiny_bert: Path, tiny_causal: Path, tmp_path: Path
) -> None:
    name, backbone = RECIPES[method], tiny_causal if method in DECODERS else tiny_bert
    encoder = zoo.create(f"{name}:backbone={backbone}" if has_backbone(method) else name)
    zoo.save(encoder, tmp_path)
    again = zoo.load(tmp_path)
    assert type(again) is type(encoder) and again.fingerprint() == encoder.fingerprint()
    assert np.array_equal(again.encode(PROBES), encoder.encode(PROBES))


def test_a_name_that_is_not_one_recipe_is_refused() -> None:
    with pytest.raises(UsageError, match=r"unknown method 'simcze'.*simcse"):
        zoo.create("simcze")
    with pytest.raises(UsageError, match=r"'static-freq-s\*' names 3 recipes"):
        zoo.create("static-freq-s*")


@pytest.mark.slow
def test_a_folder_that_does_not_say_its_method_asks_for_it(tiny_bert: Path, tmp_path: Path) -> None:
    """Encoder.save alone writes no method.json; so did runs of older versions."""
    encoder = zoo.create(f"avg-last:backbone={tiny_bert}")
    encoder.save(tmp_path)
    with pytest.raises(MissingError, match="which states the method; name it"):
        zoo.load(tmp_path)
    assert np.array_equal(zoo.load(tmp_path, method="avg").encode(PROBES), encoder.encode(PROBES))
    with pytest.raises(MissingError, match="is not a folder"):
        zoo.load(tmp_path / "nowhere")


def test_a_plugin_that_is_not_loaded_is_named(tiny_bert: Path, tmp_path: Path) -> None:
    class Stranger(Average):
        pass

    zoo.save(Stranger(Average.Recipe(backbone=str(tiny_bert)), zoo.Runtime()), tmp_path)
    with pytest.raises(MissingError, match=r"saved by .*Stranger .*not registered here"):
        zoo.load(tmp_path)
    (tmp_path / "method.json").write_text('{"method": "av', encoding="utf-8")
    with pytest.raises(CorruptError, match=r"method\.json"):
        zoo.load(tmp_path)


@pytest.mark.parametrize("name", ["9" * 3000, "\0", "absent"])
def test_a_file_that_no_folder_can_have_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(CorruptError, match="damaged or missing"):
        check_files(tmp_path, {name: "0" * 64})


@pytest.mark.parametrize("seed", [-1, 2**40, 1.5])
def test_a_seed_that_no_generator_takes_is_refused(seed: Any) -> None:
    with pytest.raises(UsageError, match=f"seed is {seed}"):
        zoo.fit("simcse:backbone=zoo-mini", ["A text.", "Another."], seed=seed)


@pytest.mark.slow
def test_a_trained_encoder_comes_back_trained(tiny_bert: Path, tmp_path: Path) -> None:
    """A run's folder is taken as well as the folder in it."""
    encoder = zoo.create(f"simcse:backbone={tiny_bert}:batch_size=4:learning_rate=0.01")
    before = encoder.encode(PROBES)
    encoder.fit(zoo.Corpus("toy", [f"sentence number {i}" for i in range(16)]), run=zoo.Run())
    zoo.save(encoder, tmp_path / "run" / "encoder")
    for place in (tmp_path / "run", str(tmp_path / "run" / "encoder")):
        vectors = zoo.load(place).encode(PROBES)
        assert np.array_equal(vectors, encoder.encode(PROBES)) and not np.allclose(vectors, before)
