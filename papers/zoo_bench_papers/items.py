"""Tables and figures of the papers: their commands, or why there are none (configs/papers/*.yaml)."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace

from benchmark.report.published import PublishedRow, published
from benchmark.run.options import RunOptions
from zoo.errors import UsageError, did_you_mean
from zoo.files import read_yaml
from zoo.paths import resource_folder

# A figure shows the course of a training on a corpus smaller than the papers' million.
_EVALUATIONS = 20
_BATCH, _EVERY = 64, 125
_ALL = 10**9


class Reading(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Values of an analysis's JSON file for printed values; names are keys of its rows."""

    # Below the working folder; a glob where a part of the name is a digest.
    file: str
    # The rows' place in the file: names joined by dots.
    rows: str
    recipe: str = ""
    printed: str = ""
    backbone: str = ""
    column: str = ""
    value: str = ""
    subset: str | None = None
    where: dict[str, str] = {}
    columns: dict[str, str] = {}


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    command: str
    only_as_printed: bool = False
    options: dict[str, Any] = {}
    rows: dict[str, str] = {}
    read: Reading | None = None


class Item(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    what: str
    paper: str
    backbone: str = ""
    train_sentences: int | None = None
    tables: tuple[str, ...] = ()
    none: str = ""
    needs: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()
    # Its first steps make the backbones that the other steps use.
    own_backbones: bool = False
    prints: dict[str, dict[str, str]] = {}
    steps: tuple[Step, ...] = ()

    def lines(self) -> list[PublishedRow]:
        return [
            line for line in published().lines if line.table.paper == self.paper and line.table.table in self.tables
        ]


@dataclass(frozen=True, kw_only=True)
class PaperOptions:
    """The user's options for all steps: options of `run` by long names; None if absent."""

    results: Path
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, Any]:
        return {name: value for name, value in self.options.items() if value not in (None, False, ())}

    def folder(self, item: Item) -> Path:
        return self.results / "papers" / item.name

    def places(self, item: Item) -> dict[str, str]:
        sentences = self.values.get("train-sentences")
        every = _EVERY if sentences is None else min(_EVERY, max(1, sentences // _BATCH // _EVALUATIONS))
        return {"results": str(self.results), "folder": str(self.folder(item)), "eval_every": str(every)}


def all_items() -> dict[str, Item]:
    items: dict[str, Item] = {}
    for paper in ("ptbert", "burt", "promptbert", "later"):
        content = read_yaml(resource_folder("zoo_bench_papers", "configs") / "papers" / f"{paper}.yaml")
        shared = {key: content[key] for key in ("paper", "backbone", "train_sentences") if key in content}
        of_paper = {name: {"name": name, **shared, **entry} for name, entry in content["items"].items()}
        items |= msgspec.convert(of_paper, dict[str, Item])
    return items


def item(name: str) -> Item:
    items = all_items()
    if name not in items:
        raise UsageError(
            f"no table or figure {name!r}.{did_you_mean(name, items)} `zoo-bench reproduce --list` has all."
        )
    return items[name]


def filled(value: Any, places: Mapping[str, str]) -> Any:
    """A YAML value, lists too, with its placeholders (`{results}` ...) replaced."""
    if isinstance(value, list):
        return [filled(part, places) for part in value]
    if isinstance(value, str):
        for name, text in places.items():
            value = value.replace(f"{{{name}}}", text)
    return value


def steps_of(item: Item, chosen: PaperOptions) -> list[Step]:
    """Steps for the chosen methods and backbone; raises UsageError for an unmatched name."""
    steps = [step for step in item.steps if not (step.only_as_printed and chosen.values.get("backbone"))]
    if "methods" not in chosen.values:
        return steps
    listed = list(dict.fromkeys(name for step in steps for name in step.options.get("methods", ())))
    names: set[str] = set()
    for glob in (part.strip() for part in chosen.values["methods"].split(",")):
        matched = {name for name in listed if fnmatch.fnmatchcase(name, glob)}
        if not matched:
            raise UsageError(f"{glob!r} is none of the methods of {item.name}: {', '.join(listed) or 'it has none'}.")
        names |= matched
    kept = []
    for step in steps:
        of_step = [name for name in step.options.get("methods", ()) if name in names]
        if of_step:
            kept.append(replace(step, options={**step.options, "methods": of_step}))
        elif "methods" not in step.options:
            kept.append(step)
    return kept


def options_of(item: Item, step: Step, chosen: PaperOptions, known: Collection[str]) -> dict[str, Any]:
    """A step's options by long names, then the user's; only the command's `known` options pass."""
    options = dict(step.options)
    if "backbone" in known and not item.own_backbones:
        options.setdefault("backbone", item.backbone)
    for name, count in (("train-sentences", item.train_sentences), ("train-pairs", None)):
        if name in known:
            # Of a suite's own text, a run takes a part.
            options.setdefault(name, count or _ALL)
    given = {name: value for name, value in chosen.values.items() if name in known}
    given.pop("methods", None)
    if item.own_backbones:
        given.pop("backbone", None)
    if step.command.startswith("pretrain ") and "pretrain-text" in chosen.values:
        given["text"] = chosen.values["pretrain-text"]
    if "limit-pairs" in known and chosen.values.get("limit"):
        given["limit-pairs"] = chosen.values["limit"]
    options |= given
    if "results" in known and ("out" not in options or step.command.startswith("analyze ")):
        options["results"] = str(chosen.results)
    if "allow-missing" in known:
        options["allow-missing"] = True
    return {name: filled(value, chosen.places(item)) for name, value in options.items()}


_ONE_TEXT = ("methods", "tasks", "suite")


def words_of(options: Mapping[str, Any]) -> list[str]:
    line: list[str] = []
    for name, value in options.items():
        if isinstance(value, list) and name not in _ONE_TEXT:
            line += [word for part in value for word in (f"--{name}", str(part))]
        elif value is True:
            line.append(f"--{name}")
        else:
            line += [f"--{name}", ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    return line


def run_options(options: Mapping[str, Any], usual: Mapping[str, Any] = MappingProxyType({})) -> RunOptions:
    """Options of a `run` from those by long names; `usual`: the environment's, by fields."""
    values = {name: ",".join(map(str, value)) if isinstance(value, list) else value for name, value in options.items()}
    fields: dict[str, Any] = {_FIELDS.get(name, name.replace("-", "_")): value for name, value in values.items()}
    if fields.pop("no_controls", False):
        fields["controls"] = False
    # As many processes as the command `run` takes.
    return RunOptions(**{"workers": None, **usual, **fields, "results": Path(fields["results"])})


_FIELDS = {"suite": "suites", "out": "results"}


def methods_of(item: Item, chosen: PaperOptions) -> list[str]:
    named: dict[str, None] = {}
    for step in steps_of(item, chosen):
        if step.command == "run":
            named |= dict.fromkeys(filled(step.options["methods"], chosen.places(item)))
    return list(named)
