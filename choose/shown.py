"""The table of `choose` as lines of a terminal, and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.report.terminal import Field, fitted, wrapped
from choose.data import MEASURES, Kind, Texts
from zoo.extras import optional
from zoo.files import atomic_path

if TYPE_CHECKING:
    import pandas


Row = dict[str, Any]
# Columns before which names give way: the score, the tie, the distance, a cost.
_KEPT = 4


def number(key: str, form: str = ".1f") -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        value = row.get(key)
        return "–" if value is None or value != value else f"{value:z{form}}"

    return cell


def between(key: str, form: str = ".1f") -> Callable[[Row], str]:
    low, high = ("low", "high") if key == "score" else (f"{key}_low", f"{key}_high")

    def cell(row: Row) -> str:
        value, *ends = (number(name, form)(row) for name in (key, low, high))
        return value if ends[0] == "–" else f"{value} [{', '.join(ends)}]"

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
    # The first column always stays; names are shortened before the next three go.
    for place, (heading, cell) in enumerate(columns):
        fields.append(Field(heading, [cell(row) for row in rows], priority=place, optional=place >= _KEPT))
    lines, left_out = fitted(fields, width, rule=False)
    return [*lines, *wrapped(f"--wide: {', '.join(left_out)}" * bool(left_out), width)]


def note(row: pandas.Series[Any], texts: int) -> str:
    count = row["texts_cut"]
    known = count is not None and count == count
    cut = f"{count:,.0f} of {texts:,} texts cut" * (count > 0) if known else "texts cut: not known"
    return "; ".join(filter(None, (row["roles"], row["trained_on"], row["too_wide"], cut)))


# Those of the plot of claims.
_COLOURS = {
    "best": "#1a7f37",
    "may be as good": "#6b6b6b",
    "below the best": "#b3261e",
    "over the budget": "#a65d00",
    "trained once: no mark": "#4f7cac",
}


def check_plot() -> None:
    """Raise MissingError without Matplotlib, before any work."""
    optional("matplotlib", "plots", "--plot")


def drawn(frame: pandas.DataFrame, kind: Kind, path: Path, noise: str = "") -> None:
    """Draw a line for each encoder, as the plot of claims does: its score, the 95 % interval, and its texts per second.

    Raises MissingError without Matplotlib.
    """
    check_plot()
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    scored = frame.dropna(subset="score")
    figure = Figure(figsize=(7.5, 1.4 + 0.3 * len(scored)), layout="constrained")
    axes = figure.add_subplot(xlabel=f"{MEASURES[kind]}, 95 % interval; right: texts per second\n{noise}")
    words = [_word(place, row) for place, (_, row) in enumerate(scored.iterrows())]
    for place, (word, (_, row)) in enumerate(zip(words, scored.iterrows(), strict=True)):
        bar: dict[str, Any] = {"color": _COLOURS[word], "linewidth": 5, "solid_capstyle": "butt", "alpha": 0.55}
        axes.plot([row["low"], row["high"]], [place, place], **bar)
        axes.plot(row["score"], place, "|", color=_COLOURS[word], markersize=11, markeredgewidth=2)
    axes.set_yticks(range(len(scored)), [str(name) for name in scored.index], parse_math=False)
    speeds = ["–" if speed != speed else f"{speed:,.0f}" for speed in scored["texts_per_second"]]
    axes.secondary_yaxis("right").set_yticks(range(len(scored)), speeds, fontsize=8)
    axes.set_ylim(len(scored) - 0.5, -0.5)
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    figure.suptitle("Which encoder fits these texts?", fontsize=13, fontweight="bold")
    legend = [
        Line2D([], [], color=colour, linewidth=5, alpha=0.55, label=word)
        for word, colour in _COLOURS.items()
        if word in words
    ]
    figure.legend(handles=legend, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)


def _word(place: int, row: pandas.Series[Any]) -> str:
    if row["over_budget"]:
        return "over the budget"
    if row["one_training"]:
        return "trained once: no mark"
    return "best" if place == 0 else "may be as good" if row["may_be_best"] else "below the best"
