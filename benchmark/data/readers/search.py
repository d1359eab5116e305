"""Reads a folder of BEIR's form: a corpus, queries, and judgements of documents."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from benchmark.data.readers.cells import SPLITS, is_number, read_cells
from zoo.errors import CorruptError, MissingError

_FORMS = (".jsonl", ".jsonl.gz", ".parquet", ".tsv", ".csv")
# Names of the columns of judgements, without signs: query, document, grade; the first that is there counts.
_QRELS = (
    "(query|q|topic|question)(id)? .*(query|topic|question).*",
    "(corpus|doc|document|passage|d|p)(id|no)? .*(doc|passage).*",
    "(score|grade|label|rel|relevance|qrel|judge?ment) .*(relevan|score|grade|judge?m).*",
)
_IDS = ("_id", "id", "doc_id", "docid", "query_id", "qid", "pid")


@dataclass(frozen=True)
class Search:
    """Texts, and rows (query, document, grade) of places in them."""

    queries: list[str]
    documents: list[str]
    judged: list[tuple[int, int, float]]
    report: str


def is_search(folder: Path) -> bool:
    return all(_file(folder, name) is not None for name in ("corpus", "queries"))


def read_search(folder: Path) -> Search:
    """Read corpus, queries and qrels/SPLIT.tsv, preferably of test; a title stands before its text.

    Raises MissingError without judgements, CorruptError for an unknown or repeated id.
    """
    documents, queries = (_texts(folder, name) for name in ("corpus", "queries"))
    qrels = [path for split in SPLITS for path in [_file(folder / "qrels", split)] if path is not None]
    path = qrels[0] if qrels else _file(folder, "qrels")
    if path is None:
        raise MissingError(f"{folder} has no judgements: put them into qrels/test.tsv (query-id, corpus-id, score).")
    places = [{name: place for place, name in enumerate(of)} for of in (queries, documents)]
    judged = []
    for line, (query, document, grade) in _qrels(path):
        if not is_number(grade):
            raise CorruptError(f"{path}:{line}: {grade!r:.80} is no grade of relevance.")
        for name, known, what in ((query, places[0], "query"), (document, places[1], "document")):
            if name not in known:
                raise CorruptError(f"{path}:{line}: there is no {what} {name!r:.80} in {folder}.")
        judged.append((places[0][query], places[1][document], float(grade)))
    report = f"{folder.name}: {path.relative_to(folder)}; {len(judged):,} judgements"
    return Search(list(queries.values()), list(documents.values()), judged, report)


def _qrels(path: Path) -> list[tuple[int, list[str]]]:
    """Read by the header's names, else by place; raises CorruptError if neither fits."""
    cells = read_cells(path)
    frame = cells.texts()
    lines, names = [*frame.index], [*map(str, frame)] if cells.header else None
    rows: list[list[str]] = frame.to_numpy().tolist()
    if all(len(row) == 1 for row in rows):
        rows = [row[0].split() for row in rows]
    if names is None and rows and not is_number(rows[0][-1]):
        names, rows, lines = rows[0], rows[1:], lines[1:]
    width = max(map(len, rows), default=0)
    # Lines of trec have four fields, of which the second says nothing.
    places: list[int | None] = [0, 2, 3] if width == 4 else [0, 1, 2 if width > 2 else None]
    if names is not None:
        plain = [re.sub(r"[\W_]+", "", name.lower()) for name in names]
        places = [next((place for pattern in patterns.split() for place, name in enumerate(plain) if re.fullmatch(
            pattern, name)), None) for patterns in _QRELS]  # fmt: skip
        if None in places[:2]:
            raise CorruptError(f"{path}:1: its columns are {', '.join(names)}; name them query-id, corpus-id, score.")
    return [(line, ["1" if place is None else row[place] if place < len(row) else "" for place in places])
            for line, row in zip(lines, rows, strict=True)]  # fmt: skip


def _file(folder: Path, name: str) -> Path | None:
    parts = [folder / name, *([folder / "default", folder / "data"] if name == "qrels" else [])]
    inside = [path for part in parts for split in (*SPLITS, name) for form in _FORMS for path in
              sorted(part.glob(f"{split}-*{form}"))]  # fmt: skip
    return next((path for form in _FORMS if (path := folder / f"{name}{form}").is_file()), next(iter(inside), None))


def _texts(folder: Path, name: str) -> dict[str, str]:
    path = _file(folder, name)
    assert path is not None
    cells = read_cells(path)
    frame = cells.texts()
    if not cells.header:
        frame = frame.iloc[1:].set_axis([*frame.iloc[0]], axis=1)
    key = next((name for name in _IDS if name in frame), None)
    if key is None or "text" not in frame:
        raise CorruptError(f"{path}: its columns are {', '.join(map(str, frame))}; it needs _id and text.")
    titles = frame["title"] if "title" in frame else [""] * len(frame)
    ids = [*frame[key]]
    by_id = {name: f"{title} {text}".strip() for name, title, text in zip(ids, titles, frame["text"], strict=True)}
    if len(by_id) < len(ids):
        twice = next(name for place, name in enumerate(ids) if name in ids[:place])
        raise CorruptError(f"{path}: the id {twice!r:.80} is there twice.")
    return by_id
