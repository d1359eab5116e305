"""CT: its pairs, its updates, and which of the two encoders is used at test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zoo.encoder import Corpus, Encoder, Run, Runtime
from zoo.errors import TrainingError
from zoo.methods.ct import CT
from zoo.recipes import all_recipes
from zoo.training.optimizers import make_scheduler
from zoo.training.positives import Groups

GOLDEN = {"ct": {"version": 2, "values": [-1.0, 0.5363, -0.2133, 0.3827, 0.5179, -0.5704, -0.7164, 1.0]}}

RECIPES = {name: spec for name, spec in all_recipes().items() if name.startswith("ct")}


def recipe_of(name: str, folder: Path, **more: Any) -> Any:
    cls, recipe = RECIPES[name].resolve()
    assert cls is CT
    return CT.Recipe(**{**vars(recipe), "backbone": str(folder), **more})


def state(encoder: CT) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in encoder.backbone.model.state_dict().items()}


def groups(sentences: int = 100, seed: int = 3, **more: Any) -> Groups:
    chosen = {"negatives": 3, "of_batch": 2, "batches": None, "passes": 1, "shared": False, "once": True, **more}
    return Groups(sentences, seed, **chosen)


def test_positives_are_one_sentence_negatives_are_all_new() -> None:
    drawn = groups()
    first, second = drawn.pairs(np.arange(drawn.count))
    assert first.shape == second.shape == (drawn.count, 4)
    np.testing.assert_array_equal(first[:, 0], second[:, 0])
    every = np.concatenate([first.ravel(), second[:, 1:].ravel()])
    assert len(set(every)) == len(every) == drawn.count * 7  # no sentence twice in a pass
    assert drawn.count == 12 and every.max() < 100  # 2 * (100 // (2 * 8)), as sentence-transformers counts batches


def test_shared_negatives_are_paired_with_the_positive_sentence() -> None:
    drawn = groups(shared=True)
    first, second = drawn.pairs(np.arange(drawn.count))
    assert first.shape == (24, 1) and second.shape == (24, 4)
    np.testing.assert_array_equal(first[:, 0], second[:, 0])
    assert len(set(second.ravel())) == 96


def test_independent_draws_are_uniform_and_set_by_the_seed() -> None:
    drawn = groups(20, once=False, passes=1000)
    first, second = drawn.pairs(np.arange(2000))
    counts = np.bincount(np.concatenate([first.ravel(), second[:, 1:].ravel()]), minlength=20)
    assert np.abs(counts / counts.sum() - 0.05).max() < 0.01
    same = (first[:, 1:] == second[:, 1:]).mean()
    assert 0.04 < same < 0.06  # independent: one in twenty meets itself
    again = groups(20, once=False, passes=1000)
    np.testing.assert_array_equal(again.pairs(np.array([7, 3]))[1], second[[7, 3]])
    assert (groups(20, 4, once=False, passes=1000).pairs(np.arange(2000))[1] != second).any()


def test_every_pass_is_another_order_whichever_is_asked_first() -> None:
    drawn, again = groups(passes=2), groups(passes=2)
    assert drawn.count == 24
    first = [drawn.drawn(i).tolist() for i in range(24)]
    assert [again.drawn(i).tolist() for i in reversed(range(24))] == first[::-1]
    assert first[:12] != first[12:]


def test_the_number_of_updates_is_the_recipe_s_or_the_corpus_s(tiny_bert: Path) -> None:
    wiki = 1_000_000
    of = {name: recipe_of(name, tiny_bert).groups(wiki, 0).count / 2 for name in RECIPES}
    assert of == {"ct": 5000, "ct-repo": 5000, "ct-st": 31_250}
    assert recipe_of("ct", tiny_bert).groups(100, 0).count == 12  # 100 // 16 batches
    with pytest.raises(TrainingError, match="31 sentences are fewer than the 32"):
        recipe_of("ct-st", tiny_bert).groups(31, 0)


def test_the_rates_change_after_the_steps_that_the_recipe_states(tiny_bert: Path) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2e-6)
    schedule: Any = make_scheduler(optimizer, CT(recipe_of("ct-repo", tiny_bert), Runtime()).settings(), 5000)
    at = {0: 1e-5, 500: 1e-5, 501: 8e-6, 1000: 8e-6, 1001: 6e-6, 2000: 4e-6, 2001: 2e-6}
    assert {step: 2e-6 * schedule.lr_lambdas[0](step) for step in at} == pytest.approx(at)


def test_short_sentences_are_left_out_where_the_recipe_says(tiny_bert: Path) -> None:
    corpus = Corpus("toy", ["too short"] * 50 + [f"sentence number {i}" for i in range(32)])
    encoder = CT(recipe_of("ct-st", tiny_bert), Runtime())
    collate, rows = encoder.training_rows(corpus, Run(seed=1))
    assert rows == 2
    ids = torch.cat([t.flatten() for t in collate(np.arange(2))[::2]])
    assert encoder.backbone.tokenizer.convert_tokens_to_ids("short") not in ids
    assert CT(recipe_of("ct-repo", tiny_bert), Runtime()).training_rows(corpus, Run(seed=1))[1] == 4


def differences(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> int:
    return sum(not torch.equal(a[name], b[name]) for name in a)


def scripted(scores: list[float], seen: list[dict[str, torch.Tensor]]) -> Callable[[Encoder], float]:
    """f2's score first, then f1's, and so on; `seen` collects the weights asked for."""
    values = iter(scores)

    def score(encoder: Encoder) -> float:
        assert isinstance(encoder, CT)
        seen.append(state(encoder))
        return next(values)

    return score


@pytest.fixture
def corpus(pocket_sentences: list[str]) -> Corpus:
    return Corpus("pocket", pocket_sentences[:192])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scores", "best", "chosen"),
    [
        ([1, 2, 1.5, 1], 1, "f1"),  # step 3: f1 is better, and the best of all
        ([1, 2, 2.5, 1], 2, "f2"),
        ([3, 2, 1, 2], 0, "f2"),  # f1 is the better one at the end, but not at the best step
        ([2, 2, 1, 1], 0, "f2"),  # equal: f2, as in the code
    ],
)
def test_the_encoder_of_the_higher_dev_score_is_used(
    tiny_bert: Path, tmp_path: Path, corpus: Corpus, scores: list[float], best: int, chosen: str
) -> None:
    encoder = CT(recipe_of("ct-repo", tiny_bert, eval_every=3), Runtime())
    seen: list[dict[str, torch.Tensor]] = []
    report = encoder.fit(corpus, dev_score=scripted(scores, seen), run=Run(seed=1))
    assert len(seen) == 4 and differences(seen[0], seen[1]) > 0
    assert differences(state(encoder), seen[best]) == 0
    assert encoder.facts() == {"test_encoder": chosen}
    assert report.dev_scores == {"3": max(scores[:2]), "6": max(scores[2:])}
    encoder.save(tmp_path)
    loaded = CT.load(tmp_path)
    assert loaded.facts() == {"test_encoder": chosen} and loaded.fingerprint() == encoder.fingerprint()
    np.testing.assert_array_equal(loaded.encode(["a dog", "rain"]), encoder.encode(["a dog", "rain"]))


def test_sentence_transformers_uses_f2_whatever_f1_would_score(tiny_bert: Path, corpus: Corpus) -> None:
    encoder = CT(recipe_of("ct-st", tiny_bert, eval_every=3), Runtime())
    seen: list[dict[str, torch.Tensor]] = []
    encoder.fit(corpus, dev_score=scripted([2, 1], seen), run=Run(seed=1))
    assert len(seen) == 2 and differences(state(encoder), seen[0]) == 0
    assert encoder.facts() == {"test_encoder": "f2"}
