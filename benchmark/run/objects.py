"""Objects as encoders, instead of recipes: a zoo Encoder, a sentence-transformers model or a function of texts.

An object is known by its vectors, and by its fingerprint or files where it has them. It is measured in every run,
because nothing says whether the next object of its name is the same; a `version` that the caller gives says so.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

import numpy as np
from numpy.typing import NDArray

from benchmark.identity import vectors_digest
from benchmark.run.plan import ResolvedMethod, unstated
from zoo.conformance import PROBES, TOLERANCE, deviation
from zoo.encoder import Encoder, Runtime, Traits, Vectors
from zoo.engine.batching import EncodingStats
from zoo.errors import ContractError, UsageError, ZooError, said
from zoo.identity import method_identity
from zoo.methods.base import count_parameters
from zoo.methods.pretrained import Pretrained

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


@dataclass(frozen=True, kw_only=True)
class ObjectRecipe:
    """The recipe that records state for an object; none of its fields can be set."""

    kind: str  # a registered method's name and version, "sentence-transformers" or "function"
    fingerprint: str | None = None  # None: it is known by its vectors alone
    version: str | None = None  # as the caller gave it


class ObjectEncoder(Encoder[ObjectRecipe]):
    """Wraps an existing encoder object, which is measured as it is and neither trained nor saved."""

    Recipe: ClassVar[type] = ObjectRecipe
    inner: ClassVar[Encoder[Any]]
    files: ClassVar[dict[str, Any]]  # the files that the encoder says it was made from

    def __init__(self, recipe: ObjectRecipe, runtime: Runtime, inner: Encoder[Any] | None = None) -> None:
        super().__init__(recipe, runtime)
        self.inner_now = inner or type(self).inner
        self.dim = self.inner_now.dim

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return the encoder's vectors (n, dim); raises Interrupted after a signal if the encoder checks for one."""
        with _asking(self.inner_now, self.runtime.stop_signal):
            return self.inner_now.encode(texts)

    def covers(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Return which texts (n,) the encoder knows at least in part."""
        return self.inner_now.covers(texts)

    def adapt(self, texts: Sequence[str]) -> Encoder[Any]:
        """Return the encoder adapted to a task's texts."""
        with _asking(self.inner_now, self.runtime.stop_signal):
            adapted = self.inner_now.adapt(texts)
        return type(self)(self.recipe, self.runtime, adapted)

    def fitted_rank(self) -> int | None:
        """Return the wrapped encoder's rank."""
        return self.inner_now.fitted_rank()

    @classmethod
    def traits(cls, recipe: ObjectRecipe) -> Traits:
        """Return traits of an encoder that needs no training; a transductive one still reads a task's texts."""
        own = type(cls.inner).traits(cls.inner.recipe)
        return Traits(
            transductive=own.transductive,
            needs_every_text=own.needs_every_text,
            precision=own.precision or cls.inner.runtime.precision,
        )

    @classmethod
    def sources(cls, recipe: ObjectRecipe, runtime: Runtime) -> dict[str, Any]:
        """Return the files that the encoder says it was made from."""
        return cls.files

    @classmethod
    def code_parts(cls, recipe: ObjectRecipe) -> tuple[type[Encoder[Any]], ...]:
        """Return the classes of the encoder itself."""
        return type(cls.inner).code_parts(cls.inner.recipe)

    def parameters(self) -> int:
        """Return the wrapped encoder's number of parameters."""
        return self.inner_now.parameters()

    def encoding_stats(self) -> dict[str, Any]:
        """Return the wrapped encoder's counts."""
        return self.inner_now.encoding_stats()

    def facts(self) -> dict[str, Any]:
        """Return the wrapped encoder's facts."""
        return self.inner_now.facts()

    def save(self, folder: Path) -> None:
        """Raise ContractError: the caller has to save an encoder of their own."""
        raise ContractError("an encoder that was handed over is not saved; keep it yourself (zoo.save).")

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> ObjectEncoder:
        """Raise ContractError: nothing was saved."""
        raise ContractError("an encoder that was handed over was not saved.")

    def fingerprint(self) -> str:
        """Return the wrapped encoder's fingerprint."""
        return self.inner_now.fingerprint()


@contextmanager
def _asking(encoder: Encoder[Any], stop: Callable[[], int | None]) -> Iterator[None]:
    """Make an encoder, and the encoders that it contains, check for this run's signals inside the block.

    The number of texts per call depends on whether an encoder checks for signals, and it can change the last digits of
    vectors. With this, a given encoder gets as many texts at a time as its recipe would.
    """
    before = [(part, part.runtime) for part in _parts(encoder, set())]
    try:
        for part, own in before:
            part.runtime = replace(own, stop_signal=functools.partial(_first, stop, own.stop_signal))
        yield
    finally:
        for part, own in before:
            part.runtime = own


def _first(stop: Callable[[], int | None], own: Callable[[], int | None]) -> int | None:
    return stop() or own()


def _parts(encoder: Encoder[Any], seen: set[int]) -> Iterator[Encoder[Any]]:
    """Yield an encoder and the encoders among its attributes, such as the base of a whitening."""
    if id(encoder) in seen:
        return
    seen.add(id(encoder))
    inside = getattr(encoder, "__dict__", {})
    if isinstance(inside.get("runtime"), Runtime):  # a plugin may not keep its runtime
        yield encoder
    for value in inside.values():
        if isinstance(value, Encoder):
            yield from _parts(value, seen)


@dataclass(frozen=True)
class _Name:
    name: str


class _Called(Encoder[_Name]):
    """Wraps a function of texts, or a model's own `encode`, as an encoder, and times it."""

    Recipe: ClassVar[type] = _Name

    def __init__(
        self, function: Callable[[list[str]], Any], name: str, runtime: Runtime, facts: Mapping[str, Any], size: int
    ) -> None:
        super().__init__(_Name(name), runtime)
        self.function, self.stated, self.size = function, facts, size
        self.texts, self.seconds = 0, 0.0
        try:
            self.dim = int(self.encode(["a", "b"]).shape[1])
        except ZooError:
            raise
        except Exception as error:  # of the caller's function
            raise ContractError(
                f"{name}: two texts gave {said(error)}; give a function that takes a list of texts and returns an array"
                " (n, dim)."
            ) from error
        self.texts, self.seconds = 0, 0.0

    def encode(self, texts: Sequence[str]) -> Vectors:
        started = time.perf_counter()
        found = self.function(list(texts))
        found = found.detach().float().cpu().numpy() if hasattr(found, "detach") else found
        vectors = np.asarray(found, dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ContractError(
                f"{self.recipe.name}: {len(texts)} texts gave an array of shape {vectors.shape}; return one vector per"
                " text, (n, dim)."
            )
        self.texts, self.seconds = self.texts + len(texts), self.seconds + time.perf_counter() - started
        return vectors

    def encoding_stats(self) -> dict[str, Any]:
        return {"texts": self.texts, "seconds": self.seconds}

    def parameters(self) -> int:
        return self.size

    def facts(self) -> dict[str, Any]:
        return dict(self.stated)

    def save(self, folder: Path) -> None:
        raise ContractError("a function is not saved.")

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> _Called:
        raise ContractError("a function was not saved.")

    def fingerprint(self) -> str:
        return vectors_digest(self.encode, PROBES)


class _ByEngine(Pretrained):
    """Runs a sentence-transformers model by this project's engine, after both gave the same vectors."""

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "run_by": "zoo"}


def _from_library(model: object) -> TypeGuard[SentenceTransformer]:
    return any(cls.__module__.startswith("sentence_transformers") for cls in type(model).__mro__)


def _of_library(
    model: SentenceTransformer, name: str, runtime: Runtime, texts: Sequence[str], precision: str | None
) -> tuple[Encoder[Any], dict[str, Any]]:
    """Return a sentence-transformers model as an encoder, and the identity of its files as far as it can be saved.

    Its own `encode` runs it; the engine, which is faster, only where both give the same vectors of `texts`. It computes
    in its own precision unless `precision` names one.
    """
    import torch

    single = next((weights.dtype == torch.float32 for weights in model.parameters()), True)
    if precision == "fp32" and not single:
        raise UsageError(
            f"{name} has weights in half precision; convert it before (model.float()) to measure it in fp32."
        )
    runtime = replace(runtime, precision=precision or ("fp32" if single else "bf16"))
    half = single and runtime.precision == "bf16"

    def encode(some: list[str]) -> Any:
        with torch.autocast(model.device.type, torch.bfloat16, enabled=half):
            return model.encode(some)

    own = _Called(encode, name, runtime, {"run_by": "sentence-transformers"}, count_parameters(model))
    try:
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder)
            engine = _ByEngine(_ByEngine.Recipe(model=folder), runtime)
            files = {"backbone": {**Pretrained.sources(engine.recipe, runtime)["backbone"], "name": name}}
        if engine.library is None and texts and engine.dim == own.dim:
            distinct = list(dict.fromkeys(texts))
            if deviation(engine.encode(distinct), own.encode(distinct)) <= _AGREES[runtime.precision]:
                engine.stats = EncodingStats()
                return engine, files
    except (Exception, SystemExit) as error:  # a class that cannot be saved, or not be read again
        runtime.progress.say(f"{name} is run by its own encode(): {said(error)}")
        return own, {}
    return own, files


