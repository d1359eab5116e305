"""What goes wrong before a run has begun is one sentence: an early Ctrl-C, a label that is no UTF-8, no spaCy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fakes import Cli


def test_an_interrupt_while_loading_is_one_sentence() -> None:
    code = (
        "import builtins, runpy, sys\n"
        "load = builtins.__import__\n"
        "def stop(name, *rest, **more):\n"
        "    if name.startswith('benchmark.cli'): raise KeyboardInterrupt\n"
        "    return load(name, *rest, **more)\n"
        "builtins.__import__ = stop\n"
        "runpy.run_module('benchmark', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "zoo-bench: interrupted before anything was done.\n")


def test_a_label_that_is_no_utf8_is_refused(cli: Cli, tmp_path: Path, tiny_bert: Path) -> None:
    answer = cli("run", "--methods", "cls", "--backbone", tiny_bert, "--label", "a\udcff", "--results", tmp_path)
    assert answer.code == 2 and "is not UTF-8" in answer.err and "Traceback" not in answer.err
