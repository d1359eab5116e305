"""A command in a fork ends and writes as the same command in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from server import Command, run


@pytest.mark.parametrize(
    "words",
    [
        ["-c", "import os, sys; print(sys.argv, os.getcwd(), os.environ['WORD'], input()); sys.exit(3)", "a", "b c"],
        ["-c", "import sys; sys.exit('a sentence')"],
        ["-c", "import os; os.kill(os.getpid(), 9)"],
        ["-c", "import atexit, threading; atexit.register(print, 'last'); threading.Timer(0.2, print, 'ü').start()"],
        ["-m", "json.tool", "--no-such-option"],
    ],
)
def test_output_and_exit_code_are_those_of_a_process(words: list[str], tmp_path: Path) -> None:
    command, environment = [sys.executable, *words], {**os.environ, "WORD": "ä"}
    other = subprocess.run(command, cwd=tmp_path, env=environment, input="Grüße\n", capture_output=True, text=True)
    done = run(command, cwd=tmp_path, env=environment, stdin="Grüße\n")
    assert (done.returncode, done.stdout, done.stderr) == (other.returncode, other.stdout, other.stderr)


def test_an_error_is_shown_and_can_be_asked_for() -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run([sys.executable, "-c", "raise ValueError('a fault')"], check=True)
    assert failed.value.returncode == 1 and failed.value.stderr.endswith("ValueError: a fault\n")


def test_signals_reach_the_command() -> None:
    code = "import signal, sys; signal.signal(15, lambda *_: sys.exit(143)); print('ready', flush=True); signal.pause()"
    command = Command([sys.executable, "-c", code])
    while not os.fstat(command.streams[1].fileno()).st_size:
        time.sleep(0.01)
    os.kill(command.pid, signal.SIGTERM)
    done = command.wait()
    assert (done.returncode, done.stdout) == (143, "ready\n")


def test_what_a_library_reads_as_it_is_imported_is_refused() -> None:
    with pytest.raises(ValueError, match="OMP_NUM_THREADS is read as a library is imported"):
        run([sys.executable, "-c", ""], env={**os.environ, "OMP_NUM_THREADS": "3"})
