#!/usr/bin/env bash
# Belief: AutoTokenizer on a model folder without any file of a tokenizer raises an error.
# What happens: it makes up an empty one. For bert every word is the unknown token; for roberta and gpt2 the words
# vanish, so that all texts are the same ids.
# Version: transformers 5.23.0.
# Output: bert: 5 tokens in the vocabulary, [2, 1, 1, 1, 3]; roberta: two texts alike: True; gpt2: two texts alike: True
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check transformers==5.23.0
cd "$dir"
"$dir/venv/bin/python" - <<'PY'
import json
from pathlib import Path

from transformers import AutoTokenizer, logging

logging.set_verbosity_error()
made = {}
for kind in ("bert", "roberta", "gpt2"):
    Path(kind).mkdir()
    Path(kind, "config.json").write_text(json.dumps({"model_type": kind}))
    made[kind] = AutoTokenizer.from_pretrained(f"./{kind}")
ids = made["bert"]("a small dog").input_ids
alike = {kind: made[kind]("a small dog").input_ids == made[kind]("rain and a slow train").input_ids for kind in made}
print(f"bert: {len(made['bert'])} tokens in the vocabulary, {ids}; roberta: two texts alike: {alike['roberta']};", end=" ")
print(f"gpt2: two texts alike: {alike['gpt2']}")
assert len(made["bert"]) < 10 and len(set(ids[1:-1])) == 1 and alike["roberta"] and alike["gpt2"]
PY
