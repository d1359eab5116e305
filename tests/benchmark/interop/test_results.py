"""Scores for others: MTEB's names only for MTEB's inputs, its shape and the hub's, nothing that was not measured."""

from __future__ import annotations

import datetime
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes import failed, make_record

from benchmark.interop.export import export_card
from benchmark.interop.results import TASKS, card_data, export_results, model_meta, task_result
from benchmark.records.folder import Records
from benchmark.tasks.suites import suite
from zoo.errors import UsageError
from zoo.files import read_json

MTEB_NAMES = {"STS12", "STS13", "STS14", "STS15", "STS16", "STSBenchmark", "SICK-R"}
SCORES = {
    "main": 0.71,
    "main_metric": "all_spearman",
    "reason": None,
    "all": {"spearman": 0.71, "pearson": 0.7},
    "mean": {"spearman": 0.6, "pearson": 0.6},
}


def sts_record(name: str, task: str, seed: int | None = None, **changes: Any) -> Any:
    return make_record(name, task, seed, scores=SCORES, **changes)


def exported(tmp_path: Path, *records: Any) -> dict[str, Any]:
    store = Records(tmp_path / "results")
    for record in records:
        store.write(record)
    paths = export_results(store.all(), tmp_path / "mteb")
    assert sorted(paths) == sorted(
        p for p in (tmp_path / "mteb").rglob("*.*") if p.is_file() and p.name != "model_meta.json"
    )
    return {p.relative_to(tmp_path / "mteb").as_posix(): read_json(p) for p in paths if p.suffix == ".json"}


def test_only_untokenised_tasks_have_mtebs_names_and_sick_never() -> None:
    named = {task for task, name in TASKS.items() if name in MTEB_NAMES}
    assert named == {"STS12-raw", "STS13-raw", "STS14-raw", "STS15-raw", "STS16-raw", "STS-B-raw"}
    assert "SICK-R" not in TASKS.values()
    assert len(set(TASKS.values())) == len(TASKS) == 14
    assert set(TASKS) == {*suite("sts").tasks, *suite("sts-raw").tasks}
    assert all(TASKS[task].startswith("SentEval-") for task in suite("sts").tasks)


def test_a_file_has_mtebs_shape_and_our_numbers() -> None:
    result = task_result(sts_record("m", "STS-B-raw"))
    assert result["task_name"] == "STSBenchmark" and result["mteb_version"] is None
    (score,) = result["scores"]["test"]
    assert score == {
        "hf_subset": "default",
        "languages": ["eng-Latn"],
        "main_score": 0.71,
        "cosine_spearman": 0.71,
        "cosine_pearson": 0.7,
    }
    assert result["dataset_revision"].startswith("sha256:") and len(result["dataset_revision"]) == 71
    assert result["evaluation_time"] == 0.5
    stamp = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert result["date"] == stamp.timestamp()


def test_seeds_and_methods_have_own_folders_and_trials_none(tmp_path: Path) -> None:
    folders = exported(
        tmp_path,
        sts_record("m", "STS12-raw", 0),
        sts_record("m", "STS12-raw", 1),
        sts_record("x:a=b/c", "STS12"),
        sts_record("m", "STS13-raw", 0, limit=50),
        failed(sts_record("m", "STS14-raw", 0), "broken"),
        make_record("m", "MR", 0),
    )
    assert len(folders) == 3
    assert sorted(path.rpartition("/")[2] for path in folders) == ["STS12.json", "STS12.json", "SentEval-STS12.json"]
    assert len({path.rpartition("/")[0] for path in folders}) == 3
    assert all(path.startswith("zoo-bench__") and path.count("/") == 2 for path in folders)
    metas = [read_json(path) for path in (tmp_path / "mteb").rglob("model_meta.json")]
    assert {meta["name"] for meta in metas} == {"zoo-bench/m", "zoo-bench/x:a=b/c"}
    assert sorted(meta["revision"].partition("-")[2] for meta in metas) == ["", "seed0", "seed1"]
    assert len({meta["revision"] for meta in metas}) == 3


def test_a_cell_on_two_versions_of_its_data_is_refused_by_name(tmp_path: Path) -> None:
    both = [sts_record("bag", "STS13-raw", data_sha256=character * 64) for character in "ab"]
    with pytest.raises(UsageError, match="bag was measured on STS13-raw with two versions"):
        exported(tmp_path, *both)


def test_mteb_reads_the_file(tmp_path: Path) -> None:
    results = pytest.importorskip("mteb.results", reason="pip install 'zoo-bench[mteb]'")
    exported(tmp_path, sts_record("m", "STS12-raw"))
    (path,) = (tmp_path / "mteb").rglob("STS12.json")
    read = results.TaskResult.from_disk(path)
    assert (read.task_name, read.eval_splits, read.hf_subsets) == ("STS12", ["test"], ["default"])
    assert read.get_score() == pytest.approx(0.71)


