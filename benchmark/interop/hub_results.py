"""Scores as the hub shows them beside a benchmark: `.eval_results/*.yaml` in a model's repository.

Only scores on the hub's own copy of a data set belong there: those of `mteb:NAME`, and those of the untokenised STS
tasks whose rows were read from the hub. Files of a folder have not been compared with that copy. A record says which
revision was read; older records do not, and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import yaml

from benchmark.data.catalog import catalog
from benchmark.interop.results import task_result
from benchmark.records.record import Record
from benchmark.report.signature import cell_signature
from benchmark.tasks import MTEB

FILE = ".eval_results/zoo-bench.yaml"


class HubCopy(NamedTuple):
    """A data set of the hub, whose rows were read at a commit."""

    id: str
    revision: str


def hub_copy(record: Record) -> HubCopy | None:
    """Return the hub's data set that a record's texts are; None where nothing shows that they are."""
    task = record["task"]
    revision = task.get("revision")
    if not revision:
        return None
    if task["name"].startswith(MTEB):
        return HubCopy(task["dataset"], revision)
    return HubCopy(str((catalog()[task["dataset"]].form(task["form"]).hub or {})["id"]), revision)


def eval_results(records: Sequence[Record]) -> str:
    """Return the YAML of the scores (x100) of one encoder on the hub's data; "" where it has none.

    A task is named as in mteb's `eval.yaml`, NAME_SUBSET_SPLIT; the score of `mteb:NAME` stands before ours of the same
    rows. `notes` is the signature of the cell. The source is the
    data set's page, as in the hub's own example.
    """
    from huggingface_hub import EvalResultEntry, constants, eval_result_entries_to_yaml

    entries_by_task: dict[tuple[str, str], EvalResultEntry] = {}
    for record in sorted(records, key=lambda record: not record["task"]["name"].startswith(MTEB)):
        copy = hub_copy(record) if record["status"] == "ok" and record["limit"] is None else None
        result = {} if copy is None else task_result(record)
        for split, subsets in result.get("scores", {}).items():
            assert copy is not None
            for subset in subsets:
                entry = EvalResultEntry(
                    dataset_id=copy.id,
                    task_id=f"{result['task_name']}_{subset['hf_subset']}_{split}",
                    dataset_revision=copy.revision,
                    value=round(100 * subset["main_score"], 5),
                    date=record["started"],
                    source_url=f"{constants.ENDPOINT}/datasets/{copy.id}",
                    source_name=f"zoo-bench {record['version']}",
                    notes=cell_signature(record),
                )
                entries_by_task.setdefault((entry.dataset_id, entry.task_id), entry)
    # Sorted, so that the same records give the same bytes.
    entries = eval_result_entries_to_yaml([entries_by_task[name] for name in sorted(entries_by_task)])
    return yaml.safe_dump(entries, sort_keys=False, width=1000) if entries else ""
