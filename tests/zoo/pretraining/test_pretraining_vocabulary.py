"""The sampled softmax: exact where nothing is left out, right on average elsewhere, with the gradient of its value."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from zoo.pretraining.vocabulary import SampledVocabulary

ROWS, WIDTH, VOCABULARY = 12, 6, 40
COUNTS = np.random.default_rng(0).permutation(np.arange(VOCABULARY) ** 2)


def tensors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    states = torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    weight = torch.randn(VOCABULARY, WIDTH, generator=generator, dtype=torch.float64)
    bias = torch.randn(VOCABULARY, generator=generator, dtype=torch.float64)
    truth = torch.randint(VOCABULARY, (ROWS,), generator=generator)
    truth[3] = -100
    return states.requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), truth


def drawn_logits(vocabulary: SampledVocabulary) -> tuple[torch.Tensor, ...]:
    """The loss as one would write it down: the true logit, and those of all other candidates."""
    states, weight, bias, truth = tensors()
    tokens, offset = vocabulary.draw()
    logits = states @ weight[tokens].T + bias[tokens] + offset
    target = truth.clamp(min=0)
    logits = logits.masked_fill(tokens == target[:, None], float("-inf"))
    true = (states * weight[target]).sum(1) + bias[target]
    losses = torch.cat([true[:, None], logits], 1).logsumexp(1) - true
    return losses[truth != -100].mean(), states, weight, bias


def test_with_all_tokens_frequent_it_is_the_cross_entropy() -> None:
    states, weight, bias, truth = tensors()
    vocabulary = SampledVocabulary(COUNTS, VOCABULARY - 1, 1)
    loss = vocabulary.loss(states, weight, bias, truth)
    # One rare token, always drawn, with the weight 1 / (1 draw x share 1).
    assert loss.item() == pytest.approx(F.cross_entropy(states @ weight.T + bias, truth).item(), rel=1e-6)


def test_value_and_gradients_are_those_of_the_formula() -> None:
    vocabulary = SampledVocabulary(COUNTS, 8, 10)
    torch.manual_seed(5)
    expected, *leaves = drawn_logits(vocabulary)
    gradients = torch.autograd.grad(expected * 3, leaves)
    torch.manual_seed(5)
    states, weight, bias, truth = tensors()
    loss = vocabulary.loss(states, weight, bias, truth)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    for found, wanted in zip(torch.autograd.grad(loss * 3, (states, weight, bias)), gradients, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_the_normaliser_is_right_on_average() -> None:
    """Weighted exponentials of a draw sum to those of all tokens: within 3 standard errors of the mean of 4,000."""
    states, weight, bias = (tensor.detach() for tensor in tensors()[:3])
    exact = (states @ weight.T + bias).exp().sum(1)[0].item()
    vocabulary = SampledVocabulary(COUNTS, 8, 10)
    torch.manual_seed(0)
    sums = []
    for _ in range(4000):
        tokens, offset = vocabulary.draw()
        sums.append(float((states[0] @ weight[tokens].T + bias[tokens] + offset).exp().sum()))
    assert abs(np.mean(sums) - exact) < 3 * np.std(sums) / len(sums) ** 0.5
    assert np.std(sums) > 0


def test_frequent_tokens_and_draws_follow_the_counts() -> None:
    vocabulary = SampledVocabulary(COUNTS, 8, 20_000)
    torch.manual_seed(0)
    tokens, _ = vocabulary.draw()
    assert set(tokens[:8].tolist()) == set(np.argsort(COUNTS)[-8:].tolist())
    rare = np.argsort(COUNTS)[:-8]
    shares = (COUNTS[rare] + 1.0) ** 0.75
    found = np.bincount(tokens[8:].numpy(), minlength=VOCABULARY)[rare] / 20_000
    np.testing.assert_allclose(found, shares / shares.sum(), atol=0.015)


def test_rows_without_a_target_count_for_nothing() -> None:
    states, weight, bias, truth = tensors()
    loss = SampledVocabulary(COUNTS, 8, 10).loss(states, weight, bias, torch.full_like(truth, -100))
    (gradient,) = torch.autograd.grad(loss, states)
    assert loss.item() == 0 and not gradient.any()
