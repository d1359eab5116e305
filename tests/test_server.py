"""A command in a fork ends and writes as the same command in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from server import run


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


def test_a_command_that_is_no_longer_waited_for_is_killed(tmp_path: Path) -> None:
    """And the next one gets its own output."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGUSR1, stop)
    code = f"import os, time; os.kill({os.getpid()}, {int(signal.SIGUSR1)}); time.sleep(3); open('late', 'w')"
    try:
        with pytest.raises(TimeoutError):
            run([sys.executable, "-c", code], cwd=tmp_path)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert run([sys.executable, "-c", "print(5)"]).stdout == "5\n" and not (tmp_path / "late").exists()


def test_what_a_library_reads_as_it_is_imported_is_refused() -> None:
    with pytest.raises(ValueError, match="OMP_NUM_THREADS is read as a library is imported"):
        run([sys.executable, "-c", ""], env={**os.environ, "OMP_NUM_THREADS": "3"})
