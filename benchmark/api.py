"""The Python API: one function for each command; the command line and notebooks call the same functions.

Example:
    >>> import benchmark
    >>> results = benchmark.evaluate("avg-last", tasks="pocket-words")
    >>> results.to_frame().columns.tolist()
    ['pocket-words', 'Seeds', 'Conditions']
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from benchmark.data.sources import DataSource
from benchmark.interop.export import Exported, export_encoder
from benchmark.records.folder import Records, read_records
from benchmark.records.query import label
from benchmark.records.record import Record
from benchmark.report.ablation import Ablation
from benchmark.report.comparison import Compared, compare_rows
from benchmark.report.files import Leaderboard, make_leaderboard, tables_of
from benchmark.report.rows import Table
from benchmark.report.show import brief_of, frame_of, html_of, text_of
from benchmark.run.executors import carry_out
from benchmark.run.options import OPTIONS, RESULTS, RunOptions
from benchmark.run.plan import Run
from benchmark.run.prepare import prepare
from benchmark.run.runner import Outcome
from zoo.errors import MissingError, UsageError, ZooError, did_you_mean
from zoo.progress import Progress

if TYPE_CHECKING:
    import pandas

    from benchmark.tasks.mteb_model import TextModel
    from zoo.encoder import Runtime

__all__ = [
    "Ablation",
    "Compared",
    "Leaderboard",
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
]


def run(
    options: RunOptions,
    *,
    command: Sequence[str] = (),
    plugins: Sequence[Path] = (),
    after_round: Callable[[Run], None] | None = None,
) -> tuple[Run, Outcome]:
    """Prepare and carry out a run in this process, in several processes or on a cluster, as its options say.

    `after_round` is called as `carry_out` says. Raises the errors of `carry_out` and `prepare`.
    """
    return carry_out(Run(options, tuple(command), tuple(plugins)), after_round)


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
    """Make the tables of a results folder and write them to `out` (default: the results folder).

    `suites` (comma-separated) chooses the tables; the default is all. `aggregation` chooses the score of tasks with
    subsets; with `borrow_seed_noise`, rows of one seed are compared with the best by the pooled noise of their
    backbone's other rows; `columns` (comma-separated) chooses and orders the columns, `methods` (names, globs) the
    rows; rows that differ from `baseline` beyond noise are marked. Raises MissingError where these suites have no
    record, UsageError for an unknown column or row.
    """
    folder = _folder_of(results)
    place = folder if out is None else Path(out)
    board = make_leaderboard(folder, place, suites, aggregation, borrow_seed_noise, columns, methods, baseline)
    board.write()
    return board


def compare(
    a: str | Results,
    b: str | Results,
    *,
    results: str | Path | Results | None = None,
    suites: str | None = None,
    tasks: str | None = None,
    resamples: int = 10_000,
    pairs: int = 0,
    texts: bool = True,
    data: str | Path | None = None,
    borrow_seed_noise: bool = False,
) -> Compared:
    """Compare A with B pair by pair: differences, intervals and p-values, which include the noise of pairs and seeds.

    A and B are two `Results` of one row each, or the names of two rows of `results` (default: the folder that the
    command line writes). `suites` or `tasks` (comma-separated) choose what is compared. The default for two names is
    all suites, and for two `Results` all tasks for which both have pair scores. `pairs=N` adds the N pairs of each task
    that differ most, with their texts. Pairs that share a text are drawn together. A row of one seed has neither
    interval nor p, unless `borrow_seed_noise` lets the pooled variance over seeds of its backbone's other trained rows
    stand in for its own.

    Raises UsageError for unknown names and names of several rows, MissingError where nothing can be compared.
    """
    named: dict[str, Any] = {"suites": suites, "tasks": tasks, "resamples": resamples, "pairs": pairs}
    named |= {"borrow_seed_noise": borrow_seed_noise, "texts": texts}
    source = DataSource.from_options(None if data is None else str(data), hub=False)
    if isinstance(a, str) and isinstance(b, str):
        return compare_rows(_folder_of(RESULTS if results is None else results), a, b, data=source, **named)
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
    resamples: int = 10_000,
) -> Ablation:
    """Compare rows with a base row, in one column: by default the base's recipe with other settings.

    Raises UsageError for unknown names, MissingError where a row cannot be compared with the base.
    """
    from benchmark.report import ablation as report

    folder = _folder_of(results)
    return report.ablation(folder, base, rows, suites=suites, tasks=tasks, resamples=resamples)


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

    A zoo Encoder, or the folder of a saved or finished one (./FOLDER), is written too, without a card.
    `push_to_hub` names a repository (OWNER/NAME) for the upload. Raises MissingError where the results hold no such
    encoder, UsageError where sentence-transformers cannot express it, ZooError where the hub refuses it.
    """
    return export_encoder(
        method,
        Path(folder),
        _folder_of(results),
        seed=seed,
        licence=licence,
        language=language,
        push_to_hub=push_to_hub,
        private=private,
    )


