"""Tables made from small truths: names, orders, containers and codings decide no number, or a question comes.

A table is a truth under names that are known, unknown or misleading, with unrelated columns, in any order, in any
container. Its score is the truth's, or the reader asks and one of its answers gives it.
"""

from __future__ import annotations

import functools
import json
import random
import re
import zlib
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmark.data.readers.tables import read
from choose import measures
from choose.data import Texts, read_texts
from choose.measures import measure
from zoo.errors import ZooError

WORDS = "sea rain tree house river stone cook train wall cat dog grass lamp door wind hill boat salt bread wool".split()
TABLES = 20  # of each truth
Values = dict[str, list[Any]]


@functools.cache
def vector(text: str) -> np.ndarray:
    """Return a bag of words, with a little of the whole text, so that no two texts are equally near."""
    row = 1e-3 * np.random.default_rng(zlib.crc32(text.encode())).normal(size=129)
    np.add.at(row, [zlib.crc32(word.encode()) % 128 for word in text.lower().split()], 1)
    return row


def score(data: Texts) -> tuple[str, float]:
    rows = measure(data, np.array([*map(vector, data.texts)]))[0]
    return data.kind, float(measures.score(data, rows[None])[0])


def text(draw: random.Random, words: int = 7) -> str:
    return " ".join(draw.choices(WORDS, k=words))


def like(draw: random.Random, given: str, kept: float) -> str:
    return " ".join(word if draw.random() < kept else draw.choice(WORDS) for word in given.split()) + " so"


