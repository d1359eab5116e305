"""Scores as Every Eval Ever has them (schema 0.3.0): a JSON of each encoder, and a line for each test item.

What a reader of these files must know:

- The interval of a score holds the noise of the items (a bootstrap of them). The noise of seeds is between the logs of
  an encoder's seeds.
- A line has no text of its item, whose licence may forbid it: `input.raw` names the item and the sha256 of its data.
  `output.raw` is the similarity of its vectors, or whether it is right.
- `is_correct` is required, and a pair that is scored for a correlation is neither: `metadata` says so.
- Ids are digests of the records, so that records that are exported again give the same files.
"""

from __future__ import annotations

import calendar
import hashlib
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.interop.hub_results import hub_copy
from benchmark.records.folder import Records
from benchmark.records.record import Record, main_score, scores_of
from benchmark.report.signature import cell_signature
from benchmark.stats.draws import item_noise
from benchmark.tasks import MTEB
from zoo.files import sha256_file, slug, write_json, write_text

SCHEMA = "0.3.0"
COLLECTION = "zoo-bench"
_RESAMPLED = ("all_spearman", "cosine_spearman", "spearman", "accuracy")


def write_logs(
    encoders: Mapping[tuple[str, str], Sequence[Record]], out: Path, store: Records, *, samples: bool = False
) -> list[Path]:
    """Write data/zoo-bench/<developer>/<model>/<uuid>.json below `out` for each (name, revision); returns the paths.

    With `samples`, <uuid>_samples.jsonl beside it has a line for each item whose score the folder keeps.
    """
    written = []
    for (name, revision), records in encoders.items():
        log = evaluation_log(name, revision, records, store)
        digest = hashlib.sha256(log["evaluation_id"].encode()).digest()
        developer, _, model = log["model_info"]["id"].partition("/")
        place = f"data/{COLLECTION}/{slug(developer)}/{slug(model)}/{uuid.UUID(bytes=digest[:16], version=4)}"
        lines = [line for record in records for line in _sample_lines(log, record, store)] if samples else []
        if lines:
            path = out / f"{place}_samples.jsonl"
            write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
            log["detailed_evaluation_results"] = {
                "format": "jsonl",
                "file_path": f"{place}_samples.jsonl",
                "hash_algorithm": "sha256",
                "checksum": sha256_file(path),
                "total_rows": len(lines),
            }
            written.append(path)
        write_json(out / f"{place}.json", log)
        written.append(out / f"{place}.json")
    return written


def evaluation_log(name: str, revision: str, records: Sequence[Record], store: Records) -> dict[str, Any]:
    """Return the finished records of one encoder as an EvaluationLog."""
    first, latest = records[0], max(record["started"] for record in records)
    stamp = calendar.timegm(time.strptime(latest, "%Y-%m-%dT%H:%M:%SZ"))
    released, backbone = first["method"]["traits"].get("released"), first["method"]["sources"].get("backbone", {})
    of_hub = bool(released and "/" in backbone.get("name", "") and not backbone.get("local"))
    model = str(backbone["name"]) if of_hub else f"{COLLECTION}/{slug(name)}"
    about = {
        "deployment_type": "self_deployed",
        "model_availability": "open_weights" if of_hub else "unknown",
        "recipe": json.dumps(first["method"]["recipe"]),
        "seed": str(first["seed"]),
        "precision": first["precision"],
        "revision": revision,
    }
    errors = _errors(records, store)
    return {
        "schema_version": SCHEMA,
        "evaluation_id": f"{COLLECTION}/{model}/{revision}/{stamp}",
        "evaluation_timestamp": latest,
        "retrieved_timestamp": str(stamp),
        "source_metadata": {
            "source_name": "zoo-bench",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "third_party" if released else "first_party",
        },
        "eval_library": {"name": "zoo-bench", "version": first["version"]},
        "model_info": {"name": name, "id": model, "additional_details": about},
        "evaluation_results": [_result(record, errors.get(record["key"])) for record in records],
    }


