#!/usr/bin/env bash
# Makes the tables of this folder: run.sh DATA_FOLDER. Stopped at any time, the same command goes on where it was; what is
# measured is not measured again. Every line may run beside another one, as a process of its own.
set -eu
here=$(dirname "$0")
run() {
  zoo-bench run --data "$data" --out "$here" --precision bf16 --allow-missing --pairs nli+ppdb2-human \
    --train-sentences 4096 --train-pairs 8000 "$@"
}
data=$1
every=sts,words,words-more,phrases,relatedness
three=sts,words,phrases
export OMP_NUM_THREADS=1 ZOO_BENCH_EMBEDDING_CACHE=0 # every row pays for its own encoding

run --suite $every,transfer-fast --seeds 3 --methods \
  bag-of-words,random,cls,avg-last,avg-first-last,glove,static-avg,static-freq-sub-case-pun,prompt,prompt-denoise,sif,sif-tokens,whitening
run --suite $every --seeds 3 --methods burt-small,burt-nli-small,sbert-small
run --suite $three --seeds 5 --methods simcse,ptbert,promptbert
run --suite $three --seeds 3 --methods simcse-small,moco,flow,consert-small,burt,burt-nli,sbert
run --suite $three --seeds 3 --methods whitening-nli,whitening-nli-h0,whitening-target,whitening-full,avg-first-last-h1,avg-top2
run --suite $three --seeds 1 --methods \
  burt-uv,burt-diff,burt-nli-pi,burt-nli-ptc,burt-human,sbert-whitening,sbert-flow,simcse-sup-small,infersent:lstm_dim=256:epochs=1,optiprompt,isbert,ct:steps=320
run --suite transfer-fast --seeds 1 --methods simcse,burt-small,promptbert,simcse-small
