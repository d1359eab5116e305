"""The command line: light, strict before it works, honest in its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes import FITTED, Cli, make_record

from benchmark.records.folder import Records
from zoo import __version__

ROOT = Path(__file__).resolve().parents[3]
FAST = ("--precision", "fp32", "--limit", "20")


def everything(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        *("--help", "run --help", "methods", "tasks", "leaderboard --results {0}", "data list"),
        *("compare ptbert simcse --suite sts --results {1}", "leaderboard --suite sts --results {1} --out {0}"),
    ],
)
def test_light_commands_import_neither_torch_nor_scipy_stats(command: str, tmp_path: Path) -> None:
    """Their start is most of what they take."""
    Records(tmp_path).write(make_record())
    script = (
        "import sys\n"
        "from benchmark.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as leaving: code = leaving.code\n"
        "heavy = {'torch', 'transformers', 'datasets', 'sklearn', 'accelerate', 'fsspec', 'scipy.stats'}\n"
        "print(code, sorted(heavy & set(sys.modules)))\n"
    )
    words = command.format(tmp_path, ROOT / "leaderboards" / "zoo-small").split()
    child = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, cwd=tmp_path)
    assert child.stdout.splitlines()[-1:] == ["0 []"], child.stdout + child.stderr


def test_the_help_of_what_reads_results_imports_no_numpy_and_looks_at_no_package() -> None:
    """The list of installed packages is read for commands of other packages alone."""
    script = (
        "import sys\n"
        "from benchmark.cli.main import main\n"
        "for name in ('leaderboard', 'verify', 'diff', 'run', 'methods'):\n"
        "    try: main([name, '--help'])\n"
        "    except SystemExit as leaving: assert leaving.code == 0\n"
        "print({'numpy', 'importlib.metadata'} & set(sys.modules))\n"
    )
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert child.stdout.splitlines()[-1:] == ["set()"], child.stderr


def test_a_reader_that_leaves_is_no_mistake() -> None:
    """`zoo-bench tasks | head -1` ends with 0 and says nothing on standard error."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmark", "tasks"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.close()
        assert (child.stderr.read(), child.wait()) == (b"", 0)


@pytest.mark.slow
@pytest.mark.usefixtures("fakes")
def test_a_dry_run_prints_the_plan_and_writes_nothing(cli: Cli, tmp_path: Path, tiny_bert: Path) -> None:
    """The plan, and what is done already; no training, no file, no folder."""
    out = tmp_path / "out"
    words = ("run", "--methods", "bag,fitted,cls", "--backbone", tiny_bert, "--seeds", 2, "--results", out, *FAST)
    answer = cli(*words, "--dry-run")
    assert answer.code == 0
    assert not out.exists()
    assert FITTED == []
    lines = answer.out.splitlines()
    assert [line.split(":")[0] for line in lines[:4]] == ["bag", "cls", "fitted, seed 0", "fitted, seed 1"]
    assert all("0 of 4 cells done" in line for line in lines[:4])
    assert cli("run", "--methods", "bag", "--results", out, *FAST).code == 0
    before = {path: path.read_bytes() for path in everything(out) if path.is_file()}
    assert "bag: 4 of 4 cells done" in cli(*words, "--dry-run").out
    assert {path: path.read_bytes() for path in everything(out) if path.is_file()} == before


@pytest.mark.usefixtures("fakes")
def test_the_table_is_printed_after_a_run(cli: Cli, tmp_path: Path) -> None:
    """Table on standard output, progress on standard error, the scores of the records."""
    answer = cli("run", "--methods", "bag", "--results", tmp_path, "--precision", "fp32", "--limit", "50")
    assert answer.code == 0
    content = json.loads((tmp_path / "pocket-trial.json").read_text(encoding="utf-8"))
    (row,) = content["rows"]
    for value in row["scores"].values():
        assert f"{value['mean']:.2f}" in answer.out
    assert "cells measured" in answer.err
    assert "cells measured" not in answer.out
    assert content["commands"] == [f"zoo-bench run --methods bag --results {tmp_path} --precision fp32 --limit 50"]


