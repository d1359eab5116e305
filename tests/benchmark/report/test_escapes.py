"""No text of a record is more than text in what is written of it: not HTML, LaTeX, a formula, an order, a line."""

from __future__ import annotations

import ast
import copy
import csv
import io
import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import yaml
from fakes import make_record
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from page_fakes import training

from benchmark.interop.export import export_card
from benchmark.interop.second_opinion import second_opinion
from benchmark.records.folder import Records
from benchmark.records.record import parse_record
from benchmark.report.cite import citation
from benchmark.report.latex import escape
from benchmark.report.leaderboard import make_leaderboard
from benchmark.report.markdown import code_span, markdown_row, markdown_text
from benchmark.report.write import csv_text
from zoo.errors import CorruptError
from zoo.progress import print_safe
from zoo_bench_papers.analysis.result import Analysis, AnalysisTable, write_analysis

ROOT = Path(__file__).parents[3]
PLAIN = "plain"
# Each begins with what ends its place in some form, and holds what would act there.
HOSTILE = (
    "x\n\\textbf{code}\n%",
    "[x] \\\\[3cm] & \\input{y} $a_b^c$ {} % ~",
    "*x\r\n- a\n# b\n> c\n```\n<b>d</b>",
    "`<b>x</b>`` \\`<b> \\\\<b> <javascript:x>",
    "\\`` ` <b> ` ![i](http://x) [a](javascript:b) [a\\]b]: javascript:b",
    "</script><script>window.x = 1</script><img src=x onerror=x> &lt;b&gt;",
    "=cmd|' /C'!A0\t,\";x",
    "\x1b[2J\x9b31m\u202ex\x00\x85\u2028\u2029y",
    "2. <<x>> {{y}} {% z %} | || \\| --- |",
    "---\nlicense: evil\n---\n",
)
ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# What `escape` writes for a sign is no other command.
WRITTEN = re.compile(
    r"\{[\[*]\}|\\textbackslash\{\}|\\textasciitilde\{\}|\\textasciicircum\{\}|\\ldots\{\}|\\[&%$#_{}]|\$[<>|]\$"
)


def full_record(name: str, task: str, main: float) -> Any:
    """A record with every part that an output shows."""
    fit = training({"1": 0.5}, steps=3, dev_pairs=1500, dev_pairs_in_test=2, paper_updates=30, cosine_to_start=0.9)
    fit |= {"best_step": 1, "overlap": {"texts": 9, "digests": ["ab", "cd"]}, "facts": {"note": "text"}}
    record = make_record(name, task, 0, main=main, training=fit, facts={"run_by": "library", "roles": "prompts"})
    record["method"] |= {
        "recipe_name": name,
        "overrides": {"template": "text"},
        "typed": name,
        "unstated": ["precision"],
        "tuned": {"trials": 3, "dev": "STS-B", "backbone": "b", "corpus": "c", "sentences": 3, "study": "d"},
    }
    record["method"]["sources"]["backbone"] |= {"ancestry": "labels", "revision": "main"}
    return record | {"code": {"digest": "ab"}, "run_file": {"name": "f.yaml", "sha256": "0" * 64}}


TASK = ("task", "name")


def records_with(place: tuple[Any, ...] | None, text: str) -> list[Any]:
    """Three rows on two tasks, one of them failed; the first row has the text at a place (None: at all but TASK)."""
    rows = [full_record(PLAIN, task, 0.5) for task in ("pocket-pairs", "pocket-words")]
    rows[1] |= {"status": "failed", "reason": "no text", "scores": None}
    others = [make_record(other, task, main=0.4) for other in ("alpha", "beta") for task in ("pocket-pairs", "x")]
    for record in rows:
        for key in [place] if place else [key for key in places(record) if key != TASK]:
            changed = copy.deepcopy(record)
            put(changed, key, text)
            if is_read(changed):
                record.clear()
                record.update(changed)
    return [*rows, *others]


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every text of a record, and every name of an open part, as the path to it."""
    if isinstance(value, str):
        yield above
    for key, below in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(below, (*above, key))
    if isinstance(value, dict) and above:
        yield (*above, None)


def put(record: Any, place: tuple[Any, ...], text: str) -> None:
    """Put a text at a place; at a place that ends with None, as a name beside the others."""
    *above, last = place
    for part in above:
        if not (isinstance(record, list) or (isinstance(record, dict) and part in record)):
            return
        record = record[part]
    if record is None:
        return
    if last is None:
        record[text] = next(iter(record.values()), text)
    elif last in record or isinstance(record, list):
        record[last] = text


def is_read(record: Any) -> bool:
    try:
        return bool(parse_record(json.dumps(record), "here"))
    except CorruptError:
        return False


class Tags(HTMLParser):
    """The tags of a page with the names of their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[Any] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, *(name for name, _ in attrs)))


