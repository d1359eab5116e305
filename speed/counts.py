"""Counts what a step of training launches on a GPU, without one: kernels, casts, copies and waits of the host.

python -m speed.counts [--methods simcse,ptbert] [--layers 12] [--steps 3] [--out counts.csv]

The device is pretended (tools/pretend_gpu.py), in bfloat16 by autocast, with narrow layers, whose number counts.
An operation counts as a kernel unless it makes only a view; a fused or foreach operation, and attention, count as one.
A cast changes the type of a tensor, a copy moves values between both sides, a wait brings values to the host.
Numbers are per step (and per batch of encoding, `encode`), with what is read every ten steps spread over them;
`run` counts a whole run, with its dev scores.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import torch
import torch.nn.functional as F

from speed.device import TINY, corpus, make_encoder, weights
from speed.report import write_csv
from speed.script import run

METHODS = "simcse,moco,ptbert,promptbert,burt,sbert,encode,run"
_WORDS = "city river school season team album film station church island north south war book".split()
_FREE = {
    "empty",
    "empty_strided",
    "empty_like",
    "new_empty",
    "new_empty_strided",
    "detach",
    "_unsafe_view",
    "lift_fresh",
}
_WAITING = """_local_scalar_dense item is_nonzero equal nonzero masked_select _unique _unique2 unique_dim
unique_consecutive unique_dim_consecutive bincount""".split()


def waits(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether the host has to know a value, or how many elements of an index are true, or a sum of repetitions."""
    if name in _WAITING:
        return True
    if name == "repeat_interleave":
        return kwargs.get("output_size") is None
    if not name.startswith(("index", "_index_put_impl")) or not isinstance(args[1], list | tuple):
        return False
    # One number for all places is filled in by a mask.
    filled = "put" in name and args[2].numel() == 1
    return not filled and any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])


