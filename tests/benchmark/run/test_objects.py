"""Objects score as their recipes do, to the last digit, where batches decide about digits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Bag, Cli

import benchmark
import zoo
from benchmark.records.folder import Records
from benchmark.run.stop import listening
from zoo.encoder import Corpus, Encoder, Run, Runtime, Traits
from zoo.errors import Interrupted
from zoo.plugins import METHODS

WORDS = {"tasks": "pocket-words", "precision": "fp32", "embedding_cache": 0.0, "quiet": True}


class Sized(Bag):
    """Its last digits depend on how many texts it is given at once, as those of a product of matrices may."""

    blocks: list[int] = []  # noqa: RUF012

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        type(self).blocks.append(len(texts))
        vectors = super().encode(texts)
        vectors[:, 1] += len(texts) % 97 * 1e-5
        return vectors


class Asking(Sized):
    blocks: list[int] = []  # noqa: RUF012

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        if number := self.runtime.stop_signal():
            raise Interrupted("stopped", number)
        return super().encode(texts)


class Around(Sized):
    """Another encoder inside it asks."""

    blocks: list[int] = []  # noqa: RUF012

    def __init__(self, recipe: Any, runtime: Runtime) -> None:
        super().__init__(recipe, runtime)
        self.base = Asking(recipe, runtime)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        type(self).blocks.append(len(texts))
        return self.base.encode(texts)


class Unknowing(Sized):
    """A task with a text that it does not know is n/a."""

    blocks: list[int] = []  # noqa: RUF012

    def covers(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([not text.startswith("s") for text in texts])

    @classmethod
    def traits(cls, recipe: Any) -> Traits:
        return Traits(needs_every_text=True)


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "block"), [(Sized, 256), (Asking, None), (Around, None)])
def test_a_plugin_scores_alike_as_recipe_and_as_object(
    clean_registries: None, cli: Cli, tmp_path: Path, cls: type[Sized], block: int | None
) -> None:
    METHODS.register("sized")(cls)
    cls.blocks.clear()
    words = ["run", "--methods", "sized", "--tasks", "pocket-words", "--precision", "fp32", "--embedding-cache", "0"]
    assert cli(*words, "--results", tmp_path).code == 0
    (command,) = Records(tmp_path).all()
    ways: list[Any] = ["sized", cls(cls.Recipe(), Runtime())]
    if cls is Sized:
        ways.append(cls(cls.Recipe(), Runtime()).encode)  # a function of texts
    blocks = [size for size in cls.blocks if size > 16]  # the probes are smaller
    assert blocks[0] == (block or sum(blocks)) and sum(blocks) > 256
    for way in ways:
        cls.blocks.clear()
        (record,) = benchmark.evaluate(way, **WORDS).records
        assert [size for size in cls.blocks if size > 16] == blocks
        assert record["scores"] == command["scores"]


def test_a_signal_reaches_what_asks_inside() -> None:
    signals: list[int] = []
    around = Around(Around.Recipe(), Runtime(stop_signal=lambda: signals.append(1)))
    number: list[int | None] = [None]
    with listening(around, lambda: number[0]):
        assert around.encode(["a"]).shape == (1, 64) and signals == [1], "its owner is asked as well"
        number[0] = 15
        with pytest.raises(Interrupted):
            around.encode(["a"])
    assert around.encode(["a"]).shape == (1, 64), "outside of a run it is as it was"


@pytest.mark.slow
def test_what_makes_a_cell_empty_is_the_recipe_s(clean_registries: None, tmp_path: Path) -> None:
    METHODS.register("unknowing")(Unknowing)
    encoders: list[tuple[str, Encoder[Any]]] = [("unknowing", Unknowing(Unknowing.Recipe(), Runtime()))]
    encoders.append(("whitening-target", zoo.create("whitening-target")))
    for recipe, encoder in encoders:
        plans = []
        for way in (recipe, encoder):
            folder = tmp_path / f"{recipe}-{isinstance(way, str)}"
            tasks = WORDS | {"tasks": "pocket-words,pocket-pairs", "limit": 100}
            try:
                benchmark.evaluate(way, results=folder, name="it", **tasks)
            except zoo.errors.MissingError as error:
                assert "nothing was measured" in str(error)
            records = Records(folder).all()
            plans.append(
                sorted((r["task"]["name"], r["status"], r["reason"], (r["adapt"] or {}).get("rank")) for r in records)
            )
        assert plans[0] == plans[1] and "n/a" in [status for _, status, *_ in plans[0]]


def test_a_function_is_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one of its name, alike on the probes, has its own score: no cell is kept, and no vector is cached."""
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))
    bag = Bag(Bag.Recipe(), Runtime())

    def all_words(texts: Sequence[str]) -> np.ndarray:
        return bag.encode(texts)

    def few_words(texts: Sequence[str]) -> np.ndarray:
        return bag.encode([text[:4] if len(text.split()) == 1 and text != "Rain." else text for text in texts])

    words = WORDS | {"embedding_cache": 1.0, "name": "mine", "results": tmp_path / "out", "quiet": False}
    fresh = benchmark.evaluate(few_words, **WORDS).records[0]
    (first,) = benchmark.evaluate(all_words, **words).records
    (second,) = benchmark.evaluate(few_words, **words).records
    assert second["scores"] == fresh["scores"] != first["scores"] and second["row_key"] == first["row_key"]
    assert [r["key"] for r in Records(tmp_path / "out").all()] == [second["key"]]


