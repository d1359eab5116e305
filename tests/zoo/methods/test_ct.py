"""CT: its loss in numpy, its pairs, its two encoders, the choice at test, resuming."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel

from zoo.encoder import Corpus, Encoder, Run, Runtime
from zoo.errors import TrainingError
from zoo.methods.ct import CT, CTObjective
from zoo.recipes import all_recipes
from zoo.training.optimizers import make_optimizer, make_scheduler
from zoo.training.pairs import Groups
from zoo.training.settings import TrainSettings

GOLDEN = {"ct": {"version": 1, "values": [-0.9174, 0.2171, -1.0, 0.696, 0.3842, -0.5765, -1.0, 0.6794]}}

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


# The pairs.


def test_the_three_recipes_say_how_they_differ(tiny_bert: Path) -> None:
    assert sorted(RECIPES) == ["ct", "ct-repo", "ct-st"]
    fields = {name: vars(recipe_of(name, tiny_bert)) for name in RECIPES}
    assert vars(CT.Recipe(backbone=str(tiny_bert), rmsprop_epsilon=1e-7)) == fields["ct"]
    differ = {key: fields["ct-repo"][key] for key in fields["ct"] if fields["ct"][key] != fields["ct-repo"][key]}
    assert differ == {"pairs": "disjoint"}
    st = fields["ct-st"]
    assert (st["reduction"], st["dropout"], st["test_encoder"], st["draw"]) == ("sum", None, "f2", "pass")
    assert (st["learning_rate"], st["rates"], st["steps"]) == (1e-5, (), None)


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


def test_short_sentences_are_left_out_where_the_recipe_says(tiny_bert: Path) -> None:
    corpus = Corpus("toy", ["too short"] * 50 + [f"sentence number {i}" for i in range(32)])
    encoder = CT(recipe_of("ct-st", tiny_bert), Runtime())
    collate, rows = encoder.training_rows(corpus, Run(seed=1))
    assert rows == 2
    ids = torch.cat([t.flatten() for t in collate(np.arange(2))[::2]])
    assert encoder.backbone.tokenizer.convert_tokens_to_ids("short") not in ids
    assert CT(recipe_of("ct-repo", tiny_bert), Runtime()).training_rows(corpus, Run(seed=1))[1] == 4


# The loss.


def numpy_loss(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Losses of the pairs (n, 1 + K), the first of each row positive."""
    logits = (u.astype(np.float64) * v.astype(np.float64)).sum(-1)
    probability = 1 / (1 + np.exp(-logits))
    probability[:, 1:] = 1 - probability[:, 1:]
    return -np.log(probability)


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_loss_equals_numpy_on_two_encoders(name: str, tiny_bert: Path, pocket_sentences: list[str]) -> None:
    encoder = CT(recipe_of(name, tiny_bert), Runtime())
    collate, _rows = encoder.training_rows(Corpus("p", pocket_sentences[:64]), Run(seed=1))
    batch = collate(np.arange(2))
    objective = CTObjective(AutoModel.from_pretrained(tiny_bert), encoder.recipe).eval()
    with torch.no_grad():
        for parameter in objective.f1.parameters():  # another encoder, and dot products of either sign
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) * 0.02)
        loss = float(objective(*batch))
        vectors = []
        for f, (ids, mask) in ((objective.f1, batch[:2]), (objective.f2, batch[2:])):
            pooled = np.zeros((*ids.shape[:2], 32))
            for n, k in np.ndindex(*ids.shape[:2]):
                length = int(mask[n, k].sum())  # alone, without padding
                pooled[n, k] = f.model(ids[n, k : k + 1, :length]).last_hidden_state[0].double().mean(0)
            vectors.append(pooled)
    assert [t.shape[:2] for t in vectors] == [(2, 1 if name == "ct" else 8), (2, 8)]
    wanted = numpy_loss(*vectors)
    assert wanted.shape == (2, 8)
    total = wanted.sum() if name == "ct-st" else wanted.mean()
    assert loss == pytest.approx(total, rel=1e-6, abs=1e-6)


