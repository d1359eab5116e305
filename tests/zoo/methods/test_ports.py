"""The untrained prompt beside a port of its released code, from reading it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from ten_steps import stated
from transformers import AutoModel, AutoTokenizer

from zoo.encoder import Encoder, Runtime
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

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
