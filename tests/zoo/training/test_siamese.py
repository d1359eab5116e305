"""Siamese training: the loss of each task in numpy, the turns of the tasks, what is held out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from zoo.encoder import Corpus, Run, Runtime
from zoo.engine.tokens import TokenTable
from zoo.errors import ContractError, TrainingError
from zoo.files import hash_fraction
from zoo.training.settings import TrainSettings
from zoo.training.siamese import (
    FastLinear,
    PairObjective,
    PairTask,
    accuracy,
    held_out_by_first,
    labelled_task,
    pair_batches,
    task_of_step,
    train_by_accuracy,
    train_in_turn,
    width_of,
)

WANTED = {
    "u;v": lambda u, v: [u, v],
    "|u-v|": lambda u, v: [np.abs(u - v)],
    "u*v": lambda u, v: [u * v],
    "u;v;|u-v|": lambda u, v: [u, v, np.abs(u - v)],
    "u;v;u*v": lambda u, v: [u, v, u * v],
    "|u-v|;u*v": lambda u, v: [np.abs(u - v), u * v],
    "u;v;|u-v|;u*v": lambda u, v: [u, v, np.abs(u - v), u * v],
}


class Bag(nn.Module):
    """The mean of token vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(40, 6)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        weights = attention_mask.unsqueeze(-1).float()
        return (self.tokens(input_ids) * weights).sum(1) / weights.sum(1)


def table_of(texts: int, seed: int = 0) -> TokenTable:
    lengths = np.random.default_rng(seed).integers(1, 5, texts)
    ids = np.random.default_rng(seed + 1).integers(1, 40, lengths.sum()).astype(np.int32)
    return TokenTable(ids, np.concatenate([[0], np.cumsum(lengths)]))


def task_of(name: str, rows: int, first: int, classes: int = 3) -> PairTask:
    """Pairs of the texts from number `first` on."""
    texts = first + np.arange(2 * rows)
    return PairTask(name, classes, texts[::2], texts[1::2], np.arange(rows) % classes)


def objective_of(tasks: list[PairTask], how: Any = "u;v;|u-v|") -> PairObjective:
    torch.manual_seed(0)
    return PairObjective(Bag(), [nn.Linear(6 * width_of(how), t.classes, bias=False) for t in tasks], how)


@pytest.mark.parametrize("how", WANTED)
@pytest.mark.parametrize("number", [0, 1])
def test_the_loss_of_each_task_equals_numpy(how: Any, number: int) -> None:
    """-log softmax(W_t^T f)_label, mean over the pairs; W_t is that of the pairs' task."""
    tasks = [task_of("a", 5, 0), task_of("b", 4, 10, classes=2)]
    table, objective = table_of(18), objective_of(tasks, how)
    rows = np.arange(5) if number == 0 else 5 + np.array([3, 0, 2])
    loss = float(objective(*pair_batches(tasks, table, 0)(rows)).detach())
    words, weight = (
        p.detach().double().numpy() for p in (objective.encoder.tokens.weight, objective.heads[number].weight)
    )
    total = 0.0
    for row in rows - 5 * number:
        task = tasks[number]
        u, v = (words[table.row(int(side[row]))].mean(0) for side in (task.first, task.second))
        scores = weight @ np.concatenate(WANTED[how](u, v))
        total -= scores[task.labels[row]] - np.log(np.exp(scores).sum())
    assert loss == pytest.approx(total / len(rows), abs=1e-6)


