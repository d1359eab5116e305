"""The contract of every method: texts in, vectors out; arguments and result of a fit."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from zoo.encoding import Vectors as Vectors
from zoo.encoding import moved, parts_of, that_writes, with_options
from zoo.errors import ContractError, MissingError
from zoo.files import read_json, sha256_json, well_formed, write_json
from zoo.identity import code_sha256
from zoo.machine import Runtime as Runtime
from zoo.machine import choose_device
from zoo.roles import Roles, similarities

NLI_LABELS = ("entailment", "neutral", "contradiction")
"""Labels of sentence pairs (natural language inference)."""
PHRASE_LABELS = ("ppdb:equivalence", "ppdb:entailment", "ppdb:independent")
"""Labels of phrase pairs (PPDB); the prefix is needed because NLI has "entailment" too."""


@dataclass(frozen=True)
class Traits:
    """Needs and promises of a recipe, known before any weights are loaded.

    Attributes:
        needs_corpus: fit() reads unlabelled sentences.
        reads_target: These sentences are the (unlabelled) texts of the run's tasks.
        needs_neighbours: fit() reads the order of sentences within documents.
        needs_pairs: fit() reads labelled (NLI) or scored sentence pairs.
        ignores_labels: fit() reads the sentences of the pairs and not their labels.
        stochastic: The result depends on the seed.
        transductive: adapt() reads the (unlabelled) texts of the task.
        picks_checkpoint: fit() calls dev_score.
        needs_every_text: A task with an uncovered text is n/a.
        needs_several_words: It only counts words: two single words have no similarity.
        training_passes: Forward and backward passes over each sentence, for estimates.
        untrained: The vectors are a backbone's own states, pooled, and nothing else.
        released: The weights are finished and were trained elsewhere, perhaps on labels.
        fine_tunes: `forward` of a BackboneEncoder makes the vectors: a task may train all its weights.
        exports: `stock_modules` returns the encoder as modules that sentence-transformers has.
        precision: Its own, if it ignores the precision of the run: "fp32" for an ONNX model.
    """

    needs_corpus: bool = False
    reads_target: bool = False
    needs_neighbours: bool = False
    needs_pairs: bool = False
    ignores_labels: bool = False
    stochastic: bool = False
    transductive: bool = False
    picks_checkpoint: bool = False
    needs_every_text: bool = False
    needs_several_words: bool = False
    training_passes: float = 0.0
    untrained: bool = False
    released: bool = False
    fine_tunes: bool = False
    exports: bool = False
    precision: str | None = None

    @property
    def learns(self) -> bool:
        """True if `fit` reads a text."""
        return self.needs_corpus or self.needs_pairs

    @property
    def supervised(self) -> bool:
        """True if the vectors depend on labels."""
        return self.needs_pairs and not self.ignores_labels


@dataclass(frozen=True)
class Corpus:
    """Named training sentences, or pairs of them.

    Attributes:
        name: The name in records.
        sentences: The texts; with `labels` or `scores`, sentences 2i and 2i + 1 are the pair i.
        labels: A word per pair, such as "entailment".
        documents: The number of each document's first sentence, ascending from 0; None for a meaningless order.
        scores: A number per pair, higher for more similar sentences.
    """

    name: str
    sentences: Sequence[str]
    labels: Sequence[str] | None = None
    documents: Sequence[int] | None = None
    scores: Sequence[float] | None = None

    def sha256(self) -> str:
        """Return the sha256 of sentences, labels and scores, in order, with an empty line before each document."""
        digest = hashlib.sha256()
        starts = set(self.documents or ())
        for number, text in enumerate((*self.sentences, *(self.labels or ()), *map(repr, self.scores or ()))):
            line = text.encode("utf-8", "surrogatepass") + b"\n"
            digest.update(b"\n" + line if number in starts else line)
        return digest.hexdigest()

    def identity(self) -> dict[str, Any]:
        """Return name, size and sha256, for keys and records."""
        of_pairs = self.scores if self.labels is None else self.labels
        size = {"sentences": len(self.sentences)} if of_pairs is None else {"pairs": len(of_pairs)}
        documents = {} if self.documents is None else {"documents": len(self.documents)}
        return {"name": self.name, **size, **documents, "sha256": self.sha256()}

    def document_ends(self) -> NDArray[np.int64]:
        """Return for each sentence (n,) the number after its document's last; raises MissingError if unknown."""
        if not self.documents:
            raise MissingError(
                f"corpus {self.name} does not say which sentences are neighbours: put an empty line between its"
                " documents, or choose a recipe that needs no neighbours."
            )
        ends = np.array([*self.documents[1:], len(self.sentences)])
        return np.repeat(ends, np.diff([*self.documents, len(self.sentences)]))

    def labelled(self, labels: Sequence[str]) -> Corpus:
        """Return the pairs with any of these labels; the corpus itself without labels."""
        rows = [i for i, label in enumerate(self.labels or ()) if label in labels]
        if self.labels is None or len(rows) == len(self.labels):
            return self
        sentences = [text for i in rows for text in (self.sentences[2 * i], self.sentences[2 * i + 1])]
        return Corpus(self.name, sentences, [self.labels[i] for i in rows])


