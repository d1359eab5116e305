"""Contrastive methods: their losses and rows against independent computations."""

from __future__ import annotations

import copy
import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from test_views import CORPUS, encoder_of
from transformers import AutoModel

from zoo.encoder import Corpus, Run, Runtime
from zoo.errors import MissingError, TrainingError, UsageError
from zoo.methods.gcse import GCSERecipe, gaussian_decay
from zoo.methods.moco import MoCo, MoCoObjective
from zoo.methods.pretrained import Pretrained
from zoo.methods.sentencecrops import windows

GOLDEN = {
    "moco": {"version": 2, "values": [-1.0, 0.6143, -0.1747, -0.2514, 0.3754, -0.3844, -0.3879, 1.0]},
    "infocse": {
        "version": 2,
        # At the others' rate ten steps make rounding on some processors 25 times the tolerance.
        "settings": {"lower": 1, "mlm_weight": 0.5, "learning_rate": 3e-4},
        "values": [-1.0, 0.4687, -0.2257, -0.2531, 0.2977, -0.2372, 0.0548, 1.0],
    },
    "diffcse": {
        "version": 2,
        "tolerance": 0.006,
        "values": [-1.0, 0.6338, -0.8234, 0.1997, 0.8957, 0.0829, -0.1875, 1.0],
    },
    "gcse": {"version": 2, "values": [-1.0, 0.5279, -0.3985, 0.0298, 0.5279, -0.1727, 0.1509, 1.0]},
    "promcse": {"version": 2, "values": [-1.0, 0.2617, -0.5751, 0.4356, 0.5863, 0.2904, -0.4409, 1.0]},
    "sentence-crops": {"version": 2, "values": [-1.0, 0.6031, -0.2704, 0.3554, 0.5908, -0.6889, -0.8731, 1.0]},
}


# MoCo-BERT: loss, queue and momentum update in numpy, views as declared.

WORDS = "cat dog tree house river stone cloud bird".split()
SENTENCES = [f"the {a} sees a {b} near the old {a}" for a in WORDS for b in WORDS if a != b]


def batches(encoder: MoCo, size: int, count: int) -> list[tuple[torch.Tensor, ...]]:
    batch, rows = encoder.training_rows(Corpus("toy", SENTENCES), Run(seed=3))
    assert rows == len(SENTENCES)
    return [batch(np.arange(i * size, (i + 1) * size)) for i in range(count)]


def info_nce(h: np.ndarray, candidates: np.ndarray, temperature: float = 0.05) -> float:
    def unit(x: np.ndarray) -> np.ndarray:
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    logits = unit(h.astype(np.float64)) @ unit(candidates.astype(np.float64)).T / temperature
    return float(np.mean([np.log(np.exp(row).sum()) - row[i] for i, row in enumerate(logits)]))


def test_loss_queue_and_momentum_step_by_step(tiny_bert: Path) -> None:
    """Four steps with batches of 3 and a queue of 8: the third batch no longer fits whole."""
    encoder = MoCo(MoCo.Recipe(backbone=str(tiny_bert), batch_size=3, queue_size=8), Runtime())
    torch.manual_seed(0)
    objective = encoder.objective().eval()
    queue = np.empty((0, encoder.dim))
    for ids, mask, view_ids, view_mask in batches(encoder, 3, 4):
        query, key = objective.query_branch, objective.key_branch
        with torch.no_grad():
            h, keys = query(ids, mask).numpy(), key(view_ids, view_mask).numpy()
            loss = float(objective(ids, mask, view_ids, view_mask))
        queue = np.concatenate([keys, queue])[:8]
        np.testing.assert_allclose(objective.queue.held().numpy(), queue, atol=1e-6)
        assert loss == pytest.approx(info_nce(h, queue), abs=1e-4)
        with torch.no_grad():
            for parameter in query.parameters():
                parameter.add_(0.01)
        wanted = [0.885 * k + 0.115 * q for k, q in zip(key.parameters(), query.parameters(), strict=True)]
        objective.after_step()
        for parameter, value in zip(key.parameters(), wanted, strict=True):
            torch.testing.assert_close(parameter, value)


