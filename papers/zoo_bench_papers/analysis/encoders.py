"""Encoders of an analysis: made at once without training, or trained, from a results folder."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark.records.folder import Records, read_records
from benchmark.records.names import printed_names
from benchmark.records.record import Record
from benchmark.run.vectors import VectorStore
from benchmark.tasks.loaded import LoadedTask
from zoo.encoder import Encoder, Runtime, Traits
from zoo.errors import MissingError, UsageError
from zoo.recipes import RecipeSpec, all_recipes
from zoo.selection import parse_methods


@dataclass(frozen=True)
class ChosenEncoder:
    name: str
    sources: dict[str, Any]
    seed: int | None
    traits: Traits
    obtain: Callable[[], Encoder]

    def row(self) -> dict[str, Any]:
        return {"Method": self.name, "Backbone": self.sources.get("backbone", {}).get("name", "-"), "Seed": self.seed}

    def label(self) -> str:
        row = self.row()
        return f"{self.name}, {row['Backbone']}" + ("" if self.seed is None else f", seed {self.seed}")

    def encoder_for(self, encoder: Encoder, texts: Sequence[str]) -> Encoder:
        """The encoder for a data set; a transductive encoder is fitted on these unlabelled texts."""
        return encoder.adapt(texts) if self.traits.transductive else encoder


def columns(chosen: Sequence[ChosenEncoder]) -> dict[str, int | None]:
    seeds = ["Seed"] if any(encoder.seed is not None for encoder in chosen) else []
    return dict.fromkeys(["Method", "Backbone", *seeds])


def choose_encoders(
    methods: str, backbones: Sequence[str], results: Path | None, runtime: Runtime
) -> list[ChosenEncoder]:
    """Every recipe on every backbone, trained in all seeds; raises UsageError or MissingError."""
    chosen: list[ChosenEncoder] = []
    wished: list[str | None] = [*backbones] or [None]
    specs = parse_methods(methods, all_recipes())
    called = printed_names(spec.name for spec in specs)
    for spec in specs:
        seen: list[object] = []
        for backbone in wished:
            cls, recipe = spec.resolve({} if backbone is None else {"backbone": backbone})
            # This recipe names its own backbone.
            if recipe in seen:
                continue
            seen.append(recipe)
            traits = cls.traits(recipe)
            if traits.needs_corpus or traits.needs_pairs:
                wanted = None if backbone is None else cls.sources(recipe, runtime)
                chosen += _saved(spec, called[spec.name], cls, traits, results, wanted, runtime)
            else:
                sources = cls.sources(recipe, runtime)
                chosen.append(
                    ChosenEncoder(called[spec.name], sources, None, traits, functools.partial(cls, recipe, runtime))
                )
    return chosen


def _saved(
    spec: RecipeSpec,
    called: str,
    cls: type[Encoder],
    traits: Traits,
    results: Path | None,
    sources: dict[str, Any] | None,
    runtime: Runtime,
) -> list[ChosenEncoder]:
    train = f"train it with `zoo-bench run --methods {spec.name}`"
    if results is None:
        raise UsageError(f"{spec.name} is trained: {train} and name that results folder with --results.")
    records: dict[str, Record] = {}
    store = Records(results)
    for record in read_records(store):
        if record["method"]["name"] != spec.name or record["status"] != "ok":
            continue
        if sources is None or record["method"]["sources"] == sources:
            records.setdefault(record["encoder_key"], record)
    if not records:
        on = "" if sources is None else f" on {sources.get('backbone', {}).get('name')}"
        raise MissingError(f"{results} has no trained {spec.name}{on}; {train}.")
    conditions = {record["row_key"] for record in records.values()}
    chosen = []
    for key, record in sorted(records.items(), key=lambda item: (item[1]["row_key"], item[1]["seed"] or 0)):
        folder = store.encoder_folder(spec.name, key) / "encoder"
        if not folder.is_dir():
            raise MissingError(f"{folder} is gone, though {results} has scores of it; {train} again.")
        # The same recipe trained under different conditions (corpus, precision ...) is named as in the leaderboard.
        name = called if len(conditions) == 1 else f"{called} [{record['row_key'][:8]}]"
        obtain = functools.partial(cls.load, folder, runtime)
        chosen.append(ChosenEncoder(name, record["method"]["sources"], record["seed"], traits, obtain))
    return chosen


def task_scores(
    chosen: ChosenEncoder, encoder: Encoder, task: LoadedTask
) -> tuple[float | None, float | None, str | None]:
    if task.data is None:
        return None, None, f"{task.name}: {task.reason}"
    task.data.device = encoder.runtime.device
    vectors = VectorStore(chosen.encoder_for(encoder, task.data.unlabelled()), chosen.name)
    result = task.data.score(vectors)
    try:
        dev = task.data.score_dev(vectors)
    except TypeError:
        # The task has no development split.
        dev = math.nan
    main = None if result["main"] is None else 100 * result["main"]
    return main, dev if math.isfinite(dev) else None, None if main is not None else f"{task.name}: {result['reason']}"


def average(scores: Sequence[float | None]) -> float | None:
    present = [score for score in scores if score is not None]
    return statistics.fmean(present) if present and len(present) == len(scores) else None
