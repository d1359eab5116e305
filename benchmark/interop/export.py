"""Writes a trained encoder as a sentence-transformers folder with a model card, here or on the hub."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

import yaml

from benchmark.data.catalog import catalog
from benchmark.interop.results import card_data
from benchmark.records.folder import Records, read_records
from benchmark.records.names import plugins_of, printed_names, recipe_of, short_name
from benchmark.records.query import label, row_named
from benchmark.records.record import Record, TrainingPart, main_score, scores_of
from benchmark.report.conditions import recipe_of_method
from benchmark.report.links import paper_name
from benchmark.report.markdown import code_span, markdown_row, markdown_text
from zoo.errors import MissingError, UsageError, ZooError
from zoo.paths import is_dir, user_path
from zoo.progress import without_orders
from zoo.recipes import RecipeSpec, given_recipes
from zoo.selection import BUNDLED, MADE


@dataclass(frozen=True)
class Exported:
    name: str
    folder: Path
    url: str | None = None


def export_encoder(
    method: object,
    folder: Path,
    results: Path,
    *,
    seed: int | None = None,
    licence: str | None = None,
    language: str | None = None,
    push_to_hub: str | None = None,
    private: bool = False,
    about: str = "",
) -> Exported:
    """Write the encoder of a measured row to a new folder; without a card for a zoo Encoder or a folder (./FOLDER).

    Default seed: the first. `licence` and `language` go into the card if the base model's card lacks them, `about` at
    its head. Raises MissingError without such an encoder, UsageError if sentence-transformers cannot express it,
    ZooError if the hub refuses it.
    """
    if private and push_to_hub is None:
        raise UsageError("--private goes with --push-to-hub OWNER/NAME: a folder on this machine is yours alone.")
    if isinstance(method, str) and not ("/" in method and is_dir(user_path(method))):
        name = _export_row(method, folder, results, seed, licence, language, about, push_to_hub)
    elif named := [key for key, value in (("seed", seed), ("licence", licence), ("language", language)) if value]:
        raise UsageError(f"--{named[0]} is for a row of a results folder; {method!s:.100} is written as it is.")
    else:
        name = _export_object(method, folder)
    return Exported(name, folder, push_to_hub and push_folder(folder, push_to_hub, private=private))


def _export_object(given: object, folder: Path) -> str:
    from zoo.api import load
    from zoo.encoder import Encoder
    from zoo.formats.export import write_sentence_transformers

    encoder = load(given) if isinstance(given, str | Path) else given
    if not isinstance(encoder, Encoder):
        raise UsageError(f"{type(given).__name__} is no zoo Encoder; give export that, a folder, or the name of a row.")
    write_sentence_transformers(encoder, folder)
    return Path(given).name if isinstance(given, str | Path) else type(encoder).__name__


def _export_row(
    method: str,
    folder: Path,
    results: Path,
    seed: int | None,
    licence: str | None,
    language: str | None,
    about: str = "",
    repository: str | None = None,
) -> str:
    store = Records(results)
    records = read_records(store)
    row = [record for record in row_named(records, method, results) if record["status"] == "ok"]
    if not row:
        raise MissingError(f"{method!r} has no score in {results}; run it first.")
    seeds = sorted({record["seed"] for record in row if record["seed"] is not None})
    if seed is not None and seed not in seeds:
        there = f"there are {', '.join(map(str, seeds))}" if seeds else "it depends on none"
        raise MissingError(f"{method!r} has no seed {seed} in {results}: {there}.")
    chosen = seeds[0] if seed is None and seeds else seed
    trained = [record for record in row if record["seed"] == chosen]
    name = label(trained) + ("" if chosen is None else f", seed {chosen}")
    if not any(record["training"] for record in trained):
        raise UsageError(f"{name} learned nothing: export writes what a run trained.{_instead(records, store)}")
    recipe_name = trained[0]["method"]["name"]
    place = store.encoder_folder(recipe_name, trained[0]["encoder_key"])
    if not (place / "encoder").is_dir():
        raise MissingError(
            f"{place} is gone, though {results} has scores of it; run {short_name(recipe_name)} again elsewhere."
        )
    from zoo.api import load
    from zoo.formats.export import StockModules, modules_of, write_sentence_transformers

    spec = recipe_of_method(trained[0]["method"], given_recipes(results))
    says = (place / "encoder" / "method.json").is_file()
    try:
        encoder = load(place, method=None if says or spec is None else spec.method)
    except MissingError as error:
        raise MissingError(f"{error}{plugins_of(trained[0])}") from error
    try:
        modules = modules_of(encoder)
    except UsageError as error:
        raise UsageError(f"{error}{_instead(records, store)}") from error
    base = {}
    if isinstance(modules, StockModules):
        base = base_card(modules.backbone.source.location, modules.backbone.source.revision)
    known = base | {key: value for key, value in (("license", licence), ("language", language)) if value}
    # The card of an upload names the place that its readers load from.
    card = export_card(repository or folder.resolve().name, trained, known, row, about, spec)
    write_sentence_transformers(encoder, folder, {"README.md": card})
    return name


def _instead(records: Sequence[Record], store: Records) -> str:
    called = printed_names(record["method"]["name"] for record in records)
    names = sorted(
        {
            called[record["method"]["name"]]
            for record in records
            if dict(record["method"]["traits"]).get("exports")
            and record["training"]
            and (store.encoder_folder(record["method"]["name"], record["encoder_key"]) / "encoder").is_dir()
        }
    )
    if not names:
        return f" Nothing in {store.folder} can be exported; train simcse, ptbert or sbert, say."
    return f" Of {store.folder} these can be exported: {', '.join(names)}."


def base_card(location: str, revision: str | None) -> dict[str, object]:
    from zoo.engine.backbone import find_backbone

    try:
        text = (find_backbone(location, revision).folder / "README.md").read_text(encoding="utf-8")
        front = yaml.safe_load(text.split("---\n")[1]) if text.startswith("---\n") else {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ZooError):
        return {}
    return {key: front[key] for key in ("license", "language") if isinstance(front, dict) and front.get(key)}


def export_card(
    name: str,
    records: Sequence[Record],
    known: dict[str, object],
    row: Sequence[Record] = (),
    about: str = "",
    spec: RecipeSpec | None = None,
) -> str:
    first = records[0]
    method = first["method"]["name"]
    training = next(r["training"] for r in records if r["training"])
    source = f"{spec.summary} ({spec.paper})" if spec and spec.paper else (spec.summary if spec else "")
    seed = "" if first["seed"] is None else f", seed {first['seed']}"
    backbone: dict[str, object] = dict(first["method"]["sources"].get("backbone") or {})
    lines = [
        "---",
        card_data(
            name,
            records,
            language=known.get("language", "en"),
            license=known.get("license", "unknown"),
            library_name="sentence-transformers",
            pipeline_tag="sentence-similarity",
            base_model=_hub_id(backbone),
            tags=["sentence-transformers", "sentence-similarity", "feature-extraction", "zoo-bench"],
        ).to_yaml(),
        "---",
        f"# {markdown_text(_title(first, backbone) or name)}",
        "",
        f"Method {code_span(short_name(method))}{seed}: {markdown_text(source)}."
        f" Made by zoo-bench {markdown_text(first['version'])}.",
        "",
        *([markdown_text(about), ""] if about else []),
        "```python",
        "from sentence_transformers import SentenceTransformer",
        "",
        f"vectors = SentenceTransformer({without_orders(json.dumps(name, ensure_ascii=False))}).encode("
        '["A small dog runs.", "A puppy is running."])',
        "```",
        "",
        "## Training",
        "",
        *(f"- {markdown_text(f'{key}: {value}')}" for key, value in _trained(training, backbone).items()),
        "",
        "## Settings",
        "",
        *(f"- {markdown_text(f'{key}: {value}')}" for key, value in first["method"]["recipe"].items()),
        "",
        f"## Scores (x100, {first['precision']})",
        "",
        "| Task | Metric | This encoder | All seeds |",
        "|:--|:--|--:|--:|",
        *(_scored(record, row) for record in records),
        "",
        "The scores are of the encoder as zoo-bench measured it. Its sentence-transformers form gave the same vectors",
        "for eight sentences when it was written.",
        "",
        "## Licence",
        "",
        markdown_text(f"{known['license']}.")
        if "license" in known
        else "Not stated by the base model's card; its terms and those of the training text apply.",
        "",
    ]
    return "\n".join(lines)


def _hub_id(backbone: Mapping[str, object]) -> str | None:
    """Return the base model's id on the hub; what lies in a folder or is bundled here has none."""
    name = str(backbone.get("name") or "")
    return None if not name or backbone.get("local") or name in {*BUNDLED, *MADE} else name


