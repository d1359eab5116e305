#!/usr/bin/env bash
# Makes the tables of this folder: run.sh DATA_FOLDER. Stopped at any time, the same command goes on where it was; what is
# measured is not measured again. bag-of-words has no score on three word tasks, so that the exit code is 1 at the end.
set -u
here=$(dirname "$0")
data=$1
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
untrained=random,bag-of-words,cls,avg-last,avg-first-last,static-avg,static-freq-sub-case-pun,prompt-repo
status=0
run() {
  zoo-bench run --data "$data" --results "$here" --backbone zoo-small --corpus wiki --train-sentences 20000 --precision bf16 \
    --seeds 3 "$@" || status=$?
}

run --suite sts,words,phrases --methods "$untrained,whitening,simcse,promptbert-repo,ptbert-avg"
run --suite sts --methods whitening-target # fitted on the texts of each task
zoo-bench analyze bias --backbone zoo-small --sentences 20000 --data "$data" --out "$here/analyses" --no-plots --precision fp32 || status=$?
zoo-bench analyze anisotropy --methods static-avg,avg-last --backbone zoo-small --sentences 2000 --data "$data" --out "$here/analyses" --no-plots --precision bf16 || status=$?
zoo-bench claims --results "$here" || status=$?
exit "$status"
