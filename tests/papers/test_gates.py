"""What untrained rows have to show on a backbone before a claim that presupposes it has a verdict there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import make_record
from scipy import stats
from test_claims import read

from benchmark.records.folder import Records
from benchmark.records.record import main_score
from benchmark.tasks.suites import suite
from zoo.files import write_signed
from zoo_bench_papers.answers import CONFIRMED, NOT_MEASURED, UNTESTABLE
from zoo_bench_papers.claims import all_claims
from zoo_bench_papers.verdicts import Verdict, verdicts

# By how much noise a row's cosines follow the gold scores.
CLOSE, FAR = 0.3, 1.5


def add(store: Records, name: str, noise: float, seeds: tuple[int | None, ...] = (None,), **recipe: object) -> None:
    for number, task in enumerate(suite("sts").tasks):
        gold = np.round(np.random.default_rng(number).uniform(0, 5, 80), 1)
        for seed in seeds:
            drawn = np.random.default_rng([number, len(name), 7 if seed is None else seed])
            predicted = gold + noise * drawn.normal(size=80)
            record = make_record(name, task, seed, main=float(stats.spearmanr(predicted, gold).statistic))
            record["method"]["recipe"] = recipe
            record["training"] = None if seed is None else {"steps": 9}
            store.write(record, (predicted, gold))


def verdict_of(folder: Path, monkeypatch: pytest.MonkeyPatch, **claim: Any) -> Verdict:
    of = read(folder, on=["sts"], published=None, **claim)
    monkeypatch.setattr("zoo_bench_papers.verdicts.all_claims", lambda: (of,))
    store = Records(folder)
    (verdict,) = verdicts(folder, store, store.all())
    return verdict


def of_prompts(folder: Path, monkeypatch: pytest.MonkeyPatch, **untrained: float) -> Verdict:
    store = Records(folder)
    add(store, "promptbert-repo", CLOSE, (0, 1, 2), template="[X] means [MASK]")
    add(store, "simcse", FAR, (0, 1, 2))
    for name, noise in untrained.items():
        add(store, name.replace("_", "-"), noise)
    return verdict_of(folder, monkeypatch, contrasts=[["promptbert-repo", "simcse"]])


def test_trained_templates_say_something_where_an_untrained_one_is_not_below_the_average(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, (template, average) in enumerate([(CLOSE, FAR), (FAR, CLOSE)]):
        folder = tmp_path / str(place)
        folder.mkdir()
        verdict = of_prompts(folder, monkeypatch, prompt_repo=template, avg_last=average)
        assert verdict.word == (CONFIRMED if template == CLOSE else UNTESTABLE)
    records = [(record["method"]["name"], 100 * main_score(record)) for record in Records(folder).all()]
    scores = [np.mean([score for of, score in records if of == name]) for name in ("prompt-repo", "avg-last")]
    assert f"prompt-repo {scores[0]:.2f}, avg-last {scores[1]:.2f} on sts" in verdict.reason
    assert "promptbert-repo - simcse" in verdict.ours(), "shown, and decides nothing"


@pytest.mark.parametrize("untrained", [{}, {"prompt_repo": CLOSE}, {"avg_last": FAR}, {"static_avg": FAR}])
def test_a_gate_without_its_rows_is_said(
    untrained: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = of_prompts(tmp_path, monkeypatch, **untrained)
    assert (verdict.word, verdict.deciding) == (NOT_MEASURED, [])
    assert "gate not measured: needs rows prompt-repo or prompt, and avg-last, on sts" in verdict.text()
    assert verdict.command.endswith("--suite sts --methods prompt-repo,avg-last")


def test_a_claim_without_templates_asks_no_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Records(tmp_path)
    add(store, "moco", CLOSE, (0, 1, 2))
    add(store, "simcse", FAR, (0, 1, 2))
    verdict = verdict_of(tmp_path, monkeypatch, contrasts=[["moco", "simcse"]])
    assert (verdict.word, verdict.gate) == (CONFIRMED, "")


def of_flow(folder: Path, monkeypatch: pytest.MonkeyPatch, cosine: float | None, **presupposes: str) -> Verdict:
    store = Records(folder)
    add(store, "flow-target", CLOSE, (0, 1, 2))
    add(store, "avg-top2", FAR)
    if cosine is not None:
        row = {"Method": "avg-last", "Backbone": "tiny", "Seed": None, "Sentence anisotropy": cosine}
        write_signed(folder / "analyses" / "anisotropy.json", {"tables": {"anisotropy": {"rows": [row]}}})
    return verdict_of(folder, monkeypatch, contrasts=[["flow-target", "avg-top2"]], **presupposes)


@pytest.mark.parametrize(
    ("cosine", "word", "part"),
    [
        (0.02, UNTESTABLE, "nearly isotropic here: mean cosine of avg-last 0.02, of bert-base-uncased 0.49"),
        (0.24, UNTESTABLE, "nearly isotropic here: mean cosine of avg-last 0.24, of bert-base-uncased 0.49"),
        (0.25, CONFIRMED, "mean cosine of avg-last 0.25, of bert-base-uncased 0.49 (PromptBERT, table 1)"),
        (0.95, CONFIRMED, "mean cosine of avg-last 0.95, of bert-base-uncased 0.49 (PromptBERT, table 1)"),
        (None, NOT_MEASURED, "gate not measured: needs the mean cosine of avg-last"),
    ],
)
def test_flow_and_whitening_need_vectors_that_point_into_one_direction(
    cosine: float | None, word: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = of_flow(tmp_path, monkeypatch, cosine, presupposes="anisotropy")
    assert verdict.word == word
    assert part in f"{verdict.text()}: {verdict.reason}"
    assert ("zoo-bench analyze anisotropy --methods avg-last --backbone tiny" in verdict.command) == (cosine is None)
    assert of_flow(tmp_path, monkeypatch, cosine).word == CONFIRMED, "another claim asks nothing"


def test_claims_that_presuppose_anisotropy_are_those_of_maps_that_remove_it() -> None:
    of = {claim.id for claim in all_claims() if claim.presupposes == "anisotropy"}
    assert {"flow-lifts-the-average", "whitening-lifts-the-average"} <= of
    maps = ("flow", "whitening")
    for claim in all_claims():
        assert claim.presupposes != "anisotropy" or any(
            name.startswith(maps) for pair in claim.pairs() for name in pair
        )