_AGREES = {"fp32": 1e-4, "bf16": TOLERANCE["bf16"]}  # largest difference of a value, relative to the vectors' length


def method_of(
    encoder: object,
    name: str | None,
    runtime: Runtime,
    texts: Sequence[str],
    *,
    version: str | None = None,
    precision: str | None = None,
) -> ResolvedMethod:
    """Return an object as a method of a plan: a zoo Encoder, a sentence-transformers model or a callable.

    `texts` are a sample of those to encode; `precision` is the one that was asked for. Raises UsageError for anything
    else.
    """
    inner: Encoder[Any]
    files: dict[str, Any] = {}
    left: tuple[str, ...] = ()
    fingerprint = None
    if isinstance(encoder, Encoder):
        inner, called, kind = encoder, type(encoder).__name__, method_identity(type(encoder), code=False)
        files, fingerprint = type(inner).sources(inner.recipe, inner.runtime), inner.fingerprint()
        left = unstated(type(inner), type(inner).traits(inner.recipe))
    elif _from_library(encoder):
        called = getattr(getattr(encoder, "model_card_data", None), "model_name", None) or "sentence-transformers model"
        inner, files = _of_library(encoder, name or called, runtime, texts, precision)
        kind = "sentence-transformers"
        left = () if files else ("sources",)
    elif isinstance(encoder, type):
        raise UsageError(f"{encoder.__name__} is a class; give an object of it, or the name of its recipe.")
    elif callable(encoder):
        called, kind = getattr(encoder, "__name__", type(encoder).__name__), "function"
        inner = _Called(encoder, name or called, replace(runtime, precision="fp32"), {}, 0)
        left = ("sources", "precision", "parameters")
    else:
        raise UsageError(
            f"{type(encoder).__name__} is no encoder; give a recipe's name, a zoo Encoder, a sentence-transformers"
            " model, or a function that takes a list of texts and returns an array (n, dim)."
        )
    cls: type[ObjectEncoder] = type(
        "ObjectEncoder", (ObjectEncoder,), {"inner": inner, "files": files, "__module__": __name__}
    )
    recipe = ObjectRecipe(kind=kind, fingerprint=fingerprint, version=version)
    return ResolvedMethod(name or called, cls, recipe, cls.traits(recipe), unstated=left, anew=version is None)
