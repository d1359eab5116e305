"""The worked executor in examples/: submitit's jobs, here processes of this machine, fill one results folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmark.cli.main import main

PLUGIN = Path(__file__).parents[1] / "examples" / "zoo-bench-slurm" / "zoo_bench_slurm.py"
pytestmark = pytest.mark.slow


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: object) -> tuple[int, str]:
    """Run the command in this process; return its exit code and what it said."""
    line = ["zoo-bench", "run", "--methods", "avg-last,random", "--seeds", 1, "--tasks", "pocket-words", *words]
    monkeypatch.setattr("sys.argv", [str(word) for word in line])
    with pytest.raises(SystemExit) as leaving:
        main()
    return int(leaving.value.code or 0), capsys.readouterr().err


def scores(results: Path) -> dict[str, object]:
    return {
        record["key"]: record["scores"]["main"]
        for record in (json.loads(path.read_text("utf-8")) for path in (results / "records").rglob("*.json"))
    }


def test_each_encoder_is_a_job_of_submitit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("submitit", reason="pip install submitit")
    code, err = run(
        capsys, monkeypatch, "--plugin", PLUGIN, "--executor", "slurm://local", "--results", tmp_path / "jobs"
    )
    assert code == 0 and "2 cells measured, 0 kept from before, 0 failed, 0 n/a" in err, err
    assert len(list((tmp_path / "jobs" / "slurm").glob("*_submitted.pkl"))) == 2
    assert run(capsys, monkeypatch, "--results", tmp_path / "here")[0] == 0
    assert scores(tmp_path / "jobs") == scores(tmp_path / "here") and len(scores(tmp_path / "here")) == 2


def test_the_example_is_short() -> None:
    assert PLUGIN.read_text("utf-8").count("\n") <= 60
