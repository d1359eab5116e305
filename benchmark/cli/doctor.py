"""`zoo-bench doctor`: is it well, this machine, or a method or a task?"""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from benchmark.cli.complete import Named, recipe_names, task_names
from benchmark.cli.main import COMMANDS
from benchmark.cli.options import data_option, json_option, load_plugins, plugin_option, say, say_json
from benchmark.data.sources import DataSource, data_rows, data_sets
from benchmark.records.folder import Records
from benchmark.records.record import Record
from benchmark.run.cache import cache_bytes, embeddings_folder
from benchmark.run.options import PRECISIONS
from benchmark.tasks import TASKS
from benchmark.tasks.base import Task, check_task
from zoo import __version__
from zoo.check import problem_of
from zoo.conformance import check
from zoo.encoder import Runtime
from zoo.engine.backbone import find_backbone
from zoo.errors import ContractError, ZooError, error_text
from zoo.files import check_writable
from zoo.machine import choose_precision, cpu_bf16, environment, make_runtime
from zoo.paths import cache_folder
from zoo.plugins import METHODS
from zoo.recipes import RecipeSpec, all_recipes
from zoo.selection import BUNDLED, parse_methods

# Spearman x100 of a row that this version measures everywhere; machines add in other orders.
_ELSEWHERE, _ROUNDING, _HALF = 68.14, 0.05, 0.5
Fact = tuple[str, str]
"""A line of the report: its subject and its text."""


def findings(
    data: str | None, backbone: str | None = None, device: str = "cpu", precision: str = "fp32"
) -> tuple[list[Fact], dict[str, Any], int]:
    """Return lines, plain values, and the number of broken things every run needs."""
    import torch

    lines: list[Fact] = []
    facts = environment("cpu")
    bf16 = cpu_bf16()
    values: dict[str, Any] = {
        "zoo_bench": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": facts["packages"],
        "cpu": {"name": facts["cpu"], "threads": facts["threads"], "bf16": bf16},
        "precision": {"cpu": choose_precision("auto", "cpu")},
        "cuda": [],
    }
    lines.append((f"zoo-bench {__version__}", f"Python {values['python']}, {values['platform']}"))
    lines.append(("packages", ", ".join(f"{name} {version}" for name, version in facts["packages"].items())))
    lines.append(("cpu", f"{facts['cpu']}, {facts['threads']} threads"))
    cap = f", oneDNN capped at {bf16['isa_cap']} (more kills the process here)" if bf16["isa_cap"] else ""
    lines.append(
        (
            "cpu bfloat16",
            f"works, products {bf16['speedup']:.1f} times as fast as in float32{cap}"
            if bf16["bfloat16"]
            else "none, or not usable",
        )
    )
    lines.append(("precision on cpu", values["precision"]["cpu"]))
    for i in range(torch.cuda.device_count()) if torch.cuda.is_available() else ():
        memory = torch.cuda.get_device_properties(i).total_memory / 2**30
        name, precision = torch.cuda.get_device_name(i), choose_precision("auto", f"cuda:{i}")
        values["cuda"].append({"device": f"cuda:{i}", "name": name, "gib": round(memory, 1), "precision": precision})
        lines.append((f"cuda:{i}", f"{name}, {memory:.0f} GiB, precision {precision}"))
    if not values["cuda"]:
        lines.append(("cuda", f"none usable (torch {torch.__version__})"))
    values["mps"] = torch.backends.mps.is_available()
    if values["mps"]:
        lines.append(("mps", f"usable by --device mps, precision {choose_precision('auto', 'mps')}"))
    problems = [
        *_backbones([*BUNDLED, *([backbone] if backbone else [])], lines, values),
        *_caches(lines, values),
        *_score(device, precision, lines, values),
    ]
    values["data"] = data_sets(data)
    for name, form, rows, source, _ in data_rows(data):
        lines.append((f"data {name} ({form})", f"{source}; {rows}"))
    values["broken_plugins"] = _broken_plugins()
    lines += [(f"plugin {name}", f"BROKEN: {reason}") for name, reason in values["broken_plugins"].items()]
    values["problems"] = problems
    return lines, values, len(problems)