@pytest.mark.slow
def test_a_library_model_is_measured_as_it_encodes(tiny_bert: Path) -> None:
    """What saving drops counts: a cut of dimensions, a class with its own encode(), a patched forward()."""
    import sentence_transformers as library
    from sentence_transformers.sentence_transformer import modules as parts

    class Reversed(library.SentenceTransformer):  # type: ignore[misc,name-defined]
        def encode(self, sentences: Any, **options: Any) -> Any:
            return super().encode([text[::-1] for text in sentences], **options)

    modules = [parts.Transformer(str(tiny_bert)), parts.Pooling(32)]
    plain, cut, turned, patched = (
        kind(modules=modules, device="cpu", **more)
        for kind, more in (
            (library.SentenceTransformer, {}),
            (library.SentenceTransformer, {"truncate_dim": 8}),
            (Reversed, {}),
            (library.SentenceTransformer, {}),
        )
    )
    forward = patched.forward
    patched.forward = lambda features, **more: {
        name: value * value.abs() if name == "sentence_embedding" else value
        for name, value in forward(features, **more).items()
    }
    auto = WORDS | {"precision": "auto"}
    scores = []
    for model, run_by in ((plain, None), *((one, "sentence-transformers") for one in (cut, turned, patched))):
        (record,) = benchmark.evaluate(model, **auto).records
        assert record["facts"].get("run_by") == run_by and record["precision"] == "fp32"
        wanted = benchmark.evaluate(model.encode, **auto).records[0]["scores"]["main"]
        assert record["scores"]["main"] == pytest.approx(wanted, abs=1e-6)
        scores.append(wanted)
    assert len(set(scores)) == 4


def test_an_encoder_that_was_not_fitted_says_so() -> None:
    """Its method learns, and its vectors are those of a new encoder; a fitted one has no mark."""
    encoder = zoo.create("simcse:batch_size=4")
    table = benchmark.evaluate(encoder, "pocket-words", name="new", quiet=True, limit=20, controls=False)
    assert "not fitted" in table.to_frame()["Conditions"].iloc[0]
    assert "Not fitted, though the method learns: new." in str(table)
    encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1))
    table = benchmark.evaluate(encoder, "pocket-words", name="fitted", quiet=True, limit=20, controls=False)
    assert "not fitted" not in table.to_frame()["Conditions"].iloc[0]
