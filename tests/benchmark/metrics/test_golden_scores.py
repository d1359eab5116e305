"""Golden scores of every metric and of every family of tasks: a changed number without a raised version is noticed.

To accept a change, raise the number of the metric in `benchmark.metrics.VERSIONS`, or the `version` of the tasks, and
run `ZOO_BENCH_WRITE_GOLDEN=1 pytest tests/benchmark/metrics/test_golden_scores.py`.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import fixed_bert

from benchmark.data.readers.pairs import Pairs
from benchmark.data.readers.phrases import Choice
from benchmark.data.readers.transfer import Labelled
from benchmark.data.sources import DataSource
from benchmark.metrics import VERSIONS, finetuning
from benchmark.metrics.correlation import aggregate, correlations, cosine
from benchmark.metrics.geometry import alignment, anisotropy, uniformity
from benchmark.metrics.items import accuracy_of, fold_items
from benchmark.metrics.probe.protocol import FAST, FULL, cross_validated, nested, pair_features, split
from benchmark.metrics.relatedness import regress
from benchmark.stats.bootstrap import measured, resample
from benchmark.stats.compare import williams
from benchmark.tasks import TASKS
from benchmark.tasks.base import PairsData, TaskData
from benchmark.tasks.evalrank import EvalRankData
from benchmark.tasks.finetune import FinetuneData, LabelledFinetuneData, ScoredFinetuneData
from benchmark.tasks.heros import KINDS, HerosData
from benchmark.tasks.loaded import load_tasks
from benchmark.tasks.phrases import ChoiceData, RetrievalData
from benchmark.tasks.pocket import _LabelledData
from benchmark.tasks.relatedness import RegressorData
from benchmark.tasks.semeval import SemEvalData
from benchmark.tasks.transfer import TransferData
from zoo.encoder import Run, Runtime
from zoo.methods.pooled import Average

GOLDEN = Path(__file__).parents[1] / "fixtures" / "golden_scores.json"
HINT = "if that is meant, raise its version, and write the golden scores again (the head of this file says how)"
_DRAW = np.random.RandomState(0)  # legacy: its stream is the same in every version of numpy
X, Y = (_DRAW.randn(240, 8).astype(np.float32) for _ in range(2))
Y += X
GOLD = np.round(np.clip(2.5 + X[:, 0] * Y[:, 0], 0, 5), 1).astype(np.float64)
CLASSES = (X[:, :3] + 1.5 * _DRAW.randn(240, 3)).argmax(1).astype(np.int64)
COSINES = cosine(X, Y)
# Every third pair has the cosine of another one.
TIED = np.where(np.arange(240) % 3 == 0, np.round(COSINES, 1), COSINES)
HALVES = {"a": (COSINES[:120], GOLD[:120]), "b": (COSINES[120:], GOLD[120:])}


def _probe(scores: Any) -> list[float]:
    return [scores.accuracy, scores.dev_accuracy, *scores.penalties]


METRICS: dict[str, Callable[[], Any]] = {
    "correlation: both": lambda: correlations(COSINES, GOLD),
    "correlation: ties": lambda: correlations(TIED, GOLD),
    "correlation: aggregate": lambda: aggregate(HALVES),
    "items: classification": lambda: accuracy_of(fold_items(X, [str(one) for one in CLASSES])),
    "geometry: alignment": lambda: alignment(X, Y),
    "geometry: uniformity": lambda: uniformity(X),
    "geometry: anisotropy": lambda: anisotropy(X),
    "relatedness: regression": lambda: (
        regress(pair_features(X, Y), 1 + GOLD[:120] * 0.8, 1 + GOLD[120:160] * 0.8).dev_pearson
    ),
    "probe: nested": lambda: _probe(nested(X, CLASSES, FAST)),
    "probe: cross-validated": lambda: _probe(cross_validated(X, CLASSES, 160, FULL)),
    "probe: split": lambda: _probe(split(X, CLASSES, 120, 60, FULL)),
    "statistics: spearman of several": lambda: measured(np.stack([COSINES, COSINES**3 + X[:, 1]]), GOLD).tolist(),
    "statistics: spearman, resampled": lambda: resample(COSINES[None], GOLD, resamples=50)[0, :5].tolist(),
    "statistics: williams": lambda: vars(williams(0.8, 0.75, 0.9, 240)),
}

WORDS = "river stone lamp garden winter train letter bridge market apple music window dog cat".split()


def texts_of(count: int, start: int = 0) -> list[str]:
    """Sentences of two to four words; some have the words of others in another order, so that vectors are tied."""
    numbers = range(start, start + count)
    return [" ".join(WORDS[(n * k + k * k) % len(WORDS)] for k in range(1, 3 + n % 3)) for n in numbers]


def turned(texts: Sequence[str]) -> list[str]:
    """The same words from right to left; of every second text only the first and another one."""
    return [" ".join(t.split()[::-1]) if n % 2 else f"{t.split()[0]} {WORDS[n % 14]}" for n, t in enumerate(texts)]


def vectors(texts: Sequence[str]) -> np.ndarray:
    """Sums of a vector for each word (n, 12), the same on every machine."""
    waves = {word: np.cos(zlib.crc32(word.encode()) % 1009 * np.arange(1, 13)) for word in WORDS}
    return np.array([sum(waves.get(word, waves["river"]) for word in text.split()) for text in texts], np.float32)


def pairs(count: int, start: int = 0) -> Pairs:
    """Pairs with a score from 1 to 5, in halves."""
    first = texts_of(count, start)
    return Pairs(first, turned(first), np.array([1 + (n * n + start) % 9 / 2 for n in range(count)]))


def labelled(count: int, start: int = 0, *, two: bool = False) -> Labelled:
    """Texts, or pairs of texts, of two classes."""
    first = texts_of(count, start)
    labels = np.array([int(zlib.crc32(text.encode()) % 5 < 2) for text in first], dtype=np.int64)
    return Labelled(first, labels, turned(first) if two else None)


PHRASES = [f"{a} {b}" for a, b in zip(WORDS, WORDS[3:] + WORDS[:3], strict=True)]
PARTS = {name: pairs(n, start) for name, n, start in (("train", 60, 0), ("dev", 20, 60), ("test", 30, 80))}
NONE: Any = None  # where the data lies
TASK_DATA: dict[str, Callable[[], TaskData]] = {
    "correlation": lambda: PairsData(NONE, {"a": pairs(24), "b": pairs(12, 24)}, dev=pairs(12, 40)),
    "accuracy of folds": lambda: _LabelledData(NONE, [str(c) for c in labelled(60).labels], labelled(60).first),
    "regression": lambda: RegressorData(NONE, dict(PARTS), None),
    "choices": lambda: ChoiceData(
        NONE,
        [
            Choice(p, turned([p, p])[n % 2], (p.split()[0], p.split()[1]), tuple(texts_of(4, 5 * n)))
            for n, p in enumerate(PHRASES)
        ],
    ),
    "retrieval": lambda: RetrievalData(NONE, PHRASES, WORDS, [*WORDS, *turned(PHRASES)]),
    "replaced words": lambda: HerosData(
        NONE, {"original": texts_of(24), **{kind: turned(texts_of(24, n)) for n, kind in enumerate(KINDS)}}
    ),
    "nested folds": lambda: TransferData(NONE, [labelled(120)], FAST.name, False, None),
    "train and test": lambda: TransferData(
        NONE, [labelled(80, two=True), labelled(40, 80, two=True)], FULL.name, True, None
    ),
    "train, dev and test": lambda: TransferData(
        NONE, [labelled(60), labelled(30, 60), labelled(30, 90)], FULL.name, False, None
    ),
    "phrase or not": lambda: SemEvalData(
        NONE, [labelled(60, two=True), labelled(40, 60, two=True)], FULL.name, False, None
    ),
    "partners by cosine": lambda: EvalRankData(
        NONE, list(zip(texts_of(20), turned(texts_of(20)), strict=True)), [*texts_of(60), *turned(texts_of(20))]
    ),
    "partners by distance": lambda: EvalRankData(
        NONE, list(zip(texts_of(20), turned(texts_of(20)), strict=True)), [*texts_of(60), *turned(texts_of(20))], "l2"
    ),
    "fine-tuned by score": lambda: ScoredFinetuneData(NONE, dict(PARTS), None, low=1, high=5),
    "fine-tuned by class": lambda: LabelledFinetuneData(
        NONE, [labelled(64, two=True), labelled(40, 64, two=True)], None
    ),
}
# In hundredths of a score: the encoder is trained, and one item may turn over.
TRAINED = 0.03


def flat(value: Any) -> list[float]:
    """Return the numbers in nested lists and mappings, in order; of texts and of seconds nothing."""
    if isinstance(value, dict):
        return [number for key, part in value.items() if not key.endswith("seconds") for number in flat(part)]
    if isinstance(value, list | tuple | np.ndarray):
        return [number for part in value for number in flat(part)]
    return [] if isinstance(value, str) else [np.nan if value is None else float(value)]


def score(data: TaskData, bert: Path) -> list[float]:
    """Return all numbers of a task's score."""
    if isinstance(data, FinetuneData):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(finetuning, "_RATE", 1e-3)
            encoder = Average(Average.Recipe(backbone=str(bert)), Runtime())
            scores: Any = data.fine_tune(encoder, Run(None, 0))
    else:
        scores = data.score(vectors)
    dev = [data.score_dev(vectors)] if isinstance(data, PairsData) and data.dev else []
    return [*flat({name: part for name, part in scores.items() if name != "items"}), *dev]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fixed_bert(tmp_path_factory.mktemp("fixed") / "bert")


