"""`zoo-bench export`: an encoder that a run trained, as a sentence-transformers folder with a model card."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from benchmark.cli.options import load_plugins, plugin_option, results_option
from benchmark.leaderboard.markdown import markdown_row, markdown_text
from benchmark.records.query import label, row_named
from benchmark.records.schema import Record, Training, main_score, scores_of
from benchmark.records.store import Records, read_records
from zoo.errors import MissingError, UsageError
from zoo.progress import print_safe
from zoo.recipe import all_recipes, split_overrides


def export_encoder(method: str, folder: Path, results: Path, seed: int | None = None) -> None:
    """Write the encoder of a measured method (its name, or its label as `compare` takes it) to a new folder.

    Without a seed, the first one. Raises MissingError where the results hold no such encoder, UsageError where
    sentence-transformers cannot express it.
    """
    store = Records(results)
    row = [record for record in row_named(read_records(store), method, results) if record["status"] == "ok"]
    if not row:
        raise MissingError(f"{method!r} has no score in {results}; run it first.")
    seeds = sorted({record["seed"] for record in row if record["seed"] is not None})
    if seed is not None and seed not in seeds:
        there = f"there are {', '.join(map(str, seeds))}" if seeds else "it depends on none"
        raise MissingError(f"{method!r} has no seed {seed} in {results}: {there}.")
    chosen = seeds[0] if seed is None and seeds else seed
    mine = [record for record in row if record["seed"] == chosen]
    name = label(mine) + ("" if chosen is None else f", seed {chosen}")
    if not any(record["training"] for record in mine):
        raise UsageError(f"{name} learned nothing: its backbone is all there is.")
    recipe_name = mine[0]["method"]["name"]
    place = store.encoder_folder(recipe_name, mine[0]["encoder_key"])
    if not (place / "encoder").is_dir():
        raise MissingError(f"{place} is gone, though {results} has scores of it; run {recipe_name} again elsewhere.")
    from zoo.formats.export import export
    from zoo.saved import load

    spec = all_recipes().get(split_overrides(recipe_name, "export")[0])
    says = (place / "encoder" / "method.json").is_file()
    encoder = load(place, method=None if says or spec is None else spec.method)
    export(encoder, folder, card=model_card(folder.resolve().name, mine))
    print_safe(f"written: {folder} ({name})", sys.stdout)


def model_card(name: str, records: Sequence[Record]) -> str:
    """Return the model card: use, method, settings, training and scores, from the records of one encoder."""
    first = records[0]
    method = first["method"]["name"]
    training = next(r["training"] for r in records if r["training"])
    spec = all_recipes().get(split_overrides(method, "export")[0])
    source = f"{spec.summary} ({spec.paper})" if spec and spec.paper else (spec.summary if spec else "")
    seed = "" if first["seed"] is None else f", seed {first['seed']}"
    lines = [
        "---",
        "library_name: sentence-transformers",
        "pipeline_tag: sentence-similarity",
        "tags: [sentence-transformers, sentence-similarity, feature-extraction, zoo-bench]",
        "---",
        f"# {markdown_text(name)}",
        "",
        f"Method `{method}`{seed}: {source}. Made by zoo-bench {first['version']}.",
        "",
        "```python",
        "from sentence_transformers import SentenceTransformer",
        "",
        f'vectors = SentenceTransformer("{name}").encode(["A small dog runs.", "A puppy is running."])',
        "```",
        "",
        "## Training",
        "",
        *(f"- {markdown_text(f'{key}: {value}')}" for key, value in _trained(training).items()),
        "",
        "## Settings",
        "",
        *(f"- {key}: {value}" for key, value in first["method"]["recipe"].items()),
        "",
        f"## Scores (x100, {first['precision']})",
        "",
        "| Task | Metric | Score |",
        "|:--|:--|--:|",
        *(_scored(record) for record in records),
        "",
        "The scores are of the encoder as zoo-bench measured it. Its sentence-transformers form gave the same vectors",
        "for eight sentences when it was written.",
        "",
    ]
    return "\n".join(lines)


def _scored(record: Record) -> str:
    metric, main = scores_of(record)["main_metric"], main_score(record)
    return markdown_row([record["task"]["name"], metric, f"{100 * main:.2f}"])


def _trained(training: Training) -> dict[str, Any]:
    corpus = training.get("corpus") or {}
    size = next((f"{corpus[unit]:,} {unit}" for unit in ("sentences", "pairs") if unit in corpus), None)
    said = {
        "text": f"{size} of {corpus['name']} (sha256 {corpus['sha256']})" if size else None,
        "steps": training.get("steps"),
        "checkpoint": f"step {training['best_step']}, best on {training['dev_task']}"
        if training.get("best_step") and training.get("dev_task")
        else None,
        "seconds": training.get("seconds"),
    }
    return {key: value for key, value in said.items() if value}


@click.command("export")
@click.argument("method")
@click.argument("folder", type=click.Path(path_type=Path))
@results_option
@click.option("--seed", type=click.IntRange(0), help="Which of the trained ones [default: the first].")
@plugin_option
def command(method: str, folder: Path, results: Path, seed: int | None, plugins: tuple[Path, ...]) -> None:
    """Write a trained METHOD as a new sentence-transformers FOLDER with a model card."""
    load_plugins(plugins)
    export_encoder(method, folder, results, seed)
