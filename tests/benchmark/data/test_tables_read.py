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

import pandas as pd
import pytest

from benchmark.choosing.data import read_texts
from benchmark.data.readers.tables import read
from zoo.errors import CorruptError, MissingError, UsageError

N = 24
Q = [f"what is the thing number {i} made of" for i in range(N)]
D = [f"we believe that it is made of the stuff {i}" for i in range(N)]
PLACES: dict[str, str] = {"score": "scores", "binary": "binary", "retrieval": "judged", "label": "labels"}


def every(*values: object) -> list[object]:
    return [values[i % len(values)] for i in range(N)]


def table(head: Sequence[str] | None, *columns: Sequence[object], sep: str = ",") -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=sep, lineterminator="\n")
    writer.writerows([*([head] if head else []), *zip(*columns, strict=True)])
    return out.getvalue()


SCORES = [i % 6 for i in range(N)]
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
    "labels called score": ("a.csv", table(["s1", "s2", "score"], Q, D, every("yes", "no")), None, None, "binary pairs", N, [1, 0]),
    "labels called response": ("a.csv", table(["text", "other", "response"], Q, D, every("yes", "no")), None, None, "binary pairs", N, [1, 0]),
    "two labels, without header": ("a.csv", table(None, Q, D, every("yes", "no")), None, None, "binary pairs", N, [1, 0]),
    "the user says which label is 1": ("a.csv", table(["a", "b", "c"], Q, D, every("rot", "blau")), "a,b,c=blau", None, "binary pairs", N, [0, 1]),
    "the user says so against the words": ("a.csv", table(["a", "b", "c"], Q, D, every("yes", "no")), "a,b,c=no", None, "binary pairs", N, [0, 1]),
    "two labels ordered to be scores": ("a.csv", table(["a", "b", "c"], Q, D, every(1, 5)), None, "score", "scored pairs", N, [1, 5]),
    "two numbers ordered to be labels": ("a.csv", table(["a", "b", "score"], Q, D, every(1, 5)), None, "binary", "binary pairs", N, [0, 1]),
    "body and queue": ("a.csv", table(["body", "queue"], Q, every("billing", "returns", "sales")), None, None, "labelled texts", N, ["billing", "returns"]),
    "Nachricht and Abteilung": ("a.csv", table(["Nachricht", "Abteilung"], Q, every("Kauf", "Lager")), None, None, "labelled texts", N, ["Kauf", "Lager"]),
    "the class first": ("a.csv", table(["queue", "body"], every("billing", "returns", "sales"), Q), None, None, "labelled texts", N, ["billing", "returns"]),
    "classes without header": ("a.tsv", table(None, Q, every("billing", "returns"), sep="\t"), None, None, "labelled texts", N, ["billing", "returns"]),
    "classes of two words": ("a.csv", table(["message", "team"], Q, every("Kauf innen", "Lager aussen")), None, None, "labelled texts", N, ["Kauf innen", "Lager aussen"]),
    "numbers as classes": ("a.csv", table(["text", "label"], Q, every(3, 7, 9)), None, None, "labelled texts", N, ["3", "7"]),
    "ordered to be labels": ("a.csv", table(["text", "Thema"], Q, [f"t{i // 2}" for i in range(N)]), None, "label", "labelled texts", N, ["t0", "t0"]),
    "a constant column": ("a.csv", table(["frage", "sprache", "antwort"], Q, every("de"), D), None, None, "pairs", N, D[:2]),
    "a column with a text in half of all rows": ("a.csv", table(["frage", "quelle", "antwort"], Q, every("web", "mail", "web", "fax"), D), None, None, "pairs", N, D[:2]),
    "query and document": ("a.csv", table(["query", "document"], Q, D), None, None, "pairs", N, D[:2]),
    "named in their order": ("a.csv", table(["document", "query"], D, Q), "query,document", None, "pairs", N, D[:2]),
    "classes ordered to be documents": ("a.csv", table(["query", "product"], Q, every("lamp", "table", "chair")), None, "retrieval", "pairs", N, ["lamp", "table"]),
    "triples": ("a.csv", table(["anchor", "positive", "negative"], Q, D, D[1:] + D[:1]), None, None, "triples", N, D[:2]),
    "judged by relevance": ("a.csv", table(["query", "document", "relevance"], Q, D, every(1, 0)), None, None, "judged pairs", N, [1, 0]),
    "graded by relevance": ("a.csv", table(["query", "document", "relevance"], Q, D, every(3, 0, 1)), None, None, "judged pairs", N, [3, 0]),
    "qrel": ("a.csv", table(["query", "passage", "qrel"], Q, D, every(2, 1)), None, None, "judged pairs", N, [2, 1]),
    "grades ordered to be judgements": ("a.csv", table(["q", "d", "score"], Q, D, every(3, 0, 1)), None, "retrieval", "judged pairs", N, [3, 0]),
    "words ordered to be judgements": ("a.csv", table(["query", "document", "ok"], Q, D, every("yes", "no")), None, "retrieval", "judged pairs", N, [1, 0]),
    "relevance ordered to be scores": ("a.csv", table(["q", "d", "relevance"], Q, D, SCORES), None, "score", "scored pairs", N, [0, 1]),
    "scores": ("a.csv", table(["s1", "s2", "score"], Q, D, SCORES), None, None, "scored pairs", N, [0, 1]),
    "scores of other names": ("a.csv", table(["Satz 1", "Satz 2", "Ähnlichkeit"], Q, D, SCORES), None, None, "scored pairs", N, [0, 1]),
    "scores below 0": ("a.csv", table(["s1", "s2", "score"], Q, D, every(-1, -0.5, 0, 1)), None, None, "scored pairs", N, [-1, -0.5]),
    "STS-B's own csv": ("a.csv", table(None, every("main-news"), every("headlines"), every(2012, 2015), range(N), [s * 0.8 for s in SCORES], Q, D, sep="\t"), None, None, "scored pairs", N, [0, 0.8]),
    "GLUE's STS-B": ("a.tsv", table(["index", "genre", "year", "sentence1", "sentence2", "score"], range(N), every("news"), every(2012), Q, D, SCORES, sep="\t"), None, None, "scored pairs", N, [0, 1]),
    "pipes": ("a.csv", table(["s1", "s2", "score"], Q, D, SCORES, sep="|"), None, None, "scored pairs", N, [0, 1]),
    "pipes in txt": ("a.txt", table(["s1", "s2", "score"], Q, D, SCORES, sep="|"), None, None, "scored pairs", N, [0, 1]),
    "semicolons": ("a.csv", table(["s1", "s2", "score"], Q, D, SCORES, sep=";"), None, None, "scored pairs", N, [0, 1]),
    "UTF-16 with commas": ("a.csv", table(["s1", "s2", "score"], Q, D, SCORES).encode("utf-16"), None, None, "scored pairs", N, [0, 1]),
    "UTF-16 with tabs, as Excel writes": ("a.txt", table(["s1", "s2", "score"], Q, D, SCORES, sep="\t").replace("\n", "\r\n").encode("utf-16"), None, None, "scored pairs", N, [0, 1]),
    "UTF-16, big end first": ("a.csv", b"\xfe\xff" + table(["s1", "s2", "score"], Q, D, SCORES).encode("utf-16-be"), None, None, "scored pairs", N, [0, 1]),
    "scores without header": ("a.csv", table(None, Q, D, SCORES), None, None, "scored pairs", N, [0, 1]),
    "two texts without header": ("a.csv", table(None, Q, D), None, None, "pairs", N, D[:2]),
    "scores before texts": ("a.tsv", table(None, every(0, 1, 2), Q, D, sep="\t"), None, None, "scored pairs", N, [0, 1]),
    "two numbers before texts": ("a.csv", table(["Wert", "Satz 1", "Satz 2"], every(2, 4), Q, D), "Wert,Satz 1,Satz 2", "score", "scored pairs", N, [2, 4]),
    "numbers of rows": ("a.csv", table(["nr", "frage", "antwort"], range(1, N + 1), Q, D), None, None, "pairs", N, D[:2]),
    "numbers of rows before scores": ("a.csv", table(["nr", "s1", "s2", "Wert"], range(7, N + 7), Q, D, [s * 7 for s in SCORES]), None, None, "scored pairs", N, [0, 7]),
    "decimal commas": ("a.csv", table(["Satz 1", "Satz 2", "Wert"], Q, D, [f"{s},5" for s in SCORES], sep=";"), None, None, "scored pairs", N, [0.5, 1.5]),
    "NaN in place of a text": ("a.jsonl", "".join(json.dumps({"s1": a, "s2": b if i else float("nan"), "score": c}) + "\n" for i, (a, b, c) in enumerate(zip(Q, D, SCORES, strict=True))), None, None, "scored pairs", N - 1, [1, 2]),
    "jsonl": ("a.jsonl", "".join(json.dumps({"s1": a, "s2": b, "score": c}) + "\n" for a, b, c in zip(Q, D, SCORES, strict=True)), None, None, "scored pairs", N, [0, 1]),
    "jsonl with true and false": ("a.jsonl", "".join(json.dumps({"s1": a, "s2": b, "same": c}) + "\n" for a, b, c in zip(Q, D, every(True, False), strict=True)), None, None, "binary pairs", N, [1, 0]),
    "empty labels": ("a.csv", table(["s1", "s2", "same"], Q, D, every("yes", "no", "")), None, None, "binary pairs", 16, [1, 0]),
    "a text with line ends": ("a.csv", table(["frage", "antwort"], [q.replace(" ", "\n", 1) for q in Q], D), None, None, "pairs", N, D[:2]),
    "a text of 20,000 characters": ("a.csv", table(["query", "document"], Q, [D[0], "x " * 10_000, *D[2:]]), None, None, "pairs", N, [D[0], ("x " * 10_000).strip()]),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_what_a_table_is(name: str, tmp_path: Path) -> None:
    file, content, columns, kind, meant, rows, values = ROWS[name]
    path = tmp_path / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = read(path, columns, take=PLACES.get(kind or "", "measured"))  # type: ignore[arg-type]
    role = {"pairs": "second", "triples": "second", "labelled texts": "label"}.get(meant, "score")
    assert (found.kind, len(found.frame), found.frame[role].tolist()[:2]) == (meant, rows, values)
    assert found.frame["first"].iloc[0].split() == Q[len(Q) - rows if name.startswith("NaN") else 0].split()


