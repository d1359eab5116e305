#!/usr/bin/env bash
# Makes the tables of this folder: run.sh DATA_FOLDER. Stopped at any time, the same command goes on where it was; what is
# measured is not measured again. Every line may run beside another one, as a process of its own.
set -eu
export ZOO_BENCH_BACKBONE=zoo-mini # in a clone; the recipes name none
here=$(dirname "$0")
status=0
run() { # a cell without a score (bag-of-words has none on most word pairs) must not keep the next line from running
  zoo-bench run --data "$data" --results "$here" --precision bf16 --allow-missing --no-controls --pairs nli+ppdb2-human \
    --train-sentences 4096 --train-pairs 8000 "$@" || status=$?
}
data=$1
probes=transfer,transfer-more,transfer-fast,transfer-more-fast
every=sts,words,words-more,words-context,phrases,relatedness,$probes
untrained='bag-of-words,random,cls,avg-last,avg-first-last*,avg-top2,glove,static-avg,static-freq*,static-head,prompt,prompt-*,sif,sif-tokens,usif,usif-tokens,whitening*'
files=fasttext,word2vec,wordvectors # n/a: they need vectors of one's own, as *roberta* and burt-albert need weights
contrastive='simcse-*,moco,moco-*,ptbert-l*,ptbert-q*,ptbert-repo,ptbert-tokens-small,ptbert-tokens:pseudo_tokens=64,ptbert-tokens:pseudo_tokens=90,ptbert-tokens:pseudo_tokens=256,ptbert-tokens:pseudo_tokens=360,ptbert-tokens:queue_size=192,ptbert-tokens:queue_size=320,ct-*,isbert*,clear*,consert*,esimcse*,flow*,promptbert-*,optiprompt*'
shortened=ct:steps=320,infersent:lstm_dim=256:epochs=4
unlearned=random,bag-of-words,glove,static-avg,sif,sif-tokens,whitening,flow # n/a: nothing in them is fine-tuned
export OMP_NUM_THREADS=1 ZOO_BENCH_EMBEDDING_CACHE=0 # every row pays for its own encoding

run --suite $every --seeds 3 --methods "$untrained"
run --suite $every --seeds 5 --methods simcse,ptbert,ptbert-tokens,promptbert
run --suite $every --seeds 3 --methods "burt*,sbert*,$contrastive,$shortened"
run --suite $every --seeds 3 --methods "infersent-repo:lstm_dim=256:epochs=4,$files"
run --suite sts --seeds 3 --methods 'cosent,matryoshka,angle-nli:accumulate=1,rankcse,rankcse:teachers=["simcse"],diffcse,sncse,tsdae,cot-bert'
run --suite sts --seeds 3 --methods mixcse,mixcse-repo,simcse-plus-plus,promcse,sentence-crops
run --suite sts --seeds 1 --methods sentence-crops-repo,simcse-dcl,simcse-sif,simcse-off-dropout,cot-bert-repo,diffcse-repo
run --suite finetune --seeds 3 --methods "$unlearned,cls,avg-last,prompt,moco,isbert,optiprompt"
run --suite finetune --seeds 3 --methods "$shortened,consert-small,simcse-small,sbert,burt,burt-small"
run --suite finetune --seeds 5 --methods simcse,ptbert-tokens,promptbert
# What the claims lacked: `zoo-bench claims --plan` wrote this file, with the folders of results and data. From the project's folder:
zoo-bench run "$here/plan.yaml" || status=$?
run --no-controls --corpus wiki --suite sts --seeds 3 --methods ptbert:queue_size=1024
run --no-controls --tasks Turney --methods glove --remeasure
pairs() { zoo-bench analyze pairs --data "$data" --results "$here" --no-plots "$@" || status=$?; } # what properties rest on
pairs --tasks STS12,STS13,STS14,STS15,STS16 --methods ptbert,ptbert-repo,ptbert-tokens,simcse,cls,esimcse --out "$here/analyses"
pairs --tasks STS12 --methods static-freq-sub-case-pun,static-avg --out "$here/analyses/short"
zoo-bench analyze anisotropy --data "$data" --methods static-avg,avg-last --sentences 2000 --precision bf16 --no-plots --out "$here/analyses" || status=$?
analyse() { zoo-bench analyze "$@" --backbone zoo-mini --data "$data" --no-plots --out "$here/analyses" || status=$?; }
analyse bias --sentences 20000 --precision fp32
analyse top-tokens --period --sentences 500 --precision bf16
analyse pseudo-tokens --methods ptbert --train-sentences 4096 --seeds 3 --precision bf16
maps=$(mktemp -d) # encoders, which a folder of records does not keep
zoo-bench run --data "$data" --results "$maps" --backbone zoo-mini --precision bf16 --no-controls --pairs nli+ppdb2-human \
  --train-sentences 4096 --train-pairs 8000 --seeds 3 --tasks STS-B --methods whitening-nli,flow-nli || status=$?
analyse alignment --methods avg-first-last,whitening-nli,flow-nli --split dev --results "$maps" --precision bf16
zoo-bench claims --results "$here" || status=$?
exit "$status"
