"""`zoo-bench new`: what it writes runs as it is, by the commands that it prints; it harms no file and no name."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fakes import Answer, Cli

from benchmark.data.readers.pairs import read_pairs
from zoo.errors import ZooError
from zoo.files import write_text
from zoo.paths import resource_folder

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = resource_folder("benchmark", "configs") / "new"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that the commands run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def follow(cli: Cli, *words: str) -> list[Answer]:
    """Write the files, then run each command that is printed, as printed; tells the seconds of each."""
    written = cli("new", *words)
    assert written.code == 0, written.err
    answers = []
    for line in re.findall(r"^  zoo-bench (.+)$", written.out, re.MULTILINE):
        started = time.monotonic()
        answers.append(cli(*shlex.split(line)))
        sys.stderr.write(f"{time.monotonic() - started:6.1f} s  zoo-bench {line}\n")
        assert answers[-1].code == 0, f"{line}: {answers[-1].out}{answers[-1].err}"
        assert not {"FAIL", "Traceback"} & set((answers[-1].out + answers[-1].err).split())
    assert len(answers) == 3
    return answers


def rows_of(table: Path) -> dict[str, dict[str, float]]:
    rows = json.loads(table.read_text(encoding="utf-8"))["rows"]
    return {row["method"]: {task: score["mean"] for task, score in row["scores"].items()} for row in rows}


def test_a_file_in_the_form_of_biosses_becomes_a_task(cli: Cli, here: Path) -> None:
    """The command of the handbook turns a CSV file into the task's pairs, quoted commas and all, and it runs."""
    page = (ROOT / "docs" / "reference" / "suites.md").read_text(encoding="utf-8")
    turn = shlex.split(re.findall(r"^python (-c .+)$", page, re.MULTILINE)[0])
    rows = ['"The gene, p53, is lost.",The p53 gene is lost.,3.8', "Cells grow.,The drug failed.,0.2"]
    rows.append('"They said ""no"".",They refused.,2.4')
    (here / "biosses.csv").write_text("\n".join(["sentence1,sentence2,score", *rows, ""]), encoding="utf-8")
    assert cli("new", "task", "biosses").code == 0
    subprocess.run([sys.executable, *turn], cwd=here, check=True)
    pairs = read_pairs(here / "biosses" / "pairs.tsv")
    assert (pairs.first[0], pairs.first[2], pairs.gold.tolist()) == (
        "The gene, p53, is lost.",
        'They said "no".',
        [3.8, 0.2, 2.4],
    )
    ran = cli("run", "--plugin", "biosses.py", "--tasks", "biosses", "--methods", "static-avg", "--no-controls")
    assert ran.code == 0 and "1 cell measured" in ran.out + ran.err, ran.out + ran.err


@pytest.mark.slow
def test_a_new_method_has_a_row_after_three_commands(cli: Cli, here: Path) -> None:
    """Checked, trained on the bundled sentences and measured; what it learned is not the untrained average."""
    started = time.monotonic()
    checked, ran, compared = follow(cli, "method", "less-common")
    sys.stderr.write(f"{time.monotonic() - started:6.1f} s  in all\n")
    assert "ok    less-common: fit on a toy corpus\n" in checked.out and "FAIL" not in checked.out
    rows = rows_of(here / "zoo-bench-results" / "pocket.json")
    assert set(rows["less-common"]) == set(rows["avg-last"]) and rows["less-common"] != rows["avg-last"]
    assert all(20 < score < 100 for score in rows["less-common"].values()), rows
    assert "less-common" in ran.out and "less-common" in compared.out
    shown = cli("methods", "less-common.yaml", "--show", "--plugin", "less_common.py")
    assert "Jiaqi Mu" in shown.out and "#   transforms: a linear map" in shown.out


@pytest.mark.slow
def test_a_new_loss_keeps_the_contract_and_is_in_the_gradient(cli: Cli, here: Path) -> None:
    """The file is short, `doctor` trains it, and the number in it that is its own changes the loss."""
    assert cli("new", "method", "my-own", "--loss").code == 0
    assert len((here / "my_own.py").read_text(encoding="utf-8").splitlines()) <= 45
    checked = cli("doctor", "my-own", "--plugin", "my_own.py")
    assert checked.code == 0 and "ok    my-own: fit on a toy corpus" in checked.out, checked.out
    import torch

    space = runpy.run_path(str(SHIPPED / "my_loss.py"))
    h, losses = torch.eye(3) + 0.1, []
    for margin in (0.0, 0.5):
        objective = space["MyLossObjective"](None, space["MyLossRecipe"](margin=margin))
        losses.append(float(objective.contrast(h, h.flip(1))))
    assert losses[0] < losses[1]