def blocks(text: str) -> list[str]:
    """The blocks of Markdown; no part of a line is HTML, a picture or a link that is not of the web."""
    shown = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        shown.append(token.type)
        for part in token.children or ():
            assert part.type not in ("html_inline", "image"), (part, text)
            assert part.type != "link_open" or str(part.attrs["href"]).startswith("http"), (part, text)
    assert "html_block" not in shown
    return shown


def commands(text: str) -> Any:
    """The lines, commands, braces and cells of LaTeX that are not texts; behind the end of a row is no argument."""
    assert not re.search(r"\\\\\s*[\[*]|\\midrule\s*[\[*]", text), text
    rest = re.sub(r"\\(small|tiny|footnotesize|scriptsize)\b", "", WRITTEN.sub("", text))
    signs = {sign: rest.count(sign) for sign in "{}&#~^_"}
    return len(rest.splitlines()), Counter(re.findall(r"\\[A-Za-z]+|\\.", rest)), signs, rest.count("%")


def shapes(folder: Path, place: tuple[Any, ...] | None, text: str) -> dict[str, Any]:
    """What must not depend on a text: of each form of a folder's tables, its structure."""
    records = records_with(place, text)
    for record in records:
        Records(folder).write(record)
    board = make_leaderboard(folder)
    lines = [text for name, text in board.files.items() if not name.endswith((".json", ".html"))]
    cited, card = citation(board.tables), export_card(text, records[:1], {"license": text}, records[:1], text)
    for written in [*lines, str(board), cited, card]:
        assert not ORDERS.search(written), written
    files: dict[str, Any] = {}
    for name, content in board.files.items():
        ending = name.rpartition(".")[2]
        if ending == "md":
            files[name] = blocks(content)
        elif ending == "csv":
            rows = list(csv.reader(io.StringIO(content)))
            assert not [cell for row in rows for cell in row if re.match(r"\s*[=@+-](?!\d)", cell)]
            files[name] = [len(row) for row in rows]
        elif ending == "tex":
            first, _, rest = content.partition("\n")
            assert first.startswith("% ")
            files[name] = commands(rest)
        elif ending == "html":
            files[name] = Tags(content).tags
        else:
            files[name] = len(json.loads(content)["rows"])
    _, front, body = card.split("---\n", 2)
    return {
        **files,
        "notebook": Tags(board._repr_html_()).tags,
        "terminal": len(str(board).splitlines()),
        "cite": commands(re.sub(r"(?s)^@.*", "", cited)),
        "front": sorted(yaml.safe_load(front)),
        "card": blocks(body),
    }


