"""Methods that end the whole process: told where Python can tell it, else by the next run, which takes them last."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes import FAKES

from benchmark.data.sources import DataSource
from benchmark.run.executors.claims import Claims
from benchmark.run.marks import MethodMarks, begun, forget, mark_of, marked
from benchmark.run.plan import EncoderPlan, Plan, Setting, make_plan, resolve_methods
from benchmark.run.runner import Runner
from benchmark.tasks.loaded import load_tasks
from zoo.encoder import Runtime
from zoo.recipe import RecipeSpec
from zoo.registry import METHODS

PLUGIN = """
import os, signal
from os import _exit
from fakes import Bag
from zoo.registry import register_method

@register_method("deadly")
class Deadly(Bag):
    def encode(self, texts):
        {body}
        return super().encode(texts)
"""
KILLS = "'SPARE' not in os.environ: os.kill(os.getpid(), signal.SIGKILL)"


def zoo_bench(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    fakes = str(Path(__file__).parents[1])
    paths = os.pathsep.join([fakes, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "benchmark", *map(str, words)],
        capture_output=True, text=True, timeout=240, env={**os.environ, "PYTHONPATH": paths, **environment},
    )  # fmt: skip


def run_words(plugin: Path, out: Path) -> list[object]:
    return [
        "run", "--plugin", plugin, "--methods", "deadly,random", "--tasks", "pocket-words", "--seeds", 1,
        "--precision", "fp32", "--device", "cpu", "--results", out,
    ]  # fmt: skip


def statuses(out: Path) -> dict[str, tuple[str, str | None]]:
    found = [json.loads(path.read_text(encoding="utf-8")) for path in (out / "records").rglob("*.json")]
    return {record["method"]["name"]: (record["status"], record["reason"]) for record in found}


@pytest.mark.slow
def test_leaving_fails_cells_and_a_check(tmp_path: Path) -> None:
    """Also where the plugin took the function by its name when it was loaded."""
    plugin = tmp_path / "plugin.py"
    plugin.write_text(PLUGIN.format(body="_exit(0)"))
    checked = zoo_bench("check", "deadly", "--plugin", plugin)
    assert checked.returncode == 1 and "os._exit(0) was called, which ends the whole process" in checked.stdout
    assert "save and load" in checked.stdout, "the checks after it are made"
    done = zoo_bench(*run_words(plugin, tmp_path / "out"))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    found = statuses(tmp_path / "out")
    assert found["random"] == ("ok", None)
    status, reason = found["deadly"]
    assert status == "failed" and reason is not None and reason.startswith("os._exit(0) was called")
    assert not list((tmp_path / "out" / "encoders").glob("*.begun"))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_after_a_death_the_encoder_is_taken_last(workers: int, tmp_path: Path) -> None:
    """It dies on the texts of a task, not on the eight that every method of a plugin is asked for before a run."""
    plugin, out = tmp_path / "plugin.py", tmp_path / "out"
    plugin.write_text(PLUGIN.format(body=f"if len(texts) > 8 and {KILLS}"))
    words = run_words(plugin, out)
    assert zoo_bench(*words).returncode == -signal.SIGKILL
    assert statuses(out) == {}
    again = zoo_bench(*words, *(["--executor", "processes", "--workers", workers] if workers > 1 else []))
    assert again.returncode == (-signal.SIGKILL if workers == 1 else 1)
    assert again.stderr.count("the process died while it worked on deadly") == 1
    assert statuses(out) == {"random": ("ok", None)}, "the one after it was measured first"
    spared = zoo_bench(*words, SPARE="yes")
    assert spared.returncode == 0 and spared.stderr.count("the process died while it worked on deadly") == 1
    assert statuses(out)["deadly"] == ("ok", None)
    assert not list((out / "encoders").glob("*.begun"))
    assert "died" not in zoo_bench(*words).stderr


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_after_a_death_in_planning_its_cells_fail(workers: int, tmp_path: Path) -> None:
    """Every plan would end like the first; the run after the next one asks again."""
    plugin, out = tmp_path / "plugin.py", tmp_path / "out"
    plugin.write_text(PLUGIN.format(body=f"if {KILLS}"))
    words = run_words(plugin, out)
    assert zoo_bench(*words).returncode == -signal.SIGKILL
    again = zoo_bench(*words, "--workers", workers)
    assert again.returncode == 1 and "Traceback" not in again.stderr
    found = statuses(out)
    status, reason = found["deadly"]
    assert found["random"] == ("ok", None) and status == "failed"
    assert reason is not None and reason.startswith("the process died while it asked this method for its vectors")
    assert not list((out / "encoders").glob("*.asked*"))
    assert zoo_bench(*words, SPARE="yes").returncode == 0


def test_a_mark_stays_only_where_the_process_ends(tmp_path: Path) -> None:
    mark = mark_of(tmp_path / "encoders" / "one-0123")
    with pytest.raises(KeyError), marked(mark, "one, seed 3"):
        assert json.loads(mark.read_text())["encoder"] == "one, seed 3" and begun(mark).startswith(" (begun 2")
        raise KeyError
    assert not mark.exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"begun": {"a": 1}}'])
def test_a_damaged_mark_says_nothing_and_breaks_nothing(content: str, tmp_path: Path) -> None:
    mark = mark_of(tmp_path / "one-0123")
    mark.write_text(content)
    assert len(begun(mark).splitlines()) <= 1


def test_processes_that_ask_at_the_same_time_are_not_dead(tmp_path: Path) -> None:
    first, second = MethodMarks(tmp_path), MethodMarks(tmp_path)
    with (
        first.asking("bag") as one,
        second.asking("bag") as other,
        MethodMarks(tmp_path, write=False).asking("bag") as third,
    ):
        assert (one, other, third) == (None, None, None) and len(list(tmp_path.glob("*.asked"))) == 2
    assert not list(tmp_path.iterdir())
    (tmp_path / "bag.0123abcd.asked").write_text("{}")
    for write in (True, False):
        late = MethodMarks(tmp_path, write)
        with late.asking("bag") as sentence, late.asking("other") as none:
            assert sentence is not None and none is None
    forget(late.left)
    assert not list(tmp_path.iterdir())


def plans_of(*names: str) -> list[EncoderPlan]:
    for name in names:
        METHODS.register(name)(FAKES[name])
    specs = [RecipeSpec(name, name, "", "", "test") for name in names]
    loaded = load_tasks(["pocket-words"], DataSource(None, hub=False), 20)
    return make_plan(resolve_methods(specs, {}), [0], Setting(tasks=loaded, runtime=Runtime(), limit=20)).encoders


@contextmanager
def held(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process holds an encoder's lock until it is killed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    program = (
        f"import filelock; lock = filelock.FileLock({str(folder) + '.lock'!r}); lock.acquire()\n"
        "print('held', flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        try:
            yield holder
        finally:
            holder.kill()


@pytest.mark.usefixtures("clean_registries")
def test_a_mark_of_a_process_at_work_is_no_death(tmp_path: Path) -> None:
    """Its lock is held; only one that nobody holds was left."""
    plans, runner = plans_of("bag", "constant"), Runner(tmp_path, Runtime())
    folder = runner.records.encoder_folder("bag", plans[0].key)
    with held(folder):
        mark_of(folder).write_text("{}")
        assert [plan.name for plan in runner._deadly_last(plans)] == ["bag", "constant"]
    assert [plan.name for plan in runner._deadly_last(plans)] == ["constant", "bag"]


@pytest.mark.usefixtures("clean_registries")
def test_a_worker_comes_back_to_the_encoder_that_it_claimed(tmp_path: Path) -> None:
    """Another process held its lock when it was claimed: nobody else would take it."""
    plans, runner = plans_of("bag", "constant"), Runner(tmp_path / "out", Runtime())
    (tmp_path / "claims").mkdir()
    runner.claims = Claims(tmp_path / "claims", 0)
    with held(runner.records.encoder_folder("bag", plans[0].key)) as holder:
        release = threading.Timer(1, holder.kill)
        release.start()
        runner.run(Plan(plans))
    assert statuses(tmp_path / "out").keys() == {"bag", "constant"}
