"""What a method's name may not do: compute in a spreadsheet, be HTML in Markdown, give orders to a terminal."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from fakes import Cli, make_record
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from benchmark.leaderboard.csv_table import csv_table
from benchmark.leaderboard.markdown import markdown_row, markdown_text
from benchmark.records.folder import Records
from zoo.progress import print_safe


@pytest.mark.parametrize("formula", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "=cmd|' /C calc'!A0", "-x"])
def test_a_formula_is_text(formula: str) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_table(["method"], [{"method": formula}]), newline="")))
    assert rows == [{"method": "'" + formula}]


@pytest.mark.parametrize("value", ["-1.5", "+3e5", -2, 3.25, "simcse", "a=b", "-", None])
def test_numbers_and_other_texts_stay_as_they_are(value: object) -> None:
    rows = list(csv.reader(io.StringIO(csv_table(["x"], [{"x": value}]), newline="")))
    assert rows[1:] == [[] if value is None else [str(value)]] or rows[1:] == [[""]]


def has_html(markdown: str) -> bool:
    """Whether a CommonMark parser finds HTML."""
    tokens = MarkdownIt("commonmark").parse(f"x {markdown}")
    return any(part.type.startswith("html") for token in tokens for part in (token, *(token.children or ())))


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "a <img src=x onerror=y>", "\\\\<b>", "`a` <b> `c`", "``<b>`", "<!-- -->"]
)
def test_html_is_shown_and_not_obeyed(text: str) -> None:
    assert has_html(text)
    assert not has_html(markdown_text(text))


@given(st.text(alphabet="<>`\\|ab \n", max_size=30))
@example("\\`<b>`")
def test_no_text_becomes_html(text: str) -> None:
    assert not has_html(markdown_text(text))
    assert not has_html(markdown_row([text, text]))
    assert "\n" not in markdown_row([text, text])


def test_a_picture_in_a_name_is_not_fetched() -> None:
    assert "<img" not in MarkdownIt("commonmark").render(markdown_text("![i](http://example.org/i.png)"))


def links(markdown: str) -> list[str]:
    """The targets of links that a CommonMark parser finds which lets every scheme pass."""
    parser = MarkdownIt("commonmark")
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    tokens = parser.parse(f"- x {markdown}\n- {markdown}\n")
    return [str(p.attrGet("href")) for t in tokens for p in (t.children or ()) if p.type == "link_open"]


@pytest.mark.parametrize(
    "text",
    [
        "[a](javascript:x)",
        "[a]( JaVaScript:x)",
        "[a](java&#115;cript&#58;x)",
        "[a](data:text/html,x)",
        "[a]: javascript:x",
    ],
)
def test_no_link_runs_a_program(text: str) -> None:
    assert links(text)
    assert not links(markdown_text(text))


@given(st.text(alphabet="[]()<>:&#;!\\`ja x/", max_size=40))
@example("![a](javascript:x)")
def test_no_text_links_to_another_scheme(text: str) -> None:
    assert not [target for target in links(markdown_text(text)) if ":" in target or "%3A" in target]


def test_links_to_pages_and_files_stay() -> None:
    for text in ("[a](https://example.org/x)", "[a](../docs/a.md#b)"):
        assert markdown_text(text) == text


def test_a_template_in_backticks_is_as_it_was() -> None:
    assert markdown_text("`<X> means [MASK]`") == "`<X> means [MASK]`"


@pytest.mark.slow
@given(st.text())
@example("\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b31m \u202eevil")
def test_no_text_gives_orders_to_the_terminal(text: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    print_safe(text, stream)
    stream.flush()
    shown = stream.buffer.getvalue().decode("utf-8")  # type: ignore[attr-defined]
    assert not set(shown[:-1]) & {*map(chr, range(32)), *map(chr, range(127, 160)), "\u202e"} - {"\n", "\t"}


EVIL = "=cmd()|<b>\x1b[2J \x9b31m \u202eevil"


def test_written_tables_give_no_orders_either(tmp_path: Path, cli: Cli) -> None:
    """A person may print them to a terminal."""
    store = Records(tmp_path)
    for task in ("pocket-pairs", "pocket-words", "pocket-phrases", "pocket-topics"):
        store.write(make_record(EVIL, task))
    answer = cli("leaderboard", "--results", tmp_path)
    assert answer.code == 0
    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("pocket.*")}
    assert {"pocket.md", "pocket.csv", "pocket.tex"} <= written.keys()
    for name, text in written.items():
        assert "evil" in text, name
        if not name.endswith(".json"):
            assert not set(text) & {"\x1b", "\x9b", "\u202e"}, name
    rows = list(csv.DictReader(io.StringIO(written["pocket.csv"])))
    assert [row["method"] for row in rows] == ["'=cmd()|<b>\\x1b[2J \\x9b31m \\x202eevil"]
    assert csv_table(["x"], [{"x": EVIL}]).startswith("x\n'=cmd()|<b>\\x1b")
    assert "\x1b" not in markdown_row([EVIL])
