#!/usr/bin/env bash
# Belief: include_prompt=False leaves the prompt's tokens out of the mean, and no others.
# What happens: the tokens to leave out are counted on the prompt alone. A byte-level tokenizer joins the blank at the
# end of "query: " to the first word, so that the word is left out with it. "query:" and a text with a blank keep it.
# Versions: sentence-transformers 6.2.0, transformers 5.23.0, torch 2.13.0.
# Output: "query: " pools ['is', 'a', 'dog'] of what is a dog; "query:" pools ['what', 'is', 'a', 'dog']
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check sentence-transformers==6.2.0 transformers==5.23.0 torch==2.13.0
cd "$dir"
"$dir/venv/bin/python" - <<'PY'
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import ByteLevelBPETokenizer
from transformers import RobertaConfig, RobertaModel, RobertaTokenizerFast

trained = ByteLevelBPETokenizer()
lines = ["query: what is a dog", "query: cats sleep", "query: where do people live"] * 20
special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
trained.train_from_iterator(lines, vocab_size=600, min_frequency=1, special_tokens=special, show_progress=False)
trained.save_model(".")
tokenizer = RobertaTokenizerFast.from_pretrained(".")
tokenizer.save_pretrained("model")
torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
RobertaModel(RobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=40, **sizes)).save_pretrained("model")
model = SentenceTransformer(modules=[Transformer("model"), Pooling(16, "mean", include_prompt=False)], device="cpu")


def pooled(prompt, text):
    """Return the words whose states make the mean, without the token of the end."""
    (out,) = model.encode([text], prompt=prompt, output_value=None)
    states, vector = out["token_embeddings"], out["sentence_embedding"]
    (start,) = [n for n in range(len(states)) if torch.allclose(states[n:].mean(dim=0), vector, atol=1e-5)]
    return [tokenizer.decode(token).strip() for token in out["input_ids"].tolist()[start:-1]]


lost, kept = pooled("query: ", "what is a dog"), pooled("query:", " what is a dog")
print(f'"query: " pools {lost} of what is a dog; "query:" pools {kept}')
assert "what" not in lost and "what" in kept
PY