def _title(record: Record, backbone: Mapping[str, object]) -> str:
    name = paper_name(*recipe_of(record["method"]))
    return f"{name} on {backbone['name']}" if name and backbone.get("name") else name


def _scored(record: Record, row: Sequence[Record]) -> str:
    same = [r for r in row if r["task"]["name"] == record["task"]["name"] and r["limit"] == record["limit"]]
    scores = [100 * main_score(r) for r in same if r["status"] == "ok"]
    over = f"{fmean(scores):.2f} ± {stdev(scores):.2f} ({len(scores)})" if len(scores) > 1 else ""
    metric, main = scores_of(record)["main_metric"], main_score(record)
    trial = "" if record["limit"] is None else f" (trial on {record['limit']} rows of each subset)"
    return markdown_row([record["task"]["name"], metric, f"{100 * main:.2f}{trial}", over])


def _trained(training: TrainingPart, backbone: dict[str, object]) -> dict[str, object]:
    corpus = training.get("corpus") or {}
    size = next((f"{corpus[unit]:,} {unit}" for unit in ("sentences", "pairs") if unit in corpus), None)
    known = [catalog()[part] for part in str(corpus.get("name", "")).split("+") if part in catalog()]
    fields = {
        "base model": f"{backbone['name']} (sha256 {backbone['sha256']})"
        if {"name", "sha256"} <= set(backbone)
        else "",
        "text": f"{size} of {corpus['name']} (sha256 {corpus['sha256']})" if size else None,
        "licence of the text": "; ".join(entry.licence for entry in known),
        "steps": training.get("steps"),
        "checkpoint": f"step {training['best_step']}, best on {training['dev_task']}"
        if training.get("best_step") and training.get("dev_task")
        else None,
        "seconds": training.get("seconds"),
    }
    return {key: value for key, value in fields.items() if value}


def push_folder(folder: Path, repository: str, *, private: bool = False) -> str:
    """Upload to OWNER/NAME, created if needed; returns the commit's URL. Raises ZooError if the hub refuses."""
    from huggingface_hub import HfApi

    try:
        api = HfApi()
        api.create_repo(repository, private=private, exist_ok=True)
        message = f"Upload {folder.resolve().name}, made by zoo-bench"
        commit = api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message)
    except Exception as error:
        # The hub's client raises many kinds; each means that nothing was published.
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ZooError(
            f"{folder} was not pushed to {repository}: {reason}. It lies there complete; log in with `hf auth login`,"
            f" then `hf upload {repository} {folder}`."
        ) from error
    return str(commit.commit_url)
