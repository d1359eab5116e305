#!/usr/bin/env bash
# Makes the tables of this folder: run.sh DATA_FOLDER. Stopped at any time, the same command goes on where it was; what is
# measured is not measured again. Every line may run beside another one, as a process of its own.
set -eu
here=$(dirname "$0")
status=0
run() { # a cell without a score (bag-of-words has none on most word pairs) must not keep the next line from running
  zoo-bench run --data "$data" --out "$here" --precision bf16 --allow-missing --pairs nli+ppdb2-human \
    --train-sentences 4096 --train-pairs 8000 "$@" || status=$?
}
data=$1
every=sts,words,words-more,phrases,relatedness
untrained='bag-of-words,random,cls,avg-*,glove,static-*,prompt,prompt-denoise,sif,sif-tokens,usif,usif-tokens,whitening*'
small=simcse-small,simcse-sup-small,consert-small
shortened=ct:steps=320,infersent:lstm_dim=256:epochs=4
published=moco,flow,isbert,optiprompt
export OMP_NUM_THREADS=1 ZOO_BENCH_EMBEDDING_CACHE=0 # every row pays for its own encoding

run --suite $every,transfer-fast --seeds 3 --methods "$untrained"
run --suite $every --seeds 5 --methods simcse,ptbert,promptbert
run --suite $every --seeds 3 --methods "burt*,sbert*,$small,$shortened,$published"
run --suite transfer-fast --seeds 1 --methods "burt*,sbert*,simcse,ptbert,promptbert,$small,$shortened,$published"
run --suite finetune --seeds 1 --methods avg-last,burt,burt-small,simcse-small
exit "$status"
