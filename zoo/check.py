"""The Encoder contract: what a run asks of every encoder. `zoo.conformance` asks more, for `zoo-bench doctor NAME`."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.encoder import PHRASE_LABELS, AnyRecipe, Corpus, Encoder, Start, Traits
from zoo.errors import ContractError, UsageError, error_text
from zoo.identity import code_files
from zoo.plugins import METHODS

PROBES = (
    "A small dog runs across the wet grass.",
    "The committee postponed its decision until spring.",
    "Rain.",
    "Why does bread rise when it is left in a warm place?",
    "Two women are talking while a third one reads.",
    "the market fell by 3 % on Monday , its worst day since May",
    "He did not say that he would not come.",
    "A recipe for a soup of leeks, potatoes, cream and a little nutmeg.",
)

SENTENCES = (
    *PROBES,
    "The boat left the harbour before the storm came.",
    "She has played the cello since she was nine.",
    "There is no evidence that the drug works.",
    "A man in a red jacket is climbing a steep rock.",
    "Prices of houses rose faster than wages last year.",
    "Where can I have my passport renewed?",
    "The old bridge was closed, so we took the ferry.",
    "Photosynthesis turns light into chemical energy.",
)
"""Texts by whose vectors a plugin is known, and which show how far a fit moved them: eight of any form, eight more."""

_SUBSETS = ((0, 1, 2), (4,), (7, 5, 6, 3))

ODD_TEXTS = (
    "",
    "   \t ",
    "a",
    "word " * 10_000,
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2603",
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd \u0645\u0631\u062d\u0628\u0627",
    "a\x00b",
    "lone \ud800 surrogate",
    "line\r\nend",
    "\ufeffbyte order mark",
)

# bf16 has a significand of 8 bits, fp16 of 11, and a batch of another shape may be rounded differently.
TOLERANCE = {"fp32": 1e-3, "bf16": 5e-2, "fp16": 1e-2}


def check_vectors(vectors: object, texts: Sequence[str], dim: int, name: str) -> None:
    """Raise ContractError unless `vectors` is a finite float32 array (len(texts), dim)."""
    wanted = f"encode() must return a float32 numpy array of shape ({len(texts)}, {dim})"
    if not isinstance(vectors, np.ndarray):
        raise ContractError(f"{name}: {wanted}, not {type(vectors).__module__}.{type(vectors).__qualname__}.")
    if vectors.shape != (len(texts), dim):
        raise ContractError(f"{name}: {wanted}, not of shape {vectors.shape}.")
    if vectors.dtype != np.float32:
        raise ContractError(f"{name}: {wanted}, not of dtype {vectors.dtype}.")
    bad = ~np.isfinite(vectors).all(axis=1)
    if bad.any():
        first = texts[int(np.argmax(bad))]
        raise ContractError(
            f"{name}: {int(bad.sum())} of {len(texts)} vectors have NaN or infinity, first for {first[:80]!r}."
        )


def deviation(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """Largest absolute difference of vectors (n, dim), over the mean norm of `b`."""
    scale = float(np.linalg.norm(b.astype(np.float64), axis=1).mean()) or 1.0
    return float(np.abs(a.astype(np.float64) - b).max()) / scale


def probe(encoder: Encoder, name: str) -> None:
    """Encode eight sentences, reordered and regrouped; raise ContractError if vectors differ."""
    vectors = encoder.encode(list(PROBES))
    check_vectors(vectors, PROBES, encoder.dim, name)
    order = [5, 2, 7, 0, 3, 6, 1, 4]
    again = encoder.encode([PROBES[i] for i in order])
    check_vectors(again, PROBES, encoder.dim, name)
    off = deviation(again, vectors[order])
    if off > TOLERANCE[encoder.runtime.precision]:
        raise ContractError(
            f"{name}: vectors depend on the order of the texts (largest deviation {off:.1e}); encode() must"
            " return one vector per text, in the order given, which its neighbours do not change."
        )
    for rows in _SUBSETS:
        texts = [PROBES[row] for row in rows]
        fewer = encoder.encode(texts)
        check_vectors(fewer, texts, encoder.dim, name)
        off = deviation(fewer, vectors[list(rows)])
        if off > TOLERANCE[encoder.runtime.precision]:
            raise ContractError(
                f"{name}: a text's vector depends on the other texts of the call (largest deviation {off:.1e} with"
                f" {len(rows)} of {len(PROBES)} texts); encode() must give each text its own. What is to be fitted on"
                " a task's texts belongs into adapt()."
            )


def check_alone(
    encode: Callable[[Sequence[str]], NDArray[np.float32]],
    texts: Sequence[str],
    vectors: NDArray[np.float32],
    precision: str,
    name: str,
) -> None:
    """Encode texts one by one; raise ContractError unless these are their `vectors` (n, dim)."""
    scale = float(np.linalg.norm(vectors.astype(np.float64), axis=1).mean()) or 1.0
    for text, vector in zip(texts, vectors, strict=True):
        off = float(np.abs(np.asarray(encode([text]), np.float64) - vector).max()) / scale
        if off > TOLERANCE[precision]:
            raise ContractError(
                f"{name}: a text encoded alone has another vector than among the others (deviation {off:.1e}, for"
                f" {str(text)[:60]!r}); encode() must give each text its own vector, in the order given."
            )


def problem_of(cls: type[Any], test: Callable[[], str | None], part: str) -> str | None:
    """Return what a test of a plugin finds, or the error it raises, with the plugin's line; `part` is its function."""
    try:
        problem = test()
    except Exception as error:
        # Whatever a plugin raises is the problem to report.
        text = error_text(error)
        if _HAS_LINE.search(text):
            return text
        return text + own_line(cls, error, _named_in(text, part))
    return None if problem is None else problem + own_line(cls, None, _named_in(problem, part))


