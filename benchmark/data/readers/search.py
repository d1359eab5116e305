"""Reads a folder of BEIR's form: a corpus, queries, and judgements of which document answers which query."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmark.data.readers.cells import Cells, is_number, read_cells
from zoo.errors import CorruptError, MissingError

_FORMS = (".jsonl", ".jsonl.gz", ".parquet", ".tsv", ".csv")
_SPLITS = ("test", "dev", "validation", "train")
_IDS = ("_id", "id", "doc_id", "docid", "query_id", "qid", "pid")


@dataclass(frozen=True)
class Search:
    """Texts of queries and documents, and rows (query, document, grade) of places in them."""

    queries: list[str]
    documents: list[str]
    judged: list[tuple[int, int, float]]
    report: str


def is_search(folder: Path) -> bool:
    """Return whether a folder has a corpus and queries."""
    return all(_file(folder, name) is not None for name in ("corpus", "queries"))


def read_search(folder: Path) -> Search:
    """Read corpus, queries and qrels/SPLIT.tsv, of the test split if it is there; a title stands before its text.

    Raises MissingError without judgements, and CorruptError for an id that is not there or is there twice.
    """
    documents, queries = (_texts(folder, name) for name in ("corpus", "queries"))
    qrels = [path for split in _SPLITS for path in [_file(folder / "qrels", split)] if path is not None]
    path = qrels[0] if qrels else _file(folder, "qrels")
    if path is None:
        raise MissingError(f"{folder} has no judgements: put them into qrels/test.tsv (query-id, corpus-id, score).")
    cells = read_cells(path)
    rows, lines = cells.rows, cells.lines
    if cells.names is None and rows and not is_number(rows[0][-1]):
        rows, lines = rows[1:], lines[1:]
    places = [{name: place for place, name in enumerate(of)} for of in (queries, documents)]
    judged = []
    for line, row in zip(lines, rows, strict=True):
        # Lines of trec have four fields.
        query, document, grade = [row[0], row[2], row[3]] if len(row) == 4 else [*row, "1"][:3]
        if not is_number(grade):
            raise CorruptError(f"{path}:{line}: {grade!r:.80} is no grade of relevance.")
        for name, known, what in ((query, places[0], "query"), (document, places[1], "document")):
            if name not in known:
                raise CorruptError(f"{path}:{line}: there is no {what} {name!r:.80} in {folder}.")
        judged.append((places[0][query], places[1][document], float(grade)))
    report = f"{folder.name}: {path.relative_to(folder)}; {len(judged):,} judgements"
    return Search(list(queries.values()), list(documents.values()), judged, report)


def _file(folder: Path, name: str) -> Path | None:
    return next((path for form in _FORMS if (path := folder / f"{name}{form}").is_file()), None)


def _texts(folder: Path, name: str) -> dict[str, str]:
    """Return the text of each id, after its title."""
    path = _file(folder, name)
    assert path is not None
    cells = read_cells(path)
    if cells.names is None:
        cells = Cells(path, cells.rows[1:], cells.lines[1:], cells.rows[0] if cells.rows else [])
    names = [column.strip() for column in cells.names or []]
    key = next((names.index(column) for column in _IDS if column in names), None)
    if key is None or "text" not in names:
        raise CorruptError(f"{path}: its columns are {', '.join(names)}; it needs _id and text.")
    text, title = cells.column(names.index("text")), [""] * len(cells.rows)
    if "title" in names:
        title = cells.column(names.index("title"))
    ids = cells.column(key)
    by_id = {one: f"{head} {body}".strip() for one, head, body in zip(ids, title, text, strict=True)}
    if len(by_id) < len(ids):
        twice = next(one for place, one in enumerate(ids) if one in ids[:place])
        raise CorruptError(f"{path}: the id {twice!r:.80} is there twice.")
    return by_id
