"""The contract of every method: texts in, vectors out; and what a fit is given and what it returns."""

from __future__ import annotations

import functools
import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar  # typing's has no default before Python 3.13

from zoo.errors import ContractError, MissingError, UsageError
from zoo.machine import Runtime as Runtime
from zoo.machine import choose_device
from zoo.progress import Progress
from zoo.roles import Roles, similarities

Vectors = NDArray[np.float32]

NLI_LABELS = ("entailment", "neutral", "contradiction")
"""Labels of sentence pairs (natural language inference)."""
PHRASE_LABELS = ("ppdb:equivalence", "ppdb:entailment", "ppdb:independent")
"""Labels of phrase pairs (PPDB); the prefix is needed because NLI has "entailment" too."""


@dataclass(frozen=True)
class Traits:
    """What a recipe needs and promises, known before any weights are loaded."""

    needs_corpus: bool = False  # fit() reads unlabelled sentences
    reads_target: bool = False  # these sentences are the (unlabelled) texts of the run's tasks
    needs_neighbours: bool = False  # fit() reads which of them follow each other in a document
    needs_pairs: bool = False  # fit() reads labelled (NLI) or scored sentence pairs
    ignores_labels: bool = False  # fit() reads the sentences of the pairs and not their labels
    stochastic: bool = False  # the result depends on the seed
    transductive: bool = False  # adapt() reads the (unlabelled) texts of the task
    picks_checkpoint: bool = False  # fit() calls dev_score
    needs_every_text: bool = False  # a task with a text that it does not cover is n/a
    needs_several_words: bool = False  # it only counts words, so that two single words have no similarity
    training_passes: float = 0.0  # forward+backward passes over each sentence, for estimates
    untrained: bool = False  # the vectors are a backbone's own states, pooled, and nothing else
    released: bool = False  # the weights are finished and were trained elsewhere, perhaps on labels
    fine_tunes: bool = False  # `forward` of a BackboneEncoder makes the vectors: a task may train all its weights
    exports: bool = False  # `stock_modules` returns the encoder as modules that sentence-transformers has
    precision: str | None = None  # its own, if it ignores the precision of the run: "fp32" for an ONNX model

    @property
    def supervised(self) -> bool:
        """Whether the vectors depend on labels."""
        return self.needs_pairs and not self.ignores_labels


@dataclass(frozen=True)
class Corpus:
    """Named training sentences; with `labels` or `scores` (one per pair), sentences 2i and 2i + 1 are the pair i.

    A label is a word, such as "entailment"; a score is a number, higher for more similar sentences.
    `documents` has the number of each document's first sentence, ascending from 0; None where the order means nothing.
    """

    name: str
    sentences: Sequence[str]
    labels: Sequence[str] | None = None
    documents: Sequence[int] | None = None
    scores: Sequence[float] | None = None

    def sha256(self) -> str:
        """Return the sha256 of the sentences, labels and scores, in order, with an empty line before each document."""
        digest = hashlib.sha256()
        starts = set(self.documents or ())
        for number, text in enumerate((*self.sentences, *(self.labels or ()), *map(repr, self.scores or ()))):
            line = text.encode("utf-8", "surrogatepass") + b"\n"
            digest.update(b"\n" + line if number in starts else line)
        return digest.hexdigest()

    def identity(self) -> dict[str, Any]:
        """Return what keys and records state about the corpus: its name, size and sha256."""
        of_pairs = self.scores if self.labels is None else self.labels
        size = {"sentences": len(self.sentences)} if of_pairs is None else {"pairs": len(of_pairs)}
        documents = {} if self.documents is None else {"documents": len(self.documents)}
        return {"name": self.name, **size, **documents, "sha256": self.sha256()}

    def document_ends(self) -> NDArray[np.int64]:
        """Return for each sentence (n,) the number after its document's last one; raises MissingError if not known."""
        if not self.documents:
            raise MissingError(
                f"corpus {self.name} does not say which sentences are neighbours: put an empty line between its"
                " documents, or choose a recipe that needs no neighbours."
            )
        ends = np.array([*self.documents[1:], len(self.sentences)])
        return np.repeat(ends, np.diff([*self.documents, len(self.sentences)]))

    def labelled(self, labels: Sequence[str]) -> Corpus:
        """Return a corpus of the pairs that have one of these labels; itself if all have one or it has no labels."""
        rows = [i for i, label in enumerate(self.labels or ()) if label in labels]
        if self.labels is None or len(rows) == len(self.labels):
            return self
        sentences = [text for i in rows for text in (self.sentences[2 * i], self.sentences[2 * i + 1])]
        return Corpus(self.name, sentences, [self.labels[i] for i in rows])


DevScore = Callable[["Encoder"], "float | Mapping[str, float]"]
"""Returns the score x100 that picks a checkpoint, higher is better; or a mapping of "score" and other logged values."""


def score_of(result: float | Mapping[str, float]) -> float:
    """Return the score in the result of a DevScore."""
    return result["score"] if isinstance(result, Mapping) else result


