"""Losses of the releases, ported line by line, and ours on the same vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from ten_steps import cls_vectors, losses_beside, stated
from transformers import AutoModel, AutoTokenizer

from zoo.encoder import Corpus, Encoder, Runtime
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

# Ten steps beside ports of losses: of released codes, of the library and of formulas, of methods without a kept run.

Port = Callable[..., torch.Tensor]
WORDS = "cat dog tree house river stone cloud bird".split()
SENTENCES = [f"the {a} sees a {b} near the old {a}" + " again" * (i % 3) for i, a in enumerate(WORDS) for b in WORDS]
TOY = Corpus("toy", SENTENCES)
SCORED = Corpus("scored", SENTENCES, scores=[i % 5 + 0.2 * (i % 3) for i in range(32)])
NLI = Corpus("nli", SENTENCES, ["entailment", "neutral", "contradiction", "entailment"] * 8)


def masked_means(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    states, seen = model(input_ids=ids, attention_mask=mask).last_hidden_state, mask.unsqueeze(-1).float()
    means: torch.Tensor = (states * seen).sum(1) / seen.sum(1)
    return means


def consert_joint_port(
    objective: Any,
    first: torch.Tensor,
    seen_first: torch.Tensor,
    second: torch.Tensor,
    seen_second: torch.Tensor,
    classes: torch.Tensor,
) -> torch.Tensor:
    """AdvCLSoftmaxLoss of sup-consert-joint-base without a cutoff, which would be drawn: both views are equal."""
    u, v = (
        masked_means(objective.pooler.model, ids, seen) for ids, seen in ((first, seen_first), (second, seen_second))
    )
    features = torch.cat([u, v, torch.abs(u - v), torch.max(u, v).pow(2)], 1)
    loss = F.cross_entropy(objective.classifier(features), classes)
    for side in (u, v):
        unit = F.normalize(side, dim=-1)
        logits = torch.cat([unit @ unit.T, unit @ unit.T - torch.eye(len(unit)) * 1e9], 1) / 0.1
        loss = loss + 0.15 * 2 * F.cross_entropy(logits, torch.arange(len(unit)))
    return loss


def cosines_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cosine_similarity(x.unsqueeze(1), y.unsqueeze(0), dim=-1)


def vectors_after_mlp(objective: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """[CLS] after the MLP; without dropout both views are this."""
    out: torch.Tensor = torch.tanh(objective.pooler.mlp.dense(cls_vectors(objective.pooler.model, ids, mask)))
    return out


def plus_plus(objective: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Off-dropout negatives: a diagonal of log(1e-45) instead of leaving it out; the covariance over n and 5."""
    recipe, z = objective.recipe, vectors_after_mlp(objective, ids, mask)
    positives = recipe.positive_weight * F.cosine_similarity(z, z) / 0.05
    others = cosines_of(z, z) / 0.05 + torch.eye(len(z)) * float(np.log(1e-45))
    loss = (torch.logsumexp(torch.cat([others, positives.unsqueeze(-1)], -1), -1) - positives).mean()
    if recipe.dimension_weight:
        unit = (z - z.mean(0)) / torch.sqrt(z.var(0, unbiased=False) + 1e-5)
        covariance = unit.T @ unit / len(z) / recipe.dimension_temperature
        loss = loss + 0.1 * (torch.logsumexp(covariance, -1) - torch.diagonal(covariance)).mean()
    return loss


