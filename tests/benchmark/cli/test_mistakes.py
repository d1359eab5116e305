"""Typical mistakes: each is answered by one sentence that names the remedy, none has a traceback, none passes."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli, make_record

import benchmark
from benchmark.records.folder import Records
from zoo.errors import ZooError


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with records of two rows in `kept`, and files of the wrong kinds."""
    folder = tmp_path_factory.mktemp("files")
    gold = np.arange(280.0)
    for name, noise in (("good", 10), ("bad", 300)):
        shift = np.random.default_rng(noise).normal(0, noise, len(gold))
        Records(folder / "kept").write(make_record(name), (gold + shift, gold))
    (folder / "a-folder").mkdir()
    (folder / "a-file").write_text("a sentence\n")
    (folder / "broken.yaml").write_text("methods: [cls\nsuites: }\n")
    (folder / "list.yaml").write_text("- cls\n")
    (folder / "suite.yaml").write_text("tasks: [pocket-words, pocket-wrods]\n")
    (folder / "binary.txt").write_bytes(b"\xff\xfe\x00")
    (folder / "empty.txt").write_text("")
    (folder / "two-columns.tsv").write_text("a dog\ta cat\n")
    (folder / "half.py").write_text("x = 1\nraise ValueError('half written')\n")
    return folder