@pytest.fixture(scope="module")
def golden() -> Any:
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


def check(name: str, scores: list[float], golden: Any, rel: float = 1e-5, absolute: float = 1e-7) -> None:
    """Compare numbers with the golden ones of this name, or write them."""
    scores = np.round(scores, 8).tolist()
    if os.environ.get("ZOO_BENCH_WRITE_GOLDEN"):
        golden["scores"][name], golden["versions"] = scores, VERSIONS
        GOLDEN.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
    assert name in golden["scores"], f"{name} has no golden score"
    assert golden["versions"] == VERSIONS, f"a metric's version was raised; {HINT}"
    assert scores == pytest.approx(golden["scores"][name], rel=rel, abs=absolute, nan_ok=True), f"{name}: {HINT}"


@pytest.mark.parametrize("name", METRICS)
def test_the_scores_of_a_metric_are_the_golden_ones(name: str, golden: Any) -> None:
    check(name, flat(METRICS[name]()), golden)


@pytest.mark.parametrize("name", TASK_DATA)
def test_the_scores_of_a_family_are_the_golden_ones(name: str, golden: Any, bert: Path) -> None:
    """Vectors are sums of words' vectors, with ties; what is trained may differ by an item between machines."""
    data = TASK_DATA[name]()
    absolute = TRAINED if isinstance(data, FinetuneData) else 1e-7
    check(f"family: {name}", score(data, bert), golden, absolute=absolute)


