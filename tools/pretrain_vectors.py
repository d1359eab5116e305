"""Trains word2vec or fastText vectors (skip-gram) on plain text with gensim, without any sentence that a task tests.

python -m tools.pretrain_vectors word2vec|fasttext [--text NAME_OR_FILE] [--out FILE] [--dim 100] [--epochs 3]

By default the vectors go where the recipes word2vec-wiki and fasttext-wiki read them. One thread: equal text gives
equal vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from benchmark.cli.options import PATH, data_option, say, text_option
from benchmark.data.sources import DataSource
from speed.script import run
from zoo.errors import UsageError
from zoo.files import atomic_path, sha256_file, write_json
from zoo.formats.word_vectors import MADE_VECTORS, PIECES, made_file
from zoo.progress import Progress
from zoo_bench_papers.pretraining.texts import PlainTexts, clean_texts


class _Words:
    """The words of every sentence in lower case; can be iterated several times, as gensim needs."""

    def __init__(self, texts: PlainTexts) -> None:
        self.texts = texts

    def __iter__(self) -> Iterator[list[str]]:
        for sentence in self.texts.sentences():
            yield PIECES.findall(sentence.lower())


@click.command()
@click.argument("kind", type=click.Choice(["fasttext", "word2vec"]))
@text_option
@data_option
@click.option("--out", type=PATH, help="File: .vec is text, .bin is word2vec's binary form [default: in the cache].")
@click.option("--dim", type=click.IntRange(1), default=100)
@click.option("--epochs", type=click.IntRange(1), default=3)
@click.option("--least-count", type=click.IntRange(1), default=5, help="Leave out rarer words.")
def main(
    kind: str, texts: tuple[str, ...], data: str | None, out: Path | None, dim: int, epochs: int, least_count: int
) -> None:
    """Train word vectors, and write facts about them beside them (.json)."""
    from gensim.models import FastText, Word2Vec

    out = out or made_file(next(name for name, known_kind in MADE_VECTORS.items() if known_kind == kind))
    clean = clean_texts(texts, DataSource.from_options(data, hub=False), Progress())
    settings: dict[str, object] = {
        "vector_size": dim,
        "min_count": least_count,
        "max_final_vocab": 200_000,
        "sample": 1e-4,
        "workers": 1,
        "seed": 0,
        "sg": 1,
    }
    words = _Words(clean)
    model = FastText(**settings, bucket=200_000) if kind == "fasttext" else Word2Vec(**settings)
    model.build_vocab(words)
    if not model.wv.index_to_key:
        raise UsageError(f"no word of the text occurs {least_count} times, so there is nothing to train.")
    model.train(words, total_examples=model.corpus_count, epochs=epochs)
    with atomic_path(out) as temporary:
        model.wv.save_word2vec_format(str(temporary), binary=out.suffix == ".bin")
    facts = {
        "kind": kind,
        "settings": {**settings, "epochs": epochs},
        "texts": [path.name for path in clean.paths],
        "words": len(model.wv.index_to_key),
        "tested_sentences_left_out": len(clean.exclude),
        "sha256": sha256_file(out),
    }
    write_json(out.with_suffix(".json"), facts)
    say(f"{facts['words']:,} words; written: {out}")


if __name__ == "__main__":
    run(main)
