"""`zoo-bench doctor NAME`: does a method do what `run`, `verify` and `zoo.save` rely on? The first problem ends it."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from zoo import api
from zoo.check import (
    ODD_TEXTS,
    PROBES,
    SENTENCES,
    TOLERANCE,
    _toy_corpus,
    _toy_pairs,
    check_alone,
    check_vectors,
    checked_start,
    checked_traits,
    deviation,
    probe,
    problem_of,
)
from zoo.encoder import AnyRecipe, Corpus, Encoder, FitReport, Run, Runtime, Traits
from zoo.errors import ContractError, ZooError
from zoo.identity import file_of
from zoo.plugins import METHODS, load_plugin_file
from zoo.recipes import choices

# As many as a service or a loop takes in several parts.
_MANY = 200
# Encoded alone after a call with many others.
_ALONE = 8


@dataclass
class _Checked:
    cls: type[Encoder]
    recipe: Any
    runtime: Runtime
    name: str
    traits: Traits = field(default_factory=Traits)
    encoders: list[Encoder] = field(default_factory=list)

    @property
    def encoder(self) -> Encoder:
        return self.encoders[0]

    @property
    def corpus(self) -> Corpus | None:
        if self.traits.needs_pairs:
            return _toy_pairs()
        return _toy_corpus() if self.traits.needs_corpus else None

    def fitted(self, seed: int = 0, recipe: Any = None) -> Encoder:
        encoder = self.cls(self.recipe if recipe is None else recipe, self.runtime)
        encoder.fit(self.corpus, run=Run(seed=seed))
        return encoder


def check(cls: type[Encoder], recipe: AnyRecipe, runtime: Runtime, name: str) -> Iterator[tuple[str, str | None]]:
    """Yield (check, None or the problem) for a method, fitted on a toy corpus if it learns, up to the first problem.

    Args:
        cls: The method's class.
        recipe: Its settings.
        runtime: Device and precision.
        name: The method's name in problems.
    """
    checked = _Checked(cls, recipe, runtime, name)
    learns = "fit on a toy corpus" if checked_learns(cls, recipe) else "fit without a corpus"
    parts: list[tuple[str, Callable[[_Checked], str | None], str]] = [
        ("recipe", _recipe, "Recipe"),
        ("made from its recipe", _made, "__init__"),
        ("traits and start", _traits, "traits"),
        (learns, _fit, "fit"),
        ("shape, dtype, order, batch permutation", _probe, "encode"),
        (f"{_MANY} texts at once, in parts and alone", _many, "encode"),
        ("the same vectors the second time", _again, "encode"),
        ("fits and first calls", _fits, "fit"),
        ("odd texts (empty, 10,000 words, NUL, surrogate ...)", _odd, "encode"),
        ("no texts at all", lambda c: check_vectors(c.encoder.encode([]), [], c.encoder.dim, c.name), "encode"),
        ("adapt to a task's texts", _adapted, "adapt"),
        ("what records state of it", _statements, "facts"),
        ("settings in the fingerprint", _settings, "fingerprint"),
        ("save and load", _saved, "load"),
        ("the same vectors in another process", _elsewhere, "load"),
    ]
    for what, test, part in parts:
        if test is _adapted and not checked.traits.transductive:
            continue
        problem = problem_of(cls, lambda test=test: test(checked), part)  # type: ignore[misc]
        yield what, problem
        if problem is not None:
            return


def checked_learns(cls: type[Encoder], recipe: AnyRecipe) -> bool:
    with suppress(Exception):
        return checked_traits(cls, recipe).learns
    return False


def _recipe(checked: _Checked) -> str | None:
    kind = type(checked.recipe)
    if not dataclasses.is_dataclass(kind):
        return f"Recipe is no dataclass, but {kind.__name__}; decorate it with @dataclass(frozen=True, kw_only=True)"
    if not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return "Recipe is not frozen, and a key is made of its settings; write @dataclass(frozen=True, kw_only=True)"
    for base in kind.__mro__:
        for name, value in vars(base).items():
            plain = isinstance(value, bool | int | float | str | tuple | list | dict) or value is None
            if plain and not name.startswith("__") and name not in get_type_hints(kind):
                return f"Recipe: {name} has no annotation and is no setting; write `{name}: {type(value).__name__}`"
    return None


def _made(checked: _Checked) -> str | None:
    encoder = checked.cls(checked.recipe, checked.runtime)
    checked.encoders.append(encoder)
    if getattr(encoder, "recipe", None) != checked.recipe:
        return "__init__() does not keep its recipe; call super().__init__(recipe, runtime) first"
    if getattr(encoder, "runtime", None) != checked.runtime:
        return "__init__() does not keep its runtime; call super().__init__(recipe, runtime) first"
    if not isinstance(getattr(encoder, "dim", 0), int | np.integer):
        return f"dim is {encoder.dim!r:.40}; give the whole number of a vector's values"
    return None


def _traits(checked: _Checked) -> str | None:
    checked.traits = checked_traits(checked.cls, checked.recipe)
    checked_start(checked.cls, checked.recipe)
    return None


def _fit(checked: _Checked) -> str | None:
    encoder, before = checked.encoder, None
    # It may have none before it is fitted.
    with suppress(Exception):
        before = encoder.fingerprint()
    report: object = encoder.fit(checked.corpus, run=Run(seed=0))
    if not isinstance(report, FitReport):
        return f"fit() must return a FitReport, not {type(report).__name__}"
    if report.fitted and encoder.fingerprint() == before:
        return "fit() reports that it learned, but the fingerprint is unchanged"
    if checked.traits.learns and not report.fitted and encoder.fingerprint() != before:
        return "fit() learned, and its FitReport does not say so; return FitReport(fitted=True)"
    return None


def _probe(checked: _Checked) -> None:
    probe(checked.encoder, checked.name)


def _texts(count: int = _MANY) -> list[str]:
    words = "river stone lamp garden winter train letter bridge market apple cloud violin harbour window paper".split()
    return [f"{first} {second}" for first in words for second in words][:count]


def _many(checked: _Checked) -> None:
    texts, encoder = _texts(), checked.encoder
    vectors = encoder.encode(texts)
    check_vectors(vectors, texts, encoder.dim, checked.name)
    parts = np.concatenate([encoder.encode(texts[start : start + 70]) for start in range(0, _MANY, 70)])
    if (off := deviation(parts, vectors)) > TOLERANCE[encoder.runtime.precision]:
        raise ContractError(
            f"{checked.name}: {_MANY} texts in three calls have other vectors than in one (deviation {off:.1e});"
            " encode() must give each text its own vector, in the order given."
        )
    some = [*range(1, _MANY, _MANY // _ALONE)][:_ALONE]
    check_alone(encoder.encode, [texts[i] for i in some], vectors[some], encoder.runtime.precision, checked.name)


def _again(checked: _Checked) -> str | None:
    return _same(checked.encoder, checked.encoder, "encode() gives other vectors the second time")


def _fits(checked: _Checked) -> str | None:
    """Compare with fresh encoders that began with other texts, of the same seed, and of another one."""
    if file_of(checked.cls) is None:
        return None
    seeded = checked.traits.learns and checked.traits.stochastic
    # Where no seed counts, another one shows it in the same fit.
    second = checked.fitted(seed=0 if seeded or not checked.traits.learns else 1)
    # What an encoder remembers of its first call shows here.
    alike = [f"The name on the door was {text}, we heard." for text in _texts(20)]
    backwards = second.encode(alike[::-1])
    if _same(second, checked.encoder, "-", 1e-4):
        begun = _begun(checked)
        if _same(begun, _begun(checked), "-", 1e-4) is None:
            if _same(begun, checked.encoder, "-", 1e-4):
                return _EARLIER
            if seeded or not checked.traits.learns or _same(begun, _begun(checked, 1), "-", 1e-4) is None:
                return "encode() depends on the texts of its first call; give each text its own vector"
            return "fit() gives other vectors with another seed, and traits() does not say stochastic=True"
        if checked.traits.learns:
            return "fit() gives other vectors the second time with one seed; take all randomness from run.seed"
        return "__init__() gives other vectors the second time; draw what is random from a seed of the recipe"
    if deviation(backwards[::-1], checked.encoder.encode(alike)) > TOLERANCE[second.runtime.precision]:
        return _EARLIER
    if seeded:
        other = checked.fitted(seed=1)
        if _same(other, checked.encoder, "-") is None:
            return "fit() gives the same vectors with another seed, though traits() says stochastic; use run.seed"
        if other.fingerprint() == checked.encoder.fingerprint():
            return "fingerprint() does not change with the seed, and the vectors do; hash what was learned"
    return None


def _begun(checked: _Checked, seed: int = 0) -> Encoder:
    """Return a fresh encoder that began with the same texts as the checked one."""
    encoder = checked.fitted(seed)
    encoder.encode(list(PROBES))
    return encoder


_EARLIER = "encode() depends on the texts that it encoded before; give each text its own vector, whole texts as keys"


def _odd(checked: _Checked) -> None:
    check_vectors(checked.encoder.encode(list(ODD_TEXTS)), ODD_TEXTS, checked.encoder.dim, checked.name)


def _adapted(checked: _Checked) -> str | None:
    adapted: object = checked.encoder.adapt(_toy_corpus().sentences)
    if not isinstance(adapted, Encoder):
        return f"adapt() must return an encoder, not {type(adapted).__name__}"
    probe(adapted, checked.name)
    vectors = adapted.encode(list(SENTENCES))
    checked.encoder.adapt(_texts(20))
    again = checked.encoder.adapt(_toy_corpus().sentences).encode(list(SENTENCES))
    if deviation(again, vectors) > max(1e-4, TOLERANCE[adapted.runtime.precision] / 10):
        return "adapt() depends on what it was fitted to before; return a new encoder and leave this one as it is"
    return None


def _statements(checked: _Checked) -> str | None:
    encoder = checked.encoder
    covered = encoder.covers(list(PROBES))
    if not isinstance(covered, np.ndarray) or covered.shape != (len(PROBES),) or covered.dtype != np.bool_:
        return "covers() must give a numpy array of bool, one per text"
    cost: object = encoder.encoding_stats()
    if not isinstance(encoder.facts(), Mapping) or not isinstance(cost, Mapping):
        return "facts() and encoding_stats() must give names with values"
    if cost.get("texts") and not cost.get("seconds"):
        return "encoding_stats() counts texts but no seconds; count both, or neither: then the run counts them"
    if not isinstance(encoder.parameters(), int | np.integer):
        return "parameters() must give a whole number"
    if not isinstance(checked.cls.sources(checked.recipe, checked.runtime), Mapping):
        return "sources() must give names with values"
    return None


def _settings(checked: _Checked) -> str | None:
    """Change each setting that the plugin's recipe adds: where vectors change, so must the fingerprint."""
    own_code = [base for base in checked.cls.__mro__ if file_of(base) is not None]
    if not any(name in vars(base) for base in own_code for name in ("save", "load", "fingerprint")):
        return None
    for name, recipe in changed_recipes(checked.recipe):
        with suppress(ZooError, ValueError):
            changed = checked.fitted(recipe=recipe)
            differs = changed.dim != checked.encoder.dim or _same(checked.encoder, changed, "-") is not None
            if differs and checked.encoder.fingerprint() == changed.fingerprint():
                return f"fingerprint() does not change with the setting {name}, and the vectors do"
            checked.encoders.append(changed)
    return None


