"""Measures encoders from Python, and holds their results."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmark.records.folder import Records, read_records
from benchmark.records.query import label
from benchmark.records.record import Record
from benchmark.report.leaderboard import tables_of
from benchmark.report.rows import Table
from benchmark.report.show import brief_of, frame_of, html_of, text_of
from benchmark.run.executors import carry_out
from benchmark.run.options import OPTIONS, RunOptions
from benchmark.run.plan import Request
from benchmark.run.runner import Outcome
from zoo.errors import MissingError, UsageError, ZooError, did_you_mean
from zoo.progress import Progress

if TYPE_CHECKING:
    import pandas

_TEXTS = ("data", "backbone", "corpus", "pairs")
# A run sets what all threads share: random states, torch's settings, the working folder.
_TURN = threading.RLock()


def folder_of(results: str | Path | Results) -> Path:
    """Return the folder of a path or of `Results`; raises UsageError for anything else."""
    if isinstance(results, Results):
        return results.folder
    if not isinstance(results, str | Path) or not str(results).strip():
        raise UsageError(f"results is {results!r:.100}; give the path of a results folder.")
    return Path(results)


@dataclass(frozen=True, repr=False)
class Results:
    """The result of `evaluate`: prints as a table, shows as HTML in a notebook."""

    tables: list[Table]
    records: list[Record]
    outcome: Outcome
    folder: Path
    # The records' folder where none was given; it is deleted with this.
    _temporary: TemporaryDirectory[str] | None = None

    def to_frame(self) -> pandas.DataFrame:
        """Return scores x100: a row per method; each task's mean and "sd" over seeds, conditions."""
        return frame_of(self.tables)

    def row(self) -> str:
        """Return the only row's label; raises UsageError for several rows."""
        labels = sorted({label([record]) for record in self.records})
        if len(labels) > 1:
            raise UsageError(f"the results have several rows ({', '.join(labels)}); name two of them: results=...")
        return labels[0]

    def scored_pairs(self) -> set[str]:
        return {record["task"]["name"] for record in self.records if record.get("pairs")}

    def __str__(self) -> str:
        return text_of(self.tables)

    def __repr__(self) -> str:
        return brief_of(self.tables)

    def _repr_html_(self) -> str:
        return html_of(self.tables)

    def save(self, folder: str | Path) -> Path:
        place = folder_of(folder)
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
    """Measure an encoder, or each of a list or dict of encoders, and return the scores.

    A recipe is trained if it needs training. Calls from several threads take turns.

    Args:
        encoder: A recipe as for `--methods`, a `zoo.Encoder`, a sentence-transformers model, a Hugging Face (model,
            tokenizer) with means over tokens as vectors, an object with `encode(texts)`, or a function from a list of n
            texts to an array (n, dim). A list or a dict of these is measured in one table.
        tasks: Names or globs of suites or tasks, comma-separated or as a list.
        name: The name of the row of an object.
        version: Any text, changed by hand; an object of the same version is not measured again.
        results: The folder of the records; cells measured there are not measured again.
        quiet: Print no progress to standard error.
        **options: Fields of `RunOptions`: data, seeds, backbone, corpus, device, precision, limit ...

    Returns:
        The scores x100 as a table, and the records.

    Raises:
        UsageError: A name or an option is unknown.
        MissingError: Nothing could be measured.
        ZooError: A cell failed; the message has the first reason.

    Examples:
        >>> import benchmark
        >>> benchmark.evaluate("avg-last", "pocket-words", quiet=True).to_frame().columns.tolist()
        ['pocket-words', 'Seeds', 'Conditions']
    """
    from benchmark.run.objects import listed
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
        str(candidate.absolute() if isinstance(candidate, Path) else candidate)
        for _, candidate in given_encoders
        if isinstance(candidate, str | Path)
    ]
    plain = len(recipes) == len(given_encoders)
    suites = [known_name for part in names if (known_name := suite_name(part)) is not None]
    single = [part for part in names if suite_name(part) is None]
    single += [task for known_name in suites for task in suite(known_name).tasks] if single and suites else []
    temporary = TemporaryDirectory(prefix="zoo-bench-") if results is None else None
    folder = Path(temporary.name) if temporary is not None else folder_of(results or "")
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
    request = Request(
        chosen,
        command=("benchmark.evaluate",),
        progress=Progress.silent() if quiet else None,
        objects=() if plain else tuple(given_encoders),
        version=version,
    )
    with _TURN:
        measured, outcome = carry_out(request)
    if outcome.failed:
        what, reason = outcome.failed[0]
        raise ZooError(f"{what}: {reason}")
    wanted = {(plan.row.name, cell.key) for plan in measured.encoders for cell in plan.cells}
    store = Records(folder)
    every = read_records(store)
    records = [record for record in every if (record["method"]["name"], record["key"]) in wanted]
    if not any(record["status"] == "ok" for record in records):
        reasons = [reason for _, reason in outcome.missing]
        raise MissingError(f"nothing was measured: {reasons[0] if reasons else 'no cell was planned'}")
    rows = {(plan.row.name, plan.inputs.row_key) for plan in measured.encoders}
    tables = tables_of(every, store, ",".join(measured.suites), {record["task"]["name"] for record in records})
    for table in tables:
        table.rows[:] = [row for row in table.rows if (row.identity, row.row_key) in rows]
    return Results([table for table in tables if table.rows], records, outcome, folder, temporary)


_OWN = inspect.signature(evaluate)
_OPTIONS = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=option.type)
    for name, option in OPTIONS.items()
    if name not in ("methods", "suites", "tasks", "results")
]
evaluate.__signature__ = _OWN.replace(  # type: ignore[attr-defined]  # with the options, which notebooks complete
    parameters=[*list(_OWN.parameters.values())[:-1], *_OPTIONS]
)
