"""A start from a token table: its rows, first states that are the tokens', falling masks, stages, bad tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_pretraining import POCKET, same, small, texts, train, weights
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModelForMaskedLM, AutoTokenizer

from zoo.encoder import Runtime
from zoo.errors import CorruptError, Interrupted, MissingError, UsageError
from zoo.files import read_mapping, read_tensors, write_tensors
from zoo.pretraining.mlm import MLMObjective
from zoo.pretraining.parts import layer_outputs
from zoo.pretraining.recipe import mask_rate_at
from zoo.pretraining.setting import Setting, find_names
from zoo.pretraining.starts import token_table


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """A table of 12 dimensions for tiny-bert's tokens, in model2vec's format; the row of [MASK] is 0."""
    folder = tmp_path_factory.mktemp("table") / "words"
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    rows = torch.randn(len(tokenizer), 12, generator=torch.Generator().manual_seed(0))
    rows[tokenizer.mask_token_id] = 0
    folder.mkdir()
    write_tensors(folder / "model.safetensors", {"embeddings": rows})
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def started(tiny_bert: Path, table: Path | str, **more: Any):
    fields = {"architecture": "bert", "tokenizer": str(tiny_bert), "frequent_tokens": 16, "drawn_tokens": 16, **more}
    return small(tokens="table", table=str(table), **fields)


def test_rows_keep_their_directions_whatever_the_width(tiny: Path, tiny_bert: Path) -> None:
    """Wider vectors than the table's keep all cosines; narrower ones are its first principal directions."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    table = read_tensors(tiny / "model.safetensors")[0]["embeddings"].double().numpy()
    some = np.setdiff1d(np.arange(99, 199), [tokenizer.mask_token_id])
    unit = table[some] / np.linalg.norm(table[some], axis=1, keepdims=True)
    for dim in (12, 20):
        found = token_table(str(tiny), tokenizer, dim, 0.8, 0).astype(float)
        assert found.shape == (len(tokenizer), dim) and np.allclose(np.linalg.norm(found, axis=1), 0.8, atol=1e-6)
        assert np.allclose(found[some] @ found[some].T / 0.64, unit @ unit.T, atol=1e-5)
    u, s, _ = np.linalg.svd(table, full_matrices=False)
    first = u[some, :2] * s[:2]
    found = np.abs(token_table(str(tiny), tokenizer, 2, 1.0, 0)[some])  # an axis may point either way
    assert np.allclose(found, np.abs(first) / np.linalg.norm(first, axis=1, keepdims=True), atol=1e-5)


def test_words_of_a_file_are_the_rows_of_the_tokens_they_are(tiny_bert: Path, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    words = [token for token in tokenizer.get_vocab() if token.isalpha()][:2]
    file = tmp_path / "words.vec"
    file.write_text(f"{words[0]} 3 4\n{words[1]} -4 3\nnot-a-token 1 1\n", encoding="utf-8")
    found = token_table(str(file), tokenizer, 2, 1.0, 0)
    own = [tokenizer.get_vocab()[word] for word in words]
    assert np.allclose(found[own], [[0.6, 0.8], [-0.8, 0.6]])
    assert np.allclose(np.linalg.norm(found, axis=1), 1)  # the others are random


def test_first_states_are_the_tokens_without_residuals(tiny: Path, tiny_bert: Path, tmp_path: Path) -> None:
    """An untrained model (rate 0): every layer's state is the layer norm of the embeddings, which are the table's."""
    recipe = started(tiny_bert, tiny, residual_scale=0.0, learning_rate=1e-30, steps=1, decay_steps=None, width=12)
    train(tmp_path, recipe)
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "model").eval()
    assert len(layer_outputs(model)) == 2 * recipe.layers
    assert all(not layer.weight.any() for layer in layer_outputs(model))
    ids = torch.arange(5, 13)[None]
    with torch.inference_mode():
        states = model.base_model(ids, output_hidden_states=True).hidden_states
    assert all(torch.allclose(state, states[0], atol=1e-4) for state in states)
    rows = torch.from_numpy(token_table(str(tiny), AutoTokenizer.from_pretrained(tiny_bert), 12, 0.8, recipe.seed))
    assert torch.allclose(model.get_input_embeddings().weight, rows, atol=1e-6)


