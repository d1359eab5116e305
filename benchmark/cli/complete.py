"""Shell completion for methods, tasks, suites, run files and commands. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, FishComplete, add_completion_class

from zoo.paths import resource_folder

if TYPE_CHECKING:
    _Text = click.ParamType[Any]
else:
    # Older releases of click have no type variable here.
    _Text = click.ParamType


def _stems(package: str, folder: str) -> list[str]:
    return sorted(path.stem for path in (resource_folder(package, "configs") / folder).glob("*.yaml"))


def recipe_names() -> list[str]:
    """Return the names of shipped recipes and of plugins, without reading their files."""
    import importlib.metadata

    plugins = [point.name for point in importlib.metadata.entry_points(group="zoo_bench.methods")]
    return sorted({*_stems("zoo", "methods"), *plugins})


def task_names() -> list[str]:
    from benchmark.tasks import TASKS

    return TASKS.names()


def suite_names() -> list[str]:
    return _stems("benchmark", "suites")


class Named(_Text):
    """A name, or a comma-separated list; completion is for the last name, and for files."""

    name = "text"

    def __init__(self, *known: Callable[[], Iterable[str]], many: bool = True, files: bool = False) -> None:
        self.known, self.many, self.files = known, many, files

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",") if self.many else ("", "", incomplete)
        given = ctx.params.get(str(param.name)) if self.many else None
        taken = {*before.split(","), *(given or "").split(",")}
        names = dict.fromkeys(name for known in self.known for name in known())
        items = [
            CompletionItem(before + comma + name)
            for name in names
            if name.lower().startswith(last.lower()) and name not in taken
        ]
        if self.files and not items and not comma:
            return [CompletionItem(incomplete, type="file")]
        return items


class FishLists(FishComplete):
    """click's completion for fish, with commas allowed in completions."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


def prepare_shells() -> None:
    """Replace click's completion scripts for shells on which they fail."""
    add_completion_class(FishLists)


METHODS_LIST = Named(recipe_names, files=True)
METHOD = Named(recipe_names, many=False)
TASKS_LIST = Named(task_names)
TASK = Named(task_names, many=False)
SUITES_LIST = Named(suite_names, files=True)
SUITE = Named(suite_names, many=False)
TASKS_OR_SUITES = Named(task_names, suite_names)
TRACKERS = Named(lambda: ("tensorboard", "wandb", "mlflow", "trackio", "swanlab", "all"))
RUN_FILE = Named(lambda: _stems("benchmark", "runs"), many=False, files=True)
