"""Reads others' scores: mteb's result folders, EuroEval's lines, long and wide tables."""

from __future__ import annotations

import importlib.util
import json
import logging
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.errors import MissingError, UsageError, ZooError, did_you_mean
from zoo.extras import optional
from zoo.files import iterate_lines, read_json
from zoo.progress import clean_line

if TYPE_CHECKING:
    import pandas

_MODEL, _TASK = ("model", "model_name", "name", "models"), ("task", "task_name", "dataset")
_SCORE, _GROUP = ("score", "main_score", "value"), ("type", "task_type", "group", "source")
_REVISION, _SEED = ("revision", "model_revision"), ("seed",)
# Columns of public tables that are no task: means of tasks, ranks, sizes.
_NO_TASK = re.compile(
    r"(?i)^(avg|average|mean|overall|rank|borda|zero.?shot|(number of |n_)?param\w*|size|(embedding )?dim\w*|"
    r"(max )?tokens|memory|year|seeds?)\b"
)
_LINK = re.compile(r"^\[([^\]]+)\]\(.*\)$")
_NAMED = 5


@dataclass(frozen=True)
class Published:
    """Scores of others in points (models, tasks), NaN if absent; each task's group, and notes.

    `by_seed` is ((model, seed), tasks). `within` (models, tasks) is the variance of the mean over a score's repeats.
    """

    values: pandas.DataFrame
    groups: Mapping[str, str]
    notes: tuple[str, ...]
    by_seed: pandas.DataFrame | None
    within: pandas.DataFrame


@dataclass(frozen=True)
class TaskOf:
    type: str
    splits: frozenset[str]
    subsets: frozenset[str]


def tasks_of_benchmark(name: str) -> dict[str, TaskOf]:
    """Raises UsageError for an unknown benchmark of mteb, MissingError without mteb."""
    mteb = optional("mteb", "mteb", f"the benchmark {name}")
    known = {benchmark.name: benchmark for benchmark in mteb.get_benchmarks()}
    if name not in known:
        raise UsageError(f"mteb has no benchmark {name!r:.100}.{did_you_mean(name, known)}")
    return {
        task.metadata.name: TaskOf(task.metadata.type, frozenset(task.eval_splits), frozenset(task.hf_subsets))
        for task in known[name].tasks
    }


def read_published(source: str | Path | pandas.DataFrame, wanted: Mapping[str, TaskOf] | None = None) -> Published:
    """Read a folder of mteb's, a jsonl file of EuroEval's, or a table (csv, tsv, parquet, DataFrame).

    A benchmark's tasks limit mteb's folders to their splits and subsets. Raises MissingError if nothing is read,
    UsageError for an ambiguous table.
    """
    import pandas

    notes: list[str] = []
    if isinstance(source, pandas.DataFrame):
        rows = _from_table(source, notes)
    elif (path := Path(source)).is_dir():
        rows = _from_mteb(path, notes, wanted)
    elif not path.is_file():
        raise MissingError(f"there is no {path}; name a folder of mteb's results, a table (csv, parquet) or a jsonl.")
    elif path.suffix == ".jsonl":
        rows = _from_euroeval(path)
    else:
        rows = _from_table(_table(path), notes)
    if wanted is not None and not rows.empty:
        rows = rows.assign(group=[wanted[task].type if task in wanted else "" for task in rows["task"]])
    return _joined(rows, notes)