def test_the_key_encoder_starts_as_a_copy_without_gradient(tiny_bert: Path) -> None:
    objective = MoCoObjective(AutoModel.from_pretrained(tiny_bert), MoCo.Recipe())
    pairs = zip(objective.key_branch.parameters(), objective.query_branch.parameters(), strict=True)
    assert all(torch.equal(k, q) and not k.requires_grad and q.requires_grad for k, q in pairs)


def test_keys_without_dropout_are_those_of_evaluation(tiny_bert: Path) -> None:
    for key_dropout in (True, False):
        recipe = MoCo.Recipe(backbone=str(tiny_bert), positives="query", key_dropout=key_dropout)
        encoder = MoCo(recipe, Runtime())
        objective = encoder.objective().train()
        ids, mask, *view = batches(encoder, 8, 1)[0]
        _, h_plus, keys = objective.embed(ids, mask, *view)
        with torch.no_grad():
            still = objective.eval().keys(ids, mask)
        assert torch.allclose(keys, still, atol=1e-6) is not key_dropout
        assert not torch.allclose(h_plus, objective.query_branch(*view), atol=1e-3), "the query's stays on"
        assert objective.train().key_branch.training is key_dropout and objective.query_branch.training


def test_the_control_applies_one_linear_map_twice(tiny_bert: Path) -> None:
    """with a single state, PT-BERT's released attention is V(V(y)), then the MLP."""
    torch.manual_seed(0)
    objective = MoCoObjective(AutoModel.from_pretrained(tiny_bert), MoCo.Recipe(double_linear=True)).eval()
    value, again, mlp = objective.query_branch.mlp
    assert value is again
    ids = torch.tensor([[101, 1037, 2235, 3899, 102]])
    with torch.no_grad():
        y = objective.query_branch.model(ids).last_hidden_state[:, 0]
        wanted = mlp((y @ value.weight.T + value.bias) @ value.weight.T + value.bias)
        torch.testing.assert_close(objective.query_branch(ids, torch.ones_like(ids)), wanted)


def test_only_the_keys_view_is_augmented_and_a_batch_alike(tiny_bert: Path) -> None:
    encoder = MoCo(MoCo.Recipe(backbone=str(tiny_bert), augment=("delete:0.3",), queue_size=64), Runtime())
    ids, mask, view_ids, view_mask = batches(encoder, 8, 1)[0]
    plain = MoCo(MoCo.Recipe(backbone=str(tiny_bert)), Runtime())
    assert torch.equal(ids, batches(plain, 8, 1)[0][0])
    lengths, view_lengths = mask.sum(1) - 2, view_mask.sum(1) - 2
    assert torch.equal(view_lengths, lengths - (0.3 * lengths).long())
    again = batches(encoder, 8, 1)[0]
    assert torch.equal(again[2], view_ids)
    other, _ = encoder.training_rows(Corpus("toy", SENTENCES), Run(seed=4))
    assert not torch.equal(other(np.arange(8))[2], view_ids)


# InfoCSE: what is trained, and what is refused; test_releases has ten steps beside the release.


def test_masked_words_train_the_encoder_and_the_new_layers_alone(vivid_bert: Path) -> None:
    encoder = encoder_of("infocse", vivid_bert, batch_size=8, mlm_weight=1.0, dropout=0.0)
    torch.manual_seed(0)
    objective = encoder.objective()
    batch, _ = encoder.training_rows(CORPUS, Run(seed=1))
    sums = objective.embed(*batch(torch.arange(8).numpy()))[-1]
    sums[:, 0].sum().backward()
    assert (sums[:, 1] > 0).all()
    assert all(weight.grad is None for weight in objective.lower.parameters())
    for part in (objective.pooler.model.encoder, objective.upper, objective.mlm.head):
        assert any(weight.grad is not None and weight.grad.any() for weight in part.parameters())
    assert all(weight.grad is None for weight in objective.pooler.mlp.parameters())


