"""The objectives: masked tokens (dynamic 80/10/10 masking, logits only at masked positions), or the next token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from zoo.engine.states import token_states
from zoo.pretraining.parts import encoder_of, head_parts
from zoo.pretraining.recipe import PretrainRecipe
from zoo.pretraining.vocabulary import SampledVocabulary
from zoo.training.loop import Objective
from zoo.training.losses import linear_cross_entropy

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def mask_tokens(
    ids: torch.Tensor, rate: float, *, mask_id: int, specials: torch.Tensor, vocabulary: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Choose k tokens per row; return corrupted ids (n, length), and the tokens' positions and true ids (n, k).

    Of the chosen, 80 % become [MASK], 10 % a random token, and 10 % do not change (BERT, section 3.1). k is `rate` of
    the row length, so that shapes are fixed. If a row has fewer than k non-special tokens, special ones are chosen too;
    they do not change and have the true id -100 (ignored).
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
    """Scores on held-out text: accuracy (0 to 1) and pseudo-perplexity of the masked tokens."""

    accuracy: float
    pseudo_perplexity: float
    tokens: int


@dataclass(frozen=True)
class Masking:
    """The ids that masking needs."""

    mask_id: int
    special_ids: tuple[int, ...]
    vocabulary: int

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, rows: int) -> Masking:
        """Return the masking of a tokenizer, for a model with `rows` token vectors."""
        return cls(tokenizer.mask_token_id, tuple(sorted(set(tokenizer.all_special_ids))), min(rows, len(tokenizer)))


class MLMObjective(Objective):
    """Cross-entropy of the masked tokens of packed rows; the head runs on the masked positions only.

    With `sampled` the softmax is over a part of the vocabulary; with a `teacher`, its probabilities are additional
    targets.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        recipe: PretrainRecipe,
        masking: Masking,
        *,
        sampled: SampledVocabulary | None = None,
        teacher: PreTrainedModel | None = None,
    ) -> None:
        super().__init__()
        self.model, self.recipe, self.masking = model, recipe, masking
        self.mask_rate = recipe.mask_rate  # the training sets it at each step
        self.sampled = sampled
        self._teacher = (
            [] if teacher is None else [teacher.eval().requires_grad_(False)]
        )  # a list: not trained, not saved
        self.register_buffer("specials", torch.tensor(masking.special_ids), persistent=False)

    def corrupted(self, ids: torch.Tensor, rate: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Token ids (n, length) -> corrupted ids (n, length), masked positions (n, k) and their true ids (n, k)."""
        specials: torch.Tensor = self.specials  # type: ignore[assignment]
        masking = self.masking
        return mask_tokens(ids, rate, mask_id=masking.mask_id, specials=specials, vocabulary=masking.vocabulary)

    def output_states(self, model: PreTrainedModel, corrupted: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return a model's inputs (n * k, width) of the output layer at masked positions (n, k) of corrupted ids."""
        if self.recipe.last_layer == "masked":
            (masked,) = token_states(encoder_of(model), corrupted, torch.ones_like(corrupted), at=positions)
        else:
            states = encoder_of(model)(input_ids=corrupted).last_hidden_state
            masked = states.gather(1, positions.unsqueeze(-1).expand(-1, -1, states.shape[-1]))
        transform, _ = head_parts(model)
        return transform(masked.flatten(0, 1))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Token ids of packed rows (n, length) -> scalar loss."""
        corrupted, positions, truth = self.corrupted(ids, self.mask_rate)
        states = self.output_states(self.model, corrupted, positions)
        _, decoder = head_parts(self.model)
        if self._teacher:
            return self._taught(states, corrupted, positions, truth.flatten())
        weight = decoder.weight
        own: torch.Tensor | None = decoder.bias
        bias = weight.new_zeros(len(weight)) if own is None else own  # GPT-2's output layer has none
        loss = linear_cross_entropy if self.sampled is None else self.sampled.loss
        return loss(states, weight, bias, truth.flatten())

    def _taught(
        self, states: torch.Tensor, corrupted: torch.Tensor, positions: torch.Tensor, truth: torch.Tensor
    ) -> torch.Tensor:
        """Cross-entropy against the true tokens and the teacher's probabilities (Hinton et al. 2015), temperature 1."""
        (teacher,) = self._teacher
        with torch.no_grad():
            soft = head_parts(teacher)[1](self.output_states(teacher, corrupted, positions)).float().softmax(-1)
        logs = head_parts(self.model)[1](states).float().log_softmax(-1)
        counted = truth != -100
        hard = F.nll_loss(logs, truth, ignore_index=-100, reduction="none")
        taught = -(soft * logs).sum(-1)
        weight = self.recipe.teacher_weight
        losses = ((1 - weight) * hard + weight * taught).masked_fill(~counted, 0.0)
        mean: torch.Tensor = losses.sum() / counted.sum().clamp(min=1)
        return mean


class CausalObjective(MLMObjective):
    """Cross-entropy of the next token at every position of packed rows, but for the row's last, which ends no sentence.

    The corruption is none, and the "masked" positions are those that have a next token.
    """

    def corrupted(self, ids: torch.Tensor, rate: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Token ids (n, length) -> the same ids, their first length - 2 positions, and the ids that follow those."""
        positions = torch.arange(ids.shape[1] - 2, device=ids.device)
        return ids, positions.expand(len(ids), -1), ids[:, 1:-1]


@torch.inference_mode()
def held_out_scores(objective: MLMObjective, batches: list[torch.Tensor], seed: int = 0) -> HeldOut:
    """Return masked accuracy and exp(mean loss) over held-out rows, with the same masks in every call.

    The softmax is over the whole vocabulary, also if the training's is sampled. It seeds torch's generator, so call it
    under `undisturbed`.
    """
    torch.manual_seed(seed)
    objective.eval()
    right = total = 0
    loss = 0.0
    for ids in batches:
        corrupted, positions, truth = objective.corrupted(ids, objective.recipe.held_out_mask_rate)
        truth = truth.flatten()
        logits = head_parts(objective.model)[1](objective.output_states(objective.model, corrupted, positions))
        counted = truth != -100
        right += int((logits.argmax(-1) == truth)[counted].sum())
        total += int(counted.sum())
        loss += float(F.cross_entropy(logits.float(), truth, reduction="sum"))
    mean = loss / max(total, 1)
    return HeldOut(right / max(total, 1), float(torch.exp(torch.tensor(mean))), total)
