"""Probes: batched fits against the same fits one by one, SentEval's own numbers, and scikit-learn."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmark.metrics.probe import batch as probe_batch
from benchmark.metrics.probe import protocol as probe
from benchmark.metrics.probe.batch import Fits, Fold, Recipe, Trainer, pad
from benchmark.metrics.probe.models import Classifier, Hidden, Linear
from benchmark.metrics.probe.protocol import (
    FAST,
    FULL,
    PENALTIES,
    ProbeSetting,
    cross_validated,
    nested,
    split,
    stratified,
)

SENTEVAL = json.loads((Path(__file__).parent.parent / "fixtures" / "senteval_transfer.json").read_text("utf-8"))


def problem(rows: int, dim: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy vectors (rows, dim) and classes that are hard to tell apart."""
    random = np.random.RandomState(seed)
    x = random.randn(rows, dim).astype(np.float32)
    y = (x[:, :classes] + random.randn(rows, classes) * 1.5).argmax(1)
    return x, y.astype(np.int64)


def one_by_one(
    x: np.ndarray, y: np.ndarray, fold: Fold, penalty: float, recipe: Recipe
) -> tuple[float, int, torch.nn.Module]:
    """Train one classifier with torch's own layers, loss and optimiser; docs/protocol.md in plain words."""
    random = np.random.RandomState(recipe.seed)
    rows, dev = fold.train, fold.dev
    if dev is None:
        order = random.permutation(len(rows))
        cut = int(0.05 * len(rows))
        rows, dev = rows[order[cut:]], rows[order[:cut]]
    classes = int(y.max()) + 1
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        if recipe.hidden:
            layers = [torch.nn.Linear(x.shape[1], recipe.hidden), torch.nn.Sigmoid()]
            layers.append(torch.nn.Linear(recipe.hidden, classes))
        else:
            layers = [torch.nn.Linear(x.shape[1], classes)]
    model = torch.nn.Sequential(*layers)
    optimisers = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}
    kind = optimisers[recipe.optimiser]
    optimiser = kind(model.parameters(), lr=recipe.learning_rate, weight_decay=penalty)
    features, labels = torch.from_numpy(x), torch.from_numpy(y)
    best, failures, evaluations, epochs, kept = -1.0, 0, 0, 0, {}
    while failures <= recipe.tenacity and epochs <= recipe.max_epoch:
        for _ in range(recipe.epoch_size):
            for batch in torch.from_numpy(rows[random.permutation(len(rows))]).split(recipe.batch_size):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(model(features[batch]), labels[batch]).backward()
                optimiser.step()
        epochs += recipe.epoch_size
        evaluations += 1
        accuracy = float((model(features[dev]).argmax(1) == labels[dev]).double().mean())
        if accuracy > best:
            best, kept = accuracy, {name: value.clone() for name, value in model.state_dict().items()}
        else:
            failures += 1
    model.load_state_dict(kept)
    return best, evaluations, model


def grid(x: np.ndarray, y: np.ndarray, folds: list[Fold], recipe: Recipe) -> tuple[Fits, list[tuple[Fold, float]]]:
    pairs = [(number, penalty) for number in range(len(folds)) for penalty in PENALTIES]
    of, weights = np.array([n for n, _ in pairs]), np.array([p for _, p in pairs])
    fits = Trainer(pad(x, "cpu"), x.shape[1], y, folds, of, weights, recipe).run()
    return fits, [(folds[n], p) for n, p in pairs]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "hidden", "classes"),
    [(FULL, 5, 3), (FAST, 0, 2), (FAST, 5, 2)],
    ids=["full-5-3", "fast-0-2", "fast-5-2"],
)
def test_batched_fits_are_the_fits_one_by_one(classes: int, hidden: int, setting: ProbeSetting) -> None:
    """Folds of unequal size, with and without development rows, every penalty: the same stops, weights and scores."""
    x, y = problem(221, 12, classes)
    recipe = replace(setting.recipe, hidden=hidden, batch_size=24)
    folds = [Fold(*rows) for rows in stratified(y, 3)]
    # Eight rows fewer change the number of batches; no development rows: the drawn share.
    folds += [Fold(folds[0].train[8:], folds[0].dev), Fold(folds[1].train), Fold(np.arange(len(y)))]
    fits, single = grid(x, y, folds, recipe)
    every = np.arange(len(y))
    same = []
    for fit, (fold, penalty) in enumerate(single):
        best, evaluations, model = one_by_one(x, y, fold, penalty, recipe)
        assert fits.dev[fit] == pytest.approx(best, abs=0.02)
        predicted = model(torch.from_numpy(x)).argmax(1).numpy()
        same.append((fits.dev[fit] == best, fits.evaluations[fit] == evaluations))
        if all(same[-1]):
            assert np.mean(fits.predict(fit, every) == predicted) > 0.99
    # Rounding may let one fit stop elsewhere; more than one would be another method.
    assert sum(all(pair) for pair in same) >= len(single) - 1
    assert len({int(n) for n in fits.evaluations}) > 1