@pytest.mark.parametrize("setting", [{"masked": 1.0}, {"lower": 0}, {"mlm_weight": -1.0}, {"pooler": "avg"}])
def test_settings_that_mean_nothing_are_refused(setting: dict[str, object], tiny_bert: Path) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        encoder_of("infocse", tiny_bert, **setting)


# DiffCSE: what its discriminator counts, and its generator; test_releases has its ten steps.


def test_what_the_discriminator_sees(vivid_bert: Path) -> None:
    objective = encoder_of("diffcse", vivid_bert).objective().train()
    assert not objective.generator.training and objective.discriminator.training
    assert encoder_of("diffcse-repo", vivid_bert).objective().train().generator.training
    assert not any(p.requires_grad for p in objective.generator.parameters())
    ids, mask = torch.randint(1000, 2000, (4, 6)), torch.ones(4, 6, dtype=torch.long)
    mask[0, 3:] = 0
    *views, sums = objective.embed(ids, mask)
    assert len(views) == 2 and sums[:, 1].tolist() == [6, 12, 12, 12]  # tokens of both views
    objective.contrast(*views, sums).backward()
    assert (
        objective.head.weight.grad is not None
        and objective.pooler.model.embeddings.word_embeddings.weight.grad is not None
    )


def test_a_generator_of_other_tokens_is_refused(vivid_bert: Path, tiny_roberta: Path) -> None:
    with pytest.raises(UsageError, match="has other tokens than the backbone"):
        encoder_of("diffcse", vivid_bert, generator=str(tiny_roberta)).fit(CORPUS, run=Run())


# GCSE: the decay by hand, and what it leaves of hard negatives; test_releases has ten steps beside the release.


def test_the_decay_by_hand() -> None:
    logits, frozen = torch.tensor([10.0, 10.0, 10.0, 12.0]), torch.tensor([10.0, 10.17, 14.0, 10.0])
    wanted = [-10.0, -10.0 * math.exp(-0.5), 0.0, 0.0]
    torch.testing.assert_close(gaussian_decay(logits, frozen, 0.17), torch.tensor(wanted), rtol=0, atol=1e-4)
    assert not gaussian_decay(logits.requires_grad_(), frozen, 0.17).requires_grad


def test_a_negative_as_near_as_before_pushes_less(tiny_bert: Path) -> None:
    """The gradient of an own hard negative that was as near before, and of one that was far."""
    objective = encoder_of("gcse", tiny_bert).objective()
    torch.manual_seed(0)
    h = torch.eye(3, 8)
    h_plus, h_minus = h + 0.1 * torch.randn(3, 8), (h + 0.1 * torch.randn(3, 8)).requires_grad_()
    now = objective.logits(h, h_minus).detach()
    sizes = []
    for before in (now + 0.01, now - 5):
        (gradient,) = torch.autograd.grad(objective.contrast(h, h_plus, h_minus, before), h_minus)
        sizes.append(float(gradient.norm()))
    assert 0 < sizes[0] < 0.1 * sizes[1]


