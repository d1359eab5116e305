"""The runner: one method's fault harms no other, every reason is told, nothing is measured twice."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from fakes import FAKES, FITTED, Cli, planned_run

from benchmark.data.corpora import normalised_texts, overlap
from benchmark.data.sources import DataSource
from benchmark.reasons import reason
from benchmark.records.record import check_record
from benchmark.run.options import RunOptions
from benchmark.run.plan import Run
from benchmark.run.runner import Runner, exit_code
from benchmark.run.stop import SIGNALS, Stop
from benchmark.tasks.loaded import load_tasks
from zoo.errors import ContractError, CorruptError, Interrupted, MissingError, TrainingError, ZooError, error_text
from zoo.files import writing
from zoo.plugins import METHODS
from zoo.recipes import RecipeSpec

pytestmark = pytest.mark.usefixtures("fakes")


def planned(folder: Path, specs: list[RecipeSpec]) -> Run:
    tasks = load_tasks(["pocket-words"], DataSource(None, hub=False), 20)
    return planned_run(RunOptions(methods="bag", results=folder, limit=20, embedding_cache=0.0), specs, tasks)


POCKET = ("pocket-pairs", "pocket-words", "pocket-phrases", "pocket-topics")
FAST = ("--precision", "fp32", "--limit", "20")


def records(out: Path) -> dict[tuple[str, str, int | None], dict[str, Any]]:
    """Every record of a folder by method, task and seed; each is checked, and read as strict JSON."""

    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not standard JSON")

    by_cell = {}
    for path in sorted((out / "records").glob("*/*.json")):
        record = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
        check_record(record, str(path))
        key = (record["method"]["name"], record["task"]["name"], record["seed"])
        assert key not in by_cell, f"two records of {key}"
        by_cell[key] = record
    return by_cell


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("crash-in-fit", "RuntimeError: the optimiser exploded"),
        ("nan-later", "2 of "),
        ("wrong-shape", "of shape (8, 64), not of shape (8, 32)"),
        ("batch-dependent", "depend on the order"),
    ],
)
def test_a_broken_method_is_recorded_and_others_are_measured(bad: str, reason: str, cli: Cli, tmp_path: Path) -> None:
    """The sweep goes on, the exit code and the summary tell."""
    tasks = ("pocket-pairs", "pocket-words")
    common = ("--seeds", 1, "--tasks", ",".join(tasks), "--out", tmp_path, *FAST)
    answer = cli("run", "--methods", f"bag,{bad},bag:salt=1", *common)
    assert answer.code == 1
    by_cell = records(tmp_path)
    for name in ("bag", "bag:salt=1"):
        for task in tasks:
            assert by_cell[name, task, None]["status"] == "ok"
    broken = [record for (name, _, _), record in by_cell.items() if name == bad]
    assert {record["task"]["name"] for record in broken} == set(tasks)
    for record in broken:
        assert record["status"] == "failed"
        assert record["scores"] is None
        assert reason in record["reason"]
        assert record["method"]["name"] == bad
    assert "4 cells measured" in answer.err
    assert "2 failed" in answer.err
    assert bad in answer.err
    assert reason in answer.err


def test_constant_vectors_have_a_null_score_and_a_reason(cli: Cli, tmp_path: Path) -> None:
    """Undefined is null with a reason, never NaN and never 0."""
    answer = cli("run", "--methods", "constant", "--results", tmp_path, *FAST)
    assert answer.code == 1
    by_cell = records(tmp_path)
    for task in POCKET[:3]:
        record = by_cell["constant", task, None]
        assert (record["status"], record["reason"]) == ("failed", reason("constant"))
        assert record["scores"]["main"] is None
        assert record["scores"]["all"] == {"spearman": None, "pearson": None}
    assert by_cell["constant", "pocket-topics", None]["status"] == "failed"
    assert by_cell["constant", "pocket-topics", None]["scores"]["main"] is None


def test_a_task_that_returns_nan_is_a_failed_cell(cli: Cli, tmp_path: Path) -> None:
    """A plugin task's NaN is no score: the cell fails, and the table can still be made."""
    plugin = tmp_path / "nan_task.py"
    plugin.write_text(
        "from benchmark.tasks import TASKS, Task, register_task\n"
        "@register_task('nan-task')\n"
        "class NaNTask(Task):\n"
        "    title, dataset = 'NaN', 'pocket-words'\n"
        "    def load(self, data, limit=None):\n"
        "        found = TASKS.get('pocket-words').load(data, limit)\n"
        "        score = found.score\n"
        "        found.score = lambda vectors: {**score(vectors), 'main': float('nan')}\n"
        "        return found\n"
    )
    out = tmp_path / "out"
    answer = cli("run", "--plugin", plugin, "--methods", "bag", "--tasks", "nan-task", "--results", out, *FAST)
    (record,) = records(out).values()
    assert record["status"] == "failed" and "nan" in record["reason"]
    assert answer.code == 1


