"""The training loop: a killed training ends bit-equal, evaluation leaves no trace, optimisation is as stated."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn

from zoo.encoder import Corpus, Encoder, Run, Runtime
from zoo.errors import CorruptError, Interrupted, TrainingError, ZooError
from zoo.methods.contrastive import Contrastive
from zoo.methods.ptbert import PTBert
from zoo.methods.simcse import SimCSE
from zoo.training.loop import Objective, train
from zoo.training.settings import TrainSettings

BATCH = 8


@pytest.fixture
def corpus(pocket_sentences: list[str]) -> Corpus:
    """Two epochs of six steps, the last batch of each smaller."""
    return Corpus("pocket", pocket_sentences[: 6 * BATCH - 3])


def make(cls: type[Contrastive], folder: Path) -> Contrastive:
    extra = {"pseudo_tokens": 4, "queue_size": 20, "attention_dropout": 0.1} if cls is PTBert else {}
    return cls(
        cls.Recipe(backbone=str(folder), batch_size=BATCH, epochs=2, eval_every=4, learning_rate=1e-3, **extra),
        Runtime(),
    )


def stop_after(steps: int) -> Callable[[], int | None]:
    """Ask to stop once `steps` more steps are done (the loop asks before each step)."""
    asked = 0

    def signal_number() -> int | None:
        nonlocal asked
        asked += 1
        return signal.SIGTERM if asked > steps else None

    return signal_number


def dev_score(encoder: Encoder) -> float:
    """Any number that depends on the weights."""
    return float(encoder.encode(["a dog", "the market"])[0].sum())


def log_of(folder: Path) -> list[str]:
    return (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()


def weights(encoder: Contrastive) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in encoder.backbone.model.state_dict().items()}


def assert_equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    assert a.keys() == b.keys()
    different = [name for name in a if not torch.equal(a[name], b[name])]
    assert not different


@pytest.mark.slow
def test_killed_after_a_newer_best_file_resumes_bit_equal(tiny_bert: Path, tmp_path: Path, corpus: Corpus) -> None:
    """Killed between the best file of step 8 and the next checkpoint: the one on disk is of step 6, its best of 4."""
    scores = {4: 1.0, 8: 2.0, 12: 1.5}

    def scripted() -> Callable[[Encoder], float]:
        values = iter(scores.values())
        return lambda encoder: next(values)

    uninterrupted = make(SimCSE, tiny_bert)
    uninterrupted.fit(corpus, dev_score=scripted(), run=Run(folder=tmp_path / "whole", seed=1))

    class Killed(BaseException):
        pass

    steps = 0

    def kill_before_step_ten() -> int | None:
        nonlocal steps
        steps += 1
        if steps == 10:
            raise Killed
        return None

    folder = tmp_path / "cut"
    with pytest.raises(Killed):
        make(SimCSE, tiny_bert).fit(
            corpus,
            dev_score=scripted(),
            run=Run(folder=folder, seed=1, checkpoint_steps=6, stop_signal=kill_before_step_ten),
        )
    # That of step 8 would have been written with the next checkpoint.
    assert (folder / "best-4.safetensors").exists() and not (folder / "best-8.safetensors").exists()
    with safe_open(folder / "checkpoint.safetensors", framework="pt") as file:
        assert json.loads(file.metadata()["facts"])["step"] == 6
    resumed = make(SimCSE, tiny_bert)
    rest = iter([scores[8], scores[12]])
    report = resumed.fit(corpus, dev_score=lambda e: next(rest), run=Run(folder=folder, seed=1, checkpoint_steps=6))
    assert_equal(weights(resumed), weights(uninterrupted))
    assert log_of(folder) == log_of(tmp_path / "whole")
    assert report.best_step == 8


@pytest.mark.slow
def test_best_checkpoint_is_the_one_kept(tiny_bert: Path, tmp_path: Path, corpus: Corpus) -> None:
    seen: dict[int, dict[str, torch.Tensor]] = {}
    values = iter([0.1, 0.9, 0.5])
    encoder = make(SimCSE, tiny_bert)

    def scripted(e: Encoder) -> dict[str, float]:
        assert e is encoder
        seen[4 * (len(seen) + 1)] = weights(encoder)
        return {"score": next(values), "alignment": 1.0 / len(seen)}

    report = encoder.fit(corpus, dev_score=scripted, run=Run(folder=tmp_path, seed=1))
    assert report.best_step == 8
    assert report.dev_scores == {"4": 0.1, "8": 0.9, "12": 0.5}
    assert report.dev_curves == {"alignment": {"4": 1.0, "8": 1 / 2, "12": 1 / 3}}
    assert_equal(weights(encoder), seen[8])
    assert any(not torch.equal(seen[8][name], seen[12][name]) for name in seen[8])
    assert not encoder.backbone.model.training


@pytest.mark.parametrize(
    ("rows_of_batch", "steps"), [(10, ["4", "8", "12", "15"]), (50, ["1", "2", "3"]), (5, ["8", "15", "23", "30"])]
)
def test_looks_are_at_equal_parts_of_the_training(rows_of_batch: int, steps: list[str]) -> None:
    """Of 15, 3 and 30 steps; `eval_every` and the ends of the epochs have no part in it."""
    for more in ({"eval_every": 1}, {"eval_every": 1000}, {"eval_within_epochs": True}):
        report = fit(Regression(1.0), score=lambda: 0.5, batch_size=rows_of_batch, looks=4, **more)
        assert list(report.dev_scores) == steps


# A small objective of our own: what the loop does can be followed by hand.


class Regression(Objective):
    """Squared error of a linear map; `scale` makes its gradients large; dropout makes it use the random state."""

    def __init__(self, scale: float = 1.0, dropout: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3, 1)
        self.scale, self.dropout = scale, nn.Dropout(dropout)
        self.seen: list[int] = []

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.seen.append(len(x))
        return self.scale * ((self.linear(self.dropout(x)) - y) ** 2).mean()


ROWS = 50
DATA = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(1))
TARGET = DATA @ torch.tensor([[1.0], [-2.0], [0.5]])


def collate(rows: Any) -> tuple[torch.Tensor, ...]:
    index = torch.from_numpy(np.asarray(rows))
    return DATA[index], TARGET[index]


def fit(
    objective: Objective,
    *,
    run: Run | None = None,
    score: Callable[[], float] | None = None,
    collating: Callable[[Any], tuple[torch.Tensor, ...]] = collate,
    precision: str = "fp32",
    **settings: Any,
) -> Any:
    chosen = {"batch_size": 10, "learning_rate": 0.05, "epochs": 3, "eval_every": 4, "log_every": 1, **settings}
    return train(
        objective,
        collating,
        ROWS,
        TrainSettings(**chosen),
        runtime=Runtime(precision=precision),
        run=run or Run(seed=1),
        backbone=objective,
        dev_score=score,
    )


@pytest.mark.parametrize(
    ("scale", "parts"),
    [(1.0, 1), (1000.0, 1), (1.0, 3)],
    ids=["small gradients", "clipped gradients", "batches in three unequal parts"],
)
def test_optimisation_equals_adamw_by_hand(tmp_path: Path, scale: float, parts: int) -> None:
    """AdamW (0.9, 0.999, 1e-8, no decay), norm clipped at 1, learning rate falling linearly to 0; in float64 numpy."""
    objective = Regression(scale)
    seen: list[int] = []

    def recorded(rows: Any) -> tuple[torch.Tensor, ...]:
        seen.extend(int(i) for i in rows)
        return collate(rows)

    w = objective.linear.weight.detach().double().numpy()[0].copy()
    b = objective.linear.bias.detach().double().numpy().copy()
    fit(objective, run=Run(folder=tmp_path, seed=1), collating=recorded, accumulate=parts)
    order = np.reshape(seen, (-1, 10))
    theta = np.concatenate([w, b])
    m, v = np.zeros(4), np.zeros(4)
    norms = []
    for step, rows in enumerate(order):
        x = np.concatenate([DATA[rows].double().numpy(), np.ones((len(rows), 1))], axis=1)
        error = x @ theta - TARGET[rows, 0].double().numpy()
        gradient = scale * 2 * (error[:, None] * x).mean(0)
        norms.append(np.linalg.norm(gradient))
        gradient = gradient * min(1.0, 1.0 / (norms[-1] + 1e-6))
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        rate = 0.05 * (15 - step) / 15
        theta -= rate * (m / (1 - 0.9 ** (step + 1))) / (np.sqrt(v / (1 - 0.999 ** (step + 1))) + 1e-8)
    assert max(norms) > 1 and len(order) == 15
    np.testing.assert_allclose(objective.linear.weight.detach().numpy()[0], theta[:3], atol=1e-5)
    np.testing.assert_allclose(objective.linear.bias.detach().numpy(), theta[3:], atol=1e-5)


def test_both_passes_of_the_gradient_cache_have_the_same_dropout() -> None:
    class InChunks(Regression):
        def embed(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            outputs.append(self.linear(self.dropout(tensors[0])))
            return outputs[-1], tensors[1]

        def contrast(self, *vectors: torch.Tensor) -> torch.Tensor:
            return ((vectors[0] - vectors[1]) ** 2).mean()

    outputs: list[torch.Tensor] = []
    fit(InChunks(dropout=0.5), epochs=1, chunk_rows=4)
    assert len(outputs) == 30  # five batches in three chunks, twice
    for step in range(0, 30, 6):
        for first, second in zip(outputs[step : step + 3], outputs[step + 3 : step + 6], strict=True):
            assert torch.equal(first, second)


def test_every_epoch_sees_every_row_once_in_a_new_order() -> None:
    order: list[int] = []

    def recorded(rows: Any) -> tuple[torch.Tensor, ...]:
        order.extend(int(i) for i in rows)
        return collate(rows)

    objective = Regression()
    fit(objective, collating=recorded, batch_size=12, epochs=2)
    first, second = order[:ROWS], order[ROWS:]
    assert sorted(first) == sorted(second) == list(range(ROWS))
    assert first != second and first != sorted(first)
    assert objective.seen == [12, 12, 12, 12, 2] * 2


def test_evaluation_leaves_loss_random_state_and_mode_alone(tmp_path: Path) -> None:
    """The evaluation draws from every generator, reseeds them, and switches modes."""
    plain, objective = Regression(dropout=0.5), Regression(dropout=0.5)
    modes: list[bool] = []

    def rude() -> float:
        modes.append(objective.linear.training)
        objective.dropout.train()
        torch.manual_seed(1111)
        np.random.seed(1111)  # noqa: NPY002
        random.seed(1111)
        return float(torch.rand(1))

    torch.manual_seed(7)
    fit(plain, run=Run(folder=tmp_path / "without", seed=1))
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    torch.manual_seed(7)
    fit(objective, run=Run(folder=tmp_path / "with", seed=1), score=rude, eval_every=3)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002
    assert modes == [False] * 5

    def losses(folder: Path) -> list[float]:
        return [line["loss"] for line in map(json.loads, log_of(folder)) if "loss" in line]

    assert losses(tmp_path / "with") == losses(tmp_path / "without")
    assert len(losses(tmp_path / "with")) == 15


def test_an_empty_corpus_is_told(tiny_bert: Path) -> None:
    with pytest.raises(TrainingError, match="corpus is empty"):
        make(SimCSE, tiny_bert).fit(Corpus("none", []), run=Run())
    with pytest.raises(ZooError, match="--corpus"):
        make(SimCSE, tiny_bert).fit(None, run=Run())


def test_a_checkpoint_of_another_training_says_what_to_delete(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        fit(Regression(), run=Run(folder=tmp_path, seed=1, stop_signal=stop_after(5)))
    other = Regression()
    other.linear = nn.Linear(4, 1)
    with pytest.raises(CorruptError, match=r"(?s)does not fit this training.*Delete"):
        fit(other, run=Run(folder=tmp_path, seed=1))


def test_checkpoints_hold_no_pickle_old_best_files_are_removed(tmp_path: Path) -> None:
    values = iter([1.0, 2.0, 3.0, 4.0])
    run = Run(folder=tmp_path, seed=1, checkpoint_steps=2)
    fit(Regression(), run=run, score=lambda: next(values))
    names = sorted(p.name for p in tmp_path.iterdir())
    assert set(names) >= {"checkpoint.safetensors", "log.jsonl"}
    assert all(name == "log.jsonl" or name.endswith(".safetensors") for name in names), names
    for path in tmp_path.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:  # the library's own reader
            assert len(list(file.keys())) > 0
    assert "best-4.safetensors" not in names and "best-12.safetensors" in names


def test_a_stop_before_the_first_step_resumes_to_the_whole_run(tmp_path: Path) -> None:
    uninterrupted, stopped, resumed = (Regression(dropout=0.5) for _ in range(3))
    torch.manual_seed(7)
    fit(uninterrupted)
    torch.manual_seed(7)
    with pytest.raises(Interrupted, match="at step 0"):
        fit(stopped, run=Run(folder=tmp_path, seed=1, stop_signal=stop_after(0)))
    torch.manual_seed(8)  # another process, another state
    fit(resumed, run=Run(folder=tmp_path, seed=1))
    assert_equal(resumed.state_dict(), uninterrupted.state_dict())


def test_a_log_without_a_checkpoint_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"old": 1}\n', encoding="utf-8")
    fit(Regression(), run=Run(folder=tmp_path, seed=1))
    assert not any("old" in line for line in log_of(tmp_path))
