"""The handbook's table of faulty plugins has their numbers."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.benchmark.run.test_faulty_in_run import OF_MANY
from tests.benchmark.tasks.test_faulty_tasks import MUTATIONS as OF_TASKS
from tests.benchmark.tasks.test_faulty_tasks import NO_NAMES as NO_TASKS
from tests.zoo.test_faulty_plugins import FAULTS, HELPERS, NO_NAMES, TAKEN

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "add-a-method.md"
KINDS = {
    "vectors depend on order, neighbours, earlier calls or the process": "order batch state",
    "form of vectors: shape, type, NaN, odd texts": "shape dtype NaN dim odd_text no_text raises",
    "recipe and its settings": "recipe",
    "fit, seed and fit to a task's texts": "fit seed adapt",
    "save, load and fingerprint": "save load fingerprint",
    "what a method states": "covers facts parameters stats traits sources no_encode",
    "a loss and its views": "loss views",
}


def test_the_table_of_faulty_plugins_counts_them() -> None:
    counted = Counter(mutation["what"].partition(",")[0].replace(" ", "_") for _, mutation in FAULTS)
    numbers = {kind: sum(counted.pop(part) for part in parts.split()) for kind, parts in KINDS.items()}
    assert not counted
    numbers |= {
        "tasks: texts, limits, scores, items, pairs": sum(map(len, OF_TASKS.values())),
        "names that are taken, or no names": len([*TAKEN, *NO_NAMES, *NO_TASKS]),
        "calls larger than those of `doctor`, and words it lacks": len(OF_MANY),
        "edited helper files": len(HELPERS),
    }
    table = re.findall(r"^\| (.+?) \| (\d+) \| ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {kind: int(number) for kind, number in table} == numbers
