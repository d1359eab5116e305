"""Does a test notice when an important line of benchmark/ is wrong? `python tests/mutations.py [NUMBER ...]`.

Each mutation replaces one line by a plausible mistake, in a copy of the project, and runs the tests named beside it
there: they pass without it and one of them must fail with it. Prints a line per mutation; exit code 1 where a mistake
survived.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
_LEADERBOARD = "tests/benchmark/report/test_leaderboard.py"


@dataclass(frozen=True)
class Mutation:
    """A part of a line that stands once in `file`, what stands there instead, and the tests that must notice."""

    file: str  # below benchmark/
    line: str
    instead: str
    tests: str  # arguments of pytest
    what: str


MUTATIONS = (
    Mutation(
        "report/stats.py",
        "for r in row[task]], axis=0) for row in rows",
        "for r in row[task][:1]], axis=0) for row in rows",
        "tests/benchmark/report/test_best.py -k all_seeds",
        "a row has the pair noise of its first seed alone",
    ),
    Mutation(
        "report/stats.py",
        'pairs_of(r)["gold_sha256"], r["protocol"]',
        'pairs_of(r)["gold_sha256"], 0',
        "tests/benchmark/report/test_protocols.py",
        "rows of another protocol are compared with the best",
    ),
    Mutation(
        "report/table.py",
        "if done < len(tasks):",
        "if done < 1:",
        f"{_LEADERBOARD} -k incomplete",
        "a row with a missing task has an average",
    ),
    Mutation(
        "report/table.py",
        'if len({(r["task"]["sha256"], r["task"]["version"], r["protocol"]) for r in good}) > 1:',
        "if False:",
        f"{_LEADERBOARD} -k conflict",
        "scores on different data are averaged",
    ),
    Mutation(
        "report/table.py",
        'by_task[record["task"]["name"], record["limit"] is not None].append',
        'by_task[record["task"]["name"], False].append',
        f"{_LEADERBOARD} -k trial",
        "trials stand among full rows",
    ),
    Mutation(
        "report/values.py",
        "statistics.stdev(values)",
        "statistics.pstdev(values)",
        f"{_LEADERBOARD} -k sample_deviation",
        "the spread over seeds is that of a population",
    ),
    Mutation(
        "report/about.py",
        "len(frozenset[str]().union(*known.values()))",
        "sum(map(len, known.values()))",
        f"{_LEADERBOARD} -k union",
        "a test text of two tasks counts twice",
    ),
    Mutation(
        "report/about.py",
        "any(start is None for _, start in peaks)",
        "False",
        f"{_LEADERBOARD} -k whole_process",
        "the memory of the whole process is shown as a row's",
    ),
    Mutation(
        "report/conditions.py",
        'if traits["transductive"]:',
        "if False:",
        f"{_LEADERBOARD} -k supervised_and_transductive",
        "a method fitted on the test texts passes for unsupervised",
    ),
    Mutation(
        "report/published.py",
        "if aggregated and theirs != ours",
        "if False",
        "tests/benchmark/report/test_published.py -k wmean",
        "published values of another aggregation are compared",
    ),
    Mutation(
        "records/conflicts.py",
        "measured[:1] if all(_measured(one.record) == first for one in measured) else measured",
        "measured[:1]",
        "tests/benchmark/records/test_conflicts.py",
        "of two scores of one cell the earlier one wins silently",
    ),
    Mutation(
        "metrics/correlation.py",
        "(ends - (counts - 1) / 2)[which]",
        "ends[which]",
        "tests/benchmark/metrics/test_correlation.py -k scipy",
        "tied values do not share the mean of their ranks",
    ),
    Mutation(
        "metrics/correlation.py",
        "np.average(values, weights=counts)",
        "np.average(values)",
        "tests/benchmark/metrics/test_correlation.py -k aggregates",
        "wmean is not weighted",
    ),
    Mutation(
        "metrics/probe/protocol.py",
        "best = int(np.argmax(means))",
        "best = int(np.argmin(means))",
        "tests/benchmark/metrics/test_probe.py -k chosen",
        "a probe takes the worst penalty",
    ),
    Mutation(
        "tasks/base.py",
        'main = result["all"]["spearman"]',
        'main = result["mean"]["spearman"]',
        "tests/benchmark/tasks/test_sts.py -k independent",
        "the leaderboard's score is another aggregation",
    ),
    Mutation(
        "tasks/sts.py",
        'PairsData(located, {"test": splits["test"]}, splits["dev"]',
        'PairsData(located, {"test": splits["dev"]}, splits["dev"]',
        "tests/benchmark/tasks/test_sts.py -k only_the_test_split",
        "STS-B is scored on its development pairs",
    ),
    Mutation(
        "tasks/transfer.py",
        "return self.parts[-1].texts()",
        "return self.texts()",
        "tests/benchmark/tasks/test_transfer.py -k tested_texts",
        "training rows of a task count as test texts",
    ),
    Mutation(
        "data/corpora.py",
        'return re.sub(r"[\\W_]+", "", text.lower())',
        'return re.sub(r"[\\W_]+", "", text)',
        "tests/benchmark/data/test_corpora.py -k spelling",
        "a capital letter hides a test text in the training text",
    ),
    Mutation(
        "data/sources.py",
        "if actual != expected:",
        "if False:",
        "tests/benchmark/data/test_sources.py -k wrong_checksum",
        "a data file with another sha256 is read",
    ),
    Mutation(
        "identity.py",
        "precision=precision,",
        'precision="fp32",',
        "tests/benchmark/run/test_plan.py -k every_input",
        "cells of two precisions share a key",
    ),
    Mutation(
        "run/measure.py",
        'simplex(self._adaptation["rank"], self._adaptation["texts"])',
        "None",
        "tests/benchmark/run/test_runner.py -k fixes_every_cosine",
        "a fit that fixes every cosine has a score",
    ),
    Mutation(
        "run/vectors.py",
        "covered = self.covered[rows] & np.asarray(self.matrix[rows].any(axis=1))",
        "covered = self.covered[rows]",
        "tests/benchmark/run/test_coverage.py -k zero_vector",
        "a zero vector counts as a known text",
    ),
)


def place_of(mutation: Mutation, root: Path = ROOT) -> Path:
    """Return the file of a mutation; raises ValueError unless its line stands there once."""
    path = root / "benchmark" / mutation.file
    count = path.read_text(encoding="utf-8").count(mutation.line)
    if count != 1:
        raise ValueError(f"benchmark/{mutation.file}: {mutation.line!r} stands there {count} times instead of once")
    return path


def tests_pass(tests: str, copy: Path) -> bool:
    """Return whether the tests named pass in a copy of the project; raises ValueError where any is skipped or none."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests.split()]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1) or "skipped" in done.stdout.splitlines()[-1]:
        raise ValueError(f"pytest {tests}: not all tests were run: {done.stdout[-300:]}")
    return done.returncode == 0


