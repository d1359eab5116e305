"""Ten architectures: every registered method passes the conformance check on them, or refuses with one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from architectures import ARCHITECTURES
from fakes import DECODERS
from one_recipe import has_backbone, one_recipe_a_method
from transformers import AutoModelForMaskedLM, AutoTokenizer

from zoo.check import PROBES
from zoo.conformance import check
from zoo.encoder import Corpus, Run, Runtime
from zoo.engine.backbone import Backbone, find_backbone
from zoo.engine.bert import mlm_head_of
from zoo.engine.heads import mlm_head
from zoo.errors import UsageError
from zoo.methods.diffcse import DiffCSE
from zoo.methods.moco import MoCo
from zoo.methods.ptbert import PTBert
from zoo.methods.simcse import SimCSE
from zoo.modules.templates import MlmTransform
from zoo.recipes import all_recipes

pytestmark = pytest.mark.slow

RECIPES = all_recipes()
READ_THE_HEAD = ["cls", "static-head", "simcse-mlm", "prompt-top200", "promptbert-sup-repo", "optiprompt-repo"]
# A recipe of each method on a backbone, and what differs in the parts of a backbone that it reads.
CHECKED = [*READ_THE_HEAD, "consert-sup", "ptbert-repo"]
CHECKED += [name for method, name in one_recipe_a_method().items() if has_backbone(method) and name not in CHECKED]
SMALL = {"batch_size": 32, "steps": 10, "pseudo_tokens": 4, "queue_size": 64, "k": 8, "lstm_dim": 8, "pooling": "mean"}
SMALL["table_steps"] = 10
REFUSALS = {
    "promptbert-sup-repo": ("as wide as the states", {"albert", "electra"}),
    "consert": ("relative positions only", {"deberta-v2"}),
    "consert-sup": ("relative positions only", {"deberta-v2"}),
    "infocse": ("is no BERT or RoBERTa", {"albert", "distilbert", "electra", "mpnet", "deberta-v2", "modernbert"}),
    "promcse": ("is no BERT or RoBERTa", {"albert", "distilbert", "electra", "mpnet", "deberta-v2", "modernbert"}),
    **{name: ("a decoder-only backbone", {*ARCHITECTURES}) for name in CHECKED if RECIPES[name].method in DECODERS},
    "tsdae": ("has no decoder", {"albert", "distilbert", "mpnet", "deberta-v2", "modernbert"}),
}
# BERT is the backbone of test_check.py; the others differ from one that is checked in little but their heads.
CASES = [
    (kind, name)
    for kind in ARCHITECTURES
    if kind != "bert"
    for name in (CHECKED if kind in ("albert", "deberta-v2", "modernbert") else READ_THE_HEAD)
]
MADE = "made from its recipe"  # what the check says of a method that refuses the backbone before it is trained
ALSO = {"optiprompt-repo": ("as wide as the states", {"electra"})}  # a second reason


def findings(name: str, folder: Path) -> tuple[dict[str, str | None], bool]:
    """Return what is wrong with a recipe on a backbone, and whether dropout alone makes its views differ."""
    cls, recipe = RECIPES[name].resolve()
    chosen = {**SMALL, "backbone": str(folder), "model": str(folder)}
    if getattr(recipe, "epochs", 1) > 1:
        chosen["epochs"] = 1
    recipe = type(recipe)(**{**vars(recipe), **{k: v for k, v in chosen.items() if k in vars(recipe)}})
    results = dict(check(cls, recipe, Runtime(), name))
    return results, not results.get(MADE) and getattr(cls(recipe, Runtime()), "views_by_dropout", False)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_every_method_passes_or_refuses_with_a_sentence(
    kind: str, name: str, architecture: Callable[[str], Path]
) -> None:
    results, one_view = findings(name, architecture(kind))
    wrong = {what: finding for what, finding in results.items() if finding}
    reasons = [("differ by dropout alone", {"albert", "modernbert"})] if one_view else []
    reasons += [of[name] for of in (REFUSALS, ALSO) if name in of]
    words = [words for words, kinds in reasons if kind in kinds]
    if not words:
        assert wrong == {}
        return
    ((what, finding),) = wrong.items()
    assert what in (MADE, "fit on a toy corpus") and finding is not None
    assert words[0] in finding and finding.endswith("."), "a sentence that says why and what to do"


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_the_head_gives_the_models_own_logits(kind: str, architecture: Callable[[str], Path]) -> None:
    folder = architecture(kind)
    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    ids = torch.tensor([AutoTokenizer.from_pretrained(folder)(PROBES[0])["input_ids"]])
    with torch.inference_mode():
        wanted = model(ids).logits
        states = Backbone.load(str(folder), None, Runtime()).model(ids).last_hidden_state
        logits = mlm_head(find_backbone(str(folder)), Runtime())(states)
    torch.testing.assert_close(logits, wanted, atol=1e-5, rtol=1e-5)


def test_the_newer_head_of_deberta_gives_its_logits_too(architecture: Callable[[str], Path], tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = AutoModelForMaskedLM.from_pretrained(architecture("deberta-v2")).config
    config.legacy = False
    AutoModelForMaskedLM.from_config(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(architecture("deberta-v2")).save_pretrained(tmp_path)
    model = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    ids = torch.tensor([[101, 2000, 3000, 102]])
    with torch.inference_mode():
        logits = mlm_head(find_backbone(str(tmp_path)), Runtime())(model.base_model(ids).last_hidden_state)
        torch.testing.assert_close(logits, model(ids).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", [kind for kind in ARCHITECTURES if kind not in ("albert", "electra")])
def test_the_transform_before_the_words_is_the_checkpoints(kind: str, architecture: Callable[[str], Path]) -> None:
    """Its output times the output embeddings, plus their bias, is the logits."""
    model = AutoModelForMaskedLM.from_pretrained(architecture(kind)).eval()
    with torch.no_grad():  # a head as it starts would hide a LayerNorm that was not taken
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    transform = MlmTransform(model.config)
    head = mlm_head_of(model, kind)
    transform.take(head, kind)
    states = torch.randn(3, 32)
    with torch.inference_mode():
        logits = model.get_output_embeddings()(transform(states))
        torch.testing.assert_close(logits, head(states), atol=1e-5, rtol=1e-4)


def test_mpnet_reads_as_many_tokens_as_it_has_positions(architecture: Callable[[str], Path]) -> None:
    backbone = Backbone.load(str(architecture("mpnet")), None, Runtime())
    assert backbone.max_length == 126, "positions start behind those of padding, at 2"
    with torch.inference_mode():
        backbone.model(torch.full((1, 126), 7))
        with pytest.raises((IndexError, RuntimeError)):
            backbone.model(torch.full((1, 127), 7))


@pytest.mark.parametrize("cls", [SimCSE, MoCo, PTBert, DiffCSE])
@pytest.mark.parametrize("kind", ["albert", "modernbert"])
def test_without_dropout_is_one_view_and_training_is_refused(
    kind: str, cls: Any, architecture: Callable[[str], Path]
) -> None:
    corpus = Corpus("toy", [f"sentence number {i}" for i in range(8)])
    # The dropout of PT-BERT's own attention would make two views.
    settings = {SimCSE: {}, DiffCSE: {"epochs": 1}, PTBert: {"queue_size": 8, "attention_dropout": 0.0}}
    extra = settings.get(cls, {"queue_size": 8})
    recipe = {"backbone": str(architecture(kind)), "batch_size": 4, **extra}
    encoder = cls(cls.Recipe(**recipe), Runtime())
    with pytest.raises(UsageError, match=r"Set dropout=0\.1"):
        encoder.fit(corpus, run=Run(seed=0))
    assert encoder.trained is False, "what was refused is no trained encoder"
    with_dropout = cls(cls.Recipe(**recipe, dropout=0.1), Runtime())
    assert with_dropout.fit(corpus, run=Run(seed=0)).steps == 2
