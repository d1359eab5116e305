"""Writes records as MTEB's result files: one TaskResult JSON per task, in MTEB's folders.

What a reader of these files must know:

- Of our own tasks, only the untokenised ones have MTEB's names. SentEval's tokenised text is another input, and
  SentEval's SICK-R is another test set (4,927 pairs; MTEB's SICK-R has 9,927): both have names that MTEB does not know.
- The untokenised STS12-16 and STS Benchmark have MTEB's numbers of pairs; their text has not been compared with the
  hub's copies. Therefore `dataset_revision` is the sha256 of the files that were read, not a revision of the hub.
- `mteb_version` is null where MTEB measured nothing. According to their code, MTEB's readers accept that.
- `main_score` of our own tasks, and of each subset of mteb's STS tasks, is Spearman of the cosine over all pairs
  (`all`), which is what MTEB's evaluator computes; dot product, Manhattan and Euclidean scores are not measured and are
  left out. Every other task of mteb has all the scores that mteb's evaluator gave.
- `evaluation_time` is that of the record: scoring, and encoding if it was done for that cell.
- `model_meta.json` has only name and revision. Whether MTEB's leaderboard accepts that is not known.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmark.records.names import printed_names
from benchmark.records.record import Record, main_score, scores_of
from benchmark.tasks import MTEB
from zoo.errors import UsageError
from zoo.files import slug, write_json

TASKS = {
    **{f"STS{year}-raw": f"STS{year}" for year in range(12, 17)},
    "STS-B-raw": "STSBenchmark",
    "SICK-R-raw": "SentEval-SICK-R-raw",
    **{f"STS{year}": f"SentEval-STS{year}" for year in range(12, 17)},
    "STS-B": "SentEval-STSBenchmark",
    "SICK-R": "SentEval-SICK-R",
}


def export_results(records: Sequence[Record], out: Path) -> list[Path]:
    """Write <out>/<model>/<revision>/<task>.json for every finished cell of STS or of mteb; returns the paths.

    A model is a method; each seed under each of its conditions is a revision. Trials (--limit) are left out. If MTEB
    read a task itself (mteb:NAME), that score is written instead of ours of the same name. Raises UsageError for a cell
    measured on two versions of its data.
    """
    written: list[Path] = []
    by_mteb: set[Path] = set()
    called = printed_names(record["method"]["name"] for record in records)
    for record in sorted(records, key=lambda r: not r["task"]["name"].startswith(MTEB)):
        task = name_in_mteb(record)
        if task is None or record["status"] != "ok" or record["limit"] is not None:
            continue
        name, seed = called[record["method"]["name"]], record["seed"]
        revision = record["encoder_key"][:16] + ("" if seed is None else f"-seed{seed}")
        folder = out / f"zoo-bench__{slug(name)}" / revision
        if folder / f"{task}.json" in by_mteb and not record["task"]["name"].startswith(MTEB):
            continue
        if folder / f"{task}.json" in written:
            raise UsageError(
                f"{name} was measured on {record['task']['name']} with two versions of the data, "
                "and MTEB's files have room for one; move the records of one into a folder of their own."
            )
        write_json(folder / "model_meta.json", {"name": f"zoo-bench/{name}", "revision": revision})
        written.append(folder / f"{task}.json")
        write_json(written[-1], task_result(record))
        by_mteb |= {written[-1]} if record["task"]["name"].startswith(MTEB) else set()
    return written


def name_in_mteb(record: Record) -> str | None:
    """Return the name for a record's task in MTEB's files (MTEB's own or ours); None if the task is not exported."""
    name = record["task"]["name"]
    return name.removeprefix(MTEB) if name.startswith(MTEB) else TASKS.get(name)


def task_result(record: Record) -> dict[str, Any]:
    """Return a finished record as MTEB's TaskResult; scores are fractions in both."""
    scores: Mapping[str, Any] = scores_of(record)
    subsets: Mapping[str, Any] = scores.get("mteb") or {}
    by_mteb = record["task"]["name"].startswith(MTEB)
    if not subsets:  # pairs, scored here: mteb's own subsets, or ours as one
        of_subset = scores.get("subsets", {}) if by_mteb else {"default": scores.get("all", {})}
        subsets = {name: _correlation(found) for name, found in of_subset.items()}
        if len(subsets) == 1:
            subsets = {name: {**found, "main_score": main_score(record)} for name, found in subsets.items()}
    entries = [{"hf_subset": name, "languages": ["eng-Latn"], **found} for name, found in subsets.items()]
    return {
        "dataset_revision": f"sha256:{record['task']['sha256']}",
        "task_name": name_in_mteb(record),
        "mteb_version": scores.get("mteb_version"),
        "scores": {scores.get("split", "test"): entries},
        "evaluation_time": record["seconds"],
        "kg_co2_emissions": None,
        "date": calendar.timegm(time.strptime(record["started"], "%Y-%m-%dT%H:%M:%SZ")),
    }


def _correlation(found: Mapping[str, Any]) -> dict[str, Any]:
    spearman = found.get("spearman")
    return {"main_score": spearman, "cosine_spearman": spearman, "cosine_pearson": found.get("pearson")}
