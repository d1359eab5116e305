"""Every command that a run suggests at its end succeeds as it is printed, in the folder of the run."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import Cli

TRIAL = ("--limit", 20, "--seeds", 1, "--precision", "fp32", "--device", "cpu", "--train-sentences", 40)
SMALL = "simcse:batch_size=20:train_max_length=16"
METHOD = """\
from zoo import register_method
from zoo.methods.pooled import Average

@register_method("mine")
class Mine(Average):
    pass
"""
TASK = """\
import numpy as np
from benchmark.data.catalog import Dataset
from benchmark.data.readers.pairs import Pairs
from benchmark.data.sources import Located
from benchmark.tasks import register_task
from benchmark.tasks.base import PairsData, Task

@register_task("numbers")
class Numbers(Task):
    title = dataset = "Numbers"

    def load(self, data, limit=None):
        first = [f"there are {n} dogs" for n in range(40)]
        second = [f"there are {n * 7 % 40} cats" for n in range(40)]
        pairs = Pairs(first, second, np.array([abs(n - n * 7 % 40) / 8 for n in range(40)], dtype=float))
        entry = Dataset("Numbers", "Numbers", "ours", rows={"test": 40})
        return PairsData(Located(entry, "plain", "folder", {}, "0" * 64), {"test": pairs}, limit=limit)
"""

Suggest = Callable[..., list[list[str]]]


@pytest.fixture
def suggested(cli: Cli, tmp_path: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> Suggest:
    """Run zoo-bench in a folder of its own, then each command that it suggests there; returns these commands' words."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ZOO_BENCH_CONTROLS")

    def suggest(*words: object, code: int = 0) -> list[list[str]]:
        answer = cli("run", *TRIAL, "--backbone", tiny_bert, *words)
        assert answer.code == code, answer.err
        printed = answer.out.partition("What to do next:\n")[2].splitlines()
        lines = [shlex.split(line) for line in printed if line.startswith("  zoo-bench ")]
        assert 1 <= len(lines) <= 3 and len(printed) == 2 * len(lines), answer.out
        for line in lines:
            done = cli(*line[1:])
            assert done.code == 0, (line, done.err)
        return [line[1:] for line in lines]

    return suggest


@pytest.mark.slow
def test_after_a_first_look(suggested: Suggest) -> None:
    """No data of the papers is here, so that nothing more is run on it; a row is compared with what it starts from."""
    found = suggested("--methods", SMALL)
    assert [words[0] for words in found] == ["compare", "report", "data"] and found[0][1:3] == [SMALL, "cls"]
    again = suggested("--methods", SMALL, "--no-controls", "--results", "an other folder")
    assert [words[0] for words in again] == ["run", "report", "data"]
    assert "--no-controls" not in again[0] and "bag-of-words" not in again[0]


@pytest.mark.slow
def test_with_what_the_run_needed(suggested: Suggest, data_dir: Path, tiny_bert: Path) -> None:
    """A plugin, data, a label, a backbone, a trial: all of them in the run on the papers' tasks, which is there now."""
    Path("my plugin.py").write_text(METHOD, encoding="utf-8")
    options = ("--methods", f"mine,{SMALL}", "--label", "ours,other", "--plugin", "my plugin.py", "--data", data_dir)
    found = suggested(*options)
    assert [words[0] for words in found] == ["compare", "run", "report"]
    run = found[1]
    for option, value in (
        ("--plugin", "my plugin.py"),
        ("--label", "ours,other"),
        ("--data", str(data_dir)),
        ("--backbone", str(tiny_bert)),
        ("--limit", "20"),
        ("--suite", "sts"),
        ("--train-sentences", "40"),
    ):
        assert run[run.index(option) + 1] == value, option


@pytest.mark.slow
def test_where_data_is_missing(suggested: Suggest) -> None:
    """The run ends with 1; nothing that would miss the same data is suggested."""
    found = suggested("--methods", SMALL, "--suite", "sts", "--corpus", "pocket-text", code=1)
    assert found and not any(words[0] == "run" for words in found)
    found = suggested("--methods", SMALL, "--suite", "sts,pocket", "--dev", "pocket-pairs", code=1)
    assert found and not any(words[0] == "run" for words in found)


@pytest.mark.slow
def test_a_plugins_task_a_suite_of_ones_own_and_accuracies(suggested: Suggest, tmp_path: Path) -> None:
    Path("task.py").write_text(TASK, encoding="utf-8")
    found = suggested("--plugin", "task.py", "--methods", "cls,avg-last", "--tasks", "numbers")
    assert found[0] == ["compare", *found[0][1:3], "--tasks", "numbers"]
    Path("own.yaml").write_text("tasks: [pocket-pairs, pocket-phrases]\n", encoding="utf-8")
    found = suggested("--methods", "cls,avg-last", "--suite", "own.yaml")
    assert found[0][3:] == ["--tasks", "pocket-pairs,pocket-phrases"]
    found = suggested("--methods", "cls", "--tasks", "pocket-topics", "--results", "topics")
    assert [words[0] for words in found] == ["data", "methods"]


@pytest.mark.slow
def test_rows_that_a_name_does_not_tell_apart(suggested: Suggest, cli: Cli, tiny_bert: Path) -> None:
    """A folder with a whole measurement and trials, a recipe in a file, and a label that is a control's name."""
    words = ("run", "--methods", "cls,avg-last", "--tasks", "pocket-pairs", "--backbone", tiny_bert)
    assert cli(*words, "--precision", "fp32").code == 0
    found = suggested("--methods", "cls,avg-last", "--tasks", "pocket-pairs")
    assert all(name.endswith("]") for name in found[0][1:3])
    Path("my.yaml").write_text("extends: avg-last\nsummary: mine\n", encoding="utf-8")
    assert suggested("--methods", "my.yaml,avg-top2", "--tasks", "pocket-pairs,pocket-phrases")
    assert suggested("--methods", SMALL, "--label", "cls", "--tasks", "pocket-pairs", "--results", "named")


@pytest.mark.slow
def test_a_method_that_fails_is_not_run_again(suggested: Suggest, fakes: None, data_dir: Path) -> None:
    found = suggested("--methods", "bag,crash-in-fit", "--tasks", "pocket-pairs", "--data", data_dir, code=1)
    assert [words[0] for words in found] == ["compare", "report", "data"]
    found = suggested("--methods", "crash-in-fit", "--tasks", "pocket-words", "--results", "nothing", code=1)
    assert not any(words[0] in ("run", "report", "compare") for words in found)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [2, 3, 4, 5])
def test_with_few_pairs(limit: int, suggested: Suggest) -> None:
    assert suggested("--methods", "cls,avg-last", "--tasks", "pocket-pairs,pocket-phrases", "--limit", limit)
