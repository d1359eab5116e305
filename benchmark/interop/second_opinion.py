"""The separated ranks of a published table, with the noise of another sample of such tasks."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from benchmark.interop.published_scores import Published, named, read_published, tasks_of_benchmark
from benchmark.report.latex import escape
from benchmark.report.markdown import markdown_table
from benchmark.report.render import TEMPLATES, fill
from benchmark.report.terminal import Field, fitted, folded, width_of
from benchmark.report.write import csv_text
from benchmark.stats.bootstrap import Scored, resample_together
from benchmark.stats.clusters import clusters_of
from benchmark.stats.contained import NOT_STATED, contained
from benchmark.stats.intervals import interval_text
from benchmark.stats.mcb import LEVEL, Differences, Sample, differences, own_noise, sample, with_width
from zoo import __version__
from zoo.errors import MissingError, UsageError, did_you_mean
from zoo.files import write_text
from zoo.progress import clean_line, print_safe

if TYPE_CHECKING:
    import pandas

RESAMPLES = 2_000
_SIMULATED = 1_000  # draws of the largest t
_NOTHING, _EQUAL = 1e-12, 1e-9  # shares of a variance, and points, that rounding leaves
_BLOCK = 256  # models
_LEAST = 3  # units: fewer say nothing of others

Matrix = NDArray[np.float64]


def sample_tasks(
    values: Matrix, groups: Sequence[str], seeds: Mapping[int, Matrix] | None = None
) -> tuple[Sample, Matrix]:
    """Return the sample of models (models, tasks) over tasks, and each unit's part of their means (models, units).

    Tasks of a group are resampled together; "" is a task by itself. Names and order of tasks do not matter. Scores by
    seed (seeds, tasks) add the variance over seeds of the mean.
    """
    order = np.lexsort([*values[::-1], *np.sort(values, axis=0)[::-1]])
    values, in_order = values[:, order], [groups[i] or f" {place}" for place, i in enumerate(order)]
    places = {group: number for number, group in enumerate(dict.fromkeys(in_order))}
    numbers = np.array([places[group] for group in in_order])
    clusters = clusters_of(numbers)
    tasks = Scored(values, np.ones(len(order)), metric="accuracy", identity=f"{len(order)} tasks")
    drawn = clusters.unbiased(resample_together([tasks], clusters=clusters, resamples=RESAMPLES)[0])
    scores = [np.array([mean]) for mean in values.mean(axis=1)]
    for place, by_seed in (seeds or {}).items():
        scores[place] = scores[place] + by_seed.mean(axis=1) - by_seed.mean()
    of = sample(scores, drawn, round(clusters.effective))
    units = np.zeros((len(values), len(places)))
    np.add.at(units.T, numbers, (values - values.mean(axis=1, keepdims=True)).T)
    return of, units


def largest_t(mean: Matrix, noise: Matrix, variance: Matrix) -> tuple[Matrix, Matrix]:
    """Return each model's largest t (models,) over another one, and the largest t of another one over it; at least 0.

    Pairs are looked at once, from the larger mean, in blocks that stay in the processor's cache.

    Args:
        mean: The means (models,).
        noise: Vectors (models, any), whose squared distances are variances of differences.
        variance: Further variances (models,), which add up.
    """
    order = np.argsort(-mean)
    mean, noise = mean[order], noise[order]
    squares = np.einsum("ij,ij->i", noise, noise)
    nothing, ones = _NOTHING * squares.max(), np.ones((len(mean), 1))
    squares = (squares + variance[order])[:, None]
    # A product of these two is the variance of a difference.
    upper, lower = np.hstack([-2 * noise, squares, ones]), np.hstack([noise, ones, squares])
    lead, lag = np.zeros((2, len(mean)))
    for start in range(0, len(mean), _BLOCK):
        above = slice(start, start + _BLOCK)
        for other in range(start, len(mean), _BLOCK):
            below = slice(other, other + _BLOCK)
            distance = upper[above] @ lower[below].T
            np.maximum(distance, nothing, out=distance)
            t = np.maximum(mean[above, None] - mean[below], 0)
            t *= t
            t /= distance
            np.maximum(lead[above], t.max(axis=1), out=lead[above])
            np.maximum(lag[below], t.max(axis=0), out=lag[below])
    back = np.argsort(order)
    return np.sqrt(lead[back]), np.sqrt(lag[back])


def ranks(
    of: Sample, units: Matrix, compared: Differences
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]:
    """Return the first and last rank (models,) of each, over all it is compared with, and which may be the best.

    Leads are divided by their own errors, and compared with the largest chance lead of equally good models, from a
    parametric bootstrap of the largest t: few units make errors too small by chance (Romano and Wolf 2005).
    """
    simulated, seed_df = np.empty((2, _SIMULATED, len(units))), np.maximum(of.seed_df, 1)
    number, generator = of.pairs_df + 1, np.random.default_rng(0)
    for i in range(_SIMULATED):
        noise = units @ generator.standard_normal((units.shape[1], number))
        mean = noise.mean(axis=1)
        noise -= mean[:, None]
        noise /= np.sqrt(number * (number - 1))
        again = np.zeros(len(mean))
        if of.seed_variance.any():
            # Few seeds can lie close by chance: their true variance is drawn too, as `mcb.best_set` does.
            true = of.seed_variance * seed_df / generator.chisquare(seed_df)
            mean = mean + np.sqrt(true) * generator.standard_normal(len(mean))
            again = true * generator.chisquare(seed_df) / seed_df
        lead, lag = largest_t(mean, noise, again)
        simulated[:, i] = lag, np.maximum(lead, lag)
    over, beside = np.quantile(simulated, 1 - LEVEL, axis=1)
    lead, error = compared.value, compared.error
    first = 1 + (lead > beside * error + _EQUAL).sum(axis=0)
    last = len(lead) - (lead < -beside * error - _EQUAL).sum(axis=0)
    return first, last, ~(lead > over * error + _EQUAL).any(axis=0)


@dataclass(frozen=True, repr=False)
class SecondOpinion:
    """The table of others' scores with intervals over tasks; prints as text.

    Args:
        frame: A row per model with every task: mean, its interval, rank, first and last rank, tied for the best.
        scores: Points (models, tasks) of these models.
        groups: The group of each task, "" for none.
        notes: Sentences on the unit, on unused and missing tasks.
        seeds: Points (seeds, tasks) of models with several seeds.
    """

    frame: pandas.DataFrame
    scores: pandas.DataFrame
    groups: list[str]
    notes: list[str]
    seeds: Mapping[str, Matrix]

    def to_frame(self) -> pandas.DataFrame:
        """Return a row per model, points x100."""
        return self.frame.copy()

    def compare(self, a: str, b: str) -> Comparison:
        for name in (a, b):
            if name not in self.scores.index:
                raise UsageError(f"no model {name!r:.100} with all tasks.{did_you_mean(name, self.scores.index)}")
        seeds = {place: self.seeds[name] for place, name in enumerate((a, b)) if name in self.seeds}
        return compare_models(self.scores.loc[[a, b]], self.groups, seeds)

    def as_dict(self) -> dict[str, Any]:
        return {"of_others": True, "rows": self.frame.reset_index().to_dict("records"), "notes": self.notes}

    def cells(self) -> list[list[str]]:
        f = self.frame
        shown = {
            "Rank": [f"{low}-{high}" if low < high else str(low) for low, high in zip(f.first, f.last, strict=True)],
            "Model": [clean_line(str(name)) + (" *" if tied else "") for name, tied in f.tied.items()],
            "Mean": [f"{mean:.2f}" for mean in f["mean"]],
            "95% over tasks": [interval_text(*ends, ".2f") for ends in zip(f.low, f.high, strict=True)],
        }
        return [[head, *cells] for head, cells in shown.items()]

    def show(self, *, wide: bool = False) -> None:
        print_safe(self._text(None if wide else width_of(sys.stdout)), sys.stdout)

    def _text(self, width: int | None) -> str:
        fields = [Field(head, cells, head != "Model", name=head == "Model") for head, *cells in self.cells()]
        return "\n".join([*folded(self.notes[:1], width), *fitted(fields, width)[0], *folded(self.notes[1:], width)])

    def __str__(self) -> str:
        return self._text(None)

    def latex(self) -> str:
        r"""Return a `table` environment; needs \usepackage{booktabs}."""
        (heads, *lines) = ([escape(cell) for cell in line] for line in zip(*self.cells(), strict=True))
        return fill(
            "table.tex.j2",
            signature="",
            environment="table",
            size="small",
            caption=escape(self.notes[0]),
            notes=escape(" ".join(self.notes[1:])),
            label="tab:second-opinion",
            sides="lrr",
            heads=heads,
            parts=[("", lines)],
        )

    def page(self) -> str:
        (heads, *lines) = zip(*self.cells(), strict=True)
        share, ends = 100 / len(self.frame), zip(self.frame["first"], self.frame["last"], strict=True)
        bars = [(f"{share * (first - 1):.2f}", f"{share * (last - first + 1):.2f}") for first, last in ends]
        rows = [(cells, *bar) for cells, bar in zip(lines, bars, strict=True)]
        style = Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))
        return fill("opinion.html.j2", version=__version__, style=style, heads=heads, rows=rows, notes=self.notes)

    def write(self, out: Path) -> list[Path]:
        """Write second-opinion.md, .csv, .json, .tex and .html."""
        (heads, *lines) = zip(*self.cells(), strict=True)
        table = markdown_table(heads, lines, [head != "Model" for head in heads])
        text = "\n\n".join([self.notes[0], "\n".join(table), *self.notes[1:]])
        content = self.as_dict()
        files = {"md": f"{text}\n", "csv": csv_text(content["rows"]), "json": f"{json.dumps(content, indent=1)}\n"}
        files |= {"tex": self.latex(), "html": self.page()}
        paths = {out / f"second-opinion.{suffix}": of_file for suffix, of_file in files.items()}
        for path, of_file in paths.items():
            write_text(path, of_file)
        return [*paths]


@dataclass(frozen=True)
class Comparison:
    """The difference A - B in points over tasks; `deciding` are groups, or tasks without a group."""

    a: str
    b: str
    difference: float
    low: float
    high: float
    p: float
    tasks: dict[str, float]
    deciding: list[str]

    def __str__(self) -> str:
        interval = interval_text(self.low, self.high, ".2f")
        verdict = f"p = {self.p:.2g}" if self.p < LEVEL else f"undecided: {interval}"
        alone = named(self.deciding) if self.deciding else "none"
        return "\n".join(
            [
                f"Unit: {len(self.tasks)} tasks of others' results; another draw of such tasks.",
                f"{clean_line(self.a)} - {clean_line(self.b)}: {self.difference:+.2f} points ({interval}; {verdict}).",
                f"Without it the verdict would be another: {alone}.",
                *(f"  {difference:+7.2f}  {clean_line(task)}" for task, difference in self.tasks.items()),
            ]
        )


def compare_models(
    scores: pandas.DataFrame, groups: Sequence[str], seeds: Mapping[int, Matrix] | None = None
) -> Comparison:
    """Compare (2, tasks); a task decides if the verdict changes without it, or its group."""
    values = scores.to_numpy()

    def verdict(kept: Sequence[int]) -> Differences:
        by_seed = {place: of_model[:, kept] for place, of_model in (seeds or {}).items()}
        return differences(sample_tasks(values[:, kept], [groups[i] for i in kept], by_seed)[0])

    every = verdict(range(len(groups)))
    units: dict[str, list[int]] = {}
    for i, task in enumerate(scores.columns):
        units.setdefault(groups[i] or str(task), []).append(i)
    deciding = []
    for unit, places in units.items() if len(units) > _LEAST else ():
        without = verdict([i for i in range(len(groups)) if i not in places])
        if (without.p[0, 1] < LEVEL) != (every.p[0, 1] < LEVEL) or without.value[0, 1] * every.value[0, 1] < 0:
            deciding.append(unit)
    by_task = sorted(zip(map(str, scores.columns), values[0] - values[1], strict=True), key=lambda it: -abs(it[1]))
    low, high, p, value = (float(of[0, 1]) for of in (every.low, every.high, every.p, every.value))
    a, b = map(str, scores.index)
    return Comparison(a, b, value, low, high, p, {task: float(of) for task, of in by_task}, deciding)


def second_opinion(
    source: str | Path | pandas.DataFrame, *, tasks: Sequence[str] | str | None = None, grouped: bool = True
) -> SecondOpinion:
    """State the separated ranks of published results, with the noise of another sample of such tasks.

    Args:
        source: A folder of mteb's results, a jsonl of EuroEval's, or a long or wide table (csv, parquet, DataFrame).
        tasks: The tasks of the mean, or a benchmark of mteb's by name; by default all tasks of any model.
        grouped: Resample tasks of a type together if the results state types.

    Returns:
        Mean, interval and rank interval of every complete model, and the set tied for the best.

    Raises:
        MissingError: Nothing can be ranked.
        UsageError: The results can be read in two ways.

    Examples:
        >>> import pandas
        >>> table = pandas.DataFrame({"model": ["a", "b"], "t1": [0.9, 0.2], "t2": [0.8, 0.1], "t3": [0.7, 0.1]})
        >>> second_opinion(table).frame.rank_of.tolist()
        [1, 2]
    """
    import pandas

    wanted = tasks_of_benchmark(tasks) if isinstance(tasks, str) else None
    given = read_published(source, wanted)
    values = given.values if tasks is None else _of_tasks(given.values, wanted or tasks)
    complete = values[values.notna().all(axis=1)]
    lacking = [f"{model} ({named([*row.index[row.isna()]])})" for model, row in values.iterrows() if row.isna().any()]
    if len(complete) < 2:
        common = [*values.columns[values.notna().all()]]
        remedy = f"--tasks '{','.join(common)}' takes those that all have" if common else "no task is in all of them"
        raise MissingError(
            f"fewer than two of {len(values)} models have all {values.shape[1]} tasks, and a mean over other tasks is"
            f" never made; {remedy}."
        )
    groups = [given.groups.get(task, "") if grouped else "" for task in values.columns]
    units = len({group or str(place) for place, group in enumerate(groups)})
    if units < _LEAST:
        raise MissingError(f"{len(groups)} tasks in {units} groups are too few to speak of other tasks; give {_LEAST}.")
    seeds = _by_seed(given, complete)
    places = {place: seeds[model] for place, model in enumerate(complete.index) if model in seeds}
    of, parts = sample_tasks(complete.to_numpy(), groups, places)
    compared = differences(of)
    first, last, tied = ranks(of, parts, compared)
    better = (compared.value < -_EQUAL).sum(axis=1)
    error, quantile = own_noise(of)
    margin = np.hypot(error, np.sqrt(of.seed_variance)) * quantile
    low, high = with_width(of.value - margin, of.value + margin)
    frame = pandas.DataFrame(
        {"mean": of.value, "low": low, "high": high, "rank_of": 1 + better, "first": first, "last": last, "tied": tied},
        index=complete.index,
    )
    order = np.lexsort([np.arange(len(frame)), 1 + better])
    within = _repeated(given.within.loc[complete.index, complete.columns], of, seeds)
    notes = [_unit(groups, of, within), *_verdicts(frame.iloc[order], compared, order), *given.notes]
    if lacking:
        notes.append(f"n/a, for want of tasks: {named(lacking, '; ')}.")
    return SecondOpinion(frame.iloc[order], complete, groups, notes, seeds)


def _by_seed(given: Published, complete: pandas.DataFrame) -> dict[str, Matrix]:
    if given.by_seed is None:
        return {}
    rows = given.by_seed[[*complete.columns]].dropna()
    each = {str(model): of.to_numpy() for model, of in rows.groupby(level="model") if model in complete.index}
    return {model: of for model, of in each.items() if len(of) > 1}


def _repeated(within: pandas.DataFrame, of: Sample, seeds: Mapping[str, Matrix]) -> str:
    known = within.columns[within.notna().all()]
    parts = [f"for other seeds of {len(seeds)} of {len(within)} models"] if seeds else []
    if len(known):
        of_mean = within[known].sum(axis=1).to_numpy() / within.shape[1] ** 2
        pairs = np.triu(of.between > 0, 1)
        share = ((of_mean[:, None] + of_mean)[pairs] / of.between[pairs]) if pairs.any() else np.zeros(1)
        parts.append(
            f"they contain the noise within a task, known from repeats on {len(known)} of {within.shape[1]} tasks:"
            f" at most {100 * min(float(np.median(share)), 1):.1f}% of the variance of a difference (median)"
        )
    return ", and ".join(parts) or "nothing is known within a task"


def _of_tasks(values: pandas.DataFrame, tasks: Iterable[str]) -> pandas.DataFrame:
    for task in tasks:
        if task not in values:
            raise UsageError(f"no model has a score on {task!r:.100}.{did_you_mean(task, map(str, values.columns))}")
    return values[sorted(set(tasks))].dropna(how="all")


def _unit(groups: Sequence[str], of: Sample, within: str) -> str:
    kinds = sorted({group for group in groups if group})
    by = f", those of one type drawn together ({named(kinds)}: they count as {of.pairs})" if kinds else ""
    noise = contained("tasks", seeds="" if np.any(of.seed_variance) else "one result of each", tuning=NOT_STATED)
    return (
        f"Others' results, not ours. Unit: {len(groups)} tasks{by}; intervals hold for another draw of such tasks, and"
        f" {within}. {noise} Higher counts as better."
    )


def _verdicts(frame: pandas.DataFrame, compared: Differences, order: NDArray[np.intp]) -> list[str]:
    p = compared.p[np.ix_(order, order)]
    apart, pairs = p < LEVEL, len(p) * (len(p) - 1) // 2
    neighbours = int((~apart.diagonal(1)).sum())
    return [
        f"* {int(frame.tied.sum())} of {len(frame)} may be the best: with 95% confidence the best is among them.",
        "Each range of ranks contains the model's own with 95% confidence, over all that it is compared with.",
        f"Of {len(p) - 1} neighbours {neighbours} are not separated, and of {pairs} pairs"
        f" {100 * np.triu(apart, 1).sum() / pairs:.1f}% are (each by itself, p < {LEVEL}).",
    ]


def split_names(names: str | None) -> list[str] | str | None:
    """Split at commas, except in a benchmark's name, as MTEB(eng, v2)."""
    if names is not None and re.fullmatch(r"[^,(]+\(.*\)", names):
        return names
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]
