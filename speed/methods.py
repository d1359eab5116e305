"""Measures how fast the methods after 2022 train, each between two trainings of SimCSE on the same sentences.

python -m speed.methods --text FILE [--backbone zoo-mini] [--sentences 640] [--out methods.csv]

A line has sentences per processor second of one thread, their ratio to SimCSE's, and the encoder passes over each
sentence that the method states; teachers are trained within a method's time. All have batches of 64, one epoch and no
evaluation. Pairs are neighbouring sentences with made-up scores, and sentences per second count both sides.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import click
import torch

from benchmark.data.readers.pairs import iterate_text
from speed.report import conditions, write_csv
from speed.script import run
from zoo.encoder import Corpus, Run, Runtime
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

METHODS = (
    "cosent,angle,matryoshka,simcse-plus-plus,simcse-off-dropout,simcse-dcl,mixcse,rankcse,diffcse,"
    "sncse:negation=not,cot-bert,promptbert,sentence-crops,tsdae,promcse"
)


def rate(name: str, backbone: str, sentences: list[str]) -> tuple[float, float]:
    """Return sentences per processor second of one epoch, and the passes that the method states."""
    spec = parse_methods(name, all_recipes())[0]
    fields = spec.resolve({"backbone": backbone})[1].__dataclass_fields__
    same = {"backbone": backbone, "batch_size": 64, "epochs": 1, "accumulate": 1}
    cls, recipe = spec.resolve({key: value for key, value in same.items() if key in fields})
    traits = cls.traits(recipe)
    scores = [number % 6 / 5 for number in range(len(sentences) // 2)] if traits.needs_pairs else None
    documents = None if traits.needs_pairs else range(0, len(sentences), 8)
    encoder = cls(recipe, Runtime(device="cpu", precision="fp32"))
    before = time.process_time()
    encoder.fit(Corpus("speed", sentences, documents=documents, scores=scores), run=Run(seed=0))
    return len(sentences) / (time.process_time() - before), traits.training_passes


@click.command(help=__doc__)
@click.option("--text", type=click.Path(exists=True, path_type=Path), required=True, help="One sentence per line.")
@click.option("--backbone", default="zoo-mini", show_default=True)
@click.option("--methods", default=METHODS, show_default=True)
@click.option("--sentences", "number", default=640, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="CSV file of the lines.")
def main(text: Path, backbone: str, methods: str, number: int, out: Path | None) -> None:
    """Measure and print a line for each method."""
    torch.set_num_threads(1)
    sentences = list(itertools.islice(iterate_text(text), number))
    rate("simcse", backbone, sentences[:128])
    earlier, of_simcse = rate("simcse", backbone, sentences)
    rows = []
    for name in methods.split(","):
        speed, passes = rate(name, backbone, sentences)
        later, _ = rate("simcse", backbone, sentences)
        beside = (earlier + later) / 2
        rows.append(
            {
                "method": name,
                "sentences_per_second": round(speed, 1),
                "simcse_before_and_after": round(beside, 1),
                "ratio": round(speed / beside, 2),
                "passes": round(passes, 2),
                "ratio_by_passes": round(of_simcse / passes, 2),
            }
        )
        earlier = later
        print(", ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    if out is not None:
        write_csv(out, rows, {"backbone": backbone, "sentences": number, "batch": 64, **conditions("cpu")})


if __name__ == "__main__":
    run(main)