def test_short_texts_without_header_lose_no_row(tmp_path: Path) -> None:
    text = table(None, [f"red dog {i}" for i in range(N)], [f"small tree {i}" for i in range(N)])
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    found = read(tmp_path / "a.csv", take="measured")
    assert len(found.frame) == N and found.frame["first"].iloc[0] == "red dog 0"


FORMS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "DataFrame": lambda frame, _: frame,
    "DataFrame with an index": lambda frame, _: frame.sample(frac=1, random_state=0).sort_index(),
    "DataFrame of pandas' own types": lambda frame, _: frame.convert_dtypes(),
    "Dataset": lambda frame, _: dataset(frame),
    "DatasetDict": lambda frame, _: {"train": dataset(frame.head(5)), "test": dataset(frame)},
    "save_to_disk": lambda frame, folder: saved(dataset(frame), folder),
    "parquet": lambda frame, folder: frame.to_parquet(folder / "a.parquet") or folder / "a.parquet",
    "path as text": lambda frame, folder: frame.to_csv(folder / "a.csv") or str(folder / "a.csv"),
}


def dataset(frame: pd.DataFrame) -> Any:
    from datasets import Dataset

    return Dataset.from_pandas(frame)


def saved(given: Any, folder: Path) -> Path:
    given.save_to_disk(str(folder / "saved"))
    return folder / "saved"


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_table_is_read_alike(form: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"sentence1": Q, "sentence2": D, "score": [s / 2 for s in SCORES]})
    found = read_texts(FORMS[form](frame, tmp_path))
    assert found.kind == "score" and found.gold.tolist() == frame["score"].tolist()
    assert [found.texts[place] for place in found.first] == Q


