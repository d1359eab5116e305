#!/usr/bin/env bash
# Belief: the BPE dropout in a tokenizer.json is for training; who loads the file gets the same ids each time.
# What happens: the library knows no training; the saved dropout cuts each text at random in every call.
# Version: tokenizers 0.23.3.
# Output (the first number is drawn): 50 calls give 37 different lists of ids; with dropout None 1
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check tokenizers==0.23.3
cd "$dir"
"$dir/venv/bin/python" - <<'PY'
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

tokenizer = Tokenizer(models.BPE(dropout=0.3, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
trainer = trainers.BpeTrainer(vocab_size=80, special_tokens=["<unk>"], show_progress=False)
tokenizer.train_from_iterator(["embeddings of sentences"] * 10, trainer)
tokenizer.save("tokenizer.json")


def different(loaded):
    return len({tuple(loaded.encode("embeddings of sentences").ids) for _ in range(50)})


loaded = Tokenizer.from_file("tokenizer.json")
random = different(loaded)
loaded.model.dropout = None
print(f"50 calls give {random} different lists of ids; with dropout None {different(loaded)}")
assert random > 1 and different(loaded) == 1
PY
