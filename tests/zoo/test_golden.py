"""The vectors of each built-in method on fixed weights and texts: a change without a raised `version` is noticed.

The test of a method states them: `GOLDEN` in one of the files in `methods`. `python tests/zoo/test_golden.py NAME`
prints what belongs there. To accept a change of a method's vectors, raise `version` beside its class, so that its cells
are measured again, and put the new line in the place of the old one.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import DECODERS, fixed_bert, sentences

from zoo.check import SENTENCES
from zoo.encoder import PHRASE_LABELS, Corpus, Encoder, Run, Runtime
from zoo.errors import ZooError
from zoo.plugins import METHODS

BUILT_IN = [name for name in METHODS.names() if METHODS.is_builtin(name)]
HINT = "python tests/zoo/test_golden.py {} prints the line for its test in tests/zoo/methods"
SMALL = {"batch_size": 16, "pseudo_tokens": 4, "queue_size": 32, "k": 8, "lstm_dim": 8, "epochs": 1}
RATE = 1e-3
"""At which ten steps move the vectors by more than the tolerance, so that what a step does shows."""
TOLERANCE = 2e-3
"""Of the largest value: processors and kernels round differently, and training multiplies that.

Between AVX-512, AVX2 and SSE4 (`ATEN_CPU_CAPABILITY`, `ONEDNN_MAX_CPU_ISA`, `MKL_ENABLE_INSTRUCTIONS`) a method's
values differ by at most a fifth of its tolerance. A slow test measures that the tolerance lies above the effect of
rounding and far below that of training.
"""
NOISE = 1e-6


@functools.cache
def stated() -> dict[str, dict[str, Any]]:
    """Return `GOLDEN` of all tests of methods: `version`, `values`, and perhaps `settings` and a `tolerance`.

    The settings make a method small. `also` has other settings, each with its values.
    """
    golden: dict[str, dict[str, Any]] = {}
    for path in sorted((Path(__file__).parent / "methods").glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
                and node.targets[0].id == "GOLDEN"
            ):
                golden |= ast.literal_eval(node.value)
    return golden


def labelled() -> Corpus:
    """Labelled pairs of sentences, and of phrases."""
    premises = sentences()
    first = [(text, text.lower(), "entailment") for text in premises]
    second = [(text, text.replace("is", "is not"), "contradiction") for text in premises]
    third = [(text, text.lower(), PHRASE_LABELS[i % len(PHRASE_LABELS)]) for i, text in enumerate(premises)]
    rows = [row for group in zip(first, second, third, strict=True) for row in group]
    return Corpus("fixed", [text for a, b, _ in rows for text in (a, b)], [label for *_, label in rows])


def small(name: str, backbone: Path, **settings: Any) -> Encoder:
    """Return an encoder of a method with small settings; nothing is trained yet."""
    cls = METHODS.get(name)
    fields = {field.name: field for field in dataclasses.fields(cls.Recipe)}
    chosen: dict[str, Any] = {k: v for k, v in SMALL.items() if k in fields and isinstance(fields[k].default, int)}
    chosen |= {k: str(backbone) for k in ("backbone", "model") if k in fields}
    chosen |= {"path": str(backbone / ("texts.tsv" if name == "vectors" else "words.txt"))} if "path" in fields else {}
    chosen |= {k: v for k, v in {"dropout": 0.1, "learning_rate": RATE}.items() if k in fields}
    recipe = cls.Recipe(**chosen | settings)
    # The same weights, with attention to earlier tokens only.
    if name in DECODERS:
        config = (backbone / "config.json").read_text(encoding="utf-8")
        folder = Path(shutil.copytree(backbone, backbone.parent / "decoder", dirs_exist_ok=True))
        decoder = config.replace('"is_decoder": false', '"is_decoder": true')
        (folder / "config.json").write_text(decoder, encoding="utf-8")
        recipe = dataclasses.replace(recipe, backbone=str(folder))
    return cls(recipe, Runtime())


def corpus_for(encoder: Encoder) -> Corpus | None:
    """Return the text that an encoder learns from, None if it needs none."""
    traits = type(encoder).traits(encoder.recipe)
    if traits.needs_pairs:
        return labelled()
    return Corpus("fixed", sentences(), documents=range(0, 160, 8)) if traits.needs_corpus else None


def golden_vectors(name: str, backbone: Path, **settings: Any) -> np.ndarray:
    """Return the vectors (n, dim), float64, of a method with small settings, trained if it is a trained one."""
    encoder = small(name, backbone, **settings)
    corpus = corpus_for(encoder)
    if corpus is not None:
        encoder.fit(corpus, run=Run(seed=0))
    if type(encoder).traits(encoder.recipe).transductive:
        encoder = encoder.adapt(sentences())
    return encoder.encode(list(SENTENCES)).astype(np.float64)


def golden_values(name: str, backbone: Path, **settings: Any) -> list[float]:
    """Return eight numbers that all texts and dimensions are in: four of the vectors, four of their differences."""
    vectors = golden_vectors(name, backbone, **settings)
    n, dim = vectors.shape
    wave = np.cos(np.arange(n) ** 2)
    texts = np.stack([wave, wave - wave.mean()])
    projected = texts @ vectors @ np.sin(np.arange(4 * dim) ** 2).reshape(dim, 4)
    values: list[float] = np.round(projected / np.abs(projected).max(axis=1, keepdims=True), 4).ravel().tolist()
    return values


@pytest.mark.parametrize("name", BUILT_IN)
def test_vectors_are_those_of_this_version(name: str, backbone: Path) -> None:
    golden = stated().get(name)
    assert golden is not None, f"{name} has no golden vectors: {HINT.format(name)}"
    assert METHODS.get(name).version == golden["version"], f"the version was raised: {HINT.format(name)}"
    forms = [(golden.get("settings", {}), golden["values"]), *golden.get("also", ())]
    off = max(np.abs(np.subtract(golden_values(name, backbone, **form), values)).max() for form, values in forms)
    assert off <= golden.get("tolerance", TOLERANCE), (
        f"{name}: its vectors changed by {off:.1e}. If that is meant, raise `version` beside its class (its cells are"
        f" then measured again); {HINT.format(name)}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT_IN)
def test_the_tolerance_lies_between_rounding_and_what_training_changes(
    name: str, backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that are off by a millionth, 16 times float32's rounding, give the golden values too."""
    from safetensors.torch import load_file, save_file

    golden = stated()[name]
    settings, tolerance = golden.get("settings", {}), golden.get("tolerance", TOLERANCE)
    noisy = Path(shutil.copytree(backbone, tmp_path / "noisy"))
    draws, weights = np.random.default_rng(0), load_file(noisy / "model.safetensors")
    moved = {k: w * (1 + NOISE * w.new_tensor(draws.normal(size=w.shape))) for k, w in weights.items()}
    save_file(moved, noisy / "model.safetensors", {"format": "pt"})
    values = golden_values(name, backbone, **settings)
    assert np.abs(np.subtract(golden_values(name, noisy, **settings), values)).max() <= tolerance
    if corpus_for(small(name, backbone, **settings)) is not None:
        monkeypatch.setattr(sys.modules[__name__], "corpus_for", lambda _: None)
        try:
            untrained = golden_values(name, backbone, **settings)
        except (ZooError, AttributeError):
            return
        assert np.abs(np.subtract(untrained, values)).max() >= 5 * tolerance


def test_a_changed_pooling_is_noticed(backbone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mean pooling that divides by one more than there are tokens: what once was answered with the old scores."""
    from zoo.engine import states

    before = golden_values("avg", backbone)
    mean = states.masked_mean

    def changed(states: Any, mask: Any) -> Any:
        return mean(states, mask) + 0.05 * states[:, 0]

    monkeypatch.setattr(states, "masked_mean", changed)
    after = golden_values("avg", backbone)
    assert np.abs(np.subtract(after, before)).max() > TOLERANCE


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        bert = fixed_bert(Path(place) / "bert")
        for name in sys.argv[1:] or BUILT_IN:
            more = {k: v for k, v in stated().get(name, {}).items() if k in ("settings", "tolerance", "also")}
            golden = {
                "version": METHODS.get(name).version,
                **more,
                "values": golden_values(name, bert, **more.get("settings", {})),
            }
            print(f"GOLDEN = {{{name!r}: {golden}}}")
