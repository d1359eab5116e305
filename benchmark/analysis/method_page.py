"""Makes an HTML page about one method: its recipe, all its scores, and their conditions."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from benchmark.analysis.method_pairs import pairs_of_row
from benchmark.leaderboard import published
from benchmark.leaderboard.about import encoding_of, overlaps
from benchmark.leaderboard.columns import dev_points, number
from benchmark.leaderboard.conditions import conditions, environment_lines
from benchmark.leaderboard.page import render
from benchmark.leaderboard.rows import About, Row, Table
from benchmark.leaderboard.values import score_text, seed_order
from benchmark.records.folder import Records
from benchmark.records.query import PairTexts
from benchmark.records.record import Record, main_score, scores_of
from zoo.recipe import RecipeSpec, split_overrides

_TRAINING = {
    "steps": "Steps",
    "sentences": "Sentences",
    "seconds": "Seconds",
    "sentences_per_second": "Sentences/s",
    "final_loss": "Last loss",
    "best_step": "Best step",
    "peak_memory_mb": "Peak MB",
}
_ENCODING = {
    "texts_per_second": "Texts/s",
    "tokens_per_second": "Tokens/s",
    "truncated": "Truncated texts",
    "peak_memory_mb": "Peak memory while encoding, MB",
}


def method_page(
    title: str,
    tables: Sequence[Table],
    records: Sequence[Record],
    recipes: Mapping[str, RecipeSpec],
    store: Records,
    texts: PairTexts,
    spec: RecipeSpec | None = None,
    show_texts: bool = True,
) -> str:
    """Return the HTML page of the method of these records; the tables contain all methods, for the ranks.

    `spec` is its recipe, if that is one of `recipes`; `store` has the pair scores and `texts` the texts of the pairs,
    which the page leaves out without `show_texts`.
    """
    by_row: dict[tuple[str, str], list[Record]] = {}
    for record in sorted(records, key=lambda r: str(r["started"])):
        by_row.setdefault((record["method"]["name"], record["row_key"]), []).append(record)
    rows: list[dict[str, Any]] = []
    drawn: list[dict[str, Any]] = []
    for key, mine in by_row.items():
        standings = [(table, row) for table in tables for row in table.rows if (row.identity, row.row_key) == key]
        if not standings:
            continue  # a row without a score, which a measured row replaced
        tasks = [task for table, _ in standings for task in table.suite.tasks]
        rows.append({**_row(standings, mine, recipes), "pairs": pairs_of_row(mine, tasks, store, texts, show_texts)})
        for curve in _curves(mine, rows[-1]["dev_task"]):
            rows[-1]["curves"].append({**curve, "number": len(drawn)})
            drawn.append(curve)
    summary = f"{spec.summary}. {spec.paper}" if spec else ""
    scripts = ("common.js", "zoom.js", "plots.js", "method.js")
    return render("method.html.j2", scripts, title=title, summary=summary, rows=rows, data={"curves": drawn})


def _row(
    standings: Sequence[tuple[Table, Row]], records: list[Record], recipes: Mapping[str, RecipeSpec]
) -> dict[str, object]:
    first = records[0]
    table, row = standings[0]
    trainings = {r["seed"]: r["training"] for r in records if r["training"]}
    training: Mapping[str, object] = next(iter(trainings.values()), {})
    known = [name for name in _TRAINING if any(one.get(name) is not None for one in trainings.values())]
    return {
        "name": row.name,
        "conditions": f"{row.about['setting']}: {conditions(row)}",
        "trial": table.partial,
        "suites": [_suite(table, row, records) for table, row in standings],
        "method": [("Class", first["method"]["class"]), *_sources(first)],
        "recipe": _recipe(first, recipes),
        "training_header": ["Seed", *(_TRAINING[name] for name in known)],
        "training": [[_text(seed), *(_text(one.get(name)) for name in known)] for seed, one in seed_order(trainings)],
        "curves": [],
        "dev_task": f"{training.get('dev_task')} dev" if training.get("dev_task") else "Dev score",
        "facts": _facts(table, row, records, training),
        "coverage": _coverage(records),
        "commands": list(dict.fromkeys(shlex.join(r["command"]) for r in records)),
    }


def _curves(records: Sequence[Record], dev_task: str) -> list[dict[str, Any]]:
    """Return the curves logged in training: the dev score and, as in PT-BERT's figure 3, alignment and uniformity."""
    kinds = sorted({name for r in records for name in (r["training"] or {}).get("dev_curves", {})})
    curves = []
    for kind in (None, *kinds):
        points = {
            seed: points for seed, points in seed_order({r["seed"]: dev_points(r, kind) for r in records}) if points
        }
        if any(len(of_seed) > 1 for of_seed in points.values()):
            title = "Dev score" if kind is None else kind.capitalize()
            about = f"{dev_task}, x100" if kind is None else f"of {dev_task}; lower is better"
            rows = [
                {"method": f"seed {seed}", "colour": i, "curves": [{"seed": seed, "points": of_seed}]}
                for i, (seed, of_seed) in enumerate(points.items())
            ]
            curves.append({"title": f"{title} during training", "caption": f"{about}; a line per seed.", "rows": rows})
    return curves


