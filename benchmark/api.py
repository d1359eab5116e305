"""The Python API: a function for each command; the command line and notebooks call the same functions.

Examples:
    >>> import benchmark
    >>> results = benchmark.evaluate("avg-last", tasks="pocket-words")
    >>> results.to_frame().columns.tolist()
    ['pocket-words', 'Seeds', 'Conditions']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from benchmark.data.sources import DataSource
from benchmark.evaluation import Results, evaluate, folder_of
from benchmark.interop.export import Exported, export_encoder
from benchmark.report.ablation import Ablation
from benchmark.report.comparison import Compared, compare_rows
from benchmark.report.leaderboard import Leaderboard, make_leaderboard
from benchmark.run.executors import carry_out
from benchmark.run.options import RESULTS, RunOptions
from benchmark.run.plan import Request, Run
from benchmark.run.prepare import prepare
from benchmark.run.runner import Outcome
from zoo.errors import UsageError
from zoo.extras import optional

if TYPE_CHECKING:
    from benchmark.tasks.mteb_model import TextModel
    from zoo.encoder import Runtime

__all__ = [
    "Ablation",
    "Compared",
    "Leaderboard",
    "Request",
    "Results",
    "Run",
    "RunOptions",
    "ablation",
    "compare",
    "evaluate",
    "export",
    "for_mteb",
    "leaderboard",
    "prepare",
    "run",
    "score_pairs",
]


def run(
    options: RunOptions,
    *,
    command: Sequence[str] = (),
    plugins: Sequence[Path] = (),
    after_round: Callable[[Run], None] | None = None,
) -> tuple[Run, Outcome]:
    """Prepare and carry out a run in this process, in several processes or on a cluster.

    Args:
        options: Targets, place and manner of the run: a field per option of `zoo-bench run`.
        command: The words of the command for records.
        plugins: Python files with methods or tasks.
        after_round: Called with the run after all rows without training, and after each seed of the others.

    Returns:
        The prepared run, and its outcome: the numbers of measured, kept and failed cells.

    Raises:
        UsageError: An option or a name is unknown or out of its bounds.
        MissingError: Data, weights or a package are not on this machine.
    """
    return carry_out(Request(options, tuple(command), tuple(plugins)), after_round)


def leaderboard(
    results: str | Path | Results,
    *,
    out: str | Path | None = None,
    suites: str | None = None,
    aggregation: Literal["all", "mean", "wmean"] = "all",
    borrow_seed_noise: bool = False,
    columns: str | None = None,
    methods: str | None = None,
    baseline: str = "",
) -> Leaderboard:
    """Make the tables of a results folder and write them.

    Args:
        results: The results folder, or the `Results` of `evaluate`.
        out: The folder of the tables; by default the results folder.
        suites: Names of suites, comma-separated; by default all.
        aggregation: The score of a task with subsets: on all pairs, or the mean or weighted mean of the subsets.
        borrow_seed_noise: Give a row of one seed the pooled seed noise of its backbone's other rows.
        columns: Names of columns, comma-separated, in their order.
        methods: Names or globs of the rows.
        baseline: A row; rows beyond noise of it are marked.

    Returns:
        The tables, scores x100, and the paths of the written files.

    Raises:
        MissingError: These suites have no record.
        UsageError: A column or row is unknown.

    Examples:
        >>> import benchmark
        >>> results = benchmark.evaluate("avg-last", "pocket-words", quiet=True, results="my-results")
        >>> benchmark.leaderboard("my-results", columns="pocket-words").to_frame().columns.tolist()
        ['pocket-words', 'Conditions']
    """
    folder = folder_of(results)
    place = folder if out is None else Path(out)
    board = make_leaderboard(folder, place, suites, aggregation, borrow_seed_noise, columns, methods, baseline)
    board.write()
    return board


def score_pairs(encoder: Any, first: Sequence[str], second: Sequence[str], gold: Sequence[float]) -> dict[str, float]:
    """Return how well the similarities of pairs of texts agree with scores by people.

    Every text is encoded as it is, without the role of a query, as in sentence-transformers'
    EmbeddingSimilarityEvaluator; the similarity is the encoder's own, by default the cosine.

    Args:
        encoder: An object with `encode`, a recipe, or a folder, as for `zoo.encode`.
        first: n texts.
        second: n texts.
        gold: n scores on any scale; higher is more similar.

    Returns:
        Spearman's and Pearson's correlation x100: {"spearman": ..., "pearson": ...}.

    Raises:
        UsageError: The three lists differ in length, or have no correlation.

    Examples:
        >>> import benchmark
        >>> first, second = ["a dog", "a dog", "rain"], ["a dog", "a cat", "two women talk"]
        >>> round(benchmark.score_pairs("static-avg", first, second, [5, 3, 0])["spearman"], 1)
        100.0
    """
    import numpy as np

    from benchmark.metrics.correlation import correlations, undefined
    from zoo.api import create, encode, load
    from zoo.roles import Roles, pair_similarities, roles_of
    from zoo.selection import saved_named

    if not len(first) == len(second) == len(gold):
        raise UsageError(
            f"first, second and gold have {len(first)}, {len(second)} and {len(gold)} entries; give pairs."
        )
    if isinstance(encoder, str | Path):
        encoder = load(encoder) if isinstance(encoder, Path) or saved_named(encoder) else create(encoder)
    scores = np.asarray(gold, dtype=np.float64)
    if not np.isfinite(scores).all():
        raise UsageError("some of gold is not a number; leave these pairs out.")
    vectors = np.asarray(encode(encoder, [*first, *second]))
    sides = vectors[: len(first)], vectors[len(first) :]
    stated = getattr(encoder, "roles", None)
    roles = stated if isinstance(stated, Roles) else roles_of(encoder)
    predicted = pair_similarities(*sides, roles.similarity).round(9)
    if reason := undefined(predicted, scores):
        raise UsageError(f"these pairs have no correlation: {reason}")
    return {name: 100 * value for name, value in correlations(predicted, scores).items() if value is not None}


def compare(
    a: str | Results,
    b: str | Results,
    *,
    results: str | Path | Results | None = None,
    suites: str | None = None,
    tasks: str | None = None,
    pairs: int = 0,
    texts: bool = True,
    data: str | Path | None = None,
    borrow_seed_noise: bool = False,
    margin: float | None = None,
) -> Compared:
    """Compare A with B pair by pair: differences, intervals and p-values with the noise of pairs and seeds.

    Pairs with a common text are resampled together. A row of one seed has neither interval nor p, unless it borrows
    noise.

    Args:
        a: The name of a row of `results`, or the `Results` of a row.
        b: The other row, likewise.
        results: The folder of two named rows; by default the command line's.
        suites: Names of suites, comma-separated; by default all, or for two `Results` their common tasks.
        tasks: Names of tasks, comma-separated.
        pairs: The number of most different pairs of each task to return, with their texts.
        texts: Read the texts, to find pairs with a common text.
        data: The folder of the benchmark data with the texts.
        borrow_seed_noise: Give a row of one seed the pooled variance of its backbone's other rows.
        margin: Also test for a difference below so many points (two one-sided tests).

    Returns:
        The differences A - B of scores x100, suite by suite.

    Raises:
        UsageError: A name is unknown, or fits several rows.
        MissingError: Nothing can be compared.

    Examples:
        >>> import benchmark
        >>> a, b = (benchmark.evaluate(name, "pocket-words", quiet=True) for name in ("avg-last", "cls"))
        >>> benchmark.compare(a, b).to_frame()["A - B"].size
        1
    """
    named: dict[str, Any] = {"suites": suites, "tasks": tasks, "pairs": pairs, "margin": margin}
    named |= {"borrow_seed_noise": borrow_seed_noise, "texts": texts}
    source = DataSource.from_options(None if data is None else str(data), hub=False)
    if isinstance(a, str) and isinstance(b, str):
        return compare_rows(folder_of(RESULTS if results is None else results), a, b, data=source, **named)
    if isinstance(a, str) or isinstance(b, str) or results is not None:
        raise UsageError("compare takes two names of rows in one results folder, or two Results, and not one of each.")
    with TemporaryDirectory(prefix="zoo-bench-") as joined:
        for side in (a, b):
            side.save(joined)
        if suites is None and tasks is None and (shared := a.scored_pairs() & b.scored_pairs()):
            named["tasks"] = ",".join(sorted(shared))
        return compare_rows(Path(joined), a.row(), b.row(), data=source, **named)


def ablation(
    base: str,
    rows: Sequence[str] = (),
    *,
    results: str | Path | Results = RESULTS,
    suites: str | None = None,
    tasks: str | None = None,
) -> Ablation:
    """Compare rows with a base row, in a single column.

    Args:
        base: The name of the base row.
        rows: Names of the other rows; by default those of the base's recipe with other settings.
        results: The results folder, or the `Results` of `evaluate`.
        suites: Names of suites, comma-separated; by default all.
        tasks: Names of tasks, comma-separated.

    Returns:
        Each row's change of settings and its difference from the base, x100, with its interval.

    Raises:
        UsageError: A name is unknown.
        MissingError: A row cannot be compared with the base.
    """
    from benchmark.report import ablation as report

    folder = folder_of(results)
    return report.ablation(folder, base, rows, suites=suites, tasks=tasks)


def export(
    method: object,
    folder: str | Path,
    *,
    results: str | Path | Results = RESULTS,
    seed: int | None = None,
    licence: str | None = None,
    language: str | None = None,
    push_to_hub: str | None = None,
    private: bool = False,
) -> Exported:
    """Write the trained encoder of a row of `results` as a new sentence-transformers folder with a model card.

    Args:
        method: The name of the row; or a zoo Encoder or its folder (./FOLDER), without a card.
        folder: The new folder.
        results: The results folder, or the `Results` of `evaluate`.
        seed: The encoder's seed; by default the first.
        licence: The card's licence.
        language: The card's language.
        push_to_hub: The repository (OWNER/NAME) for the upload.
        private: Make a new repository private.

    Returns:
        The name, the folder and the address of the export.

    Raises:
        MissingError: The results hold no such encoder.
        UsageError: sentence-transformers cannot express the encoder.
        ZooError: The hub refuses the upload.
    """
    return export_encoder(
        method,
        Path(folder),
        folder_of(results),
        seed=seed,
        licence=licence,
        language=language,
        push_to_hub=push_to_hub,
        private=private,
    )


def for_mteb(encoder: object, *, name: str | None = None, runtime: Runtime | None = None) -> TextModel:
    """Return an encoder as a model for `mteb.evaluate`, with its metadata.

    Args:
        encoder: A zoo Encoder or its folder, a recipe without training, a model, or a function of texts.
        name: The name in mteb's results.
        runtime: Device and precision; by default the CPU and fp32.

    Returns:
        A model for mteb.

    Raises:
        MissingError: mteb is not installed.
        UsageError: The recipe needs training.
    """
    optional("mteb", "mteb", "for_mteb")
    from benchmark.interop.mteb_encoder import for_mteb as adapted

    return adapted(encoder, name=name, runtime=runtime)