DevScore = Callable[["Encoder"], "float | Mapping[str, float]"]
"""Returns the score x100 that picks a checkpoint, higher is better; or a mapping of "score" and other logged values."""


def score_of(result: float | Mapping[str, float]) -> float:
    return result["score"] if isinstance(result, Mapping) else result


@dataclass
class Run:
    """Folder, seed, checkpoints and signals of a fit.

    Attributes:
        folder: The folder of checkpoints and log; None writes nothing.
        seed: The seed of all randomness.
        checkpoint_seconds: The seconds between checkpoints; a fit resumes exactly from any step.
        checkpoint_steps: The steps between checkpoints, instead.
        stop_signal: Returns the number of a received signal, or None.
        log_values: Called with each step and its logged values.
    """

    folder: Path | None = None
    seed: int = 0
    checkpoint_seconds: float = 60.0
    checkpoint_steps: int | None = None
    stop_signal: Callable[[], int | None] = lambda: None
    log_values: Callable[[int, Mapping[str, float]], None] | None = None


@dataclass(frozen=True)
class FitReport:
    """Facts of a fit, as values for a record; dev scores (x100) and curves are by step."""

    fitted: bool = False
    steps: int = 0
    sentences: int = 0
    seconds: float = 0.0
    sentences_per_second: float | None = None
    final_loss: float | None = None
    dev_scores: Mapping[str, float] = field(default_factory=dict)
    dev_curves: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    best_step: int | None = None
    peak_memory_mb: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class AnyRecipe(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


RecipeT = TypeVar("RecipeT", bound=AnyRecipe, default=Any)


@dataclass(frozen=True)
class Start:
    """The untrained vectors a fit starts from: a registered method that learns nothing, and its recipe."""

    method: str
    recipe: AnyRecipe


@dataclass(frozen=True)
class NoSettings:
    """The recipe of a method without settings."""


class Encoder(ABC, Generic[RecipeT]):
    """A sentence encoder; `Recipe` is the frozen dataclass of its settings, with the paper's as defaults.

    A method's base names it, `Encoder[MyRecipe]`.
    """

    Recipe: ClassVar[type[Any]] = NoSettings
    # Raise it by hand when vectors change, so that cells are measured again.
    version: ClassVar[int] = 1
    # What no class of it has defined.
    unstated: ClassVar[tuple[str, ...]] = ("sources", "precision", "parameters")
    # The engine makes the vectors, with no step of the method's own after it.
    engine_alone: ClassVar[bool] = False
    dim: int
    roles: Roles = Roles()

    def __init__(self, recipe: RecipeT, runtime: Runtime) -> None:
        self.recipe = recipe
        self.runtime = runtime

    def __init_subclass__(cls, **more: object) -> None:
        super().__init_subclass__(**more)
        named = [kind for base in vars(cls).get("__orig_bases__", ()) for kind in get_args(base)]
        recipes: list[Any] = [
            kind for kind in (getattr(kind, "__default__", kind) for kind in named) if is_dataclass(kind)
        ]
        if recipes and "Recipe" not in vars(cls):
            cls.Recipe = recipes[0]
        if "encode" in vars(cls):
            cls.encode = with_options(cls.encode)  # type: ignore[method-assign]
        if "fit" in vars(cls):
            cls.fit = that_writes(cls.fit)  # type: ignore[method-assign]
        overridden = {name for base in cls.__mro__[: cls.__mro__.index(Encoder)] for name in vars(base)}
        cls.unstated = tuple(what for what in cls.unstated if what not in overridden)

    @abstractmethod
    def encode(self, texts: Sequence[str], *_: Any, **options: Any) -> Vectors:
        """Return the vectors of texts; a method defines `encode(self, texts)`.

        Args:
            texts: n texts.
            **options: `batch_size` (at most so many texts at a time), `device` (the encoder is moved there, and stays),
                `show_progress_bar`, and `normalize_embeddings` (vectors of length 1).

        Returns:
            Vectors (n, dim), float32, finite, in the order of the texts.
        """

    def encode_query(self, texts: Sequence[str], **options: Any) -> Vectors:
        """Return the vectors of queries; encoders with prompts or two towers override it."""
        return self.encode(texts, **options)

    def encode_document(self, texts: Sequence[str], **options: Any) -> Vectors:
        """Return the vectors of documents; encoders with prompts or two towers override it."""
        return self.encode(texts, **options)

    def similarity(self, first: Vectors, second: Vectors) -> Vectors:
        """Return the similarities of vectors: cosines, unless the encoder's roles differ.

        Args:
            first: Vectors (n, dim).
            second: Vectors (m, dim).

        Returns:
            Similarities (n, m), float32.
        """
        values = similarities(np.atleast_2d(first), np.atleast_2d(second), self.roles.similarity)
        return np.asarray(values, np.float32)

    def to(self, device: str) -> Self:
        """Move the weights to a device, and return the encoder.

        Args:
            device: A device of torch, such as "cuda:1".

        Raises:
            UsageError: There is no such device.
        """
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
        """Return flags (n,) of texts with a vector for any part; word-vector methods override this.

        An uncovered text gets the zero vector, with cosine 0 to every other.
        """
        return np.ones(len(texts), dtype=np.bool_)

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        """Learn from a corpus; the default learns nothing.

        Args:
            corpus: Sentences or pairs; None for a method without need.
            dev_score: Returns the score x100 that picks a checkpoint.
            run: Folder, seed, checkpoints and stop signal.
        """
        return FitReport()

    def adapt(self, texts: Sequence[str]) -> Encoder:
        """Return the encoder for a task; transductive methods override this.

        Args:
            texts: All texts of the task, without labels.
        """
        return self

    def fitted_rank(self) -> int | None:
        """Return the rank of the centred linear map that `adapt` fitted to a task's texts, or None.

        A map of rank n - 1 fitted to n distinct texts puts them at the corners of a simplex: cosines then depend on n
        alone, so the benchmark gives no score.
        """
        return None

    def save(self, folder: Path) -> None:
        """Write safetensors and JSON (never pickle), from which `load` makes an equal encoder.

        The default writes the recipe, which is all of an encoder that learns nothing.

        Args:
            folder: A folder that is there.

        Raises:
            ContractError: The encoder learns, so that its class has to define `save` and `load`.
        """
        self._check_learns_nothing("save() and load()")
        write_json(folder / "recipe.json", asdict(self.recipe))

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Encoder:
        """Return the encoder of `save`; raises CorruptError for a damaged file."""
        path = folder / "recipe.json"
        with well_formed(path):
            return cls(msgspec.convert(read_json(path), cls.Recipe), runtime or Runtime())

    def fingerprint(self) -> str:
        """Return a sha256 that changes when any vector could; the default has code, recipe and precision.

        Raises:
            ContractError: The encoder learns, so that its class has to define it.
        """
        self._check_learns_nothing("fingerprint()")
        name = f"{type(self).__qualname__}, version {self.version}"
        return sha256_json([name, code_sha256(type(self)), asdict(self.recipe), self.runtime.precision])

    def _check_learns_nothing(self, what: str) -> None:
        if type(self).traits(self.recipe).learns:
            raise ContractError(f"{type(self).__name__} learns: define {what}, whose defaults know the recipe alone.")

    @classmethod
    def traits(cls, recipe: RecipeT) -> Traits:
        """Return this recipe's needs and promises."""
        return Traits()

    @classmethod
    def start(cls, recipe: RecipeT) -> Start | None:
        """Return the untrained vectors before `fit`; None for a method that learns nothing."""
        return None

    @classmethod
    def reads(cls, recipe: RecipeT, corpus: Corpus) -> Corpus:
        """Return the part of the corpus for `fit`, stated in keys and records; by default all."""
        return corpus

    @classmethod
    def sources(cls, recipe: RecipeT, runtime: Runtime) -> dict[str, Any]:
        """Return the identity (name, sha256 ...) of all files behind the vectors, outside the recipe."""
        return {}

    @classmethod
    def check_recipe(cls, recipe: RecipeT, runtime: Runtime) -> None:
        """Raise what making the encoder would raise, for `--dry-run`; a class with a slow `__init__` does less."""
        cls(recipe, runtime)

    def parameters(self) -> int:
        """Return the number of learned parameters in encoding."""
        return 0

    def encoding_stats(self) -> dict[str, Any]:
        """Return the cost of encoding so far (texts, tokens, truncated, seconds, token_budget)."""
        return {}

    def facts(self) -> dict[str, Any]:
        """Return facts of the fitted state for records."""
        return {}
