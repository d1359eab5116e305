"""What a name or a reason may not do: break a table, be HTML in Markdown, give orders to a terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pandas
import pytest
from fakes import Cli, make_record

from benchmark.records.folder import Records
from benchmark.report.markdown import markdown_row, markdown_text
from zoo.progress import print_safe

EVIL = "a|<b>\x1b[2J \x9b31m \u202eevil"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<class 'int'>\nnext", "\\<class 'int'> next"),
        ("p < 0.05", "p < 0.05"),
        ("![i](http://x)", "!\\[i](http://x)"),
        ("[a](javascript:b) [c](https://d)", "[a]\\(javascript:b) [c](https://d)"),
        ("`<X> means [MASK]` <b>", "`<X> means [MASK]` \\<b>"),
    ],
)
def test_a_text_is_one_line_without_tags(text: str, shown: str) -> None:
    assert markdown_text(text) == shown
    assert markdown_row([f"{text}|x"]) == f"| {shown}\\|x |"


def test_no_text_gives_orders_to_the_terminal() -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="utf-8", write_through=True)
    print_safe(EVIL, stream)
    assert not set(written.getvalue().decode("utf-8")) & {"\x1b", "\x9b", "\u202e"}


def test_written_tables_give_no_orders_either(tmp_path: Path, cli: Cli) -> None:
    """A person may print them to a terminal."""
    store = Records(tmp_path)
    for task in ("pocket-pairs", "pocket-words", "pocket-phrases", "pocket-topics"):
        store.write(make_record(EVIL, task))
    assert cli("leaderboard", "--results", tmp_path).code == 0
    for ending in ("md", "csv", "tex"):
        text = (tmp_path / f"pocket.{ending}").read_text(encoding="utf-8")
        assert "evil" in text and not set(text) & {"\x1b", "\x9b", "\u202e"}
    assert pandas.read_csv(tmp_path / "pocket.csv")["method"].tolist() == ["a|<b>\\x1b[2J \\x9b31m \\x202eevil"]
