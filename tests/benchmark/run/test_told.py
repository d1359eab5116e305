"""What a person is told, and when: signals at once, wrong names before the run, damage by file and line."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from fakes import Cli

from benchmark.data.corpora import load_corpus
from benchmark.data.sources import DataSource
from benchmark.run.stop import Stop
from zoo import machine
from zoo.api import load, save
from zoo.encoder import Runtime
from zoo.errors import CorruptError, Interrupted
from zoo.formats.export import write_sentence_transformers
from zoo.methods.pooled import Average

FAST = ("--tasks", "pocket-words", "--seeds", 1, "--precision", "fp32", "--device", "cpu")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_answered_at_once(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    with Stop().listening() as stop:
        os.kill(os.getpid(), number)
        assert "stopping after this batch" in capsys.readouterr().err
        assert stop() == number
        with pytest.raises(Interrupted):
            stop.check()


def test_encoding_stops_within_a_batch(tiny_bert: Path) -> None:
    """Of a hundred batches of one text each, three are encoded when the signal is there at the third question."""
    asked: list[int] = []

    def stop() -> int | None:
        asked.append(1)
        return signal.SIGTERM if len(asked) >= 3 else None

    encoder = Average(Average.Recipe(backbone=str(tiny_bert)), Runtime(token_budget=8, stop_signal=stop))
    with pytest.raises(Interrupted, match="signal 15"):
        encoder.encode([f"one {number} two three four five" for number in range(100)])
    assert len(asked) == 3


@pytest.mark.parametrize("option", ["--backbone", "--corpus"])
def test_what_is_not_there_is_told_once_before_the_run(option: str, cli: Cli, tmp_path: Path) -> None:
    absent, out = tmp_path / "absent", tmp_path / "out"
    answer = cli("run", "--methods", "avg-last,simcse,cls", option, absent, "--results", out, *FAST)
    assert answer.code != 0 and "Traceback" not in answer.err
    assert answer.err.count(str(absent)) == 1 and not list(out.rglob("*.json"))


def test_a_byte_that_is_no_text_is_told_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes("One line.\nGrößer.\n".encode() + b"caf\xe9\n")
    with pytest.raises(CorruptError, match=r"corpus\.txt:3: byte 0xe9 is not utf-8"):
        load_corpus(str(path), DataSource(None, hub=False), None)


@pytest.mark.parametrize("flip", [0.5, 0.9])
def test_a_damaged_encoder_is_not_exported(flip: float, tiny_bert: Path, tmp_path: Path) -> None:
    """Neither its own loading nor a run ships what differs by a bit from what was saved."""
    encoder = Average(Average.Recipe(backbone=str(tiny_bert)), Runtime())
    encoder.trained = True
    save(encoder, tmp_path / "encoder")
    weights = tmp_path / "encoder" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[int(flip * len(content))] ^= 4
    weights.write_bytes(content)
    with pytest.raises(CorruptError, match=r"model\.safetensors"):
        write_sentence_transformers(load(tmp_path / "encoder"), tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_a_measured_speed_that_says_nothing_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(machine, "_PROBE", 'print(\'{"float32": 100.0, "bfloat16": 50.0}\')')
    machine.cpu_bf16.cache_clear()
    try:
        measured = machine.cpu_bf16()
        kept = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert kept
        for text in ("{}", "[]", "null", ""):
            for path in kept:
                path.write_text(text)
            machine.cpu_bf16.cache_clear()
            assert machine.cpu_bf16() == measured
    finally:
        machine.cpu_bf16.cache_clear()
