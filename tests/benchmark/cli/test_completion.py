"""What a shell completes, asked as a shell asks: by environment variables, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zoo.recipes import all_recipes

ROOT = Path(__file__).parents[3]
SCRIPT = (
    "import sys\n"
    "from benchmark.cli.main import main\n"
    "try: main([])\n"
    "except SystemExit: pass\n"
    "print(sorted({'torch', 'transformers', 'datasets', 'sklearn', 'accelerate'} & set(sys.modules)))\n"
)


def completed(shell: str, *words: str) -> list[str]:
    """The lines that click gives a shell for the last of the words; the process must not have loaded torch."""
    environment = {**os.environ, "_ZOO_BENCH_COMPLETE": f"{shell}_complete"}
    environment |= {"COMP_WORDS": " ".join(["zoo-bench", *words]), "COMP_CWORD": str(len(words))}
    child = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert child.returncode == 0, child.stderr
    *lines, heavy = child.stdout.splitlines()
    assert heavy == "[]"
    return lines


@pytest.mark.slow
def test_bash_completes_the_names_of_a_list() -> None:
    """Methods after those that are typed already, which are not offered again."""
    names = {name for name in all_recipes() if name.startswith("ptbert")}
    assert completed("bash", "run", "--methods", "ptb") == [f"plain,{name}" for name in sorted(names)]
    small = completed("bash", "run", "--methods", "simcse-small,simcse-su")
    assert small[0] == "plain,simcse-small,simcse-sup" and "plain,simcse-small,simcse-small" not in small


@pytest.mark.slow
def test_a_shell_gets_a_script_to_load() -> None:
    for shell, part in (("zsh", "compdef"), ("fish", "complete --no-files --command zoo-bench")):
        environment = {**os.environ, "_ZOO_BENCH_COMPLETE": f"{shell}_source"}
        child = subprocess.run(
            [sys.executable, "-m", "benchmark"], capture_output=True, text=True, env=environment, cwd=ROOT
        )
        assert part in child.stdout, child.stdout + child.stderr
        if shell == "fish":  # click's own splits at each comma and would offer the first name of a list
            assert 'string split --max 1 "," $completion' in child.stdout
