"""Scores of a results folder in the forms of others: MTEB's result files, and the metadata of a card of the hub.

Facts about MTEB's files:

- Only our untokenised tasks have MTEB's names. SentEval's tokenised text is another input, and SentEval's SICK-R
  another test set (4,927 pairs; MTEB's SICK-R has 9,927): both have names unknown to MTEB.
- The untokenised STS12-16 and STS Benchmark have MTEB's numbers of pairs; their text has not been compared with the
  hub's copies. Therefore `dataset_revision` is the sha256 of the files, not a revision of the hub.
- `mteb_version` is null if MTEB measured nothing. By their code, MTEB's readers accept that.
- `main_score` of our own tasks, and of each subset of mteb's STS tasks, is Spearman of the cosine over all pairs
  (`all`), as in MTEB's evaluator; dot product, Manhattan and Euclidean scores are not measured and are left out. Every
  other task of mteb has all the scores of mteb's evaluator.
- `evaluation_time` is that of the record: scoring, and encoding for that cell.
- `model_meta.json` has the fields of MTEB's `ModelMeta`, null if not in records.
"""

from __future__ import annotations

import calendar
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.records.conflicts import one_digest
from benchmark.records.folder import Records, read_records
from benchmark.records.names import printed_names, with_recipe
from benchmark.records.query import rows_named
from benchmark.records.record import Record, main_score, scores_of
from benchmark.tasks import MTEB
from zoo.errors import MissingError, UsageError
from zoo.files import slug, write_json, write_text
from zoo.progress import clean_line

if TYPE_CHECKING:
    from huggingface_hub import ModelCardData


def export_scores(method: str, out: Path, results: Path) -> tuple[list[Path], list[str]]:
    """Write the scores of rows named, or matched by a glob; raises UsageError without such a row.

    Returns the files, and the tasks that mteb has no files for.
    """
    store = Records(results)
    every = one_digest(read_records(store))
    records = [record for row in rows_named(every, method, results) for record in row]
    written = export_results(records, out)
    if not written:
        raise MissingError(f"{method!r} has no score of whole data in {results}; run it without --limit first.")
    of_cards = {r["task"]["name"] for r in records if r["limit"] is None and r["status"] == "ok"}
    return written, sorted(of_cards - {record["task"]["name"] for record in records if name_in_mteb(record)})


def by_encoder(records: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    """Group by (printed name, revision); a revision is a seed under its conditions."""
    called = printed_names(record["method"]["name"] for record in records)
    rows: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in sorted(records, key=lambda r: not r["task"]["name"].startswith(MTEB)):
        if record["status"] == "ok" and record["limit"] is None:
            seed = "" if record["seed"] is None else f"-seed{record['seed']}"
            name = with_recipe(called[record["method"]["name"]], record["method"])
            rows[name, record["encoder_key"][:16] + seed].append(record)
    return rows


def export_results(records: Sequence[Record], out: Path) -> list[Path]:
    """Write <out>/<model>/<revision> with MTEB's <task>.json and a README.md for the hub.

    A model is a method; each seed under each of its conditions is a revision. Trials (--limit) are left out. MTEB's
    files are of STS tasks and of MTEB's own; a task read by MTEB (mteb:NAME) replaces ours of the same name. README.md
    has all results as metadata. Raises UsageError for a cell measured on two versions of its data.
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


TASKS = {
    **{f"STS{year}-raw": f"STS{year}" for year in range(12, 17)},
    "STS-B-raw": "STSBenchmark",
    "SICK-R-raw": "SentEval-SICK-R-raw",
    **{f"STS{year}": f"SentEval-STS{year}" for year in range(12, 17)},
    "STS-B": "SentEval-STSBenchmark",
    "SICK-R": "SentEval-SICK-R",
}


def model_meta(name: str, revision: str, record: Record) -> dict[str, Any]:
    """Return MTEB's ModelMeta, all of whose fields are required."""
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
    name = record["task"]["name"]
    return name.removeprefix(MTEB) if name.startswith(MTEB) else TASKS.get(name)


def task_result(record: Record) -> dict[str, Any]:
    """Return MTEB's TaskResult; scores are fractions in both."""
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
