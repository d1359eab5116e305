"""Prompts without training: Eq. 2, Eq. 3 in numpy, denoising by hand, and the contract for every recipe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

from zoo.encoder import Runtime
from zoo.errors import UsageError
from zoo.methods.prompt import Prompt

GOLDEN = {"prompt": {"version": 2, "values": [-1.0, 0.7542, 0.3469, 0.0585, 0.7129, -0.3126, -0.3522, 1.0]}}

TEXT = "a small dog"
ROW = [101, 2023, 6251, 1024, 1000, 1037, 2235, 3899, 1000, 2965, 103, 1012, 102]
ALONE = [*ROW[:5], *ROW[8:]]
POSITIONS = [0, 1, 2, 3, 4, 8, 9, 10, 11, 12]  # three tokens of sentence after the fifth
TEXTS = [TEXT, "The market fell on Monday.", "rain", "Two women are talking while a third one reads.", ""]


def by_hand(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The [MASK] states of the row and of the template alone."""
    model = AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        h = model(torch.tensor([ROW])).last_hidden_state[0, 10]
        bias = model(torch.tensor([ALONE]), position_ids=torch.tensor([POSITIONS])).last_hidden_state[0, 7]
    return h.numpy(), bias.numpy()


def test_the_vector_is_the_mask_state(tiny_bert: Path) -> None:
    h, bias = by_hand(tiny_bert)
    vectors = Prompt(Prompt.Recipe(backbone=str(tiny_bert)), Runtime()).encode(TEXTS)
    np.testing.assert_allclose(vectors[0], h, atol=1e-5)
    denoised = Prompt(Prompt.Recipe(backbone=str(tiny_bert), denoise=True), Runtime()).encode(TEXTS)
    np.testing.assert_allclose(denoised[0], h - bias, atol=1e-5)
    assert np.abs(bias).max() > 1e-2


@pytest.mark.parametrize("denoise", [False, True])
def test_eq_3_equals_numpy(tiny_mlm: Path, denoise: bool) -> None:
    h, bias = by_hand(tiny_mlm)
    if denoise:
        h = h - bias
    model = AutoModelForMaskedLM.from_pretrained(tiny_mlm).eval()
    with torch.inference_mode():
        logits = model.cls(torch.from_numpy(h)[None]).numpy()[0].astype(np.float64)
    words = model.get_input_embeddings().weight.detach().numpy().astype(np.float64)
    probabilities = np.exp(logits) / np.exp(logits).sum()
    top = np.argsort(-probabilities)[:7]
    wanted = sum(words[v] * probabilities[v] for v in top) / sum(probabilities[v] for v in top)
    encoder = Prompt(Prompt.Recipe(backbone=str(tiny_mlm), top_k=7, denoise=denoise), Runtime())
    np.testing.assert_allclose(encoder.encode(TEXTS)[0], wanted, atol=1e-6)
    assert np.linalg.norm(wanted) > 1e-3


@pytest.mark.slow
def test_the_codes_roberta_positions_are_two_early_berts_right(tiny_bert: Path, tiny_roberta: Path) -> None:
    def vectors(folder: Path, from_zero: bool) -> np.ndarray:
        recipe = Prompt.Recipe(backbone=str(folder), denoise=True, denoise_from_zero=from_zero)
        return Prompt(recipe, Runtime()).encode(TEXTS)

    np.testing.assert_array_equal(vectors(tiny_bert, False), vectors(tiny_bert, True))
    model, tokenizer = AutoModel.from_pretrained(tiny_roberta).eval(), AutoTokenizer.from_pretrained(tiny_roberta)
    before, after = 'This sentence : "', '" means <mask> .'
    sentence, head = (len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in (TEXT, before))
    row = tokenizer(before + TEXT + after, return_tensors="pt")["input_ids"]
    alone = tokenizer(before + after, return_tensors="pt")["input_ids"]
    # The pieces must not grow together over the gap, or there is nothing to compare.
    assert row.shape[1] == alone.shape[1] + sentence
    mask_id = tokenizer.mask_token_id
    for first, from_zero in ((2, False), (0, True)):
        positions = torch.arange(alone.shape[1]) + first
        positions[1 + head :] += sentence
        with torch.inference_mode():
            h = model(row).last_hidden_state[row == mask_id]
            bias = model(alone, position_ids=positions[None]).last_hidden_state[alone == mask_id]
        np.testing.assert_allclose(vectors(tiny_roberta, from_zero)[0], (h - bias)[0].numpy(), atol=1e-5)


def test_wrong_recipes_are_told(tiny_bert: Path, tiny_mlm: Path) -> None:
    with pytest.raises(UsageError, match="no MLM head"):
        Prompt(Prompt.Recipe(backbone=str(tiny_bert), top_k=5), Runtime())
    with pytest.raises(UsageError, match="top_k 40000"):
        Prompt(Prompt.Recipe(backbone=str(tiny_mlm), top_k=40_000), Runtime())
    with pytest.raises(UsageError, match="no room for a sentence"):
        Prompt(Prompt.Recipe(backbone=str(tiny_bert), max_length=10), Runtime())
