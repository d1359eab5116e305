"""Decoder-only encoders: rows and vectors of a causal model of two layers, against its own forward on one text."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from zoo.encoder import Runtime
from zoo.errors import UsageError
from zoo.methods.causal import Causal
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

GOLDEN = {"causal": {"version": 2, "values": [-0.7016, 0.1246, -0.6379, 1.0, 0.9272, -0.2798, 0.2664, 1.0]}}
TEXTS = ["the cat sees a dog", "a bird", "the river is near the old town and the tree"]


def encoder_of(name: str, folder: Path, **fields: Any) -> Causal:
    cls, recipe = parse_methods(name, all_recipes())[0].resolve({"backbone": str(folder)})
    assert cls is Causal
    return Causal(dataclasses.replace(recipe, **fields), Runtime())


def states_of(encoder: Causal, ids: list[int]) -> np.ndarray:
    with torch.no_grad():
        return encoder.backbone.model(input_ids=torch.tensor([ids])).last_hidden_state[0].numpy()


def test_prompteol_is_the_state_of_the_last_token(tiny_causal: Path) -> None:
    encoder = encoder_of("prompteol", tiny_causal)
    tokenizer = encoder.backbone.tokenizer
    for text, vector in zip(TEXTS, encoder.encode(TEXTS), strict=True):
        ids = tokenizer(f'This sentence : "{text}" means in one word:"')["input_ids"][:-1]  # without the end token
        assert encoder.token_table([text]).row(0).tolist() == ids
        np.testing.assert_allclose(vector, states_of(encoder, ids)[-1], atol=1e-5)


def test_the_released_code_ends_a_sentence_in_a_period(tiny_causal: Path) -> None:
    """The strings of evaluation.py under the template of run_icl.sh for OPT-125M, with blanks for underscores."""
    encoder = encoder_of("prompteol-repo", tiny_causal)
    shown = (
        'This_sentence_:_"A_man_is_smoking."_means_in_one_word:"Smoking".This_sentence_:_"*sent_0*"_means_in_one_word:"'
    )
    template = shown.replace("_", " ").replace("*sent 0*", "{}")
    texts = {
        "the cat sees a dog": "the cat sees a dog.",
        "a bird .": "a bird .",
        "is the river near ?": "is the river near .",
        'the "old" town': "the 'old' town.",
        'a "bird"': "a 'bird'",
    }
    for (text, wanted), vector in zip(texts.items(), encoder.encode(list(texts)), strict=True):
        ids = encoder.backbone.tokenizer(template.format(wanted))["input_ids"][:-1]
        assert encoder.token_table([text]).row(0).tolist() == ids, text
        np.testing.assert_allclose(vector, states_of(encoder, ids)[-1], atol=1e-5)


def test_an_echo_is_the_mean_over_the_second_copy(tiny_causal: Path) -> None:
    encoder = encoder_of("echo", tiny_causal)
    tokenizer = encoder.backbone.tokenizer
    for text, vector in zip(TEXTS, encoder.encode(TEXTS), strict=True):
        ids = tokenizer(f"Rewrite the sentence: {text}, rewritten sentence: {text}")["input_ids"][:-1]
        assert encoder.token_table([text]).row(0).tolist() == ids
        size = len(tokenizer(f" {text}", add_special_tokens=False)["input_ids"])
        np.testing.assert_allclose(vector, states_of(encoder, ids)[-size:].mean(0), atol=1e-5)


def test_only_an_echo_s_first_state_knows_the_end(tiny_causal: Path) -> None:
    """The state of the sentence's first word: in one copy it cannot tell what follows, in the second copy it can."""
    for name, differs in (("causal-mean", False), ("echo", True)):
        encoder = encoder_of(name, tiny_causal)
        first = []
        for text in ("the cat sleeps", "the cat runs"):
            row = encoder.token_table([text]).row(0).tolist()
            size = (len(row) - encoder.fixed) // (len(encoder.parts_of_row) - 1)
            first.append(states_of(encoder, row)[len(row) - size])
        assert (not np.allclose(*first, atol=1e-5)) is differs


def test_a_bidirectional_backbone_is_refused(tiny_bert: Path, tiny_roberta: Path) -> None:
    for name, folder in (("prompteol", tiny_bert), ("echo", tiny_roberta), ("causal-mean", tiny_bert)):
        pattern = f"needs a decoder-only backbone, but in '{folder.name}' .* `zoo-bench pretrain tiny-causal"
        with pytest.raises(UsageError, match=pattern):
            encoder_of(name, folder)


def test_a_long_text_is_cut_and_the_template_is_not(tiny_causal: Path) -> None:
    long = "the cat sees a dog " * 200
    for name in ("prompteol", "echo"):
        encoder = encoder_of(name, tiny_causal)
        table = encoder.token_table([long, ""])
        assert encoder.fixed < len(table.row(0)) <= 512 and len(table.row(1)) >= encoder.fixed
        assert np.isfinite(encoder.encode([long, ""])).all() and table.truncated == 1
    with pytest.raises(UsageError, match="no room for a sentence"):
        encoder_of("prompteol", tiny_causal, max_length=8)
    with pytest.raises(ValueError, match="once or twice"):
        Causal.Recipe(template="no place")


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "gpt2", "gpt_neo"])
def test_a_bidirectional_mask_lets_each_state_see_the_sentence(kind: str, tiny_causal: Path, tmp_path: Path) -> None:
    """Padded or alone, also after saving; where the library has no such mask (GPT Neo), it is refused."""
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 1000}
    inner = {"gpt2": {}, "gpt_neo": {"attention_types": [[["global"], 2]]}}.get(kind, {"intermediate_size": 48})
    heads = {"num_key_value_heads": 1} if kind in ("mistral", "qwen2") else {}
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **shape, **inner, **heads, initializer_range=0.3)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_causal).save_pretrained(tmp_path)
    if kind == "gpt_neo":
        with pytest.raises(UsageError, match="no bidirectional mask for a gpt_neo"):
            encoder_of("llm2vec-bi", tmp_path)
        return
    encoder, plain = encoder_of("llm2vec-bi", tmp_path), encoder_of("causal-mean", tmp_path)
    vectors = encoder.encode([*TEXTS, ""])
    np.testing.assert_allclose(vectors[:3], np.concatenate([encoder.encode([text]) for text in TEXTS]), atol=1e-5)
    assert np.abs(vectors[:3] - plain.encode(TEXTS)).max() > 1e-2
    rows = [encoder.token_table([text]).row(0).tolist() for text in ("the cat sleeps", "the cat runs")]
    firsts = [[states_of(each, row)[1] for row in rows] for each in (plain, encoder)]
    assert np.allclose(*firsts[0], atol=1e-5) and not np.allclose(*firsts[1], atol=1e-2)
    encoder.backbone.model.config.save_pretrained(tmp_path)
    np.testing.assert_allclose(encoder_of("llm2vec-bi", tmp_path).encode([*TEXTS, ""]), vectors, atol=1e-6)
    with pytest.raises(UsageError, match="a decoder-only backbone"):
        encoder_of("causal-mean", tmp_path)