@pytest.mark.parametrize("bias", [False, True])
def test_a_faster_head_is_a_linear_map_with_its_own_rate(bias: bool) -> None:
    """Against Adam with the rate multiplied, on a plain linear map of the same start."""
    torch.manual_seed(4)
    plain = nn.Linear(6, 3, bias=bias).double()
    torch.manual_seed(4)
    fast = FastLinear(6, 3, bias=bias, rate=50).double()
    features, labels = torch.randn(20, 6, dtype=torch.float64), torch.arange(20) % 3
    rates = {plain: 50e-4, fast: 1e-4}
    start = plain(features)
    optimizers = [torch.optim.AdamW(m.parameters(), lr=rate, eps=0, weight_decay=0) for m, rate in rates.items()]
    for _ in range(30):
        torch.testing.assert_close(fast(features), plain(features), rtol=0, atol=1e-5)
        for head, optimizer in zip(rates, optimizers, strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(head(features), labels).backward()
            optimizer.step()
    assert (plain(features) - start).abs().max() > 0.1


def test_the_first_task_has_every_second_batch() -> None:
    assert [task_of_step(step, 3)[0] for step in range(8)] == [0, 1, 0, 2, 0, 1, 0, 2]
    assert [task_of_step(step, 2)[0] for step in range(4)] == [0, 1, 0, 1]
    assert [task_of_step(step, 1) for step in range(3)] == [(0, 0), (0, 1), (0, 2)]
    for tasks in (1, 2, 3, 4):
        before = [0] * tasks
        for step in range(50):
            task, count = task_of_step(step, tasks)
            assert count == before[task]
            before[task] += 1


class Spy:
    """Notes which rows of which task each step trained on, and the optimiser's settings."""

    def __init__(self, objective: PairObjective, tasks: list[PairTask], monkeypatch: pytest.MonkeyPatch) -> None:
        import zoo.training.siamese as module

        self.steps: list[tuple[int, list[int]]] = []
        self.groups: list[dict[str, Any]] = []
        ends = np.cumsum([0, *(len(task) for task in tasks)])
        make_batches = pair_batches

        def spied(*arguments: Any) -> Any:
            batch = make_batches(*arguments)

            def noted(rows: Any) -> Any:
                tensors = batch(rows)
                number = int(tensors[3][0])
                assert (tensors[3] == number).all()
                self.steps.append((number, (rows - ends[number]).tolist()))
                return tensors

            return noted

        monkeypatch.setattr(module, "pair_batches", spied)


SIZES = (10, 7, 5)


def trained(monkeypatch: pytest.MonkeyPatch, steps: int = 24, run: Run | None = None, **more: Any) -> tuple[Any, Spy]:
    starts = 2 * np.cumsum([0, *SIZES])
    tasks = [task_of(str(i), size, int(starts[i])) for i, size in enumerate(SIZES)]
    objective = objective_of(tasks)
    spy = Spy(objective, tasks, monkeypatch)
    hook = register_optimizer_step_pre_hook(
        lambda optimizer, *_: spy.groups.append({k: v for k, v in optimizer.param_groups[0].items() if k != "params"})
    )
    settings = TrainSettings(batch_size=4, learning_rate=0.1, epochs=1, eval_every=steps, steps=steps, **more)
    try:
        report = train_in_turn(
            objective, tasks, table_of(44), 0, settings, runtime=Runtime(),
            run=run or Run(seed=5), backbone=objective.encoder, dev_score=None,
        )  # fmt: skip
    finally:
        hook.remove()
    return (report, objective), spy


def test_every_task_is_trained_in_turn_in_its_own_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    (report, _), spy = trained(monkeypatch)
    assert [number for number, _ in spy.steps] == [0, 1, 0, 2] * 6
    for task, size in enumerate(SIZES):
        batches = [rows for number, rows in spy.steps if number == task]
        of_epoch = -(-size // 4)
        starts = range(0, len(batches) - of_epoch + 1, of_epoch)
        epochs = [[row for batch in batches[i : i + of_epoch] for row in batch] for i in starts]
        assert len(epochs) >= 2
        for epoch in epochs:
            assert sorted(epoch) == list(range(size))
        assert epochs[0] != epochs[1]
    assert report.sentences == 2 * sum(len(rows) for _, rows in spy.steps)


@pytest.mark.parametrize("accuracies", [[50.0, 40.0, 60.0, 55.0], [50.0, 60.0, 10.0], [30.0, 20.0, 10.0, 5.0, 1.0]])
def test_an_epoch_s_accuracy_sets_the_rate_of_the_next_one(accuracies: list[float]) -> None:
    """Halved where it fell, as far as it ends below the least rate; both texts of each pair are counted."""

    def rate_after(known: Sequence[float]) -> float:
        return 0.1 * 0.5 ** sum(after < before for before, after in itertools.pairwise(known))

    tasks, rates, least = [task_of("a", 10, 0)], list[float](), 0.02
    objective, scores = objective_of(tasks), iter(accuracies)
    hook = register_optimizer_step_pre_hook(lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"]))
    settings = TrainSettings(
        batch_size=4, learning_rate=0.1, epochs=len(accuracies), eval_every=3, units_per_row=2, schedule="constant"
    )
    try:
        report = train_by_accuracy(
            objective, pair_batches(tasks, table_of(20), 0), 10, settings, rate_after, least, lambda: next(scores),
            runtime=Runtime(), run=Run(seed=5), backbone=objective.encoder,
        )  # fmt: skip
    finally:
        hook.remove()
    expected = [rate_after(accuracies[:epoch]) for epoch in range(len(accuracies))]
    expected = [rate for rate in expected if rate >= least]
    assert rates == pytest.approx(np.repeat(expected, 3).tolist())
    assert report.sentences == 2 * 10 * len(expected)


def test_a_task_is_made_of_the_pairs_with_its_labels() -> None:
    corpus = Corpus("x", list("abcdefgh"), ["no", "other", "yes", "no"])
    task = labelled_task("T", corpus, ("yes", "no"), "--pairs y")
    assert [corpus.sentences[i] for i in task.first] == ["a", "e", "g"]
    assert [corpus.sentences[i] for i in task.second] == ["b", "f", "h"]
    assert task.labels.tolist() == [1, 0, 1] and task.classes == 2
    with pytest.raises(TrainingError, match="x is labelled maybe: T needs --pairs y"):
        labelled_task("T", corpus, ("maybe",), "--pairs y")
    with pytest.raises(TrainingError, match="every pair of x is labelled no"):  # as in a file of pairs without labels
        labelled_task("T", Corpus("x", list("abcd"), ["no", "no"]), ("yes", "no"), "--pairs y")
    for none in (None, Corpus("x", ["a"])):
        with pytest.raises(ContractError, match="--pairs y"):
            labelled_task("T", none, ("yes",), "--pairs y")


def test_pairs_are_held_out_by_their_first_text() -> None:
    corpus = Corpus("x", [text for i in range(60) for text in (f"premise {i % 20}", f"h {i}")], ["yes"] * 60)
    task = labelled_task("T", corpus, ("yes",), "", several=False)
    train, out = held_out_by_first(task, corpus, 0.21)
    firsts = [{corpus.sentences[i] for i in part.first} for part in (train, out)]
    assert not firsts[0] & firsts[1] and len(train) + len(out) == 60
    assert sorted(firsts[1]) == sorted(sorted({f"premise {i}" for i in range(20)}, key=hash_fraction)[:5])
    assert len(held_out_by_first(task, corpus, 1e-9)[1]) == 3  # one premise at least
    with pytest.raises(TrainingError, match="single premise"):
        held_out_by_first(
            labelled_task("T", Corpus("x", ["a", "b"], ["yes"]), ("yes",), "", several=False),
            Corpus("x", ["a", "b"]),
            0.1,
        )


def test_accuracy_counts_what_is_classified_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.training.siamese._EVALUATED", 3)
    tasks, table = [task_of("a", 10, 0)], table_of(20)
    objective, batch = objective_of(tasks), pair_batches(tasks, table, 0)
    logits = objective.logits(*batch(np.arange(10))[:2], 0).detach().numpy()
    wanted = 100 * float((logits.argmax(1) == tasks[0].labels).mean())
    assert 0 < wanted < 100 and accuracy(objective, batch, 10, "cpu") == pytest.approx(wanted)
