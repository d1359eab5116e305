"""The masked-language-model objective: dynamic 80/10/10 masking, logits only where something is masked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from zoo.training.loop import Objective
from zoo.training.losses import linear_cross_entropy


def mask_tokens(
    ids: torch.Tensor, rate: float, *, mask_id: int, specials: torch.Tensor, vocabulary: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Choose `rate` of each row's ordinary tokens; return the corrupted ids (n, length), and of the chosen tokens their
    positions (n, k) and true ids (n, k).

    Of the chosen, 80 % become [MASK], 10 % a random token, 10 % stay (BERT, section 3.1). Special tokens are chosen
    only where a row has fewer than k others, and then stay and count as -100 (ignored). k is fixed: shapes never vary.
    """
    k = max(round(rate * (ids.shape[1] - 2)), 1)
    ordinary = ~torch.isin(ids, specials)
    lottery = torch.rand(ids.shape, device=ids.device).masked_fill(~ordinary, -1.0)
    positions = lottery.topk(k, dim=1).indices
    truth = ids.gather(1, positions)
    fate = torch.rand(positions.shape, device=ids.device)
    random_tokens = torch.randint(vocabulary, positions.shape, device=ids.device)
    replacement = torch.where(fate < 0.8, torch.full_like(truth, mask_id), truth)
    replacement = torch.where((fate >= 0.8) & (fate < 0.9), random_tokens, replacement)
    chosen_ordinary = ordinary.gather(1, positions)
    corrupted = ids.scatter(1, positions, torch.where(chosen_ordinary, replacement, truth))
    return corrupted, positions, truth.masked_fill(~chosen_ordinary, -100)


@dataclass(frozen=True)
class HeldOut:
    """What held-out text says: masked-token accuracy and pseudo-perplexity of the masked tokens."""

    accuracy: float
    pseudo_perplexity: float
    tokens: int


class MLMObjective(Objective):
    """Cross-entropy of the masked tokens of packed rows; the head runs on the masked positions only."""

    mean_over_rows = True

    def __init__(self, model: Any, rate: float, *, mask_id: int, special_ids: list[int]) -> None:
        super().__init__()
        self.model = model
        self.rate, self.mask_id = rate, mask_id
        self.register_buffer("specials", torch.tensor(special_ids), persistent=False)

    def masked_states(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids (n, length) -> for the masked tokens what the output layer takes (n * k, width), and their ids."""
        specials: torch.Tensor = self.specials  # type: ignore[assignment]
        corrupted, positions, truth = mask_tokens(
            ids, self.rate, mask_id=self.mask_id, specials=specials, vocabulary=self.model.config.vocab_size
        )
        states = self.model.bert(input_ids=corrupted).last_hidden_state
        masked = states.gather(1, positions.unsqueeze(-1).expand(-1, -1, states.shape[-1])).flatten(0, 1)
        return self.model.cls.predictions.transform(masked), truth.flatten()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Token ids of packed rows (n, length) -> scalar loss."""
        states, truth = self.masked_states(ids)
        head = self.model.cls.predictions
        return linear_cross_entropy(states, head.decoder.weight, head.bias, truth)


@torch.inference_mode()
def held_out_scores(objective: MLMObjective, batches: list[torch.Tensor], seed: int = 0) -> HeldOut:
    """Return masked accuracy and exp(mean loss) over held-out rows, with masks that are the same at every call.

    Run it under `undisturbed`: it seeds the generator.
    """
    torch.manual_seed(seed)
    objective.eval()
    right = total = 0
    loss = 0.0
    for ids in batches:
        states, truth = objective.masked_states(ids)
        logits = objective.model.cls.predictions.decoder(states)
        counted = truth != -100
        right += int((logits.argmax(-1) == truth)[counted].sum())
        total += int(counted.sum())
        loss += float(F.cross_entropy(logits.float(), truth, reduction="sum"))
    mean = loss / max(total, 1)
    return HeldOut(right / max(total, 1), float(torch.exp(torch.tensor(mean))), total)
