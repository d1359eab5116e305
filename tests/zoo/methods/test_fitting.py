"""The contract of every method that learns: a stopped fit ends as a whole one, bit for bit, and is saved whole."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_golden import BUILT_IN, corpus_for, fixed_bert, small, stated

import zoo
from zoo.check import PROBES
from zoo.encoder import Encoder, FitReport, Run
from zoo.errors import Interrupted
from zoo.plugins import METHODS

SAME = ("steps", "sentences", "final_loss", "dev_scores", "best_step")
# More than the settings of the golden vectors: where a part of the state is not there otherwise.
MORE: dict[str, dict[str, Any]] = {
    "ct": {"steps": 6},
    "flow": {"epochs": 1.0, "learning_rate": 1e-3},
    "moco": {"augment": ("substitute:0.3", "crop:0.2")},  # drawn by step
    "static": {"remove": "freq", "frequent": 5},
    "static-contrastive": {"steps": 6},
    "sif": {"weighting": "usif", "fit_on": "corpus"},
    "sif-tokens": {"fit_on": "corpus"},
}


def learns(name: str) -> bool:
    cls = METHODS.get(name)
    traits = cls.traits(cls.Recipe(**MORE.get(name, {})))
    return traits.needs_corpus or traits.needs_pairs


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fixed_bert(tmp_path_factory.mktemp("fixed") / "bert")


def make_encoder(name: str, backbone: Path) -> Encoder:
    settings = {**stated()[name].get("settings", {}), **MORE.get(name, {})}
    if "eval_every" in METHODS.get(name).Recipe.__dataclass_fields__:
        settings["eval_every"] = 2
    return small(name, backbone, **settings)


def dev_score(encoder: Encoder) -> float:
    """Any number that depends on the weights."""
    return float(encoder.encode(PROBES[:2])[0].sum())


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in BUILT_IN if learns(name)])
def test_a_stopped_fit_ends_as_a_whole_one_and_is_saved(name: str, backbone: Path, tmp_path: Path) -> None:
    full = make_encoder(name, backbone)
    corpus, before, asked = corpus_for(full), full.fingerprint(), 0

    def count() -> None:
        nonlocal asked
        asked += 1

    def fitted(folder: str, stop: Any) -> tuple[Encoder, FitReport]:
        encoder = make_encoder(name, backbone)
        run = Run(tmp_path / folder, seed=3, stop_signal=stop)
        return encoder, encoder.fit(corpus, dev_score=dev_score, run=run)

    full, wanted = fitted("whole", count)
    assert wanted.fitted and full.fingerprint() != before
    result = full
    if wanted.steps:
        for part in (asked // 4, asked // 2):  # of a method with two trainings, one stop is in each
            steps = iter([None] * part)
            with pytest.raises(Interrupted):
                fitted("cut", lambda steps=steps: next(steps, signal.SIGTERM))
        torch.manual_seed(999)  # whatever the new process did before
        result, report = fitted("cut", lambda: None)
        assert {key: getattr(report, key) for key in SAME} == {key: getattr(wanted, key) for key in SAME}
        assert result.fingerprint() == full.fingerprint()
    zoo.save(result, tmp_path / "saved")
    again = zoo.load(tmp_path / "saved")
    assert again.fingerprint() == full.fingerprint() and again.facts() == full.facts()
    np.testing.assert_array_equal(again.encode(PROBES), full.encode(PROBES))
