"""Ports of the released codes of IS-BERT, InferSent, BERT-flow and PromptBERT's untrained prompts, from reading them.

They share nothing with the project's methods but the weights from which they start. With `released=False` a port leaves
out what the recipe does not follow; docs/fidelity.md names it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from released import HuggingFaceAdamW, linear_rate
from torch import nn

Pairs = tuple[Sequence[str], Sequence[str], Sequence[int]]  # first texts, second texts, numbers of classes
Trained = tuple[list[float], torch.Tensor]  # losses of the steps, and the vectors (n, dim) of texts after them


def isbert_port(
    start: Any, tokenizer: Any, batches: Sequence[Sequence[str]], texts: Sequence[str], *, rate: float, released: bool
) -> Trained:
    """MutualInformationLoss over CNN over mean pooling, trained by the `fit` of IS-BERT's sentence-transformers.

    Rows are padded to one more than the longest, and the states of padding reach the last windows of a sentence. The
    code's loss is lower by the constant 2 log 2.
    """
    bert, convolutions = copy.deepcopy((start.model, start.head.convolutions))
    named = [*bert.named_parameters(), *convolutions.named_parameters()]
    optimizer: Any = HuggingFaceAdamW(named, epsilon=1e-7, correct_bias=False, decay=0.01)
    if not released:
        optimizer = torch.optim.AdamW([p for _, p in named], weight_decay=0.01)

    def embed(some: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        row = tokenizer(list(some), padding=True, truncation=True, max_length=128, return_tensors="pt")
        ids, mask = F.pad(row["input_ids"], (0, 1), value=tokenizer.pad_token_id), F.pad(row["attention_mask"], (0, 1))
        states = bert(input_ids=ids, attention_mask=mask).last_hidden_state
        if not released:
            states = states * mask[..., None]
        tokens = torch.cat([one(states.transpose(1, 2)) for one in convolutions], 1).transpose(1, 2)
        return tokens, (tokens * mask[..., None]).sum(1) / mask.sum(1, keepdim=True), mask

    losses = []
    warmup = math.ceil(sum(map(len, batches)) / len(batches[0]) * 0.1)
    for step, batch in enumerate(batches):
        tokens, sentences, mask = embed(batch)
        membership = F.one_hot(torch.arange(len(mask)).repeat_interleave(mask.sum(1))).float()
        scores = tokens[mask == 1] @ sentences.T
        ours, others = scores * membership, scores * (1 - membership)
        positive = (math.log(2) - F.softplus(-ours)).sum() / len(membership)
        negative = (F.softplus(-others) + others - math.log(2)).sum() / (len(membership) * (len(mask) - 1))
        loss = negative - positive
        losses.append(float(loss.detach()) + 2 * math.log(2))
        loss.backward()
        now = linear_rate(step, rate, warmup, len(batches))
        if released:
            optimizer.step(now)
            continue
        torch.nn.utils.clip_grad_norm_([p for _, p in named], 1.0)
        optimizer.param_groups[0]["lr"] = now
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        return losses, embed(texts)[1]


def infersent_port(
    start: Any,
    words_of: Callable[[str], torch.Tensor],
    epochs: Sequence[Sequence[Pairs]],
    held_out: Pairs,
    texts: Sequence[str],
    *,
    released: bool,
) -> Trained:
    """train_nli.py with its own `InferSent` encoder; `words_of` has the vectors (length, dim) of a text's words.

    The maximum over a batch counts the zeros of padding, as `max_pad` of the first version does. The code's loss is a
    sum, here divided by the size of the batch.
    """
    lstm, classifier = copy.deepcopy((start.encoder.lstm, start.heads[0]))
    lstm.batch_first = False
    assert [type(layer) for layer in classifier] == [nn.Linear] * 3, "no nonlinearity between them"
    weights = [*lstm.parameters(), *classifier.parameters()]

    def embed(some: Sequence[str]) -> torch.Tensor:
        rows = [words_of(text) for text in some]
        lengths = np.array([len(row) for row in rows])
        padded = torch.zeros(int(lengths.max()), len(rows), rows[0].shape[1])
        for i, row in enumerate(rows):
            padded[: len(row), i] = row
        order = np.argsort(-lengths)
        packed = nn.utils.rnn.pack_padded_sequence(padded[:, order], torch.from_numpy(lengths[order]))
        states = nn.utils.rnn.pad_packed_sequence(lstm(packed)[0])[0][:, np.argsort(order)]
        if not released:
            states = states.clone()
            for i, length in enumerate(lengths):
                states[length:, i] = -1e9
        return states.max(0).values

    def logits(first: Sequence[str], second: Sequence[str]) -> torch.Tensor:
        u, v = embed(first), embed(second)
        result: torch.Tensor = classifier(torch.cat([u, v, (u - v).abs(), u * v], 1))
        return result

    losses, rate, best, kept = [], 0.1, -1e10, lstm.state_dict()
    for epoch, batches in enumerate(epochs):
        rate = rate * 0.99 if epoch else rate
        for first, second, labels in batches:
            loss = F.cross_entropy(logits(first, second), torch.tensor(labels), reduction="sum")
            losses.append(float(loss.detach()) / len(labels))
            gradients = [g / len(labels) for g in torch.autograd.grad(loss, weights)]
            norm = math.sqrt(sum(float(g.norm()) ** 2 for g in gradients))
            with torch.no_grad():
                for weight, gradient in zip(weights, gradients, strict=True):
                    weight -= rate * min(1.0, 5.0 / norm) * gradient
        with torch.no_grad():
            right = logits(*held_out[:2]).argmax(1) == torch.tensor(held_out[2])
        accuracy = round(100 * float(right.sum()) / len(right), 2)
        if accuracy > best:
            best, kept = accuracy, copy.deepcopy(lstm.state_dict())
        else:
            rate /= 5
        if rate < 1e-5:
            break
    lstm.load_state_dict(kept)
    with torch.no_grad():
        return losses, embed(texts)


def mean_of_layers(model: Any, tokenizer: Any, texts: Sequence[str]) -> torch.Tensor:
    """`avg-last-2` of BERT-flow's run_siamese.py: the layers -0 and -1 of the list without the embedding layer."""
    row = tokenizer(list(texts), padding="max_length", truncation=True, max_length=64, return_tensors="pt")
    mask = row["attention_mask"][..., None].float()
    with torch.no_grad():
        layers = model(**row, output_hidden_states=True).hidden_states[1:]
    result: torch.Tensor = sum((layers[-i] * mask).sum(1) / mask.sum(1) for i in range(2)) / 2.0
    return result


