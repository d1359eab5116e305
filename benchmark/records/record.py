"""A record (a measured cell): the type of all readers, checked for every file.

`Record` and its parts are TypedDicts: plain dictionaries at run time, with keys checked by mypy. msgspec checks values;
unknown keys, such as a task's own scores, are kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, TypedDict, TypeGuard

import msgspec

from benchmark.metrics.items import ItemsPart
from benchmark.tasks.loaded import TaskIdentity
from zoo.errors import CorruptError
from zoo.files import sha256_json

SCHEMA_VERSION = 1
# Of a record's JSON; the largest one that a run has written has 40 kB.
MOST_BYTES = 1 << 24
MOST_OF_TRACEBACK = 100_000

Status = Literal["ok", "failed", "n/a"]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)]
Text = Annotated[str, msgspec.Meta(max_length=10_000)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Score = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
# Beyond 1 by rounding alone.
MOST = 1 + 1e-6
Fraction = Annotated[float, msgspec.Meta(ge=-MOST, le=MOST)]
Step = Annotated[str, msgspec.Meta(pattern=r"^\d{1,18}$")]
Curve = dict[Step, float | None]
# A plugin's task may have another measure.
_FRACTIONS = re.compile("spearman|pearson|accuracy|mrr|ndcg|map|f1|nearest")


class Source(TypedDict, total=False):
    name: Text
    revision: Text | None
    sha256: Text
    ancestry: Text


class MethodTraits(TypedDict):
    transductive: bool
    needs_corpus: NotRequired[bool]
    needs_neighbours: NotRequired[bool]
    needs_pairs: NotRequired[bool]
    stochastic: NotRequired[bool]
    picks_checkpoint: NotRequired[bool]
    training_passes: NotRequired[float]
    ignores_labels: NotRequired[bool]
    untrained: NotRequired[bool]
    released: NotRequired[bool]


class TunedPart(TypedDict):
    trials: int
    dev: Text
    backbone: Text
    corpus: Text
    sentences: int
    study: Text
    # Of the best dev scores of several studies.
    spread: NotRequired[float | None]


# The functional form, because `class` is a keyword.
MethodPart = TypedDict(
    "MethodPart",
    {
        "name": Name,
        # Of the method's class.
        "version": Annotated[int, msgspec.Meta(ge=1)],
        # The recipe's own name, settings typed behind it, and both, if `name` is a label.
        "recipe_name": Text,
        "overrides": dict[str, Any],
        "typed": NotRequired[Text],
        # Absent: the recipe's settings are not tuned.
        "tuned": NotRequired[TunedPart],
        "class": Text,
        "recipe": dict[str, Any],
        "sources": dict[str, Source],
        "traits": MethodTraits,
        "unstated": NotRequired[list[str]],
    },
)


class TaskPart(TaskIdentity):
    source: Annotated[str, msgspec.Meta(pattern="^(folder|cache|hub|bundled)$")] | None
    rows: Count | None
    # Of the hub's copy, where its rows were read.
    revision: NotRequired[str]


class Correlation(TypedDict):
    """Correlations as fractions; None for a constant side."""

    spearman: Fraction | None
    pearson: NotRequired[Fraction | None]


class SubsetScores(TypedDict, total=False):
    """Scores of a subset, or of a training; tasks add keys."""

    spearman: Fraction | None
    pearson: Fraction | None
    accuracy: Fraction | None


class ScoresPart(TypedDict):
    """Scores as fractions; `main` is None with a `reason`. Tasks add keys."""

    main: Score | None
    main_metric: Text
    reason: str | None
    all: NotRequired[Correlation]
    mean: NotRequired[Correlation]
    wmean: NotRequired[Correlation]
    subsets: NotRequired[dict[str, SubsetScores]]
    # Of an encoder without a seed that was fine-tuned several times.
    by_seed: NotRequired[dict[Step, SubsetScores]]


class PairsPart(TypedDict):
    """The file of pair scores; records with equal `gold_sha256` are comparable."""

    file: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._=-]{1,171}\.pairs\.safetensors\.gz$")]
    # Of the file, and of the gold scores as float32.
    sha256: Sha256
    gold_sha256: Sha256


class Coverage(TypedDict):
    """Distinct texts known to the encoder, and first `missing` words. `shared` vectors are stated if many."""

    texts: int
    covered: int
    missing: list[str]
    shared: NotRequired[int]


class CorpusPart(TypedDict, total=False):
    name: Text
    sentences: int
    # Where neighbouring sentences were asked for: in how many stretches they were read.
    documents: int
    pairs: int
    sha256: str


class OverlapPart(TypedDict):
    texts: int
    digests: list[str]


class TrainingPart(TypedDict, total=False):
    """`FitReport`, the corpus and its overlap with the test texts."""

    fitted: bool
    steps: int
    sentences: int
    seconds: float
    sentences_per_second: float | None
    final_loss: float | None
    dev_scores: Curve
    dev_curves: dict[str, Curve]
    best_step: int | None
    peak_memory_mb: float | None
    facts: dict[str, Any]
    # Digest of the code that trained it.
    code: str
    ended: str
    corpus: CorpusPart | None
    dev_task: Text | None
    # Of the set that picked the checkpoint, and those that are test pairs of STS12-16 or STS-B; None: not measured.
    dev_pairs: int
    dev_pairs_in_test: int | None
    peak_from_mb: float | None
    # Of the recipe's published training (None: not stated); mean cosine of fixed sentences after and before the fit.
    paper_updates: int | None
    cosine_to_start: float | None
    overlap: OverlapPart


class Encoding(TypedDict, total=False):
    """The encoding for measuring, not for training; `cached` texts came from the embedding cache."""

    texts: int
    tokens: int
    truncated: int | None
    seconds: float
    token_budget: int | None
    halvings: int
    texts_per_second: float | None
    tokens_per_second: float | None
    peak_memory_mb: float | None
    peak_from_mb: float | None
    cached: int


class Adapt(TypedDict):
    # None: not measured.
    seconds: float | None
    texts: int
    rank: int | None


class Environment(TypedDict):
    python: Text
    cpu: Text
    threads: int
    gpu: Text | None
    packages: dict[str, Text]
    platform: NotRequired[Text]
    instructions: NotRequired[Text]
    cuda: NotRequired[Text | None]


class CodePart(TypedDict, total=False):
    """A digest of the code, for information."""

    digest: Text


class RunFilePart(TypedDict):
    name: str
    sha256: str


class Record(TypedDict):
    """A measured cell. Scores are fractions, not x100."""

    schema: Annotated[int, msgspec.Meta(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)]
    protocol: int
    # Of the cell, by what benchmark.keys names; of the encoder with its seed; of the row, of all tasks and seeds.
    key: Sha256
    encoder_key: Sha256
    row_key: Sha256
    status: Status
    reason: Text | None
    method: MethodPart
    task: TaskPart
    seed: Count | None
    # Row key of the untrained vectors that it starts from, where the run has them; how many seeds, from 0, it planned.
    start_key: NotRequired[Sha256]
    seeds: NotRequired[int]
    precision: Annotated[str, msgspec.Meta(pattern="^(fp32|bf16|fp16)$")]
    limit: Count | None
    scores: ScoresPart | None
    training: TrainingPart | None
    encoding: Encoding | None
    facts: dict[str, Any]
    environment: Environment
    started: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    seconds: Annotated[float, msgspec.Meta(ge=0)]
    version: Text
    command: list[str]
    coverage: NotRequired[Coverage | None]
    pairs: NotRequired[PairsPart | None]
    items: NotRequired[ItemsPart | None]
    adapt: NotRequired[Adapt | None]
    code: NotRequired[CodePart]
    run_file: NotRequired[RunFilePart]
    # Sha256 of lines of packed records of this cell that no longer count.
    replaces: NotRequired[list[str]]
    traceback: NotRequired[Annotated[str, msgspec.Meta(max_length=MOST_OF_TRACEBACK)]]


class MeasuredPart(TypedDict, total=False):
    scores: ScoresPart | None
    coverage: Coverage | None
    training: TrainingPart | None
    encoding: Encoding | None
    adapt: Adapt | None
    items: ItemsPart
    facts: dict[str, Any]
    seconds: float
    run_file: RunFilePart
    seeds: int
    start_key: str
    # Added when the record is written, as is `replaces`.
    pairs: PairsPart | None
    replaces: list[str]
    traceback: str


def by_batch(record: Record) -> bool:
    """True where the last bits of a vector depend on the texts beside it: in another program, and on a GPU."""
    run_by = record["facts"].get("run_by")
    other = run_by not in (None, "zoo") and not str(run_by).endswith("each text alone")
    return other or record["environment"]["gpu"] is not None


class NewerRecordError(CorruptError):
    """A record of a later schema; its file is left as it is."""


def check_record(record: object, where: str) -> TypeGuard[Record]:
    """Raise CorruptError with the first wrong place, NewerRecordError for a later schema."""
    if isinstance(record, dict) and isinstance(schema := record.get("schema"), int) and schema > SCHEMA_VERSION:
        raise NewerRecordError(
            f"{where}: a record of schema {schema}, and this version reads up to {SCHEMA_VERSION}; zoo-bench"
            f" {str(record.get('version'))[:40]}, which wrote it, reads it. It is left as it is."
        )
    try:
        checked = msgspec.convert(record, Record)
    except (msgspec.ValidationError, RecursionError) as error:
        raise CorruptError(f"{where}: {str(error)[:300]}.") from error
    scores = checked["scores"]
    if checked["status"] == "ok" and (scores is None or scores["main"] is None):
        raise CorruptError(f"{where}: its status is ok, and it has no score.")
    if scores and abs(scores["main"] or 0) > MOST and _FRACTIONS.search(scores["main_metric"]):
        raise CorruptError(f"{where}: {scores['main_metric']} is {scores['main']:g}; it is a fraction, at most 1.")
    return True


def parse_record(content: bytes | str, where: str, *, signed: bool = False) -> Record:
    """Parse JSON; raises CorruptError, or NewerRecordError, naming `where`.

    The field `sha256` over the other fields is checked, and must be there if `signed`.
    """
    try:
        record = msgspec.json.decode(content)
        checksum = record.pop("sha256", None) if isinstance(record, dict) else None
        intact = checksum is None or checksum == sha256_json(record)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise CorruptError(f"{where} is not valid JSON ({error}).") from error
    if signed and checksum is None and isinstance(record, dict) and record.get("schema") == SCHEMA_VERSION:
        raise CorruptError(f"{where} has no sha256, so that damage would not show.")
    if not intact:
        raise CorruptError(f"{where} is damaged or was changed: its sha256 is not the one it was written with.")
    assert check_record(record, where)
    return record


def scores_of(record: Record) -> ScoresPart:
    """Return the scores; raises CorruptError without scores."""
    if record["scores"] is None:
        raise CorruptError(f"{record['method']['name']} on {record['task']['name']}: the record has no scores.")
    return record["scores"]


def main_score(record: Record) -> float:
    """Return the main score, a fraction; raises CorruptError without a score."""
    main = scores_of(record)["main"]
    if main is None:
        raise CorruptError(f"{record['method']['name']} on {record['task']['name']}: the record has no score.")
    return main


def plain(value: object) -> Any:
    """Turn tuples into lists, numpy numbers into numbers, NaN and infinity into None."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value
