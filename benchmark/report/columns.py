"""The columns of a leaderboard, for every form of a table and for the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from benchmark.records.record import Record
from benchmark.report.conditions import conditions, contamination, group, learned_from, role
from benchmark.report.links import links_of
from benchmark.report.rows import DIGITS, Row, Table, Value, score_text, seed_order
from benchmark.tasks import plain_name
from benchmark.tasks.suites import Suite
from zoo.errors import UsageError, did_you_mean
from zoo.selection import separated

Output = Literal["markdown", "terminal", "html", "latex", "frame", "csv", "page", "details", "cost"]
"""A form of a table; `cost` is the second table of the Markdown file, `details` what the page says beside its columns.

JSON has every column.
"""

Format = Literal["text", "rank", "mean", "score", "number", "duration", "condition", "backbone", "paper"]
"""How a value is written: `mean` is a Value, with its spread; `score` is a number x100."""

_WORDS = ("text", "condition", "backbone", "paper")  # formats that are left-aligned
SCORES = "scores"  # stands for the tasks of a suite and the means of some of them
_PRINTED: tuple[Output, ...] = ("markdown", "terminal", "html")
_EVERYWHERE: tuple[Output, ...] = (*_PRINTED, "latex", "frame", "csv", "page")
_COST: tuple[Output, ...] = ("csv", "cost", "page")
_FIRST = ("rank", "method", "condition", "backbone")  # before the chosen columns; `conditions` are behind them


@dataclass(frozen=True)
class Column:
    """A column: its name in JSON, CSV and --columns, its source, format and outputs.

    `value` takes a row; default: the condition or cost of the column's name. `title` is the head.
    """

    name: str
    value: Callable[[Row], object] | None = None
    title: str = ""
    format: Format = "text"
    outputs: tuple[Output, ...] = ("csv",)
    help: str = ""
    lower_is_better: bool = False
    optional: bool = False  # left out where no row has a value (in CSV files it always is there)
    expected: Callable[[Row], bool] = lambda row: False  # with `optional`: rows for which it is there without a value
    missing: Callable[[Row], str] = lambda row: "n/a"  # the text where there is no value

    @property
    def key(self) -> str:
        return self.name.replace(" ", "_")

    @property
    def head(self) -> str:
        return self.title or self.name

    @property
    def right(self) -> bool:
        return self.format not in _WORDS

    def of(self, row: Row) -> object:
        return cast("Mapping[str, object]", row.about)[self.name] if self.value is None else self.value(row)

    def is_needed(self, rows: Sequence[Row]) -> bool:
        return not self.optional or any(self.of(row) not in (None, "") or self.expected(row) for row in rows)

    def text(self, row: Row) -> str:
        value = self.of(row)
        if self.format == "rank":
            return row.mark + str(row.rank or "")
        if isinstance(value, Value):
            reason = f" ({value.reason})" if value.mean is None and self.name == "average" else ""
            return value.text() + reason
        if self.name == "method" and row.against:
            return f"{row.name} {row.against}"
        if value is None:
            return self.missing(row)
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int | float):
            return score_text(value) if self.format == "score" else number(value)
        return "; ".join(map(str, value)) if isinstance(value, list) else str(value)

    def raw(self, row: Row) -> dict[str, object]:
        """Return a CSV file's fields: four decimals, a mean with its spread over seeds."""
        value, name = self.of(row), self.name
        if isinstance(value, Value):
            name = self.title.removesuffix(".")
            parts: dict[str, object] = {"": value.mean, " sd": value.sd, " min": value.min, " max": value.max}
        else:
            parts = {"": "; ".join(map(str, value)) if isinstance(value, list) else value}
        return {f"{name}{end}": f"{part:.4f}" if isinstance(part, float) else part for end, part in parts.items()}

    def as_dict(self) -> dict[str, object]:
        title = self.head.removesuffix(", s") if self.format == "duration" else self.head  # the page states the unit
        what = {"name": self.key, "title": title, "format": self.format, "help": self.help}
        return {**what, "lower_is_better": self.lower_is_better}


