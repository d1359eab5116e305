"""Scores in the forms of others: result files of MTEB, and the metadata of a card of the hub.

What a reader of MTEB's files must know:

- Of our own tasks, only the untokenised ones have MTEB's names. SentEval's tokenised text is another input, and
  SentEval's SICK-R is another test set (4,927 pairs; MTEB's SICK-R has 9,927): both have names that MTEB does not know.
- The untokenised STS12-16 and STS Benchmark have MTEB's numbers of pairs; their text has not been compared with the
  hub's copies. Therefore `dataset_revision` is the sha256 of the files that were read, not a revision of the hub.
- `mteb_version` is null where MTEB measured nothing. According to their code, MTEB's readers accept that.
- `main_score` of our own tasks, and of each subset of mteb's STS tasks, is Spearman of the cosine over all pairs
  (`all`), which is what MTEB's evaluator computes; dot product, Manhattan and Euclidean scores are not measured and are
  left out. Every other task of mteb has all the scores that mteb's evaluator gave.
- `evaluation_time` is that of the record: scoring, and encoding if it was done for that cell.
- `model_meta.json` has the fields of MTEB's `ModelMeta`; those that records do not state are null.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmark.records.record import Record, main_score, scores_of
from benchmark.tasks import MTEB
from zoo.progress import clean_line

if TYPE_CHECKING:
    from huggingface_hub import ModelCardData

TASKS = {
    **{f"STS{year}-raw": f"STS{year}" for year in range(12, 17)},
    "STS-B-raw": "STSBenchmark",
    "SICK-R-raw": "SentEval-SICK-R-raw",
    **{f"STS{year}": f"SentEval-STS{year}" for year in range(12, 17)},
    "STS-B": "SentEval-STSBenchmark",
    "SICK-R": "SentEval-SICK-R",
}


def model_meta(name: str, revision: str, record: Record) -> dict[str, Any]:
    """Return what a record states of its encoder in the fields of MTEB's ModelMeta, all of which must be there."""
    facts, sources, traits = record["facts"], record["method"]["sources"], record["method"]["traits"]
    roles, parameters, backbone = str(facts.get("roles", "")), facts.get("parameters"), sources.get("backbone", {})
    learned = record["training"] or traits.get("released") or sources
    return {
        "loader": None,
        "name": name,
        "revision": revision,
        "release_date": None,
        "languages": ["eng-Latn"],
        "n_parameters": parameters or None,
        "memory_usage_mb": round(parameters * 4 / 2**20, 1) if parameters else None,
        "max_tokens": None,
        "embed_dim": facts.get("dimensions"),
        "license": None,
        "open_weights": None,
        "public_training_code": None,
        "public_training_data": None,
        "framework": ["PyTorch"] if backbone else ["NumPy"],
        "similarity_fn_name": {"": "cosine", "dot": "dot"}.get(roles.partition("similarity ")[2]),
        "use_instructions": "prompts of" in roles,
        "training_datasets": None if learned else [],
        "adapted_from": None if backbone.get("local") else backbone.get("name"),
    }


def card_data(name: str, records: Sequence[Record], **known: Any) -> ModelCardData:
    """Return the metadata of a model's card on the hub: what is known of it, and the evaluation results of records."""
    from huggingface_hub import EvalResult, ModelCardData

    results = [
        EvalResult(
            task_type="text-classification"
            if scores_of(record)["main_metric"] == "accuracy"
            else "sentence-similarity",
            dataset_type=clean_line(record["task"]["dataset"]),
            dataset_name=clean_line(record["task"]["name"]),
            dataset_split=clean_line(str(scores_of(record).get("split", "test"))),
            dataset_revision=clean_line(f"sha256:{record['task']['sha256']}"),
            metric_type=clean_line(scores_of(record)["main_metric"]),
            metric_name=clean_line(f"{scores_of(record)['main_metric']} (x100)"),
            metric_value=round(100 * main_score(record), 2),
        )
        for record in records
        if record["limit"] is None
    ]
    # A line of a text must not end the card's metadata.
    stated: dict[str, Any] = {
        key: clean_line(value) if isinstance(value, str) else value for key, value in known.items()
    }
    return ModelCardData(model_name=clean_line(name), eval_results=results or None, **stated)


def name_in_mteb(record: Record) -> str | None:
    """Return the name for a record's task in MTEB's files (MTEB's own or ours); None if the task is not exported."""
    name = record["task"]["name"]
    return name.removeprefix(MTEB) if name.startswith(MTEB) else TASKS.get(name)


def task_result(record: Record) -> dict[str, Any]:
    """Return a finished record as MTEB's TaskResult; scores are fractions in both."""
    scores: Mapping[str, Any] = scores_of(record)
    subsets: Mapping[str, Any] = scores.get("mteb") or {}
    # Pairs, scored here: mteb's own subsets, or ours as one.
    if not subsets:
        of_subset = (
            scores.get("subsets", {}) if record["task"]["name"].startswith(MTEB) else {"default": scores.get("all", {})}
        )
        subsets = {name: _correlation(scores) for name, scores in of_subset.items()}
        if len(subsets) == 1:
            subsets = {name: {**scores, "main_score": main_score(record)} for name, scores in subsets.items()}
    entries = [{"hf_subset": name, "languages": ["eng-Latn"], **scores} for name, scores in subsets.items()]
    return {
        "dataset_revision": f"sha256:{record['task']['sha256']}",
        "task_name": name_in_mteb(record),
        "mteb_version": scores.get("mteb_version"),
        "scores": {scores.get("split", "test"): entries},
        "evaluation_time": record["seconds"],
        "kg_co2_emissions": None,
        "date": calendar.timegm(time.strptime(record["started"], "%Y-%m-%dT%H:%M:%SZ")),
    }


def _correlation(scores: Mapping[str, Any]) -> dict[str, Any]:
    spearman = scores.get("spearman")
    return {"main_score": spearman, "cosine_spearman": spearman, "cosine_pearson": scores.get("pearson")}