@pytest.mark.parametrize("setting", [FULL, FAST], ids=["full", "fast"])
def test_weights_after_several_rounds_are_torch_s(setting: ProbeSetting) -> None:
    """With a smaller last batch, whose mean is over its own rows, and moments that no evaluation restarts."""
    x, y = problem(61, 6, 2)
    recipe = replace(setting.recipe, batch_size=24, max_epoch=4 * setting.recipe.epoch_size, tenacity=9)
    fold = Fold(np.arange(50), np.arange(61))  # the accuracy rises, so that late weights are kept
    fits = Trainer(pad(x, "cpu"), 6, y, [fold], np.array([0]), np.array([0.0]), recipe).run()
    best, evaluations, model = one_by_one(x, y, fold, 0.0, recipe)
    (layer,) = model
    kept = fits.weights[0][0].squeeze()  # of two classes, the first row has the other sign
    assert evaluations == 5 and (fits.dev[0], fits.evaluations[0]) == (best, evaluations)
    torch.testing.assert_close(kept[:, :6].abs(), layer.weight.detach().abs(), atol=2e-5, rtol=0)


def test_the_counter_is_never_reset() -> None:
    """A fit ends at the (tenacity + 1)-th evaluation without gain in all, or when the passes are used up."""
    x, y = problem(200, 6, 2)
    fold = Fold(np.arange(150), np.arange(150, 200))
    recipe = Recipe(batch_size=16, tenacity=2, epoch_size=1, max_epoch=12)
    fits, _ = grid(x, y, [fold], recipe)
    for fit, penalty in enumerate(PENALTIES):
        assert fits.evaluations[fit] == one_by_one(x, y, fold, penalty, recipe)[1]
    endless, _ = grid(x, y, [fold], replace(recipe, tenacity=100))
    assert endless.evaluations.tolist() == [13] * 4  # 12 passes are still <= max_epoch, so a 13th begins
    endless, _ = grid(x, y, [fold], replace(recipe, tenacity=100, epoch_size=5))
    assert endless.evaluations.tolist() == [3] * 4


def test_packing_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One fold a block or all in one, one thread or two, whole folds as on a GPU: the same evaluations, accuracies."""
    x, y = problem(300, 10, 2)
    folds = [Fold(*rows) for rows in stratified(y, 6)]
    threads = torch.get_num_threads()
    schedules = []
    try:
        for cached, small, workers in ((1, 1, 1), (2**30, 2**18, 1), (2**30, 1, 2)):
            monkeypatch.setattr(probe_batch, "_CACHED", cached)
            monkeypatch.setattr(probe_batch, "_SMALL", small)
            torch.set_num_threads(workers)
            fits, _ = grid(x, y, folds, FAST.recipe)
            assert torch.get_num_threads() == workers
            schedules.append((fits.dev.tolist(), fits.evaluations.tolist()))
        monkeypatch.setattr(probe_batch.Trainer, "_launch_bound", lambda self: True)
        fits, _ = grid(x, y, folds, FAST.recipe)
        schedules.append((fits.dev.tolist(), fits.evaluations.tolist()))
    finally:
        torch.set_num_threads(threads)
    assert schedules[0] == schedules[1] == schedules[2] == schedules[3]


@pytest.mark.slow
def test_memory_of_mr_at_768_dimensions() -> None:
    """All 400 inner fits at once, where memory is at its peak, in a process of its own: far below 4 GB."""
    code = """if True:
        from dataclasses import replace
        import numpy as np
        from benchmark.metrics.probe.protocol import FULL, nested
        from zoo.machine import peak_memory_mb
        x = np.random.RandomState(0).randn(10662, 768).astype(np.float32)
        nested(x, np.arange(10662) % 2, replace(FULL, recipe=replace(FULL.recipe, max_epoch=0)))
        print(peak_memory_mb("cpu"))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 300 < float(done.stdout) < 1500


