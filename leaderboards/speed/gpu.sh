#!/usr/bin/env bash
# Everything about a GPU that is not measured yet, into this folder: gpu.sh DATA_FOLDER TEXT_FILE. The data lies in SentEval's
# layout, the text has a sentence a line. Needs the extras st and dev; about ten minutes are expected. Each line stands alone.
set -u
data=$1 text=$2
here=$(dirname "$0")
device=${DEVICE:-cuda}
speed() { python -m "speed.$1" "${@:2}" --device "$device" || echo "failed: $1" >&2; }

python -m pytest -q tests -k "gpu or cuda" # the tests that skip, or pretend, without one
speed encoding --data "$data" --base --out "$here/encoding-bert-base-shape-$device.csv"
speed epoch --text "$text" --base --methods simcse,ptbert --out "$here/epoch-bert-base-shape-$device.csv"
speed training --text "$text" --steps 200 --out "$here/training-simcse-$device.csv"
# 768 dimensions that a bag of words fills: probes stop early on random vectors.
speed transfer alone --data "$data" --method bag-of-words:dim=768 --out "$here/transfer-768-$device.json"
speed scaling --text "$text" --sizes 1000,10000,100000,1000000 --out "$here/scaling-avg-last-$device.csv"
folder=$(mktemp -d)
zoo-bench pretrain zoo-mini --text "$text" --steps 500 --device "$device" --out "$folder/model" &&
  cp "$folder/model/pretraining.json" "$here/pretraining-zoo-mini-$device.json"