def caught(mutation: Mutation, copy: Path) -> bool:
    """Return whether the tests of a mutation pass without it and fail with it."""
    path = place_of(mutation, copy)
    before = path.read_text(encoding="utf-8")
    if not tests_pass(mutation.tests, copy):
        raise ValueError(f"pytest {mutation.tests}: fails without any mutation")
    path.write_text(before.replace(mutation.line, mutation.instead), encoding="utf-8")
    try:
        return not tests_pass(mutation.tests, copy)
    finally:
        path.write_text(before, encoding="utf-8")


def _not_copied(folder: str, names: list[str]) -> list[str]:
    """Return what of a folder the tests named here do not need: history, caches, and the leaderboards' records."""
    left_out = {".git", "__pycache__"}
    if Path(folder).parent.name == "leaderboards":
        left_out |= {"records", "records.parquet", "pairs.parquet"}
    return [name for name in names if name in left_out or name.endswith("_cache")]


def main(numbers: list[int]) -> int:
    """Run the mutations with these numbers (from 1), or all; returns 1 where a mistake survived, else 0."""
    chosen = [(n, one) for n, one in enumerate(MUTATIONS, 1) if not numbers or n in numbers]
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT, copy, ignore=_not_copied)
        if (ROOT.parent / "shared").is_dir():  # the evaluation data, where it lies beside the project
            (copy.parent / "shared").symlink_to((ROOT.parent / "shared").resolve())
        for number, mutation in chosen:
            started = time.monotonic()
            alive = not caught(mutation, copy)
            survivors += alive
            seconds = time.monotonic() - started
            print(f"{number:2} {'SURVIVED' if alive else 'caught  '} {seconds:5.1f} s  {mutation.what}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutations are caught")
    return min(survivors, 1)


if __name__ == "__main__":
    raise SystemExit(main([int(word) for word in sys.argv[1:]]))
