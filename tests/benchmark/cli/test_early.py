"""What goes wrong before a run has begun is one sentence: an early Ctrl-C, a label that is no UTF-8, no spaCy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
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


@pytest.mark.slow
def test_missing_spacy_is_na_as_missing_vectors_are(
    cli: Cli, tmp_path: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    sentences = tmp_path / "sentences.txt"
    sentences.write_text("A dog runs.\nTwo people talk about rain.\nBread rises slowly.\nShe reads.\n" * 20, "utf-8")
    answer = cli(
        *("run", "--methods", "moco-srl:batch_size=16:queue_size=16", "--backbone", tiny_bert, "--seeds", 1),
        *("--tasks", "pocket-words", "--corpus", sentences, "--results", tmp_path / "r", "--device", "cpu"),
    )
    assert "pip install 'zoo-bench[srl]'" in answer.err and "0 failed, 1 n/a" in answer.err