@pytest.mark.parametrize("model", [Linear(2), Linear(4), Hidden(2, 3), Hidden(4, 3)], ids=["l2", "l4", "h2", "h4"])
def test_gradients_are_those_of_autograd(model: Classifier) -> None:
    """Of the weighted mean cross-entropy plus half the penalty times all squared weights."""
    torch.manual_seed(1)
    folds, fits, batch, dim = 2, 3, 7, 5
    x = pad(torch.randn(folds * batch, dim).numpy(), "cpu").view(folds, batch, -1)
    labels = torch.randint(0, model.classes, (folds, batch))
    start = model.initial(dim, x.shape[2], 3)
    weights = [(w + 0.3 * torch.randn(folds, fits, *w.shape)).requires_grad_() for w in start]
    penalties = torch.rand(folds, fits)
    for scale in (1 / batch, torch.tensor([[1 / 4] * 4 + [0.0] * 3, [1 / 7] * 7])):
        scores = model.scores(weights, x)
        losses = -scores.log_softmax(2).gather(2, labels[:, None, None].expand(-1, fits, 1, -1))[:, :, 0]
        weighted = losses * (scale if isinstance(scale, float) else scale[:, None])
        norms = sum((w**2).flatten(2).sum(2) for w in weights)
        expected = torch.autograd.grad(weighted.sum() + (penalties / 2 * norms).sum(), weights)
        gradients = [torch.full_like(w, torch.nan) for w in weights]
        with torch.no_grad():
            model.gradients(weights, x, penalties, gradients)(model.targets(labels[None])[0], scale)
        for ours, theirs in zip(gradients, expected, strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-4)


def test_first_weights_are_torch_s_and_random_states_stay() -> None:
    """nn.Linear after torch.manual_seed(1111) to the bit; nobody else's random numbers change."""
    with torch.random.fork_rng():
        torch.manual_seed(1111)
        below, above = torch.nn.Linear(9, 4), torch.nn.Linear(4, 3)
    first, second, bias = Hidden(3, 4).initial(9, 16, 1111)
    assert torch.equal(first[:, :9], below.weight)
    assert torch.equal(first[:, 9], below.bias)
    assert not first[:, 10:].any()
    assert torch.equal(second, above.weight)
    assert torch.equal(bias[:, 0], above.bias)
    x, y = problem(60, 9, 2)
    state, legacy = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    cross_validated(x, y, 40, replace(FAST, folds=2))
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], legacy)  # noqa: NPY002


def test_the_penalty_is_chosen_as_senteval_does() -> None:
    """Means over folds x100, rounded to two decimals; the first of the best, which is the smallest penalty."""
    x, y = problem(20, 3, 2)
    ours = probe._Probe(x, y, FULL)
    assert ours.choose(np.array([[0.5, 0.7, 0.7, 0.6], [0.5, 0.7, 0.7, 0.6]])) == (1, 70.0)
    assert ours.choose(np.array([[0.70001, 0.70002, 0.70003, 0.70004]])) == (0, 70.0)
    assert ours.choose(np.array([[0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5002]])) == (3, 50.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", SENTEVAL["synthetic"]["cases"], ids=lambda c: f"{c['classes']}-{c['hidden']}-{c['setting']}"
)
def test_against_senteval_s_own_numbers(case: dict[str, Any]) -> None:
    """The three schemes on made-up vectors: SentEval's code gave exactly these accuracies."""
    x, y = problem(case["rows"], case["dim"], case["classes"])
    base = {"full": FULL, "fast": FAST}[case["setting"]]
    setting = replace(base, folds=SENTEVAL["synthetic"]["folds"], recipe=replace(base.recipe, hidden=case["hidden"]))
    half, three = case["rows"] // 2, case["rows"] * 3 // 4
    accuracies = {
        "nested": nested(x, y, setting),
        "cross_validated": cross_validated(x, y, three, setting),
        "split": split(x, y, half, case["rows"] // 4, setting),
    }
    for scheme, measured in accuracies.items():
        # One row more or less, for other processors round otherwise; where this was written all are equal.
        size = {"nested": case["rows"], "cross_validated": case["rows"] - three, "split": case["rows"] - half * 3 // 2}
        assert measured.accuracy == pytest.approx(case[scheme]["acc"], abs=1.5 * 100 / size[scheme]), scheme
        assert measured.dev_accuracy == pytest.approx(case[scheme]["devacc"], abs=0.5), scheme
    assert accuracies["nested"].parts == pytest.approx(
        case["nested"]["folds"], abs=1.5 * 100 * setting.folds / case["rows"]
    )


def test_pair_features() -> None:
    """[|u-v| ; u*v]."""
    u, v = np.array([[1, -2], [0, 3]], np.float32), np.array([[4, 5], [6, -1]], np.float32)
    assert probe.pair_features(u, v).tolist() == [[3, 7, 4, -10], [6, 4, 0, -3]]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gives_the_same() -> None:
    """All folds in one block on a GPU; within a row or two of the CPU."""
    x, y = problem(600, 24, 3)
    for setting in (replace(FAST, folds=4), replace(FULL, folds=4)):
        ours, theirs = nested(x, y, setting, "cuda"), nested(x, y, setting, "cpu")
        assert ours.accuracy == pytest.approx(theirs.accuracy, abs=0.5)
        assert ours.dev_accuracy == pytest.approx(theirs.dev_accuracy, abs=0.5)