@pytest.mark.slow
def test_fail_fast_stops_after_the_first_failure(cli: Cli, tmp_path: Path) -> None:
    """What was measured before stays, what comes after is not begun."""
    arguments = ("run", "--methods", "bag,wrong-shape,bag:salt=1", "--results", tmp_path, *FAST)
    assert cli(*arguments, "--fail-fast").code == 1
    assert {name for name, _, _ in records(tmp_path)} == {"bag", "wrong-shape"}
    assert cli(*arguments).code == 1
    assert {name for name, _, _ in records(tmp_path)} == {"bag", "wrong-shape", "bag:salt=1"}


def test_missing_data_is_not_available_with_a_reason(cli: Cli, tmp_path: Path) -> None:
    """No 0: n/a with the place that was searched and the remedy, said once, and no record is kept of it."""
    arguments = ("run", "--methods", "bag", "--tasks", "STS12,STS13,pocket-words", "--out", tmp_path, *FAST)
    answer = cli(*arguments)
    assert answer.code == 1
    by_cell = records(tmp_path)
    assert [(task, record["status"]) for (_, task, _), record in by_cell.items()] == [("pocket-words", "ok")]
    reasons = [line for line in answer.err.splitlines() if "n/a: " in line and "--data" in line]
    assert any(str(DataSource(None).cache) in line for line in reasons)
    assert "2 n/a" in answer.err
    assert cli(*arguments, "--allow-missing").code == 0


def test_allow_missing_does_not_excuse_a_failure(cli: Cli, tmp_path: Path) -> None:
    """Only missing things are excused."""
    arguments = ("run", "--methods", "wrong-shape", "--tasks", "pocket-words", "--results", tmp_path, "--allow-missing")
    assert cli(*arguments, *FAST).code == 1


@pytest.mark.slow
def test_a_finished_cell_is_kept_a_failed_one_tried_again(cli: Cli, tmp_path: Path) -> None:
    """The second run measures nothing that has a score; a failed cell gets another chance."""
    arguments = ("run", "--methods", "bag,fitted", "--seeds", 2, "--results", tmp_path, *FAST)
    assert cli(*arguments).code == 0
    assert FITTED == ["Fitted", "Fitted"]
    before = {p: p.read_bytes() for p in (tmp_path / "records").rglob("*.json")}
    answer = cli(*arguments)
    assert "0 cells measured, 12 kept" in answer.err
    assert FITTED == ["Fitted", "Fitted"]
    assert {p: p.read_bytes() for p in (tmp_path / "records").rglob("*.json")} == before

    path = next(p for p in before if p.parent.name == "bag")
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "status": "failed", "reason": "power cut", "scores": None}))
    assert "1 cell measured, 11 kept" in cli(*arguments).err
    assert json.loads(path.read_text())["scores"] == record["scores"]


@pytest.mark.slow
def test_a_new_task_uses_the_saved_encoder(cli: Cli, tmp_path: Path) -> None:
    """An encoder is trained once, however many runs measure it."""
    common = ("run", "--methods", "fitted", "--seeds", 1, "--results", tmp_path, *FAST)
    assert cli(*common, "--tasks", "pocket-words").code == 0
    assert cli(*common).code == 0
    assert FITTED == ["Fitted"]
    everything = records(tmp_path)
    assert {task for _, task, _ in everything} == set(POCKET)
    assert all(record["training"]["steps"] == 1 for record in everything.values())


@pytest.mark.slow
def test_a_damaged_saved_encoder_is_found_and_trained_again(cli: Cli, tmp_path: Path, tiny_bert: Path) -> None:
    """A truncated safetensors file is one warning and a new training with the same result."""
    common = ("run", "--methods", "simcse:batch_size=8", "--backbone", tiny_bert, "--seeds", 1, "--results", tmp_path)
    common = (*common, "--train-sentences", 48, "--tasks", "pocket-words", *FAST)
    assert cli(*common).code == 0
    ((key, before),) = records(tmp_path).items()
    (weights,) = (tmp_path / "encoders").rglob("encoder/*.safetensors")
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    next((tmp_path / "records").rglob("*.json")).unlink()
    answer = cli(*common)
    assert answer.code == 0
    assert answer.err.count("warning") == 1
    assert str(weights) in answer.err
    after = records(tmp_path)[key]
    assert after["scores"] == before["scores"]
    assert weights.read_bytes() == content


