"""Templates token by token: rows, cuts, mask and position ids, by hand for a BERT and a RoBERTa tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoTokenizer, PreTrainedTokenizerFast

from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone
from zoo.engine.heads import mlm_head
from zoo.errors import UsageError
from zoo.modules.templates import MlmTransform, Template, first_position, with_period

OF = 'This sentence of "[X]" means [MASK].'
HEAD, TAIL = [101, 2023, 6251, 1997, 1000], [1000, 2965, 103, 1012, 102]  # [CLS] this sentence of " | " means ...
A_SMALL_DOG = [1037, 2235, 3899]
ROBERTA = "It : ' [X] ' is [MASK] ."


@pytest.fixture(scope="module")
def bert(tiny_bert: Path) -> Any:
    return AutoTokenizer.from_pretrained(tiny_bert)


@pytest.fixture(scope="module")
def letters() -> Any:
    """RoBERTa's tokenizer without a single merge: a token is a byte, and a blank is Ġ."""
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    vocabulary = {token: i for i, token in enumerate([*specials, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    named = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    mask = AddedToken("<mask>", lstrip=True, special=True)  # as RoBERTa's: the blank before it is its own
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token=mask, **named)


@pytest.mark.parametrize(
    ("text", "fault"),
    [("", "0 times [X]"), ("means [MASK].", "0 times [X]"), ("[X] means it", "0 times [MASK]"),
     ("[X] and [X] mean [MASK]", "2 times [X]"), ("[X] [MASK] [MASK]", "2 times [MASK]")],
)  # fmt: skip
def test_a_template_has_one_sentence_and_one_mask(text: str, fault: str) -> None:
    with pytest.raises(UsageError, match=fault.replace("[", r"\[")):
        Template.parse(text)


def test_rows_of_a_bert_tokenizer(bert: Any) -> None:
    prompt = Template.parse(OF).bind(bert)
    table = prompt.table(["a small dog", "", "dog"], max_length=64)
    assert [table.row(i).tolist() for i in range(3)] == [HEAD + A_SMALL_DOG + TAIL, HEAD + TAIL, [*HEAD, 3899, *TAIL]]
    assert prompt.mask_positions(table.lengths).tolist() == [10, 7, 8]
    assert len(prompt) == 10 and table.truncated == 0 and len(prompt.table([], 64)) == 0


def test_truncation_cuts_the_sentence_and_never_the_template(bert: Any) -> None:
    prompt = Template.parse(OF).bind(bert)
    table = prompt.table(["a small dog", "dog"], max_length=12)
    assert table.row(0).tolist() == HEAD + A_SMALL_DOG[:2] + TAIL and table.row(1).tolist() == [*HEAD, 3899, *TAIL]
    assert table.truncated == 1 and prompt.mask_positions(table.lengths).tolist() == [9, 8]
    with pytest.raises(UsageError, match="takes 10 tokens, and a row has 10"):
        prompt.table(["dog"], max_length=10)


def test_the_added_period_is_the_released_codes(bert: Any) -> None:
    prompt = Template.parse(OF).bind(bert, ended=with_period)
    texts = ["dog", "dog.", "dog?", 'dog"', "dog'", "dog!", ""]
    sentences = prompt.sentences(texts, 9)
    dog = [[3899, 1012], [3899, 1012], [3899, 1029], [3899, 1000], [3899, 1005], [3899, 999, 1012], []]
    assert [sentences.row(i).tolist() for i in range(len(texts))] == dog


def test_a_mask_before_the_sentence_stays_where_it_is(bert: Any) -> None:
    prompt = Template.parse("Also called [MASK]. [X]").bind(bert)
    assert prompt.head == (101, 2036, 2170, 103, 1012) and prompt.tail == (102,)
    table = prompt.table(["a small dog", "dog"], 64)
    assert prompt.mask_positions(table.lengths).tolist() == [3, 3]
    assert prompt.position_ids(torch.tensor([3]), 0).tolist() == [[0, 1, 2, 3, 4, 8]]


def test_a_mask_token_within_a_sentence_is_not_the_templates(bert: Any) -> None:
    prompt = Template.parse(OF).bind(bert)
    table = prompt.table(["a [MASK] dog"], 64)
    assert table.row(0).tolist().count(103) == 2 and prompt.mask_positions(table.lengths).tolist() == [10]


def test_position_ids_of_the_template_alone(bert: Any) -> None:
    """What follows a sentence of five tokens is moved by five (section 4.3)."""
    prompt = Template.parse(OF).bind(bert)
    assert prompt.alone == (*HEAD, *TAIL)
    assert prompt.position_ids(torch.tensor([0, 5]), 0).tolist() == [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        [0, 1, 2, 3, 4, 10, 11, 12, 13, 14],
    ]


def test_rows_of_a_roberta_tokenizer(letters: Any) -> None:
    prompt = Template.parse(ROBERTA).bind(letters)
    head, tail = ["<s>", *"ItĠ:Ġ'"], [*"Ġ'Ġis", "<mask>", *"Ġ.", "</s>"]
    table = prompt.table(["a b", ""], 64)
    assert letters.convert_ids_to_tokens(table.row(0).tolist()) == [*head, *"ĠaĠb", *tail]  # the blank is the word's
    assert prompt.mask_positions(table.lengths).tolist() == [16, 13]
    cut = prompt.table(["a b"], len(head) + len(tail) + 3)
    assert letters.convert_ids_to_tokens(cut.row(0).tolist()) == [*head, *"ĠaĠ", *tail]
    without = Template.parse(ROBERTA).bind(letters, blank=False).table(["a b"], 64)
    assert letters.convert_ids_to_tokens(without.row(0).tolist()) == [*head, *"aĠb", *tail]
    # RoBERTa's positions start at padding_idx + 1 = 2; two tokens of sentence lie between head (7) and tail (9).
    assert prompt.position_ids(torch.tensor([2]), 2).tolist() == [[2, 3, 4, 5, 6, 7, 8, *range(11, 20)]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backbone", "template"), [("tiny_bert", OF), ("tiny_roberta", "This sentence : ' [X] ' means [MASK].")]
)
def test_rows_equal_those_of_the_filled_text(
    backbone: str, template: str, request: pytest.FixtureRequest, pocket_sentences: list[str]
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(request.getfixturevalue(backbone))
    table = Template.parse(template).bind(tokenizer).table(pocket_sentences, 200)
    for i, sentence in enumerate(pocket_sentences):
        text = template.replace("[X]", sentence).replace("[MASK]", tokenizer.mask_token)
        assert table.row(i).tolist() == tokenizer(text)["input_ids"], text


@pytest.mark.parametrize(("backbone", "first"), [("tiny_bert", 0), ("tiny_roberta", 2)])
def test_the_bias_stands_where_the_template_stands_in_the_row(
    backbone: str, first: int, request: pytest.FixtureRequest
) -> None:
    """The positions that the model gives to a prompted row, less the sentence's, are those of the bias."""
    folder = request.getfixturevalue(backbone)
    loaded = Backbone.load(str(folder), None, Runtime())
    assert first_position(loaded) == first
    prompt = Template.parse("This sentence : [X] means [MASK] .").bind(loaded.tokenizer)
    ids, mask = prompt.table(["one two three", "a"], 64).padded([0, 1], loaded.pad_id)
    seen: list[torch.Tensor] = []
    hook = loaded.model.embeddings.position_embeddings.register_forward_hook(
        lambda module, given, output: seen.append(given[0])
    )
    with torch.inference_mode():
        loaded.model(input_ids=ids, attention_mask=mask)
        biases = prompt.bias(loaded.model, mask, first)
    hook.remove()
    head, tail = len(prompt.head), len(prompt.tail)
    wanted = []
    for row, length in enumerate(mask.sum(1).tolist()):
        of_row = seen[0].expand(2, -1)[row, :length]
        wanted.append(torch.cat([of_row[:head], of_row[length - tail :]]))
    assert sorted(seen[1].tolist()) == sorted(positions.tolist() for positions in wanted)
    model = AutoModel.from_pretrained(folder).eval()
    at = prompt.alone.index(loaded.tokenizer.mask_token_id)
    for positions, bias in zip(wanted, biases, strict=True):
        with torch.inference_mode():
            states = model(torch.tensor([prompt.alone]), position_ids=positions[None]).last_hidden_state
        torch.testing.assert_close(bias, states[0, at], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backbone", ["tiny_bert", "tiny_roberta"])
def test_the_mlm_head_and_its_transform_are_the_checkpoints(
    backbone: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = request.getfixturevalue(backbone)
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(folder)).eval()
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    head = mlm_head(Backbone.load(str(tmp_path), None, Runtime()).source, Runtime())
    transform = MlmTransform(model.config)
    transform.take(head, backbone)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.inference_mode():
        wanted = model(ids).logits
        states = model.base_model(ids).last_hidden_state
        np.testing.assert_allclose(head(states).numpy(), wanted.numpy(), atol=1e-5)
        words = model.get_output_embeddings()
        np.testing.assert_allclose(words(transform(states)).numpy(), wanted.numpy(), atol=1e-5)
    with pytest.raises(UsageError, match="one dense layer as wide as the states"):
        transform.take(torch.nn.Linear(2, 2), "another")
