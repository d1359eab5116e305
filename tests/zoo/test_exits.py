"""os._exit is an error inside the block, for this thread and process alone; each process here is one of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAD = "import os, threading\nfrom zoo.errors import ContractError\nfrom zoo.exits import told_exits\n"
LEAVES = {  # program -> exit code
    "outside": ("import os\nwith told_exits(): pass\nos._exit(7)", 7),
    "its name from inside": ("with told_exits():\n    from os import _exit\n_exit(7)", 7),
    "another thread": (
        "with told_exits():\n    thread = threading.Thread(target=lambda: os._exit(7)); thread.start(); thread.join()",
        7,
    ),
    "a fork": (
        "with told_exits():\n    child = os.fork()\n    if child == 0: os._exit(7)\n"
        "    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))",
        7,
    ),
    "after a block within": (
        "with told_exits():\n    with told_exits(): pass\n"
        "    try: os._exit(7)\n    except ContractError as error: raise SystemExit(8 * ('os._exit(7)' in str(error)))",
        8,
    ),
    "a name from before": (
        "with told_exits():\n    from os import _exit\n"
        "with told_exits():\n    try: _exit(7)\n    except ContractError: raise SystemExit(9)",
        9,
    ),
}


@pytest.mark.parametrize("what", LEAVES)
def test_who_may_leave(what: str) -> None:
    program, code = LEAVES[what]
    done = subprocess.run([sys.executable, "-c", HEAD + program], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr


PLUGIN = "import os\nos._exit(0)\n"


@pytest.mark.parametrize(
    "words", [("methods", "--plugin"), ("check", "random", "--plugin")], ids=lambda words: words[0]
)
def test_a_plugin_file_that_leaves_is_named(words: tuple[str, ...], tmp_path: Path) -> None:
    """The command ends with one sentence, because the user asked for this file."""
    plugin = tmp_path / "leaving.py"
    plugin.write_text(PLUGIN)
    command = [sys.executable, "-m", "benchmark", *words, str(plugin)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and not done.stdout
    assert "leaving.py is broken: os._exit(0) was called" in done.stderr
    assert "leaving.py:2" in done.stderr
