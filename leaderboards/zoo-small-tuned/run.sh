#!/usr/bin/env bash
# Makes the tuned rows of this folder: run.sh DATA_FOLDER, on a GPU with bfloat16. Stopped at any time, the same command goes on.
# The rows with the papers' settings are those of ../zoo-small, which its run.sh makes.
set -u
here=$(dirname "$0")
methods=simcse,esimcse,simcse-plus-plus,mixcse,promcse,clear,isbert,moco,moco-2linear-avg,ptbert,ptbert-repo,ptbert-avg
common=(--data "$1" --results "$here" --backbone zoo-small --corpus wiki --train-sentences 20000 --precision bf16 --device cuda)
zoo-bench tune "$methods" --trials 12 "${common[@]}" &&
  zoo-bench run --methods "${methods//,/-tuned,}-tuned" --suite sts --seeds 3 --no-controls "${common[@]}"
