"""SBERT: the pairs it trains on; BURT on NLI alone is the same training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from zoo.encoder import Corpus, FitReport, Run, Runtime
from zoo.errors import ContractError, TrainingError
from zoo.methods.sbert import SBERT

GOLDEN = {"sbert": {"version": 2, "values": [0.4799, -0.6471, 1.0, 0.4728, 0.2968, -0.1944, -1.0, -0.1293]}}

WORDS = "dog cat river stone lamp garden train letter bridge apple".split()


def nli(times: int = 1) -> Corpus:
    """Hypotheses that say so, do not, or speak of something else: separable."""
    rows = [
        (f"the {a} is near the {b}", hypothesis, label)
        for a, b in zip(WORDS, [*WORDS[1:], WORDS[0]], strict=True)
        for hypothesis, label in [
            (f"the {b} is near the {a}", "entailment"),
            (f"no {a} is near no {b}", "contradiction"),
            ("people like music", "neutral"),
        ]
    ] * times
    return Corpus("nli", [text for a, b, _ in rows for text in (a, b)], [label for *_, label in rows])


def test_phrase_pairs_are_left_out_and_no_nli_is_refused(tiny_bert: Path) -> None:
    encoder = SBERT(SBERT.Recipe(backbone=str(tiny_bert)), Runtime())
    pairs = nli()
    mixed = Corpus("m", [*pairs.sentences, "big dog", "large dog"], [*(pairs.labels or ()), "ppdb:entailment"])
    assert len(encoder.tasks(mixed, Run())[0]) == 30
    with pytest.raises(TrainingError, match="--pairs nli"):
        encoder.fit(Corpus("p", ["a", "b"], ["ppdb:entailment"]), run=Run())
    with pytest.raises(ContractError, match="--pairs nli"):
        encoder.fit(None, run=Run())


def test_the_checkpoint_is_picked_by_the_score_of_the_encoder(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr("zoo.methods.sbert.train_in_turn", lambda *_, **more: asked.update(more) or FitReport(True))
    encoder = SBERT(SBERT.Recipe(backbone=str(tiny_bert)), Runtime())
    encoder.fit(nli(), run=Run())
    assert asked["dev_score"] is None
    encoder.fit(nli(), dev_score=lambda scored: {"score": 7.0 if scored is encoder else 0.0}, run=Run())
    assert asked["dev_score"]() == {"score": 7.0}
