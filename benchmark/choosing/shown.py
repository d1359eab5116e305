"""The table of `choose` as lines of a terminal, and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.choosing.data import MEASURES, Kind, Texts
from benchmark.report.terminal import Field, fitted, wrapped
from zoo.errors import MissingError
from zoo.files import atomic_path

if TYPE_CHECKING:
    import pandas


Row = dict[str, Any]


def number(key: str, form: str = ".1f") -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        value = row.get(key)
        return "–" if value is None or value != value else f"{value:z{form}}"

    return cell


def between(key: str, form: str = ".1f") -> Callable[[Row], str]:
    low, high = ("low", "high") if key == "score" else (f"{key}_low", f"{key}_high")

    def cell(row: Row) -> str:
        value, *ends = (number(one, form)(row) for one in (key, low, high))
        return value if value == "–" else f"{value} [{', '.join(ends)}]"

    return cell


def _time(key: str) -> Callable[[Row], str]:
    return lambda row: number(key, ".2f" if row[key] < 10 else ",.0f")(row)


def _tie(alone: bool) -> Callable[[Row], str]:
    return lambda row: "over" if row["over_budget"] else "≈" if row["may_be_best"] and not alone else ""


def _columns(kind: Kind, rows: list[Row]) -> list[tuple[str, Callable[[Row], str]]]:
    sized = [("bytes", number("bytes", ",.0f"))]
    alone = sum(bool(row["may_be_best"]) for row in rows) < 2
    several = len({(row["encoder"], row["bytes"]) for row in rows}) > len({row["encoder"] for row in rows})
    columns = [
        (MEASURES[kind], between("score")),
        ("tie", _tie(alone)),
        ("behind", number("behind")),
        *(sized if several else []),
        ("ms", _time("ms_p50")),
        ("MB", number("weights_mb", ",.0f")),
        ("ms p95", _time("ms_p95")),
    ]
    columns += [(f"{name}@{k}", number(f"{name.lower()}_at_{k}")) for name, k in (("recall", 10), ("MRR", 10))]
    columns += [
        ("texts/s", number("texts_per_second", ",.0f")),
        ("threshold", between("threshold", ".3f")),
        ("accuracy", number("accuracy")),
        ("threshold at precision", between("threshold_at_precision", ".3f")),
        ("its recall", between("recall_at_precision")),
        ("recall@1", number("recall_at_1")),
        ("behind [95 %]", between("behind")),
        ("load s", number("load_seconds")),
        ("memory MB", number("memory_mb", ",.0f")),
        ("dims", number("dims", ",.0f")),
        *(sized if not several else []),
        ("near-duplicates", number("near_duplicates", ",.0f")),
    ]
    return [(name, cell) for name, cell in columns if any(cell(row) not in ("–", "") for row in rows) or name == "tie"]


def table_lines(data: Texts, frame: pandas.DataFrame, width: int | None) -> list[str]:
    rows = rows_of(frame)
    return lines_of_rows(rows, _columns(data.kind, rows), width)


def rows_of(frame: pandas.DataFrame) -> list[Row]:
    return [{str(key): value for key, value in row.items()} for row in frame.reset_index().to_dict("records")]


def lines_of_rows(rows: list[Row], columns: Sequence[tuple[str, Callable[[Row], str]]], width: int | None) -> list[str]:
    fields = [Field("", [row["name"] for row in rows], right=False, name=True)]
    # The first column always stays; the second goes last.
    for place, (heading, cell) in enumerate(columns):
        fields.append(Field(heading, [cell(row) for row in rows], priority=place))
    lines, left_out = fitted(fields, width, rule=False)
    return [*lines, *wrapped(f"--wide: {', '.join(left_out)}" * bool(left_out), width)]


def note(row: pandas.Series[Any], texts: int) -> str:
    cut = f"{row['texts_cut']:,.0f} of {texts:,} texts cut" if row["texts_cut"] and row["texts_cut"] > 0 else ""
    return "; ".join(filter(None, (row["roles"], row["trained_on"], cut)))


def drawn(frame: pandas.DataFrame, kind: Kind, path: Path) -> None:
    """Plot scores with intervals against speed, dark for ties with the best; raises MissingError without Matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingError("--plot needs Matplotlib: pip install 'zoo-bench[plots]'.") from error
    figure = Figure(figsize=(7.0, 5.0), layout="constrained")
    axes = figure.add_subplot(xscale="log", xlabel="texts per second", ylabel=MEASURES[kind])
    for name, row in frame.dropna(subset="texts_per_second").iterrows():
        colour = "#1f4e79" if row["may_be_best"] else "#a0a0a0"
        sides = [[row["score"] - row["low"]], [row["high"] - row["score"]]]
        axes.errorbar(row["texts_per_second"], row["score"], sides, fmt="o", color=colour)
        place = (row["texts_per_second"], row["score"])
        axes.annotate(str(name), place, (6, 5), textcoords="offset points", fontsize=8, parse_math=False)
    axes.margins(x=0.3)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)
