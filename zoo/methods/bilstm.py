"""InferSent's BiLSTM with max pooling over any fixed word vectors, and its training (Conneau et al. 2017)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from typing_extensions import TypeVar

from zoo.encoder import NLI_LABELS, Corpus, DevScore, Encoder, FitReport, Run, Traits
from zoo.engine.batching import host_of
from zoo.engine.narrow import rows_alike
from zoo.engine.tokens import TokenTable
from zoo.methods.base import check_positive
from zoo.training.settings import TrainSettings
from zoo.training.siamese import (
    Concatenation,
    PairObjective,
    accuracy,
    held_out_by_first,
    labelled_task,
    pair_batches,
    train_by_accuracy,
    width_of,
)


@dataclass(frozen=True, kw_only=True)
class BiLSTMRecipe:
    """The BiLSTM and its training; the defaults are the paper's (sections 3.3 and 4)."""

    lstm_dim: int = 2048
    concatenation: Concatenation = "u;v;|u-v|;u*v"
    classifier_dim: int = 512
    # One hidden layer (tanh: open). The code has two without nonlinearity.
    classifier: Literal["mlp", "linear"] = "mlp"
    batch_size: int = 64
    learning_rate: float = 0.1
    # The factor of the rate after each epoch. The paper calls it weight decay; the code has none.
    decay: float = 0.99
    # The rate is divided by it when the accuracy falls; in the code, when it is no new best.
    shrink: float = 5.0
    # When the accuracy falls; the code: when it is no new best.
    shrink_when: Literal["falls", "no gain"] = "falls"
    least_rate: float = 1e-5
    epochs: int = 20
    # From the code; the paper states none.
    max_grad_norm: float = 5.0
    # The share of premises held out for the accuracy, as large as SNLI's dev set in the paper.
    dev_share: float = 0.02
    train_max_length: int = 128

    def check(self) -> None:
        fields = "lstm_dim classifier_dim batch_size learning_rate decay least_rate epochs max_grad_norm"
        check_positive(self, *fields.split(), "train_max_length")
        if self.shrink <= 1 or not 0 < self.dev_share < 1:
            raise ValueError("shrink must be above 1, and dev_share between 0 and 1")

    def rate_after(self, accuracies: Sequence[float]) -> float:
        rate = self.learning_rate
        for epoch, now in enumerate(accuracies):
            earlier = accuracies[:epoch]
            no_gain = epoch > 0 and (now <= max(earlier) if self.shrink_when == "no gain" else now < earlier[-1])
            rate = rate / self.shrink if no_gain else rate
            if rate < self.least_rate:
                return rate
            rate *= self.decay
        return rate


class BiLSTMMax(nn.Module):
    """Ids and mask (n, length) -> maximum over states of both directions (n, 2 * lstm_dim), float32."""

    words: torch.Tensor

    def __init__(self, words: torch.Tensor, lstm_dim: int) -> None:
        super().__init__()
        self.register_buffer("words", words.detach(), persistent=False)
        self.lstm = nn.LSTM(words.shape[1], lstm_dim, batch_first=True, bidirectional=True)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Real tokens only; in the first released code a padding's zero could be the maximum."""
        lengths = attention_mask.sum(1).clamp(min=1)
        with torch.autocast(input_ids.device.type, enabled=False):
            tokens = F.embedding(input_ids, self.words)
            if input_ids.device.type == "cpu" and not torch.is_grad_enabled():
                return _states_alike(self.lstm, tokens, attention_mask.bool()).amax(1)
            packed = pack_padded_sequence(
                tokens, host_of(attention_mask).sum(1).clamp(min=1), batch_first=True, enforce_sorted=False
            )
            states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        real = torch.arange(states.shape[1], device=states.device) < lengths[:, None]
        return states.masked_fill(~real.unsqueeze(-1), float("-inf")).amax(1)