@pytest.mark.parametrize("name", [name for name in TASKS.names() if TASKS.is_builtin(name)])
def test_the_first_rows_of_a_task_have_the_golden_score(name: str, golden: Any, request: pytest.FixtureRequest) -> None:
    """So that a reader of files that leaves out, joins or reorders rows is noticed too."""
    folder = None if name.startswith("pocket-") else request.getfixturevalue("data_dir")
    (task,) = load_tasks([name], DataSource(folder, hub=False), 40)
    if task.data is None:
        pytest.skip(f"{name}: {task.reason}")
    texts = task.data.texts()[:2000]
    marks = np.array([zlib.crc32(text.encode("utf-8", "replace")) % 1009 for text in texts])
    numbers = [TASKS.get(name).version, len(texts), float(marks @ np.cos(np.arange(len(texts))))]
    gold = [np.asarray(part.gold if hasattr(part, "gold") else part.labels, float) for part in parts_of(task.data)]
    check(f"task: {name}", numbers + [float(one @ np.cos(np.arange(len(one)))) for one in gold], golden)


def parts_of(data: Any) -> list[Any]:
    """The rows of a task's data that have a gold score or a class."""
    parts = getattr(data, "subsets", None) or getattr(data, "splits", None) or getattr(data, "parts", ())
    return list(parts.values() if isinstance(parts, dict) else parts)


def _subclasses(cls: type) -> set[type]:
    return {cls}.union(*map(_subclasses, cls.__subclasses__()))


def test_every_metric_and_every_family_has_a_golden_score(golden: Any) -> None:
    ours = {
        cls
        for cls in _subclasses(TaskData)
        if cls.__module__.startswith("benchmark.tasks.") and not cls.__abstractmethods__
    }
    kept_by_mteb = {"ByMTEB"}
    kinds = {type(make()) for make in TASK_DATA.values()}
    assert {cls.__name__ for cls in ours - kinds} <= kept_by_mteb | {"FinetuneData"}
    named = {name.partition(":")[0] for name in METRICS} | {name for cls in kinds for name in cls.metrics}
    assert named >= VERSIONS.keys()
    functions = {partial_of(TASKS.get(name)) for name in TASKS.names() if f"task: {name}" in golden["scores"]}
    missing = {
        name for name in TASKS.names() if TASKS.is_builtin(name) and partial_of(TASKS.get(name)) not in functions
    }
    assert missing <= {"PPDB", "heros-order"}, "their files are a user's"
    wanted = {
        *METRICS,
        *(f"family: {name}" for name in TASK_DATA),
        *(n for n in golden["scores"] if n.startswith("task: ")),
    }
    assert golden["scores"].keys() == wanted


def partial_of(task: Any) -> Any:
    return task.read.func if isinstance(task.read, partial) else task.read
