"""Measures how the cost of encoding grows with the number of texts: seconds, and memory beside the vectors.

python -m speed.scaling --text FILE [--method avg-last] [--sizes 1000,10000,100000] [--out FILE.csv]

Every size runs in a process of its own, so that none inherits another's peak. The size of the vectors is subtracted
from the peak; the rest should not grow. The texts are distinct lines; tokenisation is included, loading excluded.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click

from benchmark.data.readers.pairs import iterate_text
from speed.report import conditions, write_csv
from speed.script import run
from zoo.machine import choose_device, choose_precision


def measure(text: Path, method: str, size: int, device: str, precision: str) -> dict[str, Any]:
    """Measure the encoding of the first `size` distinct lines in this process."""
    from zoo.encoder import Runtime
    from zoo.machine import peak_memory_mb
    from zoo.recipes import all_recipes
    from zoo.selection import parse_methods

    cls, recipe = parse_methods(method, all_recipes())[0].resolve({})
    encoder = cls(recipe, Runtime(device=device, precision=precision))
    distinct: dict[str, None] = {}
    for line in iterate_text(text):
        distinct[line] = None
        if len(distinct) == size:
            break
    texts = list(distinct)
    del distinct
    # It warms up kernels and buffers, without reaching a new peak.
    encoder.encode(texts[:256])
    started = time.perf_counter()
    vectors = encoder.encode(texts)
    seconds = time.perf_counter() - started
    peak = peak_memory_mb(device) or 0.0
    megabytes = (vectors.nbytes + sum(map(sys.getsizeof, texts))) / 1e6
    return {
        "texts": len(texts),
        "seconds": round(seconds, 2),
        "texts_per_second": round(len(texts) / seconds, 1),
        "peak_mb": peak,
        "texts_and_vectors_mb": round(megabytes, 1),
        "rest_mb": round(peak - megabytes, 1),
    }


@click.command(help=__doc__)
@click.option("--text", type=click.Path(exists=True, path_type=Path), required=True, help="One text per line.")
@click.option("--method", default="avg-last", show_default=True, help="A recipe, with its overrides.")
@click.option("--sizes", default="1000,10000,100000", show_default=True, help="Numbers of texts.")
@click.option("--device", default="auto", show_default=True)
@click.option("--precision", type=click.Choice(["auto", "bf16", "fp32"]), default="auto", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="CSV file for the measurements.")
@click.option("--one", "single", type=int, hidden=True)
def main(
    text: Path, method: str, sizes: str, device: str, precision: str, out: Path | None, single: int | None
) -> None:
    """Measure each size and print a line for it."""
    device = choose_device(device)
    precision = choose_precision(precision, device)
    if single is not None:
        print(json.dumps(measure(text, method, single, device, precision)))
        return
    rows = []
    for size in sizes.split(","):
        options = ["--text", text, "--method", method, "--device", device, "--precision", precision, "--one", size]
        command = [sys.executable, "-m", "speed.scaling", *map(str, options)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rows.append(json.loads(answer.splitlines()[-1]))
        print(", ".join(f"{name} {value:,}" for name, value in rows[-1].items()), flush=True)
    if out is not None:
        write_csv(out, rows, {"method": method, "precision": precision, **conditions(device, "transformers")})


if __name__ == "__main__":
    run(main)