def test_learning_rates_are_the_piecewise_ones(tiny_bert: Path) -> None:
    encoder = CT(recipe_of("ct-repo", tiny_bert), Runtime())
    optimizer = torch.optim.RMSprop([torch.nn.Parameter(torch.zeros(1))], lr=2e-6)
    schedule = make_scheduler(optimizer, encoder.settings(), 5000)
    rates = []
    for _ in range(2500):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    at = {0: 1e-5, 500: 1e-5, 501: 8e-6, 1000: 8e-6, 1001: 6e-6, 1500: 6e-6, 1501: 4e-6, 2000: 4e-6, 2001: 2e-6}
    assert {step: rates[step] for step in at} == pytest.approx(at)
    assert rates[-1] == pytest.approx(2e-6)
    settings = encoder.settings()
    assert (settings.optimizer, settings.max_grad_norm, settings.batch_size) == ("rmsprop", float("inf"), 2)
    assert settings.rmsprop_epsilon == 1e-7, "Keras's"
    st = CT(recipe_of("ct-st", tiny_bert), Runtime()).settings()
    assert st.rmsprop_epsilon == 1e-8, "PyTorch's"
    assert (st.rate_until, st.schedule, st.learning_rate, st.max_grad_norm) == ((), "linear", 1e-5, 1.0)


def test_rmsprop_adds_epsilon_to_the_root_as_keras_does() -> None:
    """rms <- 0.9 rms + 0.1 g^2, w <- w - lr g / (sqrt(rms) + epsilon), with gradients as small as epsilon."""
    weight = torch.nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    settings = TrainSettings(
        batch_size=1,
        learning_rate=1e-3,
        epochs=1,
        eval_every=1,
        optimizer="rmsprop",
        rmsprop_smoothing=0.9,
        rmsprop_epsilon=1e-7,
    )
    optimizer = make_optimizer([("w", weight)], settings)
    wanted, rms = 1.0, 0.0
    for gradient in (1e-7, -3e-7, 2e-7):
        weight.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
        rms = 0.9 * rms + 0.1 * gradient**2
        wanted -= 1e-3 * gradient / (rms**0.5 + 1e-7)
        assert weight.item() == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("name", ["ct-repo", "ct-st"])
def test_dropout_is_off_in_the_code_on_in_st(name: str, tiny_bert: Path, pocket_sentences: list[str]) -> None:
    encoder = CT(recipe_of(name, tiny_bert, steps=1), Runtime())
    corpus = Corpus("p", pocket_sentences[:40])
    encoder.fit(corpus, run=Run(seed=1))
    objective = encoder.objective().train()
    batch = encoder.training_rows(corpus, Run(seed=1))[0](np.arange(2))
    with torch.no_grad():
        losses = {float(objective(*batch)) for _ in range(3)}
    assert len(losses) == (1 if name == "ct-repo" else 3)


# The two encoders.


class Watched(CT):
    """Remembers its two encoders as they were when training began and ended."""

    def fit(self, corpus: Corpus | None, **more: Any) -> Any:
        report = super().fit(corpus, **more)
        self.after = [{k: v.clone() for k, v in f.model.state_dict().items()} for f in (self.seen.f1, self.seen.f2)]
        return report

    def objective(self) -> Any:
        self.seen: Any = super().objective()
        self.before = [{k: v.clone() for k, v in f.model.state_dict().items()} for f in (self.seen.f1, self.seen.f2)]
        return self.seen


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


def test_two_encoders_start_equal_and_drift_apart(tiny_bert: Path, corpus: Corpus) -> None:
    encoder = Watched(recipe_of("ct-repo", tiny_bert, rates=(), rate_steps=(), learning_rate=1e-3), Runtime())
    start = state(encoder)
    report = encoder.fit(corpus, run=Run(seed=1))
    assert differences(*encoder.before) == 0 and differences(start, encoder.before[1]) == 0
    f1, f2 = encoder.after
    assert all(differences(a, b) > 20 for a, b in ((f1, f2), (f1, start), (f2, start)))
    assert differences(state(encoder), f2) == 0  # without a score f2 is used
    assert encoder.facts() == report.facts == {"test_encoder": "f2"}
    assert (report.steps, report.sentences) == (6, 6 * 2 * 15)


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