def sncse_port(objective: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """cl_forward of SNCSE's models: the state at [MASK] of three rows a sentence, and the two-sided margin."""
    flat, seen = ids.flatten(0, 1), mask.flatten(0, 1)
    states = objective.pooler.model(input_ids=flat, attention_mask=seen).last_hidden_state[flat == 103]
    z = torch.tanh(objective.pooler.mlp.dense(states)).view(len(ids), 3, -1)
    loss = F.cross_entropy(cosines_of(z[:, 0], z[:, 1]) / 0.05, torch.arange(len(ids)))
    delta = F.cosine_similarity(z[:, 0], z[:, 2]) - F.cosine_similarity(z[:, 0], z[:, 1])
    return loss + objective.recipe.margin_weight * (torch.relu(delta + 0.1) + torch.relu(-delta - 0.3)).mean()


def sides_of(objective: Any, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    model = objective.pooler.model
    return cls_vectors(model, ids[:, 0], mask[:, 0]), cls_vectors(model, ids[:, 1], mask[:, 1])


def library_cosent(objective: Any, ids: torch.Tensor, mask: torch.Tensor, grades: torch.Tensor) -> torch.Tensor:
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    return losses.CoSENTLoss(None).compute_loss_from_embeddings([*sides_of(objective, ids, mask)], grades)


def library_matryoshka(objective: Any, ids: torch.Tensor, mask: torch.Tensor, grades: torch.Tensor) -> torch.Tensor:
    """MatryoshkaLoss around CoSENTLoss: vectors are cut and normalised, weights are 1."""
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    u, v = sides_of(objective, ids, mask)
    cut = [[F.normalize(side[:, :m]) for side in (u, v)] for m in (32, 16, 8, 4, 2)]
    return sum(losses.CoSENTLoss(None).compute_loss_from_embeddings(pair, grades) for pair in cut)


def angle_in_batch(rows: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """in_batch_negative_loss on u_1, v_1, ...: texts of one product of place and truncated score are positives."""
    score, n = scores.repeat_interleave(2)[:, None].int(), torch.arange(len(rows)).int()
    gaps = n[None, :] * score.T + (score.T == 0).int() * -2
    other = (n + 1 - n % 2 * 2)[:, None] * score + (score == 0).int() * -1
    unit = F.normalize(rows, dim=1)
    logits = 20 * (unit @ unit.T - torch.eye(len(rows)) * 1e12)
    return -(F.log_softmax(logits, 1) * (gaps == other).float()).sum(1).mean()


def angle_port(objective: Any, ids: torch.Tensor, mask: torch.Tensor, grades: torch.Tensor) -> torch.Tensor:
    """AngleLoss of SeanLee97/AnglE on rows u_1, v_1, u_2, v_2 ..., labels 0 and 1, or scores with the STS-B weights."""
    recipe = objective.recipe
    u, v = sides_of(objective, ids, mask)
    rows = torch.stack([u, v], 1).flatten(0, 1)

    def ranked(similarity: torch.Tensor) -> torch.Tensor:
        lower = (grades[:, None] < grades[None, :]).float()
        wrong = similarity[:, None] - similarity[None, :] - (1 - lower) * 1e12
        return torch.logsumexp(torch.cat([torch.zeros(1), wrong.view(-1)]), 0)

    (a, b), (c, d) = torch.chunk(u, 2, 1), torch.chunk(v, 2, 1)
    size = (c**2 + d**2).sum(1, keepdim=True)
    ratio = (a**2 + b**2).sum(1, keepdim=True) ** 0.5 / size**0.5
    parts = torch.cat([(a * c + b * d) / size / ratio, (b * c - a * d) / size / ratio], 1)
    unit = F.normalize(rows, dim=1)
    contrast = angle_in_batch(rows, grades)
    cosines = (unit[::2] * unit[1::2]).sum(1)
    angles = parts.sum(1).abs()
    weights = recipe.cosine_weight, recipe.in_batch_weight, recipe.angle_weight
    return weights[0] * ranked(20 * cosines) + weights[1] * contrast + weights[2] * ranked(20 * angles)


def library_tsdae(objective: Any, noisy: torch.Tensor, noisy_mask: torch.Tensor, ids: torch.Tensor, _: Any) -> Any:
    """DenoisingAutoEncoderLoss.forward, with the modules of the objective in the place of its own."""
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    loss = losses.DenoisingAutoEncoderLoss.__new__(losses.DenoisingAutoEncoderLoss)
    torch.nn.Module.__init__(loss)
    loss.need_retokenization, loss.decoder = False, objective.decoder
    loss.tokenizer_decoder = type("Tokenizer", (), {"pad_token_id": objective.pad_id})()
    vectors = cls_vectors(objective.pooler.model, noisy, noisy_mask)
    loss.encoder = lambda _: {"sentence_embedding": vectors}
    return loss([{"input_ids": noisy, "attention_mask": noisy_mask}, {"input_ids": ids}], None)


# Its own optimiser corrects no bias and decays weights; the port's does not. Its cutoff would be drawn.
PLAIN = "token_cutoff=[0.0,0.0]:optimizer=adamw:bias_correction=true:weight_decay=0.0"
LOSSES: dict[str, tuple[Corpus, Port]] = {
    "simcse-plus-plus": (TOY, plus_plus),
    "simcse-off-dropout": (TOY, plus_plus),
    "simcse-dcl": (TOY, plus_plus),
    # A margin's weight of 1, so that it counts.
    "sncse:negation=not:margin_weight=1.0": (TOY, sncse_port),
    "tsdae": (TOY, library_tsdae),
    f"consert-joint:{PLAIN}": (NLI, consert_joint_port),
    "cosent": (SCORED, library_cosent),
    "cosent:neutral=0.5": (NLI, library_cosent),
    "matryoshka": (SCORED, library_matryoshka),
    "angle": (SCORED, angle_port),
    # A tenth of the script's weights, 30 and 1: near 60, float32 rounds by 4e-6 itself.
    "angle-nli:in_batch_weight=3.0:angle_weight=0.1": (NLI, angle_port),
}


@pytest.mark.parametrize("name", LOSSES)
def test_ten_steps_lose_as_the_port(name: str, vivid_bert: Path) -> None:
    corpus, port = LOSSES[name]
    settings = f"{name}:batch_size=8:learning_rate=1e-3:dropout=0.0:backbone={vivid_bert}"
    cls, recipe = parse_methods(settings, all_recipes())[0].resolve()
    ours, theirs = losses_beside(cls(recipe, Runtime()), corpus, port)
    assert max(theirs) - min(theirs) > 0.01
    # Each of ten steps rounds a few times.
    np.testing.assert_allclose(ours, theirs, rtol=80 * torch.finfo(torch.float32).eps, atol=1e-5)


# The untrained prompt beside a port of its released code, from reading it.

TEXTS = ["the old lamp", "a river near the tree , again", "no", "Birds see the cloud!", "Is it a stone?", "the 'cat'"]


def encoder_of(text: str) -> Encoder:
    cls, recipe = parse_methods(text, all_recipes())[0].resolve()
    return cls(recipe, Runtime())


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


def test_prompt_vectors_are_those_of_the_released_code(vivid_bert: Path) -> None:
    encoder = encoder_of(f"prompt-repo:backbone={vivid_bert}")
    theirs = prompt_port(AutoModel.from_pretrained(vivid_bert), AutoTokenizer.from_pretrained(vivid_bert), TEXTS)
    assert stated()["prompt-repo"][0] == "1e-5"
    torch.testing.assert_close(torch.from_numpy(encoder.encode(TEXTS)), theirs, atol=1e-5, rtol=0)