def for_mteb(encoder: object, *, name: str | None = None, runtime: Runtime | None = None) -> TextModel:
    """Return an encoder as a model for `mteb.evaluate`, with its metadata.

    `encoder` is a zoo Encoder, the folder of a saved or finished one, a recipe that needs no training, a
    sentence-transformers model or a function of texts. Raises MissingError without mteb, UsageError for a recipe that
    needs training.
    """
    try:
        from benchmark.interop.mteb_model import for_mteb as adapted
    except ImportError as error:
        raise MissingError("mteb is not installed: `pip install 'zoo-bench[mteb]'`.") from error
    return adapted(encoder, name=name, runtime=runtime)


_TEXTS = ("data", "backbone", "corpus", "pairs")  # options that are names or paths
_TURN = threading.RLock()  # a run sets what all threads share: random states, torch's settings, the working folder


def _folder_of(results: str | Path | Results) -> Path:
    if isinstance(results, Results):
        return results.folder
    if not isinstance(results, str | Path) or not str(results).strip():
        raise UsageError(f"results is {results!r:.100}; give the path of a results folder.")
    return Path(results)


@dataclass(frozen=True, repr=False)
class Results:
    """The result of `evaluate`: it prints as a table, shows as HTML in a notebook, and `to_frame` gives a DataFrame."""

    tables: list[Table]
    records: list[Record]
    outcome: Outcome
    folder: Path
    _temporary: TemporaryDirectory[str] | None = None  # the records' folder where none was given; deleted with this

    def to_frame(self) -> pandas.DataFrame:
        """Return scores x100: a row per method; columns: each task's mean over seeds, its "sd", seeds, conditions."""
        return frame_of(self.tables)

    def row(self) -> str:
        """Return the label of the only row; raises UsageError where there are several rows."""
        labels = sorted({label([record]) for record in self.records})
        if len(labels) > 1:
            raise UsageError(f"the results have several rows ({', '.join(labels)}); name two of them: results=...")
        return labels[0]

    def scored_pairs(self) -> set[str]:
        """Return the tasks whose pair scores are kept: two results can be compared on these tasks."""
        return {record["task"]["name"] for record in self.records if record.get("pairs")}

    def __str__(self) -> str:
        return text_of(self.tables)

    def __repr__(self) -> str:
        return brief_of(self.tables)

    def _repr_html_(self) -> str:
        return html_of(self.tables)

    def save(self, folder: str | Path) -> Path:
        """Write the records into a results folder, where `leaderboard` and `compare` read them; returns the folder."""
        place = _folder_of(folder)
        source, kept = Records(self.folder), Records(place)
        for record in self.records:
            kept.write(record, source.pair_scores(record) if record.get("pairs") else None)
        return place