def truth(kind: str, draw: random.Random) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the rows of a small truth, and the kinds of measure that may be read from them."""
    if kind == "labelled":
        topics = [WORDS[i : i + 5] for i in range(0, 20, 5)]
        texts = [" ".join(draw.choices(topics[i % 4], k=6)) + f" {draw.choice(WORDS)} here" for i in range(80)]
        rows = [(text, i % 4) for i, text in enumerate(texts)]
        return pd.DataFrame(rows, columns=["first", "value"]), ("label",)
    rows = []
    for number in range(48):
        query = text(draw, draw.choice([2, 7]) if kind != "scored" else 7)
        if kind == "scored":
            rows.append((query, like(draw, query, number % 6 / 5), number % 6))
        elif kind == "labels":
            rows.append((query, like(draw, query, 0.7 if number % 2 else 0.1), number % 2))
        else:
            good, bad = like(draw, query, 0.8), [text(draw), text(draw)]
            rows += {"pairs": [(query, good, 1)], "triples": [(query, good, other) for other in bad],
                     "judged": [(query, good, 2), (query, like(draw, query, 0.4), 1), (query, bad[0], 0)],
                     "relevant": [(query, good, 1), (query, bad[0], 0)]}[kind]  # fmt: skip
    names = ["first", "second", "negative" if kind == "triples" else "value"]
    frame = pd.DataFrame(rows, columns=names).drop(columns=["value"] if kind == "pairs" else [])
    return frame, {"scored": ("score",), "labels": ("binary", "retrieval"), "relevant": ("binary", "retrieval")}.get(
        kind, ("retrieval",)
    )  # fmt: skip


# Names that state the role, that state nothing, and that state what the cells cannot be.
NAMES = {
    "first": "query question anchor sentence1 text source premise|alpha Spalte_1 left claim|label id title",
    "second": "document passage answer positive sentence2 text context|beta chunk product_title evidence|score id",
    "negative": "negative neg hard_negative|gamma other|label",
    "scored": "score similarity gold rating distance|Wert verdict|text id answer year",
    "labels": "label score duplicate is_relevant is_different|verdict Urteil|text id answer",
    "judged": "relevance is_relevant grade score|clicks Urteil|text id answer",
    "labelled": "label class topic category|queue Thema|text id answer score",
}
NAMES["relevant"] = NAMES["labels"]
CODINGS: dict[str, list[dict[int, object]]] = {
    "scored": [{i: i for i in range(6)}, {i: i / 5 for i in range(6)}, {i: f"{20 * i} %" for i in range(6)}],
    "labels": [{0: 0, 1: 1}, {0: "no", 1: "yes"}, {0: "not_duplicate", 1: "duplicate"}, {0: False, 1: True},
               {0: "schlecht", 1: "gut"}, {0: "unrelated", 1: "related"}, {0: "non-linked", 1: "linked"},
               {0: "NEIN", 1: "JA"}],
    "judged": [{0: 0, 1: 1, 2: 2}, {0: 0.0, 1: 0.5, 2: 1.0}],
    "labelled": [dict(enumerate(["sport", "art", "food", "law"])), {i: i for i in range(4)},
                 {i: i + 7 for i in range(4)}],
}  # fmt: skip
CODINGS["relevant"] = CODINGS["labels"]


def asides(draw: random.Random, count: int) -> Values:
    """Return unrelated columns: numbers of rows, ids, splits, languages, annotators, years."""
    every: Values = {
        draw.choice(["id", "nr", ""]): draw.sample(range(count), count),
        draw.choice(["qid", "ref"]): [f"q{draw.randrange(40)}x" for _ in range(count)],
        "split": [draw.choice(["train", "test"]) for _ in range(count)],
        "lang": ["de"] * count,
        draw.choice(["annotator", "by"]): [draw.choice(["ann", "bo", "cy"]) for _ in range(count)],
        "year": [draw.choice([2012, 2015]) for _ in range(count)],
        "page": [f"https://a.b/{number}" for number in range(count)],
        draw.choice(["votes", "length"]): [draw.randrange(5) for _ in range(count)],
        "has_image": [draw.randrange(2) for _ in range(count)],
    }
    return {name: every[name] for name in draw.sample([*every], draw.choice([0, 0, 1, 2, 3]))}


def container(draw: random.Random, frame: pd.DataFrame, folder: Path) -> Any:
    """Return a frame as a file or an object; a ClassLabel has the names of words, in reversed order."""
    from datasets import ClassLabel, Dataset, DatasetDict

    form = draw.choice(["csv", "tsv", "jsonl", "records", "split", "index", "columns", "parquet", "frame", "rows",
                        "dict", "Dataset", "saved", "lists", "table"])  # fmt: skip
    path = folder / f"{draw.random()}"
    if form in ("csv", "tsv"):
        frame.to_csv(path.with_suffix(f".{form}"), index=False, sep="," if form == "csv" else "\t")
    elif form in ("jsonl", "records", "split", "index", "columns", "table"):
        suffix = ".jsonl" if form == "jsonl" else ".json"
        frame.to_json(path.with_suffix(suffix), orient="records" if form == "jsonl" else form, lines=form == "jsonl")
    elif form == "lists":
        row = {name: json.loads(frame[name].to_json(orient="values")) for name in frame}
        path.with_suffix(".jsonl").write_text(json.dumps(row), encoding="utf-8")
    elif form == "parquet":
        frame.to_parquet(path.with_suffix(".parquet"))
    if files := [*folder.glob(f"{path.name}.*")]:
        return files[0]
    if form == "frame":
        return frame
    if form in ("rows", "dict"):
        return frame.to_dict("records" if form == "rows" else "list")
    data = Dataset.from_pandas(frame, preserve_index=False)
    for name in frame:
        words = sorted(set(frame[name].dropna()), key=str, reverse=True)
        if 2 <= len(words) < 5 and all(isinstance(word, str) for word in words):
            data = data.cast_column(name, ClassLabel(names=words))
    if form == "Dataset":
        return DatasetDict(train=data.select(range(9)), test=data) if draw.random() < 0.5 else data
    data.to_parquet(str(path.with_suffix(".parquet"))) if draw.random() < 0.5 else data.save_to_disk(str(path))
    return path if path.exists() else path.with_suffix(".parquet")


def truth_of(kind: str, seed: int, folder: Path) -> tuple[str, Any, dict[str, float]]:
    """Return what a table is called, the table, and the truth's score by kind of measure."""
    draw = random.Random(f"{kind} {seed}")
    frame, kinds = truth(kind, draw)
    frame = pd.concat([frame, frame.sample(draw.choice([0, 0, 5]), random_state=seed)])
    expected = dict(score(read_texts(frame, ",".join(frame), of)) for of in kinds)
    coding = draw.choice(CODINGS.get(kind, [{}]))
    pools = ["known"] * frame.shape[1]
    for pool in draw.choice([[], [], [], ["unknown"], ["unknown", "unknown"], ["misleading"]]):
        pools[draw.randrange(len(pools))] = pool
    names: dict[str, str] = {}
    for role, pool in zip(frame, pools, strict=True):
        words = NAMES[kind if role == "value" else role].split("|")[["known", "unknown", "misleading"].index(pool)]
        names[role] = draw.choice([word for word in words.split() if word not in names.values()])
    if "value" in frame and names["value"] in ("distance", "is_different"):
        frame["value"] = frame["value"].max() - frame["value"]
        coding = {value: value for value in coding}
    if "value" in frame and coding:
        frame["value"] = frame["value"].map(coding).astype(object)
        if draw.random() < 0.3 and all(isinstance(value, int) for value in coding.values()):
            gap = frame.iloc[:1].assign(value=np.nan)  # a row without value: pandas writes the others as floats
            frame = pd.concat([frame, gap]).astype({"value": float})
        elif draw.random() < 0.2 and all(type(value) is int for value in coding.values()):
            frame["value"] = [draw.choice([f"{value}", f"{value}.0"]) for value in frame["value"]]
    frame = frame.rename(columns=names)
    frame = frame.assign(**{name: cells for name, cells in asides(draw, len(frame)).items() if name not in frame})
    frame = frame.sample(frac=1, random_state=seed).reset_index(drop=True)[draw.sample([*frame], frame.shape[1])]
    clear = not {"text", "source", "premise", *["score"] * (kind == "judged")} & {*names.values()}
    clear &= kind != "pairs" or not {"votes", "length", "has_image", "by"} & {*frame}
    certain = {*pools} == {"known"} and clear and "gut" not in coding.values()
    about = f"{kind} {seed}: {names} {coding} {[*frame]}{', no doubt' * certain}"
    return about, container(draw, frame, folder), expected


