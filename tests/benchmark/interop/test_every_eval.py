"""Logs of Every Eval Ever: its field names, intervals around the scores, a line for each item, the same files again."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli, make_record

from benchmark.interop.scores import export_scores
from benchmark.metrics.items import items_part
from benchmark.records.folder import Records
from benchmark.stats.bootstrap import measured

# The fields that schema 0.3.0 asks for; it knows no others at the top of a log, and none in a line.
LOG = {
    "schema_version", "evaluation_id", "evaluation_timestamp", "retrieved_timestamp", "source_metadata", "eval_library",
    "model_info", "evaluation_results", "detailed_evaluation_results",
}  # fmt: skip
LINE = {
    "schema_version", "evaluation_id", "model_id", "evaluation_name", "evaluation_result_id", "sample_id",
    "interaction_type", "input", "output", "answer_attribution", "evaluation", "metadata",
}  # fmt: skip
PATH = re.compile(r"data/[^/]+/[^/]+/[^/]+/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
RIGHT = np.random.default_rng(4).random(90) < 0.8


def written(folder: Path) -> dict[str, Any]:
    """A folder with scored pairs of two seeds, an accuracy, a task that keeps no item, and a released encoder."""
    store, generator = Records(folder), np.random.default_rng(0)
    gold = np.repeat(np.arange(50.0), 5)
    scores = {}
    for seed in (0, 1):
        predicted = gold + generator.normal(0, 15, 250)
        scores[f"{seed}"] = main = float(measured(predicted[None], gold)[0])
        store.write(make_record("m", "STS12-raw", seed, main=main), (predicted, gold))
    items = items_part(RIGHT, ["a"] * 90)
    accuracy = {"main": float(RIGHT.mean()), "main_metric": "accuracy", "reason": None}
    store.write(make_record("m", "MR", 0, scores=accuracy, items=items))
    ndcg = {"main": 0.5, "main_metric": "ndcg_at_10", "reason": None, "mteb": {"default": {"main_score": 0.5}}}
    of_mteb = make_record("a/b", "mteb:ArguAna", scores={**ndcg, "split": "test"})
    of_mteb["task"] |= {"dataset": "mteb/arguana", "revision": "1" * 40}
    of_mteb["method"]["traits"]["released"], of_mteb["method"]["sources"] = True, {"backbone": {"name": "a/b"}}
    store.write(of_mteb)
    return scores


def logs(folder: Path) -> dict[str, Any]:
    contents = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("data/**/*.json"))]
    return {f"{log['model_info']['name']}, {log['model_info']['additional_details']['seed']}": log for log in contents}


def test_scores_have_their_intervals_and_every_field_that_is_asked_for(tmp_path: Path) -> None:
    mains = written(tmp_path / "results")
    export_scores("*", tmp_path / "out", tmp_path / "results")
    contents = logs(tmp_path / "out")
    assert set(contents) == {"m, 0", "m, 1", "a/b, None"}
    assert len({log["evaluation_id"] for log in contents.values()}) == 3
    for log in contents.values():
        assert log.keys() == LOG - {"detailed_evaluation_results"} and log["schema_version"] == "0.3.0"
        details = log["model_info"]["additional_details"]
        assert details["deployment_type"] == "self_deployed" and all(isinstance(text, str) for text in details.values())
        for result in log["evaluation_results"]:
            metric, score = result["metric_config"], result["score_details"]["score"]
            assert metric["min_score"] <= score <= metric["max_score"] and metric["lower_is_better"] is False
            assert result["source_data"]["source_type"] in ("other", "hf_dataset")
    by_task = {result["evaluation_name"]: result for result in contents["m, 0"]["evaluation_results"]}
    assert set(by_task) == {"zoo-bench.STS12-raw", "zoo-bench.MR"}
    for task, share in (("zoo-bench.STS12-raw", None), ("zoo-bench.MR", RIGHT.mean())):
        details = by_task[task]["score_details"]
        interval, error = (
            details["uncertainty"]["confidence_interval"],
            details["uncertainty"]["standard_error"]["value"],
        )
        assert details["score"] == pytest.approx(mains["0"] if share is None else share)
        assert interval["lower"] < details["score"] < interval["upper"] and interval["confidence_level"] == 0.95
        assert interval["upper"] - interval["lower"] == pytest.approx(3.92 * error, rel=0.1)
        if share is not None:
            assert error == pytest.approx(np.sqrt(share * (1 - share) / 90), rel=0.1)
    released = contents["a/b, None"]
    assert (
        released["model_info"]["id"] == "a/b" and released["source_metadata"]["evaluator_relationship"] == "third_party"
    )
    (result,) = released["evaluation_results"]
    assert "uncertainty" not in result["score_details"], "nothing is kept of its items"
    assert (result["evaluation_name"], result["source_data"]["hf_repo"]) == ("mteb.ArguAna", "mteb/arguana")


def test_a_line_for_each_item_and_the_same_bytes_again(tmp_path: Path, cli: Cli) -> None:
    written(tmp_path / "results")
    for out in ("one", "two"):
        answer = cli("export", "*", tmp_path / out, "--scores", "--samples", "--results", tmp_path / "results")
        assert answer.code == 0 and "5 files of Every Eval Ever" in answer.out, answer.err
    assert [path.relative_to(tmp_path / "one") for path in sorted((tmp_path / "one").rglob("*"))] == [
        path.relative_to(tmp_path / "two") for path in sorted((tmp_path / "two").rglob("*"))
    ]
    contents = logs(tmp_path / "one")
    assert "detailed_evaluation_results" not in contents["a/b, None"]
    for name, rows in (("m, 0", 340), ("m, 1", 250)):
        log, stated = contents[name], contents[name]["detailed_evaluation_results"]
        assert log.keys() == LOG and PATH.match(stated["file_path"]) and stated["total_rows"] == rows
        path = tmp_path / "one" / stated["file_path"]
        assert path.with_name(path.name.replace("_samples.jsonl", ".json")).is_file(), "one uuid, one folder"
        assert hashlib.sha256(path.read_bytes()).hexdigest() == stated["checksum"]
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert path.read_bytes() == (tmp_path / "two" / stated["file_path"]).read_bytes()
        assert len(lines) == rows == len({line["sample_id"] for line in lines})
        results = {result["evaluation_result_id"]: result["evaluation_name"] for result in log["evaluation_results"]}
        for line in lines:
            assert line.keys() == LINE and results[line["evaluation_result_id"]] == line["evaluation_name"]
            assert (line["evaluation_id"], line["model_id"]) == (log["evaluation_id"], log["model_info"]["id"])
        bits = [line["evaluation"] for line in lines if line["evaluation_name"] == "zoo-bench.MR"]
        assert not bits or [bit["is_correct"] for bit in bits] == [bit["score"] == 1 for bit in bits] == RIGHT.tolist()


def test_samples_go_with_scores(cli: Cli, tmp_path: Path) -> None:
    answer = cli("export", "m", tmp_path / "out", "--samples")
    assert answer.code == 2 and "--samples goes with --scores" in answer.err


def test_its_own_validator_finds_no_error(tmp_path: Path) -> None:
    validator = pytest.importorskip("every_eval_ever.validator", reason="pip install every-eval-ever")
    written(tmp_path / "results")
    export_scores("*", tmp_path, tmp_path / "results", samples=True)
    files = {path.relative_to(tmp_path).as_posix(): path for path in (tmp_path / "data").rglob("*.json*")}
    assert len(files) == 5
    for name, path in files.items():
        report = validator.validate_file(
            path,
            repo_path=name,
            available_files=frozenset(files),
            read_repo_file=lambda name: (tmp_path / name).read_text(encoding="utf-8"),
            run_semantic_checks=True,
        )
        assert report.valid and not report.errors and not report.warnings, (name, report.errors, report.warnings)
