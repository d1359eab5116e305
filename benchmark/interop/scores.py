"""Writes the scores of a results folder as MTEB's result files, with a card for the hub."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from benchmark.interop.results import card_data, model_meta, name_in_mteb, task_result
from benchmark.records.conflicts import one_digest
from benchmark.records.folder import Records, read_records
from benchmark.records.names import printed_names
from benchmark.records.query import rows_named
from benchmark.records.record import Record
from benchmark.tasks import MTEB
from zoo.errors import MissingError, UsageError
from zoo.files import slug, write_json, write_text


def export_scores(method: str, out: Path, results: Path) -> list[Path]:
    """Write the scores of rows as MTEB's result files, and return the paths.

    `method` names rows as `compare` does, or is a glob. Raises UsageError where there is no such row, and the errors of
    `export_results`.
    """
    store = Records(results)
    every = one_digest(read_records(store))
    records = [record for row in rows_named(every, method, results) for record in row]
    written = export_results(records, out)
    if not written:
        raise MissingError(f"{method!r} has no score of whole data in {results}; run it first.")
    return written


def by_encoder(records: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    """Return the scores on whole data by (printed name, revision); a revision is a seed under its conditions."""
    called = printed_names(record["method"]["name"] for record in records)
    rows: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in sorted(records, key=lambda r: not r["task"]["name"].startswith(MTEB)):
        if record["status"] == "ok" and record["limit"] is None:
            seed = "" if record["seed"] is None else f"-seed{record['seed']}"
            rows[called[record["method"]["name"]], record["encoder_key"][:16] + seed].append(record)
    return rows


def export_results(records: Sequence[Record], out: Path) -> list[Path]:
    """Write folders <out>/<model>/<revision> with MTEB's <task>.json and a README.md for the hub; returns the paths.

    A model is a method; each seed under each of its conditions is a revision. Trials (--limit) are left out. MTEB's
    files are of STS tasks and of MTEB's own; if MTEB read a task itself (mteb:NAME), that score is written instead of
    ours of the same name. The metadata of README.md has the evaluation results of all tasks, as a model card of the hub
    has them. Raises UsageError for a cell measured on two versions of its data.
    """
    written: dict[Path, Record] = {}
    cards: list[Path] = []
    for (name, revision), of_model in by_encoder(records).items():
        folder = out / f"zoo-bench__{slug(name)}" / revision
        write_json(folder / "model_meta.json", model_meta(f"zoo-bench/{name}", revision, of_model[0]))
        for record in of_model:
            path = folder / f"{name_in_mteb(record)}.json"
            if name_in_mteb(record) is None or _by_mteb(written.get(path)) > _by_mteb(record):
                continue
            if path in written:
                raise UsageError(
                    f"{name} was measured on {record['task']['name']} with two versions of the data, "
                    "and MTEB's files have room for one; move the records of one into a folder of their own."
                )
            written[path] = record
            write_json(path, task_result(record))
        cards.append(folder / "README.md")
        write_text(cards[-1], f"---\n{card_data(folder.parent.name, of_model).to_yaml()}\n---\n")
    return [*written, *cards]


def _by_mteb(record: Record | None) -> bool:
    return record is not None and record["task"]["name"].startswith(MTEB)
