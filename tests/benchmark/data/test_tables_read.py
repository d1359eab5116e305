"""What `choose` must read in a table: inputs with the kind, the number of rows and the values of the first two.

The word of the user decides, then the cells, then the names of columns.
"""

# ruff: noqa: E501 -- a row of the table is a line
from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmark.data.readers.roles import Question
from benchmark.data.readers.tables import read
from choose.data import read_texts
from zoo.errors import CorruptError, MissingError, UsageError

N = 24
Q = [f"what is the thing number {i} made of" for i in range(N)]
SCORES = [i % 6 for i in range(N)]
D = [f"we believe that it is {' '.join(Q[i].split()[: SCORES[i] + 1])} stuff {i}" for i in range(N)]


def every(*values: object) -> list[object]:
    return [values[i % len(values)] for i in range(N)]


def table(head: Sequence[str] | None, *columns: Sequence[object], sep: str = ",") -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=sep, lineterminator="\n")
    writer.writerows([*([head] if head else []), *zip(*columns, strict=True)])
    return out.getvalue()


# name of the file, its content, --columns, --kind, kind of table, number of rows, the first two values
Row = tuple[str, Any, str | None, str | None, str, int, list[Any]]
TWO = {  # two labels: the one of the first row, that of the second, and the value of each
    "yes/no": ("yes", "no", [1, 0]),
    "No/Yes": ("No", "Yes", [0, 1]),
    "TRUE/FALSE": ("TRUE", "FALSE", [1, 0]),
    "true/false": ("true", "false", [1, 0]),
    "duplicate/not_duplicate": ("duplicate", "not_duplicate", [1, 0]),
    "not duplicate/duplicate": ("not duplicate", "duplicate", [0, 1]),
    "match/mismatch": ("match", "mismatch", [1, 0]),
    "similar/dissimilar": ("similar", "dissimilar", [1, 0]),
    "related/unrelated": ("related", "unrelated", [1, 0]),
    "same/different": ("same", "different", [1, 0]),
    "1/2": (1, 2, [0, 1]),
    "0/1": (0, 1, [0, 1]),
    "0.0/1.0": ("0.0", "1.0", [0, 1]),
    "-1/1": (-1, 1, [0, 1]),
    "ja/nein": ("ja", "nein", [1, 0]),
    "Y/N": ("Y", "N", [1, 0]),
    "positive/negative": ("positive", "negative", [1, 0]),
    "paraphrase/non-paraphrase": ("paraphrase", "non-paraphrase", [1, 0]),
}
ROWS: dict[str, Row] = {
    **{
        f"two labels, {name}": ("a.csv", table(["Betreff (neu)", "matched ticket", "Duplicate?"], Q, D, every(a, b)),
                                None, None, "binary pairs", N, values)
        for name, (a, b, values) in TWO.items()
    },
    **{
        f"two labels of columns that are named, {name}": (
            "a.csv", table(["Betreff (neu)", "matched ticket", "x"], Q, D, every(a, b)),
            "Betreff (neu),matched ticket,x", None, "binary pairs", N, values)
        for name, (a, b, values) in list(TWO.items())[:5]
    },
    "the user says which label is 1": ("a.csv", table(["a", "b", "c"], Q, D, every("rot", "blau")), "a,b,c=blau", None, "binary pairs", N, [0, 1]),
    "the user says so against the words": ("a.csv", table(["a", "b", "c"], Q, D, every("yes", "no")), "a,b,c=no", None, "binary pairs", N, [0, 1]),
    "two labels ordered to be scores": ("a.csv", table(["a", "b", "c"], Q, D, every(1, 5)), None, "score", "scored pairs", N, [1, 5]),
    "two numbers ordered to be labels": ("a.csv", table(["a", "b", "score"], Q, D, every(1, 5)), None, "binary", "binary pairs", N, [0, 1]),
    "classes without header": ("a.tsv", table(None, Q, every("billing", "returns"), sep="\t"), None, None, "labelled texts", N, ["billing", "returns"]),
    "ordered to be labels": ("a.csv", table(["text", "Thema"], Q, [f"t{i // 2}" for i in range(N)]), None, "label", "labelled texts", N, ["t0", "t0"]),
    "graded by relevance": ("a.csv", table(["query", "document", "relevance"], Q, D, every(3, 0, 1)), None, None, "judged pairs", N, [3, 0]),
    "words ordered to be judgements": ("a.csv", table(["query", "document", "ok"], Q, D, every("yes", "no")), None, "retrieval", "judged pairs", N, [1, 0]),
    "scores below 0": ("a.csv", table(["s1", "s2", "score"], Q, D, every(-1, -0.5, 0, 1)), None, None, "scored pairs", N, [-1, -0.5]),
    "STS-B's own csv": ("a.csv", table(None, every("main-news"), every("headlines"), every(2012, 2015), range(N), [s * 0.8 for s in SCORES], Q, D, sep="\t"), None, None, "scored pairs", N, [0, 0.8]),
    "GLUE's STS-B": ("a.tsv", table(["index", "genre", "year", "sentence1", "sentence2", "score"], range(N), every("news"), every(2012), Q, D, SCORES, sep="\t"), None, None, "scored pairs", N, [0, 1]),
    "STS-B's own csv, of many files": ("a.csv", table(None, every("main-news", "main-captions", "main-forums"), every("MSRvid", "images", "headlines"), every("2012test", "2014", "2015"), [f"{i:04}" for i in range(N)], [f"{s:.3f}" for s in SCORES], Q, D, sep="\t"), None, None, "scored pairs", N, [0, 1]),
    "STS-B's own csv, with sources": ("a.csv", "".join(f"main-forums\tdeft-forum\t2014\t{i:04}\t{SCORES[i] * 0.8:.3f}\t{Q[i]}\t{D[i]}{chr(9) + 'http://a' if i % 5 == 0 else ''}\n" for i in range(N)), None, None, "scored pairs", N, [0, 0.8]),
    "a header of many words above numbers": ("a.tsv", table(["pair", "first of the two texts", "second of the two texts", "how much are they alike?"], [f"({q[:9]} {i})" for i, q in enumerate(Q)], Q, D, SCORES, sep="\t"), "2,3,4", None, "scored pairs", N, [0, 1]),
    "pipes": ("a.csv", table(["s1", "s2", "score"], Q, D, SCORES, sep="|"), None, None, "scored pairs", N, [0, 1]),
    "pipes in txt": ("a.txt", table(["s1", "s2", "score"], Q, D, SCORES, sep="|"), None, None, "scored pairs", N, [0, 1]),
    "semicolons": ("a.csv", table(["s1", "s2", "score"], Q, D, SCORES, sep=";"), None, None, "scored pairs", N, [0, 1]),
    "UTF-16 with commas": ("a.csv", table(["s1", "s2", "score"], Q, D, SCORES).encode("utf-16"), None, None, "scored pairs", N, [0, 1]),
    "UTF-16 with tabs, as Excel writes": ("a.txt", table(["s1", "s2", "score"], Q, D, SCORES, sep="\t").replace("\n", "\r\n").encode("utf-16"), None, None, "scored pairs", N, [0, 1]),
    "UTF-16, big end first": ("a.csv", b"\xfe\xff" + table(["s1", "s2", "score"], Q, D, SCORES).encode("utf-16-be"), None, None, "scored pairs", N, [0, 1]),
    "scores without header": ("a.csv", table(None, Q, D, SCORES), None, None, "scored pairs", N, [0, 1]),
    "two texts without header": ("a.csv", table(None, Q, D), None, None, "pairs", N, D[:2]),
    "scores before texts": ("a.tsv", table(None, every(0, 1, 2), Q, D, sep="\t"), None, None, "scored pairs", N, [0, 1]),
    "two numbers before texts": ("a.csv", table(["Wert", "Satz 1", "Satz 2"], every(2, 4), Q, D), "Satz 1,Satz 2,Wert", "score", "scored pairs", N, [2, 4]),
    "decimal commas": ("a.csv", table(["Satz 1", "Satz 2", "Wert"], Q, D, [f"{s},5" for s in SCORES], sep=";"), None, None, "scored pairs", N, [0.5, 1.5]),
    "NaN in place of a text": ("a.jsonl", "".join(json.dumps({"s1": a, "s2": b if i else float("nan"), "score": c}) + "\n" for i, (a, b, c) in enumerate(zip(Q, D, SCORES, strict=True))), None, None, "scored pairs", N - 1, [1, 2]),
    "a text with line ends": ("a.csv", table(["question", "answer"], [q.replace(" ", "\n", 1) for q in Q], D), None, None, "pairs", N, D[:2]),
    "labels +/-": ("a.tsv", table(["left", "right", "verdict"], Q, D, every("matched", "unmatched"), sep="\t"), None, None, "binary pairs", N, [1, 0]),
    "labels equivalent/not_equivalent": ("a.csv", table(None, Q, D, every("not_equivalent", "equivalent")), None, None, "binary pairs", N, [0, 1]),
    "3 and 4": ("a.tsv", table(None, Q, D, every(3, 4, 3), sep="\t"), None, None, "scored pairs", N, [3, 4]),
    "duplicate/not a duplicate": ("a.csv", table(["bug", "older bug", "r"], Q, D, every("not duplicate", "duplicate")), "bug,older bug,r=duplicate", None, "binary pairs", N, [0, 1]),
    "Ärger and Größe": ("a.csv", table(["Ärger", "Größe"], Q, every("klein", "groß")).encode("utf-8-sig"), None, None, "labelled texts", N, ["klein", "groß"]),
    "judged 0, named": ("a.csv", table(["x", "y", "z"], Q, D, every(0, 0, 1)), "x,y,z", "retrieval", "judged pairs", N, [0, 0]),
    "graded -2 to 2": ("a.csv", table(["query", "answer", "grade"], Q, D, every(-2, 2, 1)), None, None, "judged pairs", N, [-2, 2]),
    "pipes without header": ("a.psv", table(None, Q, D, SCORES, sep="|"), None, None, "scored pairs", N, [0, 1]),
    "pipes around commas": ("a.csv", table(["query", "document"], Q, [f"{d}, and so on" for d in D], sep="|"), None, None, "pairs", N, [f"{d}, and so on" for d in D[:2]]),
    "UTF-16 with semicolons": ("a.csv", table(["Frage", "document"], Q, D, sep=";").encode("utf-16"), None, None, "pairs", N, D[:2]),
    "UTF-16, jsonl": ("a.jsonl", "".join(json.dumps({"s1": a, "s2": b, "score": c}) + "\r\n" for a, b, c in zip(Q, D, SCORES, strict=True)).encode("utf-16"), None, None, "scored pairs", N, [0, 1]),
    "decimal commas behind tabs": ("a.tsv", table(["s1", "s2", "score"], Q, D, [f"{s},25" for s in SCORES], sep="\t"), None, None, "scored pairs", N, [0.25, 1.25]),
    "decimal commas in quotes": ("a.csv", table(["s1", "s2", "score"], Q, D, [f"0,{s}75" for s in SCORES]), None, None, "scored pairs", N, [0.075, 0.175]),
    "decimal commas below 0": ("a.csv", table(None, Q, D, every("-0,5", "1", "0,333"), sep=";"), None, None, "scored pairs", N, [-0.5, 1]),
    "percents": ("a.csv", table(["s1", "s2", "Übereinstimmung"], Q, D, [f"{20 * s} %" for s in SCORES]), None, None, "scored pairs", N, [0, 20]),
    "lines that end in a carriage return": ("a.csv", table(["s1", "s2", "score"], Q, D, SCORES).replace("\n", "\r"), None, None, "scored pairs", N, [0, 1]),
    "the separator in the first line": ("a.csv", "\ufeffsep=;\r\n" + table(["Satz 1", "Satz 2", "Wert"], Q, D, SCORES, sep=";"), None, None, "scored pairs", N, [0, 1]),
    "a first row without text": ("a.csv", ",,\n" + table(["s1", "s2", "score"], Q, D, SCORES), None, None, "scored pairs", N, [0, 1]),
    "lists of positives and negatives": ("a.jsonl", "".join(json.dumps({"query": q, "pos": [d], "neg": [d[:20], d[:9]], "pos_scores": [0.5]}) + "\n" for q, d in zip(Q, D, strict=True)), None, None, "triples", 2 * N, [D[0], D[0]]),
    "passages with titles": ("a.jsonl", "".join(json.dumps({"query_id": i, "query": q, "positive_passages": [{"docid": "1", "title": "on", "text": d}]}) + "\n" for i, (q, d) in enumerate(zip(Q, D, strict=True))), None, None, "pairs", N, [f"on {d}" for d in D[:2]]),
    "lists that the user names": ("a.jsonl", "".join(json.dumps({"q": q, "id": [1, 2], "hits": [d, d[:20]]}) + "\n" for q, d in zip(Q, D, strict=True)), "q,hits", None, "pairs", 2 * N, [D[0], D[0][:20]]),
    "lists under one name beside a label": ("a.jsonl", "".join(json.dumps({"texts": [q, d], "label": label}) + "\n" for q, d, label in zip(Q, D, every(1, 0), strict=True)), None, None, "binary pairs", N, [1, 0]),
    "passages of DPR": ("a.json", json.dumps([{"question": q, "answers": [f"name {i}"], "positive_ctxs": [{"title": "on", "text": d, "score": 1.5}], "negative_ctxs": [], "hard_negative_ctxs": [{"title": "on", "text": d[::-1], "score": 3.0}]} for i, (q, d) in enumerate(zip(Q, D, strict=True))]), "question,positive_ctxs,hard_negative_ctxs", None, "triples", N, [f"on {d}" for d in D[:2]]),
    "lists of labels": ("a.jsonl", "".join(json.dumps({"text": q, "labels": ["x", "y"][: 1 + i % 2]}) + "\n" for i, q in enumerate(Q)), None, None, "labelled texts", N // 2, ["x", "x"]),
    "one class in two cases, and a text with two": ("a.csv", table(["text", "label"], [*Q, Q[2]], [*every("Sport", "art", "sport"), "art"]), None, None, "labelled texts", N - 1, ["sport", "art"]),
    "lists under one name": ("a.jsonl", "".join(json.dumps({"texts": [q, d]}) + "\n" for q, d in zip(Q, D, strict=True)), None, None, "pairs", N, D[:2]),
    "a distance": ("a.csv", table(["s1", "s2", "distance"], Q, D, SCORES), "s1,s2,-distance", None, "scored pairs", N, [5, 4]),
    "a distance that the user takes as it is": ("a.csv", table(["s1", "s2", "distance"], Q, D, SCORES), "s1,s2,distance", None, "scored pairs", N, [0, 1]),
    "NA in place of a score": ("a.csv", table(["s1", "s2", "score"], Q, D, [*SCORES[:-1], "NA"]), None, None, "scored pairs", N - 1, [0, 1]),
    "nan in place of 0 or 1": ("a.csv", table(["s1", "s2", "same"], Q, D, [1, 0, "nan"] * (N // 3)), None, None, "binary pairs", 2 * N // 3, [1, 0]),
    "vectors beside texts": ("a.jsonl", "".join(json.dumps({"s1": a, "s2": b, "score": c, "vector": [0.5, 1]}) + "\n" for a, b, c in zip(Q, D, SCORES, strict=True)), None, None, "scored pairs", N, [0, 1]),
    "a text of 100,000 characters": ("a.jsonl", "".join(json.dumps({"query": q, "document": d if i else "y " * 50_000}) + "\n" for i, (q, d) in enumerate(zip(Q, D, strict=True))), None, None, "pairs", N, [("y " * 50_000).strip(), D[1]]),
    "a long text of one word": ("a.tsv", table(["text", "label"], ["z" * 100_000, *Q[1:]], every("a", "b", "c"), sep="\t"), None, None, "labelled texts", N, ["a", "b"]),
    "a long text with line ends": ("a.csv", table(["s1", "s2", "score"], Q, [D[0], "one line\n" * 9_999, *D[2:]], SCORES), None, None, "scored pairs", N, [0, 1]),
    "a text of 20,000 characters": ("a.csv", table(["query", "document"], Q, [D[0], "x " * 10_000, *D[2:]]), None, None, "pairs", N, [D[0], ("x " * 10_000).strip()]),
}  # fmt: skip


# Tables of no listed shape: the first answer of the question gives what is right.
ASKED = {"classes without header", "decimal commas", "Ärger and Größe", "UTF-16 with semicolons", "percents",
         "the separator in the first line", "labels +/-"}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_what_a_table_is(name: str, tmp_path: Path) -> None:
    file, content, columns, kind, meant, rows, values = ROWS[name]
    path = tmp_path / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    try:
        table_read = read(path, columns, kind)  # type: ignore[arg-type]
        assert name not in ASKED and not name.startswith("two labels, ")
    except Question as question:
        assert name in ASKED or name.startswith("two labels, ")
        table_read = read(path, question.readings[0].columns, question.readings[0].kind)
    role = {"pairs": "second", "triples": "second", "labelled texts": "label"}.get(meant, "score")
    assert (table_read.kind, len(table_read.frame), table_read.frame[role].tolist()[:2]) == (meant, rows, values)
    first = table_read.frame["first"].iloc[0].split()
    assert first == Q[1 if name.startswith("NaN") else 0].split() or first == ["z" * 100_000]


def test_short_texts_without_header_lose_no_row(tmp_path: Path) -> None:
    text = table(None, [f"red dog {i}" for i in range(N)], [f"small tree {i}" for i in range(N)])
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    table_read = read(tmp_path / "a.csv")
    assert len(table_read.frame) == N and table_read.frame["first"].iloc[0] == "red dog 0"


def dataset(frame: pd.DataFrame) -> Any:
    from datasets import Dataset

    return Dataset.from_pandas(frame)


def saved(given: Any, folder: Path) -> Path:
    given.save_to_disk(str(folder / "saved"))
    return folder / "saved"


def beir(folder: Path, qrels: str) -> Path:
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": f"d{i}", "title": f"title {i}", "text": D[i]} for i in range(N)]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)), encoding="utf-8")
    queries = "\n".join(json.dumps({"_id": f"q{i}", "text": Q[i]}) for i in range(N))
    (folder / "queries.jsonl").write_text(queries, encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text(qrels, encoding="utf-8")
    return folder


def beir_of(folder: Path, form: str, qrels: str, lines: list[str]) -> Path:
    """Write a folder of BEIR whose texts are tables of a form, and its judgements a file."""
    (folder / "qrels").mkdir()
    for name, key, texts in (("corpus", "_id", D), ("queries", "query_id", Q)):
        frame = pd.DataFrame({"text": texts, key: [f"{i:03}" for i in range(N)]})
        if form == "parquet":
            frame.to_parquet(folder / f"{name}.parquet")
        else:
            (folder / f"{name}.{form}").write_text(frame.to_csv(index=False, sep="\t" if form == "tsv" else ","))
    (folder / qrels).write_text("\n".join(lines), encoding="utf-8")
    return folder


def classes(names: Sequence[str]) -> Any:
    from datasets import ClassLabel

    return dataset(pd.DataFrame({"text": Q, "label": every(1, 0, 2)})).cast_column("label", ClassLabel(names=names))


def split(folder: Path) -> Path:
    from datasets import DatasetDict

    few = dataset(pd.DataFrame({"query": Q[:3], "document": D[:3]}))
    return saved(DatasetDict(train=few, validation=dataset(pd.DataFrame({"query": Q, "document": D}))), folder)


def sharded(folder: Path) -> Path:
    dataset(pd.DataFrame({"s1": Q, "s2": D, "same": every(True, False)})).save_to_disk(str(folder / "s"), num_shards=3)
    return folder / "s"


SOURCES: dict[str, tuple[Callable[[Path], Any], str, int, list[float]]] = {
    "BEIR of parquet": (lambda f: beir_of(f, "parquet", "qrels/test.tsv", [f"{i:03}\t{i:03}\t2" for i in range(N)]), "retrieval", N, [2, 2]),
    "BEIR of trec's judgements": (lambda f: beir_of(f, "tsv", "qrels/dev.tsv", [f"{i:03}\t0\t{i:03}\t1" for i in range(22)]), "retrieval", 22, [1, 1]),
    "BEIR of csv": (lambda f: beir_of(f, "csv", "qrels.csv", ["q,d,grade", *(f"{i:03},{i:03},{i % 2 + 1}" for i in range(N))]), "retrieval", N, [1, 2]),
    "a saved DatasetDict": (split, "retrieval", N, [1, 1]),
    "a saved Dataset of three files": (sharded, "binary", N, [1, 0]),
    "a saved Dataset of ClassLabel": (lambda f: saved(classes(["a", "b", "c"]), f), "label", N, [0, 1]),
    "a DataFrame of bool": (lambda _: pd.DataFrame({"s1": Q, "s2": D, "same": every(False, True)}), "binary", N, [0, 1]),
    "a DataFrame of arrays": (lambda _: pd.DataFrame({"query": Q, "positives": [np.array([d, d[:20]]) for d in D]}), "retrieval", N, [1, 1]),
    "a DataFrame of categories": (lambda _: pd.DataFrame({"topic": pd.Categorical(every("x", "y", "z")), "body": Q}), "label", N, [0, 1]),
    "a Dataset of grades": (lambda _: dataset(pd.DataFrame({"query": Q, "document": D, "grade": every(3, 1)})), "retrieval", N, [3, 1]),
    "a Dataset of lists": (lambda _: dataset(pd.DataFrame({"anchor": Q, "positives": [[d] for d in D]})), "retrieval", N, [1, 1]),
    "a dict of columns, one of objects": (lambda _: {"query": Q, "passages": [{"passage_text": [d, d[:20]], "is_selected": [1, 0]} for d in D]}, "retrieval", N, [1, 0]),
    "a Dataset of ClassLabel": (lambda _: classes(["a", "b", "c"]), "label", N, [0, 1]),
}  # fmt: skip


@pytest.mark.parametrize("name", SOURCES)
def test_folders_and_objects(name: str, tmp_path: Path) -> None:
    make, kind, units, gold = SOURCES[name]
    texts_read = read_texts(make(tmp_path))
    assert (texts_read.kind, texts_read.units, texts_read.gold.tolist()[:2]) == (kind, units, gold)
    assert [texts_read.texts[place] for place in texts_read.first[:1]] == Q[:1]


def test_a_folder_of_beir_has_unjudged_documents_titles_and_grades(tmp_path: Path) -> None:
    lines = "".join(f"q{i}\td{i}\t{i % 3}\n" for i in range(N)) + "q0\td5\t2\n"
    with pytest.raises(UsageError, match="17 queries"):  # seven of 24 have no relevant document
        read_texts(beir(tmp_path / "few", "query-id\tcorpus-id\tscore\n" + lines))
    lines = "".join(f"q{i}\td{i}\t{i % 3 or 1}\n" for i in range(22)) + "q0\td5\t2\nq22\td1\t0\n"
    for name, head in (("named", "query-id\tcorpus-id\tscore\n"), ("unnamed", "query\tcorpus\tscore\n")):
        texts_read = read_texts(beir(tmp_path / name, head + lines))
        documents = texts_read.texts[texts_read.queries :]
        assert texts_read.queries == 23 and documents == [f"title {i} {D[i]}" for i in range(N)]
        assert texts_read.gold[-2] == 2 and texts_read.texts[texts_read.second[-2]].startswith("title 5 ")
        assert texts_read.units == 22 and "1 queries without a relevant document" in texts_read.report


# What is asked or refused: its content, --columns, --kind, and the sentence.
DOUBTS: dict[str, tuple[str, str | None, Any, str]] = {
    "which is 1": (table(["a", "b", "c"], Q, D, every("rot", "blau")), None, None, "--columns a,b,c=rot --kind binary"),
    "no such label": (table(["a", "b", "c"], Q, D, every("rot", "blau")), "a,b,c=grau", None, "no label is 'grau'"),
    "six values": (table(["a", "b", "score"], Q, D, SCORES), None, "binary", "6 values"),
    "three labels": (table(["a", "b", "c"], Q, D, every("yes", "no", "maybe")), "a,b,c", None, "grades in words .maybe, no, yes"),
    "five queries": (table(["query", "document"], Q[:5], D[:5]), None, None, "5 queries with a relevant .* 20"),
    "clicks": (table(["query", "document", "clicks"], Q, D, every(17, 0, 3)), None, None, "1. --columns query,document,clicks --kind retrieval"),
    "a distance": (table(["s1", "s2", "edit distance"], Q, D, SCORES), None, None, "1. --columns 's1,s2,edit distance' --kind score"),
    "a dissimilarity": (table(["s1", "s2", "Dissimilarity"], Q, D, SCORES), "s1,s2,-s1", "score", "is not a score"),
    "a denied label": (table(["s1", "s2", "not_similar"], Q, D, every(0, 1)), None, None, "1. --columns s1,s2,not_similar --kind binary"),
    "no score to turn": (table(["s1", "s2"], Q, D), "s1,-s2", None, "a minus turns a score"),
    "two annotators": (table(["s1", "s2", "ann", "bo"], Q, D, SCORES, [2 * score for score in SCORES]), None, None, "s1,s2,bo --kind score"),
    "two classes": (table(["query", "title", "brand", "verdict"], Q, D, every(*"abc"), every(*"ESI")), None, None, "--columns query,title"),
    "one text and two classes": (table(["text", "team", "floor"], Q, every(*"abc"), every(*"xyzuv")), None, None, "(?s)text,floor --kind label.*text,team --kind label"),
    "inference": (table(["s1", "s2", "score"], Q, D, every("entailment", "neutral")), None, None, "of inference"),
    "lists of two lengths": (json.dumps({"query": Q, "document": D[:5]}), None, None, "a.jsonl:1: query and document are lists of different lengths"),
    "lists": ("\n".join(json.dumps({"query": q, "hits": [q, "a b"]}) for q in Q), None, None, "--columns query,hits"),
}  # fmt: skip


@pytest.mark.parametrize("name", DOUBTS)
def test_doubt_is_a_question(name: str, tmp_path: Path) -> None:
    content, columns, kind, words = DOUBTS[name]
    path = tmp_path / ("a.jsonl" if content.startswith("{") else "a.csv")
    path.write_text(content, encoding="utf-8")
    with pytest.raises((CorruptError, UsageError), match=words):
        read_texts(path, columns, kind)


def test_what_is_no_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.md").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError, match=r"folder with notes\.md.*BEIR"):
        read_texts(tmp_path / "folder")
    with pytest.raises(MissingError, match="no such file"):
        read_texts(tmp_path / "nothing.csv")
    with pytest.raises(UsageError, match="int is no table"):
        read_texts(3)
    folder = beir(tmp_path / "beir", "query-id\tcorpus-id\tscore\nq0\td99\t1\n")
    with pytest.raises(CorruptError, match=r"test\.tsv:2: there is no document 'd99'"):
        read_texts(folder)


def test_excel_is_read_with_its_extra(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"s1": Q, "s2": D, "score": SCORES})
    frame.to_excel(tmp_path / "a.xlsx", index=False, startrow=2, startcol=1)
    with pd.ExcelWriter(tmp_path / "b.xlsx") as book:
        pd.DataFrame({"notes": ["Our pairs."]}).to_excel(book, sheet_name="about", index=False)
        frame.to_excel(book, sheet_name="pairs")
    for name in ("a.xlsx", "b.xlsx"):
        assert read_texts(tmp_path / name).gold.tolist() == SCORES
