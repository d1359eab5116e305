"""The table of tasks: every row under one name, what listing costs, and plugins' classes beside the rows."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmark import tasks
from benchmark.data.catalog import catalog
from benchmark.data.sources import DataSource
from benchmark.tasks import TASKS, Task, TaskRow, register_task, words
from zoo.errors import UsageError


def test_every_row_has_a_name_of_its_own() -> None:
    """A name given twice would take the place of the other row without a word."""
    rows = [TASKS.get(name) for name in TASKS.names() if TASKS.is_builtin(name)]
    assert len(rows) >= 66 and all(isinstance(row, TaskRow) for row in rows)
    assert all(row.form in catalog()[row.dataset].forms for row in rows if row.dataset in catalog())
    assert {name for entry in catalog().values() for name in entry.tasks} < set(TASKS.names())
    with pytest.raises(UsageError, match="task 'MEN' is stated twice"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "ROWS", (TASKS.get("MEN"),), raising=False)
        patch.setattr(tasks, "_with_rows", lambda: [words])
        tasks._builtin()


def test_settings_share_their_data() -> None:
    """The transfer tasks in two settings: the same data, another metric, another setting of the probe."""
    for name in ("MR", "CR", "SUBJ", "MPQA", "SST2", "SST5", "TREC", "MRPC", "SICK-E"):
        full, fast = TASKS.get(name), TASKS.get(f"{name}-fast")
        assert {(task.dataset, task.form, task.version) for task in (full, fast)} == {(full.dataset, "tokenised", 1)}
        assert fast.title == f"{full.title}, fast"
        assert full.metric != fast.metric


@pytest.mark.slow
def test_listing_reads_no_data_and_imports_no_torch() -> None:
    code = (
        "import builtins, pathlib, sys\n"
        "from benchmark.cli.main import main_group\n"
        "from benchmark.data.sources import DataSource\n"
        "def refuse(*_, **__): raise AssertionError('data was looked for')\n"
        "DataSource.locate = refuse\n"
        "main_group(['tasks'], standalone_mode=False)\n"
        "print(sorted({'torch', 'transformers', 'sklearn', 'scipy'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *lines, heavy = done.stdout.strip().splitlines()
    assert heavy == "[]"
    assert sum(line.split()[0] in TASKS.names() for line in lines if line.split()) >= 70


def test_a_plugin_s_class_is_a_task_and_a_new_one_each_time(clean_registries: None) -> None:
    @register_task("mine")
    class Mine(Task):
        title, dataset = "mine", "pocket-words"

        def load(self, data: DataSource, limit: int | None = None) -> tasks.TaskData:
            return TASKS.get("pocket-words").load(data, limit)

    first, second = TASKS.get("mine"), TASKS.get("mine")
    assert isinstance(first, Mine) and first is not second
    assert (first.form, first.version, first.metric) == ("plain", 1, "Spearman, cosine")
    assert first.load(DataSource(None, hub=False), 5).rows == 5
    assert not isinstance(first, TaskRow)


def test_a_plugin_may_not_take_the_name_of_a_row(clean_registries: None) -> None:
    with pytest.raises(UsageError, match=r"'MEN' is defined twice: in benchmark\.tasks\.words and in "):

        @register_task("MEN")
        class Mine(Task):
            title, dataset = "mine", "MEN"


def test_what_is_no_task_is_broken_with_the_reason(clean_registries: None) -> None:
    register_task("none")(int)  # type: ignore[type-var]
    with pytest.raises(UsageError, match=r"is not a subclass of benchmark\.tasks\.base\.Task"):
        TASKS.get("none")