def test_test_texts_among_the_training_sentences_are_counted(cli: Cli, tmp_path: Path) -> None:
    """The record names the test texts that are in the training text, each once, whatever case and spaces."""
    task = load_tasks(["pocket-phrases"], DataSource(None, hub=False), 20)[0]
    assert task.data is not None
    tested = list(dict.fromkeys(task.data.texts()))
    corpus = tmp_path / "corpus.txt"
    lines = [
        tested[0].upper(),
        f"  {tested[1]} .",
        tested[2],
        tested[2],
        "a sentence about nothing that is tested",
        "...",
    ]
    corpus.write_text("\n".join(lines) + "\n", encoding="utf-8")
    out = tmp_path / "out"
    common = ("--seeds", 1, "--corpus", corpus, "--tasks", "pocket-phrases", "--out", out, *FAST)
    assert cli("run", "--methods", "fitted", *common).code == 0
    (record,) = records(out).values()
    overlaps = record["training"]["overlap"]
    assert overlaps["digests"] == overlap(normalised_texts(tested[:3]), tested) and len(overlaps["digests"]) == 3
    assert overlaps["texts"] == len(normalised_texts(tested))
    assert record["training"]["corpus"]["sentences"] == 6
    assert "⚠ 3 test texts are in the training text" in (out / "pocket-trial.md").read_text(encoding="utf-8")


def test_a_long_error_is_cut_in_its_record(cli: Cli, tmp_path: Path) -> None:
    class Shouting(FAKES["bag"]):  # type: ignore[misc,valid-type]
        def encode(self, texts: Any) -> Any:
            if len(texts) > 16:  # not the texts by which a plugin is known
                raise RuntimeError("x" * 10**6)
            return super().encode(texts)

    METHODS.register("shouting")(Shouting)
    assert cli("run", "--methods", "shouting", "--tasks", "pocket-words", "--results", tmp_path, *FAST).code == 1
    (record,) = records(tmp_path).values()
    assert record["reason"].startswith("RuntimeError: ") and len(record["reason"]) < 5_000
    assert record["traceback"].endswith("xxx\n") and len(record["traceback"]) == 100_000