def changed_recipes(recipe: Any) -> Iterator[tuple[str, Any]]:
    """Yield (setting, recipe with another value of it) for the settings that a plugin's recipe class adds."""
    added = {name for cls in type(recipe).__mro__ if file_of(cls) for name in vars(cls).get("__annotations__", ())}
    allowed = choices(type(recipe))
    for part in dataclasses.fields(recipe):
        value = getattr(recipe, part.name)
        for other in _others(value, allowed.get(part.name, ())) if part.name in added and part.init else ():
            with suppress(Exception):
                yield part.name, dataclasses.replace(recipe, **{part.name: other})
                break


def _others(value: object, allowed: tuple[object, ...]) -> list[object]:
    if allowed:
        return [other for other in allowed if other != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, max(value - 1, 1), 2 * value]
    return [1.5 * value + 0.01, 0.5 * value] if isinstance(value, float) else []


def _same(a: Encoder, b: Encoder, what: str, most: float = 1e-6) -> str | None:
    first, second = a.encode(list(SENTENCES)), b.encode(list(SENTENCES))
    if first.shape != second.shape:
        return f"{what} (of shape {first.shape}, not {second.shape})"
    off = deviation(first, second)
    most = most if a.runtime.precision == "fp32" else TOLERANCE[a.runtime.precision]
    return None if off <= most else f"{what} (largest deviation {off:.1e})"