@pytest.mark.slow
@pytest.mark.usefixtures("fakes")
def test_globs_mean_the_suite_first(cli: Cli, tmp_path: Path) -> None:
    """`--suite pocket --tasks '*'` is the suite, not every task there is; names ignore case."""
    answer = cli("run", "--methods", "BAG", "--tasks", "*", "--results", tmp_path, "--dry-run", *FAST)
    assert "bag: 0 of 4 cells done" in answer.out
    answer = cli("run", "--methods", "bag", "--tasks", "sts1?", "--results", tmp_path, "--dry-run", *FAST)
    assert "bag: 0 of 5 cells done" in answer.out


# doctor and data


@pytest.fixture
def no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the seconds that trying bfloat16 takes."""
    monkeypatch.setattr("benchmark.cli.doctor.cpu_bf16", lambda: {"bfloat16": False, "isa_cap": None})
    monkeypatch.setattr("benchmark.cli.doctor.choose_precision", lambda wanted, device: "fp32")


@pytest.mark.slow
@pytest.mark.usefixtures("no_measuring")
def test_doctor_reports_what_is_here(cli: Cli, data_dir: Path) -> None:
    """Versions, device, cache, data; exit 0 where nothing needed is broken."""
    answer = cli("doctor", "--data", data_dir)
    assert answer.code == 0
    for part in (
        __version__,
        "torch",
        "backbone zoo-small: bundled",
        os.environ["ZOO_BENCH_CACHE"],
        "embedding cache: ",
    ):
        assert part in answer.out
    assert "data STS12 (tokenised): folder" in answer.out


@pytest.mark.usefixtures("no_measuring")
def test_doctor_finds_a_cache_that_cannot_be_written(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "file" / "cache"))
    answer = cli("doctor")
    assert answer.code == 1
    assert str(tmp_path / "file" / "cache") in answer.out


def test_data_list_and_verify(cli: Cli, data_dir: Path, tmp_path: Path) -> None:
    """Where each set is found; sha256 and rows of the named ones; 1 when something is missing or wrong."""
    listed = cli("data", "list", "--data", data_dir)
    assert listed.code == 0
    rows = {tuple(line.split()[:2]): line for line in listed.out.splitlines()}
    assert "folder" in rows["STS12", "tokenised"]
    assert "bundled" in rows["pocket-pairs", "plain"]
    assert "3,108" in rows["STS12", "raw"]

    answer = cli("data", "verify", "--data", data_dir, "STS12", "SICK", "pocket-words")
    assert answer.code == 0
    assert "3,108 rows scored" in answer.out
    assert "4,927 rows scored" in answer.out

    answer = cli("data", "verify", "STS12")
    assert answer.code == 1
    assert "missing" in answer.out

    folder = tmp_path / "STS" / "STS12-en-test"
    folder.mkdir(parents=True)
    for path in (data_dir / "senteval" / "downstream" / "STS" / "STS12-en-test").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "STS.gs.MSRvid.txt").write_text("5.0\n" * 750)
    answer = cli("data", "verify", "--data", tmp_path, "STS12")
    assert answer.code == 1
    assert "WRONG" in answer.out
    assert "STS.gs.MSRvid.txt" in answer.out


@pytest.mark.slow
def test_without_a_corpus_only_methods_that_need_one_are_na(cli, tmp_path, data_dir) -> None:
    """`--suite sts` trains on a corpus that no hub has: its absence must not stop the training-free methods."""
    senteval = tmp_path / "data"
    (senteval / "downstream").parent.mkdir()
    (senteval / "downstream").symlink_to(data_dir / "senteval" / "downstream")
    result = cli(
        "run", "--suite", "sts", "--tasks", "STS16", "--methods", "static-avg,whitening",
        "--data", str(senteval), "--out", str(tmp_path / "out"), "--limit", "5",
    )  # fmt: skip
    assert result.code == 1
    assert "--corpus" in result.out + result.err
    records = list((tmp_path / "out" / "records").glob("*/*.json"))
    states = {
        json.loads(path.read_text())["method"]["name"]: json.loads(path.read_text())["status"] for path in records
    }
    assert states == {"static-avg": "ok"} and "1 n/a" in result.err


def read_json(cli: Cli, *words: object, code: int = 0) -> Any:
    answer = cli(*words, "--json")
    assert answer.code == code, answer.err
    return json.loads(answer.out)


def test_leaderboard_as_json(cli: Cli, tmp_path: Path) -> None:
    """The tables are those of the JSON files, and those are named."""
    Records(tmp_path).write(make_record())
    content = read_json(cli, "leaderboard", "--results", tmp_path, "--out", tmp_path / "tables")
    written = [Path(path) for path in content["written"]]
    files = [json.loads(path.with_suffix(".json").read_text(encoding="utf-8")) for path in written]
    assert content["tables"] == files != []
    assert content["left_out"] == []


def test_data_as_json(cli: Cli, tmp_path: Path) -> None:
    listed = read_json(cli, "data", "list")
    assert {"name", "form", "found", "licence"} <= set(listed[0])
    assert ("pocket-pairs", "bundled") in {(one["name"], one["found"]) for one in listed}
    verified = read_json(cli, "data", "verify", "pocket-words", "STS12", code=1)
    assert [(one["name"], one["status"]) for one in verified] == [
        ("pocket-words", "ok"),
        ("STS12", "missing"),
        ("STS12", "missing"),
    ]
    fetched = read_json(cli, "data", "fetch", "STS12", code=1)
    assert {one["status"] for one in fetched} == {"failed"}
    out = tmp_path / "texts.txt"
    texts = read_json(cli, "data", "texts", "--suite", "pocket", "--tasks", "pocket-words", "--out", out)
    assert texts["texts"] == len(out.read_text(encoding="utf-8").splitlines())


def test_doctor_as_json(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmark.cli.doctor.cpu_bf16", lambda: {"bfloat16": False, "isa_cap": None})
    monkeypatch.setattr("benchmark.cli.doctor.choose_precision", lambda wanted, device: "fp32")
    content = read_json(cli, "doctor")
    assert "torch" in content["packages"] and content["problems"] == []
    assert float(content["score"]["measured"]) == pytest.approx(content["score"]["elsewhere"], abs=0.05)
    assert len(content["backbones"]["zoo-small"]) == 64
    assert {one["name"] for one in content["data"]} >= {"STS12", "pocket-pairs"}


@pytest.mark.usefixtures("no_measuring")
def test_doctor_asks_a_backbone_and_a_precision_too(cli: Cli) -> None:
    """Without a name they are of the machine."""
    answer = cli("doctor", "--backbone", "nowhere-at-all", "--precision", "bf16")
    assert answer.code == 1 and "backbone nowhere-at-all: BROKEN" in answer.out
    assert "as on other machines" in answer.out and "BROKEN: not as" not in answer.out


def test_doctor_of_a_method_as_json(cli: Cli) -> None:
    content = read_json(cli, "doctor", "bag-of-words,random")
    assert {check["name"] for check in content["checks"]} == {"bag-of-words", "random"} and content["problems"] == 0
    assert "zoo-bench doctor NAME` tests" in cli("check", "random").err


@pytest.mark.usefixtures("no_measuring")
def test_doctor_says_where_a_score_is_another_one(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmark.cli.doctor._ELSEWHERE", 60.0)
    answer = cli("doctor")
    assert answer.code == 1 and "BROKEN: not as on other machines (60.0)" in answer.out


@pytest.mark.slow
def test_reproduce_as_json(cli: Cli) -> None:
    (entry,) = read_json(cli, "reproduce", "burt-figure1", "--list")
    assert (entry["name"], entry["possible"]) == ("burt-figure1", "none") and entry["reason"]
    assert "--json goes with --list" in cli("reproduce", "burt-figure1", "--json").err