@pytest.fixture
def here(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of these files, which is the working folder."""
    monkeypatch.chdir(shutil.copytree(files, tmp_path / "here"))
    return tmp_path / "here"


MISTAKES = [
    # Commands and run files.
    ("rnu --methods cls", 2, "Did you mean 'run'?"),
    ("evaluate", 2, "`zoo-bench run --methods NAMES`"),
    ("list", 2, "`zoo-bench methods`"),
    ("run", 2, "--methods"),
    ("run simcse", 2, "`zoo-bench run --methods simcse`"),
    ("run --methods simcse ptbert", 2, "--methods simcse,ptbert"),
    ("run pocket-mian", 2, "Did you mean 'pocket-main'?"),
    ("run a-folder", 2, "Shipped ones: mteb-eng, pocket-main"),
    ("run --methods cls --output-dir kept", 2, "here it is --results"),
    ("export good --out kept", 2, "No such option '--out'. See `zoo-bench export --help`"),  # --results is read there
    ("run broken.yaml", 2, "broken.yaml:2"),
    ("run list.yaml", 2, "a mapping with the keys about, methods"),
    ("run binary.txt", 2, "not utf-8"),
    # Names of methods, tasks and suites.
    ("run --methods", 2, "requires an argument"),
    ("run --methods simcs", 2, "Did you mean 'simcse'"),
    ("run --methods 'cls;max'", 2, "Separate names by commas: cls,max."),
    ("run --methods cls --methods cls", 2, "named twice"),
    ("run --methods zoo-mini", 2, "--methods avg-last --backbone zoo-mini"),
    ("run --methods ./a-folder", 2, "a folder without config.json or modules.json"),
    ("run --methods ./nowhere", 2, "does not exist; give a folder with config.json"),
    ("run --methods ./a-file", 2, "is a file; give a folder with config.json"),
    ("run --methods cls:max_lenght=3", 2, "Did you mean 'max_length'?"),
    ("run --methods simcse:batch-size=64", 2, "did you mean batch_size=?"),
    ("run --methods simcse:temperature:0.1", 2, "settings are key=value, as in simcse:key=value"),
    ("run --methods simcse:temperature=0", 2, "must be above 0"),
    ("run --methods cls --tasks sts", 2, "'sts' is a suite: --suite sts"),
    ("run --methods cls --suite stsb", 2, "It is a task: --tasks STS-B"),
    ("run --methods cls --suite pockte", 2, "Did you mean 'pocket'?"),
    ("run --methods cls --suite suite.yaml", 2, "unknown task 'pocket-wrods'. Did you mean 'pocket-words'"),
    ("run --methods cls --tasks pocket-wrods", 2, "Did you mean 'pocket-words'"),
    ("run --methods cls,max --label one", 2, "a name for each method"),
    ("run --methods all", 2, "'*' is all of them"),
    ("run --methods all-MiniLM-L6-v2", 2, "as OWNER/all-MiniLM-L6-v2"),
    # Settings of methods, and options of other programs.
    ("run --methods simcse --lr 1e-5", 2, "--methods NAME:learning_rate=VALUE"),
    ("run --model_name_or_path simcse", 2, "--backbone"),
    ("run --methods cls --output-dir out", 2, "--results"),
    ("run --methods simcse --pairs two-columns.tsv", 2, "none of these methods learns from labelled pairs"),
    # Values of options.
    ("run --methods ''", 2, "--methods is empty; give it a value, or leave it out."),
    ("run --methods cls --results=", 2, "--results is empty; give it a value, or leave it out."),
    ("run --methods cls --backbone simcse", 2, "that is a method: --methods simcse"),
    ("run --methods cls --backbone a-folder --tasks pocket-words", 1, "has no config.json"),
    ("run --methods cls --backbone zoo-mni --tasks pocket-words", 1, "Did you mean 'zoo-mini'"),
    ("run --methods cls --results a-file", 1, "Choose another folder with --results"),
    ("run --methods cls --corpus missing.txt", 1, "it is no file and none of books, pocket-text, wiki"),
    ("run --methods simcse --corpus empty.txt --tasks pocket-words", 2, "one sentence per line"),
    ("run --methods simcse --corpus binary.txt --tasks pocket-words", 1, "binary.txt begins as UTF-16 and is none"),
    ("run --methods cls --data nowhere", 2, "check --data or ZOO_BENCH_DATA"),
    ("run --methods cls --seeds 0,1,2", 2, "is not a whole number"),
    (f"run --methods cls --limit {'9' * 30}", 2, "not in the range 2<="),
    ("run --methods cls --embedding-cache nan", 2, "must be from 0 to"),
    ("run --methods cls --device gpu", 2, "use auto, cpu, cuda, cuda:N or mps"),
    ("run --methods cls --precision fp8", 2, "'auto', 'bf16', 'fp16', 'fp32'"),
    ("run --methods cls --shard 3/2", 2, "such as 2/8"),
    ("run --methods cls --executor slurm", 2, "give ray, or ray://HOST:PORT"),
    ("run --methods cls --tracker nowhere", 2, "Known: comet_ml"),
    (
        "run --methods cls --tasks pocket-words --backbone zoo-mini --revision main",
        2,
        "goes with a hub id (owner/name)",
    ),
    ("run --methods cls --tracker-folder logs", 2, "--tracker tensorboard"),
    ("run --methods cls --executor ray --workers 2", 2, "give --executor or --workers"),
    ("run --methods cls --plugin half.py", 2, "half.py:2"),
    ("run --methods cls --plugin a-folder", 2, "give the path of a Python file"),
    # The other commands.
    ("compare good", 2, "takes two rows, A and B, and got 1"),
    ("compare good bda --results kept", 2, "Did you mean 'bad'?"),
    ("compare good bad --results nowhere", 2, "or name a folder with --results"),
    ("compare good bad --results kept --tasks pocket-pears", 2, "Did you mean 'pocket-pairs'"),
    ("leaderboard kept --results kept", 2, "are two folders; name one"),
    ("diff kept kept --results kept", 2, "are two folders; name one"),
    ("others kept", 1, "zoo-bench leaderboard FOLDER"),
    ("leaderboard --results nowhere", 1, "make some with `zoo-bench run"),
    ("leaderboard --results kept --suite sts", 1, "no scores of sts in kept; make some with"),
    ("export good a-file --scores --results kept", 1, "Choose another folder"),
    ("leaderboard --results kept --aggregation median", 2, "'all', 'mean', 'wmean'"),
    ("doctor simcs", 2, "Did you mean 'simcse'"),
    ("doctor half.py", 2, "--plugin half.py"),
    ("methods nonsense", 2, "`zoo-bench methods` lists all"),
    ("methods --family contrastiv", 2, "Did you mean 'contrastive'"),
    ("methods --show", 2, "`zoo-bench methods simcse --show`"),
    ("tasks nonsense", 2, "`zoo-bench tasks` lists all"),
    ("new method 'My Method'", 2, "small letters, digits and single hyphens"),
    ("new mehtod mine", 2, "Did you mean 'method'?"),
    ("new method json", 2, "a name of Python or of a module that the file would hide"),
    ("new task path", 2, "would hide"),
    ("new method simcse", 2, "'simcse' is the name of a method"),
    ("new task sts12", 2, "'sts12' is the name of a task, a suite or a data set"),
    ("export out good --results kept", 2, "There: bad, good"),
    ("export good out --results kept", 2, "train simcse, ptbert or sbert"),
    ("export good out --results kept --private", 2, "goes with --push-to-hub"),
    ("reproduce ptbert-tabel3", 2, "Did you mean 'ptbert-table3'"),
    ("reproduce ptbert-table3 --methods nowhere", 2, "is none of the methods of ptbert-table3: clear, moco"),
    ("data verify STS99", 2, "`zoo-bench data list` shows all"),
    ("data texts --suite pocket --out a-folder", 2, "name the file to write"),
    ("analyze pairs --methods good --results kept --tasks nowhere --no-plots", 2, "`zoo-bench tasks` lists them all"),
    ("pretrain zoo-mini", 2, "'--out'"),
    ("pretrain tiny --out a-file --text a-file", 1, "Choose another folder"),
    ("pretrain zoo-mini:stepz=3 --out out", 2, "Did you mean 'steps'"),
    ("pack --results nowhere", 1, "name a results folder with --results"),
]


@pytest.mark.parametrize(("line", "code", "remedy"), MISTAKES, ids=[line for line, _, _ in MISTAKES])
def test_a_mistake_is_answered_in_one_sentence(line: str, code: int, remedy: str, cli: Cli, here: Path) -> None:
    """On standard error, with an exit code; nothing is printed as a result and no file of the user's is changed."""
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    answer = cli(*shlex.split(line))
    assert answer.code == code, answer.err
    assert answer.err.startswith("zoo-bench: ") and len(answer.err.splitlines()) == 1, answer.err
    assert remedy in answer.err
    assert not answer.out
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file() and path.suffix != ".pyc"} == before