def _errors(records: Sequence[Record], store: Records) -> dict[str, tuple[float, float]]:
    """Return the standard error, a fraction, and half its 95% interval, by the key of each record that has items."""
    from scipy.special import stdtrit

    kept = [r for r in records if scores_of(r)["main_metric"] in _RESAMPLED and store.has_items(r)]
    of_task = {record["task"]["name"]: record for record in kept}
    if not kept:
        return {}
    noise, _ = item_noise([{task: [record] for task, record in of_task.items()}], store)
    errors = {task: [float(value[0]) for value in noise.errors(task)] for task in of_task}
    return {
        of_task[task]["key"]: (error / 100, error / 100 * float(stdtrit(df, 0.975)))
        for task, (error, df) in errors.items()
        if np.isfinite(error)
    }


def _name(record: Record) -> str:
    task = record["task"]["name"]
    return f"mteb.{task.removeprefix(MTEB)}" if task.startswith(MTEB) else f"{COLLECTION}.{task}"


def _result(record: Record, noise: tuple[float, float] | None) -> dict[str, Any]:
    """Return a record as an evaluation result, with its standard error and half its interval, if they are known."""
    metric, task, copy = scores_of(record)["main_metric"], record["task"], hub_copy(record)
    correlation = metric.endswith(("spearman", "pearson"))
    source: dict[str, Any] = {"dataset_name": task["dataset"], "source_type": "other"}
    if copy is not None:
        split = str(scores_of(record).get("split", "test"))
        source |= {"source_type": "hf_dataset", "hf_repo": copy.id, "hf_split": split}
        source |= {"samples_number": task["rows"]} if task["rows"] else {}
    details: dict[str, Any] = {"score": main_score(record), "details": {"signature": cell_signature(record)}}
    if noise is not None:
        error, half = noise
        lower, upper = (
            min(max(main_score(record) + side, -1.0 if correlation else 0.0), 1.0) for side in (-half, half)
        )
        how = "influences of the items (infinitesimal jackknife)"
        details["uncertainty"] = {
            "standard_error": {"value": error, "method": how},
            "confidence_interval": {"lower": lower, "upper": upper, "confidence_level": 0.95, "method": how},
            **({"num_samples": task["rows"]} if task["rows"] else {}),
        }
    return {
        "evaluation_result_id": record["key"],
        "evaluation_name": _name(record),
        "evaluation_timestamp": record["started"],
        "source_data": {**source, "additional_details": {"sha256": str(task["sha256"]), "form": task["form"]}},
        "metric_config": {
            "metric_id": "spearman" if metric in _RESAMPLED[:3] else metric,
            "metric_name": metric,
            "metric_kind": "correlation" if correlation else metric,
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": -1.0 if correlation else 0.0,
            "max_score": 1.0,
        },
        "score_details": details,
    }


def _sample_lines(log: Mapping[str, Any], record: Record, store: Records) -> list[dict[str, Any]]:
    """Return a line for each item of a record, in the order of the data; none where no item scores are kept."""
    if not store.has_items(record):
        return []
    items, task = store.item_scores(record), record["task"]
    pairs = items.metric == "spearman"
    why = "a pair of a correlation is neither right nor wrong" if pairs else "the share of the runs that are right"
    lines = []
    for number, (score, gold) in enumerate(zip(items.predicted.tolist(), items.gold.tolist(), strict=True)):
        answer = f"{score:.7g}"
        lines.append(
            {
                "schema_version": SCHEMA,
                "evaluation_id": log["evaluation_id"],
                "model_id": log["model_info"]["id"],
                "evaluation_name": _name(record),
                "evaluation_result_id": record["key"],
                "sample_id": f"{task['name']}#{number}",
                "interaction_type": "single_turn",
                "input": {
                    "raw": f"item {number} of {task['name']} (data sha256 {task['sha256']})",
                    "reference": [f"{gold:.7g}"] if pairs else [],
                },
                "output": {"raw": [answer]},
                "answer_attribution": [
                    {
                        "turn_idx": 0,
                        "source": "output.raw",
                        "extracted_value": answer,
                        "extraction_method": "similarity of the vectors" if pairs else "comparison with the answer",
                        "is_terminal": True,
                    }
                ],
                "evaluation": {"score": score, "is_correct": not pairs and score > 0.5},
                "metadata": {"is_correct": why},
            }
        )
    return lines
