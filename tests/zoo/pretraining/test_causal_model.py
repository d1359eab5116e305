"""GPT-2 as a training model: the loss of the next token, the folder that is written, and what a recipe cannot have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_pretraining import small, texts, train
from transformers import AutoModelForCausalLM, AutoTokenizer

from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone
from zoo.pretraining.mlm import CausalObjective, Masking
from zoo.pretraining.models import load_model
from zoo.pretraining.pretrain import score_checkpoint

CAUSAL = small(architecture="gpt2", output_bias="zero", steps=30, decay_steps=None)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("gpt2")
    return folder / "model", train(folder, CAUSAL)


def test_the_loss_is_the_librarys_without_each_rows_end(made: tuple[Path, dict[str, Any]]) -> None:
    model = load_model(str(made[0]), 0.0)
    masking = Masking.of(AutoTokenizer.from_pretrained(made[0]), 400)
    ids = torch.randint(10, 390, (4, 14), generator=torch.Generator().manual_seed(2))
    labels = ids.clone()
    labels[:, -1] = -100
    for recipe in (small(vocabulary_loss="full"), small(vocabulary_loss="full", last_layer="everywhere")):
        loss = CausalObjective(model, recipe, masking)(ids)
        assert loss.item() == pytest.approx(model(input_ids=ids, labels=labels).loss.item(), rel=1e-5)


def test_a_folder_is_the_librarys_own_and_a_backbone(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, facts = made
    model, loading = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not loading["missing_keys"] and not loading["unexpected_keys"]
    assert model.config.model_type == "gpt2" and model.config.resid_pdrop == 0.1 and model.config.n_inner == 32
    backbone = Backbone.load(str(folder), None, Runtime())
    assert backbone.dim == 16 and backbone.max_length == 512
    ids = torch.randint(10, 390, (2, 9))
    with torch.no_grad():
        states = backbone.model(input_ids=ids).last_hidden_state
        torch.testing.assert_close(model.lm_head(states), model(input_ids=ids).logits)
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert (
        "A causal language model" in card and "| held out | next-token accuracy" in card and "the next token," in card
    )
    scored = score_checkpoint(CAUSAL, texts(folder.parent), str(folder), runtime=Runtime())
    assert scored.accuracy == facts["held_out_accuracy"] and scored.tokens == 32 * 14
    assert scored.pseudo_perplexity < facts["held_out_curve"][0]["held_out_pseudo_perplexity"] < 400


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"output_bias": "log-frequency"}, "output_bias: zero"),
        ({"optimizer": "muon"}, "optimizer: adamw"),
        ({"teacher": "zoo-mini", "vocabulary_loss": "full"}, "teacher: null"),
    ],
)
def test_what_gpt2_is_trained_without_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        small(**{"architecture": "gpt2", "output_bias": "zero", **changes})
