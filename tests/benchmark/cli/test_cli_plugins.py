"""Plugins from a file: a method and a task work at once; a broken one is named and harms nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes import Cli

pytestmark = pytest.mark.slow

FAST = ("--precision", "fp32", "--limit", "20")
METHOD = """
from fakes import Bag
from zoo import register_method

@register_method({name!r})
class Mine(Bag):
    '''A bag of words.'''
"""
TASK = """
import numpy as np
from benchmark.data.sources import Located
from benchmark.tasks import TASKS, Task, register_task

@register_task({name!r})
class MyTask(Task):
    title, dataset = "my words", "pocket-words"

    def load(self, data, limit=None):
        return TASKS.get("pocket-words").load(data, limit)
"""


def test_a_plugin_s_method_and_task_are_used(cli: Cli, tmp_path: Path) -> None:
    """One file adds both; they are listed, run and recorded."""
    plugin = tmp_path / "mine.py"
    plugin.write_text(METHOD.format(name="my-bag") + TASK.format(name="my-words"))
    out = tmp_path / "out"
    assert "my-bag" in cli("methods", "--plugin", plugin).out
    assert "my-words" in cli("tasks", "--plugin", plugin).out
    words = ("run", "--plugin", plugin, "--methods", "my-bag:salt=2", "--tasks", "my-words,pocket-words")
    assert cli(*words, "--out", out, *FAST).code == 0
    records = [json.loads(path.read_text(encoding="utf-8")) for path in (out / "records").rglob("*.json")]
    scores = {record["task"]["name"]: record["scores"]["main"] for record in records}
    assert set(scores) == {"my-words", "pocket-words"}
    assert scores["my-words"] == scores["pocket-words"]
    assert {record["method"]["name"] for record in records} == {"my-bag:salt=2"}


def test_a_plugin_takes_part_on_texts_of_a_user(cli: Cli, tmp_path: Path) -> None:
    """`choose` ranks it and `adapt` tries it, as they do with a recipe."""
    plugin, texts, pairs = (tmp_path / name for name in ("mine.py", "texts.txt", "pairs.tsv"))
    plugin.write_text(METHOD.format(name="my-bag"))
    rows = [
        (f"a {c} lies here {i}", f"my {c if i % 2 else 'stone'} was seen {i}", i % 2) for i, c in enumerate("xyz" * 40)
    ]
    texts.write_text("\n".join(f"{a} again" for a, *_ in rows), encoding="utf-8")
    pairs.write_text("first\tsecond\tsame\n" + "\n".join(f"{a}\t{b}\t{c}" for a, b, c in rows), encoding="utf-8")
    chosen = cli("choose", pairs, "--encoders", "my-bag,bag-of-words", "--plugin", plugin, "--json")
    assert {row["name"] for row in json.loads(chosen.out)["rows"]} == {"my-bag", "bag-of-words"}
    words = ("adapt", texts, "--pairs", pairs, "--encoder", "zoo-mini", "--methods", "whitening,my-bag")
    adapted = cli(*words, "--budget", "2 updates", "--seeds", "2", "--out", tmp_path / "out", "--plugin", plugin)
    assert adapted.code == 0 and "my-bag" in adapted.out


def test_check_works_on_a_plugin(cli: Cli, tmp_path: Path) -> None:
    """The contributor's first command."""
    plugin = tmp_path / "mine.py"
    plugin.write_text(METHOD.format(name="my-bag"))
    assert cli("doctor", "my-bag", "--plugin", plugin).code == 0
    plugin = tmp_path / "broken.py"
    plugin.write_text(METHOD.format(name="my-broken") + "    def encode(self, texts): return None\n")
    answer = cli("doctor", "my-broken", "--plugin", plugin)
    assert answer.code == 1
    assert "NoneType" in answer.out


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        ("raise ValueError('half written')", 1, "ValueError: half written"),
        ("import json\n\njson.loads('{')", 3, "JSONDecodeError"),
    ],
    ids=["raises", "in a library"],
)
def test_a_broken_plugin_is_an_error_with_its_line(
    content: str, line: int, reason: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File, line and reason in one sentence, exit 2, before anything is run: the user asked for this file."""
    broken, good = tmp_path / "broken.py", tmp_path / "good.py"
    broken.write_text(content)
    good.write_text(METHOD.format(name="good-bag"))
    words = ("run", "--plugin", good, "--plugin", broken, "--methods", "good-bag", "--tasks", "pocket-words")
    answer = cli(*words, "--out", tmp_path / "out", *FAST)
    assert answer.code == 2
    assert f"{broken}:{line})" in answer.err and reason in answer.err
    monkeypatch.chdir(tmp_path)
    assert f"{broken}:{line})" in cli("doctor", "good-bag", "--plugin", "broken.py").err
    assert not (tmp_path / "out").exists()
    listed = cli("methods", "--plugin", broken)
    assert listed.code == 2 and str(broken) in listed.err and not listed.out


FAULTS = {  # the body of load, or more of the class -> the words of the check, and the function that they name
    "raises": ("return int('x')", "ValueError: invalid literal", "load: return int('x')"),
    "no data": ("return None", "load() must return TaskData, not NoneType", "load"),
    "score by chance": (
        "data = PocketWords(limit)\n"
        "        data.score = lambda _: {'main': np.random.random(), 'main_metric': 'luck'}\n"
        "        return data",
        "score() gives another score the second time",
        "",
    ),
}
ODD_TASK = """
import numpy as np
from benchmark.data.sources import DataSource
from benchmark.tasks import TASKS, Task, register_task

def PocketWords(limit):
    return TASKS.get("pocket-words").load(DataSource(), limit)

@register_task("odd-task")
class OddTask(Task):
    title, dataset = "odd", "odd"

    def load(self, data, limit=None):
        {body}
"""


@pytest.mark.parametrize("fault", FAULTS)
def test_check_tells_what_is_wrong_with_a_task(fault: str, cli: Cli, tmp_path: Path) -> None:
    body, words, place = FAULTS[fault]
    plugin = tmp_path / "odd_task.py"
    plugin.write_text(ODD_TASK.format(body=body))
    answer = cli("doctor", "odd-task", "--plugin", plugin)
    failure = next(line for line in answer.out.splitlines() if line.startswith("FAIL"))
    assert answer.code == 1 and words in failure and (not place or f"in {place})" in failure)


@pytest.mark.parametrize(
    ("body", "words"),
    [("return int('x')", "odd_task.py:14, in load: return int('x')"), ("return None", "not NoneType")],
)
def test_a_task_without_data_fails_and_leaves_no_record(body: str, words: str, cli: Cli, tmp_path: Path) -> None:
    """Named with its line, while the tasks beside it are scored."""
    plugin = tmp_path / "odd_task.py"
    plugin.write_text(ODD_TASK.format(body=body))
    run = ("run", "--plugin", plugin, "--methods", "random", "--tasks", "odd-task,pocket-words", "--seeds", "1")
    answer = cli(*run, "--out", tmp_path / "out", *FAST)
    assert answer.code == 1 and "Traceback" not in answer.err and words in answer.err
    records = [json.loads(path.read_text(encoding="utf-8")) for path in (tmp_path / "out" / "records").rglob("*.json")]
    statuses = {record["task"]["name"]: record["status"] for record in records if record["method"]["name"] == "random"}
    assert statuses == {"pocket-words": "ok"}


@pytest.mark.parametrize("name", ["simcse", "STS12"])
def test_a_name_that_is_taken_names_both_files(name: str, cli: Cli, tmp_path: Path) -> None:
    """A clash with a built-in method or task, exit 2."""
    plugin = tmp_path / "clash.py"
    plugin.write_text((METHOD if name == "simcse" else TASK).format(name=name))
    answer = cli("run", "--plugin", plugin, "--methods", "cls", "--results", tmp_path / "out", *FAST)
    assert answer.code == 2
    assert str(plugin) in answer.err
    assert ("zoo.methods.simcse" if name == "simcse" else "benchmark.tasks.sts") in answer.err
    assert not (tmp_path / "out").exists()


def test_a_plugin_may_not_take_the_name_of_a_recipe(cli: Cli, tmp_path: Path) -> None:
    """`avg-last` is a recipe of the method avg: a plugin method of that name would hide it."""
    plugin = tmp_path / "clash.py"
    plugin.write_text(METHOD.format(name="avg-last"))
    answer = cli("run", "--plugin", plugin, "--methods", "avg-last", "--results", tmp_path / "out", *FAST)
    assert answer.code == 2
    assert str(plugin) in answer.err
    assert "avg-last.yaml" in answer.err