def printed(columns: Sequence[Column], rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    return [column.head for column in columns], [[column.text(row) for column in columns] for row in rows]


def number(value: float) -> str:
    """Separate thousands; decimals only below 10."""
    return f"{value:,.1f}" if 0 < abs(value) < 10 and value != int(value) else f"{value:,.0f}"


def _curves(row: Row) -> list[dict[str, object]]:
    curves = seed_order({r["seed"]: points for r in row.records if (points := dev_points(r))})
    return [{"seed": seed, "points": points} for seed, points in curves]


def dev_points(record: Record, curve: str | None = None) -> list[tuple[int, float]]:
    """Return (step, dev score x100) of a training, or of another logged value, by step."""
    training = record["training"] or {}
    points = (training.get("dev_scores") if curve is None else training.get("dev_curves", {}).get(curve)) or {}
    return sorted((int(step), round(value, DIGITS)) for step, value in points.items() if value is not None)


def _trained(row: Row) -> str:
    return "n/a" if row.about["corpus"] else "–"


FROM_CACHE = "the embedding cache had every vector (`zoo-bench run --remeasure --embedding-cache 0` measures them)"


def from_cache(row: Row) -> bool:
    """Whether it encoded nothing: the embedding cache had its vectors."""
    parts = [encoding for record in row.records if (encoding := record["encoding"])]
    return any(part.get("cached") for part in parts) and not any(part.get("texts") for part in parts)


def _lacking(row: Row) -> list[str]:
    costs = f"speed and memory: {FROM_CACHE}" if from_cache(row) else ""
    return [*filter(None, [row.missing_seeds, costs]), *row.notes]


def _encoded(row: Row) -> str:
    return "n/a: from the embedding cache" if from_cache(row) else "n/a"


COLUMNS = (
    Column("rank", lambda row: row.rank, "#", "rank", (*_PRINTED, "csv", "page"), lower_is_better=True),
    Column("among best", lambda row: row.among_best),
    Column("mark", lambda row: row.mark, outputs=("csv", "details")),
    Column("method", lambda row: row.name, "Method", outputs=(*_EVERYWHERE, "cost")),
    Column("row key", lambda row: row.row_key, outputs=()),
    Column("control", role, outputs=("csv", "details")),
    Column("group", group),
    Column("condition", lambda row: role(row) or row.about["setting"], "Condition", "condition", ("page",)),
    Column("average", lambda row: row.average, "Avg.", "mean", _EVERYWHERE, "Average"),
    Column("lowest", lambda row: row.average.min, "Min.", "score", ("markdown", "page"),
           help="lowest average of a seed", optional=True, missing=lambda row: ""),
    Column("highest", lambda row: row.average.max, "Max.", "score", ("markdown", "page"),
           help="highest average of a seed", optional=True, missing=lambda row: ""),
    Column("conditions", conditions, "Conditions", outputs=("markdown", "html", "frame", "details")),
    Column("paper", lambda row: links_of(row).paper, "Paper", "paper", ("page",), optional=True),
    Column("learns from", lambda row: learned_from(row.about), "Learns from", outputs=("page",)),
    Column("backbone", title="Backbone", format="backbone", outputs=("csv", "page")),
    Column("backbone_sha256"),
    Column("ancestry", outputs=("csv", "details")),
    Column("precision", title="Precision", outputs=("csv", "page")),
    Column("seeds", title="Seeds", format="number", outputs=("csv", "frame", "page")),
    *map(Column, ("corpus", "corpus_sentences", "corpus_pairs", "test_texts_in_training")),
    Column("test_texts_exact", lambda row: True),  # of the published CSV files: every record names the texts
    *map(Column, ("dev_task", "dev_pairs", "dev_pairs_in_test", "transductive", "supervised")),
    Column("setting", outputs=("csv", "details")),
    Column("class", lambda row: next((record["method"]["class"] for record in row.records), "")),
    Column("changed_settings"),
    Column("train_seconds", None, "Training, s", "duration", _COST, "time of a training, a mean over seeds", True, True,
           missing=_trained),
    Column("train_sentences_per_second", None, "Sentences/s", "number", ("csv", "cost"), optional=True,
           missing=_trained),
    Column("updates_share"),
    Column("cosine_to_start"),
    Column("adapt_seconds", None, "Fit per task, s", "duration", _COST, "time of the fit to the texts of a task", True,
           True, lambda row: row.about["transductive"], lambda row: "n/a" if row.about["transductive"] else "–"),
    Column("texts_per_second", None, "Texts/s", "number", _COST, optional=True, expected=from_cache, missing=_encoded),
    Column("parameters", None, "Parameters", "number", _COST, lower_is_better=True, optional=True),
    Column("dimensions", None, "Dim.", "number", _COST, lower_is_better=True, optional=True),
    Column("peak_memory_mb", None, "Peak MB", "number", _COST, lower_is_better=True, optional=True,
           expected=from_cache, missing=_encoded),
    Column("device", title="Device", outputs=_COST),
    *map(Column, ("limit", "protocol", "version", "code", "tuned", "run_by")),
    Column("environments", outputs=()),
    Column("not available", _lacking, outputs=("csv", "details")),
    Column("overlap", lambda row: contamination(row.about), outputs=("details",)),
    Column("papers", lambda row: [paper.name for paper in links_of(row).papers], outputs=("details",)),
    Column("page", lambda row: links_of(row).page, outputs=("details",)),
    Column("curves", _curves, outputs=("details",)),
)  # fmt: skip


def score_columns(suite: Suite) -> list[Column]:
    """Return a column for each task, then for each mean of some tasks."""

    def task(name: str, title: str) -> Column:
        return Column(name, lambda row: row.values[name], title, "mean", _EVERYWHERE, name)

    def mean(name: str) -> Column:
        of = f"{name}: mean of {', '.join(suite.means[name])}"
        return Column(name, lambda row: row.means[name], name, "mean", _EVERYWHERE, of)

    tasks = [task(name, title) for name, title in zip(suite.tasks, suite.columns, strict=True)]
    return [*tasks, *map(mean, suite.means)]


def columns_of(table: Table, output: Output) -> list[Column]:
    """Return an output's own columns, or rank, method, conditions and the chosen columns."""
    known, scores = [*COLUMNS], score_columns(table.suite)
    at = [column.name for column in known].index("average") + (output == "page")
    known[at:at] = scores  # before their average, on the page behind it
    title = table.suite.average_title
    known = [replace(column, title=title) if column.name == "average" else column for column in known]
    known = [column for column in known if table.suite.average or column.name != "average"]
    columns = [column for column in known if output in column.outputs]
    if table.chosen is None or output == "cost":
        shown = [column for column in columns if output == "csv" or column.is_needed(table.rows)]
        first = [*_FIRST] if output == "page" else []
    else:
        by_name = {column.name: column for column in [*known, *scores]}
        names = [part for name in table.chosen for part in ([c.name for c in scores] if name == SCORES else [name])]
        shown = [column for column in columns if column.name in _FIRST]
        first = [column.name for column in shown]
        shown += [by_name[name] for name in names if name in by_name and name not in first]
        shown += [by_name["conditions"]] if output in ("csv", *by_name["conditions"].outputs) else []
        shown = list({column.name: column for column in shown}.values())
    return sorted(shown, key=lambda column: -(column.name in first) + (column.name == "conditions"))


def chosen_columns(names: str, suites: Iterable[Suite]) -> tuple[str, ...]:
    """Raises UsageError with suggestions for an unknown name."""
    every = {column.name: column for suite in suites for column in score_columns(suite)} | {c.name: c for c in COLUMNS}
    known = {plain_name(column.title): name for name, column in every.items()} | {
        plain_name(name): name for name in every
    }
    known[SCORES] = SCORES
    chosen = [stripped for name in names.split(",") if (stripped := name.strip())]
    for name in chosen:
        if plain_name(name) not in known:
            titled = ", ".join([SCORES, *(column.name for column in COLUMNS if column.title)])
            hint = did_you_mean(name, {SCORES, *every}) or separated(name, {SCORES, *every})
            raise UsageError(f"unknown column {name!r:.100}.{hint} Columns are tasks and {titled}.")
    return tuple(dict.fromkeys(known[plain_name(name)] for name in chosen))
