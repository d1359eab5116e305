"""Tables of docs/same-bits.md: whether a vector has the same bits whatever is encoded beside its text.

python -m tools.same_bits methods [RECIPE ...]
python -m tools.same_bits others DATA_FOLDER [PAIRS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from tools.on_gpu import RECIPES, _small, backbone
from zoo.encoder import Encoder, Run, Runtime, Vectors

Encode = Callable[[list[str]], Vectors]
CONDITIONS = ("beside others", "alone", "subset", "order", "threads", "cache", "workers")
DRAWS = np.random.default_rng(96)


def texts_beside(texts: list[str], count: int = 200) -> list[str]:
    """`count` others of 1 to 200 words, most of them short, from the words of `texts`."""
    words = " ".join(texts).split()
    lengths = np.where(DRAWS.random(count) < 0.98, DRAWS.integers(1, 40, count), DRAWS.integers(40, 200, count))
    return [" ".join(DRAWS.choice(words, size=int(length))) for length in lengths]


def in_conditions(encode: Encode, texts: list[str], beside: list[str]) -> Iterator[tuple[str, Vectors]]:
    """Vectors of `texts` (n, dim) under each condition, named."""
    yield "beside others", encode([*texts, *beside])[: len(texts)]
    yield "alone", np.concatenate([encode([text]) for text in texts])
    yield "subset", np.concatenate([encode(texts[start : start + 5]) for start in range(0, len(texts), 5)])
    order = DRAWS.permutation(len(texts) + len(beside))
    everything = [*texts, *beside]
    shuffled = encode([everything[i] for i in order])
    yield "order", shuffled[np.argsort(order)][: len(texts)]


def unlike(encoder: Encoder, texts: list[str], beside: list[str]) -> dict[str, str]:
    """The conditions in which a text has other bits than beside others with one thread, and by how much."""
    differ: dict[str, str] = {}
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        wanted = encoder.encode([*texts, *beside])[: len(texts)]
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for name, vectors in in_conditions(encoder.encode, texts, beside):
                if (vectors != wanted).any():
                    condition = name if threads == 1 else "threads"
                    differ[condition] = f"by up to {np.abs(vectors - wanted).max():.0e}"
    finally:
        torch.set_num_threads(before)
    return differ


def fitted(name: str, folder: Path, precision: str) -> Encoder:
    """An encoder of a recipe on a random BERT (or GPT-2), 32 wide, after a few steps where it is trained."""
    from zoo.check import _toy_corpus, _toy_pairs
    from zoo.recipes import all_recipes

    cls, recipe = all_recipes()[name].resolve()
    encoder: Encoder = cls(_small(cls, recipe, str(folder)), Runtime(precision=precision))
    traits = cls.traits(encoder.recipe)
    if traits.needs_corpus or traits.needs_pairs:
        encoder.fit(_toy_pairs() if traits.needs_pairs else _toy_corpus(), run=Run(seed=0))
    return encoder.adapt(_toy_corpus().sentences) if traits.transductive else encoder


def methods(names: list[str]) -> Iterator[str]:
    """The lines of the table of recipes and conditions, of both precisions."""
    from benchmark.run.cache import EmbeddingCache
    from benchmark.run.vectors import VectorStore
    from zoo.check import SENTENCES

    texts = [*SENTENCES[:14], "", "a long text of many words " * 30]
    differ: dict[str, dict[str, str]] = {name: {} for name in names}
    with tempfile.TemporaryDirectory() as place:
        os.environ["ZOO_BENCH_CACHE"] = place
        folder = backbone(Path(place) / "bert", 0.1)
        for name in names:
            for precision in ("fp32", "bf16"):
                encoder, key = fitted(name, folder, precision), f"{name}-{precision}"
                print(key, file=sys.stderr, flush=True)
                more = unlike(encoder, texts, texts_beside(texts))
                entry = EmbeddingCache().entry(key, None, "cpu")
                VectorStore(encoder, name, lambda: entry)(texts[:5])  # noqa: B023
                wanted, partly = encoder.encode(texts), VectorStore(encoder, name, lambda: entry)(texts)  # noqa: B023
                more |= {} if np.array_equal(partly, wanted) else {"cache": "other bits"}
                np.save(Path(place) / f"{key}.npy", wanted)
                encoder.save(Path(place) / key)
                differ[name] |= {condition: f"{precision} {by}" for condition, by in more.items()}
        command = [sys.executable, "-m", "tools.same_bits", "_loaded", place, *names]
        loaded = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "2"}, stdout=subprocess.PIPE, check=True)
        for line in loaded.stdout.decode().splitlines():
            differ[line.partition("-fp32")[0].partition("-bf16")[0]]["workers"] = "other bits"
    yield f"| recipe | {' | '.join(CONDITIONS)} | why not |"
    yield "|:--|" + ":--|" * (len(CONDITIONS) + 1)
    for name, why in differ.items():
        cells = ["no" if condition in why else "yes" for condition in CONDITIONS]
        yield f"| `{name}` | {' | '.join(cells)} | {'; '.join(f'{k}: {v}' for k, v in why.items())} |"


def loaded_unlike(place: Path, names: list[str]) -> Iterator[str]:
    """Saved encoders whose vectors are others in this process."""
    from zoo.check import SENTENCES
    from zoo.recipes import all_recipes

    texts = [*SENTENCES[:14], "", "a long text of many words " * 30]
    for key in (f"{name}-{precision}" for name in names for precision in ("fp32", "bf16")):
        cls = all_recipes()[key.rpartition("-")[0]].resolve()[0]
        encoder = cls.load(place / key, Runtime(precision=key.rpartition("-")[2]))
        if not np.array_equal(encoder.encode(texts), np.load(place / f"{key}.npy")):
            yield key


def main(words: list[str]) -> None:
    command, *rest = words
    if command == "methods":
        lines = methods(rest or list(RECIPES))
    elif command == "_loaded":
        lines = loaded_unlike(Path(rest[0]), rest[1:])
    else:
        from tools.same_bits_of_others import others

        lines = others(Path(rest[0]), int(rest[1]) if rest[1:] else None)
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
