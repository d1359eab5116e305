"""Alignment and uniformity during training: from a real run, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from fakes import Cli, make_record

from benchmark.records.folder import Records
from zoo.errors import MissingError
from zoo_bench_papers.analysis.trajectory import analyse_trajectory

pytestmark = pytest.mark.slow


def test_the_chart_holds_every_evaluation_of_every_method(cli: Cli, tiny_bert: Path, tmp_path: Path) -> None:
    methods = "simcse:eval_every=1:batch_size=16,moco:eval_every=1:batch_size=16:queue_size=32"
    arguments = ("--methods", methods, "--tasks", "pocket-pairs", "--seeds", 1, "--train-sentences", 96)
    answer = cli(
        "run", *arguments, "--backbone", tiny_bert, "--results", tmp_path, "--device", "cpu", "--precision", "fp32"
    )
    assert answer.code == 0, answer.err
    shown = ("--methods", methods, "--results", tmp_path, "--suite", "pocket", "--out", tmp_path / "chart")
    answer = cli("analyze", "trajectory", *shown)
    assert answer.code == 0, answer.err
    with (tmp_path / "chart" / "trajectory-points.csv").open(encoding="utf-8") as file:
        points = list(csv.DictReader(file))
    assert [(point["Method"].split(":")[0], int(point["Step"])) for point in points] == [
        (name, step) for name in ("simcse", "moco") for step in range(1, 7)
    ]
    record = next(r for r in Records(tmp_path).all() if r["method"]["name"].startswith("simcse"))
    curve = record["training"]["dev_curves"]["alignment"]
    assert [float(p["Alignment"]) for p in points[:6]] == pytest.approx([curve[str(s)] for s in range(1, 7)], rel=1e-5)
    ends = json.loads((tmp_path / "chart" / "trajectory.json").read_text(encoding="utf-8"))["tables"]["trajectory"][
        "rows"
    ]
    assert [(row["Evaluation"], row["Step"]) for row in ends if row["Evaluation"] != "best dev score"] == [
        ("first", 1), ("last", 6), ("first", 1), ("last", 6),
    ]  # fmt: skip
    best = max(record["training"]["dev_scores"].items(), key=lambda item: item[1])
    assert next(row for row in ends if row["Evaluation"] == "best dev score")["Step"] == int(best[0])
    assert (tmp_path / "chart" / "trajectory.png").stat().st_size > 1000


def test_training_with_few_evaluations_is_refused_with_remedy() -> None:
    record = make_record("simcse", "STS-B-dev")
    record["training"] = {
        "dev_curves": {"alignment": {"100": 0.1, "200": 0.1}, "uniformity": {"100": -2.0, "200": -2.1}}
    }
    with pytest.raises(MissingError, match=r"2 evaluations of 200 steps.*--methods simcse:eval_every=5"):
        analyse_trajectory({"simcse": [record]})
    with pytest.raises(MissingError, match="hold no alignment"):
        analyse_trajectory({"cls": [make_record("cls", "STS-B-dev")]})
