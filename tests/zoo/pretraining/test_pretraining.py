"""Pretraining: packing, masking, starts, and runs that are exact and resume exactly."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertConfig, BertForMaskedLM

from zoo.encoder import Run, Runtime
from zoo.errors import CorruptError, Interrupted, UsageError
from zoo.files import read_tensors
from zoo.pretraining.mlm import mask_tokens
from zoo.pretraining.pretrain import PlainTexts, PretrainRecipe, pretrain, score_checkpoint
from zoo.pretraining.recipe import read_pretrain_recipe
from zoo.pretraining.setting import split_rows
from zoo.pretraining.starts import StartRecipe, ppmi_vectors, sinusoids, start_weights
from zoo.pretraining.text import tokenise_files

pytestmark = pytest.mark.slow

ZOO_MINI = Path(__file__).resolve().parents[3] / "zoo" / "models" / "zoo-mini"
TINY = PretrainRecipe(
    layers=1, width=16, heads=2, inner=32, batch_rows=8, held_out_rows=32, steps=12, eval_every=6, warmup_steps=3
)


def lines_of(path: Path) -> list[str]:
    """The reader the tests hand in: plain or .xz text."""
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return [line.strip() for line in file]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pocket sentences as an .xz file."""
    source = ZOO_MINI.parents[2] / "benchmark" / "data" / "pocket" / "sentences.txt"
    path = tmp_path_factory.mktemp("text") / "pocket.txt.xz"
    path.write_bytes(lzma.compress(source.read_bytes()))
    return path


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(ZOO_MINI)


def run_pretraining(text: Path, folder: Path, recipe: PretrainRecipe = TINY, stop_after: int | None = None) -> dict:
    asked = 0

    def stop() -> int | None:
        nonlocal asked
        asked += 1
        return 15 if stop_after is not None and asked > stop_after else None

    return pretrain(
        recipe,
        texts_of(text, folder),
        folder / "model",
        runtime=Runtime(),
        run=Run(folder / "training", recipe.seed, stop_signal=stop),
    )


def texts_of(text: Path, folder: Path) -> PlainTexts:
    return PlainTexts([text], lines_of, folder.parent / "tokens")


def test_stream_is_the_sentences_in_order_each_ended_by_sep(text: Path, tokenizer, tmp_path: Path) -> None:
    stream = tokenise_files([text], lines_of, tokenizer, "t", tmp_path)
    expected = [i for line in lines_of(text)[:40] for i in tokenizer(line)["input_ids"][1:]]
    assert stream.ids[: len(expected)].tolist() == expected
    assert stream.sentences == len(lines_of(text))


def never(path: Path) -> list[str]:
    raise AssertionError("read again")


def test_text_is_tokenised_once_and_a_damaged_cache_is_named(text: Path, tokenizer, tmp_path: Path) -> None:
    first = tokenise_files([text], lines_of, tokenizer, "t", tmp_path)
    again = tokenise_files([text], never, tokenizer, "t", tmp_path)
    assert np.array_equal(first.ids, again.ids)
    (cached,) = tmp_path.glob("*.u16")
    cached.write_bytes(cached.read_bytes()[:-2])
    with pytest.raises(CorruptError, match=cached.name):
        tokenise_files([text], never, tokenizer, "t", tmp_path)


