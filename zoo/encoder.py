"""The one contract of the house: texts in, vectors out; and what a fit is given and gives back."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar  # typing's has no default before Python 3.13

from zoo.progress import Progress

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Runtime:
    """Where and how an encoder computes; never part of a recipe."""

    device: str = "cpu"
    precision: str = "fp32"  # "fp32" or "bf16" (autocast; pooling and scoring stay float32)
    token_budget: int | None = None  # padded tokens in a batch; None: a default for the device
    allow_pickle: bool = False
    progress: Progress = field(default_factory=Progress.silent)
    # The number of a signal received, or None; encoding asks after each batch and stops.
    stop_signal: Callable[[], int | None] = lambda: None


@dataclass(frozen=True)
class Traits:
    """What a recipe needs and promises, known before any weights are loaded."""

    needs_corpus: bool = False  # fit() reads unlabelled sentences
    needs_pairs: bool = False  # fit() reads labelled sentence pairs (NLI)
    ignores_labels: bool = False  # fit() reads the sentences of the pairs and not their labels
    stochastic: bool = False  # the result depends on the seed
    transductive: bool = False  # adapt() reads the (unlabelled) texts of the task
    picks_checkpoint: bool = False  # fit() calls dev_score
    needs_every_text: bool = False  # a task with a text that it does not cover is n/a
    training_passes: float = 0.0  # forward+backward passes over each sentence, for estimates
    untrained: bool = False  # the vectors are a backbone's own states, pooled, and nothing else
    released: bool = False  # the weights are finished and were trained elsewhere, perhaps on labels
    fine_tunes: bool = False  # `forward` of a BackboneEncoder makes the vectors: a task may train all its weights
    shares_batches: bool = False  # fit() trains in zoo's loop, whose batches several processes may share
    exports: bool = False  # `stock_modules` gives the encoder as modules that sentence-transformers has
    precision: str | None = None  # what it computes in whatever the run asks for ("fp32" of an ONNX model, say)

    @property
    def supervised(self) -> bool:
        """Whether the vectors depend on labels."""
        return self.needs_pairs and not self.ignores_labels


@dataclass(frozen=True)
class Corpus:
    """Training sentences and where they came from; with `labels`, sentences 2i and 2i + 1 are the pair i."""

    name: str
    sentences: Sequence[str]
    labels: Sequence[str] | None = None

    def sha256(self) -> str:
        """Return the sha256 of the sentences, and labels, in order."""
        digest = hashlib.sha256()
        for text in (*self.sentences, *(self.labels or ())):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
        return digest.hexdigest()

    def identity(self) -> dict[str, Any]:
        """Return what keys and records say of it."""
        size = {"sentences": len(self.sentences)} if self.labels is None else {"pairs": len(self.labels)}
        return {"name": self.name, **size, "sha256": self.sha256()}

    def labelled(self, labels: Sequence[str]) -> Corpus:
        """Return its pairs that have one of these labels; itself where all have, or where there are no labels."""
        rows = [i for i, label in enumerate(self.labels or ()) if label in labels]
        if self.labels is None or len(rows) == len(self.labels):
            return self
        sentences = [text for i in rows for text in (self.sentences[2 * i], self.sentences[2 * i + 1])]
        return Corpus(self.name, sentences, [self.labels[i] for i in rows])


DevScore = Callable[["Encoder"], "float | Mapping[str, float]"]
"""The score x100 that picks a checkpoint, higher is better; or a mapping with it as "score" and more for the log."""


def score_of(result: float | Mapping[str, float]) -> float:
    """Return the score of what a DevScore gave."""
    return result["score"] if isinstance(result, Mapping) else result


@dataclass
class Run:
    """What a fit may touch: its folder (checkpoints, log), its seed, and the wish to stop."""

    folder: Path | None = None  # None: nothing is written
    seed: int = 0
    checkpoint_seconds: float = 60.0  # resuming is exact from any step, so time, not steps, decides
    checkpoint_steps: int | None = None  # set: every N steps instead
    stop_signal: Callable[[], int | None] = lambda: None  # the number of a signal received
    log_values: Callable[[int, Mapping[str, float]], None] | None = None  # also told what the log says of a step


@dataclass(frozen=True)
class FitReport:
    """What a fit did: plain values, ready for a record."""

    fitted: bool = False  # False: nothing was learned, nothing needs saving
    steps: int = 0
    sentences: int = 0
    seconds: float = 0.0
    sentences_per_second: float | None = None
    final_loss: float | None = None
    dev_scores: Mapping[str, float] = field(default_factory=dict)  # step -> score x100
    dev_curves: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # alignment ...: step -> value
    best_step: int | None = None
    peak_memory_mb: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)  # method-specific: rank, floor, ...


class AnyRecipe(Protocol):
    """A frozen dataclass with any fields."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


RecipeT = TypeVar("RecipeT", bound=AnyRecipe, default=Any)


class Encoder(ABC, Generic[RecipeT]):
    """A sentence encoder; `Recipe` is its frozen dataclass, whose defaults are the paper's.

    A method names the same dataclass in its base, `Encoder[MyRecipe]`, so that a type checker knows `self.recipe`.
    """

    Recipe: ClassVar[type[Any]]
    version: ClassVar[int] = 1  # raised by hand when the vectors of a recipe change: its cells are measured again
    dim: int

    def __init__(self, recipe: RecipeT, runtime: Runtime) -> None:
        self.recipe = recipe
        self.runtime = runtime

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return vectors (n, dim), float32, finite, in the order of `texts`."""

    def covers(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Return which texts (n,) the encoder knows anything of; word vectors override.

        In measuring, a text that is not covered has the zero vector, and cosine 0 with every other.
        """
        return np.ones(len(texts), dtype=np.bool_)

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        """Learn from unlabelled sentences; the default has nothing to learn."""
        return FitReport()

    def adapt(self, texts: Sequence[str]) -> Encoder:
        """Return the encoder to use for a task, given all its unlabelled texts; transductive methods override."""
        return self

    def fitted_rank(self) -> int | None:
        """Return the rank of the centred linear map that `adapt` fitted to a task's texts; None where it fitted none.

        Fitted to n distinct texts with rank n - 1, such a map puts them at the corners of a simplex: their cosines
        follow from n alone, and benchmarks give no score.
        """
        return None

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write safetensors and JSON (never pickle) that `load` turns into an equal encoder."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Encoder:
        """Read what `save` wrote; raises CorruptError when a file is damaged."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a sha256 that changes when any vector could."""

    @classmethod
    def traits(cls, recipe: RecipeT) -> Traits:
        """Return what this recipe needs and promises."""
        return Traits()

    @classmethod
    def reads(cls, recipe: RecipeT, corpus: Corpus) -> Corpus:
        """Return the part of a text that `fit` learns from, which keys and records name; the default reads all."""
        return corpus

    @classmethod
    def sources(cls, recipe: RecipeT, runtime: Runtime) -> dict[str, Any]:
        """Return the identity (name, sha256 ...) of all files outside the recipe that vectors depend on."""
        return {}

    @classmethod
    def code_parts(cls, recipe: RecipeT) -> tuple[type[Encoder], ...]:
        """Return the classes whose code makes the vectors: this one, and those that a recipe names beside it."""
        return (cls,)

    def parameters(self) -> int:
        """Return how many learned numbers the vectors are made with."""
        return 0

    def encoding_stats(self) -> dict[str, Any]:
        """Return what encoding cost so far (texts, tokens, truncated, seconds, token_budget)."""
        return {}

    def facts(self) -> dict[str, Any]:
        """Return method-specific facts about the fitted state worth recording."""
        return {}
