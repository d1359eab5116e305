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

run --suite sts,words,phrases --methods "$untrained,whitening,simcse,promptbert-repo,ptbert-tokens-avg"
run --suite sts --methods whitening-target # fitted on the texts of each task
zoo-bench analyze bias --backbone zoo-small --sentences 20000 --data "$data" --out "$here/analyses" --no-plots --precision fp32 || status=$?
zoo-bench analyze anisotropy --methods static-avg,avg-last --backbone zoo-small --sentences 2000 --data "$data" --out "$here/analyses" --no-plots --precision bf16 || status=$?

# What the papers' claims need beside them. Labelled pairs are the first 20,000 of NLI and as many of PPDB, if it has them.
claims() { run --allow-missing --no-controls --pairs nli+ppdb2-human --train-pairs 20000 "$@"; }
claims --suite sts,words,phrases,relatedness --methods \
  avg-top2,max,avg-first-last-h1,static-freq,static-freq-sub,static-freq-sub-case,prompt,whitening-nli,whitening-nli:k=null
claims --suite sts,words,phrases --methods glove,sif,usif
claims --suite sts --methods sif:components=0,sif:a=1000000.0,sif:a=0.1,sif:a=0.01,sif:a=0.0001,sif:a=0.00001
claims --suite sts,sts-dev,words,phrases --methods ptbert,ptbert-tokens,sbert
claims --suite sts --methods whitening-nli-h0,whitening-nli:k=64,whitening-nli:k=128,whitening-target:k=null
claims --suite sts --methods prompt-top200-period,prompt-denoise-period,prompt-top200-denoise-period
template() { printf ',prompt:period=true:template="%s"' "$@"; } # table 2's
claims --suite sts-dev --methods "prompt:period=true$(template '[X] [MASK] .' '[X] is [MASK] .' '[X] mean [MASK] .' '[X] means [MASK] .' \
  'This [X] means [MASK] .' 'This sentence of [X] means [MASK] .' 'This sentence of \"[X]\" means [MASK] .' \
  'This sentence : \"[X]\" means [MASK] .' 'Also called [MASK]. [X]')"
run --no-controls --suite sts,words --methods static-contrastive-neighbours,avg-sif # token tables, and SIF's weights
claims --suite sts,sts-dev --methods moco
claims --suite sts --methods moco-2linear,moco-2linear-avg-biases,ptbert-repo,ptbert-tokens-sharp,esimcse,promptbert-repo:second_template=null:denoise=false,promptbert-repo:denoise=false,simcse-sup,promptbert-sup-repo,clear,flow-target,optiprompt-repo
claims --suite sts --methods moco-2linear-avg,moco:double_linear=true # the controls of ptbert-tokens-avg and ptbert
claims --suite sts --methods mixcse,simcse-plus-plus,promcse,sentence-crops # after 2022
claims --suite sts --methods cot-bert,matryoshka --seeds 1
claims --suite sts,words,phrases --methods burt,burt-nli,burt-nli-pi,burt-nli-ptc
pairs() { zoo-bench analyze pairs --data "$data" --results "$here" --no-plots "$@" || status=$?; }
pairs --tasks STS12,STS13,STS14,STS15,STS16 --methods ptbert,ptbert-repo,ptbert-tokens,simcse,cls --out "$here/analyses"
pairs --tasks STS12 --methods static-freq-sub-case-pun,static-avg --out "$here/analyses/short"
zoo-bench claims --results "$here" || status=$?
exit "$status"
