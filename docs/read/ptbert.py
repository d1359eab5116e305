"""PT-BERT from top to bottom, with nothing but PyTorch and Transformers.

Haochen Tan, Wei Shao, Han Wu, Ke Yang and Linqi Song: A Sentence is Worth 128 Pseudo Tokens: A Semantic-Aware
Contrastive Learning Framework for Sentence Embeddings (Findings of ACL 2022).

A contrast may learn how long sentences are instead of what they mean. PT-BERT therefore means to compare sentences in a
form of the same length for all: attention maps the vector of a sentence to 128 pseudo tokens and back. A second, slowly
moving copy of the encoder makes the vectors to compare with (keys), and a queue holds those of the last batches. All
this is used in training only; at test a sentence's vector is the backbone's [CLS].

With one vector to attend to, each softmax of the first pass is 1, so that h is V(V(y)), two linear maps, whatever the
pseudo tokens are: they have no gradient. Only the dropout of the attention depends on their number.

    python ptbert.py MODEL SENTENCES.txt FOLDER

The program is the recipe `ptbert`; where the paper leaves something open, "open" says what was chosen: what its
released code has, which made the paper's numbers. Read simcse.py first.
"""

import copy
import math
import random
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

PSEUDO_TOKENS = 128  # m
QUEUE_SIZE = 256  # M of Eq. 4: the batch's own keys and those of the batches before it
MOMENTUM = 0.885  # lambda of Eq. 5
TEMPERATURE = 0.05  # tau of Eq. 4; this and the next four are SimCSE's, to which the paper refers
BATCH_SIZE = 64
LEARNING_RATE = 3e-5
MAX_LENGTH = 32
MAX_GRADIENT_NORM = 1.0
DROPOUT = 0.1  # of the attention: "the original dropout strategy of BERT"


class PseudoTokenEncoder(nn.Module):
    """A transformer, the pseudo tokens P, BERT's attention with one W_Q, W_K and W_V for both passes, and an MLP."""

    def __init__(self, backbone: PreTrainedModel) -> None:
        super().__init__()
        dim = backbone.config.hidden_size
        self.backbone = backbone
        self.pseudo_tokens = nn.Embedding(PSEUDO_TOKENS, dim)  # P, random at the start: N(0, 1) (open)
        self.query, self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.heads = backbone.config.num_attention_heads
        self.mlp = nn.Linear(dim, dim)  # SimCSE's, used in training only (open)
        nn.init.normal_(self.mlp.weight, std=backbone.config.initializer_range)
        nn.init.zeros_(self.mlp.bias)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        """(n, rows, dim) -> (n, heads, rows, dim of a head)."""
        return x.view(len(x), -1, self.heads, x.shape[-1] // self.heads).transpose(1, 2)

    def attention(self, queries: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """Queries (n, q, dim), states (n, k, dim) -> (n, q, dim), head by head.

        Att(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V  (Eq. 2)
        """
        q, k, v = self.split(self.query(queries)), self.split(self.key(states)), self.split(self.value(states))
        weights = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])).softmax(-1)
        return (F.dropout(weights, DROPOUT, self.training) @ v).transpose(1, 2).reshape(queries.shape)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Token ids and mask (n, length) -> h (n, dim)."""
        y = self.backbone(input_ids=ids, attention_mask=mask).last_hidden_state[:, :1]  # Y: the pooled vector, [CLS]
        p = self.pseudo_tokens.weight.expand(len(y), -1, -1)
        z = self.attention(p, y)  # Z' = Att(P W_Q, Y W_K, Y W_V)  (Eq. 1), m rows for every sentence
        h = self.attention(y, z)[:, 0]  # h = Att(Y W_Q, Z' W_K, Z' W_V)  (Eq. 3)
        return torch.tanh(self.mlp(h))


def contrastive_loss(h: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """h (n, dim), keys (at most M, dim) whose first n belong to h -> the mean over i of Eq. 4.

    l_i = -log( exp(cos(h_i, h_i') / tau) / sum_{j <= M} exp(cos(h_i, h_j') / tau) )
    """
    cosines = F.normalize(h, dim=-1) @ F.normalize(keys, dim=-1).T
    return F.cross_entropy(cosines / TEMPERATURE, torch.arange(len(h)))


@torch.no_grad()
def move(key_encoder: nn.Module, encoder: nn.Module) -> None:
    """theta_k <- lambda theta_k + (1 - lambda) theta_q  (Eq. 5)."""
    for key_weight, weight in zip(key_encoder.parameters(), encoder.parameters(), strict=True):
        key_weight.lerp_(weight, 1 - MOMENTUM)


def train(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentences: list[str], seed: int) -> None:
    """Train the model for one epoch on the sentences, in the order in which they are given."""
    torch.manual_seed(seed)
    encoder = PseudoTokenEncoder(model)
    key_encoder = copy.deepcopy(encoder).requires_grad_(False)  # starts as a copy (open), and has dropout too
    queue = torch.empty(0, model.config.hidden_size)  # empty at the start (open), the newest keys first
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    batches = [sentences[start : start + BATCH_SIZE] for start in range(0, len(sentences), BATCH_SIZE)]
    encoder.train()  # with dropout
    key_encoder.train()
    for step, batch in enumerate(batches):
        inputs = tokenizer(batch, truncation=True, max_length=MAX_LENGTH, padding=True, return_tensors="pt")
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        h = encoder(ids, mask)
        with torch.no_grad():
            keys = key_encoder(ids, mask)  # h': the same sentences, other weights, other dropout masks
        queue = torch.cat([keys, queue])[:QUEUE_SIZE]
        loss = contrastive_loss(h, queue)
        loss.backward()
        nn.utils.clip_grad_norm_(encoder.parameters(), MAX_GRADIENT_NORM)
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * (1 - step / len(batches))  # falls in a line, to 0 after the last step
        optimizer.step()
        optimizer.zero_grad()
        move(key_encoder, encoder)
        if step % 10 == 0:
            print(f"step {step} of {len(batches)}: loss {loss.item():.4f}")
    model.eval()  # a sentence's vector is now its [CLS] state, as in simcse.py


def main(model_name: str, file: str, folder: str) -> None:
    """Read, train, write."""
    tokenizer = AutoTokenizer.from_pretrained(model_name)
    model = AutoModel.from_pretrained(model_name, dtype=torch.float32)  # a folder may hold half precision
    sentences = [line for line in Path(file).read_text(encoding="utf-8").splitlines() if line.strip()]
    random.Random(0).shuffle(sentences)
    train(model, tokenizer, sentences, seed=0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
