#!/usr/bin/env bash
# What is to be measured on a GPU, in pieces of at most three minutes: gpu.sh PIECE [FOLDER]. Without data or network.
#   train encode kernels recipes recipes-bf16 graphs
# Each piece writes its own files into FOLDER (default: beside this script). TREES="OLD NEW" names checkouts that are measured
# in turn, ROUNDS times each (default: this one, once). SHARE=1/4 checks each fourth recipe; the log has a line for
# each. DEVICE=cpu TINY=--tiny tries a piece in seconds.
set -eu
piece=$1 here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd) out=${2:-$here} device=${DEVICE:-cuda}
mkdir -p "$out" && out=$(cd "$out" && pwd)
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
case $piece in
  train | encode | kernels)
    for _ in $(seq "${ROUNDS:-1}"); do
      for tree in ${TREES:-$root}; do
        PYTHONPATH=$tree python -P "$root/speed/device.py" "$piece" --device "$device" --out "$out/$piece-$device.csv" ${TINY:-} ${OPTIONS:-}
      done
    done ;;
  recipes | recipes-bf16)
    share=${SHARE:-1/1} precision=fp32; [ "$piece" = recipes ] || precision=bf16
    name=$out/$piece-${share/\//-of-}-$device
    cd "$root"
    PYTHONPATH=$root python -m tools.on_gpu every "$(mktemp -d)" "$share" $precision >"$name.json" 2>"$name.log" ;;
  graphs)
    cd "$root"
    PYTHONPATH=$root python -m tools.on_gpu captured "$(mktemp -d)" "$([ -n "${TINY:-}" ] || echo base)" >"$out/graphs-$device.json" ;;
  *) echo "no piece $piece" >&2; exit 2 ;;
esac
