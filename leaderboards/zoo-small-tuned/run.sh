#!/usr/bin/env bash
# Makes the rows of this folder: run.sh DATA_FOLDER, on a GPU with bfloat16. Stopped at any time, the same command goes on.
# The other rows with the papers' settings are those of ../zoo-small, which its run.sh makes.
set -u
here=$(dirname "$0")
common=(--data "$1" --results "$here" --backbone zoo-small --corpus wiki --train-sentences 20000 --precision bf16 --device cuda)
pairs=(--pairs nli+ppdb2-human --train-pairs 20000)
rows() { zoo-bench run --suite sts --seeds 3 --dev STS-B --no-controls "${common[@]}" "$@"; }
tuned() { # DEV METHODS [OPTIONS]
  zoo-bench tune "$2" --trials 12 --dev "$1" "${common[@]}" "${@:3}" && rows --methods "${2//,/-tuned,}-tuned" "${@:3}"
}
tuned stsb-dev-disjoint simcse,esimcse,simcse-plus-plus,mixcse,promcse,clear,isbert,moco,moco-2linear-avg-biases,ptbert-tokens,ptbert-repo,ptbert-tokens-avg
tuned pocket-pairs promptbert-repo,cot-bert,sncse,diffcse,sentence-crops,rankcse,tsdae
tuned pocket-pairs sbert,simcse-sup,promptbert-sup-repo,cosent,burt,angle-nli "${pairs[@]}"
# On a CPU: the other set for promptbert-repo, whose recipe has the set in its name.
zoo-bench tune promptbert-repo --trials 12 --dev stsb-dev-disjoint "${common[@]}" --device cpu --results "$here/stsb"
cp "$here/stsb/tuned/promptbert-repo-tuned.yaml" "$here/tuned/promptbert-repo-tuned-stsb.yaml"
rows --methods promptbert-repo-tuned-stsb --device cpu
rows --methods cot-bert,sncse,diffcse,tsdae
rows --methods cosent,angle-nli "${pairs[@]}"
# The learning curve, in ../zoo-small-curve: the settings tuned on 20,000 sentences, on fewer and on more.
for count in 2500 5000 10000 40000; do
  for name in simcse ptbert-repo promptbert-repo; do
    rows --methods "$here/tuned/$name-tuned.yaml" --label "$name-tuned-$count" --train-sentences "$count" --results "$here/../zoo-small-curve"
  done
done
