"""The conditions and the cost of a row, from its records: backbone, training text, test texts in it, times, memory."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from benchmark.data.corpora import TARGET
from benchmark.records.record import CorpusPart, Encoding, Environment, Record, Source, TrainingPart
from benchmark.report.conditions import changed_settings, setting, tuned
from benchmark.report.rows import About, ChosenOn


def _mean(parts: Sequence[Mapping[str, object]], name: str) -> float | None:
    """Return the mean of a number over the seeds that have it."""
    values = [value for one in parts if isinstance(value := one.get(name), int | float)]
    return statistics.fmean(values) if values else None


def overlaps(records: Sequence[Record]) -> dict[str, frozenset[str]]:
    """Return, by task, the digests of test texts in the training text; tasks whose records do not say are left out."""
    # The corpus is the same for every seed, so that each task counts once; a failed cell has no information.
    found = ((r["task"]["name"], (r["training"] or {}).get("overlap")) for r in records)
    return {task: frozenset(overlap["digests"]) for task, overlap in found if overlap is not None}


def _test_texts(records: Sequence[Record]) -> int | None:
    """Return the number of distinct test texts of all tasks in the training text; None where no record says it."""
    known = overlaps([r for r in records if (r["training"] or {}).get("corpus")])
    return len(frozenset[str]().union(*known.values())) if known else None


def encoding_of(records: Sequence[Record]) -> Encoding:
    """Return the encoding part of the first record; speeds are means over the seeds that have them."""
    known = [one for r in records if (one := r["encoding"])]
    first: Encoding = known[0] if known else {}
    # There is no speed where the embedding cache had every vector.
    by_seed = {r["seed"]: one for r in records if (one := r["encoding"]) and one.get("texts_per_second")}
    parts = list(by_seed.values())
    texts, tokens = _mean(parts, "texts_per_second"), _mean(parts, "tokens_per_second")
    return {**first, "texts_per_second": texts, "tokens_per_second": tokens}


def _dev(records: Sequence[Record]) -> ChosenOn:
    """Return the development set that picked a row's checkpoint, and how many of its pairs are test pairs."""
    for record in records:
        training: TrainingPart = record["training"] or {}
        if task := training.get("dev_task"):
            pairs, in_test = training.get("dev_pairs"), training.get("dev_pairs_in_test")
            return {"dev_task": task, "dev_pairs": pairs, "dev_pairs_in_test": in_test}
    return {"dev_task": "", "dev_pairs": None, "dev_pairs_in_test": None}


def _peak_memory(records: Sequence[Record]) -> float | None:
    """Return the peak memory of training and measuring; None unless each peak was measured for this encoder alone.

    A part without `peak_from_mb` has the peak of its whole process, which other encoders may have caused.
    """
    parts = [part for r in records for part in (r["encoding"], r["training"]) if part]
    peaks = [(peak, part.get("peak_from_mb")) for part in parts if (peak := part.get("peak_memory_mb"))]
    if not peaks or any(start is None for _, start in peaks):
        return None
    return max(peak for peak, _ in peaks)


def _updates_share(trainings: Sequence[TrainingPart]) -> float | None:
    """Return the mean number of updates as a share of the published training's; None if that is not known."""
    shares = [one["steps"] / updates for one in trainings if (updates := one.get("paper_updates")) and one.get("steps")]
    return statistics.fmean(shares) if shares else None


def _device(environment: Environment) -> str:
    threads = environment["threads"]
    return environment["gpu"] or f"{environment['cpu']}, {threads} thread{'s' * (threads != 1)}"


def _environment(record: Record) -> str:
    """Return versions and device of a record on one line."""
    environment = record["environment"]
    packages = environment["packages"]
    return (
        f"zoo-bench {record['version']}, protocol {record['protocol']}, torch {packages['torch']}, transformers"
        f" {packages['transformers']}, Python {environment['python']}; {_device(environment)}."
    )


def about(records: Sequence[Record], seeds: int) -> About:
    """Return the conditions and the cost of a row from all its records."""
    measured = [r for r in records if r["status"] == "ok"]
    first = min(measured or records, key=lambda r: str(r["started"]))
    trainings = list({r["seed"]: r["training"] for r in records if r["training"]}.values())
    corpus: CorpusPart = (trainings[0].get("corpus") if trainings else None) or {}
    facts = next((r["facts"] for r in records if r["facts"]), {})
    target = corpus.get("name") == TARGET
    learns = "transductive" if target else setting(first["method"])
    in_order = sorted(measured or records, key=lambda r: str(r["started"]))
    adapted = [fit for r in measured if (fit := r.get("adapt"))]
    sources = first["method"]["sources"]
    backbone: Source = sources.get("backbone", {})
    left_open = first["method"].get("unstated", ())
    others = ", ".join(str(source["name"]) for source in sources.values() if source.get("name"))
    kind = str(first["method"]["recipe"].get("kind", first["method"]["class"]))
    no_backbone = "" if kind.startswith(("zoo.", "benchmark.")) else others  # a plugin's method
    return {
        "backbone": backbone.get("name", "backbone not stated" if "sources" in left_open else no_backbone),
        "backbone_sha256": backbone.get("sha256", ""),
        "ancestry": backbone.get("ancestry", ""),
        "precision": "precision not stated" if "precision" in left_open else first["precision"],
        "run_by": "" if facts.get("run_by") == "zoo" else facts.get("run_by", ""),
        "seeds": seeds,
        "corpus": corpus.get("name", ""),
        "corpus_sentences": corpus.get("sentences"),
        "corpus_pairs": corpus.get("pairs"),
        "test_texts_in_training": _test_texts(records),
        **_dev(records),
        "transductive": target or first["method"]["traits"]["transductive"],
        "supervised": learns == "supervised",
        "setting": learns,
        "changed_settings": ", ".join(changed_settings(first["method"])),
        "tuned": tuned(first["method"]),
        "train_seconds": _mean(trainings, "seconds"),
        "train_sentences_per_second": _mean(trainings, "sentences_per_second"),
        "updates_share": _updates_share(trainings),
        "cosine_to_start": _mean(trainings, "cosine_to_start"),
        "adapt_seconds": _mean(adapted, "seconds"),
        "texts_per_second": encoding_of(records)["texts_per_second"],
        "parameters": facts.get("parameters"),
        "dimensions": facts.get("dimensions"),
        "peak_memory_mb": _peak_memory(records),
        "device": "; ".join(dict.fromkeys(_device(r["environment"]) for r in in_order)),
        "limit": first["limit"],
        "protocol": first["protocol"],
        "environments": list(dict.fromkeys(map(_environment, in_order))),
        "version": ", ".join(dict.fromkeys(r["version"] for r in in_order)),
        "code": ", ".join(dict.fromkeys(r.get("code", {}).get("commit") or "not stated" for r in in_order)),
    }
