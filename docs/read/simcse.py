"""Unsupervised SimCSE from top to bottom, with nothing but PyTorch and Transformers.

Tianyu Gao, Xingcheng Yao and Danqi Chen: SimCSE: Simple Contrastive Learning of Sentence Embeddings (EMNLP 2021).

A transformer turns a sentence into a vector. SimCSE trains it so that two vectors of the same sentence are near each
other and vectors of different sentences are far apart. The two vectors of a sentence differ because dropout sets other
states to zero in each pass; nothing else is changed, and no labels are needed.

    python simcse.py MODEL SENTENCES.txt FOLDER

MODEL is a folder or a hub id of a BERT-like model (google-bert/bert-base-uncased in the paper), SENTENCES.txt has one
sentence a line (a million of Wikipedia in the paper), and the trained model is written to FOLDER.
"""

import random
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

TEMPERATURE = 0.05  # tau of Eq. 1
BATCH_SIZE = 64  # this and the learning rate: the paper's table A.1, unsupervised BERT-base
LEARNING_RATE = 3e-5
MAX_LENGTH = 32  # tokens of a sentence in training; the rest is cut off
MAX_GRADIENT_NORM = 1.0


class Projection(nn.Module):
    """The layer between [CLS] and the loss, which unsupervised SimCSE drops after training (table 6)."""

    def __init__(self, dim: int, initializer_range: float) -> None:
        super().__init__()
        self.dense = nn.Linear(dim, dim)
        nn.init.normal_(self.dense.weight, std=initializer_range)
        nn.init.zeros_(self.dense.bias)

    def forward(self, cls: torch.Tensor) -> torch.Tensor:
        """(n, dim) -> (n, dim)."""
        return torch.tanh(self.dense(cls))


def tokens(tokenizer: PreTrainedTokenizerBase, sentences: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids and mask (n, longest); the mask is 1 for tokens and 0 for padding."""
    batch = tokenizer(sentences, truncation=True, max_length=MAX_LENGTH, padding=True, return_tensors="pt")
    return batch["input_ids"], batch["attention_mask"]


def cls_vectors(model: PreTrainedModel, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Token ids and mask (n, length) -> the last layer's states of the first token, [CLS] (n, dim)."""
    return model(input_ids=ids, attention_mask=mask).last_hidden_state[:, 0]


def contrastive_loss(h: torch.Tensor, h_plus: torch.Tensor) -> torch.Tensor:
    """h, h+ (n, dim), two vectors of each sentence -> the mean over i of Eq. 1 (with dropout masks, Eq. 4).

    l_i = -log( exp(cos(h_i, h_i+) / tau) / sum_j exp(cos(h_i, h_j+) / tau) )

    This is the cross-entropy of a classifier that must say which of the n vectors h+ belongs to h_i: number i.
    """
    cosines = F.normalize(h, dim=-1) @ F.normalize(h_plus, dim=-1).T
    return F.cross_entropy(cosines / TEMPERATURE, torch.arange(len(h)))


def train(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentences: list[str], seed: int) -> None:
    """Train the model for one epoch on the sentences, in the order in which they are given."""
    torch.manual_seed(seed)
    projection = Projection(model.config.hidden_size, model.config.initializer_range)
    weights = [*model.parameters(), *projection.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=LEARNING_RATE, weight_decay=0.0)
    batches = [sentences[start : start + BATCH_SIZE] for start in range(0, len(sentences), BATCH_SIZE)]
    model.train()  # with dropout
    for step, batch in enumerate(batches):
        ids, mask = tokens(tokenizer, batch)
        # Each sentence stands twice in the batch, one copy after the other; each row has dropout masks z of its own.
        twice = ids.repeat_interleave(2, dim=0), mask.repeat_interleave(2, dim=0)
        vectors = projection(cls_vectors(model, *twice))
        h, h_plus = vectors[0::2], vectors[1::2]  # f(x_i, z_i) and f(x_i, z_i') of section 3
        loss = contrastive_loss(h, h_plus)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, MAX_GRADIENT_NORM)
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * (1 - step / len(batches))  # falls in a line, to 0 after the last step
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            print(f"step {step} of {len(batches)}: loss {loss.item():.4f}")
    model.eval()  # without dropout; the projection is not used again


@torch.no_grad()
def cosine(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, first: str, second: str) -> float:
    """Return the cosine of the [CLS] vectors of two sentences: how alike the model finds them, up to 1."""
    a, b = F.normalize(cls_vectors(model, *tokens(tokenizer, [first, second])), dim=-1)
    return float(a @ b)


def main(model_name: str, file: str, folder: str) -> None:
    """Read, train, write; show two pairs of sentences before and after."""
    tokenizer = AutoTokenizer.from_pretrained(model_name)
    model = AutoModel.from_pretrained(model_name, dtype=torch.float32).eval()  # a folder may hold half precision
    sentences = [line for line in Path(file).read_text(encoding="utf-8").splitlines() if line.strip()]
    random.Random(0).shuffle(sentences)
    pairs = [("A dog runs on the beach.", f"A {animal} by the sea.") for animal in ("puppy is playing", "bank closed")]
    before = [cosine(model, tokenizer, *pair) for pair in pairs]
    train(model, tokenizer, sentences, seed=0)
    for pair, value in zip(pairs, before, strict=True):
        print(f"cosine {value:.3f} before, {cosine(model, tokenizer, *pair):.3f} after: {' / '.join(pair)}")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
