"""Paths, the limits of a machine, imports, and doubts about a training text."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zoo
from zoo import limits
from zoo.check import doubts_of
from zoo.encoder import Corpus
from zoo.errors import UsageError
from zoo.paths import cache_folder

# The cache folder of a user without a home.


def test_a_user_without_home_and_passwd_line_has_a_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nobody(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    for name in ("HOME", "XDG_CACHE_HOME", "ZOO_BENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert cache_folder() == tmp_path / f"zoo-bench-{os.getuid()}"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder().is_relative_to(tmp_path / "home")


# Limits of control groups: whichever version, at whatever depth.

PARTS = st.lists(st.sampled_from(["system.slice", "slurmstepd.scope", "job_7", "step_0", "docker-1.scope"]), max_size=4)


def write(folder: Path, version: int, cpus: int | None, memory: int | None) -> None:
    if version == 2:
        files = {
            "cpu.max": "max 100000" if cpus is None else f"{cpus * 50_000} 50000",
            "memory.max": "max" if memory is None else str(memory),
        }
    else:
        files = {
            "cpu.cfs_quota_us": "-1" if cpus is None else str(cpus * 100_000),
            "cpu.cfs_period_us": "100000",
            "memory.limit_in_bytes": str(2**63 - 4096 if memory is None else memory),
        }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text + "\n")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    version=st.sampled_from([1, 2]),
    path=PARTS,
    limits_by_depth=st.lists(
        st.tuples(st.none() | st.integers(1, 8), st.none() | st.integers(2**30, 2**33)), min_size=5, max_size=5
    ),
    mounts=st.sampled_from([("cpu", "memory"), ("cpu,cpuacct", "memory")]),
    own_group_at_mount=st.booleans(),
)
def test_the_smallest_limit_of_a_group_and_those_around_it(
    tmp_path_factory, monkeypatch, version, path, limits_by_depth, mounts, own_group_at_mount
):
    tmp_path = tmp_path_factory.mktemp("groups")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 16)
    monkeypatch.setattr(limits, "_MOUNT", PurePosixPath(tmp_path))
    monkeypatch.setattr(limits, "_OWN_GROUPS", PurePosixPath(tmp_path / "own"))
    stated = "/" + "/".join(path)
    lines = [f"0::{stated}"] if version == 2 else [f"{n}:{names}:{stated}" for n, names in enumerate(mounts, 2)]
    (tmp_path / "own").write_text("9:pids:/elsewhere\n" + "\n".join(lines) + "\n")
    # In a container the mount is the process's own group.
    depth = 0 if own_group_at_mount else len(path)
    for level in range(depth + 1):
        for mount in ("",) if version == 2 else mounts:
            write(tmp_path.joinpath(mount, *path[:level]), version, *limits_by_depth[level])
    cpus, memory = zip(*limits_by_depth[: depth + 1], strict=True)
    assert limits.threads_here() == min([16, *filter(None, cpus)])
    machine = limits.os.sysconf("SC_PHYS_PAGES") * limits.os.sysconf("SC_PAGE_SIZE")
    assert limits.memory_here() == min([machine, *filter(None, memory)])


@pytest.mark.parametrize("text", ["", "\n", "garbage", "0:", "0::", ":::::", "4:memory:relative/path"])
def test_without_a_readable_group_the_machine_counts(tmp_path, monkeypatch, text):
    (tmp_path / "own").write_text(text)
    monkeypatch.setattr(limits, "_MOUNT", PurePosixPath(tmp_path / "none"))
    monkeypatch.setattr(limits, "_OWN_GROUPS", PurePosixPath(tmp_path / "own"))
    assert limits.threads_here() == torch.get_num_threads()
    assert limits.memory_here() > 0


# What importing costs.


def heavy_modules_after(code: str) -> str:
    program = f"import sys\n{code}\nprint(sorted({{'torch', 'transformers', 'sklearn'}} & set(sys.modules)))"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import zoo, zoo.encoder, zoo.plugins, zoo.recipes, zoo.errors, zoo.files, zoo.progress, zoo.machine",
        "from zoo.plugins import METHODS; assert 'simcse' in METHODS.names(); METHODS.origin('ptbert')",
        "from zoo.recipes import all_recipes as every; from zoo.selection import parse_methods\n"
        "assert parse_methods('static-*', every())",
    ],
    ids=["import", "listing methods", "choosing recipes"],
)
def test_no_torch_is_imported_for(code: str) -> None:
    assert heavy_modules_after(code) == "[]"


def test_the_probe_of_heavy_imports_sees_torch_where_it_is() -> None:
    assert "torch" in heavy_modules_after("from zoo.plugins import METHODS; METHODS.get('cls')")


def test_a_method_loads_neither_transformers_nor_scikit_learn() -> None:
    """With vectors in the embedding cache no weights are read, and start-up is most of what a run takes."""
    assert heavy_modules_after("from zoo.plugins import METHODS; METHODS.get('avg')") == "['torch']"


def test_lazy_names_of_the_package_are_the_objects_themselves() -> None:
    from zoo.encoder import Encoder

    assert zoo.Encoder is Encoder
    assert all(hasattr(zoo, name) for name in zoo.__all__)
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = zoo.nothing_of_the_kind


# Texts that teach nothing: counted by a count of their own over made texts.

WORDS = st.sampled_from(["a dog", "two cats", "rain", "the sun", "a b", "c"])
BLANKS = st.sampled_from(["{}", " {}", "{}\t", "{} "])
TEXTS = st.builds(lambda blank, words: blank.format(words), BLANKS, WORDS)
LABELS = st.sampled_from(["entailment", "contradiction", "neutral"])


@given(st.lists(TEXTS, min_size=1, max_size=30))
def test_sentences(sentences: list[str]) -> None:
    distinct = len({text.strip() for text in sentences})
    corpus = Corpus("mine.txt", sentences)
    if distinct == 1:
        with pytest.raises(UsageError, match=r"mine\.txt has one distinct sentence"):
            doubts_of(corpus)
        return
    doubts = doubts_of(corpus)
    assert len(doubts) == (len(sentences) - distinct > 0.1 * len(sentences))
    assert all(f"{distinct} distinct sentences among {len(sentences)}" in doubt for doubt in doubts)


@given(st.lists(st.tuples(TEXTS, TEXTS, LABELS), min_size=2, max_size=20))
def test_negatives_that_equal_a_positive_or_their_text(rows: list[tuple[str, str, str]]) -> None:
    pairs = [(first.strip(), second.strip()) for first, second, _ in rows]
    corpus = Corpus("mine.csv", [text for first, second, _ in rows for text in (first, second)], [r[2] for r in rows])
    if len(set(pairs)) == 1:
        with pytest.raises(UsageError, match="one distinct pair"):
            doubts_of(corpus)
        return
    equal = 0
    for pair, (*_, label) in zip(pairs, rows, strict=True):
        positive = any(other == pair and row[2] == "entailment" for other, row in zip(pairs, rows, strict=True))
        equal += label == "contradiction" and (positive or pair[0] == pair[1])
    counted = [doubt for doubt in doubts_of(corpus) if "negatives" in doubt]
    assert len(counted) == (equal > 0) and all(doubt.startswith(f"{equal} of ") for doubt in counted)


def test_scores_that_rank_nothing() -> None:
    (doubt,) = doubts_of(Corpus("mine.csv", ["a", "b", "c", "d"], scores=[2.0, 2.0]))
    assert "all pairs of mine.csv have the score 2" in doubt


def test_python_refuses_and_warns_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="one distinct sentence"):
        zoo.fit("simcse:batch_size=4", ["a dog"] * 8)
