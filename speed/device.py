"""Measures training and encoding on one device in short pieces, with made-up texts and random weights.

python speed/device.py train|encode|kernels --out FILE.csv [--device cuda] [--tiny]

The weights have BERT-base's shape. It needs neither data nor a network, and of the project only what its last releases
have in common: with another checkout first on PYTHONPATH, `python -P speed/device.py` measures that one, so that two
commits can alternate. Every measured line is printed and appended to the file at once. `--tiny` takes a small model and
few texts, to try it.

train    milliseconds of a step, sentences per second and the peak of the memory, for each method and precision
encode   texts per second of this project and of sentence-transformers, in either precision
kernels  kernels, copies and waits of a training step, as torch's profiler sees them (on CUDA)
"""

from __future__ import annotations

import csv
import random
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click

METHODS = "simcse,ptbert,promptbert,moco,sbert"
PRECISIONS = ("fp32", "bf16")
TINY: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def made_up(count: int, seed: int = 0) -> list[str]:
    """Return texts of common words, most of them 5 to 40 words long, as lines of an encyclopedia are."""
    words = "the of and in to was is for on as with by he at from his an are were which be this has had also or".split()
    words += "city river school season team album film station church island member north system company war".split()
    draw = random.Random(seed)
    lengths = [min(60, max(3, round(draw.lognormvariate(2.9, 0.5)))) for _ in range(count)]
    return [" ".join([*draw.choices(words, k=length), str(number)]) for number, length in enumerate(lengths)]


def weights(folder: Path, *, tiny: bool) -> str:
    """Write random weights of BERT-base's shape (or a tiny one), with zoo-mini's tokenizer, as a folder."""
    import shutil

    import torch
    from transformers import BertConfig, BertForMaskedLM

    import zoo

    torch.manual_seed(0)
    BertForMaskedLM(BertConfig(vocab_size=30522, **(TINY if tiny else {}))).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(Path(zoo.__file__).parent / "models" / "zoo-mini" / name, folder)
    return str(folder)


def make_encoder(method: str, backbone: str, device: str, precision: str, *, tiny: bool, batch: int = 64) -> Any:
    """Return an untrained encoder of a method with its own settings, one epoch and no evaluation."""
    import dataclasses

    from zoo.encoder import Runtime
    from zoo.recipes import all_recipes

    cls, recipe = all_recipes()[method].resolve()
    wanted = {"backbone": backbone, "batch_size": batch, "epochs": 1, "eval_every": 10**9} | (
        {"pseudo_tokens": 8, "queue_size": 64, "heads": 2} if tiny else {}
    )
    names = {field.name for field in dataclasses.fields(recipe)}
    changed = {key: value for key, value in wanted.items() if key in names}
    return cls(dataclasses.replace(recipe, **changed), Runtime(device=device, precision=precision))


def corpus(encoder: Any, rows: int) -> Any:
    """Return made-up sentences, or as many labelled pairs, whichever the method learns from."""
    from zoo.encoder import Corpus

    if not type(encoder).traits(encoder.recipe).needs_pairs:
        return Corpus("made up", made_up(rows))
    known = ["entailment", "neutral", "contradiction"]
    # BURT learns from pairs of phrases too.
    if hasattr(encoder.recipe, "paraphrases"):
        known += ["ppdb:equivalence", "ppdb:independent"]
    labels = [known[number % len(known)] for number in range(rows)]
    return Corpus("made up", made_up(2 * rows), labels=labels)


def train(method: str, backbone: str, device: str, precision: str, *, steps: int, tiny: bool) -> dict[str, Any]:
    """Return the speed of some steps of a training, after ten steps that warm up."""
    from zoo.encoder import Run

    encoder = make_encoder(method, backbone, device, precision, tiny=tiny)
    batch = encoder.recipe.batch_size
    encoder.fit(corpus(encoder, 10 * batch), run=Run(seed=0))
    report = encoder.fit(corpus(encoder, steps * batch), run=Run(seed=0))
    return {
        "what": method,
        "precision": precision,
        "batch": batch,
        "ms_per_step": round(1000 * report.seconds / report.steps, 2),
        "per_second": round(batch * report.steps / report.seconds, 1),
        "peak_mb": report.peak_memory_mb,
        "loss": report.final_loss,
    }