@pytest.mark.slow
def test_a_new_task_has_a_row_after_three_commands(cli: Cli, here: Path) -> None:
    follow(cli, "task", "ten-pairs")
    rows = rows_of(here / "zoo-bench-results" / "other.json")
    assert {"avg-last", "cls"} <= set(rows) and rows["avg-last"]["ten-pairs"] != rows["cls"]["ten-pairs"]
    assert "licence: yours" in cli("tasks", "ten-pairs", "--show", "--plugin", "ten_pairs.py").out
    pairs = here / "ten_pairs" / "pairs.tsv"
    assert len(read_pairs(pairs)) == 10
    pairs.write_text(pairs.read_text(encoding="utf-8") + "six\tone\tother\n", encoding="utf-8")
    answer = cli("doctor", "ten-pairs", "--plugin", "ten_pairs.py")
    assert answer.code == 1 and "pairs.tsv:12: 'six' is not a score. (ten_pairs.py:" in answer.out


@pytest.mark.slow
def test_the_examples_in_the_docstrings_are_true(cli: Cli, here: Path) -> None:
    assert cli("new", "method", "word-order").code == cli("new", "task", "word-pairs").code == 0
    program = "import doctest, word_order, word_pairs; print(*map(doctest.testmod, (word_order, word_pairs)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert re.findall(r"failed=(\d), attempted=(\d)", done.stdout) == [("0", "5"), ("0", "2")], (
        done.stdout + done.stderr
    )
    assert not any("my-" in path.read_text(encoding="utf-8").lower() for path in here.glob("*.py"))


@pytest.mark.parametrize("kind", ["method", "task"])
def test_no_file_is_overwritten(kind: str, cli: Cli, here: Path) -> None:
    """Nor a link to nowhere, nor a folder of data; and nothing is written beside it."""
    file = here / "own_words.py"
    file.write_text("mine", encoding="utf-8")
    answer = cli("new", kind, "own-words")
    assert answer.code == 2 and "own_words.py is in this folder already" in answer.err
    assert file.read_text(encoding="utf-8") == "mine" and list(here.iterdir()) == [file]
    file.unlink()
    file.symlink_to("nowhere.py")  # a write would put a file in its place
    assert cli("new", kind, "own-words").code == 2 and list(here.iterdir()) == [file]
    file.unlink()
    if kind == "task":
        (here / "own_words").mkdir()
        answer = cli("new", kind, "own-words")
        assert answer.code == 2 and "own_words is in this folder already" in answer.err and not file.exists()


@pytest.mark.parametrize(("kind", "writes"), [("task", 0), ("task", 1), ("method", 0), ("method", 1)])
def test_of_what_it_writes_all_is_there_or_nothing(
    kind: str, writes: int, cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full after some files; once there is room, the same command works."""
    room = iter([True] * writes)

    def write(path: Path, text: str) -> None:
        if not next(room, False):
            raise ZooError(f"cannot write {path}: No space left on device.")
        write_text(path, text)

    with monkeypatch.context() as patched:
        patched.setattr("benchmark.cli.new.write_text", write)
        answer = cli("new", kind, "own-words")
    assert answer.code == 1 and "No space left" in answer.err and list(here.iterdir()) == []
    assert cli("new", kind, "own-words").code == 0 and (here / "own_words.py").is_file()


def test_the_shipped_files_are_short_and_new(here: Path) -> None:
    """A newcomer reads the method on one screen or two; its ten pairs are none of the pocket suite."""
    assert len((SHIPPED / "my_method.py").read_text(encoding="utf-8").splitlines()) <= 77
    pairs = read_pairs(SHIPPED / "my_task" / "pairs.tsv")
    pocket = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "benchmark/data/pocket").iterdir())
    assert len(set(pairs.texts())) == 20 and not any(text in pocket for text in pairs.texts())
    assert sorted(set(pairs.gold)) == [0, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5]
