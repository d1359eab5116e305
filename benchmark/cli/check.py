"""`zoo-bench check`: does a method keep the Encoder contract, or a task its interface?"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from benchmark.cli.complete import Named, recipe_names, task_names
from benchmark.cli.options import data_option, load_plugins, plugin_option, say
from benchmark.data.sources import DataSource
from benchmark.run.options import PRECISIONS
from benchmark.tasks import TASKS
from benchmark.tasks.base import check_task
from zoo.check import problem_of
from zoo.conformance import check
from zoo.encoder import Runtime
from zoo.machine import make_runtime
from zoo.plugins import METHODS
from zoo.recipes import RecipeSpec, all_recipes
from zoo.selection import parse_methods


@click.command("check")
@click.argument("names", metavar="METHODS|TASKS", type=Named(recipe_names, task_names, files=True))
@click.option("--backbone", help="Backbone to check a method on [default: zoo-small].")
@click.option("--device", default="cpu")
@click.option("--precision", type=click.Choice(PRECISIONS), default="fp32")
@data_option
@plugin_option
def command(
    names: str, backbone: str | None, device: str, precision: str, data: str | None, plugins: tuple[Path, ...]
) -> int:
    """Test in seconds the behaviour of methods or tasks that a run relies on; a method that learns is fitted first.

    A problem of a plugin is printed with the plugin's line.
    """
    load_plugins(plugins)
    failures = 0
    tasks = [TASKS.canonical(name.strip()) for name in names.split(",")]
    if all(name in TASKS for name in tasks):
        for name in tasks:
            before = failures
            for what, problem in check_task(TASKS.get(name), DataSource.from_options(data)):
                failures += _told(name, what, problem)
            if failures == before:
                recorded = problem_of(type(TASKS.get(name)), lambda name=name: _record(name, data), "load")  # type: ignore[misc]
                failures += _told(name, "a record of random vectors", recorded)
        return 1 if failures else 0
    runtime = make_runtime(device, precision)
    for spec in parse_methods(names, all_recipes()):
        failures += _check_method(spec, backbone, Runtime(runtime.device, runtime.precision))
    return 1 if failures else 0


def _record(task: str, data: str | None) -> str | None:
    """Measure the control of random vectors into a folder of its own, as a run does; return why it has no score."""
    from benchmark.api import evaluate

    with tempfile.TemporaryDirectory() as folder:
        evaluate("random", task, results=folder, data=data, quiet=True, seeds=1, controls=False)
    return None


def _check_method(spec: RecipeSpec, backbone: str | None, runtime: Runtime) -> int:
    """Returns the number of failures."""
    # `pretrained` without a model names no encoder; the bundled model with a pooling is used instead.
    extra = {"pooling": "mean"} if spec.method == "pretrained" and not spec.parameters else {}
    cls, recipe = spec.resolve({**extra, **({"backbone": backbone} if backbone else {})})
    failures = sum(_told(spec.name, what, problem) for what, problem in check(cls, recipe, runtime, spec.name))
    if METHODS.is_builtin(spec.method):
        return failures
    sources: list[object] = []
    problem = problem_of(cls, lambda: sources.append(cls.sources(recipe, runtime)), "sources")
    if problem is not None:
        return failures + _told(spec.name, "sources", problem)
    if not sources[0]:
        say(
            f"note  {spec.name}: sources() names no file; where the method reads weights or vectors of its own,"
            " return their name and sha256 there, so that records show what a score was made with"
        )
    return failures


def _told(name: str, what: str, problem: str | None) -> bool:
    """Returns True for a failure."""
    say(f"ok    {name}: {what}" if problem is None else f"FAIL  {name}: {what}: {problem}")
    return problem is not None
