"""What a person is told, and when: signals at once, wrong names before the run, damage by file and line."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from pathlib import Path

import pytest

from benchmark.run.stop import Stop
from zoo.api import load, save
from zoo.encoder import Runtime
from zoo.errors import CorruptError, Interrupted
from zoo.formats.export import write_sentence_transformers
from zoo.methods.pooled import Average


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_answered_at_once(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    with Stop().listening() as stop:
        os.kill(os.getpid(), number)
        assert "stopping after this batch" in capsys.readouterr().err
        assert stop() == number
        with pytest.raises(Interrupted):
            stop.check()


def test_a_signal_that_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop().listening() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop() is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_closed_terminal_does_not_end_the_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be written there, and the run stops in order all the same."""

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Closed())
    with Stop().listening() as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop() == signal.SIGHUP


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
