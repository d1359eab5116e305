"""Progress: plain lines where there is no terminal, ASCII where there is no UTF-8, nothing when silent."""

from __future__ import annotations

import io
import re

import pytest

from zoo.progress import Progress, clock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def ascii_stream() -> tuple[io.BytesIO, io.TextIOWrapper]:
    raw = io.BytesIO()
    return raw, io.TextIOWrapper(raw, encoding="ascii")


def test_no_terminal_gives_plain_whole_lines() -> None:
    stream = io.StringIO()
    with Progress(stream, seconds_between_lines=0).bar("encoding", 3) as bar:
        for done in (1, 2, 3):
            bar.update(done, "loss 0.5")
    lines = stream.getvalue().splitlines()
    assert [line.split(",")[0] for line in lines] == ["encoding: 1/3", "encoding: 2/3", "encoding: 3/3"]
    assert all(line.endswith("loss 0.5") for line in lines)
    assert "\x1b" not in stream.getvalue() and "\r" not in stream.getvalue()


@pytest.mark.parametrize("sizes", [[400, 300, 200, 100], [100, 200, 300, 400], [1000, 1, 1, 1]])
def test_the_time_left_follows_the_work_and_not_the_count(monkeypatch: pytest.MonkeyPatch, sizes: list[int]) -> None:
    """Items that take as many seconds as they are large: after each one, what is left is what the others take."""
    now = 0.0
    monkeypatch.setattr("zoo.progress.time.monotonic", lambda: now)
    stream = io.StringIO()
    with Progress(stream, seconds_between_lines=0).bar("encoding", len(sizes)) as bar:
        bar.update(0, share=0.0)
        for done in range(1, len(sizes)):
            now = float(sum(sizes[:done]))
            bar.update(done, share=now / sum(sizes))
    shown = re.findall(r", (\d+):(\d+) left", stream.getvalue())
    assert [int(m) * 60 + int(s) for m, s in shown] == [sum(sizes[done:]) for done in range(1, len(sizes))]


def test_lines_come_no_more_often_than_asked() -> None:
    stream = io.StringIO()
    with Progress(stream, seconds_between_lines=60).bar("encoding", 1000) as bar:
        for done in range(1000):
            bar.update(done)
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("tasks", "seconds"), [(1, 0.5), (3, 2.0), (40, 1.0)])
def test_a_log_has_a_line_within_twenty_seconds_and_then_about_one_a_minute(
    monkeypatch: pytest.MonkeyPatch, tasks: int, seconds: float
) -> None:
    """Of a long task, and of short ones that follow each other, as counting, tokenising and encoding do."""
    now = 100.0
    monkeypatch.setattr("zoo.progress.time.monotonic", lambda: now)
    stream, lines = io.StringIO(), []
    progress = Progress(stream)
    progress.now("[1/1] whitening")
    for _ in range(tasks):
        for _ in progress.chunks("encoding", range(400 // tasks), 1):
            now += seconds
            lines.append((now, stream.getvalue().count("encoding: ")))
    first = next((at for at, count in lines if count), None)
    assert first is not None and first - 100 <= 20
    minutes = (now - 100) / 60
    assert minutes - 1 <= lines[-1][1] <= 4 * minutes + 1


@pytest.mark.parametrize("columns", [20, 200])
def test_a_terminal_has_one_live_line_however_narrow(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """What is worked on and its progress replace each other; lines that stay stand alone, and nothing is left."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("zoo.progress._SECONDS_LIVE", 0)
    stream = Terminal()
    progress = Progress(stream)
    progress.now("[1/2] simcse, seed 0")
    with progress.bar("training", 2) as bar:
        bar.update(1, "[loss] ρ")
    progress.say("warning: short")
    progress.now("")
    # The line is erased by the terminal's own orders; what stays is what no order takes away.
    shown = stream.getvalue()
    lines = [part for part in re.split(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]+", shown) if part.strip()]
    assert all(len(line) <= columns for line in lines if line != "warning: short")
    assert "warning: short\n" in shown and "[1/2] simcse, seed 0"[: columns - 1] in shown
    assert "simcse, seed 0; training: 1/2, [loss]" in shown or columns == 20
    assert shown.endswith("\x1b[2K") or "\x1b[?25h" in shown[-12:], "the last live line is erased"


def test_a_log_has_a_line_for_what_is_worked_on_and_a_speaker_says_it_before_its_progress() -> None:
    for speaker, expected in (("", ["simcse", "training: 1/2"]), ("worker 1: ", ["worker 1: simcse: training: 1/2"])):
        stream = io.StringIO()
        progress = Progress(stream, seconds_between_lines=0, speaker=speaker)
        progress.now("simcse")
        with progress.bar("training", 2) as bar:
            bar.update(1)
        progress.now("")
        assert stream.getvalue().splitlines() == expected


def test_an_ascii_stream_gets_ascii() -> None:
    raw, stream = ascii_stream()
    progress = Progress(stream, seconds_between_lines=0)
    progress.say("ρ 75.4 ± 0.9 → best … ⚠ 日本 \ud800")
    with progress.bar("naïve", 2) as bar:
        bar.update(1, "×2")
    stream.flush()
    text = raw.getvalue().decode("ascii")
    assert text.splitlines()[0] == "rho 75.4 +- 0.9 -> best ... ! ?? ?"
    assert text.splitlines()[1].startswith("na?ve: 1/2") and text.endswith("x2\n")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (59.6, "1:00"), (245, "4:05"), (3723, "1:02:03"), (-3, "0:00"), (90000, "25:00:00")],
)
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text