def evaluate(
    encoder: object,
    tasks: str | Sequence[str] = "pocket",
    *,
    name: str | None = None,
    version: str | None = None,
    results: str | Path | None = None,
    quiet: bool = False,
    **options: Any,
) -> Results:
    """Measure one encoder, or each of a list or dict of encoders, and return the scores.

    `encoder` is a recipe as for `--methods` (it is trained if it needs training), a `zoo.Encoder`, a
    sentence-transformers model, a Hugging Face (model, tokenizer), whose vectors are means over tokens, an object with
    `encode(texts)`, or a function that takes a list of texts and returns an array (n, dim).
    `tasks` names suites or tasks, also with globs; the tables have these alone. `options` are fields of `RunOptions`:
    data, seeds, backbone, corpus, train_sentences, device, precision, limit ... With `results`, records are kept in
    that folder, and cells of a recipe that are already measured there are not measured again. An object is measured
    anew in every call, unless `version` (any text, changed by hand) says that it is the same as before. Progress goes
    to standard error unless `quiet`. Calls from several threads take turns.

    Raises UsageError for unknown names, MissingError where nothing could be measured, and ZooError with the reason of
    the first failed cell.
    """
    from benchmark.run.objects import listed  # imports torch
    from benchmark.tasks.suites import suite, suite_name

    known = inspect.signature(evaluate).parameters
    for option in options.keys() - known.keys():
        more = "Name suites and tasks with tasks=, and the encoder first."
        raise UsageError(f"evaluate has no option {option!r}.{did_you_mean(option, known)} {more}")
    parts = tasks.split(",") if isinstance(tasks, str) else tasks
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
        raise UsageError(f"tasks is {tasks!r:.100}; give names: a text with commas, or a list of texts.")
    names = [part.strip() for part in parts if part.strip()]
    if not names or encoder is None:
        raise UsageError(f"evaluate is given {'no encoder' if names else 'no task'}; name one, or more with commas.")
    given_encoders = listed(encoder, name)
    recipes = [
        str(one.absolute() if isinstance(one, Path) else one)
        for _, one in given_encoders
        if isinstance(one, str | Path)
    ]
    plain = len(recipes) == len(given_encoders)  # all are recipes, which any process can make
    suites = [known_name for part in names if (known_name := suite_name(part)) is not None]
    single = [part for part in names if suite_name(part) is None]
    single += [task for one in suites for task in suite(one).tasks] if single and suites else []
    temporary = TemporaryDirectory(prefix="zoo-bench-") if results is None else None
    folder = Path(temporary.name) if temporary is not None else _folder_of(results or "")
    given: dict[str, Any] = {k: str(v) if isinstance(v, Path) and k in _TEXTS else v for k, v in options.items()}
    if plain and (labels := [called for called, _ in given_encoders if called is not None]):
        given["label"] = ",".join(labels)
    chosen = RunOptions(
        methods=",".join(recipes) if plain else "",
        suites=",".join(suites) if suites and not single else None,
        tasks=",".join(dict.fromkeys(single)) or None,
        results=folder,
        **given,
    )
    asked = Run(
        chosen,
        command=("benchmark.evaluate",),
        progress=Progress.silent() if quiet else None,
        given=None if plain else tuple(given_encoders),
        version=version,
    )
    with _TURN:
        measured, outcome = carry_out(asked)
    if outcome.failed:
        what, reason = outcome.failed[0]
        raise ZooError(f"{what}: {reason}")
    wanted = {(plan.name, cell.key) for plan in measured.encoders for cell in plan.cells}
    store = Records(folder)
    every = read_records(store)
    records = [record for record in every if (record["method"]["name"], record["key"]) in wanted]
    if not any(record["status"] == "ok" for record in records):
        reasons = [reason for _, reason in outcome.missing]
        raise MissingError(f"nothing was measured: {reasons[0] if reasons else 'no cell was planned'}")
    rows = {(plan.name, plan.row_key) for plan in measured.encoders}
    tables = tables_of(every, store, ",".join(measured.suites), {record["task"]["name"] for record in records})
    for table in tables:
        table.rows[:] = [row for row in table.rows if (row.identity, row.row_key) in rows]
    return Results([table for table in tables if table.rows], records, outcome, folder, temporary)


_OWN = inspect.signature(evaluate)
_OPTIONS = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
    for name, one in OPTIONS.items()
    if name not in ("methods", "suites", "tasks", "results")
]
evaluate.__signature__ = _OWN.replace(  # type: ignore[attr-defined]  # with the options, which notebooks complete
    parameters=[*list(_OWN.parameters.values())[:-1], *_OPTIONS]
)
