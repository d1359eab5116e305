#!/usr/bin/env bash
# Belief: a square root takes as long for any number, so an optimiser's step does not depend on the words that a corpus has.
# What happens: torch's root of zeros takes ten times as long as of ones, by MKL's vector functions; numpy's does not. AdamW
# takes a root of each squared gradient's mean, 0 for a word that was never read: on a CPU its step over a word table is
# slower the fewer of its words were read. With `fused=True` it is not.
# Version: torch 2.13.0. It needs an Intel CPU with AVX-512; on another one it says so, and has shown nothing.
# Output: root of zeros: slower; numpy: alike; AdamW with 1 % of the words read: slower; fused: alike
set -euo pipefail
if ! grep -q GenuineIntel /proc/cpuinfo || ! grep -qw avx512f /proc/cpuinfo; then
  echo "no Intel CPU with AVX-512 here: nothing was shown" >&2
  exit 2
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cd "$dir"
cat > roots.py <<'PY'
import time

import numpy as np
import torch

torch.set_num_threads(1)


def fastest(*works):
    """Seconds of each, the least of 15 rounds in turn."""
    best = [float("inf")] * len(works)
    for _ in range(15):
        for place, work in enumerate(works):
            started = time.thread_time()
            work()
            best[place] = min(best[place], time.thread_time() - started)
    return best


def said(seconds, bound):
    first, second = seconds
    return "slower" if second > bound * first else "alike"


def step(read, **options):
    table = torch.nn.Embedding(30_000, 256)
    optimizer = torch.optim.AdamW(table.parameters(), lr=1e-3, **options)
    table(torch.arange(read)).sum().backward()
    return optimizer.step


ones, zeros = torch.ones(2_000_000), torch.zeros(2_000_000)
out, of_numpy = torch.empty_like(ones), np.empty(2_000_000, np.float32)
roots = fastest(lambda: torch.sqrt(ones, out=out), lambda: torch.sqrt(zeros, out=out))
numpy = fastest(lambda: np.sqrt(ones.numpy(), out=of_numpy), lambda: np.sqrt(zeros.numpy(), out=of_numpy))
adamw = fastest(step(30_000), step(300))
fused = fastest(step(30_000, fused=True), step(300, fused=True))
print(
    f"root of zeros: {said(roots, 4)}; numpy: {said(numpy, 4)}; "
    f"AdamW with 1 % of the words read: {said(adamw, 1.2)}; fused: {said(fused, 1.2)}"
)
PY
found=$("$dir/venv/bin/python" roots.py)
echo "$found"
test "$found" = "root of zeros: slower; numpy: alike; AdamW with 1 % of the words read: slower; fused: alike"