def _broken_plugins() -> dict[str, str]:
    broken: dict[str, str] = {}
    for registry in (METHODS, TASKS):
        list(registry.load_all())
        broken |= registry.broken()
    for point in importlib.metadata.entry_points(group="zoo_bench.commands"):
        name = f"{point.name} of {point.dist.name if point.dist else '?'}"
        if point.name in COMMANDS:
            broken[name] = f"the command {point.name!r} is of zoo-bench. Rename one."
            continue
        try:
            point.load()
        except Exception as error:
            # What another package raises while it is imported concerns its command alone.
            broken[name] = error_text(error)
    return broken


def _backbones(names: list[str], lines: list[Fact], values: dict[str, Any]) -> list[str]:
    problems = []
    values["backbones"] = {}
    for name in names:
        try:
            values["backbones"][name] = digest = find_backbone(name).sha256
            lines.append((f"backbone {name}", f"{'bundled, ' * (name in BUNDLED)}sha256 {digest[:16]}"))
        except ZooError as error:
            problems.append(f"backbone {name}: {error}")
            lines.append((f"backbone {name}", f"BROKEN: {error}"))
    return problems


def _caches(lines: list[Fact], values: dict[str, Any]) -> list[str]:
    problems = []
    cache = cache_folder()
    values["cache"] = {"folder": str(cache)}
    try:
        check_writable(cache)
        free = shutil.disk_usage(cache).free / 2**30
        values["cache"]["free_gib"] = round(free, 1)
        lines.append(("cache", f"{cache}, writable, {free:.1f} GiB free"))
    except ZooError as error:
        problems.append(f"cache: {error}")
        lines.append(("cache", f"BROKEN: {error}"))
    size = cache_bytes()
    values["embedding_cache"] = {"folder": str(embeddings_folder()), "bytes": size}
    lines.append(("embedding cache", f"{embeddings_folder()}, {size / 10**9:.2f} GB (may be deleted at any time)"))
    return problems


def _score(device: str, precision: str, lines: list[Fact], values: dict[str, Any]) -> list[str]:
    """Measure a row without training; its score is equal on other machines."""
    from benchmark.api import evaluate

    row: dict[str, Any] = {
        "backbone": "zoo-small",
        "precision": precision,
        "device": device,
        "controls": False,
        "embedding_cache": 0.0,
    }
    try:
        value = evaluate("avg-last", "pocket-words", quiet=True, **row).tables[0].rows[0].average.text()
    except ZooError as error:
        lines.append(("score", f"BROKEN: {error}"))
        return [f"score: {error}"]
    values["score"] = {"measured": value, "elsewhere": _ELSEWHERE}
    equal = value != "n/a" and abs(float(value) - _ELSEWHERE) <= (_ROUNDING if precision == "fp32" else _HALF)
    what = "as" if equal else "BROKEN: not as"
    lines.append(("score", f"avg-last on pocket-words, zoo-small: {value}, {what} on other machines ({_ELSEWHERE})"))
    return [] if equal else [lines[-1][1]]


def checks(
    names: str, backbone: str | None, runtime: Runtime, data: str | None
) -> Iterator[tuple[str, str, str | None]]:
    """Yield (name, what is checked, None or the problem) of methods or of tasks."""
    tasks = [TASKS.canonical(name.strip()) for name in names.split(",")]
    if not all(name in TASKS for name in tasks):
        if backbone:
            find_backbone(backbone)
        for spec in parse_methods(names, all_recipes()):
            yield from ((spec.name, *result) for result in _method_checks(spec, backbone, runtime))
        return
    for name in tasks:
        task, well = TASKS.get(name), True
        for what, problem in check_task(task, DataSource.from_options(data)):
            well &= problem is None
            yield name, what, problem
        if well:
            yield from ((name, *result) for result in _record_checks(name, task, data))


