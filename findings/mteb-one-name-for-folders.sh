#!/usr/bin/env bash
# Belief: mteb keeps the results of two models from two folders apart in its cache.
# What happens: every model object that was loaded from a folder is no_model_name/available without a revision. The
# second model is not run: it gets the score of the first. ModelMeta with a name of its own keeps them apart.
# Versions: mteb 2.26.24, sentence-transformers 6.2.0, torch 2.13.0.
# Output: with the cache -0.0565 and -0.0565, without it -0.0565 and 0.0842, in no_model_name__available
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check mteb==2.26.24 sentence-transformers==6.2.0 transformers==5.23.0 torch==2.13.0
cd "$dir"
"$dir/venv/bin/python" - <<'PY'
import logging
import warnings
from pathlib import Path

import mteb
import numpy as np
import torch
from datasets import Dataset, DatasetDict
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
words = "[PAD] [UNK] a man dog cat rain train red old runs sleeps eats in the park".split()
split = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
split.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=split, pad_token="[PAD]", unk_token="[UNK]")
rng = np.random.default_rng(0)
sides = [[" ".join(rng.choice(words[2:], 5)) for _ in range(40)] for _ in range(2)]
rows = {"sentence1": sides[0], "sentence2": sides[1], "score": rng.uniform(0, 5, 40).tolist()}


def score(model, cache):
    task = mteb.get_task("STSBenchmark")
    task.dataset, task.data_loaded = DatasetDict({"test": Dataset.from_dict(rows)}), True
    result = mteb.evaluate(model, task, cache=cache, co2_tracker=False, show_progress_bar=False)
    return result.task_results[0].get_score()


cache, cached, plain = mteb.cache.ResultCache("cache"), [], []
for seed in (1, 2):
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        initializer_range=0.5,
    )
    BertModel(config).save_pretrained(f"base-{seed}")
    tokenizer.save_pretrained(f"base-{seed}")
    parts = [Transformer(f"base-{seed}"), Pooling(16)]
    SentenceTransformer(modules=parts, device="cpu").save(f"model-{seed}")
    model = SentenceTransformer(f"model-{seed}", device="cpu")
    cached.append(score(model, cache))
    plain.append(score(model, None))
(name,) = [path.name for path in Path("cache/results").iterdir()]
print(f"with the cache {cached[0]:.4f} and {cached[1]:.4f}, without it {plain[0]:.4f} and {plain[1]:.4f}, in {name}")
assert abs(cached[1] - cached[0]) < 1e-4 < abs(plain[1] - plain[0])
PY