@dataclass
class Run:
    """What a fit gets from its caller: a folder (checkpoints, log), a seed, how often to save, and the stop signal."""

    folder: Path | None = None  # None: nothing is written
    seed: int = 0
    checkpoint_seconds: float = 60.0  # between checkpoints; a run can resume exactly from any step
    checkpoint_steps: int | None = None  # if set: a checkpoint every N steps instead
    stop_signal: Callable[[], int | None] = lambda: None  # returns the number of a received signal, or None
    log_values: Callable[[int, Mapping[str, float]], None] | None = None  # called with each step and its logged values


@dataclass(frozen=True)
class FitReport:
    """What a fit did, in values that a record can hold."""

    fitted: bool = False  # False: nothing was learned, nothing needs saving
    steps: int = 0
    sentences: int = 0
    seconds: float = 0.0
    sentences_per_second: float | None = None
    final_loss: float | None = None
    dev_scores: Mapping[str, float] = field(default_factory=dict)  # step -> score x100
    dev_curves: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # such as "alignment": step -> value
    best_step: int | None = None
    peak_memory_mb: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)  # method-specific: rank, floor, ...


class AnyRecipe(Protocol):
    """A frozen dataclass with any fields."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


RecipeT = TypeVar("RecipeT", bound=AnyRecipe, default=Any)


@dataclass(frozen=True)
class Start:
    """The untrained vectors that a fit starts from: a registered method that learns nothing, and its recipe."""

    method: str
    recipe: AnyRecipe


class Encoder(ABC, Generic[RecipeT]):
    """A sentence encoder; `Recipe` is the frozen dataclass of its settings, whose defaults are the paper's.

    A method names the same dataclass in its base, `Encoder[MyRecipe]`, so that `self.recipe` has its type.
    """

    Recipe: ClassVar[type[Any]]
    version: ClassVar[int] = 1  # raised by hand when vectors change, so that cells are measured again
    unstated: ClassVar[tuple[str, ...]] = ("sources", "precision", "parameters")  # what no class of it has defined
    engine_alone: ClassVar[bool] = False  # the engine makes the vectors, with no step of the method's own after it
    dim: int
    roles: Roles = Roles()  # what its vectors are for; a finished encoder has those of its card

    def __init__(self, recipe: RecipeT, runtime: Runtime) -> None:
        self.recipe = recipe
        self.runtime = runtime

    def __init_subclass__(cls, **more: object) -> None:
        super().__init_subclass__(**more)
        if "encode" in vars(cls):
            cls.encode = with_options(cls.encode)  # type: ignore[method-assign]
        own = {name for base in cls.__mro__[: cls.__mro__.index(Encoder)] for name in vars(base)}
        cls.unstated = tuple(what for what in cls.unstated if what not in own)

    @abstractmethod
    def encode(self, texts: Sequence[str], *_: Any, **options: Any) -> Vectors:
        """Return vectors (n, dim), float32, finite, in the order of `texts`; a method defines `encode(self, texts)`.

        Its callers may add `batch_size` (at most so many texts at a time), `device` (the encoder is moved there, and
        stays), `show_progress_bar`, and `normalize_embeddings` (vectors of length 1).
        """

    def encode_query(self, texts: Sequence[str], **options: Any) -> Vectors:
        """Return vectors of texts that ask; an encoder with prompts or two towers overrides it."""
        return self.encode(texts, **options)

    def encode_document(self, texts: Sequence[str], **options: Any) -> Vectors:
        """Return vectors of texts that answer; an encoder with prompts or two towers overrides it."""
        return self.encode(texts, **options)

    def similarity(self, first: Vectors, second: Vectors) -> Vectors:
        """Return the similarities (n, m) of vectors (n, dim) and (m, dim): cosines, unless its roles say otherwise."""
        values = similarities(np.atleast_2d(first), np.atleast_2d(second), self.roles.similarity)
        return np.asarray(values, np.float32)

    def to(self, device: str) -> Self:
        """Move the weights to a device, such as "cuda:1", and return the encoder; raises UsageError without it."""
        for part in parts_of(self):
            if part.runtime.device != device:
                part.runtime = replace(part.runtime, device=choose_device(device))
                for name, value in vars(part).items():
                    if not isinstance(value, Encoder):
                        setattr(part, name, moved(value, part.runtime.device))
        return self

    def __repr__(self) -> str:
        recipe, where = getattr(self, "recipe", None), getattr(self, "runtime", Runtime())
        shown = fields(recipe) if is_dataclass(recipe) else ()
        changed = [f"{f.name}={v!r:.100}" for f in shown if (v := getattr(recipe, f.name)) != f.default]
        size = f"{self.dim} dimensions, " if isinstance(getattr(self, "dim", None), int) else ""
        return f"{type(self).__name__}({', '.join(changed)}): {size}{where.device}, {where.precision}"

    def covers(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Return for each text (n,) whether any part of it has a vector; word-vector methods override this.

        The benchmark gives a text that is not covered the zero vector, whose cosine with every other is 0.
        """
        return np.ones(len(texts), dtype=np.bool_)

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        """Learn from the corpus (sentences, or labelled pairs); the default learns nothing."""
        return FitReport()

    def adapt(self, texts: Sequence[str]) -> Encoder:
        """Return the encoder to use for a task, given all its unlabelled texts; transductive methods override this."""
        return self

    def fitted_rank(self) -> int | None:
        """Return the rank of the centred linear map that `adapt` fitted to a task's texts; None if it fitted none.

        A map of rank n - 1 that was fitted to n distinct texts puts them at the corners of a simplex: their cosines
        then depend on n alone, so the benchmark gives no score.
        """
        return None

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write safetensors and JSON (never pickle) that `load` turns into an equal encoder."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Encoder:
        """Return the encoder that `save` wrote; raises CorruptError when a file is damaged."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a sha256 that changes when any vector could."""

    @classmethod
    def traits(cls, recipe: RecipeT) -> Traits:
        """Return what this recipe needs and promises."""
        return Traits()

    @classmethod
    def start(cls, recipe: RecipeT) -> Start | None:
        """Return the untrained vectors that `fit` starts from; None for a method that learns nothing."""
        return None

    @classmethod
    def reads(cls, recipe: RecipeT, corpus: Corpus) -> Corpus:
        """Return the part of the corpus that `fit` learns from, which keys and records state; by default all of it."""
        return corpus

    @classmethod
    def sources(cls, recipe: RecipeT, runtime: Runtime) -> dict[str, Any]:
        """Return the identity (name, sha256 ...) of all files outside the recipe that vectors depend on."""
        return {}

    def parameters(self) -> int:
        """Return the number of learned parameters that encoding uses."""
        return 0

    def encoding_stats(self) -> dict[str, Any]:
        """Return the cost of encoding so far (texts, tokens, truncated, seconds, token_budget)."""
        return {}

    def facts(self) -> dict[str, Any]:
        """Return method-specific facts about the fitted state worth recording."""
        return {}