def beir(folder: Path, qrels: str) -> Path:
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": f"d{i}", "title": f"title {i}", "text": D[i]} for i in range(N)]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)), encoding="utf-8")
    queries = "\n".join(json.dumps({"_id": f"q{i}", "text": Q[i]}) for i in range(N))
    (folder / "queries.jsonl").write_text(queries, encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text(qrels, encoding="utf-8")
    return folder


def test_a_folder_of_beir_has_unjudged_documents_titles_and_grades(tmp_path: Path) -> None:
    lines = "".join(f"q{i}\td{i}\t{i % 3}\n" for i in range(N)) + "q0\td5\t2\n"
    with pytest.raises(UsageError, match="17 queries"):  # seven of 24 have no relevant document
        read_texts(beir(tmp_path / "few", "query-id\tcorpus-id\tscore\n" + lines))
    lines = "".join(f"q{i}\td{i}\t{i % 3 or 1}\n" for i in range(22)) + "q0\td5\t2\nq22\td1\t0\n"
    for name, head in (("named", "query-id\tcorpus-id\tscore\n"), ("unnamed", "query\tcorpus\tscore\n")):
        found = read_texts(beir(tmp_path / name, head + lines))
        documents = found.texts[found.queries :]
        assert found.queries == 23 and documents == [f"title {i} {D[i]}" for i in range(N)]
        assert found.gold[-2] == 2 and found.texts[found.second[-2]].startswith("title 5 ")
        assert found.units == 22 and "1 queries without a relevant document" in found.report


@pytest.mark.parametrize(
    ("content", "columns", "kind", "error", "words"),
    [
        (table(["a", "b", "c"], Q, D, every("rot", "blau")), None, None, UsageError, r"--columns 'a,b,c=blau'"),
        (table(["a", "b", "c"], Q, D, every("rot", "blau")), "a,b,c=grau", None, UsageError, "no label is 'grau'"),
        (table(["a", "b", "score"], Q, D, SCORES), None, "binary", UsageError, "6 values"),
        (table(["a", "b", "c"], Q, D, every("yes", "no", "maybe")), "a,b,c", None, CorruptError, "none of the labels"),
        (table(["query", "document"], Q[:5], D[:5]), None, None, UsageError, "fewer than 20"),
    ],
    ids=["which is 1", "no such label", "six values", "three labels", "five queries"],
)
def test_doubt_is_a_question(
    content: str, columns: str | None, kind: Any, error: type[Exception], words: str, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(content, encoding="utf-8")
    with pytest.raises(error, match=words):
        read_texts(tmp_path / "a.csv", columns, kind)


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
    pd.DataFrame({"s1": Q, "s2": D, "score": SCORES}).to_excel(tmp_path / "a.xlsx", index=False)
    assert read_texts(tmp_path / "a.xlsx").gold.tolist() == SCORES