@pytest.mark.parametrize("setting", [{"sigma": 0.0}, {"supervised": False}, {"mlm_weight": 0.1}])
def test_settings_that_mean_nothing_are_refused_by_gcse(setting: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        dataclasses.replace(GCSERecipe(), **setting)


# PromCSE: the backbone stays as it was; a checkpoint of the release has its prefix.


def test_only_the_prefix_is_trained(vivid_bert: Path) -> None:
    encoder = encoder_of("promcse", vivid_bert, batch_size=32)
    before = copy.deepcopy(encoder.backbone.model.state_dict())
    untrained = encoder.encode(CORPUS.sentences[:5])
    encoder.fit(CORPUS, run=Run(seed=1))
    assert all(torch.equal(before[name], p) for name, p in encoder.backbone.model.state_dict().items())
    trained = encoder.encode(CORPUS.sentences[:5])
    assert np.abs(trained - untrained).max() > 1e-2


def test_a_checkpoint_of_the_release_is_read_with_its_prefix(vivid_bert: Path, tmp_path: Path) -> None:
    """The release saves its whole model: the backbone under `bert.`, the prefix and the MLP beside it."""
    encoder = encoder_of("promcse", vivid_bert, batch_size=32)
    encoder.fit(CORPUS, run=Run(seed=1))
    for path in (*vivid_bert.glob("*.json"), *vivid_bert.glob("*.txt")):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    draws = torch.Generator().manual_seed(0)
    mlp = {
        "mlp.dense.weight": torch.randn(encoder.dim, encoder.dim, generator=draws),
        "mlp.dense.bias": torch.ones(encoder.dim),
    }
    tensors = {f"bert.{name}": weight.contiguous() for name, weight in encoder.backbone.model.state_dict().items()}
    tensors |= mlp | {"prefix_encoder.embedding.weight": encoder.drawn["prefix"].embedding.weight.detach()}
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})

    def read(pooling: str) -> Pretrained:
        return Pretrained(Pretrained.Recipe(model=str(tmp_path), pooling=pooling), Runtime())

    texts = CORPUS.sentences[:5]
    expected = torch.from_numpy(encoder.encode(texts))
    np.testing.assert_allclose(read("cls").encode(texts), expected, atol=1e-6)
    supervised = torch.tanh(expected @ mlp["mlp.dense.weight"].T + 1)
    np.testing.assert_allclose(read("pooler").encode(texts), supervised, atol=1e-5)
    assert (
        read("cls").fingerprint()
        != Pretrained(Pretrained.Recipe(model=str(vivid_bert), pooling="cls"), Runtime()).fingerprint()
    )
    with pytest.raises(UsageError, match="name pooling=cls or pooling=pooler"):
        read("mean")
    with pytest.raises(UsageError, match="the library has no module"):
        read("cls").stock_modules()


# Consecutive-sentence crops: the blocks that are drawn.

RUNNING_WORDS = "cat dog tree house river stone cloud bird".split()
CROPPED = Corpus("toy", [f"{a} {b}" for a in RUNNING_WORDS for b in RUNNING_WORDS], documents=range(0, 64, 8))


@pytest.mark.parametrize("overlap", [False, True])
def test_blocks_are_two_sentences_of_one_document(overlap: bool, tiny_bert: Path) -> None:
    encoder = encoder_of("sentence-crops", tiny_bert, overlap=overlap, window=8)
    number = {text: i for i, text in enumerate(CROPPED.sentences)}
    seen = set()
    for start in range(60):
        batch, rows = encoder.training_rows(CROPPED, Run(seed=start))
        assert rows == 8
        ids, _ = batch(np.array([start % rows, (start + 3) % rows]))
        for row, pair in zip((start % rows, (start + 3) % rows), ids, strict=True):
            blocks = []
            for block in pair:
                words = encoder.backbone.tokenizer.decode(block, skip_special_tokens=True).split()
                first, second = number[" ".join(words[:2])], number[" ".join(words[2:])]
                assert second == first + 1 and first // 8 == row == second // 8
                blocks.append(first)
            seen.add(blocks[0] - blocks[1])
    assert seen == set(range(-6, 7)) - ({0} if overlap else {-1, 0, 1})


def test_windows_stay_within_documents() -> None:
    ends = np.array([3] * 3 + [14] * 11)
    assert windows(ends, 5, 4).tolist() == [[3, 8], [8, 13]]
    assert windows(ends, 5, 3).tolist() == [[0, 3], [3, 8], [8, 13]]
    assert windows(ends, 11, 12).shape == (0, 2)


def test_documents_are_needed(tiny_bert: Path) -> None:
    with pytest.raises(MissingError, match="does not say which sentences are neighbours"):
        encoder_of("sentence-crops", tiny_bert).fit(Corpus("x", CROPPED.sentences), run=Run())
    short = Corpus("x", CROPPED.sentences, documents=range(0, 64, 2))
    with pytest.raises(TrainingError, match="no document of x has the 4 sentences"):
        encoder_of("sentence-crops", tiny_bert).fit(short, run=Run())