@pytest.fixture(scope="module")
def benign(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The structures by place, with a text of letters there."""
    known: dict[Any, Any] = {}

    def of(place: tuple[Any, ...] | None) -> dict[str, Any]:
        if place not in known:
            known[place] = shapes(tmp_path_factory.mktemp("benign"), place, "letters")
        return known[place]

    return of


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_in_every_field_changes_no_form(text: str, tmp_path: Path, benign: Any) -> None:
    assert shapes(tmp_path / "fields", None, text) == benign(None)
    assert shapes(tmp_path / "task", TASK, text) == benign(TASK)


@pytest.mark.slow
def test_no_single_field_changes_a_form(tmp_path: Path, benign: Any) -> None:
    """All texts together, in each field alone."""
    for number, place in enumerate(places(full_record(PLAIN, "pocket-pairs", 0.5))):
        assert shapes(tmp_path / str(number), place, " ".join(HOSTILE)) == benign(place), place


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<class 'int'>\nnext", "\\<class 'int'> next"),
        ("p < 0.05", "p < 0.05"),
        ("[a](javascript:b) [c](https://d)", "[a]\\(javascript:b) [c](https://d)"),
        ("`<X> means [MASK]` <b>", "`<X> means [MASK]` \\<b>"),
        ("`` `<X>` ``", "`` `<X>` ``"),
        ("1.5 or -1", "1.5 or -1"),
    ],
)
def test_what_is_plain_stays_as_it_is(text: str, shown: str) -> None:
    assert markdown_text(text) == shown
    assert markdown_row([f"{text}|x"]) == f"| {shown}\\|x |"
    assert escape("a\n b") == "a b" and escape(r"\{") == r"\textbackslash{}\{"


@given(st.text("`\\<b>![]():|~ ", max_size=40), st.text("`\\<b>![]():|~ ", max_size=40))
def test_no_text_is_html_or_a_link(first: str, second: str) -> None:
    """Two lines of a paragraph, a list and a row; `[b]` is there so that a link which a text defines would show."""
    lines = [markdown_text(first), markdown_text(second), "", f"- {markdown_text(first)}", "", "[b]"]
    kinds = {*blocks("\n".join(lines)), *blocks("\n".join(["| a | c |", "|--|--|", markdown_row([first, second])]))}
    assert kinds <= {f"{kind}_{end}" for kind in BLOCKS for end in ("open", "close")} | {"inline"}
    (span,) = MarkdownIt().parseInline(code_span(f"x{first}x"))[0].children or ()
    assert span.type == "code_inline" and span.content == " ".join(f"x{first}x".split())


BLOCKS = ("paragraph", "bullet_list", "list_item", "table", "thead", "tbody", "tr", "th", "td")


SIGNS = ("\\", "](:", "`a``", "<", "`", "[", "\\<", "|", "\\|", "1.", "![", "\x1b", "\n", "{", "=", "$")


@pytest.mark.parametrize(
    "sign", [pytest.param(sign, marks=pytest.mark.slow if n > 3 else ()) for n, sign in enumerate(SIGNS)]
)
def test_a_megabyte_is_escaped(sign: str) -> None:
    """In linear time: with a quadratic expression this does not end."""
    text = (sign * 2**20)[: 2**20]
    cells = (
        markdown_text(f"x{text}"),
        markdown_row([text]),
        code_span(text),
        escape(f"x{text}"),
        csv_text([{"a": text}]),
    )
    assert all(cells)


@pytest.mark.parametrize("name", ["=1+1", "\t=1+1", "\r=1+1", "+cmd", "-cmd|' /C'!A0", "@SUM(A1)", "\u3000＝1"])
def test_no_cell_is_a_formula(name: str) -> None:
    """Of a name, and of the head of a column; a number stays one."""
    assert [*csv.reader(io.StringIO(csv_text([{name: name}])))] == [[f"'{name.strip()}"]] * 2
    assert csv_text([{"a": -0.5, "b": "-0.5", "c": None}]) == "a,b,c\n-0.5,-0.5,\n"
    assert csv_text([], ["a"]) == "a\n" and csv_text([{"a": math.nan}]) == 'a\n""\n'


@pytest.mark.parametrize("name", ["=1+1", "@SUM(A1)", "-cmd|' /C'!A0"])
def test_every_csv_file_is_written_by_this_function(name: str, tmp_path: Path) -> None:
    """Of tables, of second opinions, of analyses; no other code writes CSV."""
    scores = np.random.default_rng(3).random((3, 6)).round(3)
    frame = pandas.DataFrame(scores, [name, "b", "c"], [f"task {i}" for i in range(6)])
    files = [file for file in second_opinion(frame).write(tmp_path) if file.suffix == ".csv"]
    cells_of = AnalysisTable("cells", "", {name: None}, [{name: name}, {name: math.nan}])
    analysis = Analysis("of", "", [], [cells_of])
    files += [file for file in write_analysis(analysis, tmp_path, command="", plots=False) if file.suffix == ".csv"]
    assert len(files) == 2
    for file in files:
        cells = {cell for row in csv.reader(io.StringIO(file.read_text(encoding="utf-8"))) for cell in row}
        assert f"'{name}" in cells and name not in cells
    writers = ("to_csv", "DictWriter", "writer")
    calls = [
        file.name
        for package in ("zoo", "benchmark", "choose", "papers")
        for file in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in writers
    ]
    assert calls == ["write.py"]


WORDS = ("x\n```\n<b>hi</b>\n", "~~~\n````\n<img src=x>", "```\n</code>[a](javascript:b)\n```")


@pytest.mark.parametrize("word", WORDS)
def test_no_command_ends_its_block(word: str, tmp_path: Path) -> None:
    """What is copied from a block is the command that was typed."""
    Records(tmp_path).write(make_record("bag", "pocket-pairs", command=["zoo-bench", "run", word]))
    _, _, made_by = make_leaderboard(tmp_path).files["pocket.md"].partition("## Made by")
    (block,) = (token for token in MarkdownIt().parse(made_by) if token.type == "fence")
    assert shlex.split(block.content) == ["zoo-bench", "run", word]


def test_no_text_gives_orders_to_the_terminal() -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="utf-8", write_through=True)
    print_safe("".join(HOSTILE), stream)
    assert not ORDERS.search(written.getvalue().decode("utf-8"))