def test_masking_falls_to_its_last_rate_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = small(mask_rate=0.5, last_mask_rate=0.2, mask_steps=10)
    assert [mask_rate_at(recipe, step) for step in (0, 5, 10, 99)] == pytest.approx([0.5, 0.35, 0.2, 0.2])
    seen: list[int] = []
    corrupted = MLMObjective.corrupted

    def watched(self: MLMObjective, ids: torch.Tensor, rate: float) -> tuple[torch.Tensor, ...]:
        result = corrupted(self, ids, rate)
        if self.training:
            seen.append(result[1].shape[1])
        return result

    monkeypatch.setattr(MLMObjective, "corrupted", watched)
    train(tmp_path, recipe)
    assert seen == [max(round(mask_rate_at(recipe, step) * 14), 1) for step in range(24)]
    assert (seen[0], seen[-1]) == (7, 3)


def test_a_stage_begins_from_weights_alone_and_resumes(tiny: Path, tiny_bert: Path, tmp_path: Path) -> None:
    """The first stage's folder without its training state, as a clone has it; its line stays in the card."""
    for name in ("first", "whole", "killed"):
        (tmp_path / name).mkdir()
    train(tmp_path / "first", started(tiny_bert, tiny, mask_rate=0.3, last_mask_rate=0.2, mask_steps=9))
    first = tmp_path / "first" / "model"
    for file in (first / "training").iterdir():
        file.unlink()
    second = started(tiny_bert, tiny, begin_from=str(first), mask_rate=0.15, warmup_steps=2, seed=1)
    facts = train(tmp_path / "whole", second)
    with pytest.raises(Interrupted):
        train(tmp_path / "killed", second, stop_after=11)
    train(tmp_path / "killed", second)
    assert same(tmp_path / "whole" / "model", tmp_path / "killed" / "model")
    assert not same(tmp_path / "whole" / "model", first)
    assert [stage["mask_rate"] for stage in facts["stages"]] == [0.3, 0.15]
    assert facts["stages"][:1] == read_mapping(first / "pretraining.json")["stages"]
    card = (tmp_path / "whole" / "model" / "README.md").read_text()
    assert "| stage 1 | 0.0 million tokens, masking 30 % to 20 % at step 9, held-out accuracy" in card
    assert "| stage 2 | 0.0 million tokens, masking 15 %, held-out accuracy" in card
    untrained = weights(first)
    train(tmp_path / "first", small(**{**second.__dict__, "steps": 1, "learning_rate": 1e-30, "decay_steps": None}))
    again = weights(first)
    assert all(torch.allclose(untrained[name], again[name], atol=1e-6) for name in untrained)  # where it begins


def test_tables_that_do_not_fit_are_one_sentence(tiny: Path, tiny_bert: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has another vocabulary \(.* tokens\) than the tokenizer \(400 tokens\)"):
        train(tmp_path, small(tokens="table", table=str(tiny)))
    other = tmp_path / "other"
    other.mkdir()
    Tokenizer(WordLevel({"a": 0}, "a")).save(str(other / "tokenizer.json"))
    write_tensors(other / "model.safetensors", {"embeddings": torch.zeros(1, 2)})
    with pytest.raises(UsageError, match=r"has another vocabulary \(1 tokens\)"):
        find_names(started(tiny_bert, other))  # before any text is read
    with pytest.raises(MissingError, match=r"does not exist\. A token table is the folder that `zoo-bench export"):
        Setting(started(tiny_bert, tmp_path / "none"), texts(tmp_path, POCKET), Runtime())
    with pytest.raises(ValueError, match="tokens=table and table=FOLDER belong together"):
        small(tokens="table")
    with pytest.raises(ValueError, match="last_mask_rate must be a share"):
        small(last_mask_rate=1.5)
    broken = tmp_path / "broken"
    broken.mkdir()
    Tokenizer.from_file(str(tiny / "tokenizer.json")).save(str(broken / "tokenizer.json"))
    write_tensors(broken / "model.safetensors", {"embeddings": torch.zeros(3, 2)})
    with pytest.raises(CorruptError, match="3 rows for the"):
        token_table(str(broken), AutoTokenizer.from_pretrained(tiny_bert), 2, 1.0, 0)
