"""Keeps an encoder's vectors in memory: from the embedding cache where it has them, else encoded once."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.records.record import plain
from benchmark.run.cache import Entry
from zoo.check import check_alone, check_vectors, with_line
from zoo.encoder import Encoder, Vectors
from zoo.encoding import untested_forward
from zoo.errors import ContractError, Interrupted
from zoo.roles import RoleText, encode_alike, kind_of

_BLOCK = 8192
# If the encoder does not check for signals; the size can change last digits.
_SMALL_BLOCK = 256
# Smaller blocks are cached after so long; not sooner, because each write makes a file.
_CACHE_SECONDS = 60.0
# Unknown words that a record lists; not sentences, because these belong to the data sets.
_MISSING = 10
# Relative distance of equal vectors, and the share of texts from which on they are doubted.
_EQUAL, MANY_SHARED = 1e-3, 0.1


def facts_of(encoder: Encoder) -> dict[str, object]:
    """Return an encoder's size and its method's facts, as records state them; raises ContractError."""
    facts: dict[str, object] = {"dimensions": encoder.dim, "parameters": encoder.parameters(), **encoder.facts()}
    if "run_by" not in facts and (forward := untested_forward(encoder)):
        facts["run_by"] = f"transformers, {forward}"
    for name, value in facts.items():
        try:
            json.dumps(plain(value), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            problem = f"facts(): {name!r} is no plain value ({value!r:.60}); give numbers, text or lists."
            raise ContractError(problem) from error
    return facts


@dataclass
class Timed:
    """The number of texts that the run has encoded, and the seconds it took."""

    texts: int = 0
    seconds: float = 0.0


@dataclass
class Blocks:
    """How many texts are encoded at a time; `check` raises Interrupted between two blocks after a signal."""

    check: Callable[[], None] = lambda: None
    size: int = _BLOCK

    def shorten(self) -> None:
        self.size = _SMALL_BLOCK


def _finished(encoder: Encoder, texts: list[str], stopped: Interrupted) -> tuple[list[str], Vectors]:
    """Return the texts finished before a stop and their vectors; none of a map, whose digits depend on the rows."""
    from zoo.engine.batching import Unfinished
    from zoo.engine.tokens import clean_text

    # The engine's texts begin with the prompt, so they are not those asked for.
    prompted = encoder.roles.default or kind_of(texts[0]) != (None, None)
    if not isinstance(stopped, Unfinished) or not encoder.engine_alone or prompted:
        return [], np.empty((0, encoder.dim), np.float32)
    rows = {text: row for row, text in enumerate(stopped.texts)}
    rows_of_text = {text: rows[clean] for text in texts if (clean := clean_text(text, 0)) in rows}
    return list(rows_of_text), stopped.vectors[list(rows_of_text.values())]


def _name(text: str) -> str:
    """Return a text's name in the embedding cache: the text, in a role with the role before it."""
    return f"\0{text.role}\0{text.prompt}\0{text}" if isinstance(text, RoleText) else text