def _suite(table: Table, row: Row, records: list[Record]) -> dict[str, object]:
    scores: dict[str, dict[object, float]] = {}
    metrics = {}
    for record in records:
        if record["status"] == "ok":
            scores.setdefault(record["task"]["name"], {})[record["seed"]] = 100 * main_score(record)
            metrics[record["task"]["name"]] = (scores_of(record)["main_metric"], record["task"]["rows"])
    seeds = [s for s, _ in seed_order({r["seed"]: None for r in records})]
    several = seeds if len(seeds) > 1 else []
    lines = []
    for task in table.suite.tasks:
        by_seed = scores.get(task, {})
        per_seed = [score_text(by_seed[seed]) if seed in by_seed else "n/a" for seed in several]
        lines.append([task, row.values[task].text(), *per_seed, *map(_text, metrics.get(task, (None, None)))])
    lines.append(["Avg.", row.average.text(), *_averages(table, scores, several), "", ""])
    ranked = sum(other.rank is not None for other in table.rows)
    if row.rank is None:
        standing = f"Not ranked: {row.average.reason}."
    else:
        near = ", may truly be the best" if row.mark else ""
        standing = f"Rank {row.rank} of {ranked} in {table.suite.name}{near}."
    return {
        "title": table.suite.title,
        "note": table.suite.note,
        "standing": standing,
        "header": ["Task", "Score x100", *(f"seed {seed}" for seed in several), "Measure", "Rows"],
        "lines": lines,
        "gaps": row.notes,
        "published": [
            f"{published.printed_source(found.line)}: "
            + ", ".join(f"{cell.task} {found.line.text(cell.column)}" for cell in found.cells)
            + f"; {found.verdict()}"
            + (f". Slip: {found.line.row.slip}" if found.line.row.slip else "")
            for found in published.beside_published(dataclasses.replace(table, rows=[row]))
        ],
    }


def _averages(table: Table, scores: Mapping[str, Mapping[object, float]], seeds: Sequence[object]) -> list[str]:
    """Return the mean over the tasks for each seed; n/a where a task lacks that seed."""
    texts = []
    for seed in seeds:
        values = [scores.get(task, {}).get(seed) for task in table.suite.tasks]
        known = [value for value in values if value is not None]
        texts.append(score_text(sum(known) / len(known)) if len(known) == len(values) else "n/a")
    return texts


def _sources(record: Record) -> list[tuple[str, str]]:
    sources = record["method"]["sources"]
    return [
        (name.capitalize(), ", ".join(_short(value) for value in source.values() if value is not None))
        for name, source in sources.items()
        if isinstance(source, Mapping)
    ]


def _recipe(record: Record, recipes: Mapping[str, RecipeSpec]) -> list[list[str]]:
    """Return name, value and origin of the value for every field of the recipe as it was used."""
    base, overrides = split_overrides(record["method"].get("recipe_name", record["method"]["name"]), "report")
    given = recipes[base].parameters if base in recipes else {}
    lines = []
    for name, value in record["method"]["recipe"].items():
        origin = "command line" if name in overrides else "recipe" if name in given else ""
        lines.append([name, _text(value), origin])
    return lines


def _facts(table: Table, row: Row, records: list[Record], training: Mapping[str, Any]) -> list[tuple[str, str]]:
    about = row.about
    facts: list[tuple[str, str]] = [
        ("Transductive", "yes: fitted on the test texts" if about["transductive"] else "no"),
        ("Supervised", "yes: trained on labels" if about["supervised"] else "no"),
        *(
            (name, "not in the records" if value is None else number(value))
            for name, value in (("Dimensions", about["dimensions"]), ("Parameters", about["parameters"]))
        ),
        ("Training", _training_time(about, records)),
        ("Device", about["device"]),
        ("Precision", about["precision"]),
        ("Protocol", _text(about["protocol"])),
    ]
    corpus = training.get("corpus") or {}
    if corpus:
        said = [_short(value) if key == "name" else f"{key} {_short(value)}" for key, value in corpus.items()]
        facts.append(("Trained on", ", ".join(said)))
        facts.append(("Overlap", _overlap(records)))
    encoding = encoding_of(records)
    facts += [(label, _text(value)) for name, label in _ENCODING.items() if (value := encoding.get(name)) is not None]
    extra = {**(training.get("facts") or {}), **next((r["facts"] for r in records if r["facts"]), {})}
    extra = {name: value for name, value in extra.items() if name not in ("dimensions", "parameters")}
    facts += [(name, _text(value)) for name, value in extra.items()]
    facts.append(("Measured", f"{records[0]['started']} to {records[-1]['started']}"))
    facts += [("Environment", line) for line in environment_lines([row])]
    return facts


def _training_time(about: About, records: Sequence[Record]) -> str:
    """Return the training time per seed, and the time of the fits on each task's texts."""

    def seconds(value: float | None) -> str:
        return "a time not in the records" if value is None else f"{number(value)} s"

    parts = [f"{seconds(about['train_seconds'])} per seed"] if any(r["training"] for r in records) else []
    parts += [f"{seconds(about['adapt_seconds'])} per task, on its texts"] if about["transductive"] else []
    return "; ".join(parts) or "none"


def _overlap(records: list[Record]) -> str:
    counts = {task: len(found) for task, found in overlaps(records).items()}
    if not counts:
        return "not in the records"
    found = [f"{task}: {count:,}" for task, count in counts.items() if count]
    if not found:
        return f"none of its sentences is in the texts of the {len(counts)} tasks looked at"
    return f"test texts that are in it: {', '.join(found)}"


def _coverage(records: list[Record]) -> list[list[str]]:
    found = {r["task"]["name"]: said for r in records if (said := r.get("coverage"))}
    return [
        [task, _text(one["texts"]), _text(one["covered"]), ", ".join(one["missing"])] for task, one in found.items()
    ]


def _text(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, bool | list | dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int) or (isinstance(value, float) and abs(value) >= 1000):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _short(value: object) -> str:
    """Return a value as text; a sha256 is shortened to its beginning."""
    text = _text(value)
    return f"{text[:12]}…" if len(text) == 64 else text