def encode(side: str, backbone: str, device: str, precision: str, *, texts: list[str]) -> dict[str, Any]:
    """Return the speed of encoding texts with mean pooling; `side` is zoo-bench or sentence-transformers."""
    import torch

    if side == "zoo-bench":
        from zoo.api import create
        from zoo.encoder import Runtime
        from zoo.engine.tokens import MEMORY

        encoder: Any = create(f"avg-last:backbone={backbone}")
        encoder = type(encoder)(encoder.recipe, Runtime(device=device, precision=precision))

        def run(some: list[str]) -> Any:
            MEMORY.forget()
            return encoder.encode(some)
    else:
        from sentence_transformers import SentenceTransformer

        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
        encoder = SentenceTransformer(backbone, device=device, model_kwargs={"dtype": dtype})

        def run(some: list[str]) -> Any:
            return encoder.encode(some, show_progress_bar=False, convert_to_tensor=True).float().cpu().numpy()

    run(texts[:512])
    started = time.perf_counter()
    vectors = run(texts)
    seconds = time.perf_counter() - started
    peak = torch.cuda.max_memory_allocated() >> 20 if device.startswith("cuda") else None
    return {
        "what": side,
        "precision": precision,
        "texts": len(texts),
        "seconds": round(seconds, 3),
        "per_second": round(len(texts) / seconds, 1),
        "peak_mb": peak,
        "first_value": float(vectors[0, 0]),
    }


def kernels(method: str, backbone: str, device: str, precision: str, *, steps: int, tiny: bool) -> dict[str, Any]:
    """Return kernels, copies between host and device, and waits of the host, per step, by torch's profiler."""
    from torch.profiler import ProfilerActivity, profile

    from zoo.encoder import Run

    encoder = make_encoder(method, backbone, device, precision, tiny=tiny)
    batch = encoder.recipe.batch_size
    encoder.fit(corpus(encoder, 10 * batch), run=Run(seed=0))
    some = corpus(encoder, steps * batch)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        report = encoder.fit(some, run=Run(seed=0))
    counts: Counter[str] = Counter()
    busy = 0.0
    for event in seen.events() or []:
        if str(event.device_type).endswith("CUDA"):
            kind = "copies" if event.name.startswith(("Memcpy", "Memset")) else "kernels"
            counts[kind] += 1
            busy += event.time_range.elapsed_us()
        elif event.name in ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize"):
            counts["waits"] += 1
    per_step = {kind: round(counts[kind] / report.steps, 1) for kind in ("kernels", "copies", "waits")}
    return {
        "what": method,
        "precision": precision,
        **per_step,
        "busy_ms": round(busy / 1000 / report.steps, 2),
        "ms_per_step": round(1000 * report.seconds / report.steps, 2),
    }


def append(path: Path, row: dict[str, Any]) -> None:
    """Write a line at the end of a CSV file."""
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(row))
        if new:
            writer.writeheader()
        writer.writerow(row)
    print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)


@click.command(help=__doc__)
@click.argument("piece", type=click.Choice(["train", "encode", "kernels"]))
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--device", default="cuda", show_default=True)
@click.option("--methods", default=METHODS, show_default=True)
@click.option("--precisions", default=",".join(PRECISIONS), show_default=True)
@click.option("--steps", default=100, show_default=True, help="Steps that are measured.")
@click.option("--texts", default=20_000, show_default=True, help="Texts that are encoded.")
@click.option("--sides", default="zoo-bench,sentence-transformers", show_default=True)
@click.option("--tiny", is_flag=True, help="A small model, and few steps and texts.")
def main(
    piece: str,
    out: Path,
    device: str,
    methods: str,
    precisions: str,
    steps: int,
    texts: int,
    sides: str,
    tiny: bool,
) -> None:
    """Measure one piece."""
    import torch

    import zoo

    tree = Path(zoo.__file__).parent.parent
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=tree, capture_output=True, text=True)
    name = torch.cuda.get_device_name() if device.startswith("cuda") else device
    about = {"tree": tree.name, "commit": commit.stdout.strip(), "hardware": name, "torch": torch.__version__}
    steps, texts = (3, 100) if tiny else (steps, texts)
    with tempfile.TemporaryDirectory() as folder:
        backbone = weights(Path(folder), tiny=tiny)
        for precision in precisions.split(","):
            for what in (sides if piece == "encode" else methods).split(","):
                if piece == "encode":
                    row = encode(what, backbone, device, precision, texts=made_up(texts))
                elif piece == "train":
                    row = train(what, backbone, device, precision, steps=steps, tiny=tiny)
                else:
                    row = kernels(what, backbone, device, precision, steps=min(steps, 10), tiny=tiny)
                append(out, {**row, **about})


if __name__ == "__main__":
    main()