def _named_in(problem: str, part: str) -> str:
    """Return the first function that a problem names, else `part`."""
    named = re.search(r"(\w+)\(\)", problem)
    return named[1] if named else part


_HAS_LINE = re.compile(r"\.py:\d+, in \w+")


@contextmanager
def with_line(cls: type[Any], part: str) -> Iterator[None]:
    """Add the plugin's line of the function `part` to a ContractError without one."""
    try:
        yield
    except ContractError as error:
        text = str(error)
        raise ContractError(text if _HAS_LINE.search(text) else text + own_line(cls, None, part)) from error


def own_line(cls: type[Any], error: BaseException | None, part: str) -> str:
    """Return the plugin's line of an error, else of the function `part`, else of its class."""
    modules = {c.__module__ for c in cls.__mro__ if c.__module__.partition(".")[0] not in _NO_PLUGINS}
    files = {getattr(sys.modules.get(module), "__file__", None) for module in modules}
    files |= {str(path) for path in code_files(cls).values()}
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    innermost = next((frame for frame in reversed(frames) if frame.filename in files), None)
    if innermost is not None:
        return f" ({_short(innermost.filename)}:{innermost.lineno}, in {innermost.name}: {innermost.line})"
    for place in (getattr(cls, part, None), cls):
        with suppress(TypeError, OSError, SyntaxError):
            place = inspect.unwrap(place)  # type: ignore[arg-type]
            file, (_, line) = inspect.getsourcefile(place), inspect.getsourcelines(place)
            if file in files:
                return f" ({_short(str(file))}:{line}, in {getattr(place, '__name__', part)})"
    return ""


_NO_PLUGINS = ("zoo", "benchmark", "choose", "abc", "builtins", "typing", "typing_extensions")


def _short(file: str) -> str:
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def checked_traits(cls: type[Encoder], recipe: AnyRecipe) -> Traits:
    traits: object = cls.traits(recipe)
    if not isinstance(traits, Traits):
        raise ContractError(f"traits() must return Traits, not {type(traits).__name__}.")
    for field in dataclasses.fields(Traits):
        value = getattr(traits, field.name)
        if field.name == "training_passes":
            right = isinstance(value, float | int) and math.isfinite(value)
        elif field.name == "precision":
            right = value in (None, *TOLERANCE)
        else:
            right = isinstance(value, bool)
        if not right:
            raise ContractError(f"traits(): {field.name} is {value!r:.60}.")
    return traits


def checked_start(cls: type[Encoder], recipe: AnyRecipe) -> Start | None:
    start: object = cls.start(recipe)
    if start is None:
        return None
    if not isinstance(start, Start) or start.method not in METHODS:
        raise ContractError(f"start() must return None or a Start that names a registered method, not {start!r:.100}.")
    if type(start.recipe) is not METHODS.get(start.method).Recipe:
        raise ContractError(f"start(): the recipe of {start.method} is a {type(start.recipe).__name__}.")
    return start


def _toy_corpus() -> Corpus:
    words = "river stone lamp garden winter train letter bridge market apple".split()
    texts = [f"The {a} is near the {b} in the old {c}." for a in words for b in words[:5] for c in words[:1]]
    return Corpus("toy", texts, documents=range(0, len(texts), 10))


def _toy_pairs() -> Corpus:
    premises = _toy_corpus().sentences
    labels = ["entailment", "contradiction"] * len(premises)
    hypotheses = [text for premise in premises for text in (premise.lower(), premise.replace("is", "is not"))]
    sentences = [text for i, hypothesis in enumerate(hypotheses) for text in (premises[i // 2], hypothesis)]
    phrases = [text for premise in premises for text in (premise, premise.lower())]
    labels += [PHRASE_LABELS[i % len(PHRASE_LABELS)] for i in range(len(premises))]
    scores = [5.0 if label.endswith(("entailment", "equivalence")) else i % 4 for i, label in enumerate(labels)]
    return Corpus("toy pairs", sentences + phrases, labels, scores=scores)


# A share of the rows: running text repeats fewer.
_MANY = 0.1


def doubts_of(corpus: Corpus) -> list[str]:
    """Sentences on useless traits of a training text, mostly none; raises UsageError if all rows are equal."""
    texts = [" ".join(text.split()) for text in corpus.sentences]
    if corpus.labels is None and corpus.scores is None:
        return _repeats(corpus, texts, "sentence")
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    doubts = _repeats(corpus, pairs, "pair")
    if corpus.scores is not None and len(set(corpus.scores)) == 1:
        doubts.append(f"all pairs of {corpus.name} have the score {corpus.scores[0]:g}, so that none is above another")
    labelled = list(zip(pairs, corpus.labels or (), strict=False))
    positives = {pair for pair, label in labelled if label == "entailment"}
    negatives = [pair for pair, label in labelled if label == "contradiction"]
    if count := sum(pair in positives or pair[0] == pair[1] for pair in negatives):
        doubts.append(
            f"{count:,} of {len(negatives):,} negatives of {corpus.name} equal a positive or their own text, so that"
            " training draws together and pushes apart the same texts"
        )
    return doubts


def _repeats(corpus: Corpus, rows: Sequence[object], unit: str) -> list[str]:
    distinct = len(set(rows))
    if rows and distinct == 1:
        raise UsageError(
            f"{corpus.name} has one distinct {unit} ({len(rows):,} in all), which trains nothing: a loss compares"
            f" different texts. Give a text with more, or leave it out."
        )
    if len(rows) - distinct <= _MANY * len(rows):
        return []
    return [
        f"{corpus.name} has {distinct:,} distinct {unit}s among {len(rows):,}; equal ones in a batch are pushed apart"
        " as if they differed"
    ]
