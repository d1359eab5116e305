#!/usr/bin/env bash
# Belief: AMX makes bfloat16 products of a CPU faster, and changes their bits as another processor does.
# What happens: a row's bits follow the number of the rows beside it, and the number of threads. Layers of 256 inputs are
# equal, of 1024 not. With oneDNN limited to AVX-512 (ONEDNN_MAX_CPU_ISA) the same processor gives equal bits.
# Version: torch 2.13.0. It needs a CPU with AMX; on another one it says so, and has shown nothing.
# Output: AMX: equal unequal unequal; AVX-512: equal equal equal (20 rows, 64 rows, 128 rows by 2 threads)
set -euo pipefail
if ! grep -qw amx_bf16 /proc/cpuinfo; then
  echo "no AMX here: nothing was shown" >&2
  exit 2
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cd "$dir"
cat > rows.py <<'PY'
import torch

torch.manual_seed(0)
x, weight = torch.randn(4096, 1024).bfloat16(), torch.randn(256, 1024).bfloat16()
found = []
for rows, threads in ((20, 1), (64, 1), (128, 2)):
    torch.set_num_threads(1)
    whole = torch.nn.functional.linear(x if threads == 1 else x[:rows], weight)[:rows]
    torch.set_num_threads(threads)
    found.append("equal" if torch.equal(torch.nn.functional.linear(x[:rows], weight), whole) else "unequal")
print(*found)
PY
amx=$("$dir/venv/bin/python" rows.py)
avx=$(ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 "$dir/venv/bin/python" rows.py)
echo "AMX: $amx; AVX-512: $avx"
test "$amx" = "equal unequal unequal" && test "$avx" = "equal equal equal"