class FlowPort:
    """config_l3_d3_w32 of glow_1x1.py for vectors: actnorm, a reversal of the channels, an additive coupling.

    The weights that the code draws at random are given: those of the first two layers of each coupling, (in, out).
    `added` is what a channel's deviation is raised by before the start divides by it, 1e-6 in the code.
    """

    def __init__(self, drawn: Sequence[tuple[torch.Tensor, torch.Tensor]], dim: int, added: float) -> None:
        self.dim, self.added, self.weights = dim, added, dict[str, torch.Tensor]()
        for i, (first, second) in enumerate(drawn):
            half = len(first)
            self.weights |= {f"{i}/1_1": first.clone(), f"{i}/1_2": second.clone()}
            self.weights |= {f"{i}/zeros": second.new_zeros(len(second), half)}
            self.weights |= {f"{i}/zeros/b": first.new_zeros(half), f"{i}/zeros/logs": first.new_zeros(half)}

    def actnorm(self, name: str, x: torch.Tensor, init: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the normed x and the logarithm of the determinant; `init` sets centre and scale by this batch."""
        if init:
            self.weights[f"{name}/b"] = -x.mean(0)
        x = x + self.weights[f"{name}/b"]
        if init:
            self.weights[f"{name}/logs"] = torch.log(1.0 / (torch.sqrt((x**2).mean(0)) + self.added)) / 3.0
        logs = self.weights[f"{name}/logs"] * 3.0
        return x * torch.exp(logs), logs.sum()

    def __call__(self, x: torch.Tensor, init: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        """Return z (n, dim) in the code's order, the parts that are final first, and each row's loss (n,)."""
        objective, final = x.new_zeros(len(x)), []
        for i in range(9):
            x, log_det = self.actnorm(f"{i}/actnorm", x, init)
            kept, moved = x.flip(-1).chunk(2, -1)
            hidden = torch.relu(self.actnorm(f"{i}/1_1/actnorm", kept @ self.weights[f"{i}/1_1"], init)[0])
            hidden = torch.relu(self.actnorm(f"{i}/1_2/actnorm", hidden @ self.weights[f"{i}/1_2"], init)[0])
            shift = hidden @ self.weights[f"{i}/zeros"] + self.weights[f"{i}/zeros/b"]
            x = torch.cat([kept, moved + shift * torch.exp(self.weights[f"{i}/zeros/logs"] * 3.0)], -1)
            objective = objective + log_det
            if i in (2, 5):  # the end of a level that is not the last
                x, done = x.chunk(2, -1)
                final.append(done)
        z = torch.cat([*final, x], -1)
        objective = objective + torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(-1)
        return z, -objective / (math.log(2) * self.dim)


def flow_port(
    drawn: Sequence[tuple[torch.Tensor, torch.Tensor]],
    batches: Sequence[torch.Tensor],
    vectors: torch.Tensor,
    *,
    rate: float,
    released: bool,
) -> Trained:
    """The flow's half of optimization_bert_flow.py on batches (n, dim), whose halves are the sides a and b of pairs.

    The data-dependent start sees side a of one batch. The code's loss is the sum of two means, here halved.
    """
    flow = FlowPort(drawn, vectors.shape[1], 1e-6 if released else 0.0)
    half = len(batches[0]) // 2
    with torch.no_grad():
        flow(batches[0][:half] if released else batches[0], init=True)
    weights = [weight.requires_grad_() for weight in flow.weights.values()]
    first, second = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
    losses = []
    optimizer = torch.optim.AdamW(weights, lr=rate, eps=1e-6, weight_decay=0.01)
    for batch in batches:
        loss = flow(batch[:half])[1].mean() + flow(batch[half:])[1].mean()
        losses.append(float(loss.detach()) / 2)
        gradients = torch.autograd.grad(loss if released else loss / 2, weights)
        norm = math.sqrt(sum(float((g**2).sum()) for g in gradients))
        gradients = [g / max(norm, 1.0) for g in gradients]
        if not released:
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.grad = gradient
            optimizer.step()
            continue
        with torch.no_grad():
            for weight, gradient, m, v in zip(weights, gradients, first, second, strict=True):
                m.mul_(0.9).add_(0.1 * gradient)
                v.mul_(0.999).add_(0.001 * gradient**2)
                weight -= rate * (m / (torch.sqrt(v) + 1e-6) + 0.01 * weight)
    with torch.no_grad():
        return losses, flow(vectors)[0]


def prompt_port(model: Any, tokenizer: Any, texts: Sequence[str]) -> torch.Tensor:
    """The batcher of evaluation.py under `bert-prompt` of run.sh: the last layer at [MASK] of the filled template."""
    template = '*cls*_This_sentence_:_"*sent_0*"_means*mask*.*sep+*'
    for part, instead in (("*mask*", tokenizer.mask_token), ("_", " "), ("*sep+*", ""), ("*cls*", "")):
        template = template.replace(part, instead)
    ended = [text + "." if text and text[-1] not in ".?\"'" else text for text in texts]
    rows = tokenizer([template.replace("*sent 0*", text).strip() for text in ended], padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**rows).last_hidden_state
    result: torch.Tensor = states[rows["input_ids"] == tokenizer.mask_token_id]
    return result
