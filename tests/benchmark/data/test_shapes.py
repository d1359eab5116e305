"""Tables of every listed shape, made here: no order, container, copy or column beside it changes what is read.

One column renamed to a word that is in no list makes the table a question, whose first answer is nearly always right.
"""

from __future__ import annotations

import functools
import json
import random
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmark.cli.main import main
from benchmark.data.readers.frames import Table
from benchmark.data.readers.roles import Question
from benchmark.data.readers.shapes import ASIDE, NUMBERED, SHAPES, Shape, rows_of_shapes
from benchmark.data.readers.tables import read
from choose import measures
from choose.data import Texts, read_texts
from choose.measures import measure
from zoo.encoder import NLI_LABELS
from zoo.errors import UsageError, ZooError

WORDS = "sea rain tree house river stone cook train wall cat dog grass lamp door wind hill boat salt bread wool".split()
MEASURED = ("scored pairs", "binary pairs", "judged pairs", "pairs", "triples", "labelled texts")
KINDS = {"number": "score", "binary": "binary", "class": "label"}
COUNT = 60


@functools.cache
def vector(text: str) -> np.ndarray:
    """Return a bag of words, with a little of the whole text, so that no two texts are equally near."""
    row = 1e-3 * np.random.default_rng(zlib.crc32(text.encode())).normal(size=129)
    np.add.at(row, [zlib.crc32(word.encode()) % 128 for word in text.lower().split()], 1)
    return row


def score(data: Texts) -> float:
    rows = measure(data, np.array([*map(vector, data.texts)]))[0]
    return float(measures.score(data, rows[None])[0])


def text(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=7))


def truth(shape: Shape, draw: random.Random) -> pd.DataFrame:
    """Return rows of a shape under the names of their roles: 0, 1, negative, value."""
    frame: dict[str, list[Any]] = {"0": [f"{text(draw)} {row}" for row in range(COUNT)]}
    if shape.second or shape.first == NUMBERED:
        frame["1"] = [" ".join([*first.split()[: row % 7], "so it is here"]) for row, first in enumerate(frame["0"])]
    if shape.negative:
        frame["negative"] = [text(draw) for _ in range(COUNT)]
    values = {
        "number": [row % 6 / 5 for row in range(COUNT)],
        "binary": [row % 2 for row in range(COUNT)],
        "nli": [NLI_LABELS[row % 3] for row in range(COUNT)],
        "class": [WORDS[row % 4] for row in range(COUNT)],
    }
    if shape.form:
        frame["value"] = values[shape.form]
    return pd.DataFrame(frame)


def names_of(shape: Shape, draw: random.Random) -> dict[str, str]:
    """Return a listed name for each role, spelt in one of the ways that people use."""
    if shape.first == NUMBERED:
        stem, ends = draw.choice(["sentence", "text", "ticket", "Satz"]), draw.choice(["12", "ab", "01"])
        names = {"0": stem + ends[0], "1": stem + ends[1]}
    else:
        names = {str(place): draw.choice(of.split()) for place, of in enumerate((shape.first, shape.second)) if of}
    names |= {
        role: draw.choice(of.split()) for role, of in (("negative", shape.negative), ("value", shape.value)) if of
    }
    spelt = draw.choice([str, str.upper, str.title, "{}_".format, "Input.{}".format])
    return {role: spelt(name) for role, name in names.items()}


def asides(draw: random.Random) -> dict[str, list[Any]]:
    """Return columns that may stand beside a shape: listed names with any cells, and a constant of any name."""
    listed = sorted(ASIDE - {"label1", "label2", "entailmentjudgment", "entailmentlabel", "labeltext"})
    columns: dict[str, list[Any]] = {name: [draw.choice(["7", "x y z", "a"]) for _ in range(COUNT)] for name in
                                     draw.sample(listed, draw.choice([0, 1, 3]))}  # fmt: skip
    return columns | {"zustand": ["fertig"] * COUNT} if draw.random() < 0.3 else columns


def container(form: str, frame: pd.DataFrame, path: Path) -> Any:
    from datasets import Dataset, DatasetDict

    file = path / f"table.{form}"
    if form in ("csv", "tsv"):
        frame.to_csv(file, index=False, sep="," if form == "csv" else "\t")
    elif form == "jsonl":
        frame.to_json(file, orient="records", lines=True)
    elif form in ("split", "index", "columns", "table", "records"):
        file = path / f"{form}.json"
        frame.to_json(file, orient=form)
    elif form == "lists":
        file = path / "lists.jsonl"
        file.write_text(json.dumps({name: json.loads(frame[name].to_json(orient="values")) for name in frame}))
    elif form == "parquet":
        frame.to_parquet(file)
    elif form == "saved":
        Dataset.from_pandas(frame, preserve_index=False).save_to_disk(str(file))
    else:
        splits = DatasetDict(train=Dataset.from_pandas(frame.head(9)), test=Dataset.from_pandas(frame))
        rows, lists = frame.to_dict("records"), frame.to_dict("list")
        return {"frame": frame, "rows": rows, "dict": lists, "splits": splits}[form]
    return file


