#!/usr/bin/env bash
# Makes the tables of this folder: run.sh DATA_FOLDER. Stopped at any time, the same command goes on where it was; what is
# measured is not measured again. Every line may run beside another one, as a process of its own.
set -eu
here=$(dirname "$0")
data=$1
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
run() {
  zoo-bench run --data "$data" --results "$here" --suite sts --backbone zoo-small --corpus wiki --train-sentences 20000 \
    --precision bf16 --seeds 3 "$@"
}

run --methods simcse
run --methods random,bag-of-words,cls,avg-last,avg-first-last,static-avg,static-freq-sub-case-pun,whitening,whitening-target
run --methods prompt-repo,promptbert-repo
run --methods ptbert-avg
