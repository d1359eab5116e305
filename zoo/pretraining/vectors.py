"""Word vectors trained on plain text with gensim: word2vec's and fastText's skip-grams."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from zoo.errors import MissingError, UsageError
from zoo.files import atomic_path, sha256_file, write_json
from zoo.formats.word_vectors import PIECES
from zoo.pretraining.setting import PlainTexts
from zoo.progress import Progress

_SUFFIXES = (".vec", ".txt", ".bin")


@dataclass(frozen=True, kw_only=True)
class VectorRecipe:
    """Settings of the vectors; with one worker, equal text gives equal vectors."""

    kind: Literal["word2vec", "fasttext"]
    dim: int = 100
    window: int = 5
    negatives: int = 5
    least_count: int = 5  # rarer words have no vector
    most_words: int = 200_000  # the most frequent ones
    epochs: int = 3
    sample: float = 1e-4  # gensim's subsampling: the smaller, the more often frequent words are skipped
    buckets: int = 200_000  # fastText: number of hash buckets for n-grams of 3 to 6 letters
    workers: int = 1  # with more it is faster, but not deterministic
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("dim", "window", "negatives", "least_count", "most_words", "epochs", "buckets", "workers"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} of word vectors must be at least 1.")


class _Words:
    """The words of every sentence in lower case; can be iterated several times, as gensim needs."""

    def __init__(self, texts: PlainTexts, progress: Progress) -> None:
        self.texts, self.progress = texts, progress
        self.passes = self.sentences = 0

    def __iter__(self) -> Iterator[list[str]]:
        self.passes += 1
        self.sentences = 0
        for sentence in self.texts.sentences():
            self.sentences += 1
            if self.sentences % 500_000 == 0:
                self.progress.say(f"pass {self.passes}: {self.sentences:,} sentences")
            yield PIECES.findall(sentence.lower())


def check_target(out: Path) -> None:
    """Raise UsageError for a file name without a known suffix, MissingError without gensim."""
    if out.suffix not in _SUFFIXES:
        raise UsageError(
            f"--out {out}: word vectors go to a file named .vec or .txt (text) or .bin (word2vec's binary)."
        )
    try:
        import gensim  # noqa: F401
    except ImportError as error:
        raise MissingError("word vectors are trained with gensim: `pip install zoo-bench[vectors]`.") from error


def train_vectors(
    recipe: VectorRecipe, texts: PlainTexts, out: Path, *, progress: Progress, command: str | None = None
) -> dict[str, Any]:
    """Train, write the vectors to `out` and facts about them beside it (`.json`); return the facts.

    Raises UsageError for text in which no word is frequent enough.
    """
    check_target(out)
    import gensim
    from gensim.models import FastText, Word2Vec

    words = _Words(texts, progress)
    settings: dict[str, object] = {
        "vector_size": recipe.dim,
        "window": recipe.window,
        "negative": recipe.negatives,
        "min_count": recipe.least_count,
        "max_final_vocab": recipe.most_words,
        "sample": recipe.sample,
        "workers": recipe.workers,
        "seed": recipe.seed,
        "sg": 1,
    }
    started = time.monotonic()
    model = FastText(**settings, bucket=recipe.buckets) if recipe.kind == "fasttext" else Word2Vec(**settings)
    model.build_vocab(words)
    if not model.wv.index_to_key:
        names = ", ".join(path.name for path in texts.paths)
        raise UsageError(
            f"no word of {names} occurs {recipe.least_count} times, so there is nothing to train; give more text."
        )
    sentences = words.sentences
    progress.say(f"{len(model.wv.index_to_key):,} words of {sentences:,} sentences; {recipe.epochs} passes")
    model.train(words, total_examples=model.corpus_count, epochs=recipe.epochs)
    with atomic_path(out) as temporary:
        model.wv.save_word2vec_format(str(temporary), binary=out.suffix == ".bin")
    facts = {
        "recipe": asdict(recipe),
        "texts": [path.name for path in texts.paths],
        "sentences": sentences,
        "tokens": int(model.corpus_total_words),
        "words": len(model.wv.index_to_key),
        "tested_sentences_left_out": len(texts.exclude),
        "seconds": round(time.monotonic() - started, 1),
        "gensim": gensim.__version__,
        "sha256": sha256_file(out),
        "command": command,
    }
    write_json(out.with_suffix(".json"), facts)
    return facts