def test_no_flipped_bit_of_the_token_cache_is_trained_on(text: Path, tokenizer, tmp_path: Path) -> None:
    tokenise_files([text], lines_of, tokenizer, "t", tmp_path)
    for path in (*tmp_path.glob("tokens-*.u16"), *tmp_path.glob("tokens-*.json")):
        whole = path.read_bytes()
        for place in range(8):
            damaged = bytearray(whole)
            damaged[len(whole) * place // 8] ^= 1 << place
            path.write_bytes(bytes(damaged))
            with pytest.raises(CorruptError, match="is damaged; remove both"):
                tokenise_files([text], never, tokenizer, "t", tmp_path)
        path.write_bytes(whole)
    assert tokenise_files([text], never, tokenizer, "t", tmp_path).sentences


def test_tested_sentences_are_left_out_and_counted(text: Path, tokenizer, tmp_path: Path) -> None:
    tested = frozenset(line.lower() for line in lines_of(text)[:7])
    stream = tokenise_files([text], lines_of, tokenizer, "t", tmp_path, exclude=tested, normalise=str.lower)
    whole = tokenise_files([text], lines_of, tokenizer, "t", tmp_path)
    assert (stream.excluded, whole.excluded) == (7, 0)
    assert stream.sentences == whole.sentences - 7


def test_rows_are_packed_without_padding(text: Path, tokenizer, tmp_path: Path) -> None:
    stream = tokenise_files([text], lines_of, tokenizer, "t", tmp_path)
    rows = stream.packed(np.array([0, 3]), 64, tokenizer.cls_token_id, tokenizer.sep_token_id)
    assert rows.shape == (2, 64)
    assert rows[1, 1:-1].tolist() == stream.ids[3 * 62 : 4 * 62].tolist()
    assert (rows[:, 0] == tokenizer.cls_token_id).all() and (rows[:, -1] == tokenizer.sep_token_id).all()


def test_held_out_rows_are_not_trained_on_come_from_all_over() -> None:
    training, held = split_rows(10_000, 320)
    assert len(np.intersect1d(training, held)) == 0 and len(training) + len(held) == 10_000
    assert held.min() < 100 and held.max() > 9_900
    with pytest.raises(UsageError, match="too few"):
        split_rows(40, 32)


def test_masking_is_80_10_10_and_never_touches_specials() -> None:
    torch.manual_seed(0)
    specials = torch.tensor([0, 101, 102, 103])
    ids = torch.randint(1000, 2000, (400, 64))
    ids[:, 0], ids[:, -1], ids[:, 20] = 101, 102, 102
    corrupted, positions, truth = mask_tokens(ids, 0.15, mask_id=103, specials=specials, vocabulary=30522)
    assert positions.shape == (400, round(0.15 * 62))
    special = torch.isin(ids, specials)
    assert torch.equal(corrupted[special], ids[special])
    assert torch.equal(truth, ids.gather(1, positions))
    untouched = torch.ones_like(ids, dtype=torch.bool).scatter(1, positions, False)
    assert torch.equal(corrupted[untouched], ids[untouched])
    seen = corrupted.gather(1, positions)
    share = Counter(
        "mask" if s == 103 else "same" if s == t else "random"
        for s, t in zip(seen.flatten().tolist(), truth.flatten().tolist(), strict=True)
    )
    total = sum(share.values())
    for kind, expected in (("mask", 0.8), ("random", 0.1), ("same", 0.1)):
        assert abs(share[kind] / total - expected) < 3 * (expected * (1 - expected) / total) ** 0.5 + 1e-3
    assert len({tuple(sorted(row)) for row in positions.tolist()}) > 390, "masks differ from row to row"


def test_a_row_of_specials_counts_for_nothing() -> None:
    ids = torch.full((2, 16), 102)
    corrupted, _, truth = mask_tokens(ids, 0.2, mask_id=103, specials=torch.tensor([102]), vocabulary=200)
    assert torch.equal(corrupted, ids) and (truth == -100).all()


def test_ppmi_vectors_factor_the_matrix_that_counting_gives() -> None:
    """With as many dimensions as tokens, V S V^T of a dense re-computation has the same singular values."""
    ids = np.random.default_rng(0).integers(0, 12, 4000)
    recipe = StartRecipe(ppmi_window=2, row_norm=1.0)
    counts = np.zeros((12, 12))
    for distance in (1, 2):
        for a, b in zip(ids[:-distance], ids[distance:], strict=True):
            counts[a, b] += 1 / distance
            counts[b, a] += 1 / distance
    contexts = counts.sum(0) ** 0.75
    with np.errstate(divide="ignore"):
        ppmi = np.maximum(np.log(counts / counts.sum(1, keepdims=True) / (contexts / contexts.sum())), 0)
    u, s, _ = np.linalg.svd(ppmi)
    expected = u * np.sqrt(s)
    expected -= expected.mean(axis=0)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    vectors = ppmi_vectors(ids, 12, 12, recipe, seed=0)
    assert np.allclose(vectors @ vectors.T, expected @ expected.T, atol=1e-3)


def test_sinusoids_have_the_norm_and_rotate() -> None:
    vectors = sinusoids(50, 16, 0.8)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 0.8, atol=1e-6)
    gram = vectors @ vectors.T
    assert np.allclose(np.diag(gram, 3), gram[0, 3], atol=1e-5), "similarity depends on the distance only"


def test_runs_with_one_seed_are_bit_equal_with_two_they_differ(text: Path, tmp_path: Path) -> None:
    for name in "ab":
        run_pretraining(text, tmp_path / name)
    a, _ = read_tensors(tmp_path / "a" / "model" / "model.safetensors")
    b, _ = read_tensors(tmp_path / "b" / "model" / "model.safetensors")
    assert a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)
    other = PretrainRecipe(**{**TINY.__dict__, "seed": 1})
    run_pretraining(text, tmp_path / "c", other)
    c, _ = read_tensors(tmp_path / "c" / "model" / "model.safetensors")
    assert any(not torch.equal(a[k], c[k]) for k in a)


