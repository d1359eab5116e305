"""A plugin's rows say what it declares and leave open what nothing states; its encoding is timed by the run."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from fakes import Bag, Cli

import benchmark
from benchmark.run.rows import unstated
from zoo.encoder import Runtime, Traits
from zoo.methods.pooled import Average
from zoo.plugins import METHODS

FAST: dict[str, Any] = {"tasks": "pocket-words", "precision": "fp32", "quiet": True, "embedding_cache": 0.0}


class Silent(Bag):
    """Declares nothing, counts nothing, and takes its time."""

    def encode(self, texts: Any) -> Any:
        time.sleep(0.02)
        return super().encode(texts)


class Declared(Silent):
    """A float32 model of its own file."""

    @classmethod
    def traits(cls, recipe: Any) -> Traits:
        return replace(super().traits(recipe), precision="fp32")

    @classmethod
    def sources(cls, recipe: Any, runtime: Any) -> dict[str, Any]:
        return {"model": {"name": "mine.onnx", "sha256": "0" * 64}}

    def parameters(self) -> int:
        return 42


@dataclass(frozen=True, kw_only=True)
class OursRecipe(Average.Recipe):  # type: ignore[name-defined,misc]
    pass


class Built(Average):
    Recipe: ClassVar[type] = OursRecipe


class Uncounted(Built):
    """On a method of ours, with an encoding of its own that it does not count."""

    def _encode_unique(self, texts: list[str]) -> Any:
        time.sleep(0.02)
        return np.array([[len(text), text.count("a"), *[1.0] * (self.dim - 2)] for text in texts], np.float32)


@pytest.fixture
def registered(clean_registries: None) -> None:
    for name, cls in (("silent", Silent), ("declared", Declared), ("built", Built), ("uncounted", Uncounted)):
        METHODS.register(name)(cls)


def declared(results: Any) -> list[str]:
    """Return the conditions of rows, without the warning that these encoders tell few texts apart."""
    return [conditions.partition(", ⚠")[0] for conditions in results.to_frame()["Conditions"]]


def measured(name: str) -> tuple[Any, str]:
    """Return the record and the conditions of its row."""
    results = benchmark.evaluate(name, **FAST)
    return results.records[0], declared(results)[0]


def test_what_nothing_states_is_left_open(registered: None) -> None:
    record, conditions = measured("silent")
    assert conditions == "backbone not stated, precision not stated"
    assert record["method"]["unstated"] == ["sources", "precision", "parameters"]
    assert record["facts"]["parameters"] is None


def test_what_is_declared_is_said(registered: None) -> None:
    record, conditions = measured("declared")
    assert conditions == "mine.onnx, fp32"
    assert "unstated" not in record["method"] and record["facts"]["parameters"] == 42


@pytest.mark.slow
def test_what_is_built_on_ours_has_it_from_there(registered: None) -> None:
    record, conditions = measured("built")
    assert conditions == "untrained backbone, zoo-mini, fp32" and "unstated" not in record["method"]
    assert record["facts"]["parameters"] > 1e6


@pytest.mark.slow
def test_the_run_times_what_counts_nothing(registered: None) -> None:
    record, _ = measured("silent")
    encoding = record["encoding"]
    assert encoding["texts"] == record["coverage"]["texts"] and encoding["seconds"] >= 0.02
    assert encoding["texts_per_second"] == pytest.approx(encoding["texts"] / encoding["seconds"], rel=0.05)
    half_counted = measured("uncounted")[0]["encoding"]
    assert half_counted["texts"] == encoding["texts"] and half_counted["texts_per_second"] > 0
    counted, _ = measured("avg-last")
    assert counted["encoding"]["seconds"] > 0 and counted["encoding"]["tokens"]


def test_a_function_leaves_open_what_an_encoder_s_class_says() -> None:
    def lengths(texts: list[str]) -> Any:
        return np.array([[len(text), text.count("a"), 1.0] for text in texts])

    results = benchmark.evaluate(lengths, **FAST)
    assert declared(results) == ["backbone not stated, precision not stated"]
    given = Declared(Declared.Recipe(), Runtime())
    assert declared(benchmark.evaluate(given, **FAST)) == ["mine.onnx, fp32"]


def test_no_method_of_ours_leaves_anything_open() -> None:
    for name in METHODS.names():
        cls = METHODS.get(name)
        assert not METHODS.is_builtin(name) or unstated(cls, Traits()) == (), name


def test_methods_lists_docstring_and_origin(cli: Cli, tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from fakes import Bag\nfrom zoo import register_method\n\n@register_method('mine')\nclass Mine(Bag):\n"
        "    '''Counts of words, hashed.'''\n",
        encoding="utf-8",
    )
    out = cli("methods", "--plugin", plugin).out
    (line,) = (number for number, text in enumerate(out.splitlines()) if text.split()[:1] == ["mine"])
    assert "Counts of words, hashed." in out.splitlines()[line]
    assert out.splitlines()[line + 1].strip().startswith(f"from {plugin}:")
    (entry,) = json.loads(cli("methods", "mine", "--plugin", plugin, "--json").out)
    assert (entry["summary"], entry["origin"].split(":")[0]) == ("Counts of words, hashed.", str(plugin))