FAST = {"tasks": "pocket-words", "limit": 20, "device": "cpu"}
CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "no encoder": (lambda: benchmark.evaluate(None), "is given no encoder"),
    "a number": (lambda: benchmark.evaluate(3, **FAST), "give a recipe's name"),
    "a folder that is not there": (lambda: benchmark.evaluate(Path("nowhere"), **FAST), "config.json"),
    "a misspelt name": (lambda: benchmark.evaluate("simcs", **FAST), "Did you mean 'simcse'"),
    "a function that gives a number": (lambda: benchmark.evaluate(lambda texts: 3, **FAST), "one vector per text"),
    "no task": (lambda: benchmark.evaluate("cls", tasks=[]), "is given no task"),
    "semicolons": (lambda: benchmark.evaluate("cls", tasks="STS12;STS13"), "by commas: sts12,sts13"),
    "seeds as text": (lambda: benchmark.evaluate("cls", seeds="3"), "give a whole number"),
    "an unknown option": (lambda: benchmark.evaluate("cls", seed=3), "Did you mean 'seeds'?"),
    "suites": (lambda: benchmark.evaluate("cls", suites="sts"), "with tasks="),
    "an empty folder": (lambda: benchmark.evaluate("cls", results=""), "give the path"),
    "a corpus that is not there": (
        lambda: benchmark.evaluate("cls", corpus="no.txt"),
        "none of books, pocket-text, wiki",
    ),
    "an aggregation": (lambda: benchmark.leaderboard("kept", aggregation="median"), "all, mean, wmean"),  # type: ignore[arg-type]
    "a table of nothing": (lambda: benchmark.leaderboard("nowhere"), "make some with"),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("what", CALLS)
def test_a_mistake_in_python_raises_one_sentence(what: str) -> None:
    call, remedy = CALLS[what]
    with pytest.raises(ZooError) as caught:
        call()
    assert remedy in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_interrupt_while_loading_is_one_sentence() -> None:
    code = (
        "import builtins, runpy, sys\n"
        "load = builtins.__import__\n"
        "def stop(name, *rest, **more):\n"
        "    if name.startswith('benchmark.cli'): raise KeyboardInterrupt\n"
        "    return load(name, *rest, **more)\n"
        "builtins.__import__ = stop\n"
        "runpy.run_module('benchmark', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "zoo-bench: interrupted before anything was done.\n")


def test_a_label_that_is_no_utf8_is_refused(cli: Cli, tmp_path: Path, tiny_bert: Path) -> None:
    answer = cli("run", "--methods", "cls", "--backbone", tiny_bert, "--label", "a\udcff", "--results", tmp_path)
    assert answer.code == 2 and "is not UTF-8" in answer.err and "Traceback" not in answer.err