def _with_rows(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """Return a copy of an array with `rows` rows; those behind its own are not set."""
    longer = np.empty((rows, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


class VectorStore:
    """An encoder's vectors: every unique text encoded once in each role, kept in memory, checked to be finite.

    `encoder` can also be a function that makes it, called when the first text has to be encoded. `entry` returns the
    encoder's entry in the embedding cache or None; it is called again after training, which changes the entry.
    """

    def __init__(
        self,
        encoder: Encoder | Callable[[], Encoder],
        name: str,
        entry: Callable[[], Entry | None] = lambda: None,
        timed: Timed | None = None,
        blocks: Blocks | None = None,
    ) -> None:
        self._obtain: Callable[[], Encoder] = (lambda: encoder) if isinstance(encoder, Encoder) else encoder
        self.name = name
        self._entry = entry
        self.timed = timed or Timed()
        self.blocks = blocks or Blocks()
        self.rows: dict[str, int] = {}
        # It may have room for more rows than there are texts.
        self._vectors: Vectors = np.empty((0, 0), np.float32)
        self._covered: NDArray[np.bool_] = np.empty(0, np.bool_)
        self.cached = 0
        self.cached_facts: dict[str, object] | None = None

    @property
    def encoder(self) -> Encoder:
        """The encoder; if a function was given, this calls it."""
        return self._obtain()

    @property
    def matrix(self) -> Vectors:
        """The vectors (n, dim) of all known texts, in the order of `rows`."""
        return self._vectors[: len(self.rows)]

    @property
    def covered(self) -> NDArray[np.bool_]:
        """Which of the known texts (n,) the encoder covers."""
        return self._covered[: len(self.rows)]

    def add(self, texts: Sequence[str]) -> None:
        """Look up or encode the texts not yet known."""
        texts = list(dict.fromkeys(self._as_asked(texts)))
        new = [text for text in texts if text not in self.rows]
        entry = self._entry() if new else None
        new = self._look_up(new, entry)
        if not new:
            return
        encoder, before = self.encoder, entry
        entry = self._entry()
        # It was fitted just now; the cache may have vectors of an equal fit.
        if entry != before:
            new = self._look_up(new, entry)
        for kind in dict.fromkeys(map(kind_of, texts)):
            self._encode_all(encoder, [text for text in texts if kind_of(text) == kind], set(new), entry)

    def _as_asked(self, texts: Sequence[str]) -> Sequence[str]:
        """Return texts with the encoder's prompts, without the roles in which it has no vectors of their own."""
        if not any(isinstance(text, RoleText) for text in texts):
            return texts
        cls, roles = type(self.encoder), self.encoder.roles
        alike: dict[str | None, bool] = {
            "query": cls.encode_query is Encoder.encode_query,
            "document": cls.encode_document is Encoder.encode_document,
        }

        def as_asked(text: str) -> str:
            text = text.by(roles) if isinstance(text, RoleText) else text
            role, prompt = kind_of(text)
            return str(text) if prompt is None and alike.get(role, True) else text

        return list(map(as_asked, texts))

    def _encode_all(self, encoder: Encoder, texts: list[str], new: set[str], entry: Entry | None) -> None:
        """Encode what is new, in blocks that a stop does not change; what is encoded is cached even after an error."""
        done: list[str] = []
        cached = 0

        def to_cache() -> None:
            if entry is not None and len(done) > cached:
                rows = slice(len(self.matrix) - (len(done) - cached), None)
                entry.add(list(map(_name, done[cached:])), self.matrix[rows], self.covered[rows], facts_of(encoder))

        def keep(block: list[str], vectors: Vectors) -> None:
            self._keep(block, *self._checked(encoder, block, vectors))
            done.extend(block)

        last, start, ended = time.monotonic(), 0, False
        try:
            while start < len(texts):
                end = start + self.blocks.size
                block, start = [text for text in texts[start:end] if text in new], end
                if not block:
                    continue
                # Also before the first block, because loading a model takes a while.
                self.blocks.check()
                try:
                    keep(block, self._encode(encoder, block))
                except Interrupted as stopped:
                    block, vectors = _finished(encoder, block, stopped)
                    if block:
                        keep(block, vectors)
                    raise
                if len(done) - cached >= _BLOCK or time.monotonic() - last > _CACHE_SECONDS:
                    to_cache()
                    cached, last = len(done), time.monotonic()
            ended = True
        finally:
            # The first error matters more than an error of writing to the cache.
            with contextlib.nullcontext() if ended else contextlib.suppress(Exception):
                to_cache()

    def _look_up(self, texts: list[str], entry: Entry | None) -> list[str]:
        """Take the vectors that the cache has; return the remaining texts."""
        cached = None if entry is None or not texts else entry.find(list(map(_name, texts)))
        if cached is None:
            return texts
        complete = bool(cached.known.all())
        hits = texts if complete else [text for text, known in zip(texts, cached.known, strict=True) if known]
        rows = slice(None) if complete else cached.known
        self._keep(hits, cached.vectors[rows], cached.covered[rows])
        self.cached += len(hits)
        self.cached_facts = cached.facts
        return [] if complete else [text for text, known in zip(texts, cached.known, strict=True) if not known]

    def _encode(self, encoder: Encoder, texts: list[str]) -> Vectors:
        started = time.perf_counter()
        vectors = encode_alike(encoder, texts)
        self.timed.seconds += time.perf_counter() - started
        self.timed.texts += len(texts)
        return vectors

    def _checked(self, encoder: Encoder, texts: list[str], vectors: Vectors) -> tuple[Vectors, NDArray[np.bool_]]:
        with with_line(type(encoder), "encode"):
            check_vectors(vectors, texts, encoder.dim, self.name)
        covered: object = encoder.covers(list(map(str, texts)))
        if not isinstance(covered, np.ndarray) or covered.shape != (len(texts),) or covered.dtype != np.bool_:
            raise ContractError(f"{self.name}: covers() must return a numpy array of bool of shape ({len(texts)},).")
        # Unknown texts get the zero vector under every method.
        if not covered.all():
            vectors = np.where(covered[:, None], vectors, np.float32(0))
        return vectors, covered

    def _keep(self, texts: list[str], vectors: Vectors, covered: NDArray[np.bool_]) -> None:
        first, end = len(self.rows), len(self.rows) + len(texts)
        if first == 0:
            self._vectors, self._covered = vectors, covered
        else:
            # Blocks can be small and each growth copies all rows, so it doubles.
            if end > len(self._vectors):
                self._vectors = _with_rows(self.matrix, 2 * end)
                self._covered = _with_rows(self.covered, 2 * end)
            self._vectors[first:end] = vectors
            self._covered[first:end] = covered
        self.rows |= {text: first + i for i, text in enumerate(texts)}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        texts = self._as_asked(texts)
        self.add(texts)
        return self.matrix[[self.rows[text] for text in texts]]

    def check_alone(self, texts: Sequence[str]) -> None:
        """Encode texts again, each alone; raises ContractError for one that has another vector among others."""
        encoder, texts = self.encoder, list(dict.fromkeys(self._as_asked(texts)))

        def alone(some: Sequence[str]) -> Vectors:
            return self._checked(encoder, list(some), encode_alike(encoder, some))[0]

        vectors = self(texts)
        with with_line(type(encoder), "encode"):
            check_alone(alone, texts, vectors, encoder.runtime.precision, self.name)

    def unknown(self, texts: Sequence[str]) -> int:
        """Return how many of the distinct `texts` the encoder does not cover."""
        distinct = dict.fromkeys(self._as_asked(texts))
        self.add(list(distinct))
        return sum(not self.covered[self.rows[text]] for text in distinct)

    def coverage(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return the counts of distinct texts and of covered ones, ten single words that are not, and equal vectors."""
        distinct = list(dict.fromkeys(self._as_asked(texts)))
        self.add(distinct)
        rows = [self.rows[text] for text in distinct]
        covered = self.covered[rows] & np.asarray(self.matrix[rows].any(axis=1))
        words = [text for text, known in zip(distinct, covered, strict=True) if not known and len(text.split()) == 1]
        counts = {"texts": len(distinct), "covered": int(covered.sum()), "missing": words[:_MISSING]}
        shared = sharing(self.matrix[rows][covered])
        # Words of one stem, or texts of the same words in another order, may share a vector.
        return counts | ({"shared": shared} if shared > MANY_SHARED * len(distinct) else {})


def sharing(vectors: Vectors) -> int:
    """Return how many of the vectors (n, dim) equal another vector, up to a thousandth of their length.

    Equal vectors are neighbours in the order of any projection. Others may stand between two that rounding keeps apart,
    so that the number is a lower bound.
    """
    if len(vectors) < 2:
        return 0
    direction = np.asarray(np.random.default_rng(0).standard_normal(vectors.shape[1]), np.float32)
    ordered = vectors[np.argsort(vectors @ direction)]
    lengths = np.linalg.norm(ordered, axis=1)
    equal: NDArray[np.bool_] = np.linalg.norm(np.diff(ordered, axis=0), axis=1) <= _EQUAL * lengths[1:]
    return int((np.append(equal, False) | np.insert(equal, 0, False)).sum())