def _saved(checked: _Checked) -> str | None:
    """Save and load as a run does, each encoder with a changed setting too, which `load` may not forget."""
    for encoder in reversed(checked.encoders):
        if problem := _round_trip(encoder, checked):
            return problem
    return None


def _round_trip(encoder: Encoder, checked: _Checked) -> str | None:
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "encoder"
        api.save(encoder, folder)
        loaded = checked.cls.load(folder, checked.runtime)
        if not isinstance(loaded, checked.cls):
            return f"load() must return a {checked.cls.__name__}, not {type(loaded).__name__}"
        if loaded.recipe != encoder.recipe and file_of(checked.cls) is not None:
            return f"load() gives an encoder with other settings: {loaded.recipe!r:.100}, not {encoder.recipe!r:.100}"
        if loaded.fingerprint() != encoder.fingerprint():
            return "load() gives an encoder with another fingerprint than the saved one"
        check_vectors(loaded.encode(list(PROBES)), PROBES, loaded.dim, f"load(), {checked.name}")
        return _same(loaded, encoder, "load() gives an encoder with other vectors")


def _elsewhere(checked: _Checked) -> str | None:
    """Load a plugin's encoder in a process with other hashes, and without what the fit left in memory."""
    name = METHODS.name_of(checked.cls)
    if file_of(checked.cls) is None or name is None or checked.cls.__module__ == "__main__":
        return None
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    with tempfile.TemporaryDirectory() as parent:
        folder, vectors = Path(parent) / "encoder", Path(parent) / "vectors.npy"
        api.save(checked.encoder, folder)
        runtime = checked.runtime.device, checked.runtime.precision
        program = "from zoo.conformance import in_child; in_child()"
        words = [sys.executable, "-c", program, name, str(folder), str(vectors), *runtime, *METHODS.files()]
        child = subprocess.run(words, env=environment, capture_output=True, text=True, encoding="utf-8")
        if not vectors.is_file():
            printed = (child.stderr if child.returncode else child.stdout).strip()
            return f"load() fails in another process: {printed.splitlines()[-1] if printed else child.returncode}"
        off = deviation(np.load(vectors), checked.encoder.encode(list(SENTENCES)))
    if off <= TOLERANCE[checked.runtime.precision]:
        return None
    return (
        f"encode() gives other vectors in another process (largest deviation {off:.1e}); hash() of a text, id() and the"
        " order of a set differ there, as does what save() leaves out"
    )


def in_child() -> None:
    """Write the sentences' vectors by the encoder in a folder, or print the problem."""
    name, folder, vectors, device, precision, *files = sys.argv[1:]
    for file in files:
        load_plugin_file(Path(file), [METHODS])
    cls = METHODS.get(name)

    def encode() -> None:
        np.save(vectors, cls.load(Path(folder), Runtime(device, precision)).encode(list(SENTENCES)))

    print(problem_of(cls, encode, "load") or "")
