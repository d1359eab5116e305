"""A training stops, goes on and is finished at any length, and always ends bit-equal to one that was never stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_pretraining import same, small, train

from zoo.errors import Interrupted, UsageError
from zoo.pretraining.recipe import PretrainRecipe, rate_factor, stages

pytestmark = pytest.mark.slow

KINDS = {
    "adamw": small(),
    "muon": small(optimizer="muon"),
    "rows of two lengths": small(row_stages=((10, 32),)),
    "whole softmax, dropout": small(vocabulary_loss="full", dropout=0.1, last_layer="everywhere"),
    "shared layers": small(architecture="albert", tokenizer="unigram", embedding=8),
    "falling from the warm-up on": small(decay_steps=None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_killed_in_every_phase_it_ends_bit_equal(kind: str, tmp_path: Path) -> None:
    """Stopped in the warm-up, at the constant rate, where the rate begins to fall, and while it falls."""
    recipe = KINDS[kind]
    whole = train(tmp_path / "whole", recipe)
    for steps in (2, 9, 5, 4):
        with pytest.raises(Interrupted):
            train(tmp_path / "cut", recipe, stop_after=steps)
    facts = train(tmp_path / "cut", recipe)
    assert same(tmp_path / "whole" / "model", tmp_path / "cut" / "model")
    assert (whole["resumed"], facts["resumed"], facts["resumed_at"]) == (0, 4, [2, 11, 16, 20])
    assert facts["held_out_curve"] == whole["held_out_curve"] and len(whole["held_out_curve"]) == 2


def test_killed_without_a_signal_it_ends_bit_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by SIGKILL: nothing is saved at that moment, and the last checkpoint is some steps old."""
    from zoo.pretraining.run import PretrainTraining

    train(tmp_path / "whole")
    step = PretrainTraining.one_step

    def killed(self: PretrainTraining, rows: object) -> float:
        if self.step == 19:
            raise KeyboardInterrupt
        return step(self, rows)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(PretrainTraining, "one_step", killed)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "cut", every=6)
    assert train(tmp_path / "cut", every=6)["resumed_at"] == [18]
    assert same(tmp_path / "whole" / "model", tmp_path / "cut" / "model")


def test_finished_early_it_is_a_training_of_that_length(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train(tmp_path / "early", stop_after=10)
    with pytest.raises(Interrupted):
        train(tmp_path / "early", finish=6, stop_after=3)
    facts = train(tmp_path / "early", finish=6)
    assert facts["steps"] == 16
    planned = train(tmp_path / "planned", small(steps=16, decay_steps=6))
    assert same(tmp_path / "early" / "model", tmp_path / "planned" / "model")
    assert facts["recipe"] == planned["recipe"]


def test_after_it_was_finished_it_goes_on_at_the_full_rate(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train(tmp_path / "on", stop_after=10)
    train(tmp_path / "on", finish=4)
    train(tmp_path / "on", finish=6)  # another fall from the same step
    train(tmp_path / "short", small(steps=16, decay_steps=6))
    assert same(tmp_path / "on" / "model", tmp_path / "short" / "model")
    train(tmp_path / "on")
    train(tmp_path / "whole")
    assert same(tmp_path / "on" / "model", tmp_path / "whole" / "model")
    train(tmp_path / "on")  # given once more, it falls again from where it began to
    assert same(tmp_path / "on" / "model", tmp_path / "whole" / "model")


def test_a_kept_state_is_finished_from_there(tmp_path: Path) -> None:
    tokens = 10 * 8 * 16
    facts = train(tmp_path / "long", keep_at=(tokens,), keep_state=True)
    assert facts["steps"] == 24
    kept = tmp_path / "long" / "model" / "kept" / "model-1280"
    stated = json.loads((kept / "pretraining.json").read_text())
    assert (stated["steps"], stated["tokens_seen"], stated["recipe"]["decay_steps"]) == (10, tokens, 0)
    train(tmp_path / "constant", small(steps=10, decay_steps=0))
    assert same(kept, tmp_path / "constant" / "model")
    kept.parent.rename(tmp_path / "kept")
    (tmp_path / "kept" / "model-1280").rename(tmp_path / "kept" / "model")
    train(tmp_path / "kept", finish=6)
    train(tmp_path / "planned", small(steps=16, decay_steps=6))
    assert same(tmp_path / "kept" / "model", tmp_path / "planned" / "model")


def test_keeping_models_changes_nothing(tmp_path: Path) -> None:
    train(tmp_path / "plain", small(dropout=0.1))
    train(tmp_path / "kept", small(dropout=0.1), keep_at=(1000, 2000))
    assert same(tmp_path / "plain" / "model", tmp_path / "kept" / "model")
    assert sorted(p.name for p in (tmp_path / "kept" / "model" / "kept").iterdir()) == ["model-1K", "model-2K"]


def test_what_cannot_be_finished_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no checkpoint to finish from"):
        train(tmp_path, finish=3)
    with pytest.raises(UsageError, match="no decay_steps"):
        train(tmp_path, small(decay_steps=None), finish=3)
    with pytest.raises(Interrupted):
        train(tmp_path, stop_after=12)
    with pytest.raises(UsageError, match=r"step 12, past step 6 .*--finish"):
        train(tmp_path, small(steps=14))
    train(tmp_path, finish=4)
    with pytest.raises(UsageError, match="falls from step 12 to 16"):
        train(tmp_path, small(steps=14))


def test_a_folder_of_another_training_is_not_gone_on_with(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train(tmp_path, stop_after=3)
    with pytest.raises(UsageError, match=r"another learning_rate \(0.01, not 0.5\)"):
        train(tmp_path, small(learning_rate=0.5))


def test_the_rate_rises_stays_and_falls() -> None:
    rates = [rate_factor(step, 4, 16, 24) for step in range(25)]
    assert rates[:5] == [0, 0.25, 0.5, 0.75, 1] and set(rates[4:17]) == {1}
    assert rates[16:] == [1 - step / 8 for step in range(9)]
    from torch import nn
    from torch.optim import SGD
    from transformers import get_linear_schedule_with_warmup

    linear = get_linear_schedule_with_warmup(SGD(nn.Linear(1, 1).parameters(), lr=1.0), 4, 24).lr_lambdas[0]
    assert [rate_factor(step, 4, 4, 24) for step in range(25)] == [linear(step) for step in range(25)]


def test_longer_rows_are_fewer() -> None:
    found = stages(PretrainRecipe(row_length=64, batch_rows=32, row_stages=((10, 128), (20, 512))))
    assert [(stage.first_step, stage.length, stage.batch) for stage in found] == [
        (0, 64, 32),
        (10, 128, 16),
        (20, 512, 4),
    ]
