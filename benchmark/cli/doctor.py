"""`zoo-bench doctor`: devices, data and caches of this machine, and missing parts."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
from typing import Any

import click

from benchmark.cli.main import COMMANDS
from benchmark.cli.options import data_option, json_option, say, say_json
from benchmark.data.sources import data_rows, data_sets
from benchmark.run.cache import cache_bytes, embeddings_folder
from benchmark.tasks import TASKS
from zoo import __version__
from zoo.engine.backbone import find_backbone
from zoo.errors import ZooError, error_text
from zoo.files import check_writable
from zoo.machine import choose_precision, cpu_bf16, environment
from zoo.paths import cache_folder
from zoo.plugins import METHODS
from zoo.selection import BUNDLED

# Spearman x100 of a row that this version measures everywhere; machines add in other orders.
_ELSEWHERE, _ROUNDING = 68.14, 0.05
Fact = tuple[str, str]
"""A line of the report: its subject and its text."""


def findings(data: str | None) -> tuple[list[Fact], dict[str, Any], int]:
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
    problems = [*_backbones(lines, values), *_caches(lines, values), *_score(lines, values)]
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


def _backbones(lines: list[Fact], values: dict[str, Any]) -> list[str]:
    problems = []
    values["backbones"] = {}
    for name in BUNDLED:
        try:
            values["backbones"][name] = find_backbone(name).sha256
            lines.append((f"backbone {name}", f"bundled, sha256 {values['backbones'][name][:16]}"))
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


def _score(lines: list[Fact], values: dict[str, Any]) -> list[str]:
    """Measure a row without training; its score is equal on other machines."""
    from benchmark.api import evaluate

    row: dict[str, Any] = {
        "backbone": "zoo-small",
        "precision": "fp32",
        "device": "cpu",
        "controls": False,
        "embedding_cache": 0.0,
    }
    try:
        value = evaluate("avg-last", "pocket-words", quiet=True, **row).tables[0].rows[0].average.text()
    except ZooError as error:
        lines.append(("score", f"BROKEN: {error}"))
        return [f"score: {error}"]
    values["score"] = {"measured": value, "elsewhere": _ELSEWHERE}
    equal = value != "n/a" and abs(float(value) - _ELSEWHERE) <= _ROUNDING
    what = "as" if equal else "BROKEN: not as"
    lines.append(("score", f"avg-last on pocket-words, zoo-small: {value}, {what} on other machines ({_ELSEWHERE})"))
    return [] if equal else [lines[-1][1]]


@click.command("doctor")
@data_option
@json_option
def command(data: str | None, as_json: bool) -> int:
    """Show versions, devices, precision, data, cache and disk, and whether one row has the score of other machines.

    Exits with 1 when something that every run needs is broken.
    """
    lines, values, problems = findings(data)
    if as_json:
        say_json(values)
    else:
        (name, first), *rest = lines
        say(f"{name}, {first}")
        for about, text in rest:
            say(f"{about}: {text}")
    return 1 if problems else 0
