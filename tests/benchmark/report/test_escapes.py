"""What a name or a reason may not do: break a table, be HTML in Markdown, give orders to a terminal."""

from __future__ import annotations

import csv
import io
import re
import shlex
from pathlib import Path

import pandas
import pytest
from fakes import Cli, make_record
from markdown_it import MarkdownIt

from benchmark.records.folder import Records
from benchmark.report.leaderboard import make_leaderboard
from benchmark.report.markdown import code_span, markdown_row, markdown_text
from benchmark.report.write import csv_text
from zoo.progress import print_safe, without_orders

EVIL = "a|<b>\x1b[2J \x9b31m \u202eevil"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<class 'int'>\nnext", "\\<class 'int'> next"),
        ("p < 0.05", "p < 0.05"),
        ("![i](http://x)", "!\\[i](http://x)"),
        ("[a](javascript:b) [c](https://d)", "[a]\\(javascript:b) [c](https://d)"),
        ("`<X> means [MASK]` <b>", "`<X> means [MASK]` \\<b>"),
        ("`` `<X>` ``", "`` `<X>` ``"),
        ("[a]: javascript:b", "\\[a]: javascript:b"),
    ],
)
def test_a_text_is_one_line_without_tags(text: str, shown: str) -> None:
    assert markdown_text(text) == shown
    assert markdown_row([f"{text}|x"]) == f"| {shown}\\|x |"


@pytest.mark.parametrize(
    "text", ["`<b>x</b>``", "\\`<b>x</b>`", "\\<b>", "\\\\<b>", "[a]: javascript:b", "<javascript:b>"]
)
def test_no_text_is_html(text: str) -> None:
    """As CommonMark is read; `[a]` is there so that a link which the text defines would show."""
    html = MarkdownIt().render(f"{markdown_text(text)}\n\n[a]")
    assert not re.search("<(b|a|javascript)", html)


WORDS = ("x\n```\n<b>hi</b>\n", "~~~\n````\n<img src=x>", "```\n</code>[a](javascript:b)\n```")


@pytest.mark.parametrize("word", WORDS)
def test_no_command_ends_its_block(word: str, tmp_path: Path) -> None:
    """Nor does a backbone's name end the line of the signature."""
    Records(tmp_path).write(make_record("bag", "pocket-pairs", command=["zoo-bench", "run", word]))
    _, _, made_by = make_leaderboard(tmp_path).files["pocket.md"].partition("## Made by")
    tokens = MarkdownIt().parse(made_by)
    (block,) = (token for token in tokens if token.type == "fence")
    assert shlex.split(block.content) == ["zoo-bench", "run", word]
    inline = [part.type for token in tokens for part in token.children or ()]
    assert "html_block" not in {token.type for token in tokens} and {*inline} == {"text", "code_inline"}
    (span,) = MarkdownIt().parseInline(code_span(word.replace("\n", "`")))[0].children or ()
    assert span.type == "code_inline" and span.content == word.replace("\n", "`")


@pytest.mark.parametrize("name", ["=1+1", "\t=1+1", "\r=1+1", "+cmd", "-cmd|' /C'!A0", "@SUM(A1)", "\u3000＝1"])
def test_no_cell_is_a_formula(name: str, tmp_path: Path) -> None:
    """Of a name, and of the head of a task's column; a number stays one."""
    Records(tmp_path).write(make_record(name, name))
    text = make_leaderboard(tmp_path).files["other.csv"]
    head, cells = csv.reader(io.StringIO(text))
    line = dict(zip(head, cells, strict=True))
    assert line["method"] == "'" + without_orders(name) and line["Avg"] == "50.0000"
    assert csv_text([{"a": -0.5, "b": "-0.5", "c": None}]) == "a,b,c\n-0.5,-0.5,\n"


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