def test_a_stopped_run_resumes_to_the_same_weights_and_log(text: Path, tmp_path: Path) -> None:
    run_pretraining(text, tmp_path / "whole")
    with pytest.raises(Interrupted):
        run_pretraining(text, tmp_path / "cut", stop_after=7)
    assert not (tmp_path / "cut" / "model" / "model.safetensors").exists()
    run_pretraining(text, tmp_path / "cut")
    whole, _ = read_tensors(tmp_path / "whole" / "model" / "model.safetensors")
    cut, _ = read_tensors(tmp_path / "cut" / "model" / "model.safetensors")
    assert all(torch.equal(whole[k], cut[k]) for k in whole)
    logs = [(tmp_path / name / "training" / "log.jsonl").read_text() for name in ("whole", "cut")]
    assert logs[0] == logs[1]


def test_200_steps_killed_at_100_resume_bit_equal(text: Path, tmp_path: Path) -> None:
    long = PretrainRecipe(**{**TINY.__dict__, "steps": 200, "eval_every": 50, "dropout": 0.1})
    ends = []
    for name, stop_after in (("first", None), ("second", None), ("cut", 100)):
        if stop_after is not None:
            with pytest.raises(Interrupted):
                run_pretraining(text, tmp_path / name, long, stop_after)
        run_pretraining(text, tmp_path / name, long)
        ends.append(read_tensors(tmp_path / name / "model" / "model.safetensors")[0])
    for end in ends[1:]:
        assert end.keys() == ends[0].keys() and all(torch.equal(end[k], ends[0][k]) for k in end)


def test_accumulated_parts_give_the_gradient_of_the_whole_batch(text: Path, tmp_path: Path) -> None:
    """Without dropout and with masks drawn alike the loss of the first step is the mean over the parts."""
    parts = PretrainRecipe(**{**TINY.__dict__, "accumulate": 4, "dropout": 0.0})
    facts = run_pretraining(text, tmp_path / "parts", parts)
    assert facts["steps"] == TINY.steps and np.isfinite(facts["final_loss"])


@pytest.mark.parametrize("tied", [True, False])
def test_the_result_is_a_plain_transformers_folder(text: Path, tmp_path: Path, tied: bool) -> None:
    recipe = PretrainRecipe(**{**TINY.__dict__, "tie_embeddings": tied})
    facts = run_pretraining(text, tmp_path / "run", recipe)
    folder = tmp_path / "run" / "model"
    model, loading = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not loading["missing_keys"] and not loading["unexpected_keys"]
    shared = model.cls.predictions.decoder.weight.data_ptr() == model.bert.embeddings.word_embeddings.weight.data_ptr()
    assert shared == tied
    assert facts["tokens_seen"] == TINY.steps * TINY.batch_rows * TINY.row_length
    assert "pseudo-perplexity" in (folder / "README.md").read_text()
    assert "<polyline" in (folder / "training-curve.svg").read_text()
    assert json.loads((folder / "pretraining.json").read_text())["held_out_accuracy"] == facts["held_out_accuracy"]


def test_a_checkpoint_is_scored_on_the_trainings_rows_and_masks(text: Path, tmp_path: Path) -> None:
    recipe = PretrainRecipe(**{**TINY.__dict__, "store": "float32"})
    facts = run_pretraining(text, tmp_path / "run", recipe)
    folder = str(tmp_path / "run" / "model")
    score = score_checkpoint(recipe, texts_of(text, tmp_path / "run"), folder, runtime=Runtime())
    assert score.accuracy == facts["held_out_accuracy"]
    assert score.pseudo_perplexity == pytest.approx(facts["held_out_pseudo_perplexity"], rel=1e-5)
    assert score.tokens == facts["held_out_masked_tokens"]


@pytest.mark.parametrize(("name", "alike"), [("two-layers", 0.0), ("zoo-mini", 1.0)])
def test_an_ordinary_start_leaves_head_and_embeddings_apart(name: str, alike: float) -> None:
    """PPMI vectors decide what PromptBERT's table 12 asks of an untied model; first weights as BERT's do not."""
    recipe = read_pretrain_recipe(f"{name}:tie_embeddings=false")
    config = BertConfig(
        vocab_size=300, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, tie_word_embeddings=False
    )
    model = BertForMaskedLM(config)
    with torch.no_grad():
        start_weights(model, np.random.default_rng(0).integers(0, 300, 9000), None, recipe, 0)
    words, head = model.bert.embeddings.word_embeddings.weight, model.cls.predictions.decoder
    cosines = torch.nn.functional.cosine_similarity(words, head.weight)
    assert cosines.mean().item() == pytest.approx(alike, abs=0.05)
    assert bool((head.bias == 0).all()) == (name == "two-layers")