def _record_checks(name: str, task: Task, data: str | None) -> Iterator[tuple[str, str | None]]:
    records: list[Record] = []
    problem = problem_of(type(task), lambda: records.extend(_records(name, data)), "score")
    yield "a record of random vectors", problem
    if problem is None and not (records[0].get("items") or records[0].get("pairs")):
        yield _NO_ITEMS, None


def _records(task: str, data: str | None) -> list[Record]:
    """Measure the control of random vectors into a folder of its own, as a run does, and verify it."""
    from benchmark.api import evaluate
    from benchmark.checking.verify import verify

    with tempfile.TemporaryDirectory() as folder:
        evaluate("random", task, results=folder, data=data, quiet=True, seeds=1, controls=False)
        for verdict in verify(Path(folder), data).verdicts:
            if verdict.word == "differs":
                raise ContractError(f"score(): verify says of its record: {verdict.why}")
        return Records(Path(folder)).all()


def _method_checks(spec: RecipeSpec, backbone: str | None, runtime: Runtime) -> Iterator[tuple[str, str | None]]:
    # `pretrained` without a model names no encoder; the bundled model with a pooling is used instead.
    extra = {"pooling": "mean"} if spec.method == "pretrained" and not spec.parameters else {}
    cls, recipe = spec.resolve({**extra, **({"backbone": backbone} if backbone else {})})
    well = True
    for what, problem in check(cls, recipe, runtime, spec.name):
        well &= problem is None
        yield what, problem
    if not well or METHODS.is_builtin(spec.method):
        return
    sources: list[object] = []
    if problem := problem_of(cls, lambda: sources.append(cls.sources(recipe, runtime)), "sources"):
        yield "sources", problem
    elif not sources[0]:
        yield _NO_SOURCES, None


_NO_ITEMS = (
    "score() returns no `items`, so that `compare` has no interval; where `main` is a mean, return"
    ' {"values": [...]}, the number of each item'
)
_NO_SOURCES = (
    "sources() names no file; where the method reads weights or vectors of its own, return their name and sha256"
    " there, so that records show what a score was made with"
)


@click.command("doctor")
@click.argument("names", metavar="[METHODS|TASKS]", required=False, type=Named(recipe_names, task_names, files=True))
@click.option("--backbone", help="Backbone of a method [default: zoo-small], or one more to look for.")
@click.option("--device", default="cpu", help="Device to encode on.")
@click.option("--precision", type=click.Choice(PRECISIONS), default="fp32", help="Precision to encode in.")
@data_option
@plugin_option
@json_option
def command(
    names: str | None,
    backbone: str | None,
    device: str,
    precision: str,
    data: str | None,
    plugins: tuple[Path, ...],
    as_json: bool,
) -> int:
    """Say whether this machine is well, or test methods or tasks for what a run relies on.

    Of the machine: versions, devices, precision, data, cache, disk, and whether a row has the score of other machines.
    A method that learns is fitted first; a problem of a plugin is printed with the plugin's line. All in seconds.
    Exits with 1 when something is broken.
    """
    load_plugins(plugins)
    if names is not None:
        results = []
        for name, what, problem in checks(names, backbone, make_runtime(device, precision), data):
            results.append({"name": name, "what": what, "problem": problem})
            if not as_json:
                mark = "FAIL" if problem else "note" if what in (_NO_SOURCES, _NO_ITEMS) else "ok"
                say(f"{mark:5} {name}: {what}" + (f": {problem}" if problem else ""))
        problems = sum(result["problem"] is not None for result in results)
        if as_json:
            say_json({"checks": results, "problems": problems})
        return 1 if problems else 0
    lines, values, problems = findings(data, backbone, device, precision)
    if as_json:
        say_json(values)
    else:
        (name, first), *rest = lines
        say(f"{name}, {first}")
        for about, text in rest:
            say(f"{about}: {text}")
    return 1 if problems else 0
