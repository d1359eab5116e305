"""`zoo-bench pretrain-vectors`: trains word2vec or fastText vectors on plain text with gensim."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal, TypedDict, Unpack

import click

from benchmark.cli.options import PATH, data_option, say, text_option


class _Options(TypedDict):
    kind: Literal["fasttext", "word2vec"]
    texts: tuple[str, ...]
    data: str | None
    out: Path | None
    dim: int
    epochs: int
    least_count: int
    most_words: int
    workers: int


@click.command("pretrain-vectors")
@click.argument("kind", type=click.Choice(["fasttext", "word2vec"]))
@text_option
@data_option
@click.option(
    "--out",
    type=PATH,
    help="File for the vectors: .vec and .txt are text, .bin is word2vec's binary form [default: in the cache, where"
    " the recipes word2vec-wiki and fasttext-wiki find them].",
)
@click.option("--dim", type=click.IntRange(1), default=100)
@click.option("--epochs", type=click.IntRange(1), default=3, help="Passes over the text.")
@click.option("--least-count", type=click.IntRange(1), default=5, help="Leave out rarer words.")
@click.option("--most-words", type=click.IntRange(1), default=200_000, help="Most words to keep.")
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=1,
    help="Threads. With one, equal text gives equal vectors; with more, nearly equal ones.",
)
def command(**options: Unpack[_Options]) -> int:
    """Train word vectors on plain text, without any sentence that a task tests."""
    from benchmark.data.sources import DataSource
    from benchmark.pretraining.texts import clean_texts, find_texts, text_options
    from zoo.files import check_writable
    from zoo.formats.word_vectors import MADE_VECTORS, made_file
    from zoo.pretraining.vectors import VectorRecipe, check_target, train_vectors
    from zoo.progress import Progress

    kind = options["kind"]
    out = options["out"] or made_file(next(name for name, made in MADE_VECTORS.items() if made == kind))
    check_target(out)
    check_writable(out.parent)
    data = DataSource.from_options(options["data"], hub=False)
    find_texts(options["texts"], data)
    progress = Progress()
    clean = clean_texts(options["texts"], data, progress)
    recipe = VectorRecipe(
        kind=kind,
        dim=options["dim"],
        epochs=options["epochs"],
        least_count=options["least_count"],
        most_words=options["most_words"],
        workers=options["workers"],
    )
    defaults = dataclasses.asdict(VectorRecipe(kind=kind))
    made, own = dataclasses.asdict(recipe), ""
    for name in ("dim", "epochs", "least_count", "most_words", "workers"):
        if made[name] != defaults[name]:
            own += f" --{name.replace('_', '-')} {made[name]}"
    place = "" if options["out"] is None else f" --out {out.name}"
    line = f"zoo-bench pretrain-vectors {kind} {text_options(options['texts'])}{own}{place}"
    facts = train_vectors(recipe, clean.texts, out, progress=progress, command=line)
    say(f"{facts['words']:,} words, {facts['tokens']:,} tokens, {facts['seconds']:.0f} s; written: {out}")
    return 0
