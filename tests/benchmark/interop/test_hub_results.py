"""`.eval_results/*.yaml`: the parsers of the hub and of mteb read it, and it has only what was read from the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes import failed, make_record
from huggingface_hub import parse_eval_result_entries

from benchmark.data.sources import DataSource
from benchmark.interop.hub_results import eval_results
from benchmark.interop.results import task_result
from benchmark.interop.scores import export_results
from zoo.files import sha256_json, write_signed, write_text

SHA = "0123456789abcdef0123456789abcdef01234567"


def record(task: str, dataset: str, revision: str | None = SHA, form: str = "mteb", **changes: Any) -> Any:
    content = make_record("m", task, 0, **changes)
    content["task"] |= {"dataset": dataset, "form": form, "source": "hub"}
    if revision is not None:
        content["task"]["revision"] = revision
    return content


def mteb_scores(**subsets: float) -> dict[str, Any]:
    of_subset = {name: {"main_score": value, "ndcg_at_10": value} for name, value in subsets.items()}
    main = sum(subsets.values()) / len(subsets)
    common = {"main_metric": "ndcg_at_10", "reason": None, "split": "test", "mteb_version": "2.26.24"}
    return {"main": main, "mteb": of_subset, **common}


PAIRS = {"main": 0.7123456, "main_metric": "all_spearman", "reason": None, "all": {"spearman": 0.7123456}}
RECORDS = {
    "a task of mteb": (
        record("mteb:ArguAna", "mteb/arguana", scores=mteb_scores(default=0.5)),
        [("mteb/arguana", "ArguAna_default_test", 50.0)],
    ),
    "several subsets": (
        record("mteb:AmazonCounterfactual", "mteb/amazon", scores=mteb_scores(en=0.6, **{"en-ext": 0.61})),
        [
            ("mteb/amazon", "AmazonCounterfactual_en-ext_test", 61.0),
            ("mteb/amazon", "AmazonCounterfactual_en_test", 60.0),
        ],
    ),
    "our name, the hub's rows": (
        record("STS12-raw", "STS12", form="raw", scores=PAIRS),
        [("mteb/sts12-sts", "STS12_default_test", 71.23456)],
    ),
    "our name, files of a folder": (record("STS12-raw", "STS12", None, form="raw", scores=PAIRS), []),
    "a task of mteb, of an older record": (
        record("mteb:ArguAna", "mteb/arguana", None, scores=mteb_scores(en=0.5)),
        [],
    ),
    "a trial": (record("mteb:ArguAna", "mteb/arguana", limit=50, scores=mteb_scores(default=0.5)), []),
    "a failed cell": (failed(record("mteb:ArguAna", "mteb/arguana"), "broken"), []),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_the_hub_and_mteb_read_what_was_read_from_the_hub(kind: str) -> None:
    record, wanted = RECORDS[kind]
    text = eval_results([record])
    entries = parse_eval_result_entries(yaml.safe_load(text) or [])
    assert [(entry.dataset_id, entry.task_id, entry.value) for entry in entries] == wanted
    for entry in entries:
        assert (entry.dataset_revision, entry.date) == (SHA, "2026-01-02T03:04:05Z")
        assert entry.source_name == "zoo-bench 0.1.0" and str(entry.source_url).endswith(
            f"/datasets/{entry.dataset_id}"
        )
        assert f"{record['task']['name']}:{record['scores']['main_metric']}|seed 0|fp32|data " in str(entry.notes)
        assert str(entry.notes).startswith("zoo-bench 0.1.0|") and "|protocol 1|" in str(entry.notes)


def test_mteb_s_own_class_accepts_it_and_names_tasks_alike() -> None:
    module = pytest.importorskip("mteb._hf_integration.eval_result_model", reason="pip install 'zoo-bench[mteb]'")
    from mteb.results import TaskResult

    for record, wanted in RECORDS.values():
        if not wanted:
            continue
        read = module.HFEvalResults.model_validate(yaml.safe_load(eval_results([record])))
        assert [(entry.dataset.id, entry.dataset.task_id, entry.value) for entry in read.root] == wanted
    record, wanted = RECORDS["our name, the hub's rows"]
    theirs = TaskResult.model_validate(task_result(record))._to_hf_benchmark_result()
    assert wanted[0] in [(entry.dataset.id, entry.dataset.task_id, entry.value) for entry in theirs.root]


def test_mteb_s_score_stands_before_ours_of_the_same_rows() -> None:
    of_mteb = record(
        "mteb:STS12", "mteb/sts12-sts", scores={**PAIRS, "main": 0.5, "subsets": {"default": {"spearman": 0.5}}}
    )
    ours = RECORDS["our name, the hub's rows"][0]
    for records in ([of_mteb, ours], [ours, of_mteb]):
        assert [entry["value"] for entry in yaml.safe_load(eval_results(records))] == [50.0]


def test_exported_scores_have_the_file_beside_the_card(tmp_path: Path) -> None:
    ours, of_hub = RECORDS["our name, files of a folder"][0], RECORDS["a task of mteb"][0]
    paths = export_results([of_hub, ours], tmp_path / "both")
    (path,) = (tmp_path / "both").rglob("*.yaml")
    assert path in paths and path.parent.name == ".eval_results" and (path.parent.parent / "README.md").is_file()
    assert path.read_text(encoding="utf-8") == eval_results([of_hub])
    assert not [path for path in export_results([ours], tmp_path / "ours") if path.suffix == ".yaml"]


def test_rows_of_the_hub_say_their_commit(tmp_path: Path) -> None:
    """As `data fetch` keeps them; the files of the catalog, wherever they lie, have none."""
    folder = tmp_path / "hub-rows" / "STS12-raw"
    write_text(folder / "test.jsonl", "")
    hashes = {"test.jsonl": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    write_signed(folder / "done.json", {"hub": "mteb/sts12-sts", "revision": SHA, "files": hashes})
    located = DataSource(hub=False, cache=tmp_path).locate("STS12", "raw")
    assert (located.revision, located.source, located.sha256) == (SHA, "cache", sha256_json(hashes))
    assert DataSource(hub=False, cache=tmp_path).locate("pocket-pairs", "plain").revision is None