class Counting:
    """Counts the operations of the pretended device; inside attention none, for a GPU has one kernel for it."""

    def __init__(self, pretend_gpu: Any) -> None:
        self.counts: Counter[str] = Counter()
        self.paused = False
        # Gradients of the attention whose backward pass runs that have not come out yet.
        self.open = 0
        self.inner = pretend_gpu._run
        self.kind = pretend_gpu.Pretended
        self.attention = F.scaled_dot_product_attention
        pretend_gpu._run = self.operation
        F.scaled_dot_product_attention = self._attention
        self.kind.tolist = lambda tensor: self._tolist(tensor)

    def _tolist(self, tensor: Any) -> Any:
        self.counts["waits"] += 1
        return tensor.raw.tolist()

    def operation(self, op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Count one operation and do it."""
        result = self.inner(op, args, kwargs)
        name = op._schema.name.removeprefix("aten::")
        if self.paused or op.is_view or name in _FREE:
            return result
        if name in ("_to_copy", "copy_"):
            source, target = (args[1], args[0]) if name == "copy_" else (args[0], result)
            here = isinstance(source, self.kind), isinstance(target, self.kind)
            kind = "casts" if all(here) and source.dtype != target.dtype else "kernels" if all(here) else "copies"
            self.counts[kind] += 1
            self.counts["waits"] += here == (True, False)
            self.counts["kernels"] += kind == "casts"
        elif waits(name, args, kwargs):
            self.counts["waits"] += 1
        else:
            self.counts["kernels"] += 1
        return result

    def _attention(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Attention forward, and backward through an identity that is told when it begins and when it ends."""
        before, self.paused = self.paused, True
        self.counts["kernels"] += 1 + any(a.requires_grad for a in args)
        try:
            inner = [_Edge.apply(a, self, 0) for a in args]  # type: ignore[no-untyped-call]
            # CUDA's kernels lay the states of a token side by side; then joining its heads is a view.
            states = self.attention(*inner, **kwargs).transpose(1, 2).contiguous().transpose(1, 2)
            result: torch.Tensor = _Edge.apply(states, self, sum(a.requires_grad for a in inner))  # type: ignore[no-untyped-call]
            return result
        finally:
            self.paused = before


class _Edge(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, counting: Counting, begins: int) -> torch.Tensor:
        ctx.counting, ctx.begins = counting, begins
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ctx.counting.open += ctx.begins or -1
        ctx.counting.paused = ctx.counting.open > 0
        return gradients[0], None, None


def counted(method: str, backbone: str, device: str, counting: Counting, steps: int, batch: int) -> dict[str, Any]:
    """Return the counts of a step, as the difference of two trainings that differ by `steps` steps."""
    from zoo.encoder import Run

    totals = []
    for number in (10, 10 + steps):
        encoder = make_encoder(method, backbone, device, "bf16", tiny=True, batch=batch)
        before = counting.counts.copy()
        encoder.fit(corpus(encoder, number * encoder.recipe.batch_size), run=Run(seed=0, checkpoint_steps=10**9))
        totals.append(counting.counts - before)
    return {"what": method, **{k: round((totals[1][k] - totals[0][k]) / steps, 1) for k in _KINDS}}


def encoded(backbone: str, device: str, counting: Counting, batches: int) -> dict[str, Any]:
    """Return the counts of a batch in encoding, as the difference of two texts' lists; 4 texts and padding in each."""
    from zoo.api import create
    from zoo.encoder import Runtime

    encoder: Any = create(f"avg-last:backbone={backbone}")
    encoder = type(encoder)(encoder.recipe, Runtime(device=device, precision="bf16", token_budget=4 * 12))
    # Of four texts of a batch one is a word shorter: [CLS], 9 or 10 words, [SEP].
    texts = [" ".join(random.Random(i).choices(_WORDS, k=9 + (i % 4 > 0))) for i in range(4 * 2 * batches)]
    totals = []
    for some in (texts[: 4 * batches], texts):
        before = counting.counts.copy()
        encoder.encode(some)
        totals.append(counting.counts - before)
    return {"what": "encode", **{k: round((totals[1][k] - totals[0][k]) / batches, 1) for k in _KINDS}}


def whole_run(backbone: str, device: str, counting: Counting, steps: int, looks: int) -> dict[str, Any]:
    """Return what a whole run of SimCSE counts: steps, dev scores that rise, each with its encoding, and the texts."""
    from zoo.encoder import Run

    encoder = make_encoder("simcse", backbone, device, "bf16", tiny=True, batch=4)
    encoder.recipe = replace(encoder.recipe, looks=looks)
    texts = [" ".join(random.Random(i).choices(_WORDS, k=9)) for i in range(40)]
    rising = iter(range(looks))
    before = counting.counts.copy()

    def dev_score(own: Any) -> float:
        return float(len(own.encode(texts)) + next(rising))

    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder), seed=0, checkpoint_steps=10**9)
        encoder.fit(corpus(encoder, 4 * steps), run=run, dev_score=dev_score)
        encoder.encode(texts)
    counts = counting.counts - before
    return {"what": f"a run of {steps} steps and {looks} dev scores", **{kind: counts[kind] for kind in _KINDS}}


_KINDS = ("kernels", "casts", "copies", "waits")


@click.command(help=__doc__)
@click.option("--methods", default=METHODS, show_default=True)
@click.option("--layers", default=12, show_default=True)
@click.option("--steps", default=10, show_default=True)
@click.option("--batch", default=16, show_default=True)
@click.option("--out", type=click.Path(path_type=Path))
def main(methods: str, layers: int, steps: int, batch: int, out: Path | None) -> None:
    """Count and print a line for each method."""
    from tools import pretend_gpu

    torch.set_num_threads(1)
    device = pretend_gpu.pretend()
    counting = Counting(pretend_gpu)
    TINY["num_hidden_layers"] = layers
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        backbone = weights(Path(folder), tiny=True)
        for method in methods.split(","):
            if method == "encode":
                rows.append(encoded(backbone, device, counting, steps))
            elif method == "run":
                rows.append(whole_run(backbone, device, counting, 4 * steps, 4))
            else:
                rows.append(counted(method, backbone, device, counting, steps, batch))
            print(", ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    if out is not None:
        write_csv(out, rows, {"layers": layers, "torch": torch.__version__})


if __name__ == "__main__":
    run(main)