FORMS = "csv tsv jsonl split index columns table records lists parquet saved frame rows dict splits".split()


def content(table: Table) -> list[tuple[Any, ...]]:
    return content_of(table.frame.drop_duplicates(), table.kind)


def content_of(frame: pd.DataFrame, kind: str) -> list[tuple[Any, ...]]:
    """Return the rows in an order; the sides of a similarity, and several texts alone, have none."""
    sides = {"scored pairs": 2, "binary pairs": 2, "texts": frame.shape[1]}.get(kind, 0)
    rows = ((*sorted(row[:sides]), *row[sides:]) for row in frame.itertuples(index=False))
    return sorted(rows, key=repr)


def expected(shape: Shape, frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return content_of(frame.astype({"value": float} if shape.form in ("number", "binary") else {}), shape.kind)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.source[:40])
def test_a_listed_shape_is_read_whatever_its_order_container_copies_and_columns_beside_it(
    shape: Shape, seed: int, tmp_path: Path
) -> None:
    draw = random.Random(f"{shape.source} {seed}")
    rows = truth(shape, draw)
    names = names_of(shape, draw)
    frame = pd.concat([rows.rename(columns=names), pd.DataFrame(asides(draw))], axis=1)
    frame = frame.loc[:, ~frame.columns.duplicated()]
    copies = pd.concat([frame, frame.sample(5, random_state=seed)])
    copies = copies.sample(frac=1, random_state=seed)[draw.sample([*frame], frame.shape[1])]
    plain = read(frame)
    assert (plain.kind, content(plain)) == (shape.kind, expected(shape, rows)), names
    table = read(container(form := draw.choice(FORMS), copies.reset_index(drop=True), tmp_path))
    assert (table.kind, content(table)) == (shape.kind, content(plain)), (names, form)
    assert {*table.unused} >= {*frame} - {*names.values()}
    if shape.kind in MEASURED:
        once = read_texts(frame)
        again = read_texts(copies.drop_duplicates().iloc[::-1])
        assert score(again) == pytest.approx(score(once), abs=1e-12)


def test_one_renamed_column_is_a_question_whose_first_answer_is_the_truth() -> None:
    """For every shape and role; where it is not first, no answer is taken in silence."""
    outcomes: Counter[str] = Counter()
    wrong = []
    for shape in SHAPES:
        for seed in range(4):
            draw = random.Random(f"{shape.source} {seed}")
            rows = truth(shape, draw)
            for role in rows:
                names = names_of(shape, draw) | {role: draw.choice(["Spalte", "wort x", "beta", "zeug"])}
                frame = rows.rename(columns=names)[draw.sample([*names.values()], len(names))]
                corpus = shape.kind == "texts"
                try:
                    table = read(frame, corpus=corpus)
                    outcome = "silent" if content(table) != expected(shape, rows) else "answered"
                except Question as question:
                    answers = [content(read(frame, r.columns, r.kind, corpus=corpus)) for r in question.readings]
                    place = answers.index(expected(shape, rows)) if expected(shape, rows) in answers else -1
                    outcome = {0: "first", -1: "absent"}.get(place, "later")
                except UsageError as error:
                    outcome = f"refused: {error}"
                outcomes[outcome] += 1
                if outcome != "first":
                    wrong.append(f"{shape.source[:30]} {role} {[*frame]}: {outcome}")
    assert "silent" not in outcomes, wrong
    assert outcomes["first"] >= 0.9 * outcomes.total(), "\n".join([str(outcomes), *wrong])


@pytest.mark.parametrize("kind", ["score", "binary", "retrieval"])
def test_what_a_person_says_wins_over_the_list(kind: Any) -> None:
    """A score of -1, 0, 1 keeps its -1; two numbers are labels; a search is one."""
    rows = {"sentence1": [f"{i} a" for i in range(60)], "sentence2": [f"{i} b" for i in range(60)]}
    label = {"score": [i % 3 - 1 for i in range(60)], "binary": [4 * (i % 2) + 1 for i in range(60)]}
    frame = pd.DataFrame({**rows, "label": label.get(kind, [i % 2 for i in range(60)])})
    for table in (read(frame, None, kind), read(frame, "sentence1,sentence2,label", kind)):
        assert table.kind == {"score": "scored pairs", "binary": "binary pairs", "retrieval": "judged pairs"}[kind]
        numbers = sorted({*table.frame["score"]})
        assert numbers == ([-1, 0, 1] if kind == "score" else [0, 1]) and len(table.frame) == 60