def named(names: Sequence[object], mark: str = ", ") -> str:
    """Return the first of some names and the number of others.

    Examples:
        >>> named([*"abcdefg"])
        'a, b, c, d, e and 2 more'
    """
    more = len(names) - _NAMED
    return mark.join(clean_line(str(name)) for name in names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _table(path: Path) -> pandas.DataFrame:
    import pandas

    try:
        if path.suffix == ".parquet":
            return pandas.read_parquet(path)
        with path.open(encoding="utf-8-sig") as file:
            head, first = file.readline(), file.readline()
        mark = max(",;\t", key=head.count)
        # Where commas are decimal, columns are parted by semicolons.
        comma = mark == ";" and re.search(r"\d,\d", first) is not None
        return pandas.read_csv(path, sep=mark, decimal="," if comma else ".")
    except (ValueError, OSError) as error:
        raise UsageError(f"{path} is no table of csv, tsv or parquet: {clean_line(str(error)):.200}.") from error


def _from_table(frame: pandas.DataFrame, notes: list[str]) -> pandas.DataFrame:
    import pandas

    if frame.index.names != [None] or not pandas.api.types.is_numeric_dtype(frame.index):
        frame = frame.reset_index(names=None if frame.index.names != [None] else "model")
    frame = frame.rename(columns=str)
    names = {column.strip().lower().replace(" ", "_"): column for column in frame.columns}

    def column(of: tuple[str, ...]) -> str | None:
        return next((names[name] for name in of if name in names), None)

    model, task, score, group, revision, seed = map(column, (_MODEL, _TASK, _SCORE, _GROUP, _REVISION, _SEED))
    known = [name for name in (model, task, score, group, revision, seed) if name is not None]
    if task is not None and score is not None and model is not None:
        places = {model: "model", task: "task", score: "score", group: "group", revision: "revision", seed: "seed"}
        long = frame.rename(columns={old: new for old, new in places.items() if old is not None})
    else:
        kind, key = ("task", task) if task is not None and model is None else ("model", model)
        if key is None:
            texts = [name for name in frame.columns if not pandas.api.types.is_numeric_dtype(frame[name])]
            key = texts[0] if texts else None
        if key is None:
            raise UsageError(f"the table has no column of models; call it 'model'. Its columns: {named([*names])}.")
        keys: dict[str, str] = {
            key: kind,
            **({revision: "revision"} if revision else {}),
            **({group: "group"} if group else {}),
            **({seed: "seed"} if seed else {}),
        }
        frame = frame.rename(columns=keys)
        others = [name for name in frame.columns if name not in keys.values() and not _NO_TASK.match(name.strip())]
        tasks = [name for name in others if frame[name].dtype != bool and _numbers(frame[name]).notna().mean() >= 0.5]
        ids = [name for name in frame.columns if name in keys.values()]
        long = frame.melt(ids, tasks, "model" if kind == "task" else "task", "score")
        known = [*keys, *tasks]
    if unused := sorted(set(names.values()) - set(known)):
        notes.append(f"Not used: the columns {named(unused)}.")
    long = long.assign(score=_numbers(long["score"])).dropna(subset=["score"])
    return long.assign(model=[_LINK.sub(r"\1", str(name).strip()) for name in long["model"]])


def _numbers(column: pandas.Series[Any]) -> pandas.Series[Any]:
    import pandas

    return pandas.to_numeric(column, errors="coerce")


def _from_euroeval(path: Path) -> pandas.DataFrame:
    """Read both forms of EuroEval; a data set's first metric is its score."""
    import pandas

    rows: list[dict[str, Any]] = []
    metrics: dict[str, str] = {}
    for number, line in enumerate(iterate_lines(path), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            if "results" in entry:
                about, model, total = entry, entry["model"], entry["results"]["total"]
            else:
                about, model = entry["eval_library"]["additional_details"], entry["model_info"]["name"]
                results = entry["evaluation_results"]
                total = {each["evaluation_name"]: each["score_details"]["score"] for each in results}
            metric = next(name for name in total if name.startswith("test_") and not name.endswith("_se"))
            row = {"model": model, "task": about["dataset"], "group": about["task"], "score": float(total[metric])}
            raw = entry["results"].get("raw") if "results" in entry else None
            row["within"] = _within(row["score"], (raw.get("test") if isinstance(raw, dict) else raw) or [])
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
            raise UsageError(f"line {number} of {path} is no result of EuroEval; take it out.") from error
        if metrics.setdefault(row["task"], metric) != metric:
            raise UsageError(
                f"{path} scores {row['task']} by {metrics[row['task']]} and, in line {number}, by {metric};"
                " leave the lines of one in it."
            )
        rows.append(row | {"percent": True})
    return pandas.DataFrame(rows)


def _from_mteb(folder: Path, notes: list[str], wanted: Mapping[str, TaskOf] | None) -> pandas.DataFrame:
    """Read files MODEL/REVISION/TASK.json: the mean over subsets of the test split, else of all splits.

    A benchmark's tasks have the mean over their subsets and splits; an incomplete file has no score.
    """
    import pandas

    rows: list[dict[str, Any]] = []
    damaged: list[str] = []
    splits: list[str] = []
    for path in sorted(folder.glob("**/*.json")):
        if path.name == "model_meta.json" or len(path.relative_to(folder).parts) < 3:
            continue
        if wanted is not None and path.stem not in wanted:
            continue
        try:
            result = read_json(path)
            if "mteb_dataset_name" in result:
                result = _converted(path)
            scores = result["scores"]
            used = {"test": scores["test"]} if "test" in scores else scores
            if wanted is not None and (of := wanted.get(str(result["task_name"]))):
                used = {
                    split: [e for e in scores.get(split, ()) if e["hf_subset"] in of.subsets] for split in of.splits
                }
                if any(len(entries) < len(of.subsets) for entries in used.values()):
                    continue
            parts = [entry for entries in used.values() for entry in entries]
            values = [float(entry["main_score"]) for entry in parts]
            row = {"task": str(result["task_name"]), "score": sum(values) / len(values)}
            repeats = [entry.get("scores_per_experiment") or [] for entry in parts]
            row["within"] = sum(map(_within, values, repeats)) / len(values) ** 2
        except (ZooError, ImportError, KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError):
            damaged.append(str(path.relative_to(folder)))
            continue
        splits += [str(row["task"])] if len(used) > 1 and wanted is None else []
        rows.append(row | {"model": path.parts[-3].replace("__", "/", 1), "revision": path.parts[-2], "percent": False})
    if damaged:
        notes.append(f"Not read, since they are no results of mteb, or old ones without mteb here: {named(damaged)}.")
    if splits:
        notes.append(f"The mean over several splits is the score of {named(sorted(set(splits)))}.")
    types = _types() if rows and wanted is None else {}
    return pandas.DataFrame([row | {"group": types.get(row["task"], "")} for row in rows])


def _within(score: float, repeats: Sequence[Mapping[str, Any]]) -> float:
    """Return the variance of the mean over repeats, NaN unless their mean is the score."""
    for measure in repeats[0] if len(repeats) > 1 else ():
        values = [repeat.get(measure) for repeat in repeats]
        if all(isinstance(value, int | float) for value in values):
            # EuroEval has repeats in 0..1 of a score in points.
            for scale in (1, 100):
                points = scale * np.array(values, dtype=float)
                if math.isclose(points.mean(), score, rel_tol=1e-4):
                    return float(points.var(ddof=1) / len(points))
    return math.nan


def _converted(path: Path) -> dict[str, Any]:
    """A result from before mteb 1.11, as mteb itself converts it."""
    import mteb

    # It warns of each old name of a measure.
    logging.getLogger("mteb").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = mteb.TaskResult.from_disk(path)
    return {"task_name": result.task_name, "scores": result.scores}


def _types() -> dict[str, str]:
    """Read types from the installed mteb's folders; its import takes seconds."""
    spec = importlib.util.find_spec("mteb")
    roots = spec.submodule_search_locations or () if spec else ()
    files = [path for root in roots for path in Path(root, "descriptive_stats").glob("**/*.json")]
    return {path.stem: path.parent.name for path in files}


def _joined(rows: pandas.DataFrame, notes: list[str]) -> Published:
    if rows.empty:
        raise MissingError(
            "there are no scores of others: a folder has MODEL/REVISION/TASK.json, a table model, task and score; our"
            " own records are read by `zoo-bench leaderboard FOLDER`."
        )
    rows = rows.assign(model=rows["model"].astype(str), task=rows["task"].astype(str))
    if "revision" in rows:
        revisions = rows.assign(revision=rows["revision"].astype(str))
        several = {
            str(model): sorted(of_model.unique())
            for model, of_model in revisions.groupby("model")["revision"]
            if of_model.nunique() > 1
        }
        if several:
            each = [f"{model} ({named(of_model)})" for model, of_model in several.items()]
            notes.append(f"Each revision is a row, of models with several: {named(each)}.")
            here = rows["model"].isin([*several])
            rows.loc[here, "model"] += "@" + revisions.loc[here, "revision"].str[:12]
    if "seed" in rows:
        rows["seed"] = rows["seed"].astype(str)
    measured = ["model", "task", *(["seed"] if "seed" in rows else [])]
    rows = rows.drop_duplicates([*measured, "score"])
    if (twice := rows.duplicated(measured)).any():
        first = rows[twice].iloc[0]
        raise UsageError(
            f"{clean_line(first['model'])} has several scores on {clean_line(first['task'])}; keep one row for each"
            " model and task, or tell its rows apart in a column 'revision' or 'seed'."
        )
    groups = {}
    if "group" in rows:
        stated = rows[rows["group"].notna() & (rows["group"] != "")]
        if (stated.groupby("task")["group"].nunique() > 1).any():
            notes.append("Not used: the groups of tasks, since a task has several.")
        else:
            groups = {task: str(group) for task, group in zip(stated["task"], stated["group"], strict=True)}
    values = rows.groupby(["model", "task"])["score"].mean().unstack().astype(float)
    percent = set(rows.loc[rows["percent"], "task"]) if "percent" in rows else set()
    scales = _scales(values, percent, notes)
    by_seed = rows.pivot(index=["model", "seed"], columns="task", values="score") * scales if "seed" in rows else None
    within = rows.assign(within=rows.get("within", math.nan)).groupby(["model", "task"])["within"].first().unstack()
    return Published(values * scales, groups, tuple(notes), by_seed, within * [scale**2 for scale in scales])


def _scales(values: pandas.DataFrame, percent: set[str], notes: list[str]) -> list[float]:
    """Return factors to points: 100, or 1 for scores beyond 1 or declared percent."""
    sizes = values.abs()
    large = [task for task in values if task in percent or sizes[task].max() > 1]
    for task in large:
        of = sizes[task].dropna()
        small, others = of[(of > 0) & (of <= 1)], of[of > 1]
        if (of > 100).any():
            raise UsageError(
                f"{named([task])} has {of.max():g} for {named([of.idxmax()])}, which is no score within -100 and 100;"
                " take the column out."
            )
        if task not in percent and ((small * 100 >= others.min()) & (small * 100 <= others.max())).any():
            raise UsageError(
                f"{named([task])} mixes 0..1 with 0..100 ({small.max():g} for {named([small.idxmax()])}, and"
                f" {others.max():g} for {named([others.idxmax()])}); write all of its scores in one scale."
            )
    if large and len(large) < values.shape[1] and not percent:
        notes.append(f"Taken as 0..100 among tasks in 0..1: {named(large)}.")
    return [1.0 if task in large else 100.0 for task in values]
