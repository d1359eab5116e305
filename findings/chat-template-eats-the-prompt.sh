#!/usr/bin/env bash
# Belief: encode(text, prompt="query: ") puts the prompt before the text, whatever else the model's folder has.
# What happens: where the tokenizer has a chat template, the text is the user's message and the prompt the system's.
# A template that writes no message of the system leaves the prompt out without a word.
# Versions: sentence-transformers 6.2.0, transformers 5.23.0, torch 2.13.0.
# Output: template of all roles: <s> find <u> a dog; of the user alone: <u> a dog; the prompt changes the vector: True, False
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check sentence-transformers==6.2.0 transformers==5.23.0 torch==2.13.0
cd "$dir"
"$dir/venv/bin/python" - <<'PY'
import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaModel, PreTrainedTokenizerFast

words = "[PAD] [UNK] <s> <u> find a dog".split()
split = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
split.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
LlamaModel(LlamaConfig(vocab_size=len(words), initializer_range=0.5, **sizes)).save_pretrained("model")
user = "{% if m['role'] == 'user' %}<u> {{ m['content'] }}{% endif %}"
every = user + "{% if m['role'] == 'system' %}<s> {{ m['content'] }} {% endif %}"
read, moved = [], []
for template in (every, user):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=split, pad_token="[PAD]", unk_token="[UNK]")
    tokenizer.chat_template = "{% for m in messages %}" + template + "{% endfor %}"
    tokenizer.save_pretrained("model")
    model = SentenceTransformer(modules=[Transformer("model"), Pooling(16)], device="cpu")
    read.append(tokenizer.decode(model.preprocess(["a dog"], prompt="find ")["input_ids"][0]))
    plain, prompted = model.encode(["a dog"]), model.encode(["a dog"], prompt="find ")
    moved.append(not np.array_equal(plain, prompted))
print(f"template of all roles: {read[0]}; of the user alone: {read[1]}; the prompt changes the vector: {moved[0]}, {moved[1]}")
assert "find" in read[0] and "find" not in read[1] and moved == [True, False]
PY