def with_options(own: Callable[..., Vectors]) -> Callable[..., Vectors]:
    """Return a method's `encode` with the options of `Encoder.encode`, which sentence-transformers names so.

    It raises ContractError for one string.
    """

    @functools.wraps(own)
    def encode(
        self: Any,
        texts: Sequence[str],
        *,
        batch_size: int | None = None,
        device: str | None = None,
        show_progress_bar: bool = False,
        normalize_embeddings: bool = False,
        **more: Any,
    ) -> Vectors:
        if isinstance(texts, str):  # its characters would be taken for texts
            raise ContractError("encode() takes a list of texts; put the one text into a list: encode([text]).")
        if device is not None:
            self.to(device)
        one = functools.partial(own, self, **more)
        if batch_size is not None:
            vectors = _in_batches(one, list(texts), batch_size, Progress(enabled=show_progress_bar))
        elif show_progress_bar:
            with runtimes_changed(self, lambda runtime: replace(runtime, progress=Progress())):
                vectors = one(texts)
        else:
            vectors = one(texts)
        return normalised(vectors) if normalize_embeddings else vectors

    signature = inspect.signature(encode, follow_wrapped=False)
    shown = [part for name, part in signature.parameters.items() if name != "more"]
    encode.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return encode


def _in_batches(encode: Callable[[list[str]], Vectors], texts: list[str], size: int, progress: Progress) -> Vectors:
    if type(size) is not int or size < 1:
        raise UsageError(f"batch_size is {size!r:.100}; give a whole number of at least 1.")
    parts = []
    with progress.bar("encoding", len(texts)) as bar:
        for start in range(0, max(len(texts), 1), size):
            parts.append(encode(texts[start : start + size]))
            bar.update(min(start + size, len(texts)))
    return np.concatenate(parts)


def normalised(vectors: Vectors) -> Vectors:
    """Return vectors (n, dim) of length 1; a zero vector stays one."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)


def parts_of(encoder: object, seen: set[int] | None = None) -> Iterator[Any]:
    """Yield an encoder and the encoders among its attributes, such as the base of a whitening; each has a runtime."""
    seen = set() if seen is None else seen
    if id(encoder) in seen:
        return
    seen.add(id(encoder))
    inside = getattr(encoder, "__dict__", {})
    if isinstance(inside.get("runtime"), Runtime):  # a plugin may not keep its runtime
        yield encoder
    for value in inside.values():
        if callable(getattr(type(value), "fingerprint", None)):  # an encoder too
            yield from parts_of(value, seen)


@contextmanager
def runtimes_changed(encoder: object, change: Callable[[Runtime], Runtime]) -> Iterator[None]:
    """Change the runtime of an encoder, and of the encoders that it contains, inside the block."""
    before = [(part, part.runtime) for part in parts_of(encoder)]
    try:
        for part, own in before:
            part.runtime = change(own)
        yield
    finally:
        for part, own in before:
            part.runtime = own


def moved(value: Any, device: str) -> Any:
    """Return an attribute of an encoder on a device: a module, tensor or backbone, or a list of them."""
    if isinstance(value, list | tuple):
        return type(value)(moved(one, device) for one in value) if type(value) in (list, tuple) else value
    if isinstance(value, dict) and type(value) is dict:
        return {name: moved(one, device) for name, one in value.items()}
    return value.to(device) if callable(getattr(value, "to", None)) else value