@pytest.mark.parametrize("roles", ["", "prompts of its folder: query; similarity dot", "similarity euclidean"])
def test_mteb_accepts_the_metadata(roles: str, tmp_path: Path) -> None:
    """Validated by mteb's own class: no field is missing, and roles are what the record says."""
    ModelMeta = pytest.importorskip("mteb.models.model_meta", reason="pip install 'zoo-bench[mteb]'").ModelMeta
    facts = {"dimensions": 32, "parameters": 1000, **({"roles": roles} if roles else {})}
    exported(tmp_path, sts_record("m", "STS12-raw", 0, facts=facts))
    (path,) = (tmp_path / "mteb").rglob("model_meta.json")
    meta = ModelMeta.model_validate_json(path.read_bytes())
    assert (meta.name, meta.embed_dim, meta.n_parameters) == ("zoo-bench/m", 32, 1000)
    kind = meta.similarity_fn_name and meta.similarity_fn_name.value
    assert kind == {"": "cosine", "dot": "dot"}.get(roles.rpartition(" ")[2]), "mteb's form has no name for distances"
    assert meta.use_instructions == roles.startswith("prompts")


def test_the_hub_reads_the_card(tmp_path: Path) -> None:
    """All tasks, those without a name in MTEB too, and no trial."""
    from huggingface_hub import metadata_load
    from huggingface_hub.repocard_data import model_index_to_eval_results

    accuracy = make_record("m", "MR", 0, scores={"main": 0.8, "main_metric": "accuracy", "reason": None})
    exported(tmp_path, sts_record("m", "STS12-raw", 0), accuracy, sts_record("m", "STS13-raw", 0, limit=50))
    (path,) = (tmp_path / "mteb").rglob("README.md")
    _, read = model_index_to_eval_results((metadata_load(path) or {})["model-index"])
    assert {(one.dataset_name, one.task_type, one.metric_type, one.metric_value) for one in read} == {
        ("STS12-raw", "sentence-similarity", "all_spearman", 71.0),
        ("MR", "text-classification", "accuracy", 80.0),
    }


def test_a_card_of_trials_alone_has_no_result() -> None:
    assert card_data("m", [sts_record("m", "STS12-raw", limit=50)]).eval_results is None


@pytest.mark.slow
def test_the_command_writes_them_without_torch(tmp_path: Path) -> None:
    store = Records(tmp_path / "results")
    for task in suite("sts-raw").tasks:
        store.write(sts_record("m", task))
    script = (
        "import sys; from benchmark.cli.main import main_group\n"
        "main_group(sys.argv[1:], standalone_mode=False)\n"
        "assert not {'torch', 'transformers', 'sklearn'} & set(sys.modules)"
    )
    words = ["export", "m", str(tmp_path / "mteb"), "--scores", "--results", str(tmp_path / "results")]
    child = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    assert "7 result files in MTEB's form and 1 card for the hub" in child.stdout
    assert len(list((tmp_path / "mteb").rglob("STS*.json"))) == 6


@pytest.mark.parametrize("learned", ["training", "released", "sources", None])
def test_no_training_data_is_stated_where_something_was_learned(learned: str | None) -> None:
    record = sts_record("m", "STS12-raw")
    record["method"]["sources"] = {"backbone": {"name": "small"}} if learned == "sources" else {}
    record["method"]["traits"]["released"] = learned == "released"
    record["training"] = {"steps": 1} if learned == "training" else None
    assert model_meta("m", "1", record)["training_datasets"] == ([] if learned is None else None)


def test_memory_is_of_float32_in_mebibytes() -> None:
    assert model_meta("m", "1", sts_record("m", "STS12-raw", facts={"parameters": 2**20}))["memory_usage_mb"] == 4.0


@pytest.mark.parametrize("first", [0, 1])
def test_a_score_that_mteb_made_is_written_instead_of_ours(first: int, tmp_path: Path) -> None:
    """Whichever of the two was measured first."""
    theirs = make_record("m", "mteb:STS12", main=0.9, started=f"2026-01-0{1 + first}T00:00:00Z")
    ours = sts_record("m", "STS12-raw", started="2026-01-01T12:00:00Z")
    theirs["scores"]["all"] = {"spearman": 0.9, "pearson": 0.8}
    theirs["scores"]["subsets"] = {"default": theirs["scores"]["all"]}
    files = exported(tmp_path, *(theirs, ours)[:: 1 if first else -1])
    (scores,) = next(iter(files.values()))["scores"]["test"]
    assert len(files) == 1 and scores["main_score"] == 0.9


@pytest.mark.parametrize(("seed", "text"), [(None, "`m`:"), (0, "`m`, seed 0:"), (3, "`m`, seed 3:")])
def test_a_card_names_the_seed(seed: int | None, text: str) -> None:
    record = sts_record(
        "m", "STS12-raw", seed, training={"steps": 3, "corpus": {"name": "texts", "sentences": 9, "sha256": "0"}}
    )
    assert f"Method {text}" in export_card("mine", [record], {})
