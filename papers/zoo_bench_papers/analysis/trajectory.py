"""Alignment and uniformity during training, several methods in a chart (PT-BERT figure 3), from records.

Runs log both on the development pairs at each evaluation, a point of the chart.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmark.records.record import Record
from zoo.errors import MissingError
from zoo_bench_papers.analysis.result import COLOURS, Analysis, AnalysisTable, Points, Scatter

# Fewer evaluations of a training do not show its course.
FEWEST = 5
KINDS = ("alignment", "uniformity")
_COLUMNS: dict[str, int | None] = {"Method": None, "Seed": None, "Step": None}


def courses(records: list[Record]) -> dict[object, dict[int, dict[str, float]]]:
    by_seed: dict[object, dict[int, dict[str, float]]] = {}
    for record in records:
        training = record["training"]
        if training is None:
            continue
        curves = {**training.get("dev_curves", {}), "dev": training.get("dev_scores", {})}
        course: dict[int, dict[str, float]] = {}
        for kind, curve in curves.items():
            for step, value in curve.items():
                if value is not None:
                    course.setdefault(int(step), {})[kind] = value
        complete = {step: values for step, values in sorted(course.items()) if set(KINDS) <= set(values)}
        if complete:
            by_seed[record["seed"]] = complete
    return dict(sorted(by_seed.items(), key=lambda item: (item[0] is None, item[0])))


def analyse_trajectory(rows: Mapping[str, list[Record]]) -> Analysis:
    """Table and chart of all evaluations; raises MissingError for a row with fewer than FEWEST."""
    lines: list[dict[str, object]] = []
    ends: list[dict[str, object]] = []
    drawn: list[Points] = []
    for number, (name, records) in enumerate(rows.items()):
        of_seed = courses(records)
        if not of_seed:
            raise MissingError(f"{name}: its records hold no alignment and uniformity of a training.")
        for seed, course in of_seed.items():
            if len(course) < FEWEST:
                longest = max(course, default=0)
                base = name.split(" [")[0].split(":eval_every=")[0]
                raise MissingError(
                    f"{name}, seed {seed}: {len(course)} evaluations of {longest} steps, and a course needs {FEWEST};"
                    f" measure it with more, as in --methods {base}:eval_every={max(1, longest // 40)}."
                )
            row = {"Method": name, "Seed": seed}
            lines += [{**row, "Step": step, **_cells(values)} for step, values in course.items()]
            best = max(course, key=lambda step: course[step].get("dev", 0.0))
            for what, step in (("first", min(course)), ("best dev score", best), ("last", max(course))):
                ends.append({**row, "Evaluation": what, "Step": step, **_cells(course[step])})
            label = name if len(of_seed) == 1 else f"{name}, seed {seed}"
            x, y = ([values[kind] for values in course.values()] for kind in ("uniformity", "alignment"))
            steps = [f"{label}, step {step}" for step in course]
            drawn.append(Points(label, x, y, steps, colour=COLOURS[number % len(COLOURS)]))
    numbers: dict[str, int | None] = {"Alignment": 4, "Uniformity": 4, "Dev score": 2}
    columns = {**_COLUMNS, "Evaluation": None, **numbers}
    tables = [
        AnalysisTable("trajectory", "Where training begins, is best and ends", columns, ends),
        AnalysisTable("trajectory-points", "Every evaluation", {**_COLUMNS, **numbers}, lines, data_only=True),
    ]
    trainings = [record["training"] for records in rows.values() for record in records if record["training"]]
    tasks = ", ".join(sorted({dev for training in trainings if (dev := training.get("dev_task"))}))
    about = [
        f"On the development pairs of {tasks} at each evaluation of a training. Alignment: mean squared distance of the"
        " pairs scored above 4. Uniformity: log mean exp(-2 d²) over all pairs of sentences. Vectors of length 1, as"
        " they are at test; lower is better for both.",
    ]
    figure = Scatter("trajectory", "Alignment and uniformity during training", "uniformity", "alignment", drawn)
    conditions = {"rows": {name: records[0]["row_key"] for name, records in rows.items()}}
    return Analysis("trajectory", "Alignment and uniformity during training", about, tables, [figure], conditions)


def _cells(values: Mapping[str, float]) -> dict[str, object]:
    return {"Alignment": values["alignment"], "Uniformity": values["uniformity"], "Dev score": values.get("dev")}