def outcome(table: Any, expected: dict[str, float], columns: str | None = None, kind: Any = None) -> str:
    """Return "right", "asked", or what is wrong."""
    try:
        got = score(read_texts(table, columns, kind))
    except ZooError as error:
        if columns or not (answers := re.findall(r"--columns '([^']*)'(?: --kind (\w+))?", str(error))):
            return f"refused: {error}"
        tried = [outcome(table, expected, names, of or None) for names, of in answers]
        return "asked" if "right" in tried else f"no answer is right: {error} {tried}"
    return "right" if expected.get(got[0]) == pytest.approx(got[1], abs=1e-9) else f"{got} for {expected}"


@pytest.mark.parametrize("tables", [TABLES, pytest.param(2 * TABLES, marks=pytest.mark.slow)])
def test_names_orders_and_containers_decide_no_number(tables: int, tmp_path: Path) -> None:
    """No score differs from the truth's in silence, each question has a right answer, and few are asked.

    Where all names are known and no two readings are left, nothing is asked.
    """
    outcomes: Counter[str] = Counter()
    wrong = []
    for kind in ("scored", "labels", "relevant", "judged", "pairs", "triples", "labelled"):
        for seed in range(tables):
            about, given, expected = truth_of(kind, seed, tmp_path)
            result = outcome(given, expected)
            outcomes[result] += 1
            if result not in ("right", "asked") or (result == "asked" and about.endswith("no doubt")):
                wrong.append(f"{about}\n    {result}")
    assert not wrong, "\n".join(wrong[:20])
    assert outcomes["asked"] <= 0.25 * outcomes.total(), outcomes


CELLS = {
    "constant": lambda i: "the same words",
    "short": lambda i: f"{WORDS[i % 20]} {WORDS[i // 20]}",
    "repeated": lambda i: f"{WORDS[i // 4 % 20]} {WORDS[i // 4 % 7]}",
}


TRIOS = list(product(["query", "question", "anchor"], ["positive", "pos", "answer"], ["negative", "neg"]))


@pytest.mark.parametrize("names", TRIOS)
@pytest.mark.parametrize("cells", CELLS)
def test_a_trio_of_known_names_wins_over_cells(names: tuple[str, str, str], cells: str) -> None:
    """The query keeps its role where its cells, or those of another, look like classes."""
    draw = random.Random(0)
    for place in range(3):
        columns = [[text(draw) for _ in range(100)] for _ in names]
        columns[place] = [CELLS[cells](i) for i in range(100)]
        table = read(pd.DataFrame(dict(zip(names, columns, strict=True))))
        assert table.kind == "triples", names
        assert [table.frame[role].tolist() for role in ("first", "second", "negative")] == columns


def test_what_is_not_used_is_named() -> None:
    frame = pd.DataFrame({"lang": ["en", "de"] * 12, "sentence1": [f"sea {i} rain" for i in range(24)], "split": "test",
                          "sentence2": [f"rain {i} tree" for i in range(24)], "score": range(24)})  # fmt: skip
    table = read(frame, take="measured")
    assert table.unused == {"lang": "languages", "split": "constant"}
    assert "not used: lang, split; several languages (en 12, de 12)" in table.report
