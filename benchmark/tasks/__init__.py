"""One file a task family; the registry of tasks. Listing tasks reads no data and imports no torch."""

from __future__ import annotations

from collections.abc import Callable

from benchmark.tasks.base import Scores, Task, TaskData
from zoo.registry import Registry

_TRANSFER = {name: name for name in ("MR", "CR", "SUBJ", "MPQA", "SST2", "SST5", "TREC", "MRPC")}
_TRANSFER["SICK-E"] = "SickEntailment"
_BUILTIN = {
    **{f"STS{year}": f"benchmark.tasks.sts:STS{year}" for year in range(12, 17)},
    **{f"STS{year}-raw": f"benchmark.tasks.sts:STS{year}Raw" for year in range(12, 17)},
    "STS-B": "benchmark.tasks.sts:STSBenchmark",
    "STS-B-dev": "benchmark.tasks.sts:STSBenchmarkDev",
    "STS-B-raw": "benchmark.tasks.sts:STSBenchmarkRaw",
    "SICK-R": "benchmark.tasks.relatedness:SickRelatedness",
    "SICK-R-raw": "benchmark.tasks.relatedness:SickRelatednessRaw",
    **{name: f"benchmark.tasks.transfer:{cls}" for name, cls in _TRANSFER.items()},
    **{f"{name}-fast": f"benchmark.tasks.transfer:{cls}Fast" for name, cls in _TRANSFER.items()},
    **{f"{name}-exact": f"benchmark.tasks.transfer:{cls}Exact" for name, cls in _TRANSFER.items()},
    "SimLex-999": "benchmark.tasks.words:SimLex999",
    "WS-353": "benchmark.tasks.words:WordSim353",
    "WS-353-sim": "benchmark.tasks.words:WordSim353Similarity",
    "WS-353-rel": "benchmark.tasks.words:WordSim353Relatedness",
    "MEN": "benchmark.tasks.words:MEN",
    "SCWS": "benchmark.tasks.words:SCWS",
    "SCWS-context": "benchmark.tasks.words:SCWSContext",
    "RG-65": "benchmark.tasks.words:RG65",
    "MC-30": "benchmark.tasks.words:MC30",
    "RW": "benchmark.tasks.words:RareWords",
    "MTurk-287": "benchmark.tasks.words:MTurk287",
    "MTurk-771": "benchmark.tasks.words:MTurk771",
    "SimVerb-3500": "benchmark.tasks.words:SimVerb3500",
    "BiRD": "benchmark.tasks.phrases:BiRD",
    "PPDB": "benchmark.tasks.phrases:PPDB",
    "PPDB-human": "benchmark.tasks.phrases:PPDBHuman",
    "PPDB-XXL": "benchmark.tasks.phrases:PPDBXXL",
    "Turney": "benchmark.tasks.phrases:Turney",
    "SemEval2013-5a": "benchmark.tasks.semeval:SemEval5a",
    "STS-B-regressor": "benchmark.tasks.relatedness:STSBenchmarkRegressor",
    "SICK-R-regressor": "benchmark.tasks.relatedness:SickRegressor",
    "stsb-finetune": "benchmark.tasks.finetune:STSBenchmarkFinetune",
    "sickr-finetune": "benchmark.tasks.finetune:SickFinetune",
    "semeval2013-5a-finetune": "benchmark.tasks.finetune:SemEval5aFinetune",
    "pocket-pairs": "benchmark.tasks.pocket:PocketPairs",
    "pocket-words": "benchmark.tasks.pocket:PocketWords",
    "pocket-phrases": "benchmark.tasks.pocket:PocketPhrases",
    "pocket-topics": "benchmark.tasks.pocket:PocketTopics",
}

TASKS: Registry[Task] = Registry("task", base="benchmark.tasks.base:Task", group="zoo_bench.tasks", builtin=_BUILTIN)


def register_task(name: str) -> Callable[[type[Task]], type[Task]]:
    """Class decorator for a plugin: register a Task subclass under a name."""
    return TASKS.register(name)


__all__ = ["TASKS", "Scores", "Task", "TaskData", "register_task"]