def _states_alike(lstm: nn.LSTM, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """States (n, length, 2 * dim) step by step, -inf at padding: `nn.LSTM`'s last bits depend on the whole batch."""
    weights = dict(lstm.named_parameters())
    states = x.new_full((*x.shape[:2], 2 * lstm.hidden_size), float("-inf"))
    # An empty text has one token, padding.
    real = real.index_fill(1, real.new_zeros(1, dtype=torch.long), True)
    places = range(x.shape[1])
    for number, (way, order) in enumerate((("", places), ("_reverse", reversed(places)))):
        of_input, of_state = weights[f"weight_ih_l0{way}"], weights[f"weight_hh_l0{way}"]
        inputs = rows_alike(x, of_input, weights[f"bias_ih_l0{way}"] + weights[f"bias_hh_l0{way}"])
        h, c = x.new_zeros(2, len(x), lstm.hidden_size)
        for place in order:
            i, f, g, o = (inputs[:, place] + rows_alike(h, of_state, None)).chunk(4, 1)
            now = real[:, place, None]
            c = torch.where(now, f.sigmoid() * c + i.sigmoid() * g.tanh(), c)
            h = torch.where(now, o.sigmoid() * c.tanh(), h)
            states[:, place, number * lstm.hidden_size :][:, : lstm.hidden_size].copy_(
                h.masked_fill(~now, float("-inf"))
            )
    return states


BiLSTMRecipeT = TypeVar("BiLSTMRecipeT", bound=BiLSTMRecipe, default=Any)


class TrainedBiLSTM(Encoder[BiLSTMRecipeT]):
    version = 2
    unstated = ("sources", "parameters")
    head: BiLSTMMax
    pad_id: int

    def new_head(self) -> BiLSTMMax:
        raise TypeError(f"{type(self).__name__} must define its BiLSTM")

    def training_table(self, texts: Sequence[str]) -> TokenTable:
        raise TypeError(f"{type(self).__name__} must define its tokens")

    @classmethod
    def traits(cls, recipe: BiLSTMRecipeT) -> Traits:
        """Held-out pairs, not dev_score, choose the weights."""
        return Traits(needs_pairs=True, stochastic=True, training_passes=1.0 * recipe.epochs)

    def objective(self) -> PairObjective:
        recipe = self.recipe
        width, hidden, classes = width_of(recipe.concatenation) * self.dim, recipe.classifier_dim, len(NLI_LABELS)
        if recipe.classifier == "mlp":
            head = nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, classes))
        else:
            head = nn.Sequential(nn.Linear(width, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, classes))
        return PairObjective(self.head, [head], recipe.concatenation)

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        task = labelled_task("NLI", corpus, NLI_LABELS, "--pairs nli")
        assert corpus is not None
        torch.manual_seed(run.seed)
        recipe, pad_id = self.recipe, self.pad_id
        self.head = self.new_head()
        objective = self.objective().to(self.runtime.device)
        table = self.training_table(corpus.sentences)
        train, held_out = held_out_by_first(task, corpus, recipe.dev_share)
        held_out_batch = pair_batches([held_out], table, pad_id)
        report = train_by_accuracy(
            objective,
            pair_batches([train], table, pad_id),
            len(train),
            TrainSettings(
                batch_size=recipe.batch_size,
                learning_rate=recipe.learning_rate,
                optimizer="sgd",
                epochs=recipe.epochs,
                eval_every=math.ceil(len(train) / recipe.batch_size),
                max_grad_norm=recipe.max_grad_norm,
                units_per_row=2,
            ),
            recipe.rate_after,
            recipe.least_rate,
            lambda: accuracy(objective, held_out_batch, len(held_out), self.runtime.device),
            runtime=self.runtime,
            run=run,
            backbone=self.head,
        )
        sizes = {"NLI": len(train), "held out": len(held_out)}
        return replace(report, facts={"pairs": sizes, "dev_scores": "accuracy on held-out NLI"})