def test_a_number_answers_the_question_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{i // 3 % 5} left {i},{i % 5} right {i},{i % 2}" for i in range(60)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["ticket a,ticket b,same issue", *rows]), encoding="utf-8")
    command = ["choose", str(path), "--encoders", "bag-of-words"]
    with pytest.raises(SystemExit) as end:
        main(command)
    err = capsys.readouterr().err
    assert end.value.code == 2 and "\n  1. --columns 'ticket a,ticket b,same issue' --kind binary  (first: " in err
    assert err.count("\n  ") == 3
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("click.prompt", lambda *_, **__: 1)
    with pytest.raises(SystemExit):
        main(command)
    assert "60 binary pairs" in capsys.readouterr().out


def test_the_list_is_printed_and_is_the_handbooks_table(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["data", "--schemas", "--markdown"])
    out = capsys.readouterr().out.strip()
    page = (Path(__file__).parents[3] / "docs" / "choose.md").read_text(encoding="utf-8")
    assert not end.value.code and out.count("\n") == len(rows_of_shapes()) + 1 and out in page


CHATS = {
    "a question and its answer": [("user", 0), ("assistant", 1)],
    "a system text": [("system", 2), ("user", 0), ("assistant", 1)],
    "the answer first": [("assistant", 1), ("user", 0), ("system", 2)],
}


@pytest.mark.parametrize("turns", CHATS)
@pytest.mark.parametrize("keys", [("role", "content"), ("from", "value")])
def test_the_roles_of_a_chat_are_what_it_states(turns: str, keys: tuple[str, str]) -> None:
    who = {"user": "human", "assistant": "gpt"} if keys[0] == "from" else {}
    texts = [[f"how {i} is it", f"it is {i} so", f"you help {i} people"] for i in range(30)]
    chats = [[(who.get(role, role), text[place]) for role, place in CHATS[turns]] for text in texts]
    table = read([{"messages": [dict(zip(keys, turn, strict=True)) for turn in chat]} for chat in chats])
    assert table.kind == "pairs" and table.frame.values.tolist() == [text[:2] for text in texts]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (
            {"s1": "abcdef", "s2": "ghijkl", "alike?": ["low", "mid", "high"] * 2},
            "grades in words .high, low, mid.: write",
        ),
        (
            {"prompt": "abcdef", "text A": "ghijkl", "text B": "mnopqr", "text C": "stuvwx", "best": [*"ABCABC"]},
            "is best",
        ),
        ({"topic": ["x y", *[""] * 5], "note a": "abcdef", "same": [0, 1] * 3}, "merged cells"),
    ],
)
def test_a_table_that_no_command_reads_is_told_what_it_lacks(frame: dict[str, Any], words: str) -> None:
    rows = {name: [f"the {cell} thing" for cell in cells] if isinstance(cells, str) else cells for name, cells in
            frame.items()}  # fmt: skip
    table = pd.concat([pd.DataFrame(rows).replace("thing$", f"thing {copy}", regex=True) for copy in range(4)])
    with pytest.raises(ZooError, match=words):
        read(table)


@pytest.mark.parametrize("above", ["Survey of spring,,\n,,\n", "# exported by a tool\n", ""])
def test_a_title_above_the_header_is_named(above: str, tmp_path: Path) -> None:
    rows = "".join(f"left {i} is,right {i} is,{i % 5}\n" for i in range(30))
    (tmp_path / "a.csv").write_text(above + "sentence1,sentence2,score\n" + rows, encoding="utf-8")
    table = read(tmp_path / "a.csv")
    assert len(table.frame) == 30 and ("header in line" in table.report) == bool(above)


@pytest.mark.parametrize("written", [str, json.loads, lambda text: text])
def test_lists_of_labels_are_lists_also_as_text(written: Any) -> None:
    lists = ['["a"]', '["a", "b"]', '["b"]'] * 20
    frame = {"text": [f"text {i} here" for i in range(60)], "labels": [written(cell) for cell in lists]}
    table = read([dict(zip(frame, row, strict=True)) for row in zip(*frame.values(), strict=True)])
    assert table.frame["label"].tolist() == ["a", "b"] * 20 and "20 with several labels" in table.report.replace(
        "40", "20"
    )


@pytest.mark.parametrize("category", ["Category", "title"])
def test_a_class_beside_a_question_and_its_answer_is_left_out_first(category: str) -> None:
    rows = {"Question": [f"how {i} is it" for i in range(60)], "Answer": [f"it is {i}" for i in range(60)]}
    with pytest.raises(Question) as asked:
        read(pd.DataFrame({**rows, category: ["red", "blue", "old"] * 20}))
    first = asked.value.readings[0]
    assert (first.columns, first.kind) == ("Question,Answer", "retrieval") and f"not used: {category}" in first.row
