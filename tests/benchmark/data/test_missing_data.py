"""What a command prints where data is not: each cause once, with the places that were searched and the right folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import Cli
from hypothesis import given
from hypothesis import strategies as st

from benchmark.checking.tolerances import Verdict, Verified
from benchmark.data.catalog import dataset
from benchmark.data.sources import DataSource, in_one
from benchmark.tasks import TASKS
from benchmark.tasks.suites import choose_tasks, suites_named
from zoo.errors import MissingError


def lay_out(root: Path, suite: str, below: str) -> None:
    """Make a first file of each data set of a suite in the layout `below` (senteval, its downstream, SentEval ...)."""
    for task in choose_tasks(suites_named(suite)[0], None):
        form = dataset(TASKS.get(task).dataset).form(TASKS.get(task).form)
        folder = Path(form.folder)
        if folder.parts[0] == "senteval":
            folder = Path(below, *folder.parts[1:]) if below in ("", "SentEval") else Path(below, *folder.parts[2:])
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / next(iter(form.files))).write_text("0", encoding="utf-8")


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    ("suite", "below"), [("sts", ""), ("sts", "SentEval"), ("transfer", "senteval/downstream"), ("words", "")]
)
@pytest.mark.parametrize("given", ["", "data/other", "data/other/one/deeper", "data/senteval"])
def test_a_folder_near_the_users_that_has_the_data_is_named_once(
    suite: str, below: str, given: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A level too high, or up to three too low: a line for all data sets, whose command finds them."""
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))
    right = tmp_path / "data"
    lay_out(right, suite, below)
    folder = tmp_path / given
    folder.mkdir(parents=True, exist_ok=True)
    words = ("run", "--methods", "random", "--suite", suite, "--results", tmp_path / "out")
    answer = cli(*words, "--data", folder)
    if below == "senteval/downstream" and given == "data/senteval":
        assert answer.code == 1 and "not under" not in answer.err
        return
    lines = [line for line in answer.err.splitlines() if line.startswith("n/a: ")]
    assert len(lines) == 1 and lines[0].endswith(f"not under {folder}, but under {right}: give --data {right}.")
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "other-cache"))
    assert "not under" not in cli(*words, "--data", right).err


@given(st.lists(st.text("aA1 :().,/", min_size=1), min_size=1, max_size=3))
def test_a_cause_of_a_task_is_said_as_it_is_once(parts: list[str]) -> None:
    reason = ": ".join(parts)
    assert in_one([reason]) == in_one([reason, reason]) == reason


@pytest.mark.usefixtures("no_network")
def test_data_that_is_nowhere_near_is_said_to_be_in_no_place_that_was_searched(tmp_path: Path) -> None:
    lay_out(tmp_path / "data", "sts", "")
    far = tmp_path / "far" / "away"
    far.mkdir(parents=True)
    with pytest.raises(MissingError, match=f"not under {far}, not in the cache"):
        DataSource(far, hub=False, cache=tmp_path / "cache").locate("STS12", "tokenised")


@pytest.mark.parametrize(
    "words",
    [
        ("data", "fetch"),
        ("data", "texts", "--suite", "transfer,sts", "--out", "texts.txt"),
        ("run", "--methods", "random,bag-of-words", "--seeds", "2", "--suite", "sts,words", "--results", "out"),
        ("run", "--methods", "random", "--suite", "transfer", "--results", "out", "--controls"),
        # A wheel has zoo-small; zoo-mini is in the cache of other tests.
        ("run", "--methods=simcse,whitening", "--backbone=zoo-small", "--suite=sts", "--results=out", "--controls"),
    ],
)
def test_without_data_each_command_says_so_in_at_most_three_lines(
    words: tuple[str, ...], cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ZOO_BENCH_DATA", raising=False)
    answer = cli(*words)
    lines = [line for line in (answer.err + answer.out).splitlines() if "not in the cache" in line]
    assert answer.code == 1 and 1 <= len(lines) <= 3
    assert all(str(tmp_path / "cache" / "data") in line for line in lines)
    assert max(len(line.replace(str(tmp_path), "")) for line in lines) < 280


@pytest.mark.parametrize("names", [("STS12", "STS13"), ("MR", "CR", "SST2", "MPQA", "TREC", "MRPC")])
def test_a_verification_without_data_names_a_cause_once(names: tuple[str, ...], tmp_path: Path) -> None:
    verdicts = []
    for name in names:
        with pytest.raises(MissingError) as error:
            DataSource(tmp_path, hub=False, cache=tmp_path / "cache").locate(name, "tokenised")
        verdicts += [Verdict("not verifiable", row, f"{row} on {name}", str(error.value)) for row in ("cls", "sif")]
    line, total, *_ = str(Verified(verdicts)).splitlines()
    assert line.startswith(f"not verifiable: {2 * len(names)} cells of cls, sif: {names[0]} (tokenised, senteval/")
    assert line.count(str(tmp_path / "cache")) == 1 and f", {names[1]}" in line
    assert total == f"{2 * len(names)} cells: 0 verified, 0 differs, {2 * len(names)} not verifiable."