@pytest.mark.parametrize("removed", ["out/encoders", "out/encoders/*/fit.json", "out"])
def test_a_folder_removed_during_a_run_fails_the_cells_that_follow(removed: str, cli: Cli, tmp_path: Path) -> None:
    """What the record would say of the training is gone: no record says that nothing was trained."""

    class Removing(FAKES["fitted"]):  # type: ignore[misc,valid-type]
        def encode(self, texts: Any) -> Any:
            if len(texts) > 16:  # not the texts by which a plugin is known
                for path in tmp_path.glob(removed):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            return super().encode(texts)

    METHODS.register("removing")(Removing)
    few = ("--tasks", "pocket-words,pocket-pairs", "--seeds", 1, "--results", tmp_path / "out", *FAST)
    assert cli("run", "--methods", "removing", *few).code == 1
    by_cell = records(tmp_path / "out")
    assert len(by_cell) == 2
    for record in by_cell.values():
        assert record["status"] == "failed" and "was removed or changed during the run" in record["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["whitening:fit_on=target", "whitening:base=whitening-target:fit_on=target:k=2"])
def test_a_fit_that_fixes_every_cosine_gives_no_score(cli: Cli, tmp_path: Path, tiny_bert: Path, method: str) -> None:
    """Whitening fitted to as few words as it has directions: n/a with the reason; on more of them it has a score."""
    out = tmp_path / "out"
    few = ("--tasks", "pocket-words", "--limit", 4, "--precision", "fp32", "--backbone", tiny_bert, "--out", out)
    answer = cli("run", "--methods", method, "--allow-missing", *few)
    assert answer.code == 0
    (record,) = records(out).values()
    texts = record["adapt"]["texts"]
    assert (record["status"], record["scores"], record["adapt"]["rank"]) == ("n/a", None, texts - 1)
    assert f"{texts} distinct texts has rank {texts - 1}" in record["reason"]
    assert record["reason"] in answer.err


@pytest.mark.slow
def test_the_time_of_a_fit_to_the_texts_of_a_task_is_recorded(cli: Cli, tmp_path: Path, tiny_bert: Path) -> None:
    """In the record of each task, and in the table; a method that fits nothing to them has none."""
    common = ("--backbone", tiny_bert, "--tasks", "pocket-pairs,pocket-topics", "--precision", "fp32", "--limit", 60)
    assert cli("run", "--methods", "whitening:fit_on=target:k=4,avg-last", *common, "--results", tmp_path).code == 0
    for (name, _, _), record in records(tmp_path).items():
        assert (record["adapt"] is None) is (name == "avg-last")
        if record["adapt"]:
            assert record["adapt"]["seconds"] > 0 and record["adapt"]["rank"] == 4
            assert record["adapt"]["texts"] > 20
    assert "Fit per task, s" in (tmp_path / "pocket-trial.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_dev_score_is_used_and_named(cli: Cli, tmp_path: Path) -> None:
    """Only a method that picks checkpoints names the dev task."""
    assert cli("run", "--methods", "fitted,picking", "--seeds", 1, "--results", tmp_path, *FAST).code == 0
    for (name, _, _), record in records(tmp_path).items():
        assert record["training"]["dev_task"] == ("pocket-pairs" if name == "picking" else None)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("number", SIGNALS)
def test_interrupted_between_cells_keeps_what_is_done(number: int, tmp_path: Path) -> None:
    """A signal that comes while a cell is measured ends the run after it, with 128 + its number."""

    class Signalling(FAKES["bag"]):  # type: ignore[misc,valid-type]
        def encode(self, texts: Any) -> Any:
            if len(texts) > 16:  # not the texts by which a plugin is known
                os.kill(os.getpid(), number)
            return super().encode(texts)

    METHODS.register("signalling")(Signalling)
    specs = [RecipeSpec(name, name, "", "", "test") for name in ("signalling", "bag")]
    run = planned(tmp_path, specs)
    handlers = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(Interrupted) as stopped:
        Runner(run).measure_all()
    assert stopped.value.exit_code == 128 + number
    assert [signal.getsignal(number) for number in SIGNALS] == handlers
    assert ("bag", "pocket-words", None) not in records(tmp_path)
    outcome = Runner(planned(tmp_path, specs[1:])).measure_all()
    assert exit_code(outcome, allow_missing=False) == 0


def test_waiting_for_another_process_can_be_interrupted(tmp_path: Path) -> None:
    """A run that waits for an encoder which another process makes still obeys a signal at once."""
    specs = [RecipeSpec("bag", "bag", "", "", "test")]
    run = planned(tmp_path, specs)
    path = tmp_path / "encoders" / f"bag-{run.encoders[0].key[:16]}.lock"
    path.parent.mkdir(parents=True)
    script = (
        f"import filelock; lock = filelock.FileLock({str(path)!r}); lock.acquire(); print('held', flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        stop = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM))
        release = threading.Timer(60, holder.kill)
        stop.start()
        release.start()
        try:
            with pytest.raises(Interrupted):
                Runner(run).measure_all()
            assert holder.poll() is None, "the run ended while the other process still held the lock"
        finally:
            stop.cancel()
            release.cancel()
            holder.kill()


def _lack() -> Exception:
    """What the training loop makes of memory that runs out."""
    error = ZooError("out of memory at step 0 with batch_size 64")
    error.__cause__ = MemoryError()
    return error


def _full() -> Exception:
    """What a checkpoint's writer makes of a full disk."""
    try:
        with writing(Path("state.safetensors")):
            raise OSError(errno.ENOSPC, "No space left on device")
    except ZooError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "doubtful"),
    [
        (_full(), True),
        (_lack(), True),
        (CorruptError("model.safetensors is damaged: its sha256 is another"), True),
        (MissingError("model.safetensors does not exist."), True),
        (PermissionError(errno.EACCES, "Permission denied", "cache"), True),
        (TrainingError("the loss is nan at step 3"), False),
        (ContractError("2 of 8 vectors have NaN or infinity"), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_a_machine_lacks_is_doubted_and_an_encoder_s_own_fault_is_not(
    error: Exception, doubtful: bool, tmp_path: Path
) -> None:
    """A cluster measures it on another node before it is booked as the encoder's."""

    class Failing(FAKES["bag"]):  # type: ignore[misc,valid-type]
        def fit(self, *_: Any, **__: Any) -> Any:
            raise error

    METHODS.register("failing")(Failing)
    run = planned(tmp_path, [RecipeSpec("failing", "failing", "", "", "test")])
    outcome = Runner(run).measure(run.encoders[0], Stop())
    assert outcome is not None and len(outcome.failed + outcome.missing) == 1
    assert [error_text(error)] * doubtful == outcome.doubtful
